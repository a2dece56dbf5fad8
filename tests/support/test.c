/* Generic helpers of the tests. */
#include "support/test.h"

#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* A shell without job control lets what it starts in the background ignore these signals, and nohup
 * SIGHUP; programs that tests start would inherit it, and not stop when they are told to. */
__attribute__((constructor)) static void hear_signals(void)
{
    signal(SIGHUP, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    signal(SIGQUIT, SIG_DFL);
}

void lkt_fails(const char *file, int line, lks_status expected, const char *part, lks_status found)
{
    const char *message = lks_last_error()->message;
    if (found == expected && strstr(message, part)) return;
    print_error("%s:%d: expected %s with '%s', found %s with '%s'\n", file, line,
                lks_status_name(expected), part, lks_status_name(found), message);
    _fail(file, line);
}

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

const char *lkt_data_folder(void)
{
    static char path[4096];
    const char *given = getenv("LKS_TEST_DATA"), *source = getenv("LKT_SOURCE");
    if (given) {
        snprintf(path, sizeof path, "%s", given);
    } else {
        snprintf(path, sizeof path, "%s/../shared/datasets", source ? source : ".");
    }
    if (is_folder(path)) return path;
    print_message("no real data in '%s': set LKS_TEST_DATA to test with it\n", path);
    return NULL;
}

static char folder[4096];

const char *lkt_make_folder(void)
{
    const char *above = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/lockstep-test-XXXXXX", above ? above : "/tmp");
    if (!mkdtemp(folder)) fail_msg("cannot make the folder '%s'", folder);
    return folder;
}

static int remove_one(const char *path, const struct stat *info, int flag, struct FTW *walk)
{
    (void)info, (void)flag, (void)walk;
    return remove(path);
}

void lkt_remove_folder(void)
{
    if (folder[0]) nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    folder[0] = '\0';
}

lkt_random lkt_random_make(const char *test, uint64_t seed)
{
    const char *given = getenv("LKT_SEED");
    const lkt_random random = {.state = given ? strtoull(given, NULL, 0) : seed};
    print_message("%s: LKT_SEED=%" PRIu64 "\n", test, random.state);
    return random;
}

uint64_t lkt_random_bits(lkt_random *random)
{
    uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

int64_t lkt_random_below(lkt_random *random, int64_t count)
{
    return (int64_t)(lkt_random_bits(random) % (uint64_t)count);
}

int64_t lkt_random_from(lkt_random *random, int64_t least, int64_t most)
{
    return least + lkt_random_below(random, most - least + 1);
}

double lkt_random_real(lkt_random *random, double least, double most)
{
    return least + (most - least) * (double)(lkt_random_bits(random) >> 11) * 0x1p-53;
}

bool lkt_random_chance(lkt_random *random, int one_in)
{
    return lkt_random_below(random, one_in) == 0;
}

int64_t lkt_random_pick(lkt_random *random, int count, const int64_t choices[])
{
    return choices[lkt_random_below(random, count)];
}

bool lkt_make_device(const char *path, int minor)
{
    if (mknod(path, S_IFCHR | 0666, makedev(1, (unsigned)minor)) == 0) {
        const int opened = open(path,
                                O_WRONLY | O_CLOEXEC); /* not on a file system without devices */
        if (opened >= 0) close(opened);
        if (opened >= 0) return true;
        unlink(path);
    }
    return geteuid() != 0 && symlink(minor == 7 ? "/dev/full" : "/dev/null", path) == 0;
}

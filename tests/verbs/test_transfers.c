/*
 * Downloads without a network: the linker puts a place of the test's own below the verb, which gives,
 * breaks off or refuses as it is told, and SHA-256 is what the test says. What is said and what lies in
 * the folder then is compared with golden/transfers.txt:
 *
 *     LKT_SOURCE=$PWD LKT_TRANSCRIPTS=write build/release/tests/test_cli_transfers
 */
#include "cli/golden.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <lockstep/lockstep.h>

#include "cli/cli.h"
#include "cli/data/digest.h"
#include "cli/data/fetch.h"
#include "recipe/data/published.h"

/* ---------------------------------------------------------------- what is exchanged */

/* What the place does with the requests, one letter each, the last again and again: g gives all, h half of
 * what is missing, 1 one byte and nothing at a time, b breaks without a byte, r refuses, w what is
 * wrong, e is an error of this side. */
static const char *deeds;
static const char
    *wrong_names; /* files whose hash is not as published while this is in their path */
static double now, patience_seen;
static int width, fetches;

int __wrap_isatty(int file);
int __wrap_isatty(int file)
{
    return file == STDERR_FILENO && width != 0;
}

int __wrap_ioctl(int file, unsigned long request, struct winsize *size);
int __wrap_ioctl(int file, unsigned long request, struct winsize *size)
{
    (void)file;
    (void)request;
    *size = (struct winsize){.ws_col = (unsigned short)width};
    return 0;
}

double __wrap_process_clock(void);
double __wrap_process_clock(void)
{
    return now;
}

lks_status __wrap_fetch_open(cli_fetch **out);
lks_status __wrap_fetch_open(cli_fetch **out)
{
    *out = NULL;
    fetches = 0;
    return LKS_OK;
}

fetch_end __wrap_fetch_run(cli_fetch *fetch, const fetch_request *request,
                           char reason[FETCH_REASON]);
fetch_end __wrap_fetch_run(cli_fetch *fetch, const fetch_request *request,
                           char reason[FETCH_REASON])
{
    struct stat info;
    (void)fetch;
    patience_seen = request->patience;
    const char deed = *deeds;
    if (deeds[1] != '\0') deeds++;
    fetches++;
    if (fstat(request->file, &info) != 0) return FETCH_FAILED;
    const int64_t missing = request->bytes - info.st_size;
    request->progress(request->user, info.st_size);
    const int64_t more = deed == 'g' || deed == 'w' ? missing
                         : deed == 'h'              ? missing / 2
                                                    : deed == '1';
    for (int k = 1; k <= 4 && more > 1; k++) {
        now += 2.6;
        request->progress(request->user, info.st_size + more * k / 4);
    }
    if (more > 0 && ftruncate(request->file, info.st_size + more) != 0) return FETCH_FAILED;
    snprintf(reason, FETCH_REASON, "reason %c", deed);
    if (deed == 'e') (void)lks_fail(LKS_E_IO, "no space");
    return deed == 'g'   ? FETCH_DONE
           : deed == 'w' ? FETCH_WRONG
           : deed == 'r' ? FETCH_REFUSED
           : deed == 'e' ? FETCH_FAILED
                         : FETCH_BROKEN;
}

/* As published, by its name and its size. */
lks_status __wrap_digest_sha256(char out[DIGEST_SIZE], const char *path);
lks_status __wrap_digest_sha256(char out[DIGEST_SIZE], const char *path)
{
    struct stat info;
    snprintf(out, DIGEST_SIZE, "%064d", 0);
    if (wrong_names != NULL && strstr(path, wrong_names) != NULL) return LKS_OK;
    if (stat(path, &info) != 0) return lks_fail(LKS_E_IO, "no %s", path);
    for (int i = 0; i < lki_published_count; i++) {
        const lki_published *known = &lki_published_table[i];
        for (int k = 0; k < known->file_count; k++) {
            const lki_published_file *file = &known->files[k];
            if (info.st_size == file->bytes) snprintf(out, DIGEST_SIZE, "%s", file->sha256);
            if (info.st_size == k + 1 && file->sha256_plain != NULL)
                snprintf(out, DIGEST_SIZE, "%s", file->sha256_plain);
        }
    }
    return LKS_OK;
}

/* ---------------------------------------------------------------- a download */

static lks_status ended;
static const char *line_now;

static void perform(const void *user)
{
    static char words[1024];
    char *argv[32], *rest = NULL;
    int argc = 0, code = 0;
    cli_pool pool = {0};
    cli_args cli;
    (void)user;
    argv[argc++] = (char *)(uintptr_t) "lockstep";
    snprintf(words, sizeof words, "%s", line_now);
    for (char *w = strtok_r(words, " ", &rest); w != NULL; w = strtok_r(NULL, " ", &rest))
        argv[argc++] = w;
    argv[argc] = NULL;
    ended = cli_parse(&cli, &pool, argc, argv);
    if (ended == LKS_OK) ended = cli.verb->run(&cli, &code);
    pool_clear(&pool);
}

static void with_errors(const void *user)
{
    (void)user;
    write_stream(STDERR_FILENO, perform, NULL);
}

/* Does `before`, downloads, and lists the folder. */
static void get(const char *title, const char *done, const char *before, const char *line)
{
    static char list[OUTPUT_SIZE];
    char where[4096];
    assert_non_null(getcwd(where, sizeof where));
    shell("rm -rf d; mkdir d; cd d; %s", before);
    head(title);
    deeds = done;
    line_now = line;
    now = 0;
    assert_int_equal(chdir(folder), 0);
    write_stream(STDOUT_FILENO, with_errors, NULL);
    assert_int_equal(chdir(where), 0);
    fprintf(text, "%s%s%s; %d requests, patience %g\n", lks_status_name(ended),
            ended != LKS_OK ? ": " : "", ended != LKS_OK ? lks_last_error()->message : "", fetches,
            patience_seen);
    shell("ls -A -l d | awk '/^-/ {print $5, $9}' >list.txt");
    read_text(list, "list.txt");
    fputs(list, text);
}

#define LARGE "train-images-idx3-ubyte"
#define SMALL "train-labels-idx1-ubyte"
#define OTHERS                                                                                     \
    "truncate -s 9912422 " LARGE ".gz; truncate -s 1648877 t10k-images-idx3-ubyte.gz; truncate "   \
    "-s 4542 t10k-labels-idx1-ubyte.gz; "

static void files_are_got(void **state)
{
    (void)state;
    static const char
        one[] = "data mnist --out d --mirror http://one/",
        two[] = "data mnist --out d --mirror http://one// --mirror file:///two --patience 86400";
    setenv("TERM", "xterm", 1);
    get("all at once", "g", "", one);
    get("fashion, from its own place", "g", "", "data fashion --out d/e/f --patience 0.5");
    get("mnist has two of them", "r", "", "data mnist --out d");
    get("halves", "hhhg", OTHERS, one);
    get("halves without end", "h", OTHERS, one);
    get("nothing more comes", "hb", OTHERS, two);
    get("single bytes", "1", OTHERS, one);
    get("refused, then given", "rg", OTHERS, two);
    get("wrong, then given", "wg", OTHERS, two);
    get("wrong everywhere", "w", OTHERS, two);
    get("an error of this side", "e", OTHERS, two);
    get("one that was begun", "g", OTHERS "truncate -s 28880 " SMALL ".gz.part", one);
    get("one that is complete but for its name", "g", OTHERS "truncate -s 28881 " SMALL ".gz.part",
        one);
    get("one that is too long", "g", OTHERS "truncate -s 28882 " SMALL ".gz.part", one);
    get("one that goes wrong from where it was, and is right from its start", "wg",
        OTHERS "truncate -s 9 " SMALL ".gz.part", one);
    get("unpacked, dotted", "g", OTHERS "truncate -s 2 train-labels.idx1-ubyte", one);
    get("unpacked", "g", "truncate -s 1 " LARGE, one);
    get("unpacked of fashion cannot be compared", "g", "truncate -s 1 " LARGE,
        "data fashion --out d");
    get("another's", "g", "echo mine >" SMALL ".gz", one);
    get("another's, unpacked", "g", "echo mine >" SMALL, one);
    get("everything is there", "g", OTHERS "truncate -s 28881 " SMALL ".gz", one);
    get("a link in place of the part", "g", OTHERS "ln -s ../list.txt " SMALL ".gz.part", one);
    wrong_names = ".part";
    get("wrong hashes", "g", OTHERS, two);
    get("wrong where it was begun", "g", OTHERS "truncate -s 9 " SMALL ".gz.part", one);
    wrong_names = NULL;
    width = 90;
    get("with a bar", "hg", "", one);
    width = 0;
    get("an archive", "hg", "", "data cifar10 --out d");
    get("an archive that is there", "g", "truncate -s 168513733 cifar-100-binary.tar.gz",
        "data cifar100 --out d");
    get("an archive, unpacked", "g", "echo mine >cifar-10-binary.tar", "data cifar10 --out d");
    static const char *const patience[] = {"0", "-1", "86401", "x", "1e-9"};
    for (size_t i = 0; i < sizeof patience / sizeof *patience; i++) {
        char line[200];
        snprintf(line, sizeof line, "data mnist --out d --mirror HTTPS://one --patience %s",
                 patience[i]);
        get("patience", "r", OTHERS, line);
    }
    get("no such scheme", "g", "", "data mnist --out d --mirror http://one --mirror ftp://two");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_are_got, set_up, tear_down),
        cmocka_unit_test(all_is_as_it_was),
    };
    return GOLDEN_RUN("transfers.txt", tests);
}

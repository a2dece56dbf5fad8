#include "cli/running/running.h"
#include "cli/running/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/process.h"
#include "recipe/text/setting.h"

bool running_is_ours(int64_t process)
{
    char path[64];
    struct stat own, other, owner;
    snprintf(path, sizeof path, "/proc/%lld", (long long)process);
    if (stat(path, &owner) != 0 || owner.st_uid != geteuid()) return false;
    snprintf(path, sizeof path, "/proc/%lld/exe", (long long)process);
    return stat("/proc/self/exe", &own) == 0 && stat(path, &other) == 0 &&
           own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

bool running_is_launch(int64_t process)
{
    char words[4096];
    const size_t bytes = process_read(words, sizeof words, process, "cmdline");
    const size_t first = strlen(words) + 1;
    return first < bytes && strcmp(words + first, "launch") == 0 && running_is_ours(process);
}

static int64_t resident_of(int64_t process)
{
    char text[256];
    long long all, resident;
    process_read(text, sizeof text, process, "statm");
    return sscanf(text, "%lld %lld", &all, &resident) == 2
               ? (int64_t)resident * sysconf(_SC_PAGESIZE)
               : -1;
}

static void end_text(char *text, size_t size)
{
    text[size - 1] = '\0';
}

/* A note that says what only its own process can have written; whatever else the bytes are, its texts end. */
static bool read_note(running_note *note, int folder, const char *name, int64_t process)
{
    const int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) return false;
    const bool whole = read(file, note, sizeof *note) == (ssize_t)sizeof *note;
    close(file);
    if (!whole || memcmp(note->magic, RUNNING_MAGIC, sizeof note->magic) != 0) return false;
    end_text(note->lead, sizeof note->lead);
    end_text(note->host, sizeof note->host);
    end_text(note->others, sizeof note->others);
    end_text(note->folder, sizeof note->folder);
    end_text(note->config, sizeof note->config);
    end_text(note->device, sizeof note->device);
    return note->process == process && note->run > 0 && note->rank >= 0 && note->rank < note->size;
}

static int compare_ranks(const void *a, const void *b)
{
    const running_note *x = &((const running_rank *)a)->note, *y = &((const running_rank *)b)->note;
    if (x->run != y->run) return x->run < y->run ? -1 : 1;
    const int lead = strcmp(x->lead, y->lead);
    if (lead != 0) return lead;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* Takes entry `name`, or removes it where its process has ended. */
static bool take_entry(running_rank *out, DIR *open, const char *name)
{
    int64_t process;
    if (!lki_text_is_int(name, &process) || process <= 0) return false;
    const int64_t start = process_stat(process, PROCESS_START);
    const bool good = read_note(&out->note, dirfd(open), name, process);
    if (start < 0 || (good && out->note.start != start)) {
        (void)unlinkat(dirfd(open), name, 0);
        return false;
    }
    if (!good || !running_is_ours(process)) return false;
    out->resident = resident_of(process);
    return true;
}

lks_status running_list(running_rank **out, int *count, cli_pool *pool)
{
    char path[PATH_MAX];
    int room = 16;
    *out = pool_alloc(pool, (size_t)room * sizeof **out);
    *count = 0;
    if (!running_folder(path, false)) return LKS_OK;
    DIR *open = opendir(path);
    if (open == NULL) return lks_fail(LKS_E_IO, "%.300s cannot be read: %s", path, strerror(errno));
    for (const struct dirent *entry; (entry = readdir(open)) != NULL;) {
        if (!take_entry(&(*out)[*count], open, entry->d_name) || ++*count < room) continue;
        running_rank *more = pool_alloc(pool, 2 * (size_t)room * sizeof *more);
        memcpy(more, *out, (size_t)room * sizeof *more);
        *out = more;
        room *= 2;
    }
    closedir(open);
    qsort(*out, (size_t)*count, sizeof **out, compare_ranks);
    return LKS_OK;
}

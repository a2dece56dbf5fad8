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

/* Whether word `number` of its command line, behind the program, is this one. */
static bool is_called(int64_t process, int number, const char *word)
{
    char words[4096];
    const size_t bytes = process_read(words, sizeof words, process, "cmdline");
    size_t at = 0;
    while (at < bytes && number-- > 0) at += strlen(words + at) + 1;
    return at < bytes && strcmp(words + at, word) == 0;
}

bool running_is_launch(int64_t process)
{
    return is_called(process, 1, "launch") && running_is_ours(process);
}

bool running_is_watcher(int64_t process)
{
    return is_called(process, 2, "--watch") && running_is_launch(process);
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

const char *running_what(const running_note *note)
{
    return note->folder[0] != '\0' ? note->folder : note->config;
}

static int compare_numbers(int64_t x, int64_t y)
{
    return (x > y) - (x < y);
}

/* Up to here the two are the same process, known from two places. */
static int compare_processes(const running_rank *a, const running_rank *b)
{
    const running_note *x = &a->note, *y = &b->note;
    int order = compare_numbers(x->run, y->run);
    if (order == 0) order = strcmp(x->lead, y->lead);
    if (order == 0) order = compare_numbers(x->rank, y->rank);
    if (order == 0) order = compare_numbers(x->process, y->process);
    if (order == 0) order = compare_numbers(x->start, y->start);
    return order != 0 ? order : strcmp(x->host, y->host);
}

static int compare_ranks(const void *a, const void *b)
{
    const running_rank *x = a, *y = b;
    const int order = compare_processes(x, y);
    return order != 0 ? order : (x->from != NULL) - (y->from != NULL);
}

void running_sort(running_ranks *list)
{
    int kept = 0;
    if (list->count == 0) return;
    qsort(list->rank, (size_t)list->count, sizeof *list->rank, compare_ranks);
    for (int i = 1; i < list->count; i++)
        if (compare_processes(&list->rank[kept], &list->rank[i]) != 0)
            list->rank[++kept] = list->rank[i];
    list->count = kept + 1;
}

bool running_goes_on(const running_ranks *list, int i)
{
    const running_note *before = &list->rank[i > 0 ? i - 1 : 0].note, *n = &list->rank[i].note;
    return i > 0 && before->run == n->run && strcmp(before->lead, n->lead) == 0 &&
           before->rank < n->rank;
}

running_rank *running_next(running_ranks *list, cli_pool *pool)
{
    if (list->count == list->room) {
        list->room = list->room > 0 ? 2 * list->room : 16;
        running_rank *more = pool_alloc(pool, (size_t)list->room * sizeof *more);
        if (list->count > 0) memcpy(more, list->rank, (size_t)list->count * sizeof *more);
        list->rank = more;
    }
    return &list->rank[list->count];
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
    out->from = NULL;
    return true;
}

lks_status running_list(running_ranks *list, cli_pool *pool)
{
    char path[PATH_MAX];
    if (!running_folder(path, false)) return LKS_OK;
    DIR *open = opendir(path);
    if (open == NULL) return lks_fail(LKS_E_IO, "%.300s cannot be read: %s", path, strerror(errno));
    for (const struct dirent *entry; (entry = readdir(open)) != NULL;)
        list->count += take_entry(running_next(list, pool), open, entry->d_name);
    closedir(open);
    running_sort(list);
    return LKS_OK;
}

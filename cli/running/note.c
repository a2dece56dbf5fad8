#include "cli/running/running.h"
#include "cli/running/folder.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/process.h"

/* Speed and waiting are those of so many seconds. */
static const double WINDOW = 0.5;

/* The file has all of its bytes, so that no store meets a full disk. */
static running_note *map_new(const char *path)
{
    (void)unlink(path); /* of a process that had this number before */
    const int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0) return NULL;
    void *memory = MAP_FAILED;
    if (posix_fallocate(file, 0, sizeof(running_note)) == 0)
        memory = mmap(NULL, sizeof(running_note), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory != MAP_FAILED) return memory;
    (void)unlink(path);
    return NULL;
}

/* Hosts of other ranks, each once, as far as there is room. */
static void list_others(running_note *note, const lks_comm *comm)
{
    const int size = lks_comm_size(comm);
    char *out = note->others;
    for (int i = 0; i < size; i++) {
        const char *host = lks_comm_host(comm, i);
        bool known = strcmp(host, note->host) == 0;
        for (int j = 0; j < i && !known; j++) known = strcmp(host, lks_comm_host(comm, j)) == 0;
        const size_t used = strlen(out);
        if (known || used + strlen(host) + 3 > sizeof note->others) continue;
        snprintf(out + used, sizeof note->others - used, "%s%s", used > 0 ? ", " : "", host);
    }
}

static void fill_note(running_note *note, const cli_args *cli, lks_recipe *recipe, int64_t run)
{
    const lks_recipe_parts parts = lks_recipe_get_parts(recipe);
    const char *folder = lks_recipe_text(recipe, "checkpoint.path");
    char whole[PATH_MAX];
    note->process = getpid();
    note->start = process_stat(note->process, PROCESS_START);
    note->run = run;
    note->rank = lks_comm_rank(parts.comm);
    note->size = lks_comm_size(parts.comm);
    note->steps = parts.steps;
    note->waited = -1;
    if (gethostname(note->host, sizeof note->host - 1) != 0) note->host[0] = '\0';
    snprintf(note->lead, sizeof note->lead, "%s", note->host);
    if (note->size > 1) {
        snprintf(note->host, sizeof note->host, "%s", lks_comm_host(parts.comm, (int)note->rank));
        snprintf(note->lead, sizeof note->lead, "%s", lks_comm_host(parts.comm, 0));
        list_others(note, parts.comm);
    }
    if (folder != NULL && realpath(folder, whole) != NULL && strlen(whole) < sizeof note->folder)
        memcpy(note->folder, whole, strlen(whole) + 1);
    snprintf(note->config, sizeof note->config, "%s", cli->operand[0]);
    snprintf(note->device, sizeof note->device, "%s", lks_context_device(parts.context));
    memcpy(note->magic, RUNNING_MAGIC, sizeof note->magic); /* from here on it counts */
}

lks_status running_begin(running *out, const cli_args *cli, lks_recipe *recipe)
{
    char path[PATH_MAX];
    lks_comm *comm = lks_recipe_get_parts(recipe).comm;
    const int64_t own = getpid();
    int64_t *all = pool_alloc(cli->pool, (size_t)lks_comm_size(comm) * sizeof *all);
    *out = (running){.clock = process_clock()};
    all[0] = own;
    if (lks_comm_size(comm) > 1) {
        const lks_status status = lks_comm_all_gather(comm, &own, sizeof own, all);
        if (status != LKS_OK) return status;
    }
    if (!running_folder(path, true)) return LKS_OK;
    out->path = pool_format(cli->pool, "%s/%lld", path, (long long)own);
    out->note = map_new(out->path);
    if (out->note != NULL) fill_note(out->note, cli, recipe, all[0]);
    return LKS_OK;
}

static void store(_Atomic int64_t *number, double value)
{
    atomic_store_explicit(number, (int64_t)value, memory_order_relaxed);
}

void running_step(running *r, const lks_step_event *event)
{
    if (r->note == NULL) return;
    const double now = process_clock(), past = now - r->clock;
    r->samples += event->metrics->samples;
    r->seconds += event->seconds;
    r->waited += event->waited;
    atomic_store_explicit(&r->note->step, event->step, memory_order_relaxed);
    if (past < WINDOW) return;
    store(&r->note->rate, (double)r->samples / past);
    if (r->note->size > 1 && r->seconds > 0) store(&r->note->waited, 1e3 * r->waited / r->seconds);
    r->samples = 0;
    r->seconds = r->waited = 0;
    r->clock = now;
}

void running_end(running *r)
{
    if (r->note == NULL) return;
    (void)unlink(r->path);
    munmap(r->note, sizeof *r->note);
    *r = (running){0};
}

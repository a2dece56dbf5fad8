/* lockstep watch FOLDER: how trainings beside each other are doing, a line for each record. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/out/table.h"
#include "cli/out/text.h"
#include "cli/watch/watch.h"
#include "cli/verbs/record.h"

typedef struct folder {
    cli_pool *pool; /* of the paths */
    const char *path;
    view view[RUNS_MOST]; /* of those that are records, by path */
    int count;
    bool more; /* there are others */
    bool live; /* on a terminal: drawn again until all have ended */
} folder;

static bool ends_with_json(const char *name)
{
    const size_t length = strlen(name);
    return length > 5 && strcmp(name + length - 5, ".json") == 0;
}

static int place_of(const folder *f, const char *path)
{
    int at = 0;
    while (at < f->count && strcmp(f->view[at].path, path) < 0) at++;
    return at;
}

/* A file that is a record joins those that are known; what is none, or none yet, is left for later. */
static void offer(folder *f, const char *path)
{
    json_t *record;
    const int at = place_of(f, path);
    if (at < f->count && strcmp(f->view[at].path, path) == 0) return;
    if (record_read(&record, path) != LKS_OK) return;
    json_decref(record);
    f->more = f->more || f->count == RUNS_MOST;
    if (f->count == RUNS_MOST) return;
    memmove(&f->view[at + 1], &f->view[at], (size_t)(f->count - at) * sizeof *f->view);
    f->view[at] = (view){.path = pool_format(f->pool, "%s", path),
                         .live = true,
                         .runs = calloc(1, sizeof *f->view->runs)};
    if (f->view[at].runs != NULL)
        f->count++;
    else
        memmove(&f->view[at], &f->view[at + 1], (size_t)(f->count - at) * sizeof *f->view);
}

/* Files of checkpoints are no records, and many. */
static lks_status look_into_folder(folder *f, const char *path, bool below)
{
    DIR *opened = opendir(path);
    if (opened == NULL)
        return lks_fail(LKS_E_IO, "%.300s cannot be read: %s; expected a folder with records", path,
                        strerror(errno));
    for (const struct dirent *d; (d = readdir(opened)) != NULL;) {
        char name[PATH_MAX];
        struct stat info;
        if (d->d_name[0] == '.' || strncmp(d->d_name, "step-", 5) == 0) continue;
        const int length = snprintf(name, sizeof name, "%s/%s", path, d->d_name);
        if (length < 0 || length >= PATH_MAX || stat(name, &info) != 0) continue;
        if (S_ISREG(info.st_mode) && ends_with_json(d->d_name)) offer(f, name);
        if (S_ISDIR(info.st_mode) && below) (void)look_into_folder(f, name, false);
    }
    closedir(opened);
    return LKS_OK;
}

static const char *number_of(cli_pool *pool, double done, double all)
{
    if (isnan(done)) return "-";
    return isnan(all) ? pool_format(pool, "%.0f", done)
                      : pool_format(pool, "%.0f of %.0f", done, all);
}

enum { COLUMNS = 9 };

static void fill_row(const folder *f, const view *v, cli_pool *pool, const char **cell)
{
    const cli_run *run = &v->runs->run[0];
    const run_cell *known = v->runs->cell[0];
    const progress p = view_progress(v);
    const json_t *epochs = json_object_get(run->record, "epochs");
    const json_t *last = json_array_get(epochs, json_array_size(epochs) - 1);
    const double loss = runs_number_of(last, "train_loss"),
                 processes = runs_number_of(run->record, "processes");
    const size_t own = strlen(f->path) + 1;
    cell[0] = text_clean(pool, record_stem(pool, v->path) + own);
    cell[1] = number_of(pool, (double)json_array_size(epochs), p.epochs);
    cell[2] = number_of(pool, p.step, p.steps);
    cell[3] = isnan(loss) ? "-" : pool_format(pool, "%.4f", loss);
    cell[4] = known[RUN_BEST].number > 0 ? known[RUN_BEST].text
                                         : "-"; /* of numbers there is none */
    cell[5] = isnan(processes) ? "-" : pool_format(pool, "%.0f", processes);
    cell[6] = known[RUN_SPEED].text;
    cell[7] = text_share(pool, watch_waited(run->record));
    cell[8] = p.finished            ? "finished"
              : view_is_overdue(&p) ? pool_format(pool, "silent %s", runs_time(pool, p.age))
              : isnan(p.left)       ? "runs"
                                    : pool_format(pool, "%s left", runs_time(pool, p.left));
}

static lks_status folder_draw(folder *f)
{
    static const char *const title[COLUMNS] = {"run",       "epoch",         "step",
                                               "loss",      "best test %",   "processes",
                                               "samples/s", "communication", "state"};
    static const bool right[COLUMNS] = {false, true, true, true, true, true, true, true, false};
    cli_pool pool = {0};
    const char **cell = pool_alloc(&pool, (size_t)(f->count + 1) * COLUMNS * sizeof *cell);
    for (int i = 0; i < f->count; i++) fill_row(f, &f->view[i], &pool, cell + i * COLUMNS);
    if (f->live) fputs("\033[H\033[K\033[J", stdout); /* the screen, as lines may be broken */
    if (f->count == 0)
        say("no record in %s yet: train --out and --record write one behind every epoch", f->path);
    else
        table_print(&(cli_table){f->count, COLUMNS, (const char **)(uintptr_t)title, cell, right},
                    say_columns());
    if (f->more) say("and others: %d are shown", f->count);
    pool_clear(&pool);
    return say_flush();
}

static bool all_finished(const folder *f)
{
    bool all = f->count > 0;
    for (int i = 0; i < f->count; i++)
        all = all && json_is_true(json_object_get(f->view[i].runs->run[0].record, "finished"));
    return all;
}

/* Records that have become none are left out until they are some again. */
static void read_views(folder *f)
{
    for (int i = 0; i < f->count; i++) {
        if (view_read(&f->view[i]) == LKS_OK && f->view[i].there) continue;
        view_clear(&f->view[i]);
        free(f->view[i].runs);
        memmove(&f->view[i], &f->view[i + 1], (size_t)(--f->count - i) * sizeof *f->view);
        i--;
    }
}

lks_status watch_folder(const cli_args *cli, const char *path)
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    folder *f = pool_alloc(cli->pool, sizeof *f);
    if (f == NULL) return lks_fail(LKS_E_NOMEM, "out of memory for runs");
    *f = (folder){.pool = cli->pool,
                  .path = pool_format(cli->pool, "%.*s", (int)length, path),
                  .live = say_columns() > 0};
    lks_status status;
    for (;;) {
        status = look_into_folder(f, f->path, true);
        if (status != LKS_OK) break;
        read_views(f);
        status = folder_draw(f);
        if (status != LKS_OK || !f->live || all_finished(f)) break;
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    }
    for (int i = 0; i < f->count; i++) {
        view_clear(&f->view[i]);
        free(f->view[i].runs);
    }
    return status;
}

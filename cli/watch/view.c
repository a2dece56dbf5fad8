/* What `lockstep watch` knows of a run, by its record or by the lines of its steps. */
#include <errno.h>
#include <math.h>
#include <sys/stat.h>
#include <time.h>

#include "cli/watch/watch.h"

/* A run whose next epoch takes so many times as long as those before it, and a minute more, may have ended. */
static const double OVERDUE = 3, MINUTE = 60;

/* Where the file is not there yet, or empty, a terminal waits for it. */
lks_status view_read(view *v)
{
    struct stat now = {0};
    const bool failed = stat(v->path, &now) != 0;
    const bool missing = failed ? errno == ENOENT : S_ISREG(now.st_mode) && now.st_size == 0;
    if (missing && (v->live || v->there)) return LKS_OK;
    if (v->there && now.st_ino == v->as_read.st_ino && now.st_size == v->as_read.st_size &&
        now.st_mtim.tv_sec == v->as_read.st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == v->as_read.st_mtim.tv_nsec)
        return LKS_OK;
    if (v->there) runs_clear(v->runs);
    *v->runs = (cli_runs){0};
    v->there = true;
    v->as_read = now;
    if (v->log.record == NULL && !run_log_is(v->path)) return runs_read(v->runs, 1, &v->path, NULL);
    const lks_status status = run_log_read(&v->log, v->path);
    if (status == LKS_OK) runs_take(v->runs, v->log.record, v->path);
    return status;
}

/* A run that was resumed has the time of its own epochs alone in "seconds". What is left is told by the epochs that
 * have ended, or in the first one by the speed of the last step. */
progress view_progress(const view *v)
{
    const cli_run *run = &v->runs->run[0];
    const json_t *epochs = json_object_get(run->record, "epochs"), *epoch;
    const double done = (double)json_array_size(epochs);
    progress p = {.finished = json_is_true(json_object_get(run->record, "finished")),
                  .epochs = json_number_value(runs_setting_of(run, "train", "epochs")),
                  .step = runs_number_of(run->record, "steps"),
                  .steps = json_number_value(runs_setting_of(run, "train", "steps")),
                  .age = difftime(time(NULL), v->as_read.st_mtim.tv_sec)};
    double spent = 0;
    size_t i;
    json_array_foreach(epochs, i, epoch) spent += runs_number_of(epoch, "seconds");
    /* Of the record of an epoch that goes on, without what that has taken; of others there is nothing to take away. */
    const json_t *last = json_object_get(run->record, "last_step");
    const double going = fmax(runs_number_of(last, "seconds"), 0);
    p.each = fmax(spent, runs_number_of(run->record, "seconds") - going) / done;
    if (!(p.epochs > 0)) p.epochs = (double)NAN;
    if (!(p.steps > 0)) p.steps = (double)NAN;
    const json_t *counted = json_object_get(run->record, "epoch_step");
    const double ended = counted != NULL ? json_number_value(counted) : p.step;
    const double batches = runs_number_of(last, "batches");
    p.steps = fmin(p.steps, p.epochs * (batches > 0 ? batches : ended / done));
    p.age = fmax(p.age, 0);
    const double speed = runs_number_of(last, "samples_per_second");
    const double step_seconds = done > 0 ? p.each * done / ended
                                         : runs_number_of(run->record, "global_batch") / speed;
    p.left = step_seconds * (p.steps - p.step) - p.age;
    if (p.left < 0) p.left = 0;
    return p;
}

bool view_is_overdue(const progress *p)
{
    return !p->finished && p->age > OVERDUE * p->each + MINUTE;
}

void view_clear(view *v)
{
    runs_clear(v->runs);
    run_log_clear(&v->log);
}

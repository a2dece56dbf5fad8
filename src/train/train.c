#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <lockstep/trainer.h>

/* Passes a failure on to the caller. */
#define TRY(expression)                                                                            \
    do {                                                                                           \
        const lks_status try_status = (expression);                                                \
        if (try_status != LKS_OK) return try_status;                                               \
    } while (0)

typedef struct loop {
    lks_context *context;
    lks_train_opts opts; /* with defaults filled in */
    lks_run *run;
    int64_t batches;   /* in an epoch */
    int64_t last_step; /* the run ends there */
    uint8_t *best;     /* without a folder: the model's state when its loss was the best */
    lks_progress best_progress;
} loop;

static double train_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static lks_status train_check_counts(const lks_train_opts *opts)
{
    if (!opts->model || !opts->train) {
        return lks_fail(LKS_E_INVALID,
                        "training: a model and a loader of training data are needed");
    }
    if (opts->epochs < 0 || opts->steps < 0 || (opts->epochs == 0 && opts->steps == 0)) {
        return lks_fail(LKS_E_INVALID,
                        "training: epochs is %lld, steps %lld; expected 1 or more of one of both",
                        (long long)opts->epochs, (long long)opts->steps);
    }
    if (opts->eval_epochs < 0 || opts->patience < 0 || opts->save_steps < 0 ||
        opts->save_epochs < -1 || opts->keep < 0) {
        return lks_fail(LKS_E_INVALID,
                        "training: eval_epochs is %lld, patience %d, save_steps %lld, save_epochs "
                        "%lld, keep %d; expected 0 or more (save_epochs: or -1)",
                        (long long)opts->eval_epochs, opts->patience, (long long)opts->save_steps,
                        (long long)opts->save_epochs, opts->keep);
    }
    return LKS_OK;
}

static lks_status check_loader(const lks_model *model, const lks_loader *loader)
{
    return loader ? lks_model_check_data(model, lks_loader_dataset(loader)) : LKS_OK;
}

static lks_status train_check_opts(const lks_train_opts *opts)
{
    TRY(train_check_counts(opts));
    TRY(lks_schedule_check(&opts->schedule));
    if (opts->schedule.kind == LKS_PLATEAU && !opts->valid && !opts->test) {
        return lks_fail(LKS_E_INVALID, "training: to reduce on plateau needs a loss to watch; "
                                       "give validation or test data");
    }
    if (opts->patience > 0 && !opts->valid && !opts->test) {
        return lks_fail(LKS_E_INVALID,
                        "training: patience %d needs a loss to watch; give validation or test data",
                        opts->patience);
    }
    if (opts->resume && !opts->folder) {
        return lks_fail(LKS_E_INVALID,
                        "training: to resume needs the folder that has the checkpoints");
    }
    if (lks_loader_batches(opts->train) < 1) {
        return lks_fail(LKS_E_INVALID, "training: the data has no batch; expected 1 or more");
    }
    TRY(check_loader(opts->model, opts->train));
    TRY(check_loader(opts->model, opts->valid));
    TRY(check_loader(opts->model, opts->test));
    return LKS_OK;
}

static void fill_defaults(loop *l)
{
    lks_train_opts *opts = &l->opts;
    if (opts->eval_epochs == 0) opts->eval_epochs = 1;
    if (opts->save_epochs == 0) opts->save_epochs = 1;
    if (opts->keep == 0) opts->keep = 2;
    l->batches = lks_loader_batches(opts->train);
    l->last_step = opts->steps > 0 ? opts->steps : INT64_MAX;
    if (opts->epochs > 0 && opts->epochs <= INT64_MAX / l->batches &&
        opts->epochs * l->batches < l->last_step) {
        l->last_step = opts->epochs * l->batches;
    }
}

/* Replaces a text that the run owns. */
static lks_status set_text(const char **text, const char *value)
{
    char *copy = value ? strdup(value) : NULL;
    if (value && !copy) return lks_fail(LKS_E_NOMEM, "training: no memory for the run's record");
    free((char *)*text);
    *text = copy;
    return LKS_OK;
}

/* What a run says of itself from here on. */
static lks_status describe_run(loop *l)
{
    const lks_model_info info = lks_model_get_info(l->opts.model);
    lks_run *run = l->run;
    run->progress = lks_model_progress(l->opts.model);
    run->seed = lks_context_seed(l->context);
    run->global_batch = info.global_batch;
    run->replicas = info.replicas;
    run->hash_every = info.hash_every;
    if (l->opts.data_hash != 0) run->data_hash = l->opts.data_hash;
    if (l->opts.test_hash != 0) run->test_hash = l->opts.test_hash;
    TRY(set_text(&run->fingerprint, lks_context_fingerprint(l->context)));
    return set_text(&run->config, l->opts.config);
}

static lks_status check_hash(const loop *l, const lks_run *found, const char *what, uint64_t theirs,
                             uint64_t ours)
{
    if (l->opts.accept_changes || ours == 0 || theirs == 0 || ours == theirs) return LKS_OK;
    return lks_fail(LKS_E_MISMATCH,
                    "checkpoint of step %lld in '%s' was made with other %sdata: its hash is "
                    "%016llx, this data's is %016llx; give the same data, or another folder",
                    (long long)found->progress.step, l->opts.folder, what,
                    (unsigned long long)theirs, (unsigned long long)ours);
}

static lks_status check_numerics(const loop *l, const lks_run *found)
{
    if (l->opts.accept_changes || found->numerics == lks_numerics()) return LKS_OK;
    return lks_fail(LKS_E_MISMATCH,
                    "checkpoint of step %lld in '%s' has bits of version %d of the numerics, this "
                    "program computes those of version %d: what goes on is no longer the run that "
                    "it was; accept that (accept_changes), or use the program that wrote it",
                    (long long)found->progress.step, l->opts.folder, found->numerics,
                    lks_numerics());
}

/* What the model itself does not show: other bits, other data, or other batches of it. */
static lks_status check_resumed(const loop *l, const lks_run *found)
{
    TRY(check_numerics(l, found));
    TRY(check_hash(l, found, "", found->data_hash, l->opts.data_hash));
    TRY(check_hash(l, found, "test ", found->test_hash, l->opts.test_hash));
    const int64_t epochs = found->progress.step / l->batches;
    const int64_t recorded = found->epochs > 0 ? found->history[found->epochs - 1].epoch : epochs;
    const int64_t pending = found->so_far.samples > 0 ? 1 : 0;
    if (recorded > epochs || recorded < epochs - pending) {
        return lks_fail(LKS_E_MISMATCH,
                        "checkpoint of step %lld in '%s' finished %lld epoch%s, but with %lld "
                        "batch%s in an epoch it would be %lld; give the same data and batch",
                        (long long)found->progress.step, l->opts.folder, (long long)recorded,
                        recorded == 1 ? "" : "s", (long long)l->batches,
                        l->batches == 1 ? "" : "es", (long long)epochs);
    }
    return LKS_OK;
}

/* All steps of an epoch are done, its evaluation is not. */
static bool epoch_is_due(const loop *l)
{
    return l->run->so_far.samples > 0 && l->run->progress.step % l->batches == 0;
}

static bool is_finished(const loop *l)
{
    const bool patient = l->opts.patience == 0 || l->run->bad_epochs < l->opts.patience;
    return !epoch_is_due(l) && (l->run->progress.step >= l->last_step || !patient);
}

static bool is_scheduled(const loop *l, int64_t epoch)
{
    return epoch % l->opts.eval_epochs == 0;
}

/* A run that ended between two evaluations was evaluated there once more. It goes on as one that
 * never ended, which has no such evaluation. */
static void forget_the_end(loop *l)
{
    lks_run *run = l->run;
    lks_epoch *last = run->epochs > 0 ? &run->history[run->epochs - 1] : NULL;
    if (!run->finished || is_finished(l) || !last || is_scheduled(l, last->epoch)) return;
    last->valid = last->test = (lks_metrics){0};
}

static lks_status resume_from(loop *l, int64_t step)
{
    const lks_train_events *events = &l->opts.events;
    lks_run found;
    /* The record alone first: the model changes only when everything fits. */
    TRY(lks_checkpoint_load(l->context, NULL, &found, l->opts.folder, step));
    lks_status status = check_resumed(l, &found);
    lks_run_clear(&found);
    if (status != LKS_OK) return status;
    TRY(lks_checkpoint_load(l->context, l->opts.model, l->run, l->opts.folder, step));
    forget_the_end(l);
    if (events->on_resume) events->on_resume(events->user, l->run);
    return LKS_OK;
}

/* Whether the model ends as it was when its loss was the best. */
static bool restores(const loop *l)
{
    return l->opts.patience > 0 && !l->opts.keep_last;
}

/* Bytes of a model's state that a checkpoint would hold. */
static size_t state_bytes(const lks_model *model)
{
    size_t bytes = 0;
    for (int i = 0; i < lks_model_state_count(model); i++) {
        const lks_state_info info = lks_model_state_info(model, i);
        if (info.kind != LKS_GRADIENT) bytes += info.bytes;
    }
    return bytes;
}

/* Between the model and the copy of its state that there is without a folder. */
static lks_status copy_best(loop *l, bool restore)
{
    lks_model *model = l->opts.model;
    uint8_t *at = l->best;
    for (int i = 0; i < lks_model_state_count(model); i++) {
        const lks_state_info info = lks_model_state_info(model, i);
        if (info.kind == LKS_GRADIENT) continue;
        TRY(restore ? lks_model_state_write(model, i, at, info.bytes)
                    : lks_model_state_read(model, i, at, info.bytes));
        at += info.bytes;
    }
    if (restore)
        lks_model_set_progress(model, l->best_progress);
    else
        l->best_progress = lks_model_progress(model);
    return LKS_OK;
}

/* Where the best has no checkpoint (an earlier part of the run saved none), the last stays. */
static lks_status restore_best(loop *l)
{
    const int64_t best = l->run->best_step;
    lks_run found;
    if (!restores(l) || best < 0 || best == l->run->progress.step) return LKS_OK;
    if (!l->opts.folder) return copy_best(l, true);
    const lks_status status = lks_checkpoint_load(l->context, NULL, &found, l->opts.folder, best);
    lks_run_clear(&found);
    if (status == LKS_E_IO) return LKS_OK;
    if (status != LKS_OK) return status;
    TRY(lks_checkpoint_load(l->context, l->opts.model, &found, l->opts.folder, best));
    lks_run_clear(&found);
    return LKS_OK;
}

/* Continues from the folder, or starts from the model as it is. */
static lks_status train_start(loop *l)
{
    const lks_train_events *events = &l->opts.events;
    const int64_t at = lks_model_progress(l->opts.model).step;
    int64_t newest = -1;
    *l->run = (lks_run){.best_loss = (double)NAN, .best_step = -1};
    if (l->opts.folder) TRY(lks_checkpoint_find(l->opts.folder, &newest));
    if (l->opts.resume && newest >= 0) {
        TRY(resume_from(l, newest));
    } else if (newest > at) {
        return lks_fail(LKS_E_MISMATCH,
                        "folder '%s' has checkpoints of an earlier run, up to step %lld; resume "
                        "it, or give another folder",
                        l->opts.folder, (long long)newest);
    } else if (l->opts.resume && events->on_resume) {
        events->on_resume(events->user, NULL);
    }
    if (l->opts.schedule.kind != LKS_PLATEAU) {
        l->run->plateau = (lks_plateau){0};
    } else if (!(l->run->plateau.lr > 0.0)) {
        l->run->plateau = lks_plateau_begin(&l->opts.schedule);
    }
    TRY(describe_run(l));
    if (restores(l) && !l->opts.folder) {
        l->best = malloc(state_bytes(l->opts.model) + 1);
        if (!l->best) return lks_fail(LKS_E_NOMEM, "training: no memory for the best weights");
    }
    return lks_loader_seek(l->opts.train, l->run->progress.step);
}

static double rate_of(const loop *l, int64_t step)
{
    lks_schedule schedule = l->opts.schedule;
    if (schedule.kind == LKS_PLATEAU) schedule.lr = l->run->plateau.lr;
    return lks_schedule_at(&schedule, step, step / l->batches);
}

/* One batch. `asked` receives what on_step returned. */
static lks_status train_step(loop *l, lks_status *asked)
{
    const lks_train_events *events = &l->opts.events;
    lks_run *run = l->run;
    const int64_t step = run->progress.step;
    const double rate = rate_of(l, step);
    lks_metrics metrics = {0};
    lks_batch batch;

    const double begin = train_now();
    TRY(lks_loader_next(l->opts.train, &batch));
    TRY(lks_model_step(l->opts.model, &batch, rate, &metrics));
    run->so_far_seconds += train_now() - begin;
    run->progress = lks_model_progress(l->opts.model);
    lks_metrics_add(&run->so_far, &metrics);
    if (!events->on_step) return LKS_OK;
    const lks_step_event event = {.step = step + 1,
                                  .epoch = step / l->batches + 1,
                                  .batch = step % l->batches,
                                  .batches = l->batches,
                                  .learning_rate = rate,
                                  .metrics = &metrics,
                                  .info = lks_model_last_step(l->opts.model)};
    *asked = events->on_step(events->user, &event);
    return LKS_OK;
}

/* The whole of a data set, once. */
static lks_status train_evaluate(loop *l, lks_loader *loader, lks_metrics *sum)
{
    if (!loader) return LKS_OK;
    TRY(lks_loader_seek(loader, 0));
    for (int64_t i = lks_loader_batches(loader); i > 0; i--) {
        lks_batch batch;
        TRY(lks_loader_next(loader, &batch));
        TRY(lks_model_evaluate(l->opts.model, &batch, sum));
    }
    return LKS_OK;
}

/* Whether a loss is the best so far. One that leaves out samples, because theirs is not a finite
 * number, is not. */
static bool improve(lks_run *run, const lks_metrics *metrics)
{
    const double loss = lks_metrics_loss(metrics);
    const bool better = metrics->not_finite == 0 && isfinite(loss) &&
                        (isnan(run->best_loss) || loss < run->best_loss);
    if (better) run->best_loss = loss;
    return better;
}

static lks_status append_epoch(lks_run *run, const lks_epoch *epoch)
{
    const size_t count = (size_t)run->epochs + 1;
    lks_epoch *history = realloc(run->history, count * sizeof *history);
    if (!history)
        return lks_fail(LKS_E_NOMEM, "training: no memory for %zu epoch%s", count,
                        count == 1 ? "" : "s");
    history[run->epochs++] = *epoch;
    run->history = history;
    return LKS_OK;
}

/* What an evaluation changes in the run: what is best, patience, the plateau's rate. */
static bool train_judge(loop *l, const lks_metrics *watched)
{
    lks_run *run = l->run;
    const bool better = improve(run, watched);
    run->bad_epochs = better ? 0 : run->bad_epochs + 1;
    if (better) run->best_step = run->progress.step;
    if (l->opts.schedule.kind == LKS_PLATEAU) {
        const double loss = watched->not_finite == 0 ? lks_metrics_loss(watched) : (double)NAN;
        lks_plateau_observe(&l->opts.schedule, &run->plateau, loss);
    }
    return better;
}

/* Evaluation, what is best, the history. `asked` receives what on_epoch returned. */
static lks_status end_epoch(loop *l, bool *better, lks_status *asked)
{
    const lks_train_events *events = &l->opts.events;
    lks_run *run = l->run;
    const int64_t last = run->progress.step - 1;
    lks_epoch epoch = {.epoch = run->progress.step / l->batches,
                       .train = run->so_far,
                       .seconds = run->so_far_seconds};
    epoch.learning_rate = rate_of(l, last);

    const bool measured = l->opts.valid || l->opts.test;
    const bool scheduled = is_scheduled(l, epoch.epoch);
    if (measured && (scheduled || run->progress.step >= l->last_step)) {
        TRY(train_evaluate(l, l->opts.valid, &epoch.valid));
        TRY(train_evaluate(l, l->opts.test, &epoch.test));
        /* One that is there because the run ends shall not decide how a longer run goes on. */
        if (scheduled) *better = train_judge(l, l->opts.valid ? &epoch.valid : &epoch.test);
    }
    TRY(append_epoch(run, &epoch));
    run->so_far = (lks_metrics){0};
    run->so_far_seconds = 0.0;
    if (events->on_epoch) *asked = events->on_epoch(events->user, &epoch);
    return LKS_OK;
}

static bool epoch_is_saved(const loop *l, bool better)
{
    const int64_t every = l->opts.save_epochs;
    if (better && (every > 0 || restores(l))) return true;
    return every > 0 && l->run->progress.step / l->batches % every == 0;
}

static lks_status save(loop *l)
{
    const lks_train_events *events = &l->opts.events;
    TRY(lks_checkpoint_save(l->opts.model, l->run, l->opts.folder, l->opts.keep));
    if (events->on_save) events->on_save(events->user, l->run->progress.step);
    return LKS_OK;
}

/* The last hash stands for parameters that can be used: relu and pooling may hide from every loss that
 * some are not finite. */
static lks_status end(loop *l)
{
    TRY(lks_model_check_finite(l->opts.model));
    return lks_model_hash(l->opts.model, &l->run->hash);
}

static lks_status run_loop(loop *l)
{
    lks_run *run = l->run;
    while (!is_finished(l)) {
        lks_status asked = LKS_OK;
        bool due = false, better = false;
        if (!epoch_is_due(l)) {
            TRY(train_step(l, &asked));
            due = l->opts.save_steps > 0 && run->progress.step % l->opts.save_steps == 0;
        }
        /* Asked to stop: the evaluation waits until the run is resumed. */
        if (asked == LKS_OK && epoch_is_due(l)) {
            TRY(end_epoch(l, &better, &asked));
            due = due || epoch_is_saved(l, better);
        }
        run->finished = is_finished(l);
        due = l->opts.folder && (due || run->finished || asked != LKS_OK);
        if (due) TRY(save(l));
        if (better && l->best) TRY(copy_best(l, false));
        if (asked == LKS_OK) continue;
        TRY(end(l));
        return asked;
    }
    run->finished = true;
    TRY(end(l));
    return restore_best(l);
}

lks_status lks_train(lks_context *context, const lks_train_opts *opts, lks_run *run)
{
    lks_run own;
    lks_folder_lock *lock = NULL;
    loop l = {.run = run ? run : &own};
    if (opts) l.opts = *opts;
    *l.run = (lks_run){0};
    TRY(train_check_opts(&l.opts));
    l.context = context ? context : lks_model_context(l.opts.model);
    fill_defaults(&l);
    if (l.opts.folder && !l.opts.lock) {
        TRY(lks_checkpoint_lock(&lock, l.context, l.opts.folder));
    }
    lks_status status = train_start(&l);
    if (status == LKS_OK) status = run_loop(&l);
    free(l.best);
    lks_checkpoint_unlock(lock);
    if (!run) lks_run_clear(&own);
    return status;
}

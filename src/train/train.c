/* The training loop: steps, evaluations, checkpoints, until it ends. */
#include "train/loop.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

static double train_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double rate_of(const loop *l, int64_t step)
{
    lks_schedule schedule = l->opts.schedule;
    if (schedule.kind == LKS_PLATEAU) schedule.lr = l->run->plateau.lr;
    return lks_schedule_at(&schedule, step, step / l->batches);
}

static lks_status read_batch(const loop *l, lks_batch *batch)
{
    TRY(lki_loop_follow_shares(l, l->opts.train));
    return lks_loader_next(l->opts.train, batch);
}

/* In front of an event, so that behind it the record has its sentence or none. */
static void forget_failure(void)
{
    (void)lks_fail(LKS_OK, "%s", lks_last_error()->message);
}

static lks_status event_answered(const char *event, lks_status answer)
{
    if (answer == LKS_OK || lks_last_error()->status == answer) return answer;
    return lks_fail(answer, "training: %s() returned %s (%d), %s, without a sentence by lks_fail()",
                    event, lks_status_name(answer), (int)answer, lks_status_text(answer));
}

/* One batch. `asked` receives what on_step returned. */
static lks_status train_step(loop *l, lks_status *asked)
{
    const lks_train_events *events = &l->opts.events;
    lks_run *run = l->run;
    const int64_t step = run->progress.step;
    const double rate = rate_of(l, step);
    const lks_comm *comm = lks_model_comm(l->opts.model);
    lks_metrics metrics = {0};
    lks_batch batch;

    const double waited = lks_comm_waited(comm);
    const double begin = train_now();
    const lks_status read = read_batch(l, &batch);
    if (read != LKS_OK) return lks_model_fail(l->opts.model, read);
    TRY(lks_model_step(l->opts.model, &batch, rate, &metrics));
    const double seconds = train_now() - begin;
    run->so_far_seconds += seconds;
    run->progress = lks_model_progress(l->opts.model);
    lks_metrics_add(&run->so_far, &metrics);
    const lks_step_event event = {.step = step + 1,
                                  .epoch = step / l->batches + 1,
                                  .batch = step % l->batches,
                                  .batches = l->batches,
                                  .learning_rate = rate,
                                  .metrics = &metrics,
                                  .info = lks_model_last_step(l->opts.model),
                                  .samples = batch.count,
                                  .seconds = seconds,
                                  .waited = lks_comm_waited(comm) - waited};
    if (events->on_step) {
        forget_failure();
        *asked = event_answered("on_step", events->on_step(events->user, &event));
    }
    if (lks_comm_size(comm) == 1) return LKS_OK;
    /* What one process answers the others hear with the next step, and all stop together. */
    lks_model_raise(l->opts.model, *asked);
    const lks_status raised = lks_model_raised(l->opts.model);
    *asked = raised == LKS_OK ? LKS_OK : lks_fail(raised, "one of the processes asked to stop");
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
    /* While the rate rises, losses say nothing of the plateau's. */
    if (l->opts.schedule.kind == LKS_PLATEAU &&
        run->progress.step > l->opts.schedule.warmup_steps) {
        const double loss = watched->not_finite == 0 ? lks_metrics_loss(watched) : (double)NAN;
        lks_plateau_observe(&l->opts.schedule, &run->plateau, loss);
    }
    return better;
}

/* Evaluation, what is best, the history, behind an epoch or what the run has of its last one. `asked` receives what
 * on_epoch returned. */
static lks_status end_epoch(loop *l, bool *better, lks_status *asked)
{
    const lks_train_events *events = &l->opts.events;
    lks_run *run = l->run;
    const int64_t last = run->progress.step - 1;
    const bool whole = epoch_is_due(l);
    lks_epoch epoch = {.epoch = last / l->batches + 1,
                       .train = run->so_far,
                       .seconds = run->so_far_seconds,
                       .valid_rates = LKI_NO_RATES,
                       .test_rates = LKI_NO_RATES};
    epoch.learning_rate = rate_of(l, last);

    const bool measured = l->opts.valid || l->opts.test;
    const bool scheduled = whole && is_scheduled(l, epoch.epoch);
    if (measured && (scheduled || run->progress.step >= l->last_step)) {
        TRY(lki_loop_evaluate(l, l->opts.valid, &epoch.valid, &epoch.valid_rates));
        TRY(lki_loop_evaluate(l, l->opts.test, &epoch.test, &epoch.test_rates));
        /* One that is there because the run ends shall not decide how a longer run goes on. */
        if (scheduled) *better = train_judge(l, l->opts.valid ? &epoch.valid : &epoch.test);
    }
    TRY(agree(l, append_epoch(run, &epoch)));
    if (whole) { /* else a longer run goes on in it */
        run->so_far = (lks_metrics){0};
        run->so_far_seconds = 0.0;
    }
    lks_status answer = LKS_OK;
    if (events->on_epoch) {
        forget_failure();
        answer = event_answered("on_epoch", events->on_epoch(events->user, &epoch));
    }
    *asked = agree(l, answer);
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
    TRY(lks_model_check_ranks(l->opts.model));
    return lks_model_hash(l->opts.model, &l->run->hash);
}

/* Processes that step alone have one model at the end of an epoch, and of the run. */
static lks_status come_together(const loop *l)
{
    const int64_t step = l->run->progress.step;
    return step % l->batches == 0 || step >= l->last_step ? lks_model_average(l->opts.model)
                                                          : LKS_OK;
}

/* Between, what is due and asked for waits: what goes on from a save is to be what would have gone on. */
static bool waits(loop *l, bool *due, lks_status *asked)
{
    l->due = l->due || *due;
    if (l->asked == LKS_OK) l->asked = *asked;
    if (lks_model_alone(l->opts.model) > 0) return true;
    if (*asked == LKS_OK && l->asked != LKS_OK)
        *asked = lks_fail(l->asked, "one of the processes asked to stop");
    *due = l->due;
    l->due = false;
    return false;
}

static lks_status run_loop(loop *l)
{
    lks_run *run = l->run;
    while (!is_finished(l)) {
        lks_status asked = LKS_OK;
        bool due = false, better = false;
        if (!evaluation_is_due(l)) {
            TRY(train_step(l, &asked));
            TRY(come_together(l));
            due = l->opts.save_steps > 0 && run->progress.step % l->opts.save_steps == 0;
            if (waits(l, &due, &asked)) continue;
        }
        /* Asked to stop: the evaluation waits until the run is resumed. */
        if (asked == LKS_OK && evaluation_is_due(l)) {
            TRY(end_epoch(l, &better, &asked));
            due = due || epoch_is_saved(l, better);
        }
        const lks_error said = *lks_last_error(); /* why it was asked to stop */
        run->finished = is_finished(l);
        due = l->opts.folder && (due || run->finished || asked != LKS_OK);
        if (due) TRY(save(l));
        if (better && l->best) TRY(lki_loop_copy_best(l, false));
        if (better && restores(l)) lki_loop_keep_confusion(l);
        if (asked == LKS_OK) continue;
        TRY(end(l));
        return lks_fail(asked, "%s", said.message);
    }
    run->finished = true;
    TRY(end(l));
    TRY(lki_loop_restore_best(l));
    return lki_loop_give_confusion(l);
}

lks_status lks_train(lks_context *context, const lks_train_opts *opts, lks_run *run)
{
    lks_run own;
    lks_folder_lock *lock = NULL;
    loop l = {.run = run ? run : &own};
    if (opts) l.opts = *opts;
    *l.run = (lks_run){0};
    TRY(lki_loop_check(&l.opts));
    l.context = context ? context : lks_model_context(l.opts.model);
    lki_loop_defaults(&l);
    lks_status status = LKS_OK;
    if (l.opts.folder && !l.opts.lock && leads(&l))
        status = lks_checkpoint_lock(&lock, l.context, l.opts.folder);
    status = agree(&l, status);
    if (status == LKS_OK) status = lki_loop_begin(&l);
    if (status == LKS_OK) status = run_loop(&l);
    free(l.best);
    free(l.confusion);
    free(l.best_confusion);
    lks_checkpoint_unlock(lock);
    if (!run) lks_run_clear(&own);
    return status;
}

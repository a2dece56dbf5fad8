/* The training loop: what it checks, and from where it goes on. */
#include "train/loop.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    if (!loader) return LKS_OK;
    TRY(lks_model_check_data(model, lks_loader_dataset(loader)));
    if (lks_model_get_info(model).carried == 0 || lks_loader_continues(loader)) return LKS_OK;
    return lks_fail(
        LKS_E_INVALID,
        "training: the network carries its state from batch to batch, but the loader of "
        "'%.80s' does not go on where a batch ended; give it the order of the data, and "
        "batches of its columns",
        lks_dataset_name(lks_loader_dataset(loader)));
}

lks_status lki_loop_check(const lks_train_opts *opts)
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
    if (opts->train == opts->valid || opts->train == opts->test) {
        return lks_fail(LKS_E_INVALID,
                        "training: the loader of training data is that of %s data, too, and would "
                        "lose its place by evaluations; create one for each",
                        opts->train == opts->valid ? "validation" : "test");
    }
    TRY(check_loader(opts->model, opts->train));
    TRY(check_loader(opts->model, opts->valid));
    TRY(check_loader(opts->model, opts->test));
    return LKS_OK;
}

void lki_loop_defaults(loop *l)
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
    if (l->opts.vocabulary_hash != 0) run->vocabulary_hash = l->opts.vocabulary_hash;
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

/* Where the vocabulary is another one, so is the data; this says why. */
static lks_status check_vocabulary(const loop *l, const lks_run *found)
{
    const uint64_t theirs = found->vocabulary_hash, ours = l->opts.vocabulary_hash;
    if (l->opts.accept_changes || ours == 0 || theirs == 0 || ours == theirs) return LKS_OK;
    return lks_fail(LKS_E_MISMATCH,
                    "checkpoint of step %lld in '%s' has learned the tokens of another vocabulary: "
                    "its hash is %016llx, this one's is %016llx; give that run's own, or another "
                    "folder",
                    (long long)found->progress.step, l->opts.folder, (unsigned long long)theirs,
                    (unsigned long long)ours);
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

static const char *law_or_none(const char *law)
{
    return law ? law : "no average_every";
}

/* Processes that step alone make the bits that they make. */
static lks_status check_law(const loop *l, const lks_run *found)
{
    const char *theirs = law_or_none(found->law);
    const char *ours = law_or_none(lks_model_get_info(l->opts.model).law);
    if (l->opts.accept_changes || strcmp(theirs, ours) == 0) return LKS_OK;
    return lks_fail(
        LKS_E_MISMATCH,
        "checkpoint of step %lld in '%s' has bits of %.100s, this run has %.100s: start "
        "the same processes and workers, accept that what goes on is another run "
        "(accept_changes), or start in another folder",
        (long long)found->progress.step, l->opts.folder, theirs, ours);
}

/* What the model itself does not show: other bits, other data, or other batches of it. */
static lks_status check_resumed(const loop *l, const lks_run *found)
{
    TRY(check_numerics(l, found));
    TRY(check_law(l, found));
    TRY(check_vocabulary(l, found));
    TRY(check_hash(l, found, "", found->data_hash, l->opts.data_hash));
    TRY(check_hash(l, found, "test ", found->test_hash, l->opts.test_hash));
    const int64_t epochs = found->progress.step / l->batches;
    const int64_t pending = found->so_far.samples > 0 ? 1 : 0;
    const int64_t cut = found->finished ? pending : 0; /* the last of the history is not whole */
    const int64_t recorded = found->epochs > 0 ? found->history[found->epochs - 1].epoch - cut
                                               : epochs;
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

/* A run that ended between two evaluations, or within an epoch, was evaluated there once more. It goes on as one
 * that never ended, which has no such evaluation. */
static void forget_the_end(loop *l)
{
    lks_run *run = l->run;
    lks_epoch *last = run->epochs > 0 ? &run->history[run->epochs - 1] : NULL;
    if (!run->finished || is_finished(l) || !last) return;
    if (has_cut_epoch(l)) {
        run->epochs--;
        return;
    }
    if (is_scheduled(l, last->epoch)) return;
    last->valid = last->test = (lks_metrics){0};
    last->valid_rates = last->test_rates = LKI_NO_RATES;
}

static lks_status resume_from(loop *l, int64_t step)
{
    const lks_train_events *events = &l->opts.events;
    lks_run found = {0};
    lks_status status = LKS_OK;
    /* The record alone first: the model changes only when everything fits. */
    if (leads(l)) {
        status = lks_checkpoint_load(l->context, NULL, &found, l->opts.folder, step);
        if (status == LKS_OK) status = check_resumed(l, &found);
        lks_run_clear(&found);
    }
    TRY(agree(l, status));
    TRY(lks_checkpoint_load(l->context, l->opts.model, l->run, l->opts.folder, step));
    forget_the_end(l);
    if (events->on_resume) events->on_resume(events->user, l->run);
    return LKS_OK;
}

/* The last checkpoint in the folder, which only the first process may see. */
static lks_status find_newest(const loop *l, int64_t *newest)
{
    void *array = newest;
    const size_t bytes = sizeof *newest;
    lks_status status = LKS_OK;
    if (!l->opts.folder) return LKS_OK;
    if (leads(l)) status = lks_checkpoint_find(l->opts.folder, newest);
    TRY(agree(l, status));
    return lks_comm_broadcast(lks_model_comm(l->opts.model), 0, &array, &bytes, 1);
}

/* A run that ends between two averages of its processes' models has one there, which it has not if it is
 * longer: what went on from its folder would be another run. */
static lks_status check_end(const loop *l)
{
    const lks_model_info info = lks_model_get_info(l->opts.model);
    const int64_t every[] = {info.average_every, info.hash_every, l->batches}, last = l->last_step;
    int64_t before = 0, behind = INT64_MAX;
    if (info.average_every == 0 || !l->opts.folder) return LKS_OK;
    for (int i = 0; i < 3; i++) {
        const int64_t below = last - last % every[i], above = below + every[i];
        if (below > before) before = below;
        if (above < behind) behind = above;
    }
    if (before == last) return LKS_OK;
    return lks_fail(LKS_E_INVALID,
                    "training: the run ends after step %lld, but with average_every %d its "
                    "processes have one model after steps %lld and %lld, which it can go on from; "
                    "end there, or train without a folder",
                    (long long)last, info.average_every, (long long)before, (long long)behind);
}

lks_status lki_loop_begin(loop *l)
{
    const lks_train_events *events = &l->opts.events;
    const int64_t at = lks_model_progress(l->opts.model).step;
    int64_t newest = -1;
    *l->run = (lks_run){.best_loss = (double)NAN, .best_step = -1};
    TRY(check_end(l));
    TRY(find_newest(l, &newest));
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
    TRY(agree(l, describe_run(l)));
    TRY(lki_loop_make_best(l));
    return agree(l, lks_loader_seek(l->opts.train, l->run->progress.step));
}

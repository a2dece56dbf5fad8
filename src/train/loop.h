/* The training loop's state, and its parts: train.c runs it, begin.c checks and resumes, evaluate.c looks at data
 * that is not trained on, best.c keeps the best parameters. All stand on the public headers, so that they can be copied into a program and changed. */
#ifndef LKI_TRAIN_LOOP_H
#define LKI_TRAIN_LOOP_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include <lockstep/comm.h>
#include <lockstep/trainer.h>

/* Passes a failure on to the caller. */
#define TRY(expression)                                                                            \
    do {                                                                                           \
        const lks_status try_status = (expression);                                                \
        if (try_status != LKS_OK) return try_status;                                               \
    } while (0)

#define LKI_NO_RATES ((lks_rates){(double)NAN, (double)NAN, (double)NAN})

typedef struct loop {
    lks_context *context;
    lks_train_opts opts; /* with defaults filled in */
    lks_run *run;
    int64_t batches;   /* in an epoch */
    int64_t last_step; /* the run ends there */
    lks_status asked;  /* to stop, or */
    bool due;          /* to save, when all processes have one model */
    uint8_t *best;     /* without a folder: the model's state when its loss was the best */
    lks_progress best_progress;
    /* What classes of the test were taken for, the part of this process, after these steps; NULL: not counted. */
    int64_t *confusion, *best_confusion;
    int64_t confusion_step, best_confusion_step;
} loop;

/* Of the processes that train the model, this one reads and writes files. */
static inline bool leads(const loop *l)
{
    return lks_comm_rank(lks_model_comm(l->opts.model)) == 0;
}

/* What only one process does, or may fail at alone, ends so on all of them: with the first failure. */
static inline lks_status agree(const loop *l, lks_status mine)
{
    return lks_comm_agree(lks_model_comm(l->opts.model), mine);
}

/* All steps of an epoch are done, its evaluation is not. */
static inline bool epoch_is_due(const loop *l)
{
    return l->run->so_far.samples > 0 && l->run->progress.step % l->batches == 0;
}

/* The history ends with an epoch that the run's end has cut, which is still that of run->so_far. */
static inline bool has_cut_epoch(const loop *l)
{
    const lks_run *run = l->run;
    return run->epochs > 0 && run->history[run->epochs - 1].epoch > run->progress.step / l->batches;
}

/* The run ends within an epoch, and its evaluation is not done. */
static inline bool end_is_due(const loop *l)
{
    return l->run->so_far.samples > 0 && l->run->progress.step >= l->last_step && !has_cut_epoch(l);
}

static inline bool evaluation_is_due(const loop *l)
{
    return epoch_is_due(l) || end_is_due(l);
}

static inline bool is_finished(const loop *l)
{
    const bool patient = l->opts.patience == 0 || l->run->bad_epochs < l->opts.patience;
    return !evaluation_is_due(l) && (l->run->progress.step >= l->last_step || !patient);
}

static inline bool is_scheduled(const loop *l, int64_t epoch)
{
    return epoch % l->opts.eval_epochs == 0;
}

/* Whether the model ends as it was when its loss was the best. */
static inline bool restores(const loop *l)
{
    return l->opts.patience > 0 && !l->opts.keep_last;
}

/* begin.c: what is wrong with the options, if anything; defaults; and from the folder, or from the model as
 * it is, to the first step. */
lks_status lki_loop_check(const lks_train_opts *opts);
void lki_loop_defaults(loop *l);
lks_status lki_loop_begin(loop *l);

/* evaluate.c: where the model's balance has given this process other samples, its loaders read those. */
lks_status lki_loop_follow_shares(const loop *l, lks_loader *loader);
/* The whole of a data set, once; without a loader nothing. */
lks_status lki_loop_evaluate(loop *l, lks_loader *loader, lks_metrics *sum, lks_rates *rates);
/* What the last test counted is that of the best; and what belongs to the model's parameters, of all processes, becomes
 * the run's. */
void lki_loop_keep_confusion(loop *l);
lks_status lki_loop_give_confusion(loop *l);

/* best.c: without a folder, memory for the best state, and copies between it and the model. */
lks_status lki_loop_make_best(loop *l);
lks_status lki_loop_copy_best(loop *l, bool restore);
/* The model becomes the best of the run. Where that has no checkpoint (an earlier part of the run saved
 * none), the last stays. */
lks_status lki_loop_restore_best(loop *l);

#endif

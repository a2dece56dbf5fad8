/* The usual loop. Written on the headers above and nothing else, so it can be copied into a
 * program and changed. */
#ifndef LOCKSTEP_TRAINER_H
#define LOCKSTEP_TRAINER_H

#include <lockstep/checkpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lks_step_event {
    int64_t step;    /* finished steps */
    int64_t epoch;   /* from 1 */
    int64_t batch;   /* in the epoch, from 0 */
    int64_t batches; /* in an epoch */
    double learning_rate;
    const lks_metrics *metrics; /* of this step */
    lks_step_info info;
    int64_t samples; /* of the batch, those of this process */
    double seconds;  /* that the step took here, with reading its batch, */
    double waited;   /* and of these, waiting for other processes */
} lks_step_event;

/* Any pointer may be NULL. Returning anything but LKS_OK from on_step or on_epoch ends the run
 * after that step: it is saved (where there is a folder) and lks_train() returns that status. */
typedef struct lks_train_events {
    lks_status (*on_step)(void *user, const lks_step_event *event);
    lks_status (*on_epoch)(void *user, const lks_epoch *epoch);
    void (*on_resume)(void *user, const lks_run *run); /* NULL run: nothing there, starts afresh */
    void (*on_save)(void *user, int64_t step);
    /* Each batch of the test behind the last step, if data has no classes: this process's samples, and their outputs. */
    void (*on_test)(void *user, const lks_batch *batch, const float *output);
    void *user;
} lks_train_events;

typedef struct lks_train_opts {
    lks_model *model;  /* required */
    lks_loader *train; /* required; its batch is at most the model's */
    lks_loader *valid; /* default: none; decides what is best */
    lks_loader *test;  /* default: none; where there is no `valid`, it decides what is best */
    lks_schedule schedule;
    int64_t epochs;      /* stop after these, */
    int64_t steps;       /* or after these in total; at least one of both is required */
    int64_t eval_epochs; /* evaluate every so many epochs, default 1; and at the end of the run,
                              where that decides nothing: a run that is given more goes on as if it
                              had not ended */
    int patience;        /* stop after so many evaluations without a better loss; default: never */
    bool keep_last; /* with patience: the model ends as it is after the last step; default: as it
                              was when its loss was the best, with its progress, also where the run
                              ended without stopping early. It comes from the best's checkpoint, or
                              without a folder from a copy in memory */

    const char *folder;  /* of checkpoints; default: none are written */
    int64_t save_steps;  /* save every so many steps; default: only per epoch */
    int64_t save_epochs; /* save every so many epochs, default 1, and those that are the best so
                              far; -1: neither. The end of a run is saved in any case */
    int keep;            /* newest checkpoints to keep, default 2; the best stays too */
    bool resume;         /* continue from the newest in the folder, if there is one. Without it a
                              folder that has later checkpoints than the model is LKS_E_MISMATCH */
    const lks_folder_lock *lock; /* of the folder, where you hold it; default: taken meanwhile */
    const char *config;          /* stored in checkpoints */
    uint64_t data_hash;          /* stored, and compared when resuming; 0: not known */
    uint64_t test_hash;          /* the same of the test data */
    uint64_t vocabulary_hash;    /* the same of the vocabulary that makes tokens of a text */
    bool accept_changes;         /* resume also where these hashes, or the
                                    version of the numerics, differ */

    lks_train_events events;
} lks_train_opts;

/*
 * Trains until `epochs` or `steps` are reached, counted from the beginning of the run: a resumed
 * run that is there already returns at once, and one that is given more goes on. When a step fails
 * nothing is saved, so the last checkpoint stays good. Data that does not fit the network is
 * LKS_E_SHAPE before anything is read; parameters that are not finite at the end are LKS_E_NUMERIC.
 * `run` (may be NULL) receives where it ended, with the history, also after a failure;
 * lks_run_clear() it. Its progress and hash are those after the last step, also where the model has
 * been restored to the best.
 *
 * With a model of several processes every one calls it with the same options, and loaders of its own shares:
 * rank 0 alone reads and writes the folder, and what any of them answers to an event, or fails at, ends the
 * run of all behind the same step.
 */
LKS_API LKS_MUSTUSE lks_status lks_train(lks_context *context, const lks_train_opts *opts,
                                         lks_run *run);

#ifdef __cplusplus
}
#endif
#endif

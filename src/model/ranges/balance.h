/*
 * Ranges of replicas that follow the speed of workers (lks_model_opts.balance).
 *
 *   link                        link                        link
 *    | each worker's seconds     | likewise                  | by both windows a step of other ranges is a
 *    | with its replicas         |                           | tenth shorter: ranges are cut anew
 *    |-------- window ---------- |-------- window ---------- |
 *
 * A window ends at a link of the hash, or 8, 16, 32, ... steps behind the beginning or a change, when a third of a second
 * has gone by, and twice as much behind each change, so that noise does not move ranges to and fro. Steps are dealt to
 * eight parts, and what counts is the upper quartile of the parts' means: a step that something else disturbed does
 * not count, but everybody waits for a worker that is slow again and again. Figures of a window begin behind its first step, whose memory is new. All ranks decide from the same
 * figures, so they decide the same.
 *
 * A worker under a quota of the processor is slow only while it has much to do, and looks as if it could take all of that
 * again. So ranges are not cut back towards those of before, if steps were longer with them, until twenty windows have
 * gone by; then it may have become another machine.
 */
#ifndef LKI_MODEL_BALANCE_H
#define LKI_MODEL_BALANCE_H

#include <lockstep/model.h>

#include "base/memory.h"
#include "program/laps.h"

enum { LKI_BALANCE_PARTS = LKI_ALIGN / sizeof(int64_t) }; /* of a window: a cache line */

/* What a rank tells: seconds of the window, of a step, and of a replica of each of its workers. */
enum { LKI_TOLD_SECONDS, LKI_TOLD_STEP, LKI_TOLD_WORKERS };

typedef struct lki_balance {
    int workers;      /* of all ranks, */
    int first, own;   /* those of this one, */
    int most;         /* and the most that a rank has */
    int64_t *border;  /* one rank: [workers + 1], as in lki_across */
    int64_t *count;   /* [workers]: replicas, as they are, */
    int64_t *wanted;  /* and as they should be */
    int64_t *spent;   /* [own workers][PARTS]: nanoseconds with replicas */
    int64_t *stepped; /* [PARTS]: likewise of steps, */
    int64_t *steps;   /* and how many there were */
    int64_t settled;  /* the step that a window may begin behind */
    double seconds;   /* of this window so far */
    double *told;     /* [1 + ranks][2 + most]: what a rank tells, and what all have told */
    double
        *cost; /* [3][workers]: seconds a replica in this window, in the one before, their mean */
    double rest[3];    /* and of a step beside replicas */
    int64_t *left;     /* [workers]: replicas before the last change, */
    double left_step;  /* seconds of a step then, */
    double since_left; /* and since then */
    bool before;       /* there is a window before */
    int64_t cuts;
    bool off;     /* there was no memory for other ranges */
    double least; /* seconds of a window */
    /* What the clock would say, for tests: seconds of a replica of every worker, and of the rest. */
    void (*pretend)(void *user, int64_t step, double *cost, double *rest);
    void *pretend_user;
} lki_balance;

/* balance.c */
/* Behind lki_across_meet(): makes model->balance where it is asked for and there is something to choose. */
lks_status lki_balance_make(lks_model *model);
/* Behind a step, which began then; at a link new ranges, if these are worth it. */
lks_status lki_balance_step(lks_model *model, int64_t begin);

/* measure.c */
/* When a step or a worker's replicas begin, 0 where nobody asks; and that they have ended. */
static inline int64_t lki_balance_begin(const lki_balance *balance)
{
    return balance != NULL ? lki_laps_clock() : 0;
}
void lki_balance_spent(lks_model *model, int worker, int64_t begin);
/* Of that time it has waited for others since `begin`. */
void lki_balance_waited(lks_model *model, int worker, int64_t begin);
/* The part of its window that a step is in. */
static inline int lki_balance_part(int64_t step)
{
    return (int)(step % LKI_BALANCE_PARTS);
}
void lki_balance_forget(lki_balance *balance); /* a new window */
/* What the window comes to, in the order of LKI_TOLD. */
void lki_balance_measure(const lki_balance *balance, double *told);

/* share.c: how many of `replicas` each worker should take, at least one, so that the last is ready as soon as
 * possible, where a replica costs worker w so many seconds. */
void lki_balance_share(int64_t *count, const double *cost, int workers, int64_t replicas);
/* The seconds of a step. */
double lki_balance_predict(const int64_t *count, const double *cost, int workers, double rest);

/* cut.c: ranges with so many replicas for each worker of all ranks, where all else of the model stays as it is.
 * LKS_E_NOMEM on all ranks: they are as they were. */
lks_status lki_ranges_cut(lks_model *model, const int64_t *count);

#endif

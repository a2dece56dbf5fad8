/*
 * What the ranks of one host have once, in memory in common: parameters, their averages, what the optimizer
 * keeps, buffers, packed parameters, and what gradients by rows are formed of. Then a step is that of one
 * process whose workers are those of all ranks (the picture in model.h), and meets where that has a barrier:
 *
 *   worker 0 of a rank                        other workers of it
 *   run replicas                              run replicas
 *   --------- barrier ------------------------------------------------------------------
 *   says its word, meets the other ranks      wait
 *   --------- barrier: every gradient of all ranks is there ----------------------------
 *   takes parts of the update                 likewise: whoever has time takes the next (tasks.c)
 *   --------- barrier, all parts are done, barrier: every parameter is new --------------
 *   takes parts of packing                    likewise
 *   --------- barrier, all parts are done, barrier: all is packed -----------------------
 *
 * (Where gradients are formed whole, ranks meet behind the update.)
 *
 * Sums do not travel: every worker adds those of all where they are, which nobody writes before the next
 * step's word. Nothing in here is written but between a step's word and its last part, and in collective calls:
 * so whatever a rank does alone (evaluate, predict, hash, read its state) finds it as its last step left it.
 * Where a rank alone needs other packed parameters (of averages, or of state just written), it has a
 * copy of its own.
 */
#ifndef LKI_MODEL_COMMON_H
#define LKI_MODEL_COMMON_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include <lockstep/model.h>

#include "comm/comm.h"

struct lki_word;

typedef struct lki_common {
    lki_assembly meeting;
    void **base;              /* [ranks]; all of it is rank 0's */
    char *memory;             /* base[0]; NULL: its size is being counted */
    size_t bytes;             /* of what has a use */
    struct lki_word *word[2]; /* [ranks]: of every second step */
    char *tasks
        [2]; /* [1 + workers of all ranks] lines of counts, likewise: of parts done, and of each one's taken */
    int turn;
    char *parameters, *buffers, *packed;
    char *x;   /* the batch, where gradients by rows are formed of it */
    char *all; /* what they are formed of: of all ranks */
    double *stats;
    double *sums[5]; /* squares of blocks, and row sums */
    char *gradient;
    char *own_packed; /* of this rank alone; NULL: it has not needed it yet */
    bool fresh;       /* packed parameters in common are those of now */
} lki_common;

/* Collective, behind lki_across_check(): model->common, where it is wanted and there is such memory. */
lks_status lki_common_make(lks_model *model);
void lki_common_release(lks_model *model);
/* Of this rank: its own, and its part of what is in common. */
size_t lki_common_bytes(const lks_model *model);
/* Collective, behind lki_ranges_plan(): memory for sums by replica of all workers, each rank's its own. */
lks_status lki_common_arrays(lks_model *model);
/* Behind lki_model_choose(), before a pass over a batch, whatever became of that on this rank: training uses what
 * is in common. */
lks_status lki_common_begin(lks_model *model);
/* Behind lki_model_choose(), before inference: which packed parameters it uses. */
lks_status lki_common_infer(lks_model *model);
/* The batch's samples of this rank, for all. */
void lki_common_place_x(const lks_model *model);
/* Everybody's word. */
lks_status lki_common_words(lks_model *model, const struct lki_word *own);
/* What other ranks hold when all have said that all is well. */
void lki_common_hold(lks_model *model);
/* tasks.c: what all workers do behind a word, in parts of which whoever has time takes the next. */
typedef enum lki_task { LKI_TASK_UPDATE, LKI_TASK_PACK, LKI_TASKS } lki_task;
/* Parts of `all` that nobody has taken, until none is left. In one process it is known who has the others. */
void lki_tasks_take(lks_model *model, int worker, lki_task task, int64_t all,
                    void (*take)(lks_model *model, int worker, int64_t number));
/* Behind that: all parts are done. False, on all workers: some cannot be done any more. */
bool lki_tasks_done(lks_model *model, int worker, lki_task task, int64_t all);
/* Of all workers of all ranks, behind a barrier of this one's; false on all of them: it has failed. */
bool lki_common_meet(lks_model *model, int worker);
/* Collective: rank 0's values of an entry; `status` is what this rank has against it. */
lks_status lki_common_write(lks_model *model, void *to, const void *in, size_t bytes,
                            lks_status status);

#endif

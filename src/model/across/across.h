/*
 * What a model has besides where several ranks train it; a model of one process has none of it.
 *
 *   worker 0 of a rank                        other workers of it
 *   run replicas; what all workers of the     run replicas; who completes a bucket forms
 *   rank have summed is sent meanwhile        the rank's nodes of it
 *   --------- barrier: the rank's sums by replica are there ----------------------------
 *   word: is all well, on all ranks?          wait
 *   --------- barrier ------------------------------------------------------------------
 *   its part of a bucket of rows              their parts of it                       <-+
 *   --------- barrier ------------------------------------------------------------------|
 *   sends that bucket; gives the total that   wait                                      |
 *   was combined; waits for the next one                                                |
 *   --------- barrier ------------------------------------------------------------------|
 *   its part of that one's slice              their parts of it                       --+
 *   --------- barrier: every gradient is there -----------------------------------------
 *   update, as with one rank                  update
 *
 * Where the optimizer is spread, parts of a slice are updated as they are combined (spread/spread.h).
 */
#ifndef LKI_MODEL_ACROSS_H
#define LKI_MODEL_ACROSS_H

#include <stdatomic.h>

#include <lockstep/model.h>

#include "model/across/sparse.h"
#include "model/spread/spread.h"
#include "program/program.h"
#include "reduce/ranks.h"

enum { LKI_MAX_BAD = 4 }; /* samples that a message names, per worker and per rank */

/* What every rank tells all others behind its part of a step. */
typedef struct lki_word {
    int32_t status; /* of its part; */
    int32_t raised; /* what it wants all to stop with */
    int64_t step, count;
    double lr;      /* of a step, else 0 */
    uint64_t batch; /* digest of the first whole batch; 0: it is another one, or a part */
    uint64_t link;
    lks_metrics metrics;
    int64_t bad_position; /* of the first sample with a loss that is not finite; -1: none */
    int64_t bad_count;
    int64_t bad_id[LKI_MAX_BAD];
} lki_word;

/* Rows of a stage that are formed together, or places in the list of those that occur (sparse.h). */
typedef struct lki_chunk {
    int stage;
    int64_t first, count;
} lki_chunk;

/* The replica that a worker is at. */
typedef struct lki_forming {
    struct lks_model *model;
    float *values;
    int64_t replica;
    int worker, next; /* bucket to be pushed */
    char apart[64];
} lki_forming;

typedef struct lki_across {
    lks_comm *comm;
    int rank, ranks;
    int workers; /* of all ranks, */
    int first;   /* and how many of them are those of ranks before */
    int64_t *
        border; /* [workers + 1]: worker p of all has the replicas border[p] .. border[p + 1] - 1 */
    int64_t *start; /* [ranks + 1]: likewise of ranks */

    /* Buckets in the order in which they are complete: `near` of sums by replica, from the last stages to
     * the first, then `far` by rows, from the first stages on. */
    lki_ranks sums;
    int near, far;
    int *array_of;   /* [buckets]: 0: of sums by replica, 1: by rows */
    int64_t *at;     /* [buckets]: where a bucket begins in its array, */
    int64_t *count;  /* and how many floats it has */
    int *segment_of; /* [near]: the first segment that has to do with it */
    lki_chunk *chunk;
    int *chunk_of;      /* [far + 1]: chunks chunk_of[i] .. chunk_of[i + 1] - 1 make a bucket */
    int64_t *rows_at;   /* [weights]: where one by rows begins in an array of sums by rows, */
    int64_t rows_count; /* which has so many floats */
    lki_sparse *sparse; /* of a stage's rows there are those that occur; NULL: of none */
    float *rows;        /* [own nodes][rows_count] */
    float **values;     /* [own nodes] */

    /* Of this pass. */
    lki_forming *forming; /* [workers of this rank] */
    atomic_int
        *pushed; /* [near]: workers that have summed a bucket; all and one more: it is formed */
    int sent, combined; /* buckets in their order, and as often as there are rounds */
    int combining;      /* what all workers combine now */
    lks_status trouble; /* worker 0 met it while others did not wait for it */

    lki_spread *spread; /* NULL: every rank updates all, from totals */

    int64_t stats_count;
    double *stats; /* [nodes of all ranks][stats_count]: sums of statistics */
    lki_piece *outgoing, *incoming;
    int stats_flight;
    size_t bytes; /* of what is received, rows and stats */
    char *memory; /* of it what is this rank's own, */
    size_t memory_bytes;
    void **base; /* [ranks]: and where arrays of all ranks are, if they have memory in common */

    const lks_batch *batch; /* of the step under way, where it has begun */
    lki_word *word;         /* [ranks] */
    double *norm;           /* [ranks]: average_every: of their gradients */
    bool trained;           /* a first batch has been compared */
    bool well;              /* on all ranks, */
    lks_status status;      /* and nothing failed between them: what worker 0 met, */
    lks_error error;        /* and its record */
} lki_across;

/* meet.c */
/* Ranks end a phase in which one may fail alone. With comm NULL or one rank the status itself. */
static inline lks_status lki_across_agree(lks_comm *comm, lks_status status)
{
    return comm != NULL && lks_comm_size(comm) > 1 ? lks_comm_agree(comm, status) : status;
}
/* Makes model->across where there are several ranks, which must have the same graph and options: who has how many
 * workers, and so which replicas. A rank that has no model as its compile failed with `status` says so to all. */
lks_status lki_across_meet(lks_comm *comm, lks_model *model, const lks_graph *graph,
                           lks_status status);
/* Whether all have planned the same, and update alike. */
lks_status lki_across_check(lks_model *model);

/* across.c */
/* Behind the weights: the borders of the table of sums by replica, as it has them. */
lks_status lki_across_near(lks_model *model);
/* Behind the workers: all else of what is summed that does not follow from who has which replicas, */
lks_status lki_across_plan(lks_model *model);
/* and what does. */
lks_status lki_across_ranges(lks_model *model);
size_t lki_across_bytes(const lks_model *model);
/* Collective, behind lki_across_agree(). */
lks_status lki_across_allocate(lks_model *model);
void lki_across_release(lks_model *model);

/* word.c */
/* Everybody's word: this rank's part came to `status`. What results is the same on all ranks: the failure
 * of the exchange itself, or that ranks are about to do different things. */
lks_status lki_across_tell(lks_model *model, lks_status status);
/* Behind a new link: ranks whose state differs are named, and those between which a message has changed. */
lks_status lki_across_compare(lks_model *model);
/* The first of these for any part of the state: `what` has this hash. */
lks_status lki_across_same(lks_model *model, const char *what, uint64_t hash);

/* outcome.c */
/* This rank cannot take part, because of `status`, which it tells; returns it. */
lks_status lki_across_stay(lks_model *model, lks_status status);
/* What a pass came to on all ranks: `status` is that of this one. */
lks_status lki_across_outcome(lks_model *model, lks_status status);
/* lki_diagnose() on the rank that has the sample, and its sentence on all. */
lks_status lki_across_diagnose(lks_model *model, const lks_batch *batch);

/* exchange.c */
/* A pass over this batch. Fails where other ranks are gone. */
lks_status lki_across_begin(lks_model *model, const lks_batch *batch);
/* The worker's next replica, whose gradients come to this array, NULL: it is absent; and that those of segments from
 * this one on are complete there. */
void lki_across_take(lks_model *model, int worker, int64_t replica, float *values);
void lki_across_formed(void *forming, int segment);
/* What travels before the word, and the word. */
lks_status lki_across_speak(lks_model *model, lks_status status);
/* From the sums of this rank's workers to those of all ranks; where ranks have memory in common, these are where
 * they are. False, on all workers of all ranks: not all is well. */
bool lki_across_sum(lks_model *model, int worker);
/* New parameters of own slices, which all workers of this rank have formed, become those of all ranks. False, on
 * all: another is lost. */
bool lki_across_give(lks_model *model, int worker);
/* Worker 0 has done something that all of this rank wait for, which came to `status`; whether they go on. */
bool lki_across_led(lks_model *model, int worker, lks_status status);

/* totals.c */
/* Array of sums of the rank's node k: 0: by replica (k is 0), 1: by rows. */
float *lki_across_array(const lks_model *model, int array, int k);
/* The sums over the batch of a range of a weight's gradient; in `space`, where they are in several places. */
const float *lki_across_total(const lks_model *model, int weight, int64_t first, int64_t count,
                              float *space);
/* The sum of a stage's statistics, of which there are `count`, formed in place; NULL: there is none. */
double *lki_across_stats(const lks_model *model, int64_t offset, int64_t count);
/* The sum in the tree of the statistics of replicas [lo, hi) that have samples, formed where those of
 * the first of them are; NULL: none has. */
double *lki_sum_stats(const lks_model *model, double *stats, int64_t count, int64_t lo, int64_t hi);

#endif

/*
 * What the optimizer keeps, spread over ranks that exchange messages (lks_model_opts.shard): each rank has it for
 * its slices of the buckets alone, and gives back new parameters in the place of totals.
 *
 *   combine   the total of the own slice; where an optimizer takes each float for itself, behind it the slice's new
 *             parameters, by the worker that has just formed their sums
 *   sums      where it asks for norms, they come first: of all slices means stay where totals are, each rank sums
 *             the squares of its blocks, or measures its rows, all ranks get what all have summed, and update
 *   give      parameters of the own slice go from where they are to where they are on the other ranks
 *   averages  behind that, on all ranks, of all parameters
 *
 * So parameters lie as gradients do: those of sums by replica, then those by rows, then what nothing trains.
 * Slices are cut where their owner can do that alone: at blocks of a weight where squares are summed, at rows of
 * it for AdamP. They do not follow from who runs which replicas, so they stay when ranges are cut anew.
 *
 * A rank whose bits change in memory gets right ones with the next step, behind which nobody can see that its
 * gradients were wrong. Messages have checksums both ways, therefore; memory has none, which is why AUTO does not
 * spread.
 */
#ifndef LKI_MODEL_SPREAD_H
#define LKI_MODEL_SPREAD_H

#include <stdbool.h>
#include <stddef.h>

#include <lockstep/model.h>

#include "comm/comm.h"

/* Floats of a weight in a rank's slice of a bucket. */
typedef struct lki_strip {
    int weight;
    int64_t first, count;
    int64_t
        kept; /* where in the rank's arrays the optimizer keeps what it does for the first of them */
} lki_strip;

typedef struct lki_spread {
    int64_t *cut;     /* [buckets][ranks + 1]: slices, as in lki_ranks_bucket */
    lki_strip *strip; /* of all ranks, rank by rank, */
    int *strip_of; /* [ranks + 1]: strips strip_of[r] .. strip_of[r + 1] - 1 are those of rank r, */
    int *own_of;   /* [buckets + 1]: and these the own ones of bucket b */
    int64_t kept;  /* floats of an array of what the optimizer keeps, on this rank */
    int64_t told;  /* sums that a rank tells at most: of its blocks, or of its rows */
    double *own, *all;
    lki_piece *outgoing, *incoming; /* of an entry of the state */
} lki_spread;

/* What a rank updates of a weight: all of it, or with others a strip. */
typedef struct lki_stretch {
    struct lki_weight *weight;
    int64_t first, count;
    float *mean;  /* of the gradient of the weight's float 0 */
    int64_t kept; /* the optimizer keeps what it does for float i at i + kept */
} lki_stretch;

/* plan.c */
/* Behind what is formed whole, before buckets: model->across->spread, if it is asked for. */
lks_status lki_spread_choose(lks_model *model);
/* Floats of a weight that one rank has to update; a border of a bucket or slice is at a multiple of them. Where
 * nothing is spread, any float. */
int64_t lki_spread_unit(const lks_model *model, const struct lki_weight *weight);
/* The last place in an array of sums, not behind this one, where buckets may meet. */
int64_t lki_spread_floor(const lks_model *model, int array, int64_t at);
/* Behind buckets: slices and strips. */
lks_status lki_spread_plan(lks_model *model);
/* Where a weight begins in its array of sums. */
int64_t lki_spread_place(const lks_model *model, int weight);
/* Whether the optimizer needs sums of all ranks before it updates. */
bool lki_spread_later(const lks_model *model);
/* Values of weights take so many floats, and have their places in memory that is not NULL. */
int64_t lki_spread_values(lks_model *model, float *memory);

/* apply.c */
/* The worker has combined its part of a bucket's own slice in a step. */
void lki_spread_combined(lks_model *model, int worker, int bucket);
/* Where new parameters of a bucket are; NULL: totals are given, as nothing is spread now. */
float *lki_spread_given(const lks_model *model, int bucket);
/* What this rank updates, one after the other. Parts without floats are those that nothing trains. */
int lki_stretches(const lks_model *model);
lki_stretch lki_stretch_at(const lks_model *model, int number);

/* sums.c */
/* Behind a barrier, by all workers: squares of blocks, or sums of rows, are those of all ranks. False, on all:
 * another rank is lost. With one rank it is that barrier. */
bool lki_spread_sums(lks_model *model, int worker, bool rows);

/* entry.c */
/* Collective: an entry of the state, of all ranks' strips; `status` is what this rank has against it. */
lks_status lki_spread_read(const lks_model *model, int index, void *out, size_t bytes,
                           lks_status status);
/* This rank's strips. */
void lki_spread_write(lks_model *model, int index, const void *in);

#endif

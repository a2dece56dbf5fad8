/* What may be asked of a loader, and which samples follow from it. */
#ifndef LKI_DATA_LOADER_OPTS_H
#define LKI_DATA_LOADER_OPTS_H

#include <lockstep/data.h>

#include "numeric/permutation.h"

/* Fills in defaults; or a sentence. */
lks_status lki_loader_check(const lks_dataset *set, lks_loader_opts *opts);
lks_status lki_loader_check_shares(const lks_dataset *set, const lks_loader_opts *opts);

/* What the caller gets of a batch of `whole` samples. */
typedef struct lki_loader_window {
    int64_t whole, first, count;
} lki_loader_window;
/* Of the batch with this number in an epoch over so many samples. */
lki_loader_window lki_loader_window_of(const lks_loader_opts *opts, int64_t samples, int64_t index);
/* The most that it gets of a batch: its shares, rounded up. */
int64_t lki_loader_most(const lks_loader_opts *opts, int64_t samples);

/* The number of the sample that stands at this place of an epoch. */
static inline int64_t lki_loader_sample(const lks_loader_opts *opts, const lki_permutation *order,
                                        int64_t at)
{
    return opts->in_order ? at : lki_permutation_at(order, at);
}
/* lks_batch.counted of batch `index` of an epoch, whoever reads its samples. */
int64_t lki_loader_counted(const lks_dataset *set, const lks_loader_opts *opts, uint64_t seed,
                           int64_t epoch, int64_t index);

#endif

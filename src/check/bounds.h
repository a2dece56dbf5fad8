/* What the files of bounds share: trial.h has what others call. */
#ifndef LKI_CHECK_BOUNDS_H
#define LKI_CHECK_BOUNDS_H

#include "check/trial.h"

/* u: the unit roundoff of f32. */
#define LKI_U 0x1p-24

/* Of a sum of so many terms in f32, in any order; `magnitude` is the sum of their absolute values. */
static inline double lki_sum_bound(double terms, double magnitude)
{
    return 1.1 * (terms + 4.0) * LKI_U * magnitude;
}

/* conv2d and dense; pools. `out` starts as zeros. */
lks_status lki_bounds_products(lki_trial *t, bool backward, const lki_trial_result *ref,
                               lki_bounds *out);
lks_status lki_bounds_pools(lki_trial *t, bool backward, const lki_trial_result *ref,
                            lki_bounds *out);
/* Of a channel's statistics, and a row's. */
lks_status lki_bounds_batch_norm(lki_trial *t, bool backward, const lki_trial_result *ref,
                                 lki_bounds *out);
lks_status lki_bounds_rms_norm(lki_trial *t, bool backward, const lki_trial_result *ref,
                               lki_bounds *out);
lks_status lki_bounds_layer_norm(lki_trial *t, bool backward, const lki_trial_result *ref,
                                 lki_bounds *out);

/* Of rnn, lstm, gru. */
lks_status lki_bounds_recurrent(lki_trial *t, bool backward, const lki_trial_result *ref,
                                lki_bounds *out);

lks_status lki_bounds_attention(lki_trial *t, bool backward, const lki_trial_result *ref,
                                lki_bounds *out);

/* Of a sum of so many products as backends form it (bounds_sums.c). */
double lki_products_bound(double count, double magnitude, double squares);
/* lki_bounds_products(), and the error of Winograd's algorithm where the convolution is computed by it. */
lks_status lki_bounds_conv2d(lki_trial *t, bool backward, const lki_trial_result *ref,
                             lki_bounds *out);

#endif

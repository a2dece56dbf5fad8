/* Samples in parts, for programs that share them out themselves. */
#include <lockstep/comm.h>

#include "base/check.h"
#include "base/float.h"
#include "numeric/permutation.h"

#include <inttypes.h>
#include <math.h>

static lks_status check(int64_t samples, const double *fractions, int parts)
{
    if (samples < 0) {
        return LKI_FAIL(LKS_E_INVALID, "lks_partition() got %" PRId64 " samples", samples);
    }
    if (parts < 1) return LKI_FAIL(LKS_E_INVALID, "lks_partition() got %d parts", parts);
    bool any = false;
    for (int k = 0; k < parts; k++) {
        if (!(fractions[k] >= 0 && fractions[k] <= 1e200)) {
            return LKI_FAIL(LKS_E_INVALID, "fraction %d of a partition is %g, expected 0 or more",
                            k, fractions[k]);
        }
        any = any || fractions[k] > 0;
    }
    if (any) return LKS_OK;
    return LKI_FAIL(LKS_E_INVALID, "all %d fractions of a partition are 0", parts);
}

/* A border is the whole number nearest to the fractions before it: what floating point adds to 0.1 + 0.2
 * moves none, and the last one is all samples. */
lks_status lks_partition(int64_t samples, const double *fractions, int parts, uint64_t seed,
                         int64_t *order, int64_t *start)
{
    double sum = 0, before = 0;
    if (fractions == NULL) return LKI_FAIL_NULL(fractions);
    if (order == NULL && samples > 0) return LKI_FAIL_NULL(order);
    if (start == NULL) return LKI_FAIL_NULL(start);
    LKI_TRY(check(samples, fractions, parts));
    const unsigned saved = lki_float_enter();
    for (int k = 0; k < parts; k++) sum += fractions[k];
    for (int k = 0; k < parts; k++) {
        start[k] = (int64_t)floor(before / sum * (double)samples + 0.5);
        before += fractions[k];
    }
    lki_float_leave(saved);
    start[parts] = samples;
    const lki_permutation permutation = lki_permutation_make(seed, 0, samples);
    for (int64_t i = 0; i < samples; i++) order[i] = lki_permutation_at(&permutation, i);
    return LKS_OK;
}

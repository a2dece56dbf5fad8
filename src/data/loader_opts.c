/* What may be asked of a loader. */
#include "data/loader_opts.h"

#include <inttypes.h>

#include "base/check.h"
#include "data/dataset.h"

enum { MAX_THREADS = 1024, MAX_AHEAD = 1024, MAX_SHARES = INT32_MAX };

lks_status lki_loader_check_shares(const lks_dataset *set, const lks_loader_opts *opts)
{
    if (opts->shares >= 1 && opts->shares <= MAX_SHARES && opts->first_share >= 0 &&
        opts->first_share <= opts->last_share && opts->last_share <= opts->shares)
        return LKS_OK;
    return LKI_FAIL(LKS_E_INVALID,
                    "loader of '%s': shares %" PRId64 " to %" PRId64 " of %" PRId64
                    " were asked for, expected at most %d shares and a range of them",
                    set->name, opts->first_share, opts->last_share, opts->shares, MAX_SHARES);
}

lks_status lki_loader_check(const lks_dataset *set, lks_loader_opts *opts)
{
    if (opts->global_batch < 1)
        return LKI_FAIL(LKS_E_INVALID,
                        "loader of '%s': global_batch is %" PRId64 ", expected at least 1",
                        set->name, opts->global_batch);
    if (opts->threads == 0) opts->threads = 1;
    if (opts->threads < -1 || opts->threads > MAX_THREADS)
        return LKI_FAIL(LKS_E_INVALID,
                        "loader of '%s': threads is %d, expected 1 to %d, or -1 to read in the "
                        "caller's thread",
                        set->name, opts->threads, MAX_THREADS);
    if (opts->ahead == 0) opts->ahead = 2;
    if (opts->ahead < 1 || opts->ahead > MAX_AHEAD)
        return LKI_FAIL(LKS_E_INVALID, "loader of '%s': ahead is %d batches, expected 1 to %d",
                        set->name, opts->ahead, MAX_AHEAD);
    if (opts->drop_last && opts->global_batch > set->info.samples)
        return LKI_FAIL(LKS_E_INVALID,
                        "loader of '%s': drop_last leaves no batch, for a batch of %" PRId64
                        " is more than the %" PRId64
                        " sample%s; make the batch smaller or keep the last one",
                        set->name, opts->global_batch, set->info.samples, LKI_S(set->info.samples));
    if (opts->augmentations < 0 || (opts->augmentations > 0 && opts->augment == NULL))
        return LKI_FAIL(LKS_E_INVALID,
                        "loader of '%s': augmentations is %d, expected as many as augment has",
                        set->name, opts->augmentations);
    if (opts->shares == 0 && opts->first_share == 0 && opts->last_share == 0)
        opts->shares = opts->last_share = 1;
    return lki_loader_check_shares(set, opts);
}

/* What may be asked of a loader, and which samples follow from it. */
#include "data/loader_opts.h"

#include <inttypes.h>

#include "base/check.h"
#include "data/dataset.h"

/* So small ones draw 0 or 1 nearly always, so large ones 1/2. */
static const double LEAST_MIXUP = 0.001, MOST_MIXUP = 1000;
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

static lks_status check_mixup(const lks_dataset *set, double mixup)
{
    if (mixup == 0) return LKS_OK;
    if (!(mixup >= LEAST_MIXUP && mixup <= MOST_MIXUP))
        return LKI_FAIL(LKS_E_INVALID,
                        "loader of '%s': mixup is %g, expected %g to %g, or 0 for none", set->name,
                        mixup, LEAST_MIXUP, MOST_MIXUP);
    const bool one = set->info.classes > 0 && set->info.target_shape.ndim == 0;
    if (one && set->info.dtype != LKS_I32) return LKS_OK;
    return LKI_FAIL(LKS_E_UNSUPPORTED,
                    "loader of '%s': mixup is for targets that are classes, and these are %s; "
                    "leave it out",
                    set->name,
                    one                     ? "of tokens, which have no mean"
                    : set->info.classes > 0 ? "one for each position"
                                            : "floats");
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
    LKI_TRY(check_mixup(set, opts->mixup));
    if (opts->shares == 0 && opts->first_share == 0 && opts->last_share == 0)
        opts->shares = opts->last_share = 1;
    return lki_loader_check_shares(set, opts);
}

/* Samples of the batch that stand before a share: share * n / shares. */
static int64_t share_start(const lks_loader_opts *opts, int64_t n, int64_t share)
{
    return n / opts->shares * share + n % opts->shares * share / opts->shares;
}

lki_loader_window lki_loader_window_of(const lks_loader_opts *opts, int64_t samples, int64_t index)
{
    const int64_t left = samples - index * opts->global_batch;
    const int64_t whole = left < opts->global_batch ? left : opts->global_batch;
    const int64_t first = share_start(opts, whole, opts->first_share);
    return (lki_loader_window){.whole = whole,
                               .first = first,
                               .count = share_start(opts, whole, opts->last_share) - first};
}

int64_t lki_loader_most(const lks_loader_opts *opts, int64_t samples)
{
    const int64_t n = opts->global_batch < samples ? opts->global_batch : samples;
    const int64_t shares = opts->last_share - opts->first_share;
    return n / opts->shares * shares +
           (n % opts->shares * shares + opts->shares - 1) / opts->shares;
}

int64_t lki_loader_counted(const lks_dataset *set, const lks_loader_opts *opts, uint64_t seed,
                           int64_t epoch, int64_t index)
{
    const lki_permutation order = lki_permutation_make(seed, epoch, set->info.samples);
    const int64_t first = index * opts->global_batch;
    const int64_t whole = lki_loader_window_of(opts, set->info.samples, index).whole;
    int64_t count = 0;
    if (set->info.classes == 0 || set->info.target_shape.ndim == 0) return 0;
    for (int64_t i = first; i < first + whole; i++)
        count += lki_dataset_counted(set, lki_loader_sample(opts, &order, i));
    return count;
}

/* The identity of a data set. */
#include "base/check.h"
#include "base/memory.h"
#include "data/dataset.h"
#include "numeric/hash.h"

static uint64_t hash_info(const lks_dataset_info *info)
{
    uint64_t hash = lki_hash_header("x", info->dtype, &info->shape);
    if (info->vocabulary > 0) hash = lki_hash_link(hash, info->vocabulary, 0);
    hash = lki_hash_link(
        hash, info->classes,
        lki_hash_header("y", info->classes ? LKS_I32 : LKS_F32, &info->target_shape));
    return lki_hash_link(hash, info->samples, 0);
}

/*
 * The identity is a chain over blocks of as many samples as fit in LKI_HASH_BLOCK bytes (at least
 * one): each adds a link over the digests of its samples and of its targets. So it does not matter
 * whether the samples lie in memory or are read one by one. Where one number stands for all of them, as of a text whose
 * windows overlap, a link over it and the first sample is added instead.
 */
static uint64_t hash_block(const lks_dataset *set, uint64_t hash, int64_t count, const uint8_t *x,
                           const uint8_t *y)
{
    return lki_hash_link(hash, (int64_t)lki_hash(x, (size_t)count * set->x_bytes),
                         lki_hash(y, (size_t)count * set->y_bytes));
}

static void hash_in_memory(const lks_dataset *set, int64_t block, uint64_t *hash)
{
    for (int64_t at = 0; at < set->info.samples; at += block) {
        const int64_t left = set->info.samples - at;
        const size_t from = (size_t)(set->first + at);
        *hash = hash_block(set, *hash, left < block ? left : block, set->x + from * set->x_bytes,
                           set->y + from * set->y_bytes);
    }
}

static lks_status hash_on_demand(const lks_dataset *set, int64_t block, uint64_t *hash)
{
    const size_t y_offset = lki_align((size_t)block * set->x_bytes);
    const size_t bytes = y_offset + (size_t)block * set->y_bytes;
    void *memory = NULL;
    lks_status status = LKS_OK;

    LKI_TRY(lki_alloc(set->context, &memory, bytes, "a block of samples to hash"));
    uint8_t *x = memory, *y = x + y_offset;
    for (int64_t at = 0; at < set->info.samples; at += block) {
        const int64_t left = set->info.samples - at;
        const int64_t count = left < block ? left : block;
        for (int64_t i = 0; i < count; i++) {
            LKI_TRY_OR(status, done,
                       lki_dataset_fetch(set, LKI_NO_EPOCH, at + i, x + (size_t)i * set->x_bytes,
                                         y + (size_t)i * set->y_bytes));
        }
        *hash = hash_block(set, *hash, count, x, y);
    }
done:
    lki_free(set->context, memory, bytes);
    return status;
}

lks_status lks_dataset_hash(lks_dataset *dataset, uint64_t *out)
{
    if (dataset == NULL) return LKI_FAIL_NULL(dataset);
    if (out == NULL) return LKI_FAIL_NULL(out);
    const int64_t fit = (int64_t)(LKI_HASH_BLOCK / dataset->x_bytes);
    const int64_t samples = dataset->info.samples;
    const int64_t block = fit < 1 ? 1 : (fit < samples ? fit : samples);
    uint64_t hash = hash_info(&dataset->info);

    *out = 0;
    if (dataset->content != 0 && !dataset->position)
        hash = lki_hash_link(hash, dataset->first, dataset->content);
    else if (dataset->x && !dataset->position)
        hash_in_memory(dataset, block, &hash);
    else
        LKI_TRY(hash_on_demand(dataset, block, &hash));
    *out = hash;
    return LKS_OK;
}

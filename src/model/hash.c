/* The hash of parameters and buffers, formed by all workers. */
#include "model/model.h"
#include "numeric/hash.h"

static uint64_t hash_block(const lks_model *model, int worker, const char *values, size_t bytes)
{
    return lki_hash(
        lki_to_host(model->program.backend->memory, values, model->worker[worker].block, bytes),
        bytes);
}

/* Worker `worker` makes its share of the digests: for every tensor its header, then its blocks. */
void lki_state_hash_part(lks_model *model, int worker)
{
    const int64_t begin = lki_share(worker, model->workers, model->digests);
    const int64_t end = lki_share(worker + 1, model->workers, model->digests);
    int64_t at = 0;
    for (int i = 0; i < model->hashed_states; i++) {
        const lks_state_info *info = &model->state[i].info;
        const char *values = *model->state[i].memory;
        if (at >= begin && at < end)
            model->digest[at] = lki_hash_header(info->name, info->dtype, &info->shape);
        at++;
        for (size_t first = 0; first < info->bytes; first += LKI_HASH_BLOCK, at++) {
            const size_t left = info->bytes - first;
            if (at >= begin && at < end)
                model->digest[at] = hash_block(model, worker, values + first,
                                               left < LKI_HASH_BLOCK ? left : LKI_HASH_BLOCK);
        }
    }
}

uint64_t lki_state_hash_finish(lks_model *model)
{
    const uint64_t state = lki_hash(model->digest, (size_t)model->digests * sizeof(uint64_t));
    return lki_hash_link(model->progress.link, model->progress.step, state);
}

/* At a link's own step the hash is that link: it is made from the one before it. */

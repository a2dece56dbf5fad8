/* A vocabulary's memory, which read.c and learn.c fill. */
#include "base/check.h"
#include "data/text/bpe/bpe.h"
#include "data/text/bpe/merge.h"

lks_status lki_bpe_create(lki_bpe **out, lks_tokenizer *tokenizer)
{
    void *memory;
    LKI_TRY(lki_arena_alloc(&tokenizer->arena, &memory, sizeof **out, "a vocabulary"));
    lki_bpe *bpe = memory;
    bpe->context = bpe->merges.context = tokenizer->context;
    if (pthread_mutex_init(&bpe->lock, NULL) != 0)
        return LKI_FAIL(LKS_E_NOMEM, "no resources for the lock of a vocabulary");
    tokenizer->own = *out = bpe;
    return LKS_OK;
}

void lki_bpe_close(lks_tokenizer *tokenizer)
{
    lki_bpe *bpe = tokenizer->own;
    if (bpe == NULL) return;
    while (bpe->idle != NULL) {
        lki_bpe_room *next = bpe->idle->next;
        lki_bpe_room_free(bpe, bpe->idle);
        bpe->idle = next;
    }
    lki_pairs_release(&bpe->merges);
    pthread_mutex_destroy(&bpe->lock);
}

lks_status lki_bpe_reserve(lks_tokenizer *tokenizer, int64_t size, size_t bytes, int64_t merges,
                           int adds)
{
    lki_bpe *bpe = tokenizer->own;
    void *memory[4];
    const size_t wanted[] = {bytes, ((size_t)size + 1) * sizeof *bpe->at,
                             (size_t)merges * sizeof *bpe->made, (size_t)adds * sizeof *bpe->added};
    for (int i = 0; i < 4; i++)
        LKI_TRY(lki_arena_alloc(&tokenizer->arena, &memory[i], wanted[i], "a vocabulary"));
    bpe->text = memory[0];
    bpe->at = memory[1];
    bpe->made = memory[2];
    bpe->added = memory[3];
    bpe->adds = adds;
    bpe->size = size;
    return LKS_OK;
}

lks_status lki_bpe_settle(lks_tokenizer *tokenizer)
{
    lki_bpe *bpe = tokenizer->own;
    bpe->whole = true;
    for (int i = 0; i < LKI_BPE_BYTES; i++) {
        if (bpe->byte[i] < 0) bpe->byte[i] = tokenizer->unknown;
        bpe->whole = bpe->whole && bpe->byte[i] >= 0;
    }
    for (int i = 0; i < bpe->adds; i++) {
        const lki_bpe_added *added = &bpe->added[i];
        bpe->first[added->second][(uint8_t)added->text[0]] = 1;
        for (size_t k = 1; k < added->bytes; k++)
            if (lki_bpe_blank(added->text[k])) bpe->crossing = true;
    }
    tokenizer->size = bpe->size;
    tokenizer->each = bpe->prefix ? 2 : 1;
    return lki_bpe_hash(&tokenizer->hash, tokenizer);
}

#include "data/text/bpe/pairs.h"

#include <string.h>

#include "base/check.h"

enum { FIRST_BITS = 10 };

static void put(lki_pair_slot *slot, int bits, lki_pair pair, int32_t number)
{
    const uint64_t mask = ((uint64_t)1 << bits) - 1;
    uint64_t at = lki_pair_place(pair, bits);
    while (slot[at].place != 0) at = (at + 1) & mask;
    slot[at] = (lki_pair_slot){pair, number + 1};
}

/* Twice the room. */
static lks_status grow(lki_pairs *pairs)
{
    lki_pairs more = {.context = pairs->context, .size = pairs->size};
    void *memory;
    more.bits = pairs->slot != NULL ? pairs->bits + 1 : FIRST_BITS;
    more.room = (int32_t)1 << (more.bits - 1);
    if (more.bits == 31)
        return LKI_FAIL(LKS_E_UNSUPPORTED, "a vocabulary: more than %d different pairs",
                        pairs->size);
    LKI_TRY(lki_alloc(more.context, &memory, (size_t)more.room * sizeof *more.pair, "pairs"));
    more.pair = memory;
    const lks_status status = lki_alloc(more.context, &memory, sizeof *more.slot << more.bits,
                                        "pairs");
    if (status != LKS_OK) {
        lki_free(more.context, more.pair, (size_t)more.room * sizeof *more.pair);
        return status;
    }
    more.slot = memory;
    for (int32_t i = 0; i < more.size; i++) {
        more.pair[i] = pairs->pair[i];
        put(more.slot, more.bits, more.pair[i], i);
    }
    lki_pairs_release(pairs);
    *pairs = more;
    return LKS_OK;
}

lks_status lki_pairs_add(lki_pairs *pairs, lki_pair pair, int32_t *number)
{
    *number = lki_pairs_find(pairs, pair);
    if (*number >= 0) return LKS_OK;
    if (pairs->size == pairs->room) LKI_TRY(grow(pairs));
    *number = pairs->size++;
    pairs->pair[*number] = pair;
    put(pairs->slot, pairs->bits, pair, *number);
    return LKS_OK;
}

void lki_pairs_release(lki_pairs *pairs)
{
    lki_free(pairs->context, pairs->pair, (size_t)pairs->room * sizeof *pairs->pair);
    if (pairs->slot != NULL)
        lki_free(pairs->context, pairs->slot, sizeof *pairs->slot << pairs->bits);
    *pairs = (lki_pairs){.context = pairs->context};
}

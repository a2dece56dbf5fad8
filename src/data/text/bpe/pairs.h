/* A growing table of pairs of tokens, each with a number in order of appearance. */
#ifndef LKI_DATA_TEXT_BPE_PAIRS_H
#define LKI_DATA_TEXT_BPE_PAIRS_H

#include "base/memory.h"

typedef struct lki_pair {
    int32_t left, right;
} lki_pair;

typedef struct lki_pair_slot {
    lki_pair pair;
    int32_t place; /* number + 1; 0: free */
} lki_pair_slot;

typedef struct lki_pairs {
    lks_context *context;
    lki_pair *pair; /* [size], room for `room` */
    int32_t size, room;
    lki_pair_slot *slot; /* [1 << bits], at most half of them taken; NULL: none */
    int bits;
} lki_pairs;

static inline uint64_t lki_pair_place(lki_pair pair, int bits)
{
    const uint64_t key = (uint64_t)(uint32_t)pair.left << 32 | (uint32_t)pair.right;
    return key * 0x9E3779B97F4A7C15u >> (64 - bits);
}

/* Its number, or -1. Any threads at once, while none adds. */
static inline int32_t lki_pairs_find(const lki_pairs *pairs, lki_pair pair)
{
    if (pairs->slot == NULL) return -1;
    const uint64_t mask = ((uint64_t)1 << pairs->bits) - 1;
    for (uint64_t at = lki_pair_place(pair, pairs->bits);; at = (at + 1) & mask) {
        const lki_pair_slot *slot = &pairs->slot[at];
        if (slot->place == 0) return -1;
        if (slot->pair.left == pair.left && slot->pair.right == pair.right) return slot->place - 1;
    }
}

/* Its number, a new one where the pair is new. */
lks_status lki_pairs_add(lki_pairs *pairs, lki_pair pair, int32_t *number);
void lki_pairs_release(lki_pairs *pairs); /* zeroed is fine */

#endif

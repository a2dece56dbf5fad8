/*
 * Products whose factors are bfloat16, in tiles of 32 x 32: c += a * b, in f32.
 *
 * A sum takes its terms by blocks of 32, and in a block those with even and odd numbers apart, each a chain of fused
 * multiply-adds from 0 on; then block by block c += even + odd (docs/numerics.md 3). That is what the matrix units of
 * processors with AMX do; others do it in vectors, with the same bits.
 *
 *     a   rows of terms: 32 rows from a[0], and from a[1] on, 16 each, which lie `row` elements apart
 *     b   [block of terms][half of the columns][pair of terms][column][of the pair], 1,024 elements a block
 *
 * Products of pairs want other pairs (bf16_tile.c): behind its packing b is turned by bf16_turn_quads().
 */
#ifndef LKI_CPU_VECTOR_BF16_H
#define LKI_CPU_VECTOR_BF16_H

#include "backend/cpu/vector/conv/conv.h"
#include "backend/cpu/vector/transpose.h"
#include "numeric/bf16.h"

enum {
    BF16_TERMS = 32,   /* of a block */
    BF16_SIDE = 32,    /* rows and columns of a tile, */
    BF16_HALF = 16,    /* and of a quarter of it, a matrix unit's */
    BF16_BLOCK = 1024, /* elements of b for a block of terms and a tile's columns */
};

/* What products of pairs take of a block (bf16_tile.c): word by word the term, BF16_TERMS for none; so many quads of them. */
typedef struct bf16_order {
    uint16_t place[BF16_TERMS];
    int64_t quads;
} bf16_order;

/* Terms are `taps` runs of `blocks` blocks each. */
typedef struct bf16_terms {
    int64_t row;         /* elements from row to row of a */
    int64_t taps, a_tap; /* elements from run to run of a */
    int64_t blocks;
    int64_t last; /* terms of a run's last block that are there: factors behind them are 0 */
    const bf16_order *order; /* of a run's blocks, as b is packed; NULL: bf16_turn_quads()'s */
    const uint16_t *b;
} bf16_terms;

/* c [32][32]: of `rows` rows; begun: added to, else written. A matrix unit reads rows of a that are beyond those. */
void LKI_ISA_NAME(lki_bf16_tile)(lki_bf16_unit unit, const bf16_terms *terms,
                                 const uint16_t *const a[2], int64_t rows, float *c, bool begun);
INLINE int64_t bf16_whole(int64_t n)
{
    return (n + BF16_TERMS - 1) / BF16_TERMS * BF16_TERMS;
}

/* Of a kernel along one axis, the taps that meet a pixel of the source somewhere, and those between them; at least one. */
typedef struct bf16_taps {
    int64_t skipped, count; /* left out in front of them; how many */
    int64_t first;          /* the source pixel under the first one at place 0 */
} bf16_taps;

/* `taps` of them, which lie `tap_step` pixels apart, at `places` places, which lie `step` apart. */
INLINE bf16_taps bf16_meeting(int64_t taps, int64_t tap_step, int64_t first, int64_t places,
                              int64_t step, int64_t source)
{
    int64_t begin = 0, end = 0;
    for (int64_t tap = 0; tap < taps; tap++) {
        const int64_t at = first + tap * tap_step, before = at < 0 ? (step - 1 - at) / step : 0;
        if (before >= places || at + before * step >= source) continue;
        if (end == 0) begin = tap;
        end = tap + 1;
    }
    if (end == 0) end = 1;
    return (bf16_taps){.skipped = begin, .count = end - begin, .first = first + begin * tap_step};
}

/* Around all tiles of a call. */
void LKI_ISA_NAME(lki_bf16_begin)(lki_bf16_unit unit);
void LKI_ISA_NAME(lki_bf16_end)(lki_bf16_unit unit);

/* As lki_bf16(), each in the upper half of its lane; the lower half is 0. */
INLINE vu bf16_upper(vf x)
{
    const vu bits = (vu)x, size = bits & 0x7fffffffu;
    const vu rounded = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
    const vu large = (vu)((vi)(rounded & 0x7fffffffu) >= (127 - 56) << 23);
    const vu none = (vu)((vi)size > 0x7f800000);
    return (rounded & large & ~none) | ((bits | 0x400000u) & 0xffff0000u & none);
}

/* n numbers of a vector, rounded. */
INLINE void bf16_put(uint16_t *p, vf x, int64_t n)
{
    const vu bits = bf16_upper(x) >> 16;
#if defined(__AVX512F__)
    _mm512_mask_cvtepi32_storeu_epi16(p, (__mmask16)((1u << n) - 1), (__m512i)bits);
#else
    for (int64_t i = 0; i < n; i++) p[i] = (uint16_t)bits[i];
#endif
}

INLINE void bf16_round_row(int64_t count, const float *from, uint16_t *to)
{
    FOR_VECTORS(i, n, count) bf16_put(to + i, vf_get(from + i, n), n);
}

/* Two rows of 16 numbers as pairs: the first in the lower halves; `count` of them exist, or NULL: none. */
INLINE void bf16_pairs(const float *even, const float *odd, int64_t count, uint32_t *to)
{
    for (int64_t i = 0; i < BF16_HALF; i += LANES) {
        const int64_t left = count - i, n = left < 0 ? 0 : left < LANES ? left : LANES;
        const vu low = bf16_upper(even != NULL ? vf_get(even + i, n) : vf_zero());
        const vu high = bf16_upper(odd != NULL ? vf_get(odd + i, n) : vf_zero());
        vf_store((float *)(void *)(to + i), (vf)(low >> 16 | high));
    }
}

/* to[c][i] = pairs[i][c], 16 x 16; rows of `to` lie `step` elements apart. */
INLINE void bf16_turn(uint32_t pairs[BF16_HALF][BF16_HALF], int64_t step, uint16_t *to)
{
    uint32_t turned[BF16_HALF][BF16_HALF];
    for (int i = 0; i < BF16_HALF; i += 4)
        for (int c = 0; c < BF16_HALF; c += 4)
            transpose4((const float *)(const void *)&pairs[i][c], BF16_HALF,
                       (float *)(void *)&turned[c][i], BF16_HALF, false);
    for (int c = 0; c < BF16_HALF; c++) memcpy(to + c * step, turned[c], sizeof turned[c]);
}

/* Columns [column, column + 16) of 32 terms, rows that may be NULL, as rows of a; `count` of them exist. */
INLINE void bf16_turn_terms(const float *const from[BF16_TERMS], int64_t column, int64_t count,
                            int64_t step, uint16_t *to)
{
    uint32_t pairs[BF16_HALF][BF16_HALF];
    for (int i = 0; i < BF16_HALF; i++) {
        const float *even = from[2 * i], *odd = from[2 * i + 1];
        bf16_pairs(even != NULL ? even + column : NULL, odd != NULL ? odd + column : NULL,
                   count - column, pairs[i]);
    }
    bf16_turn(pairs, step, to);
}

/* Pairs of terms of 16 columns that are packed, an even number of them, as the unit takes them: of a quad of terms 0 to 3 products
 * of pairs take (2, 0) and (3, 1). */
INLINE void bf16_turn_quads(lki_bf16_unit unit, uint16_t *b, int64_t pairs)
{
    typedef uint32_t memory __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
    if (unit != LKI_BF16_PAIRS) return;
    for (int64_t i = 0; i < pairs; i += 2)
        for (int64_t c = 0; c < BF16_HALF; c += LANES) {
            memory *const first = (memory *)(void *)(b + 2 * (i * BF16_HALF + c));
            memory *const second = (memory *)(void *)(b + 2 * ((i + 1) * BF16_HALF + c));
            const vu low = *first, high = *second;
            *first = low << 16 | (high & 0xffff);
            *second = (low & 0xffff0000u) | high >> 16;
        }
}

/* A block of b, or its first pairs of terms: columns [column, column + 32) of rows that may be NULL; `count` columns exist. */
INLINE void bf16_block(const float *const from[BF16_TERMS], int64_t pairs, int64_t column,
                       int64_t count, uint16_t *to)
{
    for (int64_t i = 0; i < 2 * pairs; i += 2, to += 2 * BF16_HALF)
        for (int half = 0; half < 2; half++) {
            const int64_t at = column + half * BF16_HALF;
            bf16_pairs(from[i] != NULL ? from[i] + at : NULL,
                       from[i + 1] != NULL ? from[i + 1] + at : NULL, count - at,
                       (uint32_t *)(void *)(to + half * (BF16_BLOCK / 2)));
        }
}

/* A block of b from numbers that are rounded already, `column` and `term` elements apart; `count` columns exist. */
INLINE void bf16_pack_square(const uint16_t *from, int64_t count, int64_t column, int64_t term,
                             uint16_t *to)
{
    for (int64_t pair = 0; pair < BF16_TERMS / 2; pair++, from += 2 * term, to += 2 * BF16_HALF)
        for (int64_t i = 0; i < count; i++) {
            uint16_t *place = to + i / BF16_HALF * (BF16_BLOCK / 2) + i % BF16_HALF * 2;
            place[0] = from[i * column];
            place[1] = from[i * column + term];
        }
}

/* bf16_weight.c */
size_t LKI_ISA_NAME(lki_bf16_weight_bytes)(const lki_conv_shape *s, int64_t count);
size_t LKI_ISA_NAME(lki_bf16_sums_bytes)(const lki_conv_shape *s);
void LKI_ISA_NAME(lki_bf16_weight)(const lki_conv_shape *s, int64_t count,
                                   const lki_conv_gradient *operands);

#endif

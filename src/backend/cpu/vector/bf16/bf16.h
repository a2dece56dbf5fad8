/*
 * Products whose factors are bfloat16, in tiles of 32 x 32: c += a * b, in f32.
 *
 * A sum takes its terms by blocks of 32, and in a block those with even and odd numbers apart, each a chain of fused
 * multiply-adds from 0 on; then block by block c += even + odd (docs/numerics.md 3). That is what the matrix units of
 * processors with AMX do; others do it in vectors, with the same bits.
 *
 *     a   rows of terms: 32 rows from a[0], and from a[1] on, 16 each, which lie `row` elements apart
 *     b   [block of terms][half of the columns][pair of terms][column][of the pair], 1,024 elements a block
 */
#ifndef LKI_CPU_VECTOR_BF16_H
#define LKI_CPU_VECTOR_BF16_H

#include "backend/cpu/vector/conv/conv.h"
#include "numeric/bf16.h"

enum {
    BF16_TERMS = 32,   /* of a block */
    BF16_SIDE = 32,    /* rows and columns of a tile, */
    BF16_HALF = 16,    /* and of a quarter of it, a matrix unit's */
    BF16_BLOCK = 1024, /* elements of b for a block of terms and a tile's columns */
};

/* Terms are `taps` runs of `blocks` blocks each. */
typedef struct bf16_terms {
    int64_t row;         /* elements from row to row of a */
    int64_t taps, a_tap; /* elements from run to run of a */
    int64_t blocks;
    const uint16_t *b;
} bf16_terms;

/* c [32][32]: of `rows` rows; begun: added to, else written. With `matrix` rows of a are read that are beyond those. */
void LKI_ISA_NAME(lki_bf16_tile)(bool matrix, const bf16_terms *terms, const uint16_t *const a[2],
                                 int64_t rows, float *c, bool begun);
/* Around all tiles of a call. */
void LKI_ISA_NAME(lki_bf16_begin)(bool matrix);
void LKI_ISA_NAME(lki_bf16_end)(bool matrix);

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

/* bf16_weight.c */
size_t LKI_ISA_NAME(lki_bf16_weight_bytes)(const lki_conv_shape *s, int64_t count);
size_t LKI_ISA_NAME(lki_bf16_sums_bytes)(const lki_conv_shape *s);
void LKI_ISA_NAME(lki_bf16_weight)(const lki_conv_shape *s, int64_t count,
                                   const lki_conv_gradient *operands);

#endif

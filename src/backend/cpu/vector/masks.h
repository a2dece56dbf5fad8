/*
 * Dense layers whose input is mostly exact zeros, because it stands behind relu: a mask has a bit for each
 * of LKI_BLOCK_TERMS inputs of a sample, a block of the sum (tile.h), and only set bits are visited.
 *
 *   x      [ 0 0 .7 0 | 0 0 0 0 | .2 0 0 1.1 ... ]  64 inputs
 *   mask     0 0 1  0   0 0 0 0   1  0 0 1          lowest bit first
 *
 * The weight is packed [group of MASKS_UNITS units][input][unit], so that an active input has its units
 * beside each other, and their sums are the accumulators:
 *
 *   block   for each sample           for each bit of its mask, ascending
 *   64 x 128 floats: 32 KB, which     acc[0 .. 127] = fma(x[k], w[k][0 .. 127], acc)
 *   stay in the first-level cache
 *
 * A term that is left out is a product with an exact zero: the bits are those of all terms.
 */
#ifndef LKI_CPU_VECTOR_MASKS_H
#define LKI_CPU_VECTOR_MASKS_H

#include "backend/cpu/vector/tile.h"

/* As many accumulators as hide the latency of a multiply-add, and leave room in the registers. */
#if defined(LKI_NEON)
#define MASKS_VECTORS 16
#else
#define MASKS_VECTORS 8
#endif
#define MASKS_UNITS (MASKS_VECTORS * LANES)

/* Floats from input to input in the group that begins with unit u. */
INLINE int64_t masks_width(int64_t units, int64_t u)
{
    const int64_t left = (units - u + PANEL - 1) / PANEL * PANEL;
    return left < MASKS_UNITS ? left : MASKS_UNITS;
}

/* Bit k: x[k] is not 0; n <= 64. */
INLINE uint64_t masks_of(const float *x, int64_t n)
{
    uint64_t mask = 0;
    if (n == LKI_BLOCK_TERMS) {
        UNROLL
        for (int i = 0; i < LKI_BLOCK_TERMS; i += LANES)
            mask |= (uint64_t)vf_nonzero(vf_load(x + i)) << i;
        return mask;
    }
    FOR_VECTORS(i, some, n) mask |= (uint64_t)vf_nonzero(vf_get(x + i, some)) << i;
    return mask;
}

/* acc = the sum over the mask's bits, ascending from +0, of x[k * x_step] * w[k * w_step ..], V vectors. */
INLINE void masks_sum(const int V, vf acc[], uint64_t mask, const float *x, int64_t x_step,
                      const float *w, int64_t w_step)
{
    UNROLL
    for (int v = 0; v < V; v++) acc[v] = vf_zero();
    for (; mask != 0; mask &= mask - 1) {
        const int64_t k = __builtin_ctzll(mask);
        const float *row = w + k * w_step;
        __asm__("" : "+r"(row)); /* one address; the compiler would add the vector's place first */
        const vf value = vf_set(x[k * x_step]);
        UNROLL
        for (int v = 0; v < V; v++) acc[v] = vf_fma(value, vf_load(row + v * LANES), acc[v]);
    }
}

/* In a switch over width / PANEL: F(2); break; ... so that the number of vectors is a constant. */
// clang-format off
#define MASKS_CASE(F, P) case P: F(2 * P); break;
#if MASKS_VECTORS == 16
#define MASKS_CASES(F) MASKS_CASE(F, 1) MASKS_CASE(F, 2) MASKS_CASE(F, 3) MASKS_CASE(F, 4)         \
    MASKS_CASE(F, 5) MASKS_CASE(F, 6) MASKS_CASE(F, 7) MASKS_CASE(F, 8)
#else
#define MASKS_CASES(F) MASKS_CASE(F, 1) MASKS_CASE(F, 2) MASKS_CASE(F, 3) MASKS_CASE(F, 4)
#endif
// clang-format on

#endif

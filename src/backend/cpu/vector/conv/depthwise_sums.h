/* Weight gradients of depthwise convolutions (depthwise_weight.c): where sums wait. */
#ifndef LKI_CPU_VECTOR_CONV_DEPTHWISE_SUMS_H
#define LKI_CPU_VECTOR_CONV_DEPTHWISE_SUMS_H

#include "backend/cpu/vector/conv/depthwise.h"

/* Pixels that are taken together (RUN); where a group is 3 x 3, vectors of channels, and how many times
 * so many take turns. */
#if LANES == 16 || defined(LKI_NEON) /* 32 registers */
#define VECTORS 2
#define TURNS   1
#else
#define VECTORS 1
#define TURNS   2
#endif
#if LANES > 4 || defined(LKI_NEON)
enum { RUN = 4 };
#else
enum { RUN = 1 }; /* a multiply-add is a page of code */
#endif
enum {
    GROUP_ROW = 8, /* taps of a group that is one row */
    GROUP = 9
};

/* Sums of a vector of channels: of the bias [LANES], of the taps [tap][LANES]. */
typedef struct sums {
    double *bias, *total;
    float *group, *block;
} sums;

static int64_t taps_of(const lki_conv_shape *s)
{
    return s->kernel[0] * s->kernel[1];
}

static sums sums_of(const lki_conv_shape *s, void *memory, int64_t vector)
{
    const int64_t each = taps_of(s) * LANES;
    double *start = (double *)memory + vector * (2 * each + LANES);
    float *floats = (float *)(void *)(start + LANES + each);
    return (sums){.bias = start, .total = start + LANES, .group = floats, .block = floats + each};
}

/* Behind the term in front of number `end` the block is done, or waits. */
INLINE void leave(const sums *to, int64_t at, vf block, int64_t end)
{
    if (end % LKI_BLOCK_TERMS != 0) {
        vf_store(to->block + at, block);
        return;
    }
    if (end % LKI_GROUP_TERMS != LKI_BLOCK_TERMS) block = vf_load(to->group + at) + block;
    if (end % LKI_GROUP_TERMS != 0)
        vf_store(to->group + at, block);
    else
        vf_fold(to->total + at, block, end == LKI_GROUP_TERMS);
}

/* Pixels [from, to) of a piece, all in one block. */
typedef struct strip {
    const lki_conv_shape *shape;
    const float *x, *dy, *y; /* of the piece */
    int64_t from, to;
    int64_t number; /* of `from` in the replica */
} strip;

#endif

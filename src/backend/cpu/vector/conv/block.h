/* What both passes of the block share (block.c has the picture): its shape, and the packed weight. */
#ifndef LKI_CPU_VECTOR_BLOCK_H
#define LKI_CPU_VECTOR_BLOCK_H

#include "backend/cpu/vector/conv/winograd.h"

/* A kernel's row: its columns and channels lie beside each other in x. In memory of our own a run fills
 * whole vectors, the rest 0. */
INLINE int64_t block_run(const lki_block_shape *s)
{
    return s->kernel[1] * s->channels;
}
INLINE int64_t block_run_padded(const lki_block_shape *s)
{
    return (block_run(s) + LANES - 1) / LANES * LANES;
}

/* Rows or columns of the convolution under so many pooled ones. */
INLINE int64_t block_under(const lki_block_shape *s, int64_t pooled)
{
    return (pooled - 1) * s->step + s->window;
}

/* Floats of the weight as forward has it, where the last panel has one vector of filters if these are
 * enough; and as backward has it. */
INLINE int64_t block_columns(const lki_block_shape *s)
{
    return (s->filters + LANES - 1) / LANES * LANES;
}
INLINE int64_t block_forward_floats(const lki_block_shape *s)
{
    return s->winograd
               ? winograd_floats(winograd_size(s->winograd, s->kernel[0]), s->channels, s->filters)
               : block_columns(s) * s->kernel[0] * block_run(s);
}
INLINE int64_t block_weights(const lki_block_shape *s)
{
    return s->filters * s->kernel[0] * block_run_padded(s);
}

/* Whether the gradient of the input is formed for all kernel rows of a window's place at once: where their
 * accumulators and the weight are small. A part of the numerics (block_backward.c). */
INLINE bool block_together(const lki_block_shape *s)
{
    const int64_t run = block_run(s);
    return (run + 15) / 16 * s->kernel[0] <= 12 && s->filters * s->kernel[0] * run <= 6144;
}

enum { MOST_PLACES = 9 };

/* The maximum of a window's places for n <= LANES filters, and its place. Values below LKI_TINY count as 0, as
 * if the convolution had stored them. */
INLINE void pool_window(const int places, const vf *from, vf bias, int64_t n, float *out,
                        uint8_t *where)
{
    vf best = vf_set(0x1.fffffep-64f); /* the largest float below LKI_TINY */
    vi place = vi_set(LKI_BLOCK_OFF);
    UNROLL
    for (int i = 0; i < places; i++) {
        const vf v = from[i] + bias;
        const vm better = vm_gt(v, best); /* false for NaN */
        best = vf_blend(better, v, best);
        place = vi_blend(better, vi_set(i), place);
    }
    vf_put(out, vf_flush(best), n);
    vi_to_bytes(where, place);
}

size_t LKI_ISA_NAME(lki_block_backward_bytes)(const lki_block_shape *s);
size_t LKI_ISA_NAME(lki_block_sums_bytes)(const lki_block_shape *s);
void LKI_ISA_NAME(lki_block_backward)(const lki_block_shape *s, const lki_block_backward *b);
const float *LKI_ISA_NAME(lki_block_gradient)(const lki_block_shape *s, int64_t samples,
                                              void *memory);

#endif

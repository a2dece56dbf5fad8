/* What both passes of the block share (block.c has the picture): its shape, and the packed weight. */
#ifndef LKI_CPU_VECTOR_BLOCK_H
#define LKI_CPU_VECTOR_BLOCK_H

#include <math.h>

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

/* What gelu and silu are given. Of -infinity they are NaN, and it counts as that. */
INLINE vf pool_value(vf sum)
{
    return vf_blend(vm_gt(sum, vf_set(-INFINITY)), vf_flush(sum), vf_set(NAN));
}
/* The largest and the least of a window's values, and their places. NaN in the first place stays, others count for nothing. */
INLINE void pool_both(const int places, const vf *from, vf bias, int64_t n, float *out,
                      float *least, uint8_t *where)
{
    vf high = pool_value(from[0] + bias), low = high;
    vi place = vi_set(0);
    UNROLL
    for (int i = 1; i < places; i++) {
        const vf v = pool_value(from[i] + bias);
        const vm above = vm_gt(v, high), below = vm_gt(low, v);
        high = vf_blend(above, v, high);
        low = vf_blend(below, v, low);
        place = vi_blend(above, (place & vi_set(15 << 4)) | vi_set(i), place);
        place = vi_blend(below, (place & vi_set(15)) | vi_set(i << 4), place);
    }
    vf_put(out, high, n);
    vf_put(least, low, n);
    vi_to_bytes(where, place);
}

/* What vector.h says of a window, for n <= LANES filters. Values below LKI_TINY count as 0, as if the convolution had
 * stored them. */
INLINE void pool_window(const int places, const vf *from, vf bias, int64_t n, float *out,
                        float *least, uint8_t *where)
{
    if (least != NULL) {
        pool_both(places, from, bias, n, out, least, where);
        return;
    }
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

/* The pixels of a convolution's input that see the same taps: of the data gradient. */
#ifndef LKI_CPU_VECTOR_PHASE_H
#define LKI_CPU_VECTOR_PHASE_H

#include "backend/cpu/vector/local.h"

/* Along one axis, the pixels of the input with the same rest modulo the stride, and their taps:
 * first, first + q, ... (`taps` of them), at outputs that descend as the tap ascends. */
typedef struct phase {
    int64_t pixel, pixels;   /* first pixel of the input; how many */
    int64_t tap, taps, step; /* the last tap, how many, from one to the next */
    int64_t out, out_step;   /* where the last tap of the first pixel lies; from tap to tap */
} phase;

/* The greatest common divisor of a and m, and x with a * x equal to it modulo m (Euclid). */
INLINE int64_t divisor(int64_t a, int64_t m, int64_t *x)
{
    int64_t r = a, s = m, next = 0;
    *x = 1;
    while (s != 0) {
        const int64_t q = r / s, t = r - q * s, u = *x - q * next;
        r = s, s = t, *x = next, next = u;
    }
    return r;
}

/* There is one for each of the first `stride` pixels. */
INLINE int64_t phases(const lki_conv_shape *s, int way)
{
    return s->stride[way] < s->in[way] ? s->stride[way] : s->in[way];
}

INLINE phase phase_of(const lki_conv_shape *s, int way, int64_t pixel)
{
    const int64_t stride = s->stride[way], dilation = s->dilation[way];
    const int64_t padding = s->padding[way], rest = (pixel + padding) % stride;
    phase p = {.pixel = pixel, .pixels = (s->in[way] - pixel + stride - 1) / stride};
    int64_t inverse;
    const int64_t common = divisor(dilation, stride, &inverse);
    if (rest % common != 0) return p;
    /* The first tap: tap * dilation has this rest. */
    const int64_t step = stride / common;
    const int64_t first = rest / common * ((inverse % step + step) % step) % step;
    if (first >= s->kernel[way]) return p;
    p.step = step;
    p.taps = (s->kernel[way] - 1 - first) / step + 1;
    p.tap = first + (p.taps - 1) * step;
    p.out = (pixel + padding - p.tap * dilation) / stride;
    p.out_step = step * dilation / stride;
    return p;
}

#endif

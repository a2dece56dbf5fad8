/* Weight gradients of depthwise convolutions (depthwise_weight.c) with 3 x 3 taps side by side. */
#ifndef LKI_CPU_VECTOR_CONV_DEPTHWISE_STRETCH_H
#define LKI_CPU_VECTOR_CONV_DEPTHWISE_STRETCH_H

#include "backend/cpu/vector/conv/depthwise_sums.h"

/* What lies in a strip of a row, for 3 x 3 taps side by side, of which at most one row and one column are
 * outside the image. */
typedef struct stretch {
    int64_t x, dy; /* of the piece: under the first tap of the first pixel; the gradient there */
    int64_t inner; /* pixels with all columns of taps inside */
    bool before,
        after;        /* and one in front of them, with the first column outside; one behind them */
    bool top, bottom; /* the first row of taps is outside; the last */
} stretch;

/* Returns how many a strip has; 0: it has others. */
static int stretches_of(const strip *s, stretch list[LKI_BLOCK_TERMS])
{
    const lki_conv_shape *c = s->shape;
    const int64_t width = c->out[1], rows = s->from / width, sample = rows / c->out[0];
    int64_t column = s->from - rows * width, image = sample * c->in[0] * c->in[1];
    int64_t number = rows - sample * c->out[0];
    int count = 0;
    for (int64_t p = s->from, n; p < s->to; p += n, column = 0) {
        n = s->to - p < width - column ? s->to - p : width - column;
        const int64_t y = number * c->stride[0] - c->padding[0];
        const int64_t x = column * c->stride[1] - c->padding[1];
        const int64_t end[2] = {y + 3, x + (n - 1) * c->stride[1] + 3};
        stretch *to = &list[count++];
        *to = (stretch){.x = (image + y * c->in[1] + x) * c->channels,
                        .dy = p * c->channels,
                        .before = x<0, .after = end[1]> c->in[1],
                        .top = y<0, .bottom = end[0]> c->in[0]};
        to->inner = n - to->before - to->after;
        if (x < -1 || y < -1 || end[0] > c->in[0] + 1 || end[1] > c->in[1] + 1) return 0;
        if ((to->top && to->bottom) || to->inner < 0) return 0;
        if (++number < c->out[0]) continue;
        number = 0;
        image += c->in[0] * c->in[1];
    }
    return count;
}

/* Pointers to the first tap of a pixel in each row and to the gradient, and how far the next four pixels
 * of a row are away. */
typedef struct walk {
    const float *x[3], *dy, *y;
    int64_t apart[5];
} walk;

INLINE void forth(walk *w, const int first, const int last, const int pixels)
{
    UNROLL
    for (int v = first; v < last; v++) w->x[v] += w->apart[pixels];
}

/* P pixels side by side, S apart: columns [from, to) and rows [first, last) of taps. A column is read once,
 * for all taps that see it; an element's terms come in the order of the pixels. */
INLINE void columns(const int P, const int W, const int S, const bool masked, const int first,
                    const int last, const int from, const int to, walk *w, vf acc[][VECTORS])
{
    const int end = (P - 1) * S + to;
    vf d[RUN][VECTORS];
    UNROLL
    for (int j = 0; j < end; j++) {
        if (j > 0 && j % 4 == 0) forth(w, first, last, 4);
        if (j < from) continue;
        UNROLL
        for (int k = 0; k < W; k++) {
            const int p = (j - from) / S;
            if ((j - from) % S != 0 || p >= P) continue;
            d[p][k] = vf_load(w->dy + w->apart[p] + k * LANES);
            if (masked)
                d[p][k] = vf_blend(vm_gt(vf_load(w->y + w->apart[p] + k * LANES), vf_zero()),
                                   d[p][k], vf_zero());
        }
        UNROLL
        for (int v = first; v < last; v++) {
            UNROLL
            for (int k = 0; k < W; k++) {
                vf x = vf_load(w->x[v] + w->apart[j % 4] + k * LANES);
                if (S == 1 ? P > 1 && j > 0 && j <= P : j > 0 && j % 2 == 0 && j < 2 * P)
                    OPAQUE_VECTOR(x); /* several taps see it */
                UNROLL
                for (int h = from; h < to; h++) {
                    const int p = (j - h) / S;
                    if (j < h || (j - h) % S != 0 || p >= P) continue;
                    acc[v * 3 + h][k] = vf_fma(x, d[p][k], acc[v * 3 + h][k]);
                }
            }
        }
    }
    const int done = (end - 1) / 4 * 4;
    if (P * S > done) forth(w, first, last, P * S - done);
    w->dy += w->apart[P];
    if (masked) w->y += w->apart[P];
}

/* A stretch, with rows [first, last) of taps. */
INLINE void rows_of(const int W, const int S, const bool masked, const int first, const int last,
                    const strip *s, const stretch *p, int64_t channel, vf acc[][VECTORS])
{
    const int64_t channels = s->shape->channels, line = s->shape->in[1] * channels;
    walk w = {.dy = s->dy + p->dy + channel, .y = masked ? s->y + p->dy + channel : NULL};
    UNROLL
    for (int i = 0; i < 5; i++) {
        w.apart[i] = i * channels;
        if (i > 0) OPAQUE(w.apart[i]); /* so that they stay in registers */
    }
    UNROLL
    for (int v = first; v < last; v++) w.x[v] = s->x + (p->x + v * line + channel);
    if (p->before) columns(1, W, S, masked, first, last, 1, 3, &w, acc);
    int64_t n = p->inner;
    for (; n >= RUN; n -= RUN) columns(RUN, W, S, masked, first, last, 0, 3, &w, acc);
    for (; n > 0; n--) columns(1, W, S, masked, first, last, 0, 3, &w, acc);
    if (p->after) columns(1, W, S, masked, first, last, 0, 2, &w, acc);
}

INLINE void copy(const int W, vf to[][VECTORS], vf from[][VECTORS])
{
    UNROLL
    for (int t = 0; t < GROUP; t++) {
        UNROLL
        for (int k = 0; k < W; k++) to[t][k] = from[t][k];
    }
}

INLINE void stretch_of(const int W, const int S, const bool masked, const strip *s,
                       const stretch *p, int64_t channel, vf acc[][VECTORS])
{
    if (p->top)
        rows_of(W, S, masked, 1, 3, s, p, channel, acc);
    else if (p->bottom)
        rows_of(W, S, masked, 0, 2, s, p, channel, acc);
    else
        rows_of(W, S, masked, 0, 3, s, p, channel, acc);
}

/* All 3 x 3 sums of T times W vectors over the stretches of a strip. With T > 1 they take turns, so that
 * what one has read waits in the first-level cache for the other one, which wants the rest of its lines. */
INLINE void stretches(const int T, const int W, const int S, const bool masked, const strip *s,
                      const stretch *list, int count, int64_t channel, const sums *to)
{
    const int64_t end = s->number + s->to - s->from;
    vf all[TURNS][GROUP][VECTORS];
    for (int i = 0; i < T; i++) {
        UNROLL
        for (int k = 0; k < W; k++) {
            UNROLL
            for (int t = 0; t < GROUP; t++)
                all[i][t][k] = s->number % LKI_BLOCK_TERMS != 0
                                   ? vf_load(to[i * W + k].block + t * LANES)
                                   : vf_zero();
        }
    }
    for (const stretch *p = list; p < list + count; p++)
        for (int i = 0; i < T; i++) {
            vf acc[GROUP][VECTORS];
            copy(W, acc, all[i]);
            stretch_of(W, S, masked, s, p, channel + i * W * LANES, acc);
            copy(W, all[i], acc);
        }
    for (int i = 0; i < T; i++) {
        UNROLL
        for (int k = 0; k < W; k++) {
            UNROLL
            for (int t = 0; t < GROUP; t++) leave(&to[i * W + k], t * LANES, all[i][t][k], end);
        }
    }
}

/* A function each: in small ones the compiler keeps all sums in registers. */
#define STRETCHES(name, T, W, S, masked)                                                           \
    static __attribute__((noinline)) void name(const strip *s, const stretch *list, int count,     \
                                               int64_t channel, const sums *to)                    \
    {                                                                                              \
        stretches(T, W, S, masked, s, list, count, channel, to);                                   \
    }
STRETCHES(many_by_1, TURNS, VECTORS, 1, false)
STRETCHES(many_by_2, TURNS, VECTORS, 2, false)
STRETCHES(many_by_1_masked, TURNS, VECTORS, 1, true)
STRETCHES(many_by_2_masked, TURNS, VECTORS, 2, true)
STRETCHES(one_by_1, 1, 1, 1, false)
STRETCHES(one_by_2, 1, 1, 2, false)
STRETCHES(one_by_1_masked, 1, 1, 1, true)
STRETCHES(one_by_2_masked, 1, 1, 2, true)

typedef void stretches_by(const strip *s, const stretch *list, int count, int64_t channel,
                          const sums *to);
/* By the stride of columns, less 1, and whether gradients are masked. */
static stretches_by *const MANY[2][2] = {{many_by_1, many_by_1_masked},
                                         {many_by_2, many_by_2_masked}};
static stretches_by *const ONE[2][2] = {{one_by_1, one_by_1_masked}, {one_by_2, one_by_2_masked}};

/* Whole vectors of channels from `channel` on, so many at once; returns where they end. */
static int64_t vector_depthwise_weight_take(stretches_by *const by[2][2], int vectors,
                                            const strip *s, const stretch *list, int count,
                                            int64_t channel, void *memory)
{
    stretches_by *const sum = by[s->shape->stride[1] - 1][s->y != NULL];
    for (; channel + vectors * LANES <= s->shape->channels; channel += vectors * LANES) {
        sums to[TURNS * VECTORS];
        for (int k = 0; k < vectors; k++) to[k] = sums_of(s->shape, memory, channel / LANES + k);
        sum(s, list, count, channel, to);
    }
    return channel;
}

#endif

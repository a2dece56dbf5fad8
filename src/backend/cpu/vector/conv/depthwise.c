/*
 * Depthwise convolutions, NHWC: a filter for each channel, so that channels are the vector, and what
 * one of them reads no other does. Forward and data gradient are passes over a grid of pixels:
 *
 *     c[pixel][channel] = sum over taps of a[pixel under the tap][channel] * b[tap][channel]
 *
 *     a     . x x x x x x .     A tile is up to TILE pixels of a row and one or two vectors of channels,
 *     tap     \ | /             with an accumulator for each. A tap passes over all of it, its weights
 *     c         t t t t         in a register, before the next tap does; or, with fewer registers, a
 *                               column of a is read once, for all pixels that see it.
 *
 * An element takes its taps row by row, from left to right (the data gradient in the opposite order),
 * and numbers all of them, also those in the border, which are left out: no image is copied. A
 * kernel of more than 64 taps has several blocks (tile.h).
 *
 * The data gradient of a stride s is s * s passes: pixels whose row and column have the same rest
 * modulo the stride see the same taps. With three taps and a stride of 2 columns come in pairs, as rows
 * are written faster where they are written whole.
 *
 * Packed weights are [vector of channels][tap][LANES].
 */
#include "backend/cpu/vector/conv/depthwise_tile.h"
#include "backend/cpu/vector/conv/phase.h"
#include "base/memory.h"
#include "numeric/tree.h"

enum {
    CACHED = 128 * 1024, /* bytes: rows under a kernel that stay in the second-level cache */
    CHUNK = 64,          /* channels at least that an image is gone through with */
    LARGE = 768 * 1024,  /* bytes: such an image does not wait in the second-level cache */
    PHASE_ROWS = 8       /* of a phase before the next one has its turn */
};

/* What is the same in all rows. */
static void vector_depthwise_ready(pass *p)
{
    const axis *v = &p->v, *h = &p->h;
    const int64_t last = h->a_first + (h->pixels - 1) * h->a_step + (h->taps - 1) * h->a_tap;
    p->a_row = h->a_size * p->channels;
    p->a_tap_row = v->a_tap * p->a_row;
    p->a_tap = h->a_tap * p->channels;
    p->a_pixel = h->a_step * p->channels;
    p->c_row = h->c_size * p->channels;
    p->c_pixel = h->c_step * p->channels;
    p->b_tap_row = v->b_tap * LANES;
    p->b_tap = h->b_tap * LANES;
    p->over = last == h->a_size;
    /* A stride of 2 reads twice as many columns at a time, which are too many streams from memory. */
    const bool wide = p->large ||
                      (WIDE > VECTORS && h->pixels % TILE_BY_2 != 0 && h->pixels % FEW == 0);
    if (p->kind != PAIRS) {
        p->kind = v->taps * h->taps > LKI_BLOCK_TERMS ? BLOCKS : ANY;
        if (h->taps == 3 && h->a_tap == 1 && h->a_first >= -1 && last <= h->a_size &&
            p->kind == ANY && h->a_step <= 2)
            p->kind = h->a_step == 1 ? THREE : wide ? WIDE_BY_2 : THREE_BY_2;
    }
    const bool few = p->kind == PAIRS || p->kind == BLOCKS || p->kind == WIDE_BY_2;
    const int64_t most = few ? FEW : p->kind == THREE_BY_2 ? TILE_BY_2 : TILE;
    p->tiles = (h->pixels + most - 1) / most;
    p->pixels = h->pixels / p->tiles;
    p->more = h->pixels - p->pixels * p->tiles;
}

/* Row y of the grid; a and c are images. */
static void run_row(const pass *p, const float *a, float *c, int64_t y)
{
    const axis *v = &p->v, *h = &p->h;
    const int64_t row = v->a_first + y * v->a_step;
    int64_t from = 0, to = v->taps;
    while (from < to && row + from * v->a_tap < 0) from++;
    while (to > from && row + (to - 1) * v->a_tap >= v->a_size) to--;
    strip s = {.p = p,
               .a = a + row * p->a_row + from * p->a_tap_row + h->a_first * p->channels,
               .b = p->b + (v->b_first + h->b_first) * LANES + from * p->b_tap_row,
               .c = c + (v->c_first + y * v->c_step) * p->c_row + h->c_first * p->channels,
               .column = h->a_first,
               .first = from,
               .rows = to - from,
               .tiles = (int)p->more,
               .before = h->a_first < 0 ? 0 : -1,
               .after = -1};
    if (p->more > 0) {
        vector_depthwise_run(&s, p->pixels + 1);
        const int64_t done = p->more * (p->pixels + 1);
        s.a += done * p->a_pixel;
        s.c += done * p->c_pixel;
        s.column += done * h->a_step;
        s.before = -1;
    }
    s.tiles = (int)(p->tiles - p->more);
    if (p->over) s.after = s.tiles - 1;
    vector_depthwise_run(&s, p->pixels);
}

static bool is_large(const lki_conv_shape *s)
{
    return s->in[0] * s->in[1] * s->channels > LARGE / (int64_t)sizeof(float);
}

/* Channels of an image that are gone through together: the rows of a (its columns) under a kernel's
 * rows wait in the second-level cache for the next row. Of all channels rows come whole, which memory is fast at. */
static int64_t chunk_of(const lki_conv_shape *s, int64_t columns)
{
    const int64_t row = s->channels * columns * (int64_t)sizeof(float);
    if (s->stride[0] > 1 && is_large(s)) return s->channels;
    const int64_t chunks = (row * s->kernel[0] + CACHED - 1) / CACHED;
    const int64_t blocks = (depthwise_blocks(s) + chunks - 1) / chunks;
    return blocks * LANES > CHUNK ? blocks * LANES : CHUNK;
}

/* Channels [p->from, p->to). */
static void vector_depthwise_take(pass *p, int64_t from, int64_t chunk)
{
    p->from = from;
    p->to = p->channels - from < chunk ? p->channels : from + chunk;
}

static void vector_depthwise_forward(const lki_conv_shape *s, int64_t count, const float *x,
                                     lki_conv_weight weight, const float *bias, bool relu, float *y,
                                     void *workspace)
{
    const int64_t x_size = s->in[0] * s->in[1] * s->channels,
                  y_size = s->out[0] * s->out[1] * s->channels;
    const int64_t chunk = chunk_of(s, s->in[1]);
    axis axes[2];
    (void)workspace;
    for (int i = 0; i < 2; i++)
        axes[i] = (axis){.pixels = s->out[i],
                         .c_step = 1,
                         .a_first = -s->padding[i],
                         .a_step = s->stride[i],
                         .taps = s->kernel[i],
                         .a_tap = s->dilation[i],
                         .b_tap = i == 0 ? s->kernel[1] : 1,
                         .a_size = s->in[i],
                         .c_size = s->out[i]};
    pass p = {.v = axes[0],
              .h = axes[1],
              .channels = s->channels,
              .taps = s->kernel[0] * s->kernel[1],
              .b = weight.packed,
              .bias = bias,
              .relu = relu,
              .large = is_large(s)};
    vector_depthwise_ready(&p);
    for (int64_t n = 0; n < count; n++)
        for (int64_t c = 0; c < s->channels; c += chunk) {
            vector_depthwise_take(&p, c, chunk);
            for (int64_t r = 0; r < s->out[0]; r++) run_row(&p, x + n * x_size, y + n * y_size, r);
        }
}

static void vector_depthwise_forward_moments(const lki_conv_shape *s, int64_t count, const float *x,
                                             lki_conv_weight weight, const float *bias, float *y,
                                             const lki_norm_moments *moments, void *workspace)
{
    const int64_t pixels = s->out[0] * s->out[1], x_size = s->in[0] * s->in[1] * s->channels;
    for (int64_t n = 0; n < count; n++, x += x_size, y += pixels * s->channels) {
        vector_depthwise_forward(s, 1, x, weight, bias, false, y, workspace);
        LKI_ISA_NAME(lki_vector_norm_moments)(pixels, s->channels, s->channels, y, moments);
    }
}

static axis axis_of_phase(const lki_conv_shape *s, int i, int64_t pixel)
{
    const phase p = phase_of(s, i, pixel);
    const int64_t tap = i == 0 ? s->kernel[1] : 1;
    return (axis){.pixels = p.pixels,
                  .c_first = p.pixel,
                  .c_step = s->stride[i],
                  .a_first = p.out,
                  .a_step = 1,
                  .taps = p.taps,
                  .a_tap = p.out_step,
                  .b_first = p.tap * tap,
                  .b_tap = -p.step * tap,
                  .a_size = s->out[i],
                  .c_size = s->in[i]};
}

/* Whether columns come in pairs, and then these. */
static bool pairs_of(const lki_conv_shape *s, axis *h)
{
    *h = (axis){.pixels = s->in[1] / 2,
                .c_step = 2,
                .a_step = 1,
                .taps = 2,
                .a_tap = 1,
                .a_size = s->out[1],
                .c_size = s->in[1]};
    return s->kernel[1] == 3 && s->stride[1] == 2 && s->padding[1] == 1 && s->dilation[1] == 1 &&
           s->in[1] % 2 == 0 && 2 * s->kernel[0] <= LKI_BLOCK_TERMS;
}

/* Rows [first, first + PHASE_ROWS) of each phase. */
static void backward_rows(const lki_conv_shape *s, pass *p, const float *d_y, float *d_x,
                          int64_t first)
{
    axis paired;
    const bool pair = pairs_of(s, &paired);
    const int64_t rows = phases(s, 0), columns = pair ? 1 : phases(s, 1);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            p->v = axis_of_phase(s, 0, i);
            p->h = pair ? paired : axis_of_phase(s, 1, j);
            p->kind = pair ? PAIRS : ANY;
            vector_depthwise_ready(p);
            const int64_t end = p->v.pixels - first < PHASE_ROWS ? p->v.pixels : first + PHASE_ROWS;
            for (int64_t y = first; y < end; y++) run_row(p, d_y, d_x, y);
        }
}

static void vector_depthwise_backward(const lki_conv_shape *s, int64_t count, const float *d_y,
                                      lki_conv_weight weight, float *d_x, bool add, void *workspace)
{
    const int64_t x_size = s->in[0] * s->in[1] * s->channels,
                  y_size = s->out[0] * s->out[1] * s->channels;
    const int64_t chunk = chunk_of(s, s->out[1]);
    const int64_t rows = (s->in[0] + s->stride[0] - 1) / s->stride[0];
    pass p = {.channels = s->channels,
              .taps = s->kernel[0] * s->kernel[1],
              .b = weight.packed,
              .add = add,
              .large = is_large(s)};
    (void)workspace;
    for (int64_t n = 0; n < count; n++)
        for (int64_t c = 0; c < s->channels; c += chunk) {
            vector_depthwise_take(&p, c, chunk);
            for (int64_t r = 0; r < rows; r += PHASE_ROWS)
                backward_rows(s, &p, d_y + n * y_size, d_x + n * x_size, r);
        }
}

static size_t vector_depthwise_packed_bytes(const lki_conv_shape *s)
{
    const size_t taps = lki_times((size_t)s->kernel[0], (size_t)s->kernel[1]);
    return lki_times(taps, sizeof(float) * (size_t)(depthwise_blocks(s) * LANES));
}

static void vector_depthwise_pack(const lki_conv_shape *s, const float *weight, void *packed,
                                  int part, int parts)
{
    const int64_t blocks = depthwise_blocks(s), taps = s->kernel[0] * s->kernel[1];
    for (int64_t b = lki_share(part, parts, blocks); b < lki_share(part + 1, parts, blocks); b++) {
        float *to = (float *)packed + b * taps * LANES;
        for (int64_t tap = 0; tap < taps; tap++)
            for (int64_t c = b * LANES; c < (b + 1) * LANES; c++)
                *to++ = c < s->channels ? weight[c * taps + tap] : 0;
    }
}

static size_t vector_depthwise_workspace_bytes(const lki_conv_shape *s, int64_t count)
{
    (void)s, (void)count;
    return 0;
}

const lki_vector_conv LKI_ISA_NAME(lki_vector_depthwise) = {
    .packed_bytes = vector_depthwise_packed_bytes,
    .pack = vector_depthwise_pack,
    .workspace_bytes = vector_depthwise_workspace_bytes,
    .sums_bytes = LKI_ISA_NAME(lki_depthwise_sums_bytes),
    .forward = vector_depthwise_forward,
    .forward_moments = vector_depthwise_forward_moments,
    .backward = vector_depthwise_backward,
    .backward_weight = LKI_ISA_NAME(lki_depthwise_weight),
};

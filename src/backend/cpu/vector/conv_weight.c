/*
 * The weight gradient of a convolution: dW[tap][c][f] = sum over samples and pixels, ascending, of
 * x[pixel of the tap][c] * dy[pixel][f], as register tiles (tile.h) whose rows are values of x that
 * lie side by side, whose columns are filters, and whose sum runs along rows of pixels.
 *
 * Pixels are taken in strips of whole rows, so that a strip's part of dy (copied into panels) and of
 * x stay in the cache while all tiles pass over them; accumulators wait in memory between strips.
 */
#include "backend/cpu/vector/conv.h"

enum { STRIP = 128 }; /* pixels */

/* Rows of pixels are counted through all samples. */
static int64_t strip_rows(const lki_conv_shape *s, int64_t count)
{
    const int64_t rows = STRIP / s->out[1] < 1 ? 1 : STRIP / s->out[1];
    return rows < count * s->out[0] ? rows : count * s->out[0];
}

typedef struct strip {
    const lki_conv_shape *shape;
    const frame *frame;
    const float *x;    /* framed */
    int64_t row, rows; /* of the output */
    const float *dy;   /* panels [group][block][pixel][PANEL] */
    float *sums;       /* panels [group][block][tap][channel][PANEL] */
} strip;

/* The first value of x under tap (ky, 0) of an output row. */
INLINE const float *row_of_x(const strip *s, int64_t row, int64_t ky)
{
    const lki_conv_shape *shape = s->shape;
    const int64_t sample = row / shape->out[0], y = row % shape->out[0];
    return s->x + sample * frame_floats(s->frame) +
           (y * shape->stride[0] + ky * shape->dilation[0]) * s->frame->size[1] * shape->channels;
}

/* Rows r of a tile lie at offset[r] from the first, or side by side. */
INLINE void weight_tile(const int R, const strip *s, int64_t ky, int64_t offset,
                        const int64_t *offsets, const float *dy, float *sums)
{
    const int64_t width = s->shape->out[1], step = s->shape->stride[1] * s->shape->channels;
    vf acc[TILE_ROWS][2];
    tile_load(R, acc, sums, PANEL, PANEL);
    for (int64_t r = 0; r < s->rows; r++) {
        const float *x = row_of_x(s, s->row + r, ky) + offset, *b = dy + r * width * PANEL;
        if (offsets == NULL) {
            tile_run(R, acc, x, 1, step, b, width);
            continue;
        }
        for (int64_t p = 0; p < width; p++, x += step, b += PANEL) {
            const vf b0 = vf_load(b), b1 = vf_load(b + LANES);
            for (int i = 0; i < R; i++) {
                const vf v = vf_set(x[offsets[i]]);
                acc[i][0] = vf_fma(v, b0, acc[i][0]);
                acc[i][1] = vf_fma(v, b1, acc[i][1]);
            }
        }
    }
    tile_store(R, acc, sums, PANEL, PANEL);
}

/* Values [offset, offset + count) of x under one tap, or under a row of taps. */
static void weight_run(const strip *s, int64_t ky, int64_t offset, int64_t count, const float *dy,
                       float *sums)
{
    FOR_TILES(first, height, count)
    {
#define WEIGHT(R) weight_tile(R, s, ky, offset + first, NULL, dy, sums + first * PANEL)
        switch (height) {
            TILE_CASES(WEIGHT)
        }
#undef WEIGHT
    }
}

/* The whole kernel as one run of values that lie here and there: where a row of taps has fewer
 * than a tile has rows, as in a first layer. */
static void weight_small(const strip *s, const float *dy, float *sums)
{
    const lki_conv_shape *shape = s->shape;
    const int64_t run = shape->kernel[1] * shape->channels, count = shape->kernel[0] * run;
    const int64_t row = shape->dilation[0] * s->frame->size[1] * shape->channels;
    FOR_TILES(first, rows, count)
    {
        int64_t offset[TILE_ROWS];
        for (int64_t r = 0; r < rows; r++) offset[r] = (first + r) / run * row + (first + r) % run;
#define SMALL(R) weight_tile(R, s, 0, 0, offset, dy, sums + first * PANEL)
        switch (rows) {
            TILE_CASES(SMALL)
        }
#undef SMALL
    }
}

static void weight_strip(const strip *s)
{
    const lki_conv_shape *shape = s->shape;
    const int64_t channels = shape->channels / shape->groups;
    const int64_t blocks = conv_blocks(shape->filters / shape->groups);
    const bool runs = conv_runs(shape);
    const int64_t taps = runs ? 1 : shape->kernel[1],
                  run = runs ? shape->kernel[1] * channels : channels;
    const float *dy = s->dy;
    float *sums = s->sums;
    const bool small = runs && run < TILE_ROWS;
    for (int64_t b = 0; b < shape->groups * blocks; b++, dy += s->rows * shape->out[1] * PANEL) {
        if (small) {
            weight_small(s, dy, sums);
            sums += shape->kernel[0] * run * PANEL;
            continue;
        }
        const int64_t group = b / blocks * channels;
        for (int64_t ky = 0; ky < shape->kernel[0]; ky++)
            for (int64_t kx = 0; kx < taps; kx++, sums += run * PANEL)
                weight_run(s, ky, kx * shape->dilation[1] * shape->channels + group, run, dy, sums);
    }
}

/* The output's gradient, and what is made of it on the way into panels. */
typedef struct gradient {
    const float *d_y;
    const float *y; /* behind relu: where it is not positive d_y counts as 0; NULL: no relu */
    float *d_bias;  /* added to; NULL: none */
} gradient;

/* A strip into panels; it is contiguous, whatever samples it spans. */
static void copy_gradient(const lki_conv_shape *s, const gradient *g, int64_t first, int64_t pixels,
                          float *to)
{
    const int64_t filters = s->filters / s->groups;
    const vf zero = vf_zero();
    for (int64_t group = 0; group < s->groups; group++)
        for (int64_t f = 0; f < filters; f += PANEL) {
            const int64_t left = filters - f, n = left < PANEL ? left : PANEL;
            int64_t at = first * s->filters + group * filters + f;
            float *bias = g->d_bias != NULL ? g->d_bias + group * filters + f : NULL;
            vf d[1][2], y[1][2], sum[1][2];
            tile_zero(1, sum);
            if (bias != NULL) tile_load(1, sum, bias, 0, n);
            for (int64_t p = 0; p < pixels; p++, to += PANEL, at += s->filters) {
                tile_load(1, d, g->d_y + at, 0, n);
                if (g->y != NULL) {
                    tile_load(1, y, g->y + at, 0, n);
                    d[0][0] = vf_blend(vm_gt(y[0][0], zero), d[0][0], zero);
                    d[0][1] = vf_blend(vm_gt(y[0][1], zero), d[0][1], zero);
                }
                sum[0][0] += d[0][0];
                sum[0][1] += d[0][1];
                tile_store(1, d, to, 0, PANEL);
            }
            if (bias != NULL) tile_store(1, sum, bias, 0, n);
        }
}

/* Panels back into the parameter's order. */
static void unpack(const lki_conv_shape *s, const float *panel, float *weight)
{
    const int64_t filters = s->filters / s->groups, channels = s->channels / s->groups;
    const int64_t taps = s->kernel[0] * s->kernel[1], size = channels * taps;
    for (int64_t group = 0; group < s->groups; group++)
        for (int64_t f = 0; f < filters; f += PANEL) {
            const int64_t n = filters - f < PANEL ? filters - f : PANEL;
            float *to = weight + (group * filters + f) * size;
            for (int64_t tap = 0; tap < taps; tap++)
                for (int64_t c = 0; c < channels; c++, panel += PANEL)
                    for (int64_t i = 0; i < n; i++) to[i * size + c * taps + tap] = panel[i];
        }
}

/* The workspace: framed inputs, a strip of dy in panels, the sums in panels. */
static int64_t framed_floats(const lki_conv_shape *s, int64_t count)
{
    const frame f = LKI_ISA_NAME(lki_conv_frame)(s);
    return frame_needed(&f) ? (count * frame_floats(&f) + 15) / 16 * 16 : 0;
}

static int64_t strip_floats(const lki_conv_shape *s, int64_t count)
{
    return s->groups * conv_blocks(s->filters / s->groups) * strip_rows(s, count) * s->out[1] *
           PANEL;
}

size_t LKI_ISA_NAME(lki_conv_weight_bytes)(const lki_conv_shape *s, int64_t count)
{
    const frame f = LKI_ISA_NAME(lki_conv_frame)(s);
    return lki_plus(frame_needed(&f) ? lki_align(frame_bytes(&f, count)) : 0,
                    sizeof(float) * (size_t)(strip_floats(s, count) + conv_panel_floats(s)));
}

static void start_sums(const lki_conv_shape *s, const float *d_weight, bool add, float *sums)
{
    const int64_t blocks = conv_blocks(s->filters / s->groups), all = blocks * s->groups;
    if (!add) memset(sums, 0, sizeof(float) * (size_t)conv_panel_floats(s));
    for (int64_t b = 0; add && b < all; b++) LKI_ISA_NAME(lki_conv_pack_block)
    (s, d_weight, b / blocks, b % blocks, sums + b * (conv_panel_floats(s) / all));
}

void LKI_ISA_NAME(lki_conv_weight)(const lki_conv_shape *s, int64_t count, const float *x,
                                   const float *d_y, const float *y, float *d_weight, float *d_bias,
                                   bool add, void *workspace)
{
    const frame f = LKI_ISA_NAME(lki_conv_frame)(s);
    const int64_t image = s->in[0] * s->in[1] * s->channels, all = count * s->out[0];
    float *framed = workspace, *dy = framed + framed_floats(s, count);
    float *sums = dy + strip_floats(s, count);
    for (int64_t n = 0; frame_needed(&f) && n < count; n++)
        LKI_ISA_NAME(lki_conv_fill)(&f, x + n * image, framed + n * frame_floats(&f));
    start_sums(s, d_weight, add, sums);
    if (d_bias != NULL && !add) memset(d_bias, 0, sizeof(float) * (size_t)s->filters);
    const gradient g = {.d_y = d_y, .y = y, .d_bias = d_bias};
    strip part = {
        .shape = s, .frame = &f, .x = frame_needed(&f) ? framed : x, .dy = dy, .sums = sums};
    for (; part.row < all; part.row += part.rows) {
        const int64_t most = strip_rows(s, count), left = all - part.row;
        part.rows = left < most ? left : most;
        copy_gradient(s, &g, part.row * s->out[1], part.rows * s->out[1], dy);
        weight_strip(&part);
    }
    unpack(s, sums, d_weight);
}

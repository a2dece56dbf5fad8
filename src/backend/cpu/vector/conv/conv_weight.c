/*
 * The weight gradient of a convolution: dW[tap][c][f] = sum over samples and pixels of
 * x[pixel of the tap][c] * dy[pixel][f], as register tiles (tile.h) whose rows are values of x that lie
 * side by side, whose columns are filters, and whose sum runs along rows of pixels. The gradient of the
 * bias is the sum of dy, in double.
 *
 * The pixels of a replica are numbered through its samples, row by row, which cuts all sums into blocks
 * and groups. Pixels come in strips that end where a number is a multiple of STRIP or a piece ends, in
 * the middle of a row or not: a strip's part of dy (copied into panels) and of x stay in the cache while
 * all tiles pass over them. Between strips, and between pieces, sums wait in memory that belongs to the
 * replica: the unfinished block, the blocks of the unfinished group, and the total of the groups. With strips of 256:
 *
 *   pieces   [ samples 0, 1                 | 2, 3                        ]
 *   strips   [ 0 ... 255 | 256 ... 511 | 512 | 513 ... 767 | 768 ... 1023 | 1024 ...
 *   block                                x---x
 *   group                x-------------x-----x-------------x
 *   total                                                                 x--- ...
 *
 * While tiles pass over a strip, the next one's dy is fetched, and where pixels follow each other the values of x that come
 * next: both lie where no processor foresees them. Values of pixels that fill few sets of a cache are copied.
 *
 * With the last piece the sums become the gradient, in the parameter's order. Sums of narrow results
 * (narrow.h), those of fewer than LKI_NARROW filters in a group, are totals from their first term.
 */
#include "backend/cpu/vector/conv/conv.h"
#include "backend/cpu/vector/transpose.h"

enum {
    STRIP = 2 * LKI_BLOCK_TERMS, /* pixels at most */
    VALUES = 96,                 /* of x under a pixel, that all panels pass over in turn */
    SHARES = 256,                /* parts of a float */
    MOST_DIRECT = 4 * PANEL,     /* values of x under a pixel, in all, for which dy is not copied */
    CHUNK = 16                   /* channels whose panels are turned round at a time */
};

static int64_t bias_count(const lki_conv_shape *s)
{
    return s->groups * conv_blocks(s->filters / s->groups) * PANEL;
}

static bool is_narrow(const lki_conv_shape *s)
{
    return s->filters / s->groups < LKI_NARROW;
}

static int64_t pixel_terms(const lki_conv_shape *s)
{
    return is_narrow(s) ? INT64_MAX : conv_terms(s, s->out[0] * s->out[1]);
}

size_t LKI_ISA_NAME(lki_conv_sums_bytes)(const lki_conv_shape *s)
{
    return conv_sums_bytes(conv_panel_floats(s), bias_count(s), pixel_terms(s));
}

typedef struct strip {
    const lki_conv_shape *shape;
    const frame *frame;
    const float *x;        /* framed */
    int64_t row, step;     /* pixels that follow each other; floats from one to the next */
    int64_t first, pixels; /* of the output, counted through the piece */
    bool direct;           /* dy is as it comes, else in panels [group][block][pixel][PANEL] */
    const float *dy;
    const float *soon; /* dy of the next strip, as it comes: */
    int64_t share;     /* floats to fetch of it for each value of x and pixel, times SHARES */
    bool fetches;      /* values of x that come next, too */
    float *values;     /* copies of x, [pixel][VALUES]; NULL: none */
    conv_sums sums;
    int64_t number; /* of the first pixel, in the replica */
} strip;

/* `x` is the first value under tap (0, 0) of the first sample. V is 0 where the result is not narrow. The sums of the
 * tile behind it are fetched meanwhile, and a share of the next strip's dy. */
INLINE void weight_tile(const int R, const int V, const strip *s, const float *x, const float *dy,
                        int64_t at)
{
    const lki_conv_shape *shape = s->shape;
    const int64_t width = s->row, step = s->step, pitch = s->direct ? shape->filters : PANEL;
    const int64_t row = shape->stride[0] * s->frame->size[1] * shape->channels;
    const tile_wait wait = {.group = s->sums.group + at, .total = s->sums.total + at};
    const float *soon = s->soon + at / PANEL * s->pixels * s->share / SHARES;
    const int64_t pace = (R * s->share + SHARES - 1) / SHARES;
    int64_t y = s->first / width, column = s->first % width, k = s->number;
    const int64_t end = k + s->pixels;
    const float *sample = x + y / shape->out[0] * frame_floats(s->frame);
    vf acc[TILE_ROWS][2];
    vd narrow[NARROW_ROWS][4];
    y %= shape->out[0];
    if (V > 0 && k == 0)
        narrow_zero(R, V, narrow);
    else if (V > 0)
        narrow_load(R, V, narrow, wait.total);
    else if (k % LKI_BLOCK_TERMS == 0)
        tile_zero(R, acc);
    else
        tile_load(R, acc, s->sums.block + at, PANEL, PANEL);
    while (k < end) {
        const float *a = sample + y * row + column * step;
        int64_t n = LKI_BLOCK_TERMS - k % LKI_BLOCK_TERMS;
        if (n > end - k) n = end - k;
        if (n > width - column) n = width - column;
        if (V > 0)
            narrow_run(R, V, narrow, a, 1, step, dy, n);
        else
            tile_run_fetch(R, acc, a, 1, step, dy, pitch, n, wait.group + R * PANEL, PANEL / 4,
                           soon, pace);
        soon += n * pace;
        dy += n * pitch;
        k += n;
        column += n;
        if (column == width) {
            column = 0;
            if (++y == shape->out[0]) {
                y = 0;
                sample += frame_floats(s->frame);
            }
        }
        if (V == 0 && k % LKI_BLOCK_TERMS == 0) tile_block(R, acc, wait, k, k == LKI_GROUP_TERMS);
    }
    if (V > 0)
        narrow_store(R, V, narrow, wait.total);
    else if (k % LKI_BLOCK_TERMS != 0)
        tile_store(R, acc, s->sums.block + at, PANEL, PANEL);
}

/* `count` values of x that lie side by side, for a panel of filters. */
INLINE void weight_run(const int V, const strip *s, const float *x, int64_t count, const float *dy,
                       int64_t at)
{
    FOR_TILES_OF(V > 0 ? NARROW_ROWS : TILE_ROWS, first, height, count)
    {
#define WEIGHT(R)                                                                                  \
    if (V == 0 || (R) <= NARROW_ROWS) weight_tile(R, V, s, x + first, dy, at + first * PANEL)
        switch (height) {
            TILE_CASES(WEIGHT)
        }
#undef WEIGHT
    }
}

/* `count` values of x under each pixel, beside each other. They are one row of pixels then. */
static const float *copy_values(strip *s, const float *x, int64_t count)
{
    const int64_t rows = s->shape->out[0];
    const int64_t row = s->shape->stride[0] * s->frame->size[1] * s->shape->channels;
    int64_t y = s->first / s->row, column = s->first % s->row;
    float *to = s->values;
    for (int64_t k = 0; k < s->pixels; y++, column = 0) {
        const float *from = x + y / rows * frame_floats(s->frame) + y % rows * row;
        for (; k < s->pixels && column < s->row; k++, column++, to += VALUES)
            FOR_VECTORS(i, n, count) vf_store(to + i, vf_get(from + column * s->step + i, n));
    }
    s->row = s->pixels;
    s->first = 0;
    s->step = VALUES;
    return s->values;
}

/* A panel's part of `count` values of x that come next, of the strip's pixels or as many behind them, for filters from f on. */
INLINE void fetch_values(const strip *s, const float *next, int64_t count, int64_t f)
{
    const int64_t filters = s->shape->filters / s->shape->groups;
    for (int64_t p = f * s->pixels / filters; p < (f + PANEL) * s->pixels / filters; p++)
        for (int64_t i = 0; i < count; i += 16) __builtin_prefetch(next + p * s->step + i, 0, 2);
}

/* `count` values of x for all panels of a group, of which the first has its sums at `at`, and each is so many numbers; next
 * come `coming` others. */
static void weight_panels(const strip *whole, int64_t group, const float *x, int64_t count,
                          int64_t at, int64_t each, const float *next, int64_t coming)
{
    const int64_t filters = whole->shape->filters / whole->shape->groups;
    const int64_t panel = whole->direct ? PANEL : whole->pixels * PANEL;
    const float *dy = whole->dy + group * conv_blocks(filters) * panel;
    strip s = *whole;
    if (s.values != NULL) x = copy_values(&s, x, count);
    for (int64_t f = 0; f < filters; f += PANEL, at += each, dy += panel) {
        if (s.fetches) fetch_values(whole, next, coming, f);
        if (!is_narrow(s.shape))
            weight_run(0, &s, x, count, dy, at);
        else if (narrow_panel(filters - f))
            weight_run(4, &s, x, count, dy, at);
        else
            weight_run(2, &s, x, count, dy, at);
    }
}

/* Values of x that lie side by side under one tap, or under a row of taps. */
static int64_t run_length(const lki_conv_shape *s)
{
    return s->channels / s->groups * (conv_runs(s) ? s->kernel[1] : 1);
}

static void weight_group(const strip *s, int64_t group)
{
    const lki_conv_shape *shape = s->shape;
    const int64_t row = shape->dilation[0] * s->frame->size[1] * shape->channels;
    const int64_t taps = conv_runs(shape) ? 1 : shape->kernel[1], run = run_length(shape);
    const int64_t each = shape->kernel[0] * taps * run * PANEL;
    int64_t at = group * conv_blocks(shape->filters / shape->groups) * each;
    for (int64_t ky = 0; ky < shape->kernel[0]; ky++)
        for (int64_t kx = 0; kx < taps; kx++) {
            const float *x = s->x + group * (shape->channels / shape->groups) + ky * row +
                             kx * shape->dilation[1] * shape->channels;
            const float *here = x + s->first * s->step; /* where pixels follow each other */
            for (int64_t c = 0, n, more; c < run; c += n, at += n * PANEL) {
                n = run - c < VALUES ? run - c : VALUES;
                more = c + n < run ? run - c - n : run; /* behind the last: the next strip's */
                weight_panels(s, group, x + c, n, at, each,
                              c + n < run ? here + c + n : here + s->pixels * s->step,
                              more < VALUES ? more : VALUES);
            }
        }
}

static void weight_strip(const strip *s)
{
    for (int64_t group = 0; group < s->shape->groups; group++) weight_group(s, group);
}

/* Columns [0, n) of so many pixels of the output's gradient, and `sum` plus them. `whole`: n is PANEL;
 * constants, as the loop is short. */
INLINE void copy_pixels(const bool masked, const bool whole, const float *d_y, const float *y,
                        int64_t step, int64_t n, int64_t pixels, float *to, double *bias,
                        bool first)
{
    const int64_t columns = whole ? PANEL : n;
    vf d[1][2], mask[1][2];
    vd sum[4] = {{0}};
    for (int i = 0; i < 4 && !first; i++) sum[i] = vd_load(bias + i * LANES / 2);
    for (int64_t p = 0; p < pixels; p++, to += PANEL, d_y += step) {
        tile_load(1, d, d_y, 0, columns);
        if (masked) {
            tile_load(1, mask, y + p * step, 0, columns);
            d[0][0] = vf_blend(vm_gt(mask[0][0], vf_zero()), d[0][0], vf_zero());
            d[0][1] = vf_blend(vm_gt(mask[0][1], vf_zero()), d[0][1], vf_zero());
        }
        sum[0] += vf_low(d[0][0]);
        sum[1] += vf_high(d[0][0]);
        sum[2] += vf_low(d[0][1]);
        sum[3] += vf_high(d[0][1]);
        tile_store(1, d, to, 0, PANEL);
    }
    for (int i = 0; i < 4; i++) vd_store(bias + i * LANES / 2, sum[i]);
}

/* The strip's part of the output's gradient into panels; it is contiguous, whatever samples it spans.
 * The sums of the bias take it on the way. */
static void copy_gradient(const strip *s, const lki_conv_gradient *g, float *to)
{
    const int64_t all = s->shape->filters, filters = all / s->shape->groups;
    double *bias = s->sums.bias;
    for (int64_t group = 0; group < s->shape->groups; group++)
        for (int64_t f = 0; f < filters; f += PANEL, bias += PANEL, to += s->pixels * PANEL) {
            const int64_t left = filters - f, n = left < PANEL ? left : PANEL;
            const int64_t at = s->first * all + group * filters + f;
            const float *d_y = g->d_y + at, *y = g->y != NULL ? g->y + at : NULL;
            const bool first = s->number == 0;
            if (n < PANEL && y != NULL)
                copy_pixels(true, false, d_y, y, all, n, s->pixels, to, bias, first);
            else if (n < PANEL)
                copy_pixels(false, false, d_y, y, all, n, s->pixels, to, bias, first);
            else if (y != NULL)
                copy_pixels(true, true, d_y, y, all, n, s->pixels, to, bias, first);
            else
                copy_pixels(false, true, d_y, y, all, n, s->pixels, to, bias, first);
        }
}

void LKI_ISA_NAME(lki_conv_complete)(const conv_sums *sums, bool narrow, int64_t pixels)
{
    const bool rest = !narrow && pixels % LKI_BLOCK_TERMS != 0;
    const bool group = !narrow && pixels % LKI_GROUP_TERMS >= LKI_BLOCK_TERMS;
    const bool total = narrow || pixels >= LKI_GROUP_TERMS;
    for (int64_t i = 0; i < sums->count; i += LANES) {
        vf v = rest ? vf_load(sums->block + i) : vf_zero();
        if (group) v = vf_load(sums->group + i) + v;
        if (total) v = vf_total(sums->total + i, v);
        vf_store(sums->block + i, vf_flush(v));
    }
}

/* So many channels of n filters under one tap, from [channel][PANEL] to lines that are `line` floats apart, a channel
 * every `step` floats. */
static void unpack_tap(const float *from, int64_t channels, int64_t n, float *to, int64_t line,
                       int64_t step)
{
    const int64_t whole = step == 1 ? channels / 4 * 4 : 0, fours = whole > 0 ? n / 4 * 4 : 0;
    for (int64_t i = 0; i < fours; i += 4)
        for (int64_t c = 0; c < whole; c += 4)
            transpose4(from + c * PANEL + i, PANEL, to + i * line + c, line, false);
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = c < whole ? fours : 0; i < n; i++)
            to[i * line + c * step] = from[c * PANEL + i];
}

/* Panels into the parameter's order, some channels at a time: what is read stays in the cache, what is
 * written lies side by side. */
static void unpack(const lki_conv_shape *s, const float *panel, float *weight)
{
    const int64_t filters = s->filters / s->groups, channels = s->channels / s->groups;
    const int64_t taps = s->kernel[0] * s->kernel[1], all = conv_taps(s), size = channels * all;
    if (all > taps) memset(weight, 0, sizeof(float) * (size_t)(s->filters * size));
    for (int64_t group = 0; group < s->groups; group++)
        for (int64_t f = 0; f < filters; f += PANEL, panel += channels * taps * PANEL) {
            const int64_t n = filters - f < PANEL ? filters - f : PANEL;
            float *to = weight + (group * filters + f) * size;
            for (int64_t c = 0; c < channels; c += CHUNK)
                for (int64_t tap = 0; tap < taps; tap++)
                    unpack_tap(panel + (tap * channels + c) * PANEL,
                               channels - c < CHUNK ? channels - c : CHUNK, n,
                               to + c * all + conv_tap(s, tap), size, all);
        }
}

static void unpack_bias(const lki_conv_shape *s, const double *panel, float *bias)
{
    const int64_t filters = s->filters / s->groups;
    for (int64_t group = 0; group < s->groups; group++, bias += filters)
        for (int64_t f = 0; f < filters; f += PANEL, panel += PANEL)
            for (int64_t i = 0; i < PANEL && f + i < filters; i++)
                bias[f + i] = lki_flush((float)panel[i]);
}

/* The workspace: framed inputs, a strip of dy in panels, copies of x. */
static int64_t framed_floats(const lki_conv_shape *s, int64_t count)
{
    const frame f = LKI_ISA_NAME(lki_conv_frame)(s);
    return frame_needed(&f) ? (count * frame_floats(&f) + 15) / 16 * 16 : 0;
}

static int64_t strip_pixels(const lki_conv_shape *s, int64_t count)
{
    const int64_t pixels = count * s->out[0] * s->out[1];
    return pixels < STRIP ? pixels : STRIP;
}

static int64_t strip_floats(const lki_conv_shape *s, int64_t count)
{
    return (bias_count(s) + VALUES) * strip_pixels(s, count);
}

/* Whether dy is read as it comes, where few tiles pass over a copy: whole panels, of pixels that do not fill few sets of a
 * cache. */
static bool is_direct(const lki_conv_shape *s, const lki_conv_gradient *g)
{
    const int64_t values = s->kernel[0] * s->kernel[1] * (s->channels / s->groups);
    return g->y == NULL && values <= MOST_DIRECT && s->filters / s->groups % PANEL == 0 &&
           s->filters % 1024 != 0;
}

size_t LKI_ISA_NAME(lki_conv_weight_bytes)(const lki_conv_shape *s, int64_t count)
{
    const frame f = LKI_ISA_NAME(lki_conv_frame)(s);
    return lki_plus(frame_needed(&f) ? lki_align(frame_bytes(&f, count)) : 0,
                    sizeof(float) * (size_t)strip_floats(s, count));
}

/* A pixel of the output for each of the input: all of them lie side by side. */
static bool is_matrix(const lki_conv_shape *s)
{
    return s->kernel[0] * s->kernel[1] * s->stride[0] * s->stride[1] == 1 &&
           s->padding[0] + s->padding[1] == 0;
}

void LKI_ISA_NAME(lki_conv_weight)(const lki_conv_shape *s, int64_t count,
                                   const lki_conv_gradient *g)
{
    const frame f = LKI_ISA_NAME(lki_conv_frame)(s);
    const int64_t image = s->in[0] * s->in[1] * s->channels, pixels = s->out[0] * s->out[1];
    const bool several = s->filters / s->groups > PANEL;
    float *framed = g->workspace, *dy = framed + framed_floats(s, count);
    for (int64_t n = 0; frame_needed(&f) && n < count; n++)
        LKI_ISA_NAME(lki_conv_fill)(&f, g->x + n * image, framed + n * frame_floats(&f));
    strip part = {.shape = s,
                  .frame = &f,
                  .x = frame_needed(&f) ? framed : g->x,
                  .row = s->out[1],
                  .step = s->stride[1] * s->channels,
                  .direct = is_direct(s, g),
                  .share = SHARES * s->filters * PANEL / conv_panel_floats(s),
                  .sums = conv_sums_in(g->sums, conv_panel_floats(s), pixel_terms(s))};
    if (pixels == 1 || is_matrix(s)) {
        part.row = count * pixels;
        part.step = pixels == 1 ? frame_floats(&f) : s->channels;
        part.fetches = several;
    }
    if (several && part.step % 1024 == 0) part.values = dy + bias_count(s) * strip_pixels(s, count);
    if (part.direct && g->sample == 0)
        memset(part.sums.bias, 0, sizeof(double) * (size_t)s->filters);
    for (; part.first < count * pixels; part.first += part.pixels) {
        part.number = g->sample * pixels + part.first;
        const int64_t most = STRIP - part.number % STRIP, left = count * pixels - part.first;
        part.pixels = left < most ? left : most;
        part.dy = part.direct ? g->d_y + part.first * s->filters : dy;
        part.soon = g->d_y + (part.first + part.pixels) * s->filters;
        if (!part.direct)
            copy_gradient(&part, g, dy);
        else if (g->d_bias != NULL)
            LKI_ISA_NAME(lki_vector_norm_sums)
        (part.pixels, s->filters, s->filters, part.dy, part.sums.bias);
        weight_strip(&part);
    }
    if (!g->last) return;
    LKI_ISA_NAME(lki_conv_complete)(&part.sums, is_narrow(s), (g->sample + count) * pixels);
    unpack(s, part.sums.block, g->d_weight);
    if (g->d_bias != NULL) unpack_bias(s, part.sums.bias, g->d_bias);
}

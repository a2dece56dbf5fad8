/* See first.h. */
#include "backend/cpu/vector/conv/first.h"

/* Columns [0, columns) of a tile: + bias, relu, and stored. */
INLINE void first_put(const int R, const int V, vf acc[][4], float *y, int64_t row, int64_t columns,
                      const float *bias, bool relu)
{
    UNROLL
    for (int v = 0; v < V; v++) {
        const int64_t rest = columns - v * LANES, n = rest < LANES ? rest : LANES;
        const vf more = bias != NULL ? vf_get(bias + v * LANES, n) : vf_zero();
        UNROLL
        for (int r = 0; r < R; r++) acc[r][v] += more; /* -0 or +0: both are stored as +0 */
    }
    if (relu) {
        UNROLL
        for (int r = 0; r < R; r++) {
            UNROLL
            for (int v = 0; v < V; v++) acc[r][v] = vf_relu_flush(acc[r][v]);
        }
    } else {
        UNROLL
        for (int r = 0; r < R; r++) {
            UNROLL
            for (int v = 0; v < V; v++) acc[r][v] = vf_flush(acc[r][v]);
        }
    }
    UNROLL
    for (int r = 0; r < R; r++) {
        UNROLL
        for (int v = 0; v + 1 < V; v++) vf_store(y + r * row + v * LANES, acc[r][v]);
        vf_put(y + r * row + (V - 1) * LANES, acc[r][V - 1], columns - (V - 1) * LANES);
    }
}

/* Sums of a tile of the weight's gradient wait, behind pixel number `k` of the replica. */
INLINE void first_wait(const int R, const int V, vf acc[][2], const conv_sums *sums, int64_t at,
                       int64_t k)
{
    UNROLL
    for (int r = 0; r < R; r++) {
        UNROLL
        for (int v = 0; v < V; v++, at += LANES) {
            if (k % LKI_BLOCK_TERMS != 0) {
                vf_store(sums->block + at, acc[r][v]);
                continue;
            }
            if (k % LKI_GROUP_TERMS != LKI_BLOCK_TERMS)
                acc[r][v] = vf_load(sums->group + at) + acc[r][v];
            if (k % LKI_GROUP_TERMS == 0)
                vf_fold(sums->total + at, acc[r][v], k == LKI_GROUP_TERMS);
            else
                vf_store(sums->group + at, acc[r][v]);
        }
    }
}

/* acc += more; to = acc */
INLINE void first_add(const int R, const int V, vf acc[][4], vf more[][4])
{
    UNROLL
    for (int r = 0; r < R; r++) {
        UNROLL
        for (int v = 0; v < V; v++) acc[r][v] = more[r][v] + acc[r][v];
    }
}

INLINE void first_copy(const int R, const int V, vf acc[][4], vf to[][4])
{
    UNROLL
    for (int r = 0; r < R; r++) {
        UNROLL
        for (int v = 0; v < V; v++) to[r][v] = acc[r][v];
    }
}

#define FIRST_WIDE 0
#include "backend/cpu/vector/conv/first_tile.h"
#undef FIRST_WIDE
#define FIRST_WIDE 1
#include "backend/cpu/vector/conv/first_tile.h"
#undef FIRST_WIDE

static bool first_wide(const lki_conv_shape *s)
{
    return s->filters < LKI_NARROW;
}

/* Filters of a vector; vectors of all. */
static int64_t first_each(const lki_conv_shape *s)
{
    return first_wide(s) ? LANES / 2 : LANES;
}

static int64_t first_vectors(const lki_conv_shape *s)
{
    return (s->filters + first_each(s) - 1) / first_each(s);
}

/* Of a panel of the forward pass; doubles are joined to one vector of floats. Where the terms are many a
 * wider panel would not stay in the first-level cache. */
static int64_t first_width(const lki_conv_shape *s)
{
    const int64_t terms = s->kernel[0] * s->kernel[1] * s->channels;
    return first_wide(s) || terms > 2 * LKI_BLOCK_TERMS ? 2 : FIRST_WIDTH;
}

/* The workspace: offsets, images with their border as numbers, what a strip keeps. */
static size_t first_offset_bytes(const lki_conv_shape *s)
{
    return lki_align((size_t)(s->kernel[0] * s->kernel[1] * s->channels) * sizeof(int64_t));
}

static size_t first_image_bytes(const lki_conv_shape *s, int64_t count)
{
    const frame f = LKI_ISA_NAME(lki_conv_frame)(s);
    return lki_align(lki_times(frame_bytes(&f, count), first_wide(s) ? 2 : 1));
}

static first first_of(const lki_conv_shape *s, int64_t *offset)
{
    first f = {.shape = s,
               .frame = LKI_ISA_NAME(lki_conv_frame)(s),
               .terms = s->kernel[0] * s->kernel[1] * s->channels,
               .pixel = s->stride[1] * s->channels,
               .offset = offset};
    const int64_t row = f.frame.size[1] * s->channels, run = s->kernel[1] * s->channels;
    const bool beside = s->dilation[1] == 1 && run >= TILE_ROWS / 2 && f.terms > TILE_ROWS;
    f.run = beside ? run : f.terms;
    f.row = s->stride[0] * row;
    f.image = frame_floats(&f.frame);
    for (int64_t i = 0; i < s->kernel[0]; i++)
        for (int64_t j = 0; j < s->kernel[1]; j++)
            for (int64_t c = 0; c < s->channels; c++)
                *offset++ = i * s->dilation[0] * row + j * s->dilation[1] * s->channels + c;
    return f;
}

/* Image number `sample` of x, as it is read; in `to` where that is not as it lies. */
static const void *first_image(const first *f, const float *x, int64_t sample, void *to)
{
    if (first_wide(f->shape))
        first_fill_wide(f, x, sample, to);
    else if (f->shape->table != NULL || frame_needed(&f->frame))
        first_fill(f, x, sample, to);
    else
        return x + sample * f->image;
    return to;
}

/* `moments`: of y's columns; NULL: not wanted. */
static void first_run(const lki_conv_shape *s, int64_t count, const float *x,
                      lki_conv_weight weight, const float *bias, bool relu, float *y,
                      const lki_norm_moments *moments, void *workspace)
{
    first f = first_of(s, workspace);
    void *images = (char *)workspace + first_offset_bytes(s);
    const int64_t width = s->out[1], strip = (LKI_BLOCK_TERMS + width - 1) / width;
    f.bias = bias;
    f.relu = relu;
    int64_t begin, end; /* rows */
    lki_part_of(s->part, s->parts, s->out[0], &begin, &end);
    for (int64_t n = 0; n < count; n++) {
        const void *image = first_image(&f, x, n, images);
        y += begin * width * s->filters;
        for (int64_t r = begin; r < end; r += strip) {
            const int64_t rows = end - r < strip ? end - r : strip;
            const float *w = weight.packed;
            FOR_TILES_OF(first_width(s), v, V, first_vectors(s))
            {
                const int64_t filter = v * first_each(s);
                if (first_wide(s))
                    first_panel_wide(&f, (int)V, filter, (const double *)image + r * f.row, w, rows,
                                     y);
                else
                    first_panel(&f, (int)V, filter, (const float *)image + r * f.row, w, rows, y);
                w += f.terms * V * first_each(s);
            }
            const int64_t pixels = rows * width, filters = s->filters;
            if (moments != NULL)
                LKI_ISA_NAME(lki_vector_norm_moments)(pixels, filters, filters, y, moments);
            y += pixels * filters;
        }
        y += (s->out[0] - end) * width * s->filters;
    }
}

static void vector_first_forward(const lki_conv_shape *s, int64_t count, const float *x,
                                 lki_conv_weight weight, const float *bias, bool relu, float *y,
                                 void *workspace)
{
    first_run(s, count, x, weight, bias, relu, y, NULL, workspace);
}

static void vector_first_forward_moments(const lki_conv_shape *s, int64_t count, const float *x,
                                         lki_conv_weight weight, const float *bias, float *y,
                                         const lki_norm_moments *moments, void *workspace)
{
    first_run(s, count, x, weight, bias, false, y, moments, workspace);
}

/* The weight's elements [filter][channel][tap] as panels, behind them those of the data gradient. */
static void vector_first_pack(const lki_conv_shape *s, const float *weight, void *packed, int part,
                              int parts)
{
    const int64_t taps = s->kernel[0] * s->kernel[1], terms = taps * s->channels;
    float *to = packed;
    FOR_TILES_OF(first_width(s), v, V, part == 0 ? first_vectors(s) : 0)
    for (int64_t tap = 0; tap < taps; tap++)
        for (int64_t c = 0; c < s->channels; c++)
            for (int64_t i = 0; i < V * first_each(s); i++) {
                const int64_t filter = v * first_each(s) + i;
                *to++ = filter < s->filters ? weight[filter * terms + c * taps + tap] : 0;
            }
    LKI_ISA_NAME(lki_conv_pack_reversed)(s, weight, packed, part, parts);
}

static size_t vector_first_workspace_bytes(const lki_conv_shape *s, int64_t count)
{
    const size_t kept = LKI_BLOCK_TERMS * 2 * LANES *
                        sizeof(float); /* or as many bytes of doubles */
    const size_t mine = lki_plus(first_offset_bytes(s) + kept, first_image_bytes(s, count));
    const size_t data = LKI_ISA_NAME(lki_vector_conv).workspace_bytes(s, count);
    return mine > data ? mine : data;
}

/* Sums as conv_weight.c has them, of vectors as wide as these. */
static int64_t first_columns(const lki_conv_shape *s)
{
    return (s->filters + LANES - 1) / LANES * LANES;
}

static int64_t first_count(const lki_conv_shape *s)
{
    return s->kernel[0] * s->kernel[1] * s->channels * first_columns(s);
}

/* With many terms the general kernel's larger strips are better, which has no bytes. */
static bool first_is_long(const lki_conv_shape *s)
{
    const int64_t terms = s->kernel[0] * s->kernel[1] * s->channels;
    return terms > 2 * LKI_BLOCK_TERMS && !first_wide(s) && s->table == NULL;
}

static size_t vector_first_sums_bytes(const lki_conv_shape *s)
{
    if (first_is_long(s)) return LKI_ISA_NAME(lki_conv_sums_bytes)(s);
    return conv_sums_bytes(first_count(s), first_columns(s), INT64_MAX);
}

/* Panels into the parameter's order. */
static void first_unpack(const lki_conv_shape *s, const float *panel, float *weight)
{
    const int64_t taps = s->kernel[0] * s->kernel[1], terms = taps * s->channels;
    FOR_TILES_OF(2, v, V, first_vectors(s))
    for (int64_t tap = 0; tap < taps; tap++)
        for (int64_t c = 0; c < s->channels; c++)
            for (int64_t i = 0; i < V * first_each(s); i++, panel++) {
                const int64_t filter = v * first_each(s) + i;
                if (filter < s->filters) weight[filter * terms + c * taps + tap] = *panel;
            }
}

static void vector_first_weight(const lki_conv_shape *s, int64_t count, const lki_conv_gradient *g)
{
    if (first_is_long(s)) {
        LKI_ISA_NAME(lki_conv_weight)(s, count, g);
        return;
    }
    const int64_t width = s->out[1], pixels = s->out[0] * width, all = count * pixels;
    const first f = first_of(s, g->workspace);
    char *images = (char *)g->workspace + first_offset_bytes(s);
    const size_t size = first_wide(s) ? sizeof(double) : sizeof(float);
    const size_t image = size * (size_t)f.image;
    const char *x = images;
    for (int64_t n = 0; n < count; n++)
        if (first_image(&f, g->x, n, images + image * (size_t)n) == g->x)
            x = (const char *)g->x; /* they are read as they lie */
    first_strip strip = {.kept = images + first_image_bytes(s, count),
                         .sums = conv_sums_in(g->sums, first_count(s), INT64_MAX)};
    if (g->sample == 0) memset(strip.sums.bias, 0, sizeof(double) * (size_t)first_columns(s));
    for (int64_t at = 0; at < all; at += strip.pixels) {
        const int64_t sample = at / pixels, left = all - at;
        strip.number = g->sample * pixels + at;
        strip.pixels = LKI_BLOCK_TERMS - strip.number % LKI_BLOCK_TERMS;
        if (strip.pixels > left) strip.pixels = left;
        strip.y = at % pixels / width;
        strip.column = at % width;
        strip.x = x + image * (size_t)sample + size * (size_t)(strip.y * f.row);
        strip.d_y = g->d_y + at * s->filters;
        strip.out = g->y != NULL ? g->y + at * s->filters : NULL;
        FOR_TILES_OF(2, v, V, first_vectors(s))
        if (first_wide(s))
            first_weights_wide(&f, &strip, (int)V, v * first_each(s));
        else
            first_weights(&f, &strip, (int)V, v * first_each(s));
    }
    if (!g->last) return;
    LKI_ISA_NAME(lki_conv_complete)(&strip.sums, first_wide(s), (g->sample + count) * pixels);
    first_unpack(s, strip.sums.block, g->d_weight);
    for (int64_t i = 0; g->d_bias != NULL && i < s->filters; i++)
        g->d_bias[i] = lki_flush((float)strip.sums.bias[i]);
}

/* The data gradient is no different, and of a first layer nobody reads it. */
static size_t vector_first_packed_bytes(const lki_conv_shape *s)
{
    return LKI_ISA_NAME(lki_vector_conv).packed_bytes(s);
}

static void vector_first_backward(const lki_conv_shape *s, int64_t count, const float *d_y,
                                  lki_conv_weight weight, float *d_x, bool add, void *workspace)
{
    LKI_ISA_NAME(lki_vector_conv).backward(s, count, d_y, weight, d_x, add, workspace);
}

const lki_vector_conv LKI_ISA_NAME(lki_vector_first) = {
    .packed_bytes = vector_first_packed_bytes,
    .pack = vector_first_pack,
    .workspace_bytes = vector_first_workspace_bytes,
    .sums_bytes = vector_first_sums_bytes,
    .forward = vector_first_forward,
    .forward_moments = vector_first_forward_moments,
    .backward = vector_first_backward,
    .backward_weight = vector_first_weight,
};

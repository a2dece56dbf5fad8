/*
 * Convolution + relu + max-pooling in one pass, and a backward pass that skips exact zeros
 * (block_backward.c): behind the pool at most one in four or nine gradients of the convolution's output is
 * not zero, and relu and dropout leave fewer.
 *
 * x is [in_rows][in_columns][channels], so the kernel's columns and channels of one kernel row are
 * one run of kernel[1] * channels floats beside each other, for x and for d_x alike.
 *
 * Forward is a sum over kernel rows and runs (tile.h), a row of the convolution at a time for a panel of
 * filters; as many rows as a window has are kept in turn, and pooled. A panel of two vectors of filters is
 * the tile of tile.h; where one vector holds the filters, the tile's two columns are two pixels:
 *
 *     two vectors   c[r] = pixel r      [ filters 0 .. L-1 | filters L .. 2L-1 ]
 *     one           c[r]                [ pixel 2r         | pixel 2r+1        ]     the same filters
 *
 * The sums are the same in both.
 */
#include "backend/cpu/vector/conv/block.h"
#include "numeric/tree.h"

static size_t vector_block_packed_bytes(const lki_block_shape *s)
{
    return sizeof(float) * (size_t)(block_forward_floats(s) + block_weights(s));
}

/* Vectors of filters in the panel that begins with this one. */
INLINE int panel_vectors(const lki_block_shape *s, int64_t filter)
{
    return s->filters - filter <= LANES ? 1 : 2;
}

/* Of one filter, or 0 behind the last: forward [panel][kernel row][run][vectors]. */
static void pack_forward(const lki_block_shape *s, const float *weight, float *forward, int64_t f)
{
    const int64_t run = block_run(s), taps = s->kernel[0] * s->kernel[1];
    const int64_t first = f / PANEL * PANEL, wide = panel_vectors(s, first) * LANES;
    float *panel = forward + first * s->kernel[0] * run + f % PANEL;
    for (int64_t tap = 0; tap < taps; tap++)
        for (int64_t c = 0; c < s->channels; c++)
            panel[(tap * s->channels + c) * wide] = f < s->filters
                                                        ? weight[(f * s->channels + c) * taps + tap]
                                                        : 0;
}

/* Backward [kernel row][filter][run], or [filter][kernel row][run]. */
static void pack_backward(const lki_block_shape *s, const float *weight, float *backward, int64_t f)
{
    const int64_t run = block_run_padded(s), taps = s->kernel[0] * s->kernel[1];
    const bool together = block_together(s);
    for (int64_t kh = 0; kh < s->kernel[0]; kh++) {
        float *to = backward + (together ? f * s->kernel[0] + kh : kh * s->filters + f) * run;
        for (int64_t i = block_run(s); i < run; i++) to[i] = 0;
        for (int64_t kw = 0; kw < s->kernel[1]; kw++)
            for (int64_t c = 0; c < s->channels; c++)
                *to++ = weight[(f * s->channels + c) * taps + kh * s->kernel[1] + kw];
    }
}

static void vector_block_pack(const lki_block_shape *s, const float *weight, void *packed, int part,
                              int parts)
{
    float *forward = packed, *backward = forward + block_forward_floats(s);
    const int64_t kernel = s->kernel[0] * s->kernel[1], columns = block_columns(s);
    const winograd_weight transformed = {.taps = weight,
                                         .side = s->winograd,
                                         .depth = s->channels,
                                         .columns = s->filters,
                                         .depth_step = kernel,
                                         .column_step = s->channels * kernel};
    if (s->winograd) LKI_ISA_NAME(lki_winograd_pack)(&transformed, forward, part, parts);
    const int64_t last = lki_share(part + 1, parts, columns);
    for (int64_t f = lki_share(part, parts, columns); f < last; f++) {
        if (!s->winograd) pack_forward(s, weight, forward, f);
        if (f < s->filters) pack_backward(s, weight, backward, f);
    }
}

/* Floats of a row of the convolution: as many pixels as the tiles write. */
static int64_t row_floats(const lki_block_shape *s)
{
    return (block_under(s, s->columns) + 1) * PANEL;
}

static size_t vector_block_workspace_bytes(const lki_block_shape *s)
{
    const size_t backward = LKI_ISA_NAME(lki_block_backward_bytes)(s);
    const size_t direct = (sizeof(double) + sizeof(float)) * (size_t)(TILE_ROWS * PANEL) +
                          sizeof(float) * (size_t)(s->window * row_floats(s));
    const size_t forward = s->winograd ? LKI_ISA_NAME(lki_winograd_block_bytes)(s) : direct;
    return forward > backward ? forward : backward;
}

/* tile_run() for pairs of pixels and one vector of filters. */
INLINE void pair_run(const int R, vf acc[][2], const float *a, int64_t pixel, const float *b,
                     int64_t depth)
{
    for (int64_t k = 0; k < depth; k++, a++, b += LANES) {
        const vf column = vf_load(b);
        UNROLL
        for (int r = 0; r < R; r++) {
            acc[r][0] = vf_fma(vf_set(a[2 * r * pixel]), column, acc[r][0]);
            acc[r][1] = vf_fma(vf_set(a[(2 * r + 1) * pixel]), column, acc[r][1]);
        }
    }
}

/* tile_terms() of a panel of so many vectors. */
INLINE void block_terms(const int R, const int vectors, vf acc[][2], tile_wait at, tile_sum *sum,
                        const float *a, int64_t pixel, const float *b, int64_t depth)
{
    while (depth > 0) {
        const int64_t inside = sum->number % LKI_BLOCK_TERMS, left = LKI_BLOCK_TERMS - inside;
        const int64_t n = depth < left ? depth : left;
        if (inside == 0 && sum->number > 0) {
            tile_block(R, acc, at, sum->number, !sum->begun);
            sum->begun |= sum->number % LKI_GROUP_TERMS == 0;
        }
        if (vectors == 2)
            tile_run(R, acc, a, pixel, 1, b, n);
        else
            pair_run(R, acc, a, pixel, b, n);
        a += n;
        b += n * vectors * LANES;
        depth -= n;
        sum->number += n;
    }
}

/* Some pixels of a row of the convolution, to[pixel][vectors]. */
INLINE void row_tile(const int R, const int vectors, const lki_block_shape *s, const float *x,
                     const float *weight, tile_wait at, float *to)
{
    const int64_t run = block_run(s);
    tile_sum sum = {0};
    vf acc[TILE_ROWS][2];
    tile_zero(R, acc);
    for (int64_t kh = 0; kh < s->kernel[0]; kh++)
        block_terms(R, vectors, acc, at, &sum, x + kh * s->in_columns * s->channels, s->channels,
                    weight + kh * run * vectors * LANES, run);
    tile_end(R, acc, at, sum.number, !sum.begun);
    tile_store(R, acc, to, PANEL, PANEL);
}

INLINE void row_tiles(const int vectors, const lki_block_shape *s, const float *x,
                      const float *weight, tile_wait at, float *to)
{
    const int64_t each = 3 - vectors; /* pixels in a row of the tile */
    FOR_TILES(first, height, (block_under(s, s->columns) + each - 1) / each)
    {
#define ROW_TILE(R)                                                                                \
    row_tile(R, vectors, s, x + first * each * s->channels, weight, at, to + first * PANEL)
        switch (height) {
            TILE_CASES(ROW_TILE)
        }
#undef ROW_TILE
    }
}

static void convolve_row(const int vectors, const lki_block_shape *s, const float *x,
                         const float *weight, tile_wait at, float *to)
{
    if (vectors == 2)
        row_tiles(2, s, x, weight, at, to);
    else
        row_tiles(1, s, x, weight, at, to);
}

/* A pooled row: one vector of n filters, of rows whose pixels lie `pixel` apart. */
INLINE void pool_row(const int window, const lki_block_shape *s, const float *const row[],
                     int64_t pixel, vf bias, int64_t n, float *out, uint8_t *where)
{
    for (int64_t c = 0; c < s->columns; c++) {
        vf from[MOST_PLACES];
        UNROLL
        for (int i = 0; i < window; i++) {
            UNROLL
            for (int j = 0; j < window; j++)
                from[i * window + j] = vf_load(row[i] + (c * s->step + j) * pixel);
        }
        pool_window(window * window, from, bias, n, out + c * s->filters,
                    where + c * lki_block_where(s));
    }
}

/* One panel, all rows. */
static void forward_panel(const lki_block_shape *s, const float *x, const float *weight,
                          const float *bias, int64_t f, float *out, uint8_t *where, tile_wait wait,
                          float *rows)
{
    const int vectors = panel_vectors(s, f);
    const int64_t in_row = s->in_columns * s->channels;
    for (int64_t r = 0, next = 0; r < s->rows; r++) {
        for (; next < r * s->step + s->window; next++)
            convolve_row(vectors, s, x + next * in_row, weight, wait,
                         rows + next % s->window * row_floats(s));
        for (int64_t v = f; v < s->filters && v < f + PANEL; v += LANES) {
            const int64_t at = r * s->columns, n = s->filters - v < LANES ? s->filters - v : LANES;
            const vf more = bias != NULL ? vf_get(bias + v, n) : vf_zero();
            const float *row[3];
            for (int64_t i = 0; i < s->window; i++)
                row[i] = rows + (r * s->step + i) % s->window * row_floats(s) + v - f;
            if (s->window == 2)
                pool_row(2, s, row, vectors * LANES, more, n, out + at * s->filters + v,
                         where + at * lki_block_where(s) + v);
            else
                pool_row(3, s, row, vectors * LANES, more, n, out + at * s->filters + v,
                         where + at * lki_block_where(s) + v);
        }
    }
}

static void vector_block_forward(const lki_block_shape *s, const float *x, const void *packed,
                                 const float *bias, float *out, uint8_t *where, void *workspace)
{
    double *total = workspace;
    float *group = (float *)(void *)(total + TILE_ROWS * PANEL), *rows = group + TILE_ROWS * PANEL;
    if (s->winograd) {
        LKI_ISA_NAME(lki_winograd_block)(s, x, packed, bias, out, where, workspace);
        return;
    }
    for (int64_t f = 0; f < s->filters; f += PANEL)
        forward_panel(s, x, (const float *)packed + f * s->kernel[0] * block_run(s), bias, f, out,
                      where, (tile_wait){.group = group, .total = total}, rows);
}

const lki_vector_block LKI_ISA_NAME(lki_vector_block) = {
    .packed_bytes = vector_block_packed_bytes,
    .pack = vector_block_pack,
    .workspace_bytes = vector_block_workspace_bytes,
    .sums_bytes = LKI_ISA_NAME(lki_block_sums_bytes),
    .forward = vector_block_forward,
    .backward = LKI_ISA_NAME(lki_block_backward),
    .gradient = LKI_ISA_NAME(lki_block_gradient),
};

/*
 * Convolution + activation + max-pooling in one pass, and a backward pass that skips exact zeros
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
 * And where half a vector holds them, of an image with one channel, a vector has two rows of the convolution,
 * of x in `spread` (this row, the one below) for each pixel. The sums are the same in all three.
 */
#include "backend/cpu/vector/conv/block.h"
#include "numeric/tree.h"

static size_t vector_block_packed_bytes(const lki_block_shape *s)
{
    return sizeof(float) * (size_t)(block_forward_floats(s) + block_weights(s));
}

/* Vectors of filters in the panel that begins with this one, or HALF (tile.h). */
INLINE int panel_vectors(const lki_block_shape *s, int64_t filter)
{
    if (s->channels == 1 && s->filters <= LANES / 2) return HALF;
    return s->filters - filter <= LANES ? 1 : 2;
}

/* Of one filter, or 0 behind the last: forward [panel][kernel row][run][vectors]. */
static void pack_forward(const lki_block_shape *s, const float *weight, float *forward, int64_t f)
{
    const int64_t run = block_run(s), taps = s->kernel[0] * s->kernel[1];
    const int64_t first = f / PANEL * PANEL;
    const int vectors = panel_vectors(s, first);
    const int64_t wide = vectors == 2 ? PANEL : LANES;
    const int64_t filter = vectors == HALF ? f % (LANES / 2) : f;
    float *panel = forward + first * s->kernel[0] * run + f % PANEL;
    for (int64_t tap = 0; tap < taps; tap++)
        for (int64_t c = 0; c < s->channels; c++)
            panel[(tap * s->channels + c) * wide] =
                filter < s->filters ? weight[(filter * s->channels + c) * taps + tap] : 0;
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
                                         .size = winograd_size(s->winograd, s->kernel[0]),
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

/* Rows that wait to be pooled: as many as a window has, and one to be even. */
INLINE int64_t waiting_rows(const lki_block_shape *s)
{
    return (s->window + 1) / 2 * 2;
}

static size_t vector_block_workspace_bytes(const lki_block_shape *s)
{
    const size_t backward = LKI_ISA_NAME(lki_block_backward_bytes)(s);
    const size_t direct = (sizeof(double) + sizeof(float)) * (size_t)(TILE_ROWS * PANEL) +
                          sizeof(float) * (size_t)(waiting_rows(s) * row_floats(s) +
                                                   (s->kernel[0] * s->in_columns + 2) * LANES);
    const size_t forward = s->winograd ? LKI_ISA_NAME(lki_winograd_block_bytes)(s) : direct;
    return forward > backward ? forward : backward;
}

/* What a row of the convolution is formed of: x, or its spread rows, which are kept in turn. */
typedef struct block_row {
    const float *x; /* in the row under the first of the kernel; HALF: the first that is kept */
    int64_t turn;   /* HALF: where the kernel's first row is among them */
    int64_t row;    /* floats from row to row */
    const float *weight;
    tile_wait at;
} block_row;

/* Some pixels of a row of the convolution, to[pixel][vectors]. */
INLINE void row_tile(const int R, const int vectors, const lki_block_shape *s, const block_row *b,
                     int64_t pixel, int64_t first, float *to)
{
    const int64_t run = block_run(s), wide = vectors == 2 ? PANEL : LANES;
    tile_sum sum = {0};
    vf acc[TILE_ROWS][2];
    tile_zero(R, acc);
    for (int64_t kh = 0, turn = b->turn; kh < s->kernel[0]; kh++, turn++) {
        if (vectors == HALF && turn == s->kernel[0]) turn = 0;
        tile_terms(R, vectors, acc, b->at, &sum,
                   b->x + (vectors == HALF ? turn : kh) * b->row + first * pixel, pixel,
                   b->weight + kh * run * wide, run, NULL, 0);
    }
    tile_end(R, acc, b->at, sum.number, !sum.begun);
    tile_store(R, acc, to, PANEL, PANEL);
}

INLINE void row_tiles(const int vectors, const lki_block_shape *s, const block_row *b,
                      int64_t pixel, float *to)
{
    const int64_t each = vectors == 2 ? 1 : 2; /* pixels in a row of the tile */
    FOR_TILES(first, height, (block_under(s, s->columns) + each - 1) / each)
    {
#define ROW_TILE(R) row_tile(R, vectors, s, b, pixel, first *each, to + first * PANEL)
        switch (height) {
            TILE_CASES(ROW_TILE)
        }
#undef ROW_TILE
    }
}

static void convolve_row(const int vectors, const lki_block_shape *s, const block_row *b, float *to)
{
    if (vectors == 2)
        row_tiles(2, s, b, s->channels, to);
    else if (vectors == 1)
        row_tiles(1, s, b, s->channels, to);
    else
        row_tiles(HALF, s, b, LANES, to);
}

/* Two rows of the convolution at once, from row y on. Rows of x below *next are spread. */
static void convolve_two(const lki_block_shape *s, const float *x, block_row *b, int64_t y,
                         int64_t *next, float *spread, float *to)
{
    float number[LANES];
    for (int i = 0; i < LANES; i++) number[i] = (float)i;
    const vm below = vm_gt(vf_load(number), vf_set((float)(LANES / 2) - .5f));
    for (; *next < y + s->kernel[0]; ++*next) {
        const float *row = x + *next * s->in_columns;
        const float *other = *next + 1 < s->in_rows ? row + s->in_columns : row;
        float *at = spread + *next % s->kernel[0] * b->row;
        for (int64_t i = 0; i < s->in_columns; i++)
            vf_store(at + i * LANES, vf_blend(below, vf_set(other[i]), vf_set(row[i])));
    }
    b->turn = y % s->kernel[0];
    convolve_row(HALF, s, b, to);
}

/* A pooled row: one vector of n filters, of rows whose pixels lie `pixel` apart. */
INLINE void pool_row(const int window, const lki_block_shape *s, const float *const row[],
                     int64_t pixel, vf bias, int64_t n, float *out, float *least, uint8_t *where)
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
                    least != NULL ? least + c * s->filters : NULL, where + c * lki_block_where(s));
    }
}

/* Where row y of the convolution waits, pixels LANES or PANEL apart. */
INLINE float *waiting_row(const int vectors, const lki_block_shape *s, float *rows, int64_t y)
{
    const int64_t at = y % waiting_rows(s);
    if (vectors == HALF) return rows + at / 2 * row_floats(s) + at % 2 * (LANES / 2);
    return rows + at * row_floats(s);
}

/* Pooled row r of a panel. */
static void pool_panel(const int vectors, const lki_block_shape *s, float *rows, const float *bias,
                       int64_t f, int64_t r, float *out, float *least, uint8_t *where)
{
    const int64_t pixel = vectors == 2 ? PANEL : LANES, at = r * s->columns;
    for (int64_t v = f; v < s->filters && v < f + PANEL; v += LANES) {
        const int64_t n = s->filters - v < LANES ? s->filters - v : LANES;
        const vf more = bias != NULL ? vf_get(bias + v, n) : vf_zero();
        const float *row[3];
        for (int64_t i = 0; i < s->window; i++)
            row[i] = waiting_row(vectors, s, rows, r * s->step + i) + v - f;
        const int64_t to = at * s->filters + v;
        float *low = least != NULL ? least + to : NULL;
        if (s->window == 2)
            pool_row(2, s, row, pixel, more, n, out + to, low, where + at * lki_block_where(s) + v);
        else
            pool_row(3, s, row, pixel, more, n, out + to, low, where + at * lki_block_where(s) + v);
    }
}

/* One panel, all rows. */
static void forward_panel(const lki_block_shape *s, const float *x, block_row b, const float *bias,
                          int64_t f, float *out, float *least, uint8_t *where, float *rows)
{
    const int vectors = panel_vectors(s, f);
    float *spread = rows + waiting_rows(s) * row_floats(s);
    b.row = vectors == HALF ? s->in_columns * LANES : s->in_columns * s->channels;
    for (int64_t r = 0, next = 0, next_x = 0; r < s->rows; r++) {
        for (; next < r * s->step + s->window; next += vectors == HALF ? 2 : 1) {
            float *to = waiting_row(vectors, s, rows, next);
            b.x = vectors == HALF ? spread : x + next * b.row;
            if (vectors == HALF)
                convolve_two(s, x, &b, next, &next_x, spread, to);
            else
                convolve_row(vectors, s, &b, to);
        }
        pool_panel(vectors, s, rows, bias, f, r, out, least, where);
    }
}

static void vector_block_forward(const lki_block_shape *s, const float *x, const void *packed,
                                 const float *bias, float *out, float *least, uint8_t *where,
                                 void *workspace)
{
    double *total = workspace;
    float *group = (float *)(void *)(total + TILE_ROWS * PANEL), *rows = group + TILE_ROWS * PANEL;
    if (s->winograd) {
        LKI_ISA_NAME(lki_winograd_block)(s, x, packed, bias, out, least, where, workspace);
        return;
    }
    int64_t begin, end;
    lki_part_of(s->part, s->parts, (s->filters + PANEL - 1) / PANEL, &begin, &end);
    for (int64_t f = begin * PANEL; f < end * PANEL; f += PANEL)
        forward_panel(s, x,
                      (block_row){.weight = (const float *)packed + f * s->kernel[0] * block_run(s),
                                  .at = {.group = group, .total = total}},
                      bias, f, out, least, where, rows);
}

static void vector_block_choose(const lki_block_shape *s, int64_t begin, int64_t end, float *out,
                                const float *other, float *in, const float *least, uint8_t *where)
{
    for (int64_t i = 0; i < s->rows * s->columns; i++) {
        FOR_VECTORS(f, n, end - begin)
        {
            const int64_t at = i * s->filters + begin + f;
            uint8_t *place = where + i * lki_block_where(s) + begin + f;
            const vf high = vf_get(out + at, n), low = vf_get(other + at, n);
            const vm lower = vm_gt(low, high);
            const vi both = vi_from_bytes(place);
            vf_put(out + at, vf_blend(lower, low, high), n);
            vf_put(in + at, vf_blend(lower, vf_get(least + at, n), vf_get(in + at, n)), n);
            vi_to_bytes(place, vi_blend(lower, both >> 4, both) & vi_set(15));
        }
    }
}

const lki_vector_block LKI_ISA_NAME(lki_vector_block) = {
    .packed_bytes = vector_block_packed_bytes,
    .pack = vector_block_pack,
    .workspace_bytes = vector_block_workspace_bytes,
    .sums_bytes = LKI_ISA_NAME(lki_block_sums_bytes),
    .forward = vector_block_forward,
    .choose = vector_block_choose,
    .backward = LKI_ISA_NAME(lki_block_backward),
    .gradient = LKI_ISA_NAME(lki_block_gradient),
};

/* Winograd's convolution + bias + activation + max-pool: the forward pass of block.c. Windows of 2 x 2 are those of a tile; others
 * are taken from the whole image, once that is there. */
#include "backend/cpu/vector/conv/block.h"
#include "backend/cpu/vector/conv/winograd_lines.h"
#include "base/memory.h"

/* The windows of a tile, whose rows and columns are even; `pixel` is the first one's. */
INLINE void pool_tile(const winograd *w, const int rows, const int columns, vf y[][4],
                      int64_t pixel, int64_t v)
{
    const int64_t n = w->columns - v < LANES ? w->columns - v : LANES;
    const vf bias = w->bias != NULL ? vf_get(w->bias + v, n) : vf_zero();
    UNROLL_4
    for (int i = 0; i < rows; i += 2) {
        UNROLL_4
        for (int j = 0; j < columns; j += 2) {
            const int64_t at = pixel + i / 2 * (w->out[1] / 2) + j / 2;
            const vf from[4] = {y[i][j], y[i][j + 1], y[i + 1][j], y[i + 1][j + 1]};
            pool_window(4, from, bias, n, w->y + at * w->columns + v,
                        w->least != NULL ? w->least + at * w->columns + v : NULL,
                        w->where + at * lki_block_where_of(w->columns) + v);
        }
    }
}

INLINE void pool_strip(const int side, const int size, const winograd_strip *s)
{
    const winograd copy = *s->pass, *w = &copy; /* which no store changes */
    winograd_places places;
    winograd_tile t = winograd_first(w, s->first);
    vf half[WINOGRAD_MOST][WINOGRAD_MOST] = {{{0}}}, y[4][4] = {{{0}}};
    winograd_begin(w, PANEL, s->plane, &places);
    for (int64_t k = 0; k < s->tiles; k++) {
        const int64_t pixel = t.row / 2 * (w->out[1] / 2) + t.column / 2;
        for (int64_t v = s->column; v < s->column + PANEL && v < w->columns; v += LANES) {
            if (winograd_whole(side, &t)) {
                vf whole[4][4];
                winograd_result_whole(side, size, s->m + v - s->column, places.at, whole);
                pool_tile(w, side, side, whole, pixel, v);
            } else {
                winograd_result(side, size, &t, s->m + v - s->column, places.at, half, y);
                pool_tile(w, t.pixels[0], t.pixels[1], y, pixel, v);
            }
        }
        winograd_further(side, size, &t, &places);
        winograd_next(w, &t);
    }
}

static void winograd_pool_2(const winograd_strip *s)
{
    pool_strip(2, 4, s);
}

static void winograd_pool_4(const winograd_strip *s)
{
    pool_strip(4, 6, s);
}

static void winograd_pool_5(const winograd_strip *s)
{
    pool_strip(2, 6, s);
}

/* One image, whose border is padded already: pixels under windows of 2 x 2, or all. */
static winograd block_pass(const lki_block_shape *s)
{
    const bool two = s->window == 2;
    return (winograd){.side = s->winograd,
                      .size = winograd_size(s->winograd, s->kernel[0]),
                      .depth = s->channels,
                      .columns = s->filters,
                      .in = {s->in_rows, s->in_columns},
                      .out = {two ? 2 * s->rows : s->in_rows - s->kernel[0] + 1,
                              two ? 2 * s->columns : s->in_columns - s->kernel[1] + 1},
                      .count = 1,
                      .part = s->part,
                      .parts = s->parts,
                      .panels = true,
                      .put = !two                ? LKI_ISA_NAME(lki_winograd_put)
                             : s->kernel[0] == 5 ? winograd_pool_5
                             : s->winograd == 2  ? winograd_pool_2
                                                 : winograd_pool_4};
}

/* Bytes of the image, where it is pooled when it is whole. */
static size_t image_bytes(const lki_block_shape *s, const winograd *w)
{
    const int64_t pixels = s->window == 2 ? 0 : w->out[0] * w->out[1];
    return lki_align(sizeof(float) * (size_t)(pixels * s->filters));
}

size_t LKI_ISA_NAME(lki_winograd_block_bytes)(const lki_block_shape *s)
{
    const winograd w = block_pass(s);
    return image_bytes(s, &w) + LKI_ISA_NAME(lki_winograd_bytes)(&w);
}

/* A window of 3 x 3 of an image that has its bias, for n filters. */
INLINE void pool_nine(const winograd *w, const float *at, int64_t n, float *out, float *least,
                      uint8_t *where)
{
    vf from[MOST_PLACES];
    UNROLL
    for (int i = 0; i < 3; i++) {
        UNROLL
        for (int j = 0; j < 3; j++)
            from[3 * i + j] = vf_get(at + (i * w->out[1] + j) * w->columns, n);
    }
    pool_window(MOST_PLACES, from, vf_zero(), n, out, least, where);
}

/* Of the filters that this part has. */
static void pool_image(const lki_block_shape *s, const winograd *w, float *out, float *least,
                       uint8_t *where)
{
    int64_t begin, end;
    lki_part_of(s->part, s->parts, (s->filters + PANEL - 1) / PANEL, &begin, &end);
    begin *= PANEL;
    end = end * PANEL < s->filters ? end * PANEL : s->filters;
    for (int64_t i = 0; i < s->rows * s->columns; i++) {
        const int64_t row = i / s->columns * s->step, column = i % s->columns * s->step;
        const float *at = w->y + (row * w->out[1] + column) * s->filters;
        for (int64_t v = begin; v < end; v += LANES)
            pool_nine(w, at + v, end - v < LANES ? end - v : LANES, out + i * s->filters + v,
                      least != NULL ? least + i * s->filters + v : NULL,
                      where + i * lki_block_where(s) + v);
    }
}

void LKI_ISA_NAME(lki_winograd_block)(const lki_block_shape *s, const float *x, const float *u,
                                      const float *bias, float *out, float *least, uint8_t *where,
                                      void *workspace)
{
    winograd w = block_pass(s);
    w.x = x;
    w.u = u;
    w.bias = bias;
    w.y = s->window == 2 ? out : workspace;
    w.least = least;
    w.where = where;
    LKI_ISA_NAME(lki_winograd_run)(&w, (char *)workspace + image_bytes(s, &w));
    if (s->window != 2) pool_image(s, &w, out, least, where);
}

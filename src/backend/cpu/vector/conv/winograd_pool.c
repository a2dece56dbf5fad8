/* Winograd's convolution + bias + relu + max-pool 2x2: the forward pass of block.c, by windows of a tile. */
#include "backend/cpu/vector/conv/winograd.h"
#include "backend/cpu/vector/conv/window.h"

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
                        w->where + at * lki_block_where_of(w->columns) + v);
        }
    }
}

INLINE void pool_strip(const int side, const winograd_strip *s)
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
                winograd_result_whole(side, s->m + v - s->column, places.at, whole);
                pool_tile(w, side, side, whole, pixel, v);
            } else {
                winograd_result(side, &t, s->m + v - s->column, places.at, half, y);
                pool_tile(w, t.size[0], t.size[1], y, pixel, v);
            }
        }
        winograd_further(side, &t, &places);
        winograd_next(w, &t);
    }
}

static void winograd_pool_2(const winograd_strip *s)
{
    pool_strip(2, s);
}

static void winograd_pool_4(const winograd_strip *s)
{
    pool_strip(4, s);
}

/* One image, whose border is padded already. */
static winograd block_pass(const lki_block_shape *s)
{
    return (winograd){.side = s->winograd,
                      .depth = s->channels,
                      .columns = s->filters,
                      .in = {s->in_rows, s->in_columns},
                      .out = {2 * s->rows, 2 * s->columns},
                      .count = 1,
                      .part = s->part,
                      .parts = s->parts,
                      .panels = true,
                      .put = s->winograd == 2 ? winograd_pool_2 : winograd_pool_4};
}

size_t LKI_ISA_NAME(lki_winograd_block_bytes)(const lki_block_shape *s)
{
    const winograd w = block_pass(s);
    return LKI_ISA_NAME(lki_winograd_bytes)(&w);
}

void LKI_ISA_NAME(lki_winograd_block)(const lki_block_shape *s, const float *x, const float *u,
                                      const float *bias, float *out, uint8_t *where,
                                      void *workspace)
{
    winograd w = block_pass(s);
    w.x = x;
    w.u = u;
    w.bias = bias;
    w.y = out;
    w.where = where;
    LKI_ISA_NAME(lki_winograd_run)(&w, workspace);
}

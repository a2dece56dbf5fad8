/* Winograd's convolution + bias + relu + max-pool 2x2: the forward pass of block.c, by windows of a tile. */
#include "backend/cpu/vector/conv/winograd.h"
#include "backend/cpu/vector/conv/window.h"

INLINE void pool_strip(const int side, const winograd_strip *s)
{
    const winograd *w = s->pass;
    const int64_t rows = w->out[0] / 2, columns = w->out[1] / 2;
    for (int v = 0; v < PANEL; v += LANES) {
        const int64_t left = w->columns - s->column - v, n = left < LANES ? left : LANES;
        if (n <= 0) break;
        const vf bias = w->bias != NULL ? vf_get(w->bias + s->column + v, n) : vf_zero();
        for (int64_t t = 0; t < s->tiles; t++) {
            const winograd_place p = winograd_place_of(w, s->first + t);
            vf y[4][4];
            winograd_result(side, s->m + t * PANEL + v, s->plane, y);
            UNROLL
            for (int i = 0; i < side; i += 2) {
                UNROLL
                for (int j = 0; j < side; j += 2) {
                    const int64_t r = (p.row + i) / 2, c = (p.column + j) / 2;
                    const int64_t at = r * columns + c, f = s->column + v;
                    const vf from[4] = {y[i][j], y[i][j + 1], y[i + 1][j], y[i + 1][j + 1]};
                    if (r < rows && c < columns)
                        pool_window(4, from, bias, n, w->y + at * w->columns + f,
                                    w->where + at * lki_block_where_of(w->columns) + f);
                }
            }
        }
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

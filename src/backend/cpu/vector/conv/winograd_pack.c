/* Winograd's transform of weights, U = G g G' in double: see winograd.h. */
#include "backend/cpu/vector/conv/winograd_lines.h"
#include "backend/cpu/vector/transpose.h"
#include "numeric/tree.h"

enum {
    TAPS_MOST = 5, /* along an axis */
    DEPTHS = 4     /* whose taps are turned round at a time */
};

/* G g in double: of as many values as there are taps `size`. */
INLINE void weight_line(const int side, const int size, const vd *g, vd *u)
{
    const double a = (double)WINOGRAD_A, b = (double)WINOGRAD_B;
    if (size == 4) {
        const vd even = g[0] + g[2];
        u[0] = g[0];
        u[1] = (even + g[1]) * 0.5;
        u[2] = (even - g[1]) * 0.5;
        u[3] = g[2];
        return;
    }
    vd even_a = g[0] + g[2] * (a * a), odd_a = g[1] * a;
    vd even_b = g[0] + g[2] * (b * b), odd_b = g[1] * b;
    if (side == 2) { /* of 5 taps */
        even_a = even_a + g[4] * (a * a * a * a);
        odd_a = odd_a + g[3] * (a * a * a);
        even_b = even_b + g[4] * (b * b * b * b);
        odd_b = odd_b + g[3] * (b * b * b);
    }
    u[0] = g[0] * (64.0 / 81.0);
    u[1] = (even_a + odd_a) * (-128.0 / 243.0);
    u[2] = (even_a - odd_a) * (-128.0 / 243.0);
    u[3] = (even_b + odd_b) * (32.0 / 243.0);
    u[4] = (even_b - odd_b) * (32.0 / 243.0);
    u[5] = g[size - side];
}

/* The taps of n depths from `depth` on, of a panel of columns: [depth][tap][PANEL], 0 where a column does not exist. */
static void winograd_taps(const winograd_weight *w, int64_t column, int64_t depth, int64_t n,
                          float *to)
{
    const int64_t left = w->columns - column, columns = left < PANEL ? left : PANEL;
    const int64_t kernel = w->size - w->side + 1, taps = kernel * kernel, step = w->column_step;
    const bool beside = w->depth_step == taps; /* those of a depth lie beside those of the next */
    const int64_t runs = beside ? 1 : n, run = beside ? taps * n : taps;
    if (columns < PANEL) memset(to, 0, sizeof(float) * (size_t)(taps * n * PANEL));
    for (int64_t r = 0; r < runs; r++, to += run * PANEL) {
        const float *from = w->taps + (depth + r) * w->depth_step + column * step;
        for (int64_t i = 0; i + 4 <= columns; i += 4)
            for (int64_t t = 0; t < run; t += 4) {
                const int64_t at = t + 4 <= run ? t : run - 4;
                transpose4(from + i * step + at, step, to + at * PANEL + i, PANEL, false);
            }
        for (int64_t i = columns / 4 * 4; i < columns; i++)
            for (int64_t t = 0; t < run; t++) to[t * PANEL + i] = from[i * step + t];
    }
}

/* G g G' of LANES columns, whose taps lie `tap` floats apart, to places that lie `place` floats apart. `past` the caches
 * where all workers read U, as most of it does not fit. */
INLINE void weight_square(const int side, const int size, const bool past, const float *taps,
                          int64_t tap, float *u, int64_t place)
{
    const int kernel = size - side + 1;
    vd half[2][WINOGRAD_MOST][TAPS_MOST];
    UNROLL
    for (int j = 0; j < kernel; j++) {
        vd column[2][TAPS_MOST], out[WINOGRAD_MOST];
        UNROLL
        for (int i = 0; i < kernel; i++) {
            const vf v = vf_load(taps + (kernel * i + j) * tap);
            column[0][i] = vf_low(v);
            column[1][i] = vf_high(v);
        }
        UNROLL
        for (int part = 0; part < 2; part++) {
            weight_line(side, size, column[part], out);
            UNROLL
            for (int i = 0; i < size; i++) half[part][i][j] = out[i];
        }
    }
    UNROLL
    for (int i = 0; i < size; i++) {
        vd low[WINOGRAD_MOST], high[WINOGRAD_MOST];
        weight_line(side, size, half[0][i], low);
        weight_line(side, size, half[1][i], high);
        UNROLL
        for (int j = 0; j < size; j++) {
            const vf value = vf_flush(vf_join(low[j], high[j]));
            float *to = u + (i * size + j) * place;
            if (past)
                vf_stream(to, value);
            else
                vf_store(to, value);
        }
    }
}

/* U of DEPTHS depths of a panel, or of those that are left, from `column` and `depth` on. */
INLINE void weight_group(const winograd_weight *w, const bool past, int64_t column, int64_t depth,
                         float *u, int64_t place)
{
    const int64_t n = w->depth - depth < DEPTHS ? w->depth - depth : DEPTHS;
    const int64_t kernel = w->size - w->side + 1, all = kernel * kernel;
    const int64_t tap = w->reversed ? -PANEL : PANEL;
    float taps[DEPTHS * TAPS_MOST * TAPS_MOST * PANEL];
    winograd_taps(w, column, depth, n, taps);
    for (int64_t i = 0; i < n * PANEL; i += LANES) {
        const float *from = taps + i / PANEL * all * PANEL + i % PANEL;
        if (w->reversed) from += (all - 1) * PANEL;
        if (w->size == 4)
            weight_square(2, 4, past, from, tap, u + i, place);
        else if (w->side == 4)
            weight_square(4, 6, past, from, tap, u + i, place);
        else
            weight_square(2, 6, past, from, tap, u + i, place);
    }
}

void LKI_ISA_NAME(lki_winograd_pack)(const winograd_weight *w, float *u, int part, int parts)
{
    const int64_t groups = (w->depth + DEPTHS - 1) / DEPTHS, place = w->depth * PANEL;
    const int64_t all = (w->columns + PANEL - 1) / PANEL * groups;
    const int64_t last = lki_share(part + 1, parts, all);
    for (int64_t k = lki_share(part, parts, all); k < last; k++) {
        const int64_t panel = k / groups, depth = k % groups * DEPTHS;
        float *to = u + panel * w->size * w->size * place + depth * PANEL;
        weight_group(w, true, panel * PANEL, depth, to, place);
    }
    vf_stream_end();
}

void LKI_ISA_NAME(lki_winograd_form)(const winograd_weight *w, int64_t column, int64_t depth,
                                     int64_t end, float *u, int64_t place)
{
    for (int64_t d = depth; d < end; d += DEPTHS)
        weight_group(w, false, column, d, u + (d - depth) * PANEL, place);
}

/*
 * The loops of first.h, for numbers of one kind: included with FIRST_WIDE 0 for floats, in blocks of terms,
 * and with 1 for doubles, which have one accumulator from the first term to the last.
 */
#if FIRST_WIDE
#define real       double
#define reals      vd
#define WIDTH      (LANES / 2)
#define WIDE(name) name##_wide
#else
#define real       float
#define reals      vf
#define WIDTH      LANES
#define WIDE(name) name
#endif

INLINE reals WIDE(first_set)(real x)
{
#if FIRST_WIDE
    return vd_set(x);
#else
    return vf_set(x);
#endif
}

INLINE reals WIDE(first_load)(const float *p)
{
#if FIRST_WIDE
    return vd_floats(p);
#else
    return vf_load(p);
#endif
}

INLINE reals WIDE(first_fma)(reals a, reals b, reals c)
{
#if FIRST_WIDE
    return vd_add_exact(c, a, b);
#else
    return vf_fma(a, b, c);
#endif
}

/* So many numbers, of bytes or floats. */
INLINE void WIDE(first_row)(const int channels, int64_t count, const float (*table)[256],
                            const uint8_t *bytes, real *to)
{
    for (int64_t i = 0; i < count; i += channels)
        for (int c = 0; c < channels; c++) to[i + c] = (real)table[c][bytes[i + c]];
}

/* An image with its border. */
static void WIDE(first_fill)(const first *f, const void *from, int64_t sample, real *to)
{
    const frame *g = &f->frame;
    const int64_t channels = g->channels, row = g->size[1] * channels;
    const int64_t left = g->before[1] * channels, right = g->after[1] * channels;
    const int64_t inside = row - left - right, rows = g->size[0] - g->before[0] - g->after[0];
    const float(*table)[256] = f->shape->table;
    const float *x = (const float *)from + sample * rows * inside;
    const uint8_t *bytes = (const uint8_t *)from + sample * rows * inside;
    memset(to, 0, sizeof *to * (size_t)(g->before[0] * row));
    to += g->before[0] * row;
    for (int64_t y = 0; y < rows; y++, to += row, x += inside, bytes += inside) {
        memset(to, 0, sizeof *to * (size_t)left);
        if (table == NULL)
            for (int64_t i = 0; i < inside; i++) to[left + i] = (real)x[i];
        else if (channels == 1)
            WIDE(first_row)(1, inside, table, bytes, to + left);
        else if (channels == 3)
            WIDE(first_row)(3, inside, table, bytes, to + left);
        else
            WIDE(first_row)((int)channels, inside, table, bytes, to + left);
        memset(to + left + inside, 0, sizeof *to * (size_t)right);
    }
    memset(to, 0, sizeof *to * (size_t)(g->after[0] * row));
}

/* R pixels side by side, V vectors of filters: their values. */
INLINE void WIDE(first_tile)(const int R, const int V, const first *f, const real *x,
                             const float *w, float *y, int64_t columns, const float *bias)
{
    reals acc[12][4];
    vf out[12][4];
    const int64_t pixel = f->pixel;
    int64_t t = 0, end;
    do {
        end = FIRST_WIDE || f->terms - t < LKI_BLOCK_TERMS ? f->terms : t + LKI_BLOCK_TERMS;
        UNROLL
        for (int r = 0; r < R; r++) {
            UNROLL
            for (int v = 0; v < V; v++) acc[r][v] = (reals){0};
        }
        for (int64_t k = t; k < end; k++, w += V * WIDTH) {
            const real *a = x + f->offset[k];
            reals b[4];
            FIRST_POINTER(a);
            UNROLL
            for (int v = 0; v < V; v++) b[v] = WIDE(first_load)(w + v * WIDTH);
            UNROLL
            for (int r = 0; r < R; r++) {
                const reals one = WIDE(first_set)(a[r * pixel]);
                UNROLL
                for (int v = 0; v < V; v++) acc[r][v] = WIDE(first_fma)(one, b[v], acc[r][v]);
            }
        }
#if !FIRST_WIDE
        if (t > 0) first_add(R, V, acc, out); /* the blocks before */
        if (end < f->terms) first_copy(R, V, acc, out);
#endif
        t = end;
    } while (t < f->terms);
#if FIRST_WIDE
    UNROLL
    for (int r = 0; r < R; r++) out[r][0] = vf_join(acc[r][0], V > 1 ? acc[r][1] : (vd){0});
    first_put(R, 1, out, y, f->shape->filters, columns, bias, f->relu);
#else
    first_put(R, V, acc, y, f->shape->filters, columns, bias, f->relu);
#endif
}

/* Rows of one image, of one panel, whose first filter is `filter`. */
static void WIDE(first_panel)(const first *f, int V, int64_t filter, const real *x, const float *w,
                              int64_t rows, float *y)
{
    const int64_t filters = f->shape->filters, width = f->shape->out[1];
    const int64_t left = filters - filter, columns = left < V * WIDTH ? left : V * WIDTH;
    const float *bias = f->bias != NULL ? f->bias + filter : NULL;
    y += filter;
    const int64_t most = width < FIRST_HEIGHT(V) / 2 ? 1 : FIRST_HEIGHT(V);
    for (int64_t r = 0; r < rows; r++, x += f->row, y += width * filters)
        FOR_TILES_OF(most, begin, height, width)
        {
#define TILE(R, V)                                                                                 \
    WIDE(first_tile)                                                                               \
    (R, V, f, x + begin * f->pixel, w, y + begin * filters, columns, bias)
            switch (V * 16 + height) {
#if FIRST_WIDE
                FIRST_WIDE_CASES(TILE)
#else
                FIRST_CASES(TILE)
#endif
            }
#undef TILE
        }
}

/* A strip's part of the output's gradient, `columns` filters of a panel, into s->kept, and the sums of its
 * bias: where the panel is not whole, or numbers are doubles. */
INLINE void WIDE(first_take)(const int V, const first_strip *s, int64_t step, double *bias,
                             int64_t columns)
{
    const int vectors = FIRST_WIDE ? 1 : V;
    const float *d_y = s->d_y, *out = s->out;
    real *kept = s->kept;
    vd sum[4];
    for (int i = 0; i < 2 * vectors; i++) sum[i] = vd_load(bias + i * LANES / 2);
    for (int64_t p = 0; p < s->pixels; p++, d_y += step, kept += V * WIDTH) {
        UNROLL
        for (int v = 0; v < vectors; v++) {
            const int64_t rest = columns - v * LANES, n = rest < LANES ? rest : LANES;
            vf d = vf_get(d_y + v * LANES, n);
            if (out != NULL)
                d = vf_blend(vm_gt(vf_get(out + p * step + v * LANES, n), vf_zero()), d, vf_zero());
            sum[2 * v] += vf_low(d);
            sum[2 * v + 1] += vf_high(d);
#if FIRST_WIDE
            vd_store(kept, vf_low(d));
            if (V > 1) vd_store(kept + WIDTH, vf_high(d));
#else
            vf_store(kept + v * LANES, d);
#endif
        }
    }
    for (int i = 0; i < 2 * vectors; i++) vd_store(bias + i * LANES / 2, sum[i]);
}

/* The sums of a tile when pixel number `k` of the replica comes, of R terms and V vectors from place `at` on. */
INLINE void WIDE(first_sums_at)(const int R, const int V, const conv_sums *sums, int64_t at,
                                int64_t k, reals acc[][2])
{
    UNROLL
    for (int r = 0; r < R; r++) {
        UNROLL
        for (int v = 0; v < V; v++, at += WIDTH) {
#if FIRST_WIDE
            acc[r][v] = k == 0 ? (vd){0} : vd_load(sums->total + at);
#else
            acc[r][v] = k % LKI_BLOCK_TERMS == 0 ? (vf){0} : vf_load(sums->block + at);
#endif
        }
    }
}

/* One vector of the output's gradient as it lies, behind relu where there is one, and into the bias. */
#if !FIRST_WIDE
INLINE vf first_passed(const float *d_y, const float *out, float *kept, vd sum[2])
{
    vf d = vf_load(d_y);
    if (out != NULL) {
        d = vf_blend(vm_gt(vf_load(out), vf_zero()), d, vf_zero());
        vf_store(kept, d);
    }
    sum[0] += vf_low(d);
    sum[1] += vf_high(d);
    return d;
}
#endif

/* The terms of R values of x under each pixel of a strip, for V vectors of filters: `apart`, at their offsets, or
 * side by side from offset[0] on. `fused`: d_y is as it lies, and first_passed(). */
INLINE void WIDE(first_weight)(const int R, const int V, const bool fused, const bool apart,
                               const first *f, const first_strip *s, const int64_t *offset,
                               const real *d_y, int64_t step, int64_t at, double *bias)
{
    reals acc[TILE_ROWS][2], d[2];
    vd sum[4] = {{0}};
    const int64_t width = f->shape->out[1], pixel = f->pixel;
#if !FIRST_WIDE
    const float *out = s->out;
    real *kept = s->kept;
#endif
    const real *row = (const real *)s->x + (apart ? 0 : offset[0]);
    int64_t y = s->y, column = s->column;
    WIDE(first_sums_at)(R, V, &s->sums, at, s->number, acc);
    for (int i = 0; fused && i < 2 * V; i++) sum[i] = vd_load(bias + i * LANES / 2);
    for (int64_t left = s->pixels, n; left > 0; left -= n) {
        n = left < width - column ? left : width - column;
        const real *a = row + column * pixel;
        for (int64_t i = 0; i < n; i++, a += pixel, d_y += step) {
            UNROLL
            for (int v = 0; v < V; v++) {
#if FIRST_WIDE
                d[v] = vd_load(d_y + v * WIDTH);
#else
                d[v] = fused ? first_passed(d_y + v * LANES, out != NULL ? out + v * LANES : NULL,
                                            kept + v * LANES, sum + 2 * v)
                             : vf_load(d_y + v * LANES);
#endif
            }
#if !FIRST_WIDE
            if (fused && out != NULL) {
                out += step;
                kept += V * WIDTH;
            }
#endif
            UNROLL
            for (int r = 0; r < R; r++) {
                const reals one = WIDE(first_set)(a[apart ? offset[r] : r]);
                UNROLL
                for (int v = 0; v < V; v++) acc[r][v] = WIDE(first_fma)(one, d[v], acc[r][v]);
            }
        }
        column = 0;
        row += f->row;
        if (++y < f->shape->out[0]) continue;
        y = 0;
        row += f->image - f->shape->out[0] * f->row;
    }
    for (int i = 0; fused && i < 2 * V; i++) vd_store(bias + i * LANES / 2, sum[i]);
#if FIRST_WIDE
    UNROLL
    for (int r = 0; r < R; r++) {
        UNROLL
        for (int v = 0; v < V; v++) vd_store(s->sums.total + at + (r * V + v) * WIDTH, acc[r][v]);
    }
#else
    first_wait(R, V, acc, &s->sums, at, s->number + s->pixels);
#endif
}

/* One panel of a strip, all terms. */
static void WIDE(first_weights)(const first *f, const first_strip *strip, int V, int64_t filter)
{
    const int64_t filters = f->shape->filters, left = filters - filter;
    const bool whole = !FIRST_WIDE && left >= V * WIDTH;
    const real *d_y = strip->kept;
    double *bias = strip->sums.bias + filter;
    int64_t step = V * WIDTH, at = filter * f->terms;
    first_strip moved = *strip;
    const first_strip *s = &moved;
    moved.d_y += filter;
    if (moved.out != NULL) moved.out += filter;
    if (!whole && V == 1)
        WIDE(first_take)(1, s, filters, bias, left < WIDTH ? left : WIDTH);
    else if (!whole)
        WIDE(first_take)(2, s, filters, bias, left < 2 * WIDTH ? left : 2 * WIDTH);
#if !FIRST_WIDE
    if (whole && s->out == NULL) {
        d_y = s->d_y;
        step = filters;
    }
#endif
    const int64_t most = f->run < TILE_ROWS / 2 ? 1 : TILE_ROWS;
    for (int64_t run = 0; run < f->terms; run += f->run) FOR_TILES_OF(most, begin, height, f->run)
        {
            const int64_t *offset = f->offset + run + begin;
#define APART(R, V)  WIDE(first_weight)(R, V, false, true, f, s, offset, d_y, step, at, NULL)
#define BESIDE(R, V) first_weight(R, V, false, false, f, s, offset, d_y, step, at, NULL)
#define FUSED(R, V)  first_weight(R, V, true, true, f, s, offset, s->d_y, filters, at, bias)
#if !FIRST_WIDE
            if (whole && run + begin == 0) {
                switch (V * 16 + height) {
                    FIRST_WEIGHT_CASES(FUSED)
                }
            } else if (f->run < f->terms) {
                switch (V * 16 + height) {
                    FIRST_WEIGHT_CASES(BESIDE)
                }
            } else
#endif
                switch (V * 16 + height) {
                    FIRST_WEIGHT_CASES(APART)
                }
            at += height * V * WIDTH;
        }
#undef APART
#undef BESIDE
#undef FUSED
}

#undef real
#undef reals
#undef WIDTH
#undef WIDE

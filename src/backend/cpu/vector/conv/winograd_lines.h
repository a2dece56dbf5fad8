/* Lines of Winograd's transforms of images and results, by the formulas of docs/numerics.md, section 3: see winograd.h. */
#ifndef LKI_CPU_VECTOR_WINOGRAD_LINES_H
#define LKI_CPU_VECTOR_WINOGRAD_LINES_H

#include "backend/cpu/vector/conv/winograd.h"

/* RUN(n) with a constant, of 1 to side pixels. */
#define WINOGRAD_PIXELS(side, n, RUN)                                                              \
    do {                                                                                           \
        if ((n) == (side)) {                                                                       \
            RUN(side)                                                                              \
        } else if ((n) == 1) {                                                                     \
            RUN(1)                                                                                 \
        } else if ((side) == 4 && (n) == 2) {                                                      \
            RUN(2)                                                                                 \
        } else if ((side) == 4) {                                                                  \
            RUN(3)                                                                                 \
        }                                                                                          \
    } while (0)

/* Points a, -a, b, -b. */
#define WINOGRAD_A 0.75f
#define WINOGRAD_B 1.5f

/* B' d of n values: as many, at the points they have. */
INLINE void winograd_in(const int size, const int n, const vf *d, vf *v)
{
    const float a = WINOGRAD_A, b = WINOGRAD_B;
    if (size == 4 && n == 4) {
        v[0] = d[0] - d[2];
        v[1] = d[1] + d[2];
        v[2] = d[2] - d[1];
        v[3] = d[1] - d[3];
    } else if (size == 4) {
        v[0] = d[0] - d[1];
        v[1] = d[1] + d[1];
        v[3] = d[1] - d[2];
    } else if (n == 6) {
        const vf ends = vf_set(a * a * b * b), middle = vf_set(-(a * a + b * b));
        const vf even_a = vf_fma(vf_set(-b * b), d[2], d[4]),
                 odd_a = vf_fma(vf_set(-b * b), d[1], d[3]);
        const vf even_b = vf_fma(vf_set(-a * a), d[2], d[4]),
                 odd_b = vf_fma(vf_set(-a * a), d[1], d[3]);
        v[0] = vf_fma(middle, d[2], vf_fma(ends, d[0], d[4]));
        v[1] = vf_fma(vf_set(a), odd_a, even_a);
        v[2] = vf_fma(vf_set(-a), odd_a, even_a);
        v[3] = vf_fma(vf_set(b), odd_b, even_b);
        v[4] = vf_fma(vf_set(-b), odd_b, even_b);
        v[5] = vf_fma(middle, d[3], vf_fma(ends, d[1], d[5]));
    } else if (n == 5) {
        const vf odd = vf_fma(vf_set(-a * a), d[1], d[3]), even = vf_set(a * a - b * b) * d[2];
        v[0] = vf_fma(vf_set(b), odd, vf_fma(vf_set(a * a * b * b), d[0], vf_set(-b * b) * d[2]));
        v[1] = vf_fma(vf_set(a + b), vf_fma(vf_set(-a * b), d[1], d[3]), even);
        v[2] = vf_fma(vf_set(b - a), vf_fma(vf_set(a * b), d[1], d[3]), even);
        v[3] = vf_set(2 * b) * odd;
        v[5] = vf_fma(vf_set(-b), odd, vf_fma(vf_set(-a * a), d[2], d[4]));
    } else if (n == 4) {
        const vf scale = vf_set(a * a - b * b);
        v[0] = vf_set(-b * b) * vf_fma(vf_set(-a * a), d[0], d[2]);
        v[1] = scale * vf_fma(vf_set(a), d[1], d[2]);
        v[2] = scale * vf_fma(vf_set(-a), d[1], d[2]);
        v[5] = vf_fma(vf_set(-a * a), d[1], d[3]);
    } else {
        v[0] = vf_set(-a * b * b) * vf_fma(vf_set(-a), d[0], d[1]);
        v[1] = vf_set(2 * a * (a * a - b * b)) * d[1];
        v[5] = vf_fma(vf_set(-a), d[1], d[2]);
    }
}

/* A' m: n pixels. */
INLINE void winograd_out(const int side, const int size, const int n, const vf *m, vf *y)
{
    const float a = WINOGRAD_A, b = WINOGRAD_B;
    if (size == 4) {
        y[0] = n == 2 ? (m[0] + m[1]) + m[2] : (m[0] + m[1]) - m[3];
        if (n == 2) y[1] = (m[1] - m[2]) - m[3];
        return;
    }
    if (side == 4 && n == 1) {
        y[0] = (m[0] + m[1]) + m[5];
        return;
    }
    const vf even_a = m[1] + m[2], odd_a = m[1] - m[2];
    if (side == 2 && n == 2) { /* of 5 taps */
        y[0] = (m[0] + even_a) + (m[3] + m[4]);
        y[1] = vf_fma(vf_set(b), m[3] - m[4], vf_fma(vf_set(a), odd_a, m[5]));
    } else if (side == 2) {
        y[0] = (m[0] + even_a) + (m[3] + m[5]);
    } else if (n == 4) {
        const vf even_b = m[3] + m[4], odd_b = m[3] - m[4];
        y[0] = (m[0] + even_a) + even_b;
        y[1] = vf_fma(vf_set(b), odd_b, vf_set(a) * odd_a);
        y[2] = vf_fma(vf_set(b * b), even_b, vf_set(a * a) * even_a);
        y[3] = vf_fma(vf_set(b * b * b), odd_b, vf_fma(vf_set(a * a * a), odd_a, m[5]));
    } else if (n == 3) {
        y[0] = (m[0] + even_a) + m[3];
        y[1] = vf_fma(vf_set(b), m[3], vf_set(a) * odd_a);
        y[2] = vf_fma(vf_set(b * b), m[3], vf_fma(vf_set(a * a), even_a, m[5]));
    } else {
        y[0] = m[0] + even_a;
        y[1] = vf_fma(vf_set(a), odd_a, m[5]);
    }
}

/* A line of A' M A: a row of places, then a column of what all rows give. */
INLINE void winograd_row_out(const int side, const int size, const int n, const float *m,
                             const int64_t *at, vf *half)
{
    vf line[WINOGRAD_MOST];
    UNROLL
    for (int j = 0; j < size; j++)
        if (winograd_has(side, size, n, j)) line[j] = vf_load(m + at[j]);
    winograd_out(side, size, n, line, half);
}

INLINE void winograd_column_out(const int side, const int size, const int n, const int j,
                                vf half[][WINOGRAD_MOST], vf y[][4])
{
    vf line[WINOGRAD_MOST], out[4];
    UNROLL
    for (int i = 0; i < size; i++)
        if (winograd_has(side, size, n, i)) line[i] = half[i][j];
    winograd_out(side, size, n, line, out);
    UNROLL for (int i = 0; i < n; i++) y[i][j] = out[i];
}

/* A' M A of a whole tile; its places lie at m + at[place]. Whole tiles are one run of operations, whose results stay in
 * registers as far as there are, here and in the other transforms; lines of others stay loops, as code for all sizes would
 * not fit into a cache. */
INLINE void winograd_result_whole(const int side, const int size, const float *m, const int64_t *at,
                                  vf y[][4])
{
    vf half[WINOGRAD_MOST][WINOGRAD_MOST];
    UNROLL
    for (int i = 0; i < size; i++) winograd_row_out(side, size, side, m, at + i * size, half[i]);
    UNROLL
    for (int j = 0; j < side; j++) winograd_column_out(side, size, side, j, half, y);
}

INLINE void winograd_result(const int side, const int size, const winograd_tile *t, const float *m,
                            const int64_t *at, vf half[][WINOGRAD_MOST], vf y[][4])
{
#define ROWS(n)                                                                                    \
    for (int i = 0; i < size; i++)                                                                 \
        if (winograd_has(side, size, t->pixels[0], i))                                             \
            winograd_row_out(side, size, n, m, at + i * size, half[i]);
    WINOGRAD_PIXELS(side, t->pixels[1], ROWS);
#undef ROWS
#define COLUMNS(n)                                                                                 \
    for (int j = 0; j < t->pixels[1]; j++) winograd_column_out(side, size, n, j, half, y);
    WINOGRAD_PIXELS(side, t->pixels[0], COLUMNS);
#undef COLUMNS
}

#endif

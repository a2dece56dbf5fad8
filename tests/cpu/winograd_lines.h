/*
 * The transforms of Winograd's algorithm, a line at a time, as docs/numerics.md, 3, defines them: for tiles of side x side
 * pixels, of which the last along an axis may have n < side, and kernel x kernel taps; whole tiles have size points.
 */
#ifndef LKT_CPU_WINOGRAD_LINES_H
#define LKT_CPU_WINOGRAD_LINES_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct form {
    int side, kernel, size;
} form;

static inline form form_of(int side, int64_t kernel)
{
    return (form){side, (int)kernel, side + (int)kernel - 1};
}

/* Whether a tile that has n pixels along an axis has point i of those of a whole one. */
static inline bool has_point(form k, int n, int i)
{
    return i < n + k.kernel - 2 || i == k.size - 1;
}

/* Pixels of the tile that begins at one, along an axis of so many. */
static inline int pixels_at(int side, int64_t first, int64_t all)
{
    return all - first < side ? (int)(all - first) : side;
}

/* B' of a line of n values, `step` apart, in place: at as many points. */
static inline void line_in(int size, int n, float *d, int step)
{
    const float a = 0.75f, b = 1.5f, c = -1.6875f; /* c = aa - bb */
    float v[6] = {0}, x[6] = {0};
    for (int i = 0; i < n; i++) x[i] = d[i * step];
    if (size == 4 && n == 4) {
        v[0] = x[0] - x[2], v[1] = x[1] + x[2], v[2] = x[2] - x[1], v[3] = x[1] - x[3];
    } else if (size == 4) {
        v[0] = x[0] - x[1], v[1] = x[1] + x[1], v[3] = x[1] - x[2];
    } else if (n == 6) {
        v[0] = fmaf(-2.8125f, x[2], fmaf(1.265625f, x[0], x[4]));
        for (int k = 0; k < 4; k++) {
            const float other = k < 2 ? b * b : a * a, point = k < 2 ? a : b;
            const float even = fmaf(-other, x[2], x[4]), odd = fmaf(-other, x[1], x[3]);
            v[1 + k] = fmaf(k % 2 == 0 ? point : -point, odd, even);
        }
        v[5] = fmaf(-2.8125f, x[3], fmaf(1.265625f, x[1], x[5]));
    } else if (n == 5) {
        const float odd = fmaf(-0.5625f, x[1], x[3]), even = c * x[2];
        v[0] = fmaf(b, odd, fmaf(1.265625f, x[0], -2.25f * x[2]));
        v[1] = fmaf(2.25f, fmaf(-1.125f, x[1], x[3]), even);
        v[2] = fmaf(0.75f, fmaf(1.125f, x[1], x[3]), even);
        v[3] = 3 * odd;
        v[5] = fmaf(-b, odd, fmaf(-0.5625f, x[2], x[4]));
    } else if (n == 4) {
        v[0] = -2.25f * fmaf(-0.5625f, x[0], x[2]);
        v[1] = c * fmaf(a, x[1], x[2]);
        v[2] = c * fmaf(-a, x[1], x[2]);
        v[5] = fmaf(-0.5625f, x[1], x[3]);
    } else {
        v[0] = -1.6875f * fmaf(-a, x[0], x[1]);
        v[1] = -2.53125f * x[1];
        v[5] = fmaf(-a, x[1], x[2]);
    }
    for (int i = 0; i < size; i++)
        if (i < n - 1 || i == size - 1) d[i * step] = v[i];
}

/* A': n values are left. */
static inline void line_out(form k, int n, float *m, int step)
{
    float y[4], x[6] = {0};
    for (int i = 0; i < k.size; i++) x[i] = m[i * step];
    const float even_a = x[1] + x[2], odd_a = x[1] - x[2];
    const float even_b = x[3] + x[4], odd_b = x[3] - x[4];
    if (k.size == 4) {
        y[0] = n == 2 ? x[0] + x[1] + x[2] : x[0] + x[1] - x[3];
        y[1] = x[1] - x[2] - x[3];
    } else if (k.kernel == 5) {
        y[0] = (x[0] + even_a) + (n == 2 ? even_b : x[3] + x[5]);
        y[1] = fmaf(1.5f, odd_b, fmaf(0.75f, odd_a, x[5]));
    } else if (n == 4) {
        y[0] = x[0] + even_a + even_b;
        y[1] = fmaf(1.5f, odd_b, 0.75f * odd_a);
        y[2] = fmaf(2.25f, even_b, 0.5625f * even_a);
        y[3] = fmaf(3.375f, odd_b, fmaf(0.421875f, odd_a, x[5]));
    } else if (n == 3) {
        y[0] = x[0] + even_a + x[3];
        y[1] = fmaf(1.5f, x[3], 0.75f * odd_a);
        y[2] = fmaf(2.25f, x[3], fmaf(0.5625f, even_a, x[5]));
    } else if (n == 2) {
        y[0] = x[0] + even_a;
        y[1] = fmaf(0.75f, odd_a, x[5]);
    } else {
        y[0] = x[0] + x[1] + x[5];
    }
    for (int i = 0; i < n; i++) m[i * step] = y[i];
}

/* G likewise, of as many values as there are taps, in double. */
static inline void line_weight(form k, double *g, int step)
{
    const double x[3] = {g[0], g[step], g[2 * step]};
    if (k.size == 4) {
        const double even = x[0] + x[2];
        g[step] = (even + x[1]) * 0.5;
        g[2 * step] = (even - x[1]) * 0.5;
        g[3 * step] = x[2];
        return;
    }
    double even_a = x[0] + x[2] * 0.5625, odd_a = x[1] * 0.75;
    double even_b = x[0] + x[2] * 2.25, odd_b = x[1] * 1.5;
    const double last = g[(k.kernel - 1) * step];
    if (k.kernel == 5) {
        even_a += last * 0.31640625, odd_a += g[3 * step] * 0.421875;
        even_b += last * 5.0625, odd_b += g[3 * step] * 3.375;
    }
    g[0] = x[0] * (64.0 / 81.0);
    g[step] = (even_a + odd_a) * (-128.0 / 243.0);
    g[2 * step] = (even_a - odd_a) * (-128.0 / 243.0);
    g[3 * step] = (even_b + odd_b) * (32.0 / 243.0);
    g[4 * step] = (even_b - odd_b) * (32.0 / 243.0);
    g[5 * step] = last;
}

/* A y: of n values those at the points that n pixels have, in place. */
static inline void line_gradient(int side, int n, float *d, int step)
{
    float w[6], y[4] = {0};
    for (int i = 0; i < n; i++) y[i] = d[i * step];
    w[0] = y[0];
    if (side == 2) {
        w[1] = y[0] + y[1], w[2] = y[0] - y[1], w[3] = -y[n - 1];
    } else {
        for (int k = 0; k < 2; k++) {
            const float p = k == 0 ? 0.75f : 1.5f, even = fmaf(p * p, y[2], y[0]);
            const float odd = fmaf(p * p * p, y[3], p * y[1]);
            w[1 + 2 * k] = even + odd;
            w[2 + 2 * k] = even - odd;
        }
        w[5] = y[n - 1];
    }
    for (int i = 0; i < side + 2; i++) d[i * step] = w[i];
}

/* G' u in double, in place: 3 values are left. */
static inline void line_taps(int side, double *u, int step)
{
    double x[6];
    for (int i = 0; i < side + 2; i++) x[i] = u[i * step];
    if (side == 2) {
        const double even = (x[1] + x[2]) * 0.5;
        u[0] = x[0] + even, u[step] = (x[1] - x[2]) * 0.5, u[2 * step] = even + x[3];
        return;
    }
    const double c = -128.0 / 243.0, d = 32.0 / 243.0;
    const double even_a = (x[1] + x[2]) * c, odd_a = (x[1] - x[2]) * c;
    const double even_b = (x[3] + x[4]) * d, odd_b = (x[3] - x[4]) * d;
    u[0] = x[0] * (64.0 / 81.0) + (even_a + even_b);
    u[step] = odd_a * 0.75 + odd_b * 1.5;
    u[2 * step] = even_a * 0.5625 + even_b * 2.25 + x[5];
}

#endif

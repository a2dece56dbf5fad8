/* Pools over NHWC: channels are the vector. A mean is a sum in double, row by row, times the double
 * nearest to 1 / area, rounded once. What windows that overlap give to a pixel is added in f32. */
#include "backend/cpu/vector/local.h"

typedef uint16_t vs __attribute__((vector_size(2 * LANES)));

/* The part of a window that lies in the image, in rows or columns: taps [from, to). */
INLINE void clip(int64_t start, int64_t kernel, int64_t size, int64_t *from, int64_t *to)
{
    *from = start < 0 ? -start : 0;
    *to = start + kernel > size ? size - start : kernel;
}

typedef struct window {
    int64_t y, x;               /* its first pixel, which may lie in the padding */
    int64_t ky0, ky1, kx0, kx1; /* taps in the image */
} window;

INLINE window window_at(const lki_pool_shape *s, int64_t oy, int64_t ox)
{
    window w = {.y = oy * s->stride[0] - s->padding[0], .x = ox * s->stride[1] - s->padding[1]};
    clip(w.y, s->kernel[0], s->in_rows, &w.ky0, &w.ky1);
    clip(w.x, s->kernel[1], s->in_columns, &w.kx0, &w.kx1);
    return w;
}

INLINE int64_t pixel(const lki_pool_shape *s, const window *w, int64_t ky, int64_t kx)
{
    return ((w->y + ky) * s->in_columns + w->x + kx) * s->channels;
}

static void max_window(const lki_pool_shape *s, const window *w, const float *in, float *out,
                       uint16_t *where)
{
    FOR_VECTORS(c, n, s->channels)
    {
        vf best = vf_get(in + pixel(s, w, w->ky0, w->kx0) + c, n);
        vi at = vi_set((int32_t)(w->ky0 * s->kernel[1] + w->kx0));
        for (int64_t ky = w->ky0; ky < w->ky1; ky++)
            for (int64_t kx = w->kx0; kx < w->kx1; kx++) {
                const vf v = vf_get(in + pixel(s, w, ky, kx) + c, n);
                const vm wins = vm_gt(v, best);
                best = vf_blend(wins, v, best);
                at = vi_blend(wins, vi_set((int32_t)(ky * s->kernel[1] + kx)), at);
            }
        vf_put(out + c, best, n);
        const vs narrow = __builtin_convertvector(at, vs);
        memcpy(where + c, &narrow, sizeof(uint16_t) * (size_t)n);
    }
}

static void vector_max_forward(const lki_pool_shape *s, const float *in, float *out,
                               uint16_t *where)
{
    for (int64_t oy = 0; oy < s->out_rows; oy++)
        for (int64_t ox = 0; ox < s->out_columns; ox++) {
            const window w = window_at(s, oy, ox);
            const int64_t to = (oy * s->out_columns + ox) * s->channels;
            max_window(s, &w, in, out + to, where + to);
        }
}

static void max_window_backward(const lki_pool_shape *s, const window *w, const uint16_t *where,
                                const float *d_out, float *d_in)
{
    const vf zero = vf_zero();
    FOR_VECTORS(c, n, s->channels)
    {
        vs narrow = {0};
        memcpy(&narrow, where + c, sizeof(uint16_t) * (size_t)n);
        const vi at = __builtin_convertvector(narrow, vi);
        const vf d = vf_get(d_out + c, n);
        for (int64_t ky = w->ky0; ky < w->ky1; ky++)
            for (int64_t kx = w->kx0; kx < w->kx1; kx++) {
                float *to = d_in + pixel(s, w, ky, kx) + c;
                const vm here = vm_equal(at, vi_set((int32_t)(ky * s->kernel[1] + kx)));
                vf_put_result(to, vf_blend(here, d, zero), n, true);
            }
    }
}

static void vector_max_backward(const lki_pool_shape *s, const uint16_t *where, const float *d_out,
                                float *d_in)
{
    for (int64_t oy = 0; oy < s->out_rows; oy++)
        for (int64_t ox = 0; ox < s->out_columns; ox++) {
            const window w = window_at(s, oy, ox);
            const int64_t from = (oy * s->out_columns + ox) * s->channels;
            max_window_backward(s, &w, where + from, d_out + from, d_in);
        }
}

INLINE int64_t area_of(const lki_pool_shape *s, const window *w)
{
    return s->exclude_padding ? (w->ky1 - w->ky0) * (w->kx1 - w->kx0) : s->kernel[0] * s->kernel[1];
}

static void vector_mean_forward(const lki_pool_shape *s, const float *in, float *out)
{
    for (int64_t oy = 0; oy < s->out_rows; oy++)
        for (int64_t ox = 0; ox < s->out_columns; ox++) {
            const window w = window_at(s, oy, ox);
            const double part = 1 / (double)area_of(s, &w);
            float *to = out + (oy * s->out_columns + ox) * s->channels;
            FOR_VECTORS(c, n, s->channels)
            {
                vd low = {0}, high = {0};
                for (int64_t ky = w.ky0; ky < w.ky1; ky++)
                    for (int64_t kx = w.kx0; kx < w.kx1; kx++) {
                        const vf x = vf_get(in + pixel(s, &w, ky, kx) + c, n);
                        low += vf_low(x);
                        high += vf_high(x);
                    }
                vf_put_result(to + c, vf_join(low * part, high * part), n, false);
            }
        }
}

static void vector_mean_backward(const lki_pool_shape *s, const float *d_out, float *d_in)
{
    for (int64_t oy = 0; oy < s->out_rows; oy++)
        for (int64_t ox = 0; ox < s->out_columns; ox++) {
            const window w = window_at(s, oy, ox);
            const vf area = vf_set((float)area_of(s, &w));
            const float *from = d_out + (oy * s->out_columns + ox) * s->channels;
            FOR_VECTORS(c, n, s->channels)
            {
                const vf d = vf_get(from + c, n) / area;
                for (int64_t ky = w.ky0; ky < w.ky1; ky++)
                    for (int64_t kx = w.kx0; kx < w.kx1; kx++) {
                        float *to = d_in + pixel(s, &w, ky, kx) + c;
                        vf_put_result(to, d, n, true);
                    }
            }
        }
}

const lki_vector_pool LKI_ISA_NAME(lki_vector_pool) = {
    .max_forward = vector_max_forward,
    .max_backward = vector_max_backward,
    .mean_forward = vector_mean_forward,
    .mean_backward = vector_mean_backward,
};

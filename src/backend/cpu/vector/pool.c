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

/* Calls f with the taps of a window that are in the image, rows and columns; of 2x2 and 3x3 with constants, so that
 * they are one run of operations. */
#define POOL_TAPS(w, f, ...)                                                                       \
    do {                                                                                           \
        const int64_t rows_ = (w)->ky1 - (w)->ky0, columns_ = (w)->kx1 - (w)->kx0;                 \
        if (rows_ == 2 && columns_ == 2)                                                           \
            f(2, 2, __VA_ARGS__);                                                                  \
        else if (rows_ == 3 && columns_ == 3)                                                      \
            f(3, 3, __VA_ARGS__);                                                                  \
        else                                                                                       \
            f(rows_, columns_, __VA_ARGS__);                                                       \
    } while (0)

INLINE void max_taps(const int64_t rows, const int64_t columns, const lki_pool_shape *s,
                     const window *w, const float *in, float *out, uint16_t *where)
{
    const float *first = in + pixel(s, w, w->ky0, w->kx0);
    const int64_t down = s->in_columns * s->channels;
    const int32_t number = (int32_t)(w->ky0 * s->kernel[1] + w->kx0);
    FOR_VECTORS(c, n, s->channels)
    {
        vf best = vf_get(first + c, n);
        vi at = vi_set(number);
        for (int64_t ky = 0; ky < rows; ky++)
            for (int64_t kx = 0; kx < columns; kx++) {
                const vf v = vf_get(first + ky * down + kx * s->channels + c, n);
                const vm wins = vm_gt(v, best);
                best = vf_blend(wins, v, best);
                at = vi_blend(wins, vi_set(number + (int32_t)(ky * s->kernel[1] + kx)), at);
            }
        vf_put(out + c, best, n);
        const vs narrow = __builtin_convertvector(at, vs);
        if (n == LANES)
            memcpy(where + c, &narrow, sizeof narrow);
        else
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
            POOL_TAPS(&w, max_taps, s, &w, in, out + to, where + to);
        }
}

INLINE void max_taps_backward(const int64_t rows, const int64_t columns, const lki_pool_shape *s,
                              const window *w, const uint16_t *where, const float *d_out,
                              float *d_in, bool add)
{
    float *first = d_in + pixel(s, w, w->ky0, w->kx0);
    const int64_t down = s->in_columns * s->channels;
    const int32_t number = (int32_t)(w->ky0 * s->kernel[1] + w->kx0);
    const vf zero = vf_zero();
    FOR_VECTORS(c, n, s->channels)
    {
        vs narrow = {0};
        if (n == LANES)
            memcpy(&narrow, where + c, sizeof narrow);
        else
            memcpy(&narrow, where + c, sizeof(uint16_t) * (size_t)n);
        const vi at = __builtin_convertvector(narrow, vi);
        const vf d = vf_get(d_out + c, n);
        for (int64_t ky = 0; ky < rows; ky++)
            for (int64_t kx = 0; kx < columns; kx++) {
                const int32_t tap = number + (int32_t)(ky * s->kernel[1] + kx);
                vf_put_result(first + ky * down + kx * s->channels + c,
                              vf_blend(vm_equal(at, vi_set(tap)), d, zero), n, add);
            }
    }
}

/* Whether a pixel may be in several windows. */
INLINE bool overlaps(const lki_pool_shape *s)
{
    return s->stride[0] < s->kernel[0] || s->stride[1] < s->kernel[1];
}

/* Whether what windows give is to be added to d_in. Where it is not there yet it becomes 0 first, unless
 * windows that do not overlap are to write all of it. */
static bool begin_backward(const lki_pool_shape *s, float *d_in, bool add)
{
    bool all = !overlaps(s);
    const int64_t in[2] = {s->in_rows, s->in_columns}, out[2] = {s->out_rows, s->out_columns};
    for (int i = 0; i < 2; i++)
        all = all && s->padding[i] == 0 && s->stride[i] == s->kernel[i] &&
              out[i] * s->kernel[i] == in[i];
    if (!add && !all) memset(d_in, 0, sizeof(float) * (size_t)(in[0] * in[1] * s->channels));
    return add || overlaps(s);
}

static void vector_max_backward(const lki_pool_shape *s, const uint16_t *where, const float *d_out,
                                float *d_in, bool add)
{
    add = begin_backward(s, d_in, add);
    for (int64_t oy = 0; oy < s->out_rows; oy++)
        for (int64_t ox = 0; ox < s->out_columns; ox++) {
            const window w = window_at(s, oy, ox);
            const int64_t from = (oy * s->out_columns + ox) * s->channels;
            POOL_TAPS(&w, max_taps_backward, s, &w, where + from, d_out + from, d_in, add);
        }
}

INLINE int64_t area_of(const lki_pool_shape *s, const window *w)
{
    return s->exclude_padding ? (w->ky1 - w->ky0) * (w->kx1 - w->kx0) : s->kernel[0] * s->kernel[1];
}

/* Windows of many pixels are gone through row by row, as memory lies, some channels at a time. */
enum {
    MANY_PIXELS = 32,
    SOME_CHANNELS = 512,
    REPEATED = 2048 /* floats, at most, that are copied at a time, from the first-level cache */
};

static bool has_many(const window *w)
{
    return (w->ky1 - w->ky0) * (w->kx1 - w->kx0) >= MANY_PIXELS;
}

static void vector_mean_rows(const lki_pool_shape *s, const window *w, const float *in, float *out)
{
    const double part = 1 / (double)area_of(s, w);
    double sum[SOME_CHANNELS];
    for (int64_t c = 0; c < s->channels; c += SOME_CHANNELS) {
        const int64_t some = s->channels - c < SOME_CHANNELS ? s->channels - c : SOME_CHANNELS;
        memset(sum, 0, sizeof sum);
        for (int64_t ky = w->ky0; ky < w->ky1; ky++) LKI_ISA_NAME(lki_vector_norm_sums)
        (w->kx1 - w->kx0, some, s->channels, in + pixel(s, w, ky, w->kx0) + c, sum);
        FOR_VECTORS(i, n, some)
        {
            const vf mean = vf_join(vd_load(sum + i) * part, vd_load(sum + i + LANES / 2) * part);
            vf_put_result(out + c + i, mean, n, false);
        }
    }
}

INLINE void mean_taps(const int64_t rows, const int64_t columns, const lki_pool_shape *s,
                      const window *w, const float *in, float *out)
{
    const float *first = in + pixel(s, w, w->ky0, w->kx0);
    const int64_t down = s->in_columns * s->channels;
    const double part = 1 / (double)area_of(s, w);
    FOR_VECTORS(c, n, s->channels)
    {
        vd low = {0}, high = {0};
        for (int64_t ky = 0; ky < rows; ky++)
            for (int64_t kx = 0; kx < columns; kx++) {
                const vf x = vf_get(first + ky * down + kx * s->channels + c, n);
                low += vf_low(x);
                high += vf_high(x);
            }
        vf_put_result(out + c, vf_join(low * part, high * part), n, false);
    }
}

static void vector_mean_forward(const lki_pool_shape *s, const float *in, float *out)
{
    for (int64_t oy = 0; oy < s->out_rows; oy++)
        for (int64_t ox = 0; ox < s->out_columns; ox++, out += s->channels) {
            const window w = window_at(s, oy, ox);
            if (has_many(&w))
                vector_mean_rows(s, &w, in, out);
            else
                POOL_TAPS(&w, mean_taps, s, &w, in, out);
        }
}

INLINE void mean_taps_backward(const int64_t rows, const int64_t columns, const lki_pool_shape *s,
                               const window *w, const float *d_out, float *d_in, bool add)
{
    float *first = d_in + pixel(s, w, w->ky0, w->kx0);
    const int64_t down = s->in_columns * s->channels;
    const vf area = vf_set((float)area_of(s, w));
    FOR_VECTORS(c, n, s->channels)
    {
        const vf d = vf_get(d_out + c, n) / area;
        for (int64_t ky = 0; ky < rows; ky++)
            for (int64_t kx = 0; kx < columns; kx++)
                vf_put_result(first + ky * down + kx * s->channels + c, d, n, add);
    }
}

/* `pixels` copies of the first one's channels behind it, more and more at a time. */
static void repeat_pixel(int64_t pixels, int64_t channels, float *to)
{
    const int64_t fit = REPEATED / channels, most = fit > 1 ? fit : 1;
    for (int64_t done = 1, n; done < pixels; done += n) {
        n = done < most ? done : most;
        if (n > pixels - done) n = pixels - done;
        memcpy(to + done * channels, to, sizeof(float) * (size_t)(n * channels));
    }
}

/* Of windows whose pixels nothing else is added to. */
static void vector_mean_rows_backward(const lki_pool_shape *s, const window *w, const float *d_out,
                                      float *d_in)
{
    const int64_t rows = w->ky1 - w->ky0, columns = w->kx1 - w->kx0;
    const bool together = columns == s->in_columns;
    const vf area = vf_set((float)area_of(s, w));
    for (int64_t ky = 0; ky < (together ? 1 : rows); ky++) {
        float *to = d_in + pixel(s, w, w->ky0 + ky, w->kx0);
        FOR_VECTORS(c, n, s->channels)
        vf_put_result(to + c, vf_get(d_out + c, n) / area, n, false);
        repeat_pixel(together ? rows * columns : columns, s->channels, to);
    }
}

static void vector_mean_backward(const lki_pool_shape *s, const float *d_out, float *d_in, bool add)
{
    add = begin_backward(s, d_in, add);
    for (int64_t oy = 0; oy < s->out_rows; oy++)
        for (int64_t ox = 0; ox < s->out_columns; ox++, d_out += s->channels) {
            const window w = window_at(s, oy, ox);
            if (has_many(&w) && !add)
                vector_mean_rows_backward(s, &w, d_out, d_in);
            else
                POOL_TAPS(&w, mean_taps_backward, s, &w, d_out, d_in, add);
        }
}

const lki_vector_pool LKI_ISA_NAME(lki_vector_pool) = {
    .max_forward = vector_max_forward,
    .max_backward = vector_max_backward,
    .mean_forward = vector_mean_forward,
    .mean_backward = vector_mean_backward,
};

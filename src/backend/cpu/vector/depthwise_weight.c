/*
 * The weight gradient of a depthwise convolution: dW[tap][c] = sum over samples and pixels, ascending,
 * of x[pixel under the tap][c] * dy[pixel][c]; that of the bias is the sum of dy, in double. Channels are
 * the vector.
 *
 *     x   . . . . . .             dy  . . . .       dW  0 1 2
 *         . 0 1 2 . .   times         . d . .  -->      3 4 5     one accumulator for each tap of a
 *         . 3 4 5 . .                 . . . .           6 7 8     group of taps
 *         . 6 7 8 . .
 *
 * The pixels of a replica are numbered through its samples, which cuts all sums into blocks and groups
 * (tile.h). They come in strips that end with a block or with a piece; between strips, and between
 * pieces, sums wait in memory that belongs to the replica: the unfinished block, the unfinished group,
 * the total of the groups before it. What lies in the border is left out.
 */
#include "backend/cpu/vector/depthwise.h"
#include "base/memory.h"

#if LANES > 4 || defined(LKI_NEON)
enum { RUN = 4 }; /* pixels that are taken together */
#else
enum { RUN = 1 }; /* a multiply-add is a page of code */
#endif
enum {
    GROUP_ROW = 8, /* taps of a group that is one row */
    GROUP = 9
};

/* Sums of a vector of channels: of the bias [LANES], of the taps [tap][LANES]. */
typedef struct sums {
    double *bias, *total;
    float *group, *block;
} sums;

static int64_t taps_of(const lki_conv_shape *s)
{
    return s->kernel[0] * s->kernel[1];
}

size_t LKI_ISA_NAME(lki_depthwise_sums_bytes)(const lki_conv_shape *s)
{
    const size_t taps = lki_plus(lki_times((size_t)s->kernel[0], (size_t)s->kernel[1]), 1);
    return lki_times(2 * sizeof(double) * (size_t)(depthwise_blocks(s) * LANES), taps);
}

static sums sums_of(const lki_conv_shape *s, void *memory, int64_t vector)
{
    const int64_t each = taps_of(s) * LANES;
    double *start = (double *)memory + vector * (2 * each + LANES);
    float *floats = (float *)(void *)(start + LANES + each);
    return (sums){.bias = start, .total = start + LANES, .group = floats, .block = floats + each};
}

/* Pixels [from, to) of a piece, all in one block. */
typedef struct strip {
    const lki_conv_shape *shape;
    const float *x, *dy, *y; /* of the piece */
    int64_t from, to;
    int64_t number; /* of `from` in the replica */
} strip;

/* Taps of V rows, from ky, and H columns, from kx. */
typedef struct group {
    int64_t ky, kx;
    bool bias;
    int64_t channel, n;
} group;

INLINE vf get(const float *from, bool whole, int64_t n)
{
    return whole ? vf_load(from) : vf_load_some(from, n);
}

/* P pixels of a row: x are the rows of taps, `at` under the first tap of the first pixel, which is in
 * this column; NULL: outside the image. S and D: stride and dilation of columns. */
INLINE void pixels(const int P, const int V, const int H, const int64_t S, const int64_t D,
                   const bool whole, const bool border, const strip *s, const group *g,
                   const float *const x[], int64_t column, const float *dy, const float *y,
                   vf acc[], vd bias[2])
{
    const int64_t channels = s->shape->channels, at = column * channels;
    const uint64_t width = (uint64_t)s->shape->in[1];
    vf d[RUN];
    UNROLL for (int p = 0; p < P; p++)
    {
        d[p] = get(dy + p * channels, whole, g->n);
        if (y != NULL)
            d[p] = vf_blend(vm_gt(get(y + p * channels, whole, g->n), vf_zero()), d[p], vf_zero());
        if (g->bias) {
            bias[0] += vf_low(d[p]);
            bias[1] += vf_high(d[p]);
        }
    }
    UNROLL for (int v = 0; v < V; v++)
    {
        if (x[v] == NULL) continue;
        UNROLL for (int p = 0; p < P; p++)
        {
            UNROLL for (int h = 0; h < H; h++)
            {
                const int64_t tap = p * S + h * D;
                if (border && (uint64_t)(column + tap) >= width) continue;
                acc[v * H + h] = vf_fma(get(x[v] + at + tap * channels, whole, g->n), d[p],
                                        acc[v * H + h]);
            }
        }
    }
}

/* Output columns [from, to) of a row of the piece; in [inner[0], inner[1]) all taps are in the image. */
INLINE void row_of(const int V, const int H, const int64_t S, const int64_t D, const bool whole,
                   const strip *s, const group *g, int64_t row, int64_t from, int64_t to,
                   const int64_t inner[2], vf acc[], vd bias[2])
{
    const lki_conv_shape *shape = s->shape;
    const int64_t channels = shape->channels, first = g->kx * D - shape->padding[1];
    const int64_t sample = row / shape->out[0], y_row = row % shape->out[0];
    const float *x[3];
    UNROLL for (int v = 0; v < V; v++)
    {
        const int64_t in = y_row * shape->stride[0] + (g->ky + v) * shape->dilation[0] -
                           shape->padding[0];
        x[v] = in < 0 || in >= shape->in[0]
                   ? NULL
                   : s->x + (sample * shape->in[0] + in) * shape->in[1] * channels + g->channel;
    }
    const int64_t whole_end = inner[1] < to ? inner[1] : to;
    for (int64_t p = from; p < to;) {
        const int64_t at = (row * shape->out[1] + p) * channels + g->channel;
        const float *dy = s->dy + at, *y = s->y != NULL ? s->y + at : NULL;
        if (p < inner[0] || p >= inner[1]) {
            pixels(1, V, H, S, D, whole, true, s, g, x, p * S + first, dy, y, acc, bias);
            p++;
        } else if (p + RUN <= whole_end) {
            pixels(RUN, V, H, S, D, whole, false, s, g, x, p * S + first, dy, y, acc, bias);
            p += RUN;
        } else {
            pixels(1, V, H, S, D, whole, false, s, g, x, p * S + first, dy, y, acc, bias);
            p++;
        }
    }
}

/* A group's sums over a strip. */
INLINE void group_of(const int V, const int H, const int64_t S, const int64_t D, const bool whole,
                     const strip *s, const group *g, sums to)
{
    const lki_conv_shape *shape = s->shape;
    const int64_t width = shape->out[1], first = g->kx * D - shape->padding[1];
    const int64_t room = shape->in[1] - 1 - first - (H - 1) * D;
    const int64_t inner[2] = {first < 0 ? (-first + S - 1) / S : 0, room < 0 ? 0 : room / S + 1};
    const int64_t end = s->number + s->to - s->from;
    vf acc[GROUP];
    vd bias[2] = {{0}, {0}};
    if (g->bias && s->number > 0) {
        bias[0] = vd_load(to.bias);
        bias[1] = vd_load(to.bias + LANES / 2);
    }
    UNROLL
    for (int t = 0; t < V * H; t++) {
        const int64_t at = ((g->ky + t / H) * shape->kernel[1] + g->kx + t % H) * LANES;
        acc[t] = s->number % LKI_BLOCK_TERMS != 0 ? vf_load(to.block + at) : vf_zero();
    }
    int64_t row = s->from / width, from = s->from % width;
    for (int64_t p = s->from; p < s->to; row++) {
        const int64_t n = s->to - p < width - from ? s->to - p : width - from;
        row_of(V, H, S, D, whole, s, g, row, from, from + n, inner, acc, bias);
        p += n;
        from = 0;
    }
    if (g->bias) {
        vd_store(to.bias, bias[0]);
        vd_store(to.bias + LANES / 2, bias[1]);
    }
    UNROLL
    for (int t = 0; t < V * H; t++) {
        const int64_t at = ((g->ky + t / H) * shape->kernel[1] + g->kx + t % H) * LANES;
        if (end % LKI_BLOCK_TERMS != 0) {
            vf_store(to.block + at, acc[t]);
            continue;
        }
        const bool only = end % LKI_GROUP_TERMS == LKI_BLOCK_TERMS; /* so far */
        const vf sum = only ? acc[t] : vf_load(to.group + at) + acc[t];
        if (end % LKI_GROUP_TERMS != 0)
            vf_store(to.group + at, sum);
        else
            vf_fold(to.total + at, sum, end == LKI_GROUP_TERMS);
    }
}

#define CASE(H)                                                                                    \
    case H:                                                                                        \
        group_of(1, H, stride, dilation, whole, s, &g, to);                                        \
        break;

INLINE void vector_of(const bool whole, const strip *s, int64_t channel, int64_t n, bool bias,
                      sums to)
{
    const int64_t *kernel = s->shape->kernel;
    const int64_t stride = s->shape->stride[1], dilation = s->shape->dilation[1];
    group g = {.bias = bias, .channel = channel, .n = n};
    if (kernel[0] == 3 && kernel[1] == 3) {
        if (whole && stride == 1 && dilation == 1)
            group_of(3, 3, 1, 1, true, s, &g, to);
        else if (whole && stride == 2 && dilation == 1)
            group_of(3, 3, 2, 1, true, s, &g, to);
        else
            group_of(3, 3, stride, dilation, whole, s, &g, to);
        return;
    }
    for (g.ky = 0; g.ky < kernel[0]; g.ky++)
        for (g.kx = 0; g.kx < kernel[1]; g.kx += GROUP_ROW, g.bias = false)
            switch (kernel[1] - g.kx) {
                CASE(1)
                CASE(2)
                CASE(3)
                CASE(4)
                CASE(5)
                CASE(6)
                CASE(7)
            default:
                group_of(1, GROUP_ROW, stride, dilation, whole, s, &g, to);
            }
}

/* A sum of so many terms. */
static vf complete(const sums *from, int64_t at, int64_t terms)
{
    const int64_t in_group = terms % LKI_GROUP_TERMS;
    vf sum = terms % LKI_BLOCK_TERMS != 0 ? vf_load(from->block + at) : vf_zero();
    if (in_group >= LKI_BLOCK_TERMS) sum = vf_load(from->group + at) + sum;
    return terms >= LKI_GROUP_TERMS ? vf_total(from->total + at, sum) : sum;
}

/* The gradients of a replica with so many pixels, in the parameter's order. */
static void finish(const lki_conv_shape *s, const lki_conv_gradient *g, int64_t pixels)
{
    const int64_t taps = taps_of(s);
    float sum[LANES];
    FOR_VECTORS(c, n, s->channels)
    {
        const sums from = sums_of(s, g->sums, c / LANES);
        for (int64_t t = 0; t < taps; t++) {
            vf_store(sum, vf_flush(complete(&from, t * LANES, pixels)));
            for (int64_t i = 0; i < n; i++) g->d_weight[(c + i) * taps + t] = sum[i];
        }
        if (g->d_bias == NULL) continue;
        vf_put(g->d_bias + c, vf_flush(vf_join(vd_load(from.bias), vd_load(from.bias + LANES / 2))),
               n);
    }
}

void LKI_ISA_NAME(lki_depthwise_weight)(const lki_conv_shape *s, int64_t count,
                                        const lki_conv_gradient *g)
{
    const int64_t pixels = s->out[0] * s->out[1], all = count * pixels;
    strip part = {.shape = s, .x = g->x, .dy = g->d_y, .y = g->y, .number = g->sample * pixels};
    for (; part.from < all; part.number += part.to - part.from, part.from = part.to) {
        const int64_t left = LKI_BLOCK_TERMS - part.number % LKI_BLOCK_TERMS;
        part.to = all - part.from < left ? all : part.from + left;
        FOR_VECTORS(c, n, s->channels)
        {
            const sums to = sums_of(s, g->sums, c / LANES);
            if (n == LANES)
                vector_of(true, &part, c, LANES, g->d_bias != NULL, to);
            else
                vector_of(false, &part, c, n, g->d_bias != NULL, to);
        }
    }
    if (g->last) finish(s, g, g->sample * pixels + all);
}

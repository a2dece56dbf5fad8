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
#include "backend/cpu/vector/conv/depthwise_stretch.h"
#include "base/memory.h"

size_t LKI_ISA_NAME(lki_depthwise_sums_bytes)(const lki_conv_shape *s)
{
    const size_t taps = lki_plus(lki_times((size_t)s->kernel[0], (size_t)s->kernel[1]), 1);
    return lki_times(2 * sizeof(double) * (size_t)(depthwise_blocks(s) * LANES), taps);
}

/* Taps of V rows, from ky, and H columns, from kx. */
typedef struct group {
    int64_t ky, kx;
    int64_t channel, n;
} group;

INLINE vf get(const float *from, bool whole, int64_t n)
{
    return whole ? vf_load(from) : vf_load_some(from, n);
}

/* Where pixels lie: the rows of taps, NULL outside the image, the column of the first tap of the first
 * pixel, the gradient there, and whether the first tap of the first or the last of the last is outside. */
typedef struct place {
    const float *x[3], *dy, *y;
    int64_t column;
    bool before, after;
} place;

INLINE vf gradient(const place *at, int64_t offset, bool whole, int64_t n)
{
    const vf d = get(at->dy + offset, whole, n);
    if (at->y == NULL) return d;
    return vf_blend(vm_gt(get(at->y + offset, whole, n), vf_zero()), d, vf_zero());
}

/* P pixels side by side. S and D: stride and dilation of columns. `far`: any tap may be outside. */
INLINE void pixels(const int P, const int W, const int V, const int H, const int64_t S,
                   const int64_t D, const bool whole, const bool far, const strip *s,
                   const group *g, const place *at, vf acc[][VECTORS])
{
    const int64_t channels = s->shape->channels, start = at->column * channels;
    const uint64_t width = (uint64_t)s->shape->in[1];
    vf d[RUN][VECTORS];
    UNROLL
    for (int p = 0; p < P; p++) {
        UNROLL
        for (int k = 0; k < W; k++) d[p][k] = gradient(at, p * channels + k * LANES, whole, g->n);
    }
    UNROLL
    for (int v = 0; v < V; v++) {
        if (at->x[v] == NULL) continue;
        UNROLL
        for (int p = 0; p < P; p++) {
            UNROLL
            for (int h = 0; h < H; h++) {
                const int64_t tap = p * S + h * D;
                if (far && (uint64_t)(at->column + tap) >= width) continue;
                if (p == 0 && h == 0 && at->before) continue;
                if (p == P - 1 && h == H - 1 && at->after) continue;
                const float *x = at->x[v] + start + tap * channels;
                UNROLL
                for (int k = 0; k < W; k++)
                    acc[v * H + h][k] = vf_fma(get(x + k * LANES, whole, g->n), d[p][k],
                                               acc[v * H + h][k]);
            }
        }
    }
}

/* A row of the output: its number in the sample, and the values of the piece in front of the sample,
 * and in front of the row. */
typedef struct row {
    int64_t number, x, dy;
} row;

/* Columns [from, to) of a row; of those in [near[0], near[1]) at most the first tap lies in front of the
 * image, or the last behind it. */
INLINE void row_of(const int W, const int V, const int H, const int64_t S, const int64_t D,
                   const bool whole, const strip *s, const group *g, const row *r, int64_t from,
                   int64_t to, const int64_t near[2], vf acc[][VECTORS])
{
    const lki_conv_shape *shape = s->shape;
    const int64_t channels = shape->channels, line = shape->in[1] * channels;
    const int64_t first = g->kx * D - shape->padding[1];
    const int64_t top = r->number * shape->stride[0] + g->ky * shape->dilation[0] -
                        shape->padding[0];
    place at;
    UNROLL
    for (int v = 0; v < V; v++) {
        const int64_t in = top + v * shape->dilation[0];
        const bool outside = in < 0 || in >= shape->in[0];
        at.x[v] = outside ? NULL : s->x + r->x + in * line + g->channel;
    }
    for (int64_t p = from, n; p < to; p += n) {
        const int64_t start = r->dy + p * channels + g->channel;
        const bool far = p < near[0] || p >= near[1];
        const int64_t left = (to < near[1] ? to : near[1]) - p;
        n = far ? 1 : left < RUN ? left : RUN;
        at.dy = s->dy + start;
        at.y = s->y != NULL ? s->y + start : NULL;
        at.column = first + p * S;
        at.before = !far && at.column < 0;
        at.after = !far && at.column + (n - 1) * S + (H - 1) * D >= shape->in[1];
        if (far)
            pixels(1, W, V, H, S, D, whole, true, s, g, &at, acc);
        else if (RUN == 1 || n == 1)
            pixels(1, W, V, H, S, D, whole, false, s, g, &at, acc);
        else if (n == 2)
            pixels(RUN / 2, W, V, H, S, D, whole, false, s, g, &at, acc);
        else if (n == 3)
            pixels(RUN - 1, W, V, H, S, D, whole, false, s, g, &at, acc);
        else
            pixels(RUN, W, V, H, S, D, whole, false, s, g, &at, acc);
    }
}

/* A group's sums over a strip, of W vectors of channels whose sums lie behind each other. */
INLINE void group_of(const int W, const int V, const int H, const int64_t S, const int64_t D,
                     const bool whole, const strip *s, const group *g, const sums *to)
{
    const lki_conv_shape *shape = s->shape;
    const int64_t width = shape->out[1], first = g->kx * D - shape->padding[1];
    const int64_t room = shape->in[1] - first - (H - 1) * D;
    const int64_t near[2] = {first < -1 ? (-1 - first + S - 1) / S : 0,
                             room < 0 ? 0 : room / S + 1};
    const int64_t end = s->number + s->to - s->from;
    vf acc[GROUP][VECTORS];
    UNROLL
    for (int k = 0; k < W; k++) {
        UNROLL
        for (int t = 0; t < V * H; t++) {
            const int64_t at = ((g->ky + t / H) * shape->kernel[1] + g->kx + t % H) * LANES;
            acc[t][k] = s->number % LKI_BLOCK_TERMS != 0 ? vf_load(to[k].block + at) : vf_zero();
        }
    }
    const int64_t rows = s->from / width, sample = rows / shape->out[0];
    row r = {.number = rows - sample * shape->out[0],
             .x = sample * shape->in[0] * shape->in[1] * shape->channels,
             .dy = rows * width * shape->channels};
    int64_t from = s->from - rows * width;
    for (int64_t p = s->from; p < s->to; from = 0) {
        const int64_t n = s->to - p < width - from ? s->to - p : width - from;
        row_of(W, V, H, S, D, whole, s, g, &r, from, from + n, near, acc);
        p += n;
        r.dy += width * shape->channels;
        if (++r.number < shape->out[0]) continue;
        r.number = 0;
        r.x += shape->in[0] * shape->in[1] * shape->channels;
    }
    UNROLL
    for (int k = 0; k < W; k++) {
        UNROLL
        for (int t = 0; t < V * H; t++) {
            const int64_t at = ((g->ky + t / H) * shape->kernel[1] + g->kx + t % H) * LANES;
            leave(&to[k], at, acc[t][k], end);
        }
    }
}

#define CASE(H)                                                                                    \
    case H:                                                                                        \
        group_of(1, 1, H, stride, dilation, whole, s, &g, to);                                     \
        break;

/* Channels [channel, channel + n), or W vectors of them where the kernel is 3 x 3. */
INLINE void vectors_of(const int W, const bool whole, const strip *s, int64_t channel, int64_t n,
                       void *memory)
{
    const int64_t *kernel = s->shape->kernel;
    const int64_t stride = s->shape->stride[1], dilation = s->shape->dilation[1];
    group g = {.channel = channel, .n = n};
    sums to[VECTORS];
    UNROLL
    for (int k = 0; k < W; k++) to[k] = sums_of(s->shape, memory, channel / LANES + k);
    if (kernel[0] == 3 && kernel[1] == 3) {
        group_of(W, 3, 3, stride, dilation, whole, s, &g, to);
        return;
    }
    for (g.ky = 0; W == 1 && g.ky < kernel[0]; g.ky++)
        for (g.kx = 0; g.kx < kernel[1]; g.kx += GROUP_ROW) switch (kernel[1] - g.kx) {
                CASE(1)
                CASE(2)
                CASE(3)
                CASE(4)
                CASE(5)
                CASE(6)
                CASE(7)
            default:
                group_of(1, 1, GROUP_ROW, stride, dilation, whole, s, &g, to);
            }
}

/* The bias: in double, whatever blocks there are. */
static void bias_of(const strip *s, void *memory)
{
    FOR_VECTORS(c, n, s->shape->channels)
    {
        double *to = sums_of(s->shape, memory, c / LANES).bias;
        vd low = {0}, high = {0};
        place at = {.dy = s->dy + c, .y = s->y != NULL ? s->y + c : NULL};
        if (s->number > 0) {
            low = vd_load(to);
            high = vd_load(to + LANES / 2);
        }
        for (int64_t p = s->from; p < s->to; p++) {
            const vf d = gradient(&at, p * s->shape->channels, n == LANES, n);
            low += vf_low(d);
            high += vf_high(d);
        }
        vd_store(to, low);
        vd_store(to + LANES / 2, high);
    }
}

static void vector_depthwise_weight_strip_of(const strip *s, void *memory)
{
    const lki_conv_shape *shape = s->shape;
    const bool square = shape->kernel[0] == 3 && shape->kernel[1] == 3;
    const bool near = shape->dilation[0] == 1 && shape->dilation[1] == 1 && shape->stride[1] <= 2;
    const int W = square ? VECTORS : 1;
    stretch list[LKI_BLOCK_TERMS];
    const int count = RUN > 1 && square && near ? stretches_of(s, list) : 0;
    int64_t c = 0;
    /* In shorter rows turns cost more than they save. */
    if (count > 0 && (TURNS == 1 || shape->in[1] >= 12))
        c = vector_depthwise_weight_take(MANY, TURNS * VECTORS, s, list, count, c, memory);
    if (count > 0) c = vector_depthwise_weight_take(ONE, 1, s, list, count, c, memory);
    for (; W > 1 && c + W * LANES <= shape->channels; c += W * LANES)
        vectors_of(VECTORS, true, s, c, LANES, memory);
    for (; c + LANES <= shape->channels; c += LANES) vectors_of(1, true, s, c, LANES, memory);
    if (c < shape->channels) vectors_of(1, false, s, c, shape->channels - c, memory);
}

/* A sum of so many terms. */
static vf vector_depthwise_weight_complete(const sums *from, int64_t at, int64_t terms)
{
    const int64_t in_group = terms % LKI_GROUP_TERMS;
    vf sum = terms % LKI_BLOCK_TERMS != 0 ? vf_load(from->block + at) : vf_zero();
    if (in_group >= LKI_BLOCK_TERMS) sum = vf_load(from->group + at) + sum;
    return terms >= LKI_GROUP_TERMS ? vf_total(from->total + at, sum) : sum;
}

/* The gradients of a replica with so many pixels, in the parameter's order. */
static void vector_depthwise_weight_finish(const lki_conv_shape *s, const lki_conv_gradient *g,
                                           int64_t pixels)
{
    const int64_t taps = taps_of(s);
    float sum[LANES];
    FOR_VECTORS(c, n, s->channels)
    {
        const sums from = sums_of(s, g->sums, c / LANES);
        for (int64_t t = 0; t < taps; t++) {
            vf_store(sum, vf_flush(vector_depthwise_weight_complete(&from, t * LANES, pixels)));
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
        if (g->d_bias != NULL) bias_of(&part, g->sums);
        vector_depthwise_weight_strip_of(&part, g->sums);
    }
    if (g->last) vector_depthwise_weight_finish(s, g, g->sample * pixels + all);
}

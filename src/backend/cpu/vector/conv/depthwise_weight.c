/*
 * The weight gradient of a depthwise convolution: dW[tap][c] = sum over pixels of x[pixel under the tap][c] *
 * dy[pixel][c]; that of the bias is that of a tap under which all is 1. Channels are the vector.
 *
 *     x   . . . . . .             dy  . . . .       dW  0 1 2
 *         . 0 1 2 . .   times         . d . .  -->      3 4 5     one accumulator for each tap of a
 *         . 3 4 5 . .                 . d . .           6 7 8     group of up to 3 x 3
 *         . 6 7 8 . .                 . d . .
 *         : : : : : :                 . d . .
 *
 * A band is up to BAND rows of pixels, which a step takes a column of: these numbers of dy go into registers,
 * and each number of x under them is read once, for all taps through which one of them sees it.
 *
 * A block of pixels is up to COLUMNS columns by as many rows as give TERMS terms at most, or a band. Its pixels
 * are gone through band by band, in a band column by column, downwards; its sums are in f32 from +0, and added to
 * totals in double, which belong to the replica. Blocks come as their first pixels do. What lies in the border is
 * left out.
 */
#include "backend/cpu/vector/conv/depthwise.h"
#include "base/memory.h"

enum {
    BAND = 4,
    GROUP = 3, /* rows and columns of taps */
    COLUMNS = 16,
    TERMS = 64,
    /* With more channels pixels lie so far apart that the processor does not foresee what comes next: then
     * the same pixels of channels that many further on are asked for. */
    FAR = 128,
    NEXT = 32
};
#if LANES == 16 || defined(LKI_NEON) /* 32 registers */
enum { VECTORS = 2 };
#else
enum { VECTORS = 1 };
#endif
#if !defined(LKI_FAST_FMA) /* a multiply-add is a page of code */
#undef UNROLL
#define UNROLL
#endif

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The pixels of a sample's output that a sum goes over in registers. */
typedef struct block {
    const lki_conv_shape *s;
    const float *x, *d_y; /* of the sample */
    int64_t row, rows, column, columns;
    int64_t v, h;       /* the group's first tap */
    int64_t channel, n; /* n channels, where they are less than a vector */
    double *total;      /* [tap, bias][LANES] of the first vector */
    bool bias;          /* this group's block sums dy, too */
} block;

/* What is where these channels are that come NEXT. */
INLINE void fetch(const int R, int64_t apart, const float *from)
{
    UNROLL
    for (int r = 0; r < R; r++, from += apart)
        for (int k = 0; k < VECTORS * LANES; k += 16) __builtin_prefetch(from + NEXT + k, 0, 2);
}

/* R rows of the block from its row `y`. */
INLINE void band(const int R, const int V, const int H, const int S, const int W, const bool whole,
                 const block *b, int64_t y, vf acc[][GROUP][VECTORS], vf bias[])
{
    const lki_conv_shape *s = b->s;
    const int64_t channels = s->channels, line = s->in[1] * channels, d_line = s->out[1] * channels;
    const int64_t top = (b->row + y) * s->stride[0] - s->padding[0] + b->v * s->dilation[0];
    const int N = V > 1 ? (R - 1) * S + V : R;
    /* Rows of x: V rows of taps share them, each has its own. */
    const int64_t step = V > 1 ? 1 : s->stride[0];
    int64_t first = 0, last = N; /* those inside the image */
    while (first < N && top + first * step < 0) first++;
    while (last > first && top + (last - 1) * step >= s->in[0]) last--;
    int64_t column = b->column * s->stride[1] - s->padding[1] + b->h * s->dilation[1];
    const float *x = b->x + b->channel + (top * s->in[1] + column) * channels;
    const float *d_y = b->d_y + b->channel + (b->row + y) * d_line + b->column * channels;
    for (int64_t i = 0; i < b->columns; i++) {
        vf d[BAND][VECTORS];
        if (channels > FAR) {
            fetch(R, d_line, d_y);
            fetch(N, step * line, x + (H - 1) * channels);
            if (S == 2) fetch(N, step * line, x + (H - 2) * channels);
        }
        UNROLL
        for (int r = 0; r < R; r++) {
            UNROLL
            for (int k = 0; k < W; k++) d[r][k] = get(d_y + r * d_line + k * LANES, whole, b->n);
        }
        if (b->bias) {
            UNROLL
            for (int r = 0; r < R; r++) {
                UNROLL
                for (int k = 0; k < W; k++) bias[k] += d[r][k];
            }
        }
        UNROLL
        for (int h = 0; h < H; h++) {
            const int64_t at = h * s->dilation[1];
            const float *from = x + at * channels;
            if ((uint64_t)(column + at) >= (uint64_t)s->in[1]) continue;
            UNROLL
            for (int j = 0; j < N; j++, from += step * line) {
                if (j < first || j >= last) continue;
                UNROLL
                for (int k = 0; k < W; k++) {
                    const vf value = get(from + k * LANES, whole, b->n);
                    UNROLL
                    for (int v = 0; v < V; v++) {
                        const int r = V > 1 ? (j - v) / S : j;
                        if (j < v || (V > 1 && (j - v) % S != 0) || r >= R) continue;
                        acc[v][h][k] = vf_fma(value, d[r][k], acc[v][h][k]);
                    }
                }
            }
        }
        x += s->stride[1] * channels;
        d_y += channels;
        column += s->stride[1];
    }
}

INLINE void group_of(const int V, const int H, const int S, const int W, const bool whole,
                     const block *given)
{
    const block copy = *given, *const b = &copy;
    const int64_t width = b->s->kernel[1], taps = b->s->kernel[0] * width;
    vf acc[GROUP][GROUP][VECTORS], bias[VECTORS];
    int64_t y = 0;
    UNROLL
    for (int k = 0; k < W; k++) {
        bias[k] = vf_zero();
        UNROLL
        for (int t = 0; t < V * H; t++) acc[t / H][t % H][k] = vf_zero();
    }
    for (; y + 4 <= b->rows; y += 4) band(4, V, H, S, W, whole, b, y, acc, bias);
    if (b->rows - y >= 2) {
        band(2, V, H, S, W, whole, b, y, acc, bias);
        y += 2;
    }
    if (y < b->rows) band(1, V, H, S, W, whole, b, y, acc, bias);
    UNROLL
    for (int k = 0; k < W; k++) {
        double *total = b->total + k * (taps + 1) * LANES;
        if (b->bias) vf_fold(total + taps * LANES, bias[k], false);
        UNROLL
        for (int t = 0; t < V * H; t++)
            vf_fold(total + ((b->v + t / H) * width + b->h + t % H) * LANES, acc[t / H][t % H][k],
                    false);
    }
}

INLINE void group_sized(const int V, const int H, const int S, const block *b)
{
    if (b->n == VECTORS * LANES)
        group_of(V, H, S, VECTORS, true, b);
    else
        group_of(V, H, S, 1, false, b);
}

/* V x H taps; S: the stride of rows where several of them share what they read. */
static void run_group(int64_t V, int64_t H, const block *b)
{
    const int64_t S = V > 1 ? b->s->stride[0] : 1;
#define SIZE(V, H, S)                                                                              \
    case 100 * (V) + 10 * (H) + (S):                                                               \
        group_sized(V, H, S, b);                                                                   \
        break;
#define SIZES(V, S) SIZE(V, 1, S) SIZE(V, 2, S) SIZE(V, 3, S)
    switch (100 * V + 10 * H + S) {
        SIZES(1, 1) SIZES(2, 1) SIZES(3, 1) SIZES(2, 2) SIZES(3, 2)
    }
#undef SIZES
#undef SIZE
}

/* The block for all groups of taps, n channels at a time. */
static void groups_of(block *b)
{
    const lki_conv_shape *s = b->s;
    const bool shares = s->stride[0] <= 2 && s->dilation[0] == 1;
    for (b->v = 0; b->v < s->kernel[0];) {
        const int64_t V = shares ? least(GROUP, s->kernel[0] - b->v) : 1;
        for (b->h = 0; b->h < s->kernel[1];) {
            const int64_t H = least(GROUP, s->kernel[1] - b->h);
            run_group(V, H, b);
            b->h += H;
            b->bias = false;
        }
        b->v += V;
    }
}

size_t LKI_ISA_NAME(lki_depthwise_sums_bytes)(const lki_conv_shape *s)
{
    const size_t taps = lki_plus(lki_times((size_t)s->kernel[0], (size_t)s->kernel[1]), 1);
    return lki_times(sizeof(double) * (size_t)(depthwise_blocks(s) * LANES), taps);
}

/* The gradients of a replica, in the parameter's order. */
static void vector_depthwise_weight_finish(const lki_conv_shape *s, const lki_conv_gradient *g)
{
    const int64_t taps = s->kernel[0] * s->kernel[1];
    const double *total = g->sums;
    float sum[LANES];
    FOR_VECTORS(c, n, s->channels)
    {
        for (int64_t t = 0; t <= taps; t++, total += LANES) {
            vf_store(sum, vf_flush(vf_join(vd_load(total), vd_load(total + LANES / 2))));
            for (int64_t i = 0; i < n && t < taps; i++) g->d_weight[(c + i) * taps + t] = sum[i];
            if (t == taps && g->d_bias != NULL) vf_put(g->d_bias + c, vf_load(sum), n);
        }
    }
}

void LKI_ISA_NAME(lki_depthwise_weight)(const lki_conv_shape *s, int64_t count,
                                        const lki_conv_gradient *g)
{
    const int64_t taps = s->kernel[0] * s->kernel[1] + 1;
    const int64_t columns = least(COLUMNS, s->out[1]), bands = TERMS / columns / BAND * BAND;
    const int64_t x_size = s->in[0] * s->in[1] * s->channels,
                  y_size = s->out[0] * s->out[1] * s->channels;
    if (g->sample == 0) memset(g->sums, 0, LKI_ISA_NAME(lki_depthwise_sums_bytes)(s));
    for (int64_t i = 0; i < count; i++)
        for (int64_t row = 0; row < s->out[0]; row += bands)
            for (int64_t c = 0, n; c < s->channels; c += n) {
                n = s->channels - c >= VECTORS * LANES ? VECTORS * LANES
                                                       : least(LANES, s->channels - c);
                for (int64_t column = 0; column < s->out[1]; column += columns) {
                    block b = {.s = s,
                               .x = g->x + i * x_size,
                               .d_y = g->d_y + i * y_size,
                               .row = row,
                               .rows = least(bands, s->out[0] - row),
                               .column = column,
                               .columns = least(columns, s->out[1] - column),
                               .channel = c,
                               .n = n,
                               .total = (double *)g->sums + c * taps,
                               .bias = g->d_bias != NULL};
                    groups_of(&b);
                }
            }
    if (g->last) vector_depthwise_weight_finish(s, g);
}

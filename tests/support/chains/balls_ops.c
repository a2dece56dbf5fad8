/* Operations on balls. */
#include "support/chains/balls_ops.h"

#include <math.h>

#include "numeric/random.h"
#include "support/exact.h"

static int64_t per_sample(const lks_tensor *t)
{
    return lks_shape_elements(&t->shape);
}

static lkt_ball exactly(double v)
{
    return (lkt_ball){v, 0};
}

static lkt_ball by(lkt_ball a, double factor)
{
    return (lkt_ball){a.v * factor, a.r * fabs(factor)};
}

/* The pixel of the image under an output pixel's place; false: in the border. */
static bool under(const int64_t *size, int64_t out, int64_t place, int64_t width, int64_t columns,
                  const int64_t stride[2], const int64_t padding[2], const int64_t dilation[2],
                  int64_t *pixel)
{
    const int64_t y = out / columns * stride[0] - padding[0] + place / width * dilation[0];
    const int64_t x = out % columns * stride[1] - padding[1] + place % width * dilation[1];
    *pixel = y * size[1] + x;
    return y >= 0 && y < size[0] && x >= 0 && x < size[1];
}

/* A filter's row of channels at one pixel: to its sum, or from its gradient. */
static void conv_row(const lkt_balls_task *t, bool back, int64_t at, int64_t x, int64_t w,
                     int64_t channels, int64_t area)
{
    for (int64_t k = 0; k < channels; k++) {
        const lkt_ball weight = exactly((double)t->param[0][w + k * area]);
        if (!back) {
            lkt_ball_add(&t->out[at], by(t->in[0][x + k], weight.v));
            continue;
        }
        lkt_ball_add(&t->d_in[0][x + k], by(t->d_out[at], weight.v));
        lkt_ball_add(&t->d_param[0][w + k * area], lkt_ball_times(t->d_out[at], t->in[0][x + k]));
    }
}

static void bias(const lkt_balls_task *t, bool back)
{
    const int64_t columns = t->node->param[0].shape.dim[0];
    for (int64_t i = 0; i < t->count * per_sample(&t->node->out) && t->param[1] != NULL; i++) {
        if (back)
            lkt_ball_add(&t->d_param[1][i % columns], t->d_out[i]);
        else
            t->out[i].v += (double)t->param[1][i % columns];
    }
}

static void conv2d(const lkt_balls_task *t, bool back)
{
    const lks_conv2d_opts *opts = t->node->attr;
    const int64_t *in = t->node->in[0]->shape.dim, *size = t->node->out.shape.dim;
    const int64_t channels = in[2] / opts->groups, filters = size[2] / opts->groups;
    const int64_t area = opts->kernel[0] * opts->kernel[1], pixels = size[0] * size[1];
    for (int64_t i = 0; i < t->count * pixels; i++)
        for (int64_t place = 0; place < area; place++) {
            int64_t pixel;
            if (!under(in, i % pixels, place, opts->kernel[1], size[1], opts->stride, opts->padding,
                       opts->dilation, &pixel))
                continue;
            for (int64_t f = 0; f < size[2]; f++)
                conv_row(t, back, i * size[2] + f,
                         (i / pixels * in[0] * in[1] + pixel) * in[2] + f / filters * channels,
                         f * channels * area + place, channels, area);
        }
    bias(t, back);
}

static void dense(const lkt_balls_task *t, bool back)
{
    const lks_shape *out = &t->node->out.shape, *in = &t->node->in[0]->shape;
    const int64_t units = out->dim[out->ndim - 1], inputs = in->dim[in->ndim - 1];
    for (int64_t i = 0; i < t->count * per_sample(&t->node->out); i++)
        conv_row(t, back, i, i / units * inputs, i % units * inputs, inputs, 1);
    bias(t, back);
}

/* All that may be the maximum may get the gradient; of equal numbers that are exact the first is it. */
static void max_window(const lkt_balls_task *t, bool back, int64_t to, const int64_t *at, int count)
{
    double least = -INFINITY, most = -INFINITY, radius = 0;
    int candidates = 0, first = -1;
    for (int i = 0; i < count; i++) least = fmax(least, t->in[0][at[i]].v - t->in[0][at[i]].r);
    for (int i = 0; i < count; i++) {
        const lkt_ball x = t->in[0][at[i]];
        if (x.v + x.r < least) continue;
        if (first < 0) first = i;
        candidates++;
        most = fmax(most, x.v);
        radius = fmax(radius, x.r);
    }
    if (!back) {
        t->out[to] = (lkt_ball){most, radius};
        return;
    }
    const lkt_ball d = t->d_out[to];
    for (int i = first; i < count; i++) {
        const lkt_ball x = t->in[0][at[i]];
        if (x.v + x.r < least) continue;
        if (candidates == 1 || (radius == 0 && i == first)) lkt_ball_add(&t->d_in[0][at[i]], d);
        if (candidates > 1 && radius > 0)
            lkt_ball_add(&t->d_in[0][at[i]], (lkt_ball){d.v / 2, fabs(d.v) / 2 + d.r});
    }
}

static void mean_window(const lkt_balls_task *t, bool back, int64_t to, const int64_t *at,
                        int count, double divisor)
{
    for (int i = 0; i < count; i++)
        if (back)
            lkt_ball_add(&t->d_in[0][at[i]], by(t->d_out[to], 1 / divisor));
        else
            lkt_ball_add(&t->out[to], by(t->in[0][at[i]], 1 / divisor));
}

static void pool(const lkt_balls_task *t, bool back)
{
    enum { MOST = 256 };
    static const int64_t dilation[2] = {1, 1}, none[2] = {0, 0};
    const bool whole = t->node->op == LKI_OP_GLOBAL_AVG_POOL;
    const int64_t *in = t->node->in[0]->shape.dim, *size = t->node->out.shape.dim;
    const lks_pool_opts *opts = whole ? &(lks_pool_opts){.kernel = {in[0], in[1]}} : t->node->attr;
    const int64_t *stride = whole ? dilation : opts->stride, *border = whole ? none : opts->padding;
    const int64_t columns = whole ? 1 : size[1], pixels = whole ? 1 : size[0] * size[1];
    const int64_t area = opts->kernel[0] * opts->kernel[1];
    assert_true(area <= MOST);
    for (int64_t i = 0; i < t->count * pixels * in[2]; i++) {
        int64_t at[MOST], pixel;
        int count = 0;
        for (int64_t place = 0; place < area; place++)
            if (under(in, i / in[2] % pixels, place, opts->kernel[1], columns, stride, border,
                      dilation, &pixel))
                at[count++] = (i / in[2] / pixels * in[0] * in[1] + pixel) * in[2] + i % in[2];
        if (t->node->op == LKI_OP_MAX_POOL)
            max_window(t, back, i, at, count);
        else
            mean_window(t, back, i, at, count,
                        opts->exclude_padding ? (double)count : (double)area);
    }
}

/* `count` numbers, `stride` apart: z = (x - mean) / sqrt(variance + epsilon), y = w z + b; number i has the parameter
 * i % channels * pixels + i / channels, or where there are no channels all have the first. */
typedef struct group {
    int64_t first, count, stride, channels, pixels;
    double epsilon;
    const float *mean, *variance; /* given */
} group;

static int64_t parameter(const group *g, int64_t i)
{
    return g->channels == 0 ? 0 : i % g->channels * g->pixels + i / g->channels;
}

static lkt_ball less(lkt_ball a, lkt_ball b)
{
    return (lkt_ball){a.v - b.v, a.r + b.r};
}

/* Mean, and 1 / sqrt(variance + epsilon). */
static void moments(const lkt_balls_task *t, const group *g, lkt_ball *mean, lkt_ball *inverse)
{
    const lkt_ball *x = t->in[0] + g->first;
    lkt_ball variance = {0};
    *mean = (lkt_ball){0};
    for (int64_t i = 0; i < g->count; i++)
        lkt_ball_add(mean, by(x[i * g->stride], 1 / (double)g->count));
    for (int64_t i = 0; i < g->count; i++) {
        const lkt_ball d = less(x[i * g->stride], *mean);
        lkt_ball_add(&variance, by(lkt_ball_times(d, d), 1 / (double)g->count));
    }
    if (g->mean != NULL) *mean = exactly((double)*g->mean), variance = exactly(*g->variance);
    const double low = 1 / sqrt(fmax(variance.v - variance.r, 0) + g->epsilon);
    inverse->v = 1 / sqrt(variance.v + g->epsilon);
    inverse->r = fmax(low - inverse->v,
                      inverse->v - 1 / sqrt(variance.v + variance.r + g->epsilon));
}

static void normalise(const lkt_balls_task *t, bool back, group g)
{
    lkt_ball mean, inverse, mean_g = {0}, mean_gz = {0};
    moments(t, &g, &mean, &inverse);
    for (int pass = 0; pass < 1 + back; pass++)
        for (int64_t i = 0; i < g.count; i++) {
            const int64_t p = parameter(&g, i), e = g.first + i * g.stride;
            const lkt_ball z = lkt_ball_times(less(t->in[0][e], mean), inverse);
            const double w = t->param[0] != NULL ? (double)t->param[0][p] : 1;
            if (!back) {
                t->out[e] = by(z, w);
                t->out[e].v += t->param[1] != NULL ? (double)t->param[1][p] : 0;
                continue;
            }
            const lkt_ball slope = by(t->d_out[e], w);
            if (pass == 1) {
                const lkt_ball inner = less(less(slope, mean_g), lkt_ball_times(z, mean_gz));
                lkt_ball_add(&t->d_in[0][e], lkt_ball_times(inverse, inner));
                continue;
            }
            lkt_ball_add(&mean_g, by(slope, 1 / (double)g.count));
            lkt_ball_add(&mean_gz, by(lkt_ball_times(slope, z), 1 / (double)g.count));
            if (t->param[0] == NULL) continue;
            lkt_ball_add(&t->d_param[0][p], lkt_ball_times(t->d_out[e], z));
            lkt_ball_add(&t->d_param[1][p], t->d_out[e]);
        }
}

static void batch_norm(const lkt_balls_task *t, bool back)
{
    const lks_batch_norm_opts *opts = t->node->attr;
    const int64_t channels = t->node->param[0].shape.dim[0];
    for (int64_t c = 0; c < channels; c++) {
        lkt_balls_task one = *t;
        for (int i = 0; i < 2; i++) {
            one.param[i] = t->param[i] + c;
            one.d_param[i] = back ? t->d_param[i] + c : NULL;
        }
        group g = {.first = c,
                   .count = t->count * per_sample(&t->node->out) / channels,
                   .stride = channels,
                   .channels = 0, /* one parameter for all */
                   .epsilon = (double)opts->epsilon};
        if (!t->training)
            g.mean = (float *)t->buffer[0] + c, g.variance = (float *)t->buffer[1] + c;
        normalise(&one, back, g);
    }
}

static void layer_norm(const lkt_balls_task *t, bool back)
{
    const lks_layer_norm_opts *opts = t->node->attr;
    const lks_shape *in = &t->node->in[0]->shape;
    const bool image = opts->dims == 3 && in->ndim == 3;
    int64_t width = 1;
    for (int i = in->ndim - opts->dims; i < in->ndim; i++) width *= in->dim[i];
    for (int64_t first = 0; first < t->count * per_sample(&t->node->out); first += width)
        normalise(t, back,
                  (group){.first = first,
                          .count = width,
                          .stride = 1,
                          .channels = image ? in->dim[2] : width,
                          .pixels = image ? in->dim[0] * in->dim[1] : 1,
                          .epsilon = (double)opts->epsilon});
}

/* |f'| and |f''| of an activation are at most this. */
static void limits_of(lki_op_id op, double *first, double *second)
{
    *first = op == LKI_OP_SIGMOID ? 0.25 : op == LKI_OP_GELU || op == LKI_OP_SILU ? 1.14 : 1;
    *second = op == LKI_OP_SIGMOID || op == LKI_OP_SOFTPLUS ? 0.25 : op == LKI_OP_SILU ? 0.5 : 1;
}

/* x where it is positive, else `slope` times it. */
static void kinked(lkt_ball x, double slope, lkt_ball *y, lkt_ball *d)
{
    const bool open = fabs(x.v) <= x.r && x.r > 0;
    *y = x.v > 0 ? x : by(x, slope);
    if (open) y->r = x.r;
    *d = exactly(x.v > 0 ? 1 : slope);
    if (open) *d = (lkt_ball){(1 + slope) / 2, (1 - slope) / 2};
}

/* min(max(x, 0), 6): a difference of two that are 0 below a kink. */
static void kinked_twice(lkt_ball x, lkt_ball *y, lkt_ball *d)
{
    const bool zero = fabs(x.v) <= x.r && x.r > 0, six = fabs(x.v - 6) <= x.r && x.r > 0;
    const bool inside = x.v > 0 && x.v < 6;
    *y = inside ? x : exactly(x.v > 0 ? 6 : 0);
    if (zero || six) y->r = x.r;
    *d = zero || six ? (lkt_ball){.5, .5} : exactly(inside);
}

static void element(const lkt_balls_task *t, int64_t i, lkt_ball *y, lkt_ball *d)
{
    const lki_node *node = t->node;
    const lkt_ball x = t->in[0][i];
    if (node->op == LKI_OP_RELU) {
        kinked(x, 0, y, d);
    } else if (node->op == LKI_OP_RELU6) {
        kinked_twice(x, y, d);
    } else if (node->op == LKI_OP_LEAKY_RELU) {
        kinked(x, (double)((const lks_leaky_relu_opts *)node->attr)->slope, y, d);
    } else if (node->op == LKI_OP_DROPOUT) {
        const double p = (double)((const lks_dropout_opts *)node->attr)->probability;
        *d = exactly(!t->training    ? 1
                     : t->dropped[i] ? 0
                                     : 1 / (1 - lki_bernoulli_make(p).probability));
        *y = by(x, d->v);
        y->r += 0x1p-23 * fabs(y->v); /* the factor is a float, and the product rounds */
        d->r = 0x1p-24 * d->v;
    } else {
        double first, second;
        limits_of(node->op, &first, &second);
        lkt_exact_curve(node, x.v, &y->v, &d->v);
        y->r = first * x.r;
        d->r = second * x.r;
    }
}

static void elements(const lkt_balls_task *t, bool back)
{
    for (int64_t i = 0; i < t->count * per_sample(&t->node->out); i++) {
        lkt_ball y, d;
        element(t, i, &y, &d);
        if (back)
            lkt_ball_add(&t->d_in[0][i], lkt_ball_times(d, t->d_out[i]));
        else
            t->out[i] = y;
    }
}

/* Channel, row, column from row, column, channel; a sequence stays as it is. */
static void flatten(const lkt_balls_task *t, bool back)
{
    const lks_shape *in = &t->node->in[0]->shape;
    const int64_t per = per_sample(&t->node->out), channels = in->ndim == 3 ? in->dim[2] : 1;
    for (int64_t i = 0; i < t->count * per; i++) {
        const int64_t inside = i % per, pixel = inside / channels;
        const int64_t to = i - inside + inside % channels * (per / channels) + pixel;
        if (back)
            lkt_ball_add(&t->d_in[0][i], t->d_out[to]);
        else
            t->out[to] = t->in[0][i];
    }
}

static void sequence(const lkt_balls_task *t, bool back)
{
    for (int64_t i = 0; i < t->count * per_sample(&t->node->out); i++)
        lkt_ball_add(back ? &t->d_in[0][i] : &t->out[i], back ? t->d_out[i] : t->in[0][i]);
}

static void selected(const lkt_balls_task *t, bool back)
{
    const int64_t channels = per_sample(&t->node->out), all = per_sample(t->node->in[0]);
    const int64_t position = ((const lks_select_opts *)t->node->attr)->position;
    const int64_t first = position * channels + (position < 0 ? all : 0);
    for (int64_t i = 0; i < t->count * channels; i++) {
        const int64_t from = i / channels * all + first + i % channels;
        lkt_ball_add(back ? &t->d_in[0][from] : &t->out[i], back ? t->d_out[i] : t->in[0][from]);
    }
}

static void sum(const lkt_balls_task *t, bool back)
{
    assert_int_equal(per_sample(t->node->in[0]), per_sample(t->node->in[1]));
    for (int64_t i = 0; i < t->count * per_sample(&t->node->out); i++)
        for (int k = 0; k < 2; k++)
            lkt_ball_add(back ? &t->d_in[k][i] : &t->out[i], back ? t->d_out[i] : t->in[k][i]);
}

static void mse(const lkt_balls_task *t, bool back)
{
    const int64_t values = per_sample(t->node->in[0]);
    for (int64_t i = 0; i < t->count * values; i++) {
        const lkt_ball d = less(t->in[0][i], t->in[1][i]);
        if (back)
            lkt_ball_add(&t->d_in[0][i],
                         by(lkt_ball_times(d, t->d_out[i / values]), 2 / (double)values));
        else
            lkt_ball_add(&t->out[i / values], by(lkt_ball_times(d, d), 1 / (double)values));
    }
}

/* Scaling of bytes may be done with the convolution behind it. */
static void normalize(const lkt_balls_task *t, bool back)
{
    const lks_normalize_opts *opts = t->node->attr;
    assert_false(back);
    const int64_t channels = t->node->out.shape.dim[t->node->out.shape.ndim - 1];
    const double scale = t->node->in[0]->dtype == LKS_U8 ? 255 : 1;
    for (int64_t i = 0; i < t->count * per_sample(&t->node->out); i++) {
        const int64_t c = opts->count == 1 ? 0 : i % channels;
        const double mean = opts->mean != NULL ? (double)opts->mean[c] : 0,
                     x = t->in[0][i].v / scale;
        t->out[i].v = (x - mean) / (double)opts->std[c];
        t->out[i].r = 4 * 0x1p-24 * (fabs(x) + fabs(mean)) / (double)opts->std[c];
    }
}

static void compute(const lkt_balls_task *t, bool back)
{
    static void (*const others[LKI_OP_COUNT])(const lkt_balls_task *, bool) = {
        [LKI_OP_CONV2D] = conv2d,
        [LKI_OP_DENSE] = dense,
        [LKI_OP_MAX_POOL] = pool,
        [LKI_OP_AVG_POOL] = pool,
        [LKI_OP_GLOBAL_AVG_POOL] = pool,
        [LKI_OP_BATCH_NORM] = batch_norm,
        [LKI_OP_LAYER_NORM] = layer_norm,
        [LKI_OP_FLATTEN] = flatten,
        [LKI_OP_SEQUENCE] = sequence,
        [LKI_OP_SELECT] = selected,
        [LKI_OP_ADD] = sum,
        [LKI_OP_MSE] = mse,
        [LKI_OP_NORMALIZE] = normalize,
    };
    (others[t->node->op] != NULL ? others[t->node->op] : elements)(t, back);
}

void lkt_balls_forward(const lkt_balls_task *t)
{
    compute(t, false);
}

void lkt_balls_backward(const lkt_balls_task *t)
{
    compute(t, true);
}

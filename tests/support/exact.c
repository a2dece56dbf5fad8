/* Operations in double. */
#include "support/exact.h"

#include <math.h>

/* An operation at work: what it is given and gives, in double. Classes are numbers too. */
typedef struct task {
    const lki_node *node;
    int64_t count;
    double *in[LKI_MAX_IN];
    const double *param[LKI_MAX_PARAM], *d_out;
    lkt_exact *to;
} task;

static double *make_zeros(lkt_case *c, int64_t count)
{
    double *values = lkt_case_memory(c, (size_t)count * sizeof *values);

    for (int64_t i = 0; i < count; i++) values[i] = 0;
    return values;
}

static double *widen(lkt_case *c, const float *from, int64_t count, int power)
{
    double *values = make_zeros(c, count);

    for (int64_t i = 0; i < count; i++)
        values[i] = power == 0   ? 1
                    : power == 2 ? (double)from[i] * (double)from[i]
                                 : (double)from[i];
    return values;
}

static int64_t per_sample(const lks_tensor *t)
{
    return lks_shape_elements(&t->shape);
}

/* The window of an output pixel: pixels of the image that the kernel's row and column stand at. */
static bool stands_at(const lki_node *node, const int64_t stride[2], const int64_t padding[2],
                      const int64_t out[2], const int64_t kernel[2], int64_t at[2])
{
    bool inside = true;

    for (size_t i = 0; i < 2; i++) {
        at[i] = out[i] * stride[i] - padding[i] + kernel[i];
        inside &= at[i] >= 0 && at[i] < node->in[0]->shape.dim[i];
    }
    return inside;
}

/* One output pixel of a sample and one place of the kernel, which stands at `pixel`. */
static void conv2d_place(const task *t, int64_t sample, const int64_t out[2],
                         const int64_t kernel[2], const int64_t at[2])
{
    const lks_conv2d_opts *opts = t->node->attr;
    const int64_t *in = t->node->in[0]->shape.dim, *size = t->node->out.shape.dim;
    const int64_t channels = in[2] / opts->groups, filters = size[2] / opts->groups;
    const int64_t area = opts->kernel[0] * opts->kernel[1];
    const int64_t place = kernel[0] * opts->kernel[1] + kernel[1];
    const int64_t from = (sample * in[0] * in[1] + at[0] * in[1] + at[1]) * in[2];
    const int64_t to = (sample * size[0] * size[1] + out[0] * size[1] + out[1]) * size[2];

    for (int64_t f = 0; f < size[2]; f++) {
        const int64_t x = from + f / filters * channels, w = f * channels * area + place;
        const double dy = t->d_out[to + f];
        double sum = 0;

        for (int64_t k = 0; k < channels; k++) {
            sum += t->in[0][x + k] * t->param[0][w + k * area];
            t->to->d_in[0][x + k] += dy * t->param[0][w + k * area];
            t->to->d_param[0][w + k * area] += dy * t->in[0][x + k];
        }
        t->to->out[to + f] += sum;
    }
}

static void add_bias(const task *t)
{
    const int64_t filters = t->node->param[0].shape.dim[0];

    for (int64_t i = 0; i < t->count * per_sample(&t->node->out) && t->param[1] != NULL; i++) {
        t->to->out[i] += t->param[1][i % filters];
        t->to->d_param[1][i % filters] += t->d_out[i];
    }
}

static void conv2d(const task *t)
{
    const lks_conv2d_opts *opts = t->node->attr;
    const int64_t rows = t->node->out.shape.dim[0], columns = t->node->out.shape.dim[1];

    assert_true(opts->dilation[0] == 1 && opts->dilation[1] == 1);
    for (int64_t i = 0; i < t->count * rows * columns; i++) {
        const int64_t out[2] = {i / columns % rows, i % columns};

        for (int64_t k = 0; k < opts->kernel[0] * opts->kernel[1]; k++) {
            const int64_t kernel[2] = {k / opts->kernel[1], k % opts->kernel[1]};
            int64_t at[2];

            if (stands_at(t->node, opts->stride, opts->padding, out, kernel, at))
                conv2d_place(t, i / (rows * columns), out, kernel, at);
        }
    }
    add_bias(t);
}

static void dense(const task *t)
{
    const int64_t units = t->node->out.shape.dim[0], inputs = t->node->in[0]->shape.dim[0];

    for (int64_t i = 0; i < t->count * units; i++) {
        const double *x = t->in[0] + i / units * inputs, *w = t->param[0] + i % units * inputs;
        double *dx = t->to->d_in[0] + i / units * inputs,
               *dw = t->to->d_param[0] + i % units * inputs, sum = 0;

        for (int64_t k = 0; k < inputs; k++) {
            sum += x[k] * w[k];
            dx[k] += t->d_out[i] * w[k];
            dw[k] += t->d_out[i] * x[k];
        }
        t->to->out[i] = sum;
    }
    add_bias(t);
}

/* One window, `out`: its mean or its first largest, and the gradient's way back. */
static void pool_window(const task *t, const lks_pool_opts *opts, int64_t sample,
                        const int64_t out[2], int64_t channel)
{
    const bool max = t->node->op == LKI_OP_MAX_POOL;
    const int64_t *in = t->node->in[0]->shape.dim, *size = t->node->out.shape.dim;
    const int64_t width = t->node->out.shape.ndim == 1 ? 1 : size[1];
    const int64_t area = opts->kernel[0] * opts->kernel[1], pixels = per_sample(&t->node->out);
    const int64_t to = sample * pixels + (out[0] * width + out[1]) * in[2] + channel;
    double sum = 0, divisor = 0;
    int64_t best = -1;

    for (int back = 0; back < 2; back++) {
        for (int64_t k = 0; k < area; k++) {
            const int64_t kernel[2] = {k / opts->kernel[1], k % opts->kernel[1]};
            int64_t at[2];

            if (!stands_at(t->node, opts->stride, opts->padding, out, kernel, at)) continue;
            const int64_t from = ((sample * in[0] + at[0]) * in[1] + at[1]) * in[2] + channel;
            if (back == 1 && !max) t->to->d_in[0][from] += t->d_out[to] / divisor;
            if (back == 1) continue;
            if (best < 0 || t->in[0][from] > t->in[0][best]) best = from;
            sum += t->in[0][from];
            divisor++;
        }
        if (!opts->exclude_padding) divisor = (double)area;
    }
    t->to->out[to] = max ? t->in[0][best] : sum / divisor;
    if (max) t->to->d_in[0][best] += t->d_out[to];
}

static void pool(const task *t)
{
    const int64_t *in = t->node->in[0]->shape.dim, *size = t->node->out.shape.dim;
    const bool whole = t->node->op == LKI_OP_GLOBAL_AVG_POOL;
    const lks_pool_opts global = {.kernel = {in[0], in[1]}, .stride = {1, 1}};
    const int64_t columns = whole ? 1 : size[1], pixels = whole ? 1 : size[0] * size[1];

    for (int64_t i = 0; i < t->count * pixels * in[2]; i++) {
        const int64_t pixel = i / in[2] % pixels;

        pool_window(t, whole ? &global : t->node->attr, i / in[2] / pixels,
                    (int64_t[2]){pixel / columns, pixel % columns}, i % in[2]);
    }
}

/*
 * Normalising `count` values, which lie `stride` apart: z = (x - mean) / sqrt(variance + epsilon),
 * y = w z + b; parameter(i) is the place of value i's. With g = w dy,
 * dx = (g - mean of g - z * mean of g z) / sqrt(variance + epsilon).
 */
typedef struct group {
    int64_t first, count, stride;
    int64_t channels, pixels; /* value i has parameter i % channels * pixels + i / channels */
    double epsilon;
    bool about_zero; /* in the place of the mean, and without a bias */
} group;

static void normalise(const task *t, group g)
{
    const double *x = t->in[0] + g.first, *dy = t->d_out + g.first, n = (double)g.count;
    double mean = 0, variance = 0, mean_g = 0, mean_gz = 0;

    for (int64_t i = 0; i < g.count && !g.about_zero; i++) mean += x[i * g.stride] / n;
    for (int64_t i = 0; i < g.count; i++)
        variance += (x[i * g.stride] - mean) * (x[i * g.stride] - mean) / n;
    const double inverse = 1 / sqrt(variance + g.epsilon);
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < g.count; i++) {
            const int64_t p = i % g.channels * g.pixels + i / g.channels, e = i * g.stride;
            const double z = (x[e] - mean) * inverse, slope = t->param[0][p] * dy[e];

            if (pass == 1) {
                t->to->d_in[0][g.first + e] = inverse * (slope - mean_g - z * mean_gz);
                continue;
            }
            mean_gz += slope * z / n;
            t->to->out[g.first + e] = t->param[0][p] * z;
            t->to->d_param[0][p] += dy[e] * z;
            if (g.about_zero) continue;
            mean_g += slope / n;
            t->to->out[g.first + e] += t->param[1][p];
            t->to->d_param[1][p] += dy[e];
        }
    }
}

/* All values of a channel have one parameter. */
static void batch_norm(const task *t)
{
    const lks_batch_norm_opts *opts = t->node->attr;
    const int64_t channels = t->node->param[0].shape.dim[0];

    for (int64_t c = 0; c < channels; c++) {
        const double *param[LKI_MAX_PARAM] = {t->param[0] + c, t->param[1] + c};
        lkt_exact to = *t->to;
        task one = *t;

        for (int i = 0; i < 2; i++) {
            one.param[i] = param[i];
            to.d_param[i] += c;
        }
        one.to = &to;
        normalise(&one, (group){.first = c,
                                .count = t->count * per_sample(&t->node->out) / channels,
                                .stride = channels,
                                .channels = INT64_MAX,
                                .epsilon = (double)opts->epsilon});
    }
}

static void layer_norm(const task *t)
{
    const lks_layer_norm_opts *opts = t->node->attr;
    const lks_shape *in = &t->node->in[0]->shape;
    const bool image = opts->dims == 3 && in->ndim == 3;
    int64_t width = 1;

    for (int i = in->ndim - opts->dims; i < in->ndim; i++) width *= in->dim[i];
    for (int64_t first = 0; first < t->count * per_sample(&t->node->out); first += width)
        normalise(t, (group){.first = first,
                             .count = width,
                             .stride = 1,
                             .channels = image ? in->dim[2] : width,
                             .pixels = image ? in->dim[0] * in->dim[1] : 1,
                             .epsilon = (double)opts->epsilon});
}

static void rms_norm(const task *t)
{
    const lks_rms_norm_opts *opts = t->node->attr;
    const lks_shape *in = &t->node->in[0]->shape;
    const int64_t width = in->dim[in->ndim - 1];

    for (int64_t first = 0; first < t->count * per_sample(&t->node->out); first += width)
        normalise(t, (group){.first = first,
                             .count = width,
                             .stride = 1,
                             .channels = width,
                             .pixels = 1,
                             .epsilon = (double)opts->epsilon,
                             .about_zero = true});
}

static void elements(const task *t, const float *out)
{
    for (int64_t i = 0; i < t->count * per_sample(&t->node->out); i++) {
        const double x = t->in[0][i];
        double y = x > 0 ? x : 0, slope = x > 0 ? 1 : 0;

        if (t->node->op == LKI_OP_RELU6) {
            slope = x > 0 && x < 6;
            y = fmin(y, 6);
        } else if (t->node->op == LKI_OP_LEAKY_RELU) {
            slope = x > 0 ? 1 : (double)((const lks_leaky_relu_opts *)t->node->attr)->slope;
            y = slope * x;
        } else if (t->node->op == LKI_OP_SCALE) {
            slope = (double)((const lks_scale_opts *)t->node->attr)->factor;
            y = slope * x;
        } else if (t->node->op == LKI_OP_DROPOUT) {
            const double rest = 1 - (double)((const lks_dropout_opts *)t->node->attr)->probability;

            slope = out[i] == 0 ? 0 : 1 / rest;
            y = out[i] == 0 ? 0 : x / rest;
        } else if (t->node->op != LKI_OP_RELU) {
            lkt_exact_curve(t->node, x, &y, &slope);
        }
        t->to->out[i] = y;
        t->to->d_in[0][i] = slope * t->d_out[i];
    }
}

static void pair(const task *t)
{
    const int64_t count = t->count * per_sample(&t->node->out), per = per_sample(&t->node->out);
    const int64_t second = per_sample(t->node->in[1]);

    for (int64_t i = 0; i < count; i++) {
        const int64_t k = i / per * second + i % per % second;
        const double x = t->in[0][i], y = t->in[1][k], dy = t->d_out[i];

        if (t->node->op == LKI_OP_ADD) {
            t->to->out[i] = x + y;
            t->to->d_in[0][i] = dy;
            t->to->d_in[1][k] += dy;
        } else {
            t->to->out[i] = x * y;
            t->to->d_in[0][i] = dy * y;
            t->to->d_in[1][k] += dy * x;
        }
    }
}

/* The target of cross entropy: (1 - smoothing) at the class, and smoothing / values everywhere. */
static void log_softmax_row(const task *t, int64_t sample, int64_t values, int64_t class)
{
    const bool loss = t->node->op == LKI_OP_CROSS_ENTROPY;
    const double smooth =
        loss ? (double)((const lks_cross_entropy_opts *)t->node->attr)->label_smoothing : 0;
    const double *x = t->in[0] + sample * values;
    double most = x[0], sum = 0, d_sum = 0;

    for (int64_t k = 1; k < values; k++) most = fmax(most, x[k]);
    for (int64_t k = 0; k < values; k++) sum += exp(x[k] - most);
    for (int64_t k = 0; k < values && !loss; k++) d_sum += t->d_out[sample * values + k];
    for (int64_t k = 0; k < values; k++) {
        const double y = x[k] - most - log(sum), p = exp(x[k] - most) / sum;
        const double wanted = smooth / (double)values + (k == class ? 1 - smooth : 0);
        double *dx = &t->to->d_in[0][sample * values + k];

        if (loss) {
            t->to->out[sample] -= wanted * y;
            *dx = t->d_out[sample] * (p - wanted);
        } else {
            t->to->out[sample * values + k] = y;
            *dx = t->d_out[sample * values + k] - p * d_sum;
        }
    }
}

static void rows(const task *t)
{
    const int64_t values = per_sample(t->node->in[0]);

    for (int64_t n = 0; n < t->count; n++) {
        const int64_t class = t->in[1] != NULL ? (int64_t)t->in[1][n] : 0;

        if (t->node->op == LKI_OP_NLL) {
            t->to->out[n] = -t->in[0][n * values + class];
            t->to->d_in[0][n * values + class] = -t->d_out[n];
        } else if (t->node->op == LKI_OP_MSE) {
            for (int64_t i = n * values; i < (n + 1) * values; i++) {
                const double d = t->in[0][i] - t->in[1][i];

                t->to->out[n] += d * d / (double)values;
                t->to->d_in[0][i] = t->d_out[n] * 2 * d / (double)values;
            }
        } else {
            log_softmax_row(t, n, values, class);
        }
    }
}

static void compute(const task *t, const float *out)
{
    switch (t->node->op) {
    case LKI_OP_CONV2D:
        conv2d(t);
        return;
    case LKI_OP_DENSE:
        dense(t);
        return;
    case LKI_OP_MAX_POOL:
    case LKI_OP_AVG_POOL:
    case LKI_OP_GLOBAL_AVG_POOL:
        pool(t);
        return;
    case LKI_OP_BATCH_NORM:
        batch_norm(t);
        return;
    case LKI_OP_LAYER_NORM:
        layer_norm(t);
        return;
    case LKI_OP_RMS_NORM:
        rms_norm(t);
        return;
    case LKI_OP_ATTENTION:
        lkt_exact_attention(t->node, t->count, t->in[0], t->d_out, t->to->out, t->to->d_in[0]);
        return;
    case LKI_OP_ADD:
    case LKI_OP_MUL:
        pair(t);
        return;
    case LKI_OP_LOG_SOFTMAX:
    case LKI_OP_CROSS_ENTROPY:
    case LKI_OP_NLL:
    case LKI_OP_MSE:
        rows(t);
        return;
    default:
        elements(t, out);
    }
}

static void make(lkt_case *c, const float *out, int power, lkt_exact *result)
{
    const lki_node *node = lkt_first(c);
    task t = {.node = node, .count = c->count, .to = result};

    *result = (lkt_exact){.out = make_zeros(c, lkt_out_elements(c))};
    for (int i = 0; i < node->in_count; i++) {
        const int64_t count = lkt_in_elements(c, i);
        const bool floats = node->in[i]->dtype == LKS_F32;
        double *values = floats ? widen(c, c->in[i], count, power) : make_zeros(c, count);

        for (int64_t e = 0; e < count && !floats; e++)
            values[e] = (double)((const int32_t *)c->in[i])[e];
        t.in[i] = values;
        result->d_in[i] = make_zeros(c, count);
    }
    for (int i = 0; i < node->param_count; i++) {
        t.param[i] = widen(c, c->param[i], lkt_param_elements(c, i), power);
        result->d_param[i] = make_zeros(c, lkt_param_elements(c, i));
    }
    t.d_out = widen(c, c->d_out, lkt_out_elements(c), power);
    compute(&t, out);
}

void lkt_exact_make(lkt_case *c, const float *out, lkt_exact *result)
{
    make(c, out, 1, result);
}

void lkt_exact_powers(lkt_case *c, int power, lkt_exact *result)
{
    make(c, NULL, power, result);
}

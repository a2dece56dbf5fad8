/*
 * Bounds on the difference between a backend and ref: all operations but those of bounds_sums.c,
 * bounds_winograd.c and bounds_norms.c.
 *
 * A sum of t terms computed in f32 in any order, with FMA or without, differs from the exact one by at
 * most t*u/(1 - t*u) * sum |terms| (N. Higham, "Accuracy and Stability of Numerical Algorithms", 2002,
 * section 3.1). Ref's own error is one rounding, u times the value. So with t terms (what is there
 * already, and ref's rounding counted in) |backend - ref| <= (t + 4) * u * S, where S = sum |terms|; the
 * factor 1.1 covers 1/(1 - t*u) and the rounding of S.
 *
 * Operations that only select, or round once in a way that graph.h defines, must agree exactly.
 */
#include "check/bounds.h"

#include <math.h>

#include "base/check.h"

/* Zeros: exact. */
static lks_status zeros(lki_trial *c, double **out, int64_t count)
{
    void *memory;

    LKI_TRY(lki_trial_memory(c, &memory, (size_t)count * sizeof **out));
    *out = memory;
    for (int64_t i = 0; i < count; i++) (*out)[i] = 0.0;
    return LKS_OK;
}

/*
 * log_softmax and cross_entropy of one sample, or position, with K values x, L = log(sum of exp(x)), range D =
 * max - min. An exponential in f32 has relative error (D + 4) u (D u from rounding its argument x -
 * max, 4u from itself), the sum K u more, so L has absolute error
 *     l = (K + D + 8) u + 3u (|L| + |max|)
 * and a difference x - L one of l + u (|x| + |L|); p = exp(x - L) has that relative error, + 4u.
 */
typedef struct softmax {
    double whole, largest, l;
} softmax;

static softmax softmax_of(const float *x, int64_t values)
{
    softmax s = {.largest = x[0]};
    double least = x[0], sum = 0.0;

    for (int64_t k = 1; k < values; k++) {
        s.largest = fmax(s.largest, (double)x[k]);
        least = fmin(least, (double)x[k]);
    }
    for (int64_t k = 0; k < values; k++) sum += exp((double)x[k] - s.largest);
    s.whole = s.largest + log(sum);
    s.l = ((double)values + s.largest - least + 8.0) * LKI_U +
          3.0 * LKI_U * (fabs(s.whole) + fabs(s.largest));
    return s;
}

static double difference_error(const softmax *s, double x)
{
    return s->l + 2.0 * LKI_U * (fabs(x) + fabs(s->whole));
}

static int64_t last_dimension(const lki_trial *c)
{
    const lks_shape *in = &lki_trial_first(c)->in[0]->shape;

    return in->dim[in->ndim - 1];
}

static lks_status bounds_log_softmax(lki_trial *c, bool backward, const lki_trial_result *ref,
                                     lki_bounds *out)
{
    (void)ref;
    const int64_t values = last_dimension(c), rows = lki_trial_in_elements(c, 0) / values;

    for (int64_t n = 0; n < rows; n++) {
        const float *x = (const float *)c->in[0] + n * values, *dy = c->d_out + n * values;
        const softmax s = softmax_of(x, values);
        double magnitude = 0.0;

        for (int64_t k = 0; k < values; k++) magnitude += fabs((double)dy[k]);
        for (int64_t k = 0; k < values; k++) {
            const double error = difference_error(&s, x[k]), p = exp((double)x[k] - s.whole);

            out->out[n * values + k] = 1.1 * error;
            /* dy - p * sum of dy; both backends start from their own out. */
            if (backward)
                out->d_in[0][n * values + k] = 1.1 *
                                               (2.0 * LKI_U * fabs((double)dy[k]) +
                                                p * magnitude *
                                                    (2.0 * error + ((double)values + 8.0) * LKI_U));
        }
    }
    return LKS_OK;
}

static lks_status bounds_cross_entropy(lki_trial *c, bool backward, const lki_trial_result *ref,
                                       lki_bounds *out)
{
    (void)ref;
    const int64_t values = last_dimension(c), rows = lki_trial_in_elements(c, 0) / values;
    const lks_cross_entropy_opts *opts = lki_trial_first(c)->attr;
    const double share = (double)opts->label_smoothing / (double)values;

    for (int64_t n = 0; n < rows; n++) {
        const float *x = (const float *)c->in[0] + n * values;
        const softmax s = softmax_of(x, values);
        const int32_t target = ((const int32_t *)c->in[1])[n];
        const lks_mix mix = c->mix != NULL ? c->mix[n] : (lks_mix){.label = target};
        const double g = fabs((double)c->d_out[n]);
        double loss = 0.0;

        for (int64_t k = 0; k < values && target != LKS_NO_CLASS; k++) {
            const double answer = (k == target ? 1.0 - (double)mix.weight : 0.0) +
                                  (k == mix.label ? (double)mix.weight : 0.0);
            const double weight = share + (1.0 - (double)opts->label_smoothing) * answer;
            const double error = difference_error(&s, x[k]), p = exp((double)x[k] - s.whole);

            loss += weight *
                    (error + ((double)values + 4.0) * LKI_U * fabs(s.whole - (double)x[k]));
            if (backward)
                out->d_in[0][n * values + k] = 1.1 * g *
                                               (p * (error + 8.0 * LKI_U) +
                                                5.0 * LKI_U * (p + weight));
        }
        out->out[n] = 1.1 * loss;
    }
    return LKS_OK;
}

/* A selection, exact, but of mixed classes a mean that is rounded once: u on both sides. */
static lks_status bounds_nll(lki_trial *c, bool backward, const lki_trial_result *ref,
                             lki_bounds *out)
{
    for (int64_t n = 0; c->mix != NULL && n < lki_trial_out_elements(c); n++)
        out->out[n] = 2.0 * LKI_U * fabs((double)ref->out[n]);
    const bool mixed = c->mix != NULL && backward && ref->d_in[0] != NULL;
    for (int64_t i = 0; mixed && i < lki_trial_in_elements(c, 0); i++)
        out->d_in[0][i] = 2.0 * LKI_U * fabs((double)ref->d_in[0][i]);
    return LKS_OK;
}

/* Each square has relative error 3u; a gradient is three products of one difference. */
static lks_status bounds_mse(lki_trial *c, bool backward, const lki_trial_result *ref,
                             lki_bounds *out)
{
    const int64_t values = lks_shape_elements(&lki_trial_first(c)->in[0]->shape);
    const float *x = c->in[0], *target = c->in[1];

    for (int64_t n = 0; n < c->count; n++)
        out->out[n] = lki_sum_bound((double)values + 4.0, fabs((double)ref->out[n]));
    for (int64_t i = 0; backward && i < lki_trial_in_elements(c, 0); i++)
        out->d_in[0][i] = lki_sum_bound(
            4.0, 2.0 / (double)values *
                     fabs(((double)x[i] - (double)target[i]) * (double)c->d_out[i / values]));
    return LKS_OK;
}

/* Differences, and what huber makes of them, err in double alone; so do products of a slope, up to the store. */
static lks_status bounds_distances(lki_trial *c, bool backward, const lki_trial_result *ref,
                                   lki_bounds *out)
{
    const lki_node *node = lki_trial_first(c);
    const int64_t values = lks_shape_elements(&node->in[0]->shape);
    const float *x = c->in[0], *target = c->in[1];

    for (int64_t n = 0; n < c->count; n++) out->out[n] = 2.0 * LKI_U * fabs((double)ref->out[n]);
    for (int64_t i = 0; backward && i < lki_trial_in_elements(c, 0); i++) {
        const double distance = fabs((double)x[i] - (double)target[i]);
        const double slope = node->op == LKI_OP_L1
                                 ? 1.0
                                 : fmin(distance,
                                        (double)((const lks_huber_opts *)node->attr)->delta);

        out->d_in[0][i] = 2.0 * LKI_U * slope / (double)values * fabs((double)c->d_out[i / values]);
    }
    return LKS_OK;
}

/* Gradients of a channel vector are sums over the pixels; all else of add and mul rounds once. */
static lks_status bounds_pair(lki_trial *c, bool backward, const lki_trial_result *ref,
                              lki_bounds *out)
{
    (void)ref;
    const lki_node *node = lki_trial_first(c);
    const int64_t values = lks_shape_elements(&node->in[1]->shape);
    const int64_t elements = lks_shape_elements(&node->in[0]->shape);
    const float *a = node->op == LKI_OP_MUL ? c->in[0] : NULL;

    for (int64_t i = 0; backward && values < elements && i < lki_trial_in_elements(c, 1); i++) {
        double magnitude = 0.0;

        for (int64_t k = i / values * elements + i % values; k < (i / values + 1) * elements;
             k += values)
            magnitude += fabs((double)c->d_out[k] * (a != NULL ? (double)a[k] : 1.0));
        out->d_in[1][i] = lki_sum_bound((double)(elements / values), magnitude);
    }
    return LKS_OK;
}

/*
 * Activations. With s(x) = 1/(1 + exp(-x)), its error 3.1u (both s and 1 - s = s(-x)), and u for ref:
 *   sigmoid     y: 4.1u |y|. From its own y, y (1 - y) errs by 4.1u y |1 - 2y| + 4u y (1 - y)
 *   softplus    y: 2.6u y, y' = s(x): 4.1u s(x)
 *   tanh        y: 2.5u |y|. From its own y, 1 - y^2 errs by 3u y^2 + 3u
 *   x s(a)      (silu: a = x; gelu's tanh form) a errs by 6u, so that s(a) errs by
 *               e = (3.1 + 6 |a| s(-a)) u; y: |y| (e + 2u)
 *               y' = s(a) (1 + x a' s(-a)), a' errs by 3u: s(a) (1 + b) (e + 3u) + s(a) b (9 + 6 |a|) u
 *               where b = |x a'| s(-a)
 *   gelu        P, with t = |x|: p = (t^2/2 + 22) u P(-t) + 2u P(x); y: |x| p + u |y|
 *               y' = P + x f, f = exp(-t^2/2)/sqrt(2 pi): p + |x| f (t^2/2 + 6) u + 2u |y'|
 *               ref's own P has an absolute error of 2^-52, as 1 + erf cancels
 * (the kernels' errors are derived where they are). What is stored counts as 0 where it is tiny, so does
 * a derivative before it is multiplied, and e^x, which is then multiplied by 3 * 43.7 + 1 at most: CUT.
 */
static const double CUT = 140.0 * (double)LKI_TINY;

static double logistic(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

typedef struct errors {
    double value, slope;
} errors;

static errors gated(double x, double a, double d_a)
{
    const double s = logistic(a), rest = logistic(-a), b = fabs(x * d_a) * rest;
    const double e = (3.1 + 6.0 * fabs(a) * rest) * LKI_U;

    return (errors){fabs(x) * s * (e + 2.0 * LKI_U),
                    s * (1.0 + b) * (e + 3.0 * LKI_U) + s * b * (9.0 + 6.0 * fabs(a)) * LKI_U};
}

static errors errors_silu(const lki_node *node, double x)
{
    (void)node;
    return gated(x, x, 1.0);
}

static errors errors_gelu(const lki_node *node, double x)
{
    const double factor = 1.5957691216057308, cube = 0.044715;
    const double below = 0.5 * erfc(-x * sqrt(0.5)), tail = 0.5 * erfc(fabs(x) * sqrt(0.5));
    const double h = x * x / 2.0, f = exp(-h) * 0.3989422804014327;
    const double p = (tail * (h + 22.0) + 2.0 * below) * LKI_U + 0x1p-52;

    if (((const lks_gelu_opts *)node->attr)->form == LKS_GELU_TANH)
        return gated(x, factor * x * (1.0 + cube * x * x), factor * (1.0 + 3.0 * cube * x * x));
    return (errors){fabs(x) * (p + LKI_U * below),
                    p + fabs(x) * f * (h + 6.0) * LKI_U + 2.0 * LKI_U * fabs(below + x * f)};
}

static errors errors_tanh(const lki_node *node, double x)
{
    const double y = tanh(x);

    (void)node;
    return (errors){2.5 * LKI_U * fabs(y), LKI_U * (3.0 * y * y + 3.0)};
}

static errors errors_sigmoid(const lki_node *node, double x)
{
    const double y = logistic(x), rest = logistic(-x);

    (void)node;
    return (errors){4.1 * LKI_U * y, LKI_U * (4.1 * y * fabs(rest - y) + 4.0 * y * rest)};
}

static errors errors_softplus(const lki_node *node, double x)
{
    (void)node;
    return (errors){2.6 * LKI_U * (fmax(x, 0.0) + log1p(exp(-fabs(x)))), 4.1 * LKI_U * logistic(x)};
}

/*
 * Of each operation its bounds, or what an activation's value and slope err by. What is not here has to
 * agree with ref to the bit: it selects, or rounds once.
 */
static const struct {
    lks_status (*bounds)(lki_trial *c, bool backward, const lki_trial_result *ref, lki_bounds *out);
    errors (*activation)(const lki_node *node, double x);
} table[LKI_OP_COUNT] = {
    [LKI_OP_CONV2D] = {.bounds = lki_bounds_conv2d},
    [LKI_OP_DENSE] = {.bounds = lki_bounds_products},
    [LKI_OP_RNN] = {.bounds = lki_bounds_recurrent},
    [LKI_OP_LSTM] = {.bounds = lki_bounds_recurrent},
    [LKI_OP_GRU] = {.bounds = lki_bounds_recurrent},
    [LKI_OP_ATTENTION] = {.bounds = lki_bounds_attention},
    [LKI_OP_BATCH_NORM] = {.bounds = lki_bounds_batch_norm},
    [LKI_OP_LAYER_NORM] = {.bounds = lki_bounds_layer_norm},
    [LKI_OP_RMS_NORM] = {.bounds = lki_bounds_rms_norm},
    [LKI_OP_MAX_POOL] = {.bounds = lki_bounds_pools},
    [LKI_OP_AVG_POOL] = {.bounds = lki_bounds_pools},
    [LKI_OP_GLOBAL_AVG_POOL] = {.bounds = lki_bounds_pools},
    [LKI_OP_ADD] = {.bounds = bounds_pair},
    [LKI_OP_MUL] = {.bounds = bounds_pair},
    [LKI_OP_LOG_SOFTMAX] = {.bounds = bounds_log_softmax},
    [LKI_OP_CROSS_ENTROPY] = {.bounds = bounds_cross_entropy},
    [LKI_OP_NLL] = {.bounds = bounds_nll},
    [LKI_OP_MSE] = {.bounds = bounds_mse},
    [LKI_OP_L1] = {.bounds = bounds_distances},
    [LKI_OP_HUBER] = {.bounds = bounds_distances},
    [LKI_OP_GELU] = {.activation = errors_gelu},
    [LKI_OP_SILU] = {.activation = errors_silu},
    [LKI_OP_TANH] = {.activation = errors_tanh},
    [LKI_OP_SIGMOID] = {.activation = errors_sigmoid},
    [LKI_OP_SOFTPLUS] = {.activation = errors_softplus},
};

static void bounds_activation(lki_trial *c, bool backward, lki_bounds *out)
{
    const lki_node *node = lki_trial_first(c);
    const float *x = c->in[0];

    for (int64_t i = 0; i < lki_trial_in_elements(c, 0); i++) {
        const errors e = table[node->op].activation(node, x[i]);

        out->out[i] = 1.1 * e.value + CUT;
        if (backward) out->d_in[0][i] = fabs((double)c->d_out[i]) * (1.1 * e.slope + CUT) + CUT;
    }
}

static lks_status by_operation(lki_trial *c, bool backward, const lki_trial_result *ref,
                               lki_bounds *out)
{
    const lki_op_id id = lki_trial_first(c)->op;

    if (lki_op_get(id)->inputs == 0)
        return LKI_FAIL(LKS_E_BUG, "there are no bounds for %s", lki_op_get(id)->name);
    if (table[id].activation != NULL) bounds_activation(c, backward, out);
    return table[id].bounds != NULL ? table[id].bounds(c, backward, ref, out) : LKS_OK;
}

static lks_status make_zeros(lki_trial *c, const lki_trial_result *ref, lki_bounds *out)
{
    *out = (lki_bounds){0};
    LKI_TRY(zeros(c, &out->out, lki_trial_out_elements(c)));
    for (int i = 0; i < LKI_MAX_IN && c->in[i] != NULL; i++)
        LKI_TRY(zeros(c, &out->d_in[i], lki_trial_in_elements(c, i)));
    for (int i = 0; i < LKI_MAX_PARAM && c->param[i] != NULL; i++)
        LKI_TRY(zeros(c, &out->d_param[i], lki_trial_param_elements(c, i)));
    if (ref->stats != NULL) LKI_TRY(zeros(c, &out->stats, lki_trial_first(c)->stats));
    if (ref->leaves != NULL)
        LKI_TRY(zeros(c, &out->leaves, c->count * lki_trial_first(c)->carries));
    return LKS_OK;
}

lks_status lki_bounds_make(lki_trial *c, const lki_trial_how *how, const lki_trial_result *ref,
                           lki_bounds *out)
{
    static const lki_trial_how usual = {0};

    if (how == NULL) how = &usual;
    LKI_TRY(make_zeros(c, ref, out));
    LKI_TRY(by_operation(c, c->training && !how->no_backward, ref, out));
    /* Adding rounds once more in a backend that rounds its gradient first. */
    for (int i = 0; i < LKI_MAX_IN && how->add_in >> i & 1u; i++) {
        for (int64_t e = 0; e < lki_trial_in_elements(c, i); e++)
            out->d_in[i][e] += 3.0 * LKI_U *
                               (fabs((double)how->prior[i][e]) + fabs((double)ref->d_in[i][e]));
    }
    return LKS_OK;
}

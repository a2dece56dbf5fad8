/*
 * Bounds on the difference between a backend and ref: conv2d, dense and pools.
 *
 * Sums of n products have the three levels of docs/numerics.md, blocks of 64 terms, groups of 16 blocks,
 * and double. So a term goes through r = min(n, 64) + min(n / 64, 16) roundings at most, and the sum errs by
 * at most r u S, where S = sum |terms| (N. Higham, "Accuracy and Stability of Numerical Algorithms",
 * 2002, section 3.1). That is far away: rounding errors are independent of each other, of mean 0, and
 * cancel. A partial sum s that is rounded becomes s (1 + d), |d| <= u, and (W. Hoeffding 1963) the sum of
 * the s d is above l u sqrt(sum of s^2) with a probability of at most 2 exp(-l^2 / 2), where d takes its
 * extremes; the variance of a rounding is u^2 / 5.5 instead of u^2, so that l = 5 stands for 11 standard
 * deviations. And a partial sum of k of the n terms, in an order that has nothing to do with their sizes,
 * is at most k S / n + 6.5 sqrt(k Q / n), where Q = sum of terms^2 (the same inequality: 2e-9). So
 *
 *     |error| <= 5 u sqrt(sum of (k S / n + 6.5 sqrt(k Q / n))^2)      over all partial sums
 *
 * which a chain of thousands of terms without blocks exceeds where they are positive. S and Q are computed
 * by ref itself, from the absolute values and the squares of all factors. The total is rounded once, the
 * bias and what is there already are added once each, and ref rounds once: 4u of what these are. The
 * factor 1.1 covers the roundings of S and Q.
 *
 * Means are formed in double, and rounded two times at most.
 */
#include "check/bounds.h"

#include <math.h>

#include "base/check.h"

/* What ref is given in the place of each factor. */
typedef enum change { ABSOLUTE, SQUARE } change;

static lks_status changed(lki_trial *c, float **out, const float *values, int64_t count, change how)
{
    void *memory;

    LKI_TRY(lki_trial_memory(c, &memory, (size_t)count * sizeof **out));
    *out = memory;
    for (int64_t i = 0; i < count; i++)
        (*out)[i] = how == SQUARE ? values[i] * values[i] : fabsf(values[i]);
    return LKS_OK;
}

/* in[0] stays where only d_out is a factor. */
static lks_status change_factors(lki_trial *m, change how)
{
    float *values;

    if (lki_trial_first(m)->op != LKI_OP_MAX_POOL) {
        LKI_TRY(changed(m, &values, m->in[0], lki_trial_in_elements(m, 0), how));
        m->in[0] = values;
    }
    for (int i = 0; i < LKI_MAX_PARAM && m->param[i] != NULL; i++)
        LKI_TRY(changed(m, &m->param[i], m->param[i], lki_trial_param_elements(m, i), how));
    return changed(m, &m->d_out, m->d_out, lki_trial_out_elements(m), how);
}

static lks_status run_changed(lki_trial *c, change how, lki_trial_result *out)
{
    lki_trial m = *c;
    lks_status status = change_factors(&m, how);

    if (status == LKS_OK) status = lki_trial_run(&m, lki_backend_find("ref"), NULL, NULL, out);
    c->blocks = m.blocks;
    return status;
}

/* conv2d, dense and pools: sums of so many terms. */
typedef struct terms {
    double out, d_in, d_param;
} terms;

/* Of a sample of a dense layer. */
static int64_t positions(const lki_node *node)
{
    return lks_shape_elements(&node->in[0]->shape) / node->param[0].shape.dim[1];
}

static terms count_terms(const lki_trial *c)
{
    const lki_node *node = lki_trial_first(c);
    const lks_shape *in = &node->in[0]->shape, *out = &node->out.shape;

    if (node->op == LKI_OP_CONV2D) {
        const lks_conv2d_opts *opts = node->attr;
        const double area = (double)(opts->kernel[0] * opts->kernel[1]);
        const double pixels = (double)(c->count * out->dim[0] * out->dim[1]);

        return (terms){area * (double)(in->dim[2] / opts->groups),
                       area * (double)(out->dim[2] / opts->groups), pixels};
    }
    if (node->op == LKI_OP_DENSE)
        return (terms){(double)node->param[0].shape.dim[1], (double)node->param[0].shape.dim[0],
                       (double)(c->count * positions(node))};
    if (node->op == LKI_OP_GLOBAL_AVG_POOL)
        return (terms){(double)(lks_shape_elements(in) / out->dim[0]), 1, 0};

    const lks_pool_opts *opts = node->attr;
    const double area = (double)(opts->kernel[0] * opts->kernel[1]);
    return (terms){area, area, 0};
}

/* Sums of powers of k over the partial sums that are rounded, k being their numbers of terms. */
typedef struct partial {
    double n, roundings, k1, k15, k2;
} partial;

static void add_partial(partial *p, double k)
{
    p->k1 += k;
    p->k15 += k * sqrt(k);
    p->k2 += k * k;
}

static partial partial_sums(double n)
{
    partial p = {.n = n};

    p.roundings = fmin(n, LKI_BLOCK_TERMS) + fmin(n / LKI_BLOCK_TERMS, 16.0);
    for (int64_t t = 1; t <= (int64_t)n; t++) {
        const int64_t of_group = (t - 1) % LKI_GROUP_TERMS + 1;

        add_partial(&p, (double)((t - 1) % LKI_BLOCK_TERMS + 1));
        if ((t % LKI_BLOCK_TERMS == 0 || t == (int64_t)n) && of_group > LKI_BLOCK_TERMS)
            add_partial(&p, (double)of_group);
    }
    return p;
}

/* Of factors that are bfloat16: `blocks` blocks, in each two chains that are added to each other and then to the rest. The
 * products are exact, and so are those of ref. */
static partial partial_sums_bf16(double n, double blocks)
{
    partial p = {.n = n, .roundings = n / blocks / 2.0 + 2.0 + blocks};

    for (int64_t i = 0; i < (int64_t)blocks; i++) {
        for (int64_t k = 1; (double)k <= n / blocks / 2.0 + 1.0; k++) {
            add_partial(&p, (double)k);
            add_partial(&p, (double)k);
        }
        add_partial(&p, n / blocks);
        add_partial(&p, n / blocks * (double)(i + 1));
    }
    return p;
}

/* Blocks of terms in the gradient of a weight: of samples, or of positions. */
static double blocks_of_weight(const lki_trial *c)
{
    const lki_node *node = lki_trial_first(c);
    if (node->op == LKI_OP_DENSE && node->in[0]->shape.ndim == 1)
        return ceil((double)c->count / 32.0);
    if (node->op == LKI_OP_DENSE) return (double)c->count * ceil((double)positions(node) / 32.0);
    const lks_conv2d_opts *opts = node->attr;
    const int64_t *out = node->out.shape.dim;
    const int64_t reach = (opts->kernel[1] - 1) * opts->dilation[1] / opts->stride[1];

    return (double)c->count * ceil((double)((out[0] - 1) * (out[1] + reach) + out[1]) / 32.0);
}

static bool is_bf16(const lki_trial *c)
{
    const lki_node *node = lki_trial_first(c);

    return c->switches.bf16 &&
           (node->op == LKI_OP_DENSE ||
            (node->op == LKI_OP_CONV2D && ((const lks_conv2d_opts *)node->attr)->groups == 1));
}

static double product_bound(const partial *p, double magnitude, double squares)
{
    const double mean = magnitude / p->n, root = 6.5 * sqrt(squares / p->n);
    const double sum = mean * mean * p->k2 + 2.0 * mean * root * p->k15 + root * root * p->k1;

    return 1.1 * LKI_U * fmin(p->roundings * magnitude, 5.0 * sqrt(sum));
}

double lki_products_bound(double count, double magnitude, double squares)
{
    const partial p = partial_sums(count);

    return product_bound(&p, magnitude, squares);
}

/* Every tensor's S and Q, from ref. */
typedef struct sizes {
    lki_trial_result magnitude, squares;
} sizes;

static void parameters(lki_trial *c, const terms *t, const lki_trial_result *ref, const sizes *size,
                       lki_bounds *out)
{
    const lki_node *node = lki_trial_first(c);
    const bool convolution = node->op == LKI_OP_CONV2D || node->in[0]->shape.ndim > 1;
    const partial sums = is_bf16(c) ? partial_sums_bf16(t->d_param, blocks_of_weight(c))
                                    : partial_sums(t->d_param);

    for (int i = 0; i < LKI_MAX_PARAM && c->param[i] != NULL; i++) {
        const float *magnitude = size->magnitude.d_param[i], *squares = size->squares.d_param[i];

        for (int64_t e = 0; e < lki_trial_param_elements(c, i); e++) {
            out->d_param[i][e] = 4.0 * LKI_U * fabs((double)ref->d_param[i][e]);
            if (i == 1 && convolution)
                out->d_param[i][e] += lki_sum_bound(t->d_param, magnitude[e]);
            else
                out->d_param[i][e] += product_bound(&sums, magnitude[e], squares[e]);
        }
    }
}

lks_status lki_bounds_products(lki_trial *c, bool backward, const lki_trial_result *ref,
                               lki_bounds *out)
{
    const terms t = count_terms(c);
    const bool bf16 = is_bf16(c);
    const partial forward = bf16 ? partial_sums_bf16(t.out, ceil(t.out / 32.0))
                                 : partial_sums(t.out);
    const partial back = bf16 ? partial_sums_bf16(t.d_in, ceil(t.d_in / 32.0))
                              : partial_sums(t.d_in);
    const int64_t channels = lki_trial_param_elements(c, 0) > 0
                                 ? lki_trial_first(c)->param[0].shape.dim[0]
                                 : 1;
    sizes size;

    LKI_TRY(run_changed(c, ABSOLUTE, &size.magnitude));
    LKI_TRY(run_changed(c, SQUARE, &size.squares));
    for (int64_t e = 0; e < lki_trial_out_elements(c); e++) {
        const double bias = c->param[1] != NULL ? fabs((double)c->param[1][e % channels]) : 0.0;

        out->out[e] = 4.0 * LKI_U * (fabs((double)ref->out[e]) + bias) +
                      product_bound(&forward, size.magnitude.out[e], size.squares.out[e]);
    }
    if (!backward) return LKS_OK;
    for (int64_t e = 0; e < lki_trial_in_elements(c, 0) && ref->d_in[0] != NULL; e++)
        out->d_in[0][e] = 4.0 * LKI_U * fabs((double)ref->d_in[0][e]) +
                          product_bound(&back, size.magnitude.d_in[0][e], size.squares.d_in[0][e]);
    parameters(c, &t, ref, &size, out);
    return LKS_OK;
}

/* Averages are plain sums; of gradients, in f32, there are as many as windows that a pixel has. */
lks_status lki_bounds_pools(lki_trial *c, bool backward, const lki_trial_result *ref,
                            lki_bounds *out)
{
    const bool max = lki_trial_first(c)->op == LKI_OP_MAX_POOL;
    const terms t = count_terms(c);
    lki_trial_result m;

    LKI_TRY(run_changed(c, ABSOLUTE, &m));
    for (int64_t e = 0; e < lki_trial_out_elements(c) && !max; e++)
        out->out[e] = 4.0 * LKI_U * fabs((double)ref->out[e]) + 0x1p-45 * (double)m.out[e];
    for (int64_t e = 0; backward && e < lki_trial_in_elements(c, 0); e++)
        out->d_in[0][e] = lki_sum_bound(t.d_in, m.d_in[0][e]);
    return LKS_OK;
}

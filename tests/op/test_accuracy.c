/*
 * Errors of operations against double, forward and each gradient, on zero-mean and on positive data, small
 * and large: not above PyTorch's in float32 (tools/goldens/accuracy.py measured those and made
 * tests/op/golden/accuracy.json; the numbers to compute with follow from the formula written there).
 * LKT_ACCURACY=print in the environment prints all.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/backends.h"
#include "support/exact.h"
#include "support/op_json.h"

/* The tensor that a stream of numbers fills, as in accuracy.py. */
enum {
    IN,
    WEIGHT,
    BIAS,
    D_OUT,
    TARGET,
    LABEL,
    STREAMS = 8,
    MOST_SEEDS = 64,
    THEORY_SEEDS = 2,
    MOST_TENSORS = 6
};

static void fill(float *out, int64_t count, uint32_t stream, bool positive)
{
    for (int64_t i = 0; i < count; i++) {
        const float h = (float)(lkt_hashed((uint32_t)i, stream) >> 8);
        out[i] = positive ? h * 0x1p-24f : h * 0x1p-23f - 1.0f;
    }
}

static void fill_case(lkt_case *c, const json_t *test, uint32_t seed)
{
    const bool positive = json_is_true(json_object_get(test, "positive"));
    const lki_node *node = lkt_first(c);
    const uint32_t first = seed * STREAMS;
    const json_t *spread = json_object_get(test, "spread");

    c->mix = NULL;
    fill(c->in[0], lkt_in_elements(c, 0), first + IN, positive);
    for (int64_t i = 0; spread != NULL && i < lkt_in_elements(c, 0); i++)
        ((float *)c->in[0])[i] *= (float)json_number_value(spread);
    fill(c->d_out, lkt_out_elements(c), first + D_OUT, positive);
    for (uint32_t i = 0; i < (uint32_t)node->param_count; i++)
        fill(c->param[i], lkt_param_elements(c, (int)i), first + WEIGHT + i, positive);
    if (node->in_count > 1 && node->in[1]->dtype == LKS_F32)
        fill(c->in[1], lkt_in_elements(c, 1), first + TARGET, positive);
    for (uint32_t i = 0; node->in_count > 1 && node->in[1]->dtype == LKS_I32 && i < c->count; i++)
        ((int32_t *)c->in[1])[i] = (int32_t)(lkt_hashed(i, first + LABEL) %
                                             (uint32_t)node->in[0]->shape.dim[0]);
}

/*
 * The error that a sum of n products is allowed by its own theory. Its terms t are summed as
 * docs/numerics.md says: 64 of them in a chain of fused multiply-adds, 16 such blocks in f32, and these
 * groups in double, or where the result is narrow in double altogether. A partial sum s that is rounded to f32 becomes s (1 + d); d is an error of mean 0,
 * independent of the others, |d| <= u = 2^-24, and uniform over an interval of that width or less: its
 * variance is at most u^2 / 3 (N. Higham and T. Mary, "A new approach to probabilistic rounding error
 * analysis", 2019, show that this model holds well). So the squared error is, in the mean,
 *
 *     u^2 / 3 * (sum of s^2 over all partial sums that are rounded)
 *
 * A partial sum of k of the n terms, in random order, has the mean square
 *
 *     E s^2 = k/n Q + k (k - 1) / (n (n - 1)) (S^2 - Q),    S = sum of t, Q = sum of t^2
 *
 * which is what `share` and `pairs` add up over the partial sums: first grows as k for zero-mean numbers,
 * the second as k^2 for positive ones. The total is rounded once, and what is added behind it once more.
 * Sums in double, narrow ones and those of values, have these two alone.
 *
 * Of N elements the mean of the squared errors scatters. For zero-mean numbers the partial sums of an
 * element are a random walk W, and its error is a normal variable times the root of the integral of W^2,
 * whose square has 7/3 of its mean squared as its mean square (R. Cameron and W. Martin 1944): an error has
 * a kurtosis of at most 7, and the mean of N squares a standard deviation of sqrt(6 / N) of itself. Five of
 * these are allowed.
 */
static double partial_sums(int64_t n, double sum, double squares)
{
    static double share, pairs;
    static int64_t last;

    if (n < 2) return 0;
    for (int64_t t = n == last ? n + 1 : 1; t <= n; t++) {
        if (t == 1) share = pairs = 0;
        const double k = (double)((t - 1) % LKI_BLOCK_TERMS + 1);
        share += k;
        pairs += k * (k - 1);
        /* a block ends behind others of its group */
        const double of_group = (double)((t - 1) % LKI_GROUP_TERMS + 1);
        if ((t % LKI_BLOCK_TERMS != 0 && t != n) || of_group <= LKI_BLOCK_TERMS) continue;
        share += of_group;
        pairs += of_group * (of_group - 1);
    }
    last = n;
    return share / (double)n * squares +
           pairs / ((double)n * (double)(n - 1)) * (sum * sum - squares);
}

/* One tensor over all seeds. */
typedef struct errors {
    char name[16];
    double elements;
    double rounded,
        of_norm; /* of the first seeds: sums of the squares of all that is rounded, and of all */
    double error, norm, bias;  /* sums of squares; sum of the seeds' biases */
    double single[MOST_SEEDS]; /* of each seed: its relative error */
} errors;

typedef struct measured {
    errors tensor[MOST_TENSORS];
    int count, seeds;
    bool biased; /* biases are measured */
} measured;

/* In units in the last place at the exact value, of normal numbers. */
static double ulps(double error, double exact)
{
    int exponent;

    frexp(fmax(fabs(exact), 0x1p-126), &exponent);
    return error / ldexp(1, exponent - 24);
}

/* Numbers of terms and sums of squares are NULL where a sum is formed in double. */
static void add_tensor(measured *to, int *at, const char *name, const float *found,
                       const double *exact, const double *terms, const double *squares,
                       int64_t count)
{
    errors *e = &to->tensor[(*at)++];
    double error = 0, norm = 0, bias = 0;

    snprintf(e->name, sizeof e->name, "%s", name);
    if (to->count < *at) to->count = *at;
    for (int64_t i = 0; i < count; i++) {
        const double d = (double)found[i] - exact[i];

        if (terms != NULL) e->rounded += partial_sums((int64_t)terms[i], exact[i], squares[i]);
        e->rounded += 2 * exact[i] * exact[i];
        error += d * d;
        norm += exact[i] * exact[i];
        if (to->biased) bias += fmin(fmax(ulps(d, exact[i]), -1), 1) / (double)count;
    }
    if (to->seeds < THEORY_SEEDS) e->of_norm += norm;
    e->elements += (double)count;
    e->single[to->seeds] = sqrt(error / norm);
    e->error += error;
    e->norm += norm;
    e->bias += bias;
}

/* Sums of products that are rounded only once: results of fewer than 16 columns. Depthwise convolutions
 * have blocks, whose sums of 64 are added in double: not more than the theory has; so has their bias. Others
 * are sums of values. */
static void leave_sums_in_double(const lki_node *node, lkt_exact *terms)
{
    const lks_shape *in = &node->in[0]->shape, *out = &node->out.shape;

    const lks_conv2d_opts *opts = node->attr;
    const bool conv = node->op == LKI_OP_CONV2D;
    const int64_t channels = conv ? in->dim[2] / opts->groups : 0;
    const int64_t filters = conv ? out->dim[2] / opts->groups : 0;
    if (conv && opts->groups > 1 && channels == 1 && filters == 1) return;
    terms->d_param[1] = NULL;
    if (!conv) {
        if (out->dim[out->ndim - 1] < LKI_NARROW) terms->out = NULL;
        if (in->dim[in->ndim - 1] < LKI_NARROW) terms->d_in[0] = NULL;
        return;
    }
    if (filters < LKI_NARROW) terms->out = terms->d_param[0] = NULL;
    if (channels < LKI_NARROW) terms->d_in[0] = NULL;
}

static void run_seed(const lki_backend *backend, const json_t *test, uint32_t seed, measured *to)
{
    static const char *const d_in[] = {"d_in", "d_in_1"}, *const d_param[] = {"d_weight", "d_bias"};
    lkt_random random = {seed};
    lkt_result found;
    lkt_exact exact, terms = {0}, squares = {0};
    lkt_case c;
    int at = 0;

    lkt_case_begin(&c);
    lks_tensor *y = lkt_json_op(c.graph, test);
    lkt_case_end(&c, y, y, lkt_json_integer(test, "count"), LKT_RANDOM, &random);
    c.switches.winograd = LKS_WINOGRAD_OFF; /* test_winograd.c says how far that is away */
    fill_case(&c, test, seed);
    lkt_run(&c, backend, NULL, NULL, &found);
    lkt_exact_make(&c, found.out, &exact);
    const bool products = lkt_first(&c)->op == LKI_OP_CONV2D || lkt_first(&c)->op == LKI_OP_DENSE;
    if (products && to->seeds < THEORY_SEEDS) {
        lkt_exact_powers(&c, 0, &terms);
        lkt_exact_powers(&c, 2, &squares);
        leave_sums_in_double(lkt_first(&c), &terms);
    }
    add_tensor(to, &at, "out", found.out, exact.out, terms.out, squares.out, lkt_out_elements(&c));
    for (int i = 0; i < LKI_MAX_IN; i++)
        if (found.d_in[i] != NULL)
            add_tensor(to, &at, d_in[i], found.d_in[i], exact.d_in[i], terms.d_in[i],
                       squares.d_in[i], lkt_in_elements(&c, i));
    for (int i = 0; i < lkt_first(&c)->param_count; i++)
        add_tensor(to, &at, d_param[i], found.d_param[i], exact.d_param[i], terms.d_param[i],
                   squares.d_param[i], lkt_param_elements(&c, i));
    lkt_case_free(&c);
    to->seeds++;
}

static double spread(const errors *e, int seeds)
{
    double mean = 0, squares = 0;

    for (int i = 0; i < seeds; i++) mean += e->single[i] / seeds;
    for (int i = 0; i < seeds; i++) squares += (e->single[i] - mean) * (e->single[i] - mean);
    return sqrt(squares / (seeds - 1) / seeds);
}

static char *describe(const json_t *test)
{
    json_t *copy = json_copy((json_t *)test);
    const char *const results[] = {"out", "d_in", "d_in_1", "d_weight", "d_bias"};

    for (size_t i = 0; i < 5; i++) json_object_del(copy, results[i]);
    char *text = json_dumps(copy, JSON_COMPACT);
    json_decref(copy);
    return text;
}

/* The theory's bound of the relative error. */
static double bound_of(const errors *e)
{
    return sqrt(0x1p-48 / 3 * e->rounded / e->of_norm * (1 + 5 * sqrt(6 / e->elements)));
}

static void print(const lki_backend *backend, const json_t *test, const measured *m)
{
    char *what = describe(test);

    for (int i = 0; i < m->count; i++) {
        const errors *e = &m->tensor[i];
        const json_t *theirs = json_object_get(test, e->name);

        print_message("@ %s\t%s\t%s\t%.3g\t%.2g\t%.4f\t%.3g\t%.2g\t%.4f\t%.3g\n", backend->name,
                      what, e->name, sqrt(e->error / e->norm), spread(e, m->seeds),
                      e->bias / m->seeds, json_number_value(json_array_get(theirs, 0)),
                      json_number_value(json_array_get(theirs, 1)),
                      json_number_value(json_array_get(theirs, 2)), bound_of(e));
    }
    free(what);
}

/* Sums, for which the theory says how far they may be. */
static bool is_sum(const json_t *test)
{
    static const char *const ops[] = {"conv2d", "dense", "avg_pool", "global_avg_pool"};
    const char *op = json_string_value(json_object_get(test, "op"));

    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (strcmp(op, ops[i]) == 0) return true;
    return false;
}

/* A tenth of what one rounding does, 1/sqrt(12) of a unit: such a bias adds half a percent to an error. */
static const double NO_BIAS = 0.029;

static bool is_above(double error, double chance, double times, const json_t *theirs)
{
    return !(error <= times * json_number_value(json_array_get(theirs, 0)) + chance);
}

/* The one exception: gradients of attention whose numbers are all positive, measured at up to 1.31 times PyTorch's. */
static double times_theirs(const json_t *test, const errors *e)
{
    const bool attends = strcmp(json_string_value(json_object_get(test, "op")), "attention") == 0;

    return attends && json_is_true(json_object_get(test, "positive")) &&
                   strcmp(e->name, "d_in") == 0
               ? 1.4
               : 1.0;
}

/*
 * An error is above PyTorch's where it is by more than three standard errors of the two, which are known
 * from a number of seeds.
 */
static int check(const lki_backend *backend, const json_t *test, const measured *m)
{
    int wrong = 0;

    for (int i = 0; i < m->count; i++) {
        const errors *e = &m->tensor[i];
        const json_t *theirs = json_object_get(test, e->name);
        const double deviation = json_number_value(json_array_get(theirs, 1));
        const double bias = fabs(json_number_value(json_array_get(theirs, 2)));
        const double error = e->norm > 0 ? sqrt(e->error / e->norm) : 0;
        const double chance = 3 * hypot(deviation, spread(e, m->seeds));
        const bool above = is_above(error, chance, times_theirs(test, e), theirs);
        const bool biased = m->biased && fabs(e->bias / m->seeds) > fmax(bias, NO_BIAS);
        const bool far = is_sum(test) && !(error <= bound_of(e));

        if (!above && !biased && !far) continue;
        char *what = describe(test);
        print_error(
            "%s, %s: the relative error of %s is %.3g; PyTorch's is %.3g, by chance +- %.1g; "
            "a sum's bound %.3g; the bias is %.3f units, PyTorch's %.3f\n",
            backend->name, what, e->name, error, json_number_value(json_array_get(theirs, 0)),
            chance, bound_of(e), e->bias / m->seeds, bias);
        free(what);
        wrong++;
    }
    return wrong;
}

static void errors_are_not_above_pytorchs(void **state)
{
    json_t *golden = lkt_json_load("tests/op/golden/accuracy.json"), *test;
    int wrong = 0;
    size_t index;

    (void)state;
    if (lkt_sanitized()) {
        json_decref(golden);
        print_message("the numbers are those of other builds, and take a minute here\n");
        skip();
    }
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        json_array_foreach(json_object_get(golden, "cases"), index, test)
        {
            uint32_t seeds = (uint32_t)lkt_json_integer(test, "seeds");
            measured m = {.biased = json_array_size(json_object_get(test, "out")) > 2};

            assert_in_range(seeds, 2, MOST_SEEDS);
            if (lkt_backends()[b] == lkt_ref() && seeds > 8) seeds = 8; /* it is slow */
            for (uint32_t seed = 0; seed < seeds; seed++)
                run_seed(lkt_backends()[b], test, seed, &m);
            if (getenv("LKT_ACCURACY") != NULL)
                print(lkt_backends()[b], test, &m);
            else
                wrong += check(lkt_backends()[b], test, &m);
        }
    }
    json_decref(golden);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(errors_are_not_above_pytorchs)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

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
enum { IN, WEIGHT, BIAS, D_OUT, TARGET, LABEL, STREAMS = 8, MOST_SEEDS = 64, MOST_TENSORS = 6 };

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

/* One tensor over all seeds. */
typedef struct errors {
    char name[16];
    double error, norm, bias;  /* sums of squares; sum of the seeds' biases */
    double single[MOST_SEEDS]; /* of each seed: its relative error */
} errors;

typedef struct measured {
    errors tensor[MOST_TENSORS];
    int count, seeds;
} measured;

/* In units in the last place at the exact value, of normal numbers. */
static double ulps(double error, double exact)
{
    int exponent;

    frexp(fmax(fabs(exact), 0x1p-126), &exponent);
    return error / ldexp(1, exponent - 24);
}

static void add_tensor(measured *to, int *at, const char *name, const float *found,
                       const double *exact, int64_t count)
{
    errors *e = &to->tensor[(*at)++];
    double error = 0, norm = 0, bias = 0;

    snprintf(e->name, sizeof e->name, "%s", name);
    if (to->count < *at) to->count = *at;
    for (int64_t i = 0; i < count; i++) {
        const double d = (double)found[i] - exact[i];

        error += d * d;
        norm += exact[i] * exact[i];
        bias += fmin(fmax(ulps(d, exact[i]), -1), 1) / (double)count;
    }
    e->single[to->seeds] = sqrt(error / norm);
    e->error += error;
    e->norm += norm;
    e->bias += bias;
}

static void run_seed(const lki_backend *backend, const json_t *test, uint32_t seed, measured *to)
{
    static const char *const d_in[] = {"d_in", "d_in_1"}, *const d_param[] = {"d_weight", "d_bias"};
    lkt_random random = {seed};
    lkt_result found;
    lkt_exact exact;
    lkt_case c;
    int at = 0;

    lkt_case_begin(&c);
    lks_tensor *y = lkt_json_op(c.graph, test);
    lkt_case_end(&c, y, y, lkt_json_integer(test, "count"), LKT_RANDOM, &random);
    fill_case(&c, test, seed);
    lkt_run(&c, backend, NULL, NULL, &found);
    lkt_exact_make(&c, found.out, &exact);
    add_tensor(to, &at, "out", found.out, exact.out, lkt_out_elements(&c));
    for (int i = 0; i < LKI_MAX_IN; i++)
        if (found.d_in[i] != NULL)
            add_tensor(to, &at, d_in[i], found.d_in[i], exact.d_in[i], lkt_in_elements(&c, i));
    for (int i = 0; i < lkt_first(&c)->param_count; i++)
        add_tensor(to, &at, d_param[i], found.d_param[i], exact.d_param[i],
                   lkt_param_elements(&c, i));
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

static void print(const lki_backend *backend, const json_t *test, const measured *m)
{
    char *what = describe(test);

    for (int i = 0; i < m->count; i++) {
        const errors *e = &m->tensor[i];
        const json_t *theirs = json_object_get(test, e->name);

        print_message("@ %s\t%s\t%s\t%.3g\t%.2g\t%.4f\t%.3g\t%.2g\t%.4f\n", backend->name, what,
                      e->name, sqrt(e->error / e->norm), spread(e, m->seeds), e->bias / m->seeds,
                      json_number_value(json_array_get(theirs, 0)),
                      json_number_value(json_array_get(theirs, 1)),
                      json_number_value(json_array_get(theirs, 2)));
    }
    free(what);
}

/*
 * Operations whose sums or functions are not there yet: PyTorch sums in shorter chains and in double,
 * and some of its functions are rounded correctly.
 */
static bool is_behind(const json_t *test)
{
    static const char *const ops[] = {
        "conv2d", "dense", "global_avg_pool", "batch_norm", "layer_norm", "add", "mul", "gelu",
        "silu",   "tanh",  "sigmoid",         "softplus"};
    const char *op = json_string_value(json_object_get(test, "op"));

    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (strcmp(op, ops[i]) == 0) return true;
    return false;
}

/* An error is above PyTorch's where it is by more than three standard errors of the two, which are
 * known from a number of seeds. A bias may be PyTorch's, or what chance makes of none: rounding errors
 * are uniform in +-1/2. */
static void check(const lki_backend *backend, const json_t *test, const measured *m)
{
    for (int i = 0; i < m->count && !is_behind(test); i++) {
        const errors *e = &m->tensor[i];
        const json_t *theirs = json_object_get(test, e->name);
        const double most = json_number_value(json_array_get(theirs, 0));
        const double deviation = json_number_value(json_array_get(theirs, 1));
        const double error = e->norm > 0 ? sqrt(e->error / e->norm) : 0;
        const double chance = 3 * hypot(deviation, spread(e, m->seeds));

        if (!(error <= most + chance)) {
            char *what = describe(test);
            fail_msg("%s, %s: the relative error of %s is %.3g, PyTorch's %.3g, by chance +- %.1g",
                     backend->name, what, e->name, error, most, chance);
        }
    }
}

static void errors_are_not_above_pytorchs(void **state)
{
    json_t *golden = lkt_json_load("tests/op/golden/accuracy.json"), *test;
    size_t index;

    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        json_array_foreach(json_object_get(golden, "cases"), index, test)
        {
            const uint32_t seeds = (uint32_t)lkt_json_integer(test, "seeds");
            measured m = {0};

            assert_in_range(seeds, 2, MOST_SEEDS);
            for (uint32_t seed = 0; seed < seeds; seed++)
                run_seed(lkt_backends()[b], test, seed, &m);
            if (getenv("LKT_ACCURACY") != NULL)
                print(lkt_backends()[b], test, &m);
            else
                check(lkt_backends()[b], test, &m);
        }
    }
    json_decref(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(errors_are_not_above_pytorchs)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

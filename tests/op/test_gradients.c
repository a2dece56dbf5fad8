/*
 * Every gradient of every operation on ref against finite differences of its forward pass.
 *
 * With L = sum of out * r (r is d_out, sums in double), a parameter or input t and its gradient g,
 *
 *     D(h) = (L(t + h) - L(t - h)) / 2h = g + h^2 L'''/6 + ...
 *
 * where 2h is the difference of the two f32 values really used. The difference of D and the kernel's g
 * has three parts, and their sum is the tolerance:
 *   noise   each out element is rounded to f32 once: sum |r| u (|out(t+h)| + |out(t-h)|) / 2h, with
 *           u = 2^-24; nothing where forward only selects
 *   curve   D(2h) - D(h) = 3 h^2 L'''/6 + ..., three times the error of D(h); 0 for functions that are
 *           linear in t, for which h is large. Where D(h) - D(h/2) is more than half of it, as at a norm of one
 *           small value, h is no small step yet, and is halved: from there on the error of D(h) is at most
 *           2 |D(h) - D(h/2)| <= |D(2h) - D(h)|
 *   own     the rounding of g itself: the bound of bounds.c
 * Functions with kinks get values that lie 1/8 apart and 1/16 from zero, and 2h = 1/32.
 */
#include <math.h>
#include <string.h>

#include "numeric/hash.h"
#include "support/backends.h"
#include "support/ops.h"

enum { CASES = 25, ELEMENTS = 10 };

typedef struct sample {
    double value, noise;
} sample;

static sample loss(lkt_case *c, double rounding)
{
    const lkt_how how = {.no_backward = true};
    lkt_result result;
    sample s = {0};

    lkt_run(c, lkt_ref(), NULL, &how, &result);
    for (int64_t i = 0; i < lkt_out_elements(c); i++) {
        s.value += (double)c->d_out[i] * (double)result.out[i];
        s.noise += rounding * fabs((double)c->d_out[i] * (double)result.out[i]);
    }
    return s;
}

/* D(h) and its noise. */
static sample difference(lkt_case *c, float *t, float h, double rounding)
{
    const float middle = *t;
    const float above = middle + h, below = middle - h;

    *t = above;
    const sample a = loss(c, rounding);
    *t = below;
    const sample b = loss(c, rounding);
    *t = middle;
    const double distance = (double)above - (double)below;
    return (sample){(a.value - b.value) / distance, (a.noise + b.noise) / distance};
}

typedef struct quotient {
    double value, error;
} quotient;

/* D of a step that is small enough, from h on. */
static quotient quotient_of(lkt_case *c, float *t, float h, double rounding)
{
    sample far = difference(c, t, 2.0f * h, rounding), near = difference(c, t, h, rounding);
    for (;; h /= 2.0f) {
        const sample nearer = difference(c, t, h / 2.0f, rounding);
        const double noise = near.noise + far.noise, curve = fabs(far.value - near.value);
        if (fabs(near.value - nearer.value) <= curve / 2.0 + near.noise + nearer.noise)
            return (quotient){near.value, noise + curve};
        far = near;
        near = nearer;
    }
}

/* Whether an element belongs to a row that is to have no gradient, whatever comes of it: padding. */
static bool is_blank(const lki_param *param, int64_t i)
{
    if (param == NULL || param->blank == 0) return false;
    return i / (lks_shape_elements(&param->shape) / param->shape.dim[0]) + 1 == param->blank;
}

/* Up to ELEMENTS of the gradient of an input, or of a parameter. Returns how many tolerances were small enough to tell. */
static int check(lkt_case *c, const char *what, const lki_param *param, float *t,
                 const float *gradient, const double *bound, int64_t count, float h,
                 double rounding, lkt_random *random)
{
    double largest = 0.0;
    int told = 0;

    for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs((double)gradient[i]));
    for (int k = 0; k < ELEMENTS && k < count; k++) {
        const int64_t i = count <= ELEMENTS ? k : lkt_random_below(random, count);
        if (is_blank(param, i)) {
            assert_true(gradient[i] == 0.0f);
            continue;
        }
        const quotient d = quotient_of(c, &t[i], h, rounding);
        const double tolerance = d.error + bound[i] + 1e-12;
        const double error = fabs(d.value - (double)gradient[i]);

        if (!(error <= tolerance))
            fail_msg("%s: gradient of %s[%lld] is %.9g, the difference quotient %.9g: they differ "
                     "by %.3g, the tolerance is %.3g",
                     lkt_describe(c), what, (long long)i, (double)gradient[i], d.value, error,
                     tolerance);
        told += tolerance < 0.01 * largest;
    }
    return told;
}

typedef struct method {
    lki_op_id op;
    lkt_fill fill;
    float h;
    double rounding; /* of an out element, relative */
} method;

/* Where functions have kinks, or are curved, values are spaced and steps small, which does for any; those
 * that are linear, or of means, are told with larger ones. */
static const method methods[] = {
    {LKI_OP_CONV2D, LKT_RANDOM, 0.5f, 0x1p-24},
    {LKI_OP_DENSE, LKT_RANDOM, 0.5f, 0x1p-24},
    {LKI_OP_RNN, LKT_RANDOM, 0x1p-7f, 0x1p-24},
    {LKI_OP_LSTM, LKT_RANDOM, 0x1p-7f, 0x1p-24},
    {LKI_OP_GRU, LKT_RANDOM, 0x1p-7f, 0x1p-24},
    {LKI_OP_ATTENTION, LKT_RANDOM, 0x1p-7f, 0x1p-24},
    {LKI_OP_BATCH_NORM, LKT_RANDOM, 0x1p-7f, 0x1p-24},
    {LKI_OP_LAYER_NORM, LKT_RANDOM, 0x1p-7f, 0x1p-24},
    {LKI_OP_RMS_NORM, LKT_RANDOM, 0x1p-7f, 0x1p-24},
    {LKI_OP_MAX_POOL, LKT_SPACED, 0x1p-6f, 0.0},
    {LKI_OP_AVG_POOL, LKT_RANDOM, 0.5f, 0x1p-24},
    {LKI_OP_GLOBAL_AVG_POOL, LKT_RANDOM, 0.5f, 0x1p-24},
    {LKI_OP_RELU, LKT_SPACED, 0x1p-6f, 0.0},
    {LKI_OP_ADD, LKT_RANDOM, 0.5f, 0x1p-24},
    {LKI_OP_MUL, LKT_RANDOM, 0.5f, 0x1p-24},
    {LKI_OP_CONCAT, LKT_SPACED, 0.5f, 0.0},
    {LKI_OP_FLATTEN, LKT_SPACED, 0.5f, 0.0},
    {LKI_OP_SELECT, LKT_SPACED, 0.5f, 0.0},
    {LKI_OP_DROPOUT, LKT_RANDOM, 0.5f, 0x1p-24},
    {LKI_OP_LOG_SOFTMAX, LKT_RANDOM, 0x1p-6f, 0x1p-24},
    {LKI_OP_CROSS_ENTROPY, LKT_RANDOM, 0x1p-6f, 0x1p-24},
    {LKI_OP_NLL, LKT_SPACED, 0.5f, 0x1p-24},
    {LKI_OP_MSE, LKT_RANDOM, 0.25f, 0x1p-24},
};

static method method_of(lki_op_id op)
{
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        if (methods[i].op == op) return methods[i];
    return (method){op, LKT_SPACED, 0x1p-6f, 0x1p-24};
}

/* States come near to zero whatever is given: goldens, and bounds with kinks, are about these. */
static bool has_kinks_within(const lki_node *node)
{
    return node->op == LKI_OP_RNN &&
           ((const lks_recurrent_opts *)node->attr)->nonlinearity == LKS_NONLINEARITY_RELU;
}

/* Elements that were checked so that an error of 1% would show; the rest is zeros. */
static int one_case(const method *m, int64_t count, lkt_random *random)
{
    lkt_case c;
    lkt_result result;
    lkt_bounds bound;
    int told = 0;

    lkt_case_begin(&c);
    lks_tensor *x = lkt_random_input(c.graph, m->op, random);
    lks_tensor *y = lkt_random_op(c.graph, m->op, x, false, random);
    lkt_case_end(&c, y, y, count, m->fill, random);
    if (has_kinks_within(lkt_first(&c))) {
        lkt_case_free(&c);
        return 0;
    }
    lkt_run(&c, lkt_ref(), NULL, NULL, &result);
    lkt_bounds_make(&c, NULL, &result, &bound);
    for (int i = 0; i < LKI_MAX_IN; i++) {
        if (result.d_in[i] != NULL)
            told += check(&c, i == 0 ? "input 0" : "input 1", NULL, c.in[i], result.d_in[i],
                          bound.d_in[i], lkt_in_elements(&c, i), m->h, m->rounding, random);
    }
    for (int i = 0; i < LKI_MAX_PARAM; i++) {
        if (result.d_param[i] != NULL)
            told += check(&c, lkt_first(&c)->param[i].suffix, &lkt_first(&c)->param[i], c.param[i],
                          result.d_param[i], bound.d_param[i], lkt_param_elements(&c, i), m->h,
                          m->rounding, random);
    }
    lkt_case_free(&c);
    return told;
}

static void gradients_are_difference_quotients(void **state)
{
    (void)state;
    for (lki_op_id op = 0; op < LKI_OP_COUNT; op++) {
        const method m = method_of(op);
        const char *name = lki_op_get(op)->name;
        int told = 0;

        if (lki_op_get(op)->inputs == 0 || lki_op_get(op)->stops_gradient) continue;
        /* Cases of an operation do not depend on which others there are. */
        lkt_random random = lkt_random_make(name, lki_hash(name, strlen(name)) % 1000);
        for (int k = 0; k < CASES; k++)
            told += one_case(&m, lkt_random_from(&random, 1, 4), &random);
        print_message("%s: %d elements\n", lki_op_get(op)->name, told);
        if (told < 2 * CASES)
            fail_msg("%s: only %d gradients were checked to 1%%", lki_op_get(op)->name, told);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_difference_quotients),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

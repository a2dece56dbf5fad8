/* Vector activations against the C library in double: the errors that are derived beside each, over
 * the whole range; their bits in any place, on any instruction set. */
#include "cpu/vectors.h"

#ifdef LKT_HAVE_CPU

#include "base/float.h"

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

static double below(double x)
{
    return 0.5 * erfc(-x * sqrt(0.5));
}

/* a(x) of gelu's tanh form, and x a'(x). */
static double argument(double x)
{
    return 2 * sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x);
}

static double argument_slope(double x)
{
    return 2 * sqrt(2 / acos(-1)) * (x + 3 * 0.044715 * x * x * x);
}

/* The exact function (exact to a few units of double), and the error it may have, in units of
 * u = 2^-24. See src/check/bounds.c; this is without ref's. */
typedef struct exact {
    double y, y_error, slope, slope_error;
} exact;

static exact gated(double x, double a, double x_d_a, double a_error)
{
    const double s = logistic(a), rest = logistic(-a), b = fabs(x_d_a) * rest;
    const double near = 0.2 + (2.9 + a_error) * rest, far = 6 + (2.9 + a_error) * s;
    return (exact){x * s, fabs(x * s) * (near + 1), s * (1 + x_d_a * rest),
                   s * (1 + b) * (near + 2) + s * b * far};
}

static exact exact_of(lki_activation id, double x)
{
    const double y = logistic(x), rest = logistic(-x), t = tanh(x), h = x * x / 2;
    const double p = below(x), tail = below(-fabs(x)), f = exp(-h) / sqrt(2 * acos(-1));
    const double part = fabs(x) < 1 ? 2.5 * fabs(p - 0.5) : (h + 22) * tail;
    switch (id) {
    case LKI_GELU:
        return (exact){x * p, fabs(x) * (part + p), p + x * f,
                       part + p + fabs(x) * f * (h + 5) + fabs(p + x * f)};
    case LKI_GELU_TANH:
        return gated(x, argument(x), argument_slope(x),
                     fabs(argument(x)) + 5 * fabs(argument(x) - 2 * sqrt(2 / acos(-1)) * x));
    case LKI_SILU:
        return gated(x, x, x, 0);
    case LKI_TANH:
        return (exact){t, 1.5 * fabs(t), 4 * y * rest,
                       0}; /* the slope is formed from y, and tested there */
    case LKI_SIGMOID:
        return (exact){y, (1.2 + 1.9 * rest) * y, y * rest, 0};
    case LKI_SOFTPLUS: {
        const double value = fmax(x, 0) + log1p(exp(-fabs(x)));
        return (exact){value, 1.6 * value, y, (1.2 + 1.9 * rest) * y};
    }
    case LKI_RELU6:
        return (exact){fmin(fmax(x, 0), 6), 0, x > 0 && x < 6, 0};
    default:
        return (exact){x > 0 ? x : (double)0.3f * x, fabs(x), x > 0 ? 1 : (double)0.3f, 0};
    }
}

static bool from_output(lki_activation id)
{
    return id == LKI_TANH || id == LKI_SIGMOID || id == LKI_RELU6 || id == LKI_LEAKY_RELU;
}

static const char *const NAMES[] = {
    [LKI_GELU] = "gelu",   [LKI_GELU_TANH] = "gelu, tanh form", [LKI_SILU] = "silu",
    [LKI_TANH] = "tanh",   [LKI_SIGMOID] = "sigmoid",           [LKI_SOFTPLUS] = "softplus",
    [LKI_RELU6] = "relu6", [LKI_LEAKY_RELU] = "leaky_relu"};

/* What is smaller than 2^-63 counts as 0, e^x too, which is multiplied by 3 * 43.7 + 1 at most. */
static const double CUT = 140 * 0x1p-63;

enum { N = 4096 };

/* Floats of every size, and many of usual ones. */
static void draw(float *x, lkt_random *random)
{
    for (int i = 0; i < N; i++) {
        const double unit = lkt_random_real(random, -1, 1);
        x[i] = (float)(i % 4 == 0   ? ldexp(unit, (int)lkt_random_from(random, -60, 20))
                       : i % 4 == 1 ? unit
                       : i % 4 == 2 ? 8 * unit
                                    : 100 * unit);
    }
}

static double check(const lki_vector *v, lki_activation id, const float *x, const float *y,
                    const float *slope)
{
    double most = 0;
    for (int i = 0; i < N; i++) {
        const exact e = exact_of(id, (double)x[i]);
        const double y_error = fabs((double)y[i] - e.y), y_bound = e.y_error * 0x1p-24;
        if (!(y_error <= 1.01 * y_bound + CUT))
            fail_msg("%s: %s(%.9g) is %.9g, expected %.17g: %.3g of its bound", v->name, NAMES[id],
                     (double)x[i], (double)y[i], e.y, y_error / y_bound);
        if (fabs(e.y) > CUT) most = fmax(most, y_error / (0x1p-24 * fabs(e.y)));
        /* From its own y: two roundings of 1 - y^2 or y (1 - y), and none of the slope. */
        const double own = (double)y[i];
        const double from_y = id == LKI_TANH                     ? 1 - own * own
                              : id == LKI_SIGMOID                ? own * (1 - own)
                              : id == LKI_RELU6                  ? own > 0 && own < 6
                              : id == LKI_LEAKY_RELU && own <= 0 ? (double).3f
                                                                 : e.slope;
        const double bound = 0x1p-24 * (id == LKI_TANH      ? 2
                                        : id == LKI_SIGMOID ? 2 * own * (1 - own)
                                                            : e.slope_error);
        if (!(fabs((double)slope[i] - from_y) <= 1.01 * bound + CUT))
            fail_msg("%s: the slope of %s at %.9g is %.9g, expected %.17g: %.3g of its bound",
                     v->name, NAMES[id], (double)x[i], (double)slope[i], from_y,
                     fabs((double)slope[i] - from_y) / bound);
    }
    return most;
}

static void errors_are_as_derived(void **state)
{
    lkt_random random = lkt_random_make("errors_are_as_derived", 80);
    static float x[N], y[N], one[N], slope[N];
    (void)state;
    for (int i = 0; i < N; i++) one[i] = 1;
    LKT_FOR_ISAS(v)
    for (lki_activation id = 0; id < LKI_ACTIVATIONS; id++) {
        double most = 0;
        for (int k = 0; k < 40; k++) {
            draw(x, &random);
            const unsigned saved = lki_float_enter();
            v->activation[id].forward(N, .3f, x, y);
            v->activation[id].backward(N, .3f, from_output(id) ? y : x, one, slope, false);
            lki_float_leave(saved);
            most = fmax(most, check(v, id, x, y, slope));
        }
        print_message("%s, %s: at most %.2f u\n", v->name, NAMES[id], most);
    }
}

/* Every size, any alignment, nothing written beyond; and gradients that are added. */
static void bits_do_not_depend_on_the_place(void **state)
{
    lkt_random random = lkt_random_make("bits_do_not_depend_on_the_place", 81);
    (void)state;
    LKT_FOR_ISAS(v)
    for (int64_t n = 0; n < 70; n++)
        for (lki_activation id = 0; id < LKI_ACTIVATIONS; id++) {
            const lki_vector_activation *f = &v->activation[id];
            lkt_floats x = lkt_floats_make(&random, n), d = lkt_floats_make(&random, n);
            lkt_floats y = lkt_floats_make(&random, n), g = lkt_floats_make(&random, n);
            float expected[70] = {0}, alone;
            for (int64_t i = 0; i < n; i++) x.at[i] *= 5;
            f->forward(n, .3f, x.at, y.at);
            for (int64_t i = 0; i < n; i++) f->forward(1, .3f, x.at + i, expected + i);
            lkt_same(v, NAMES[id], y.at, expected, n);
            const float *at = from_output(id) ? y.at : x.at;
            for (int64_t i = 0; i < n; i++) {
                f->backward(1, .3f, at + i, d.at + i, &alone, false);
                expected[i] = g.at[i] + alone;
            }
            f->backward(n, .3f, at, d.at, g.at, true);
            lkt_same(v, NAMES[id], g.at, expected, n);
            lkt_floats_free(&x);
            lkt_floats_free(&d);
            lkt_floats_free(&y);
            lkt_floats_free(&g);
        }
}

/* 0, the ends, everything between, and results around the border below which they are 0: the bits of
 * the portable functions, and nothing denormal or nearly so. */
static void instruction_sets_agree(void **state)
{
    const lki_vector *portable = lki_cpu_vector_find("portable");
    lkt_random random = lkt_random_make("instruction_sets_agree", 82);
    static float x[N], a[N], b[N], d[N];
    (void)state;
    LKT_FOR_ISAS(v)
    for (lki_activation id = 0; id < LKI_ACTIVATIONS; id++)
        for (int k = 0; k < 20; k++) {
            draw(x, &random);
            for (int i = 8; i < N / 4; i++) {
                d[i] = (float)ldexp(1, -(int)lkt_random_below(&random, 64));
                x[i] = i % 3 == 0   ? -(float)lkt_random_real(&random, 0, 50)
                       : i % 3 == 1 ? (float)ldexp(x[i], -64)
                                    : (float)lkt_random_real(&random, -0x1p-62, 0x1p-62);
            }
            for (int i = N / 4; i < N; i++) d[i] = x[i];
            x[0] = 0, x[1] = (float)INFINITY, x[2] = -0.0f, x[3] = 1e30f, x[4] = -1e30f;
            x[5] = 0x1p-63f, x[6] = -0x1p-63f, x[7] = 0x1.fffffep-64f;
            const unsigned saved = lki_float_enter();
            portable->activation[id].forward(N, .3f, x, a);
            v->activation[id].forward(N, .3f, x, b);
            lkt_same(v, NAMES[id], b, a, N);
            for (int i = 0; i < N; i++) assert_true(a[i] == 0 || fabsf(a[i]) >= 0x1p-63f);
            for (int adds = 0; adds < 2; adds++) {
                memcpy(a, x, sizeof a);
                memcpy(b, x, sizeof b);
                const float *at = from_output(id) ? d : x;
                portable->activation[id].backward(N, .3f, at, d, a, adds);
                v->activation[id].backward(N, .3f, at, d, b, adds);
                lkt_same(v, NAMES[id], b, a, N);
                for (int i = 0; i < N; i++) assert_true(a[i] == 0 || !(fabsf(a[i]) < 0x1p-63f));
            }
            lki_float_leave(saved);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_as_derived),
        cmocka_unit_test(bits_do_not_depend_on_the_place),
        cmocka_unit_test(instruction_sets_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0; /* the cpu backend was not built */
}

#endif

/* Every operation on every backend against ref: forward, each gradient, adding to a gradient. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "check/trial_memory.h"
#include "support/backends.h"
#include "support/ops.h"

enum { CASES = 60 };

/* Fails at the first element out of bounds (or NaN where the other is not). */
static void compare(const lkt_case *c, const lki_backend *backend, const char *what,
                    const float *found, const float *expected, const double *bound, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const double difference = fabs((double)found[i] - (double)expected[i]);

        if (!(difference <= bound[i]))
            fail_msg("%s, %s: %s[%lld] is %.9g, on ref %.9g: differs by %.3g, the bound is %.3g",
                     backend->name, lkt_describe(c), what, (long long)i, (double)found[i],
                     (double)expected[i], difference, bound[i]);
    }
}

static void compare_stats(const lkt_case *c, const lki_backend *backend, const double *found,
                          const double *expected, const double *bound, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (!(fabs(found[i] - expected[i]) <= bound[i]))
            fail_msg("%s, %s: stats[%lld] is %.17g, on ref %.17g, the bound is %.3g", backend->name,
                     lkt_describe(c), (long long)i, found[i], expected[i], bound[i]);
    }
}

static void compare_all(lkt_case *c, const lki_backend *backend, const lkt_result *found,
                        const lkt_result *expected, const lkt_bounds *bound)
{
    static const char *const inputs[] = {"gradient of input 0", "gradient of input 1"};
    static const char *const params[LKI_MAX_PARAM] = {
        "gradient of parameter 0", "gradient of parameter 1", "gradient of parameter 2",
        "gradient of parameter 3"};

    compare(c, backend, "output", found->out, expected->out, bound->out, lkt_out_elements(c));
    if (found->stats != NULL && c->training)
        compare_stats(c, backend, found->stats, expected->stats, bound->stats, lkt_first(c)->stats);
    if (found->leaves != NULL)
        compare(c, backend, "what is left", found->leaves, expected->leaves, bound->leaves,
                c->count * lkt_first(c)->carries);
    if (!c->training) return;
    for (int i = 0; i < LKI_MAX_IN; i++) {
        if (expected->d_in[i] != NULL)
            compare(c, backend, inputs[i], found->d_in[i], expected->d_in[i], bound->d_in[i],
                    lkt_in_elements(c, i));
    }
    for (int i = 0; i < LKI_MAX_PARAM; i++) {
        if (expected->d_param[i] != NULL)
            compare(c, backend, params[i], found->d_param[i], expected->d_param[i],
                    bound->d_param[i], lkt_param_elements(c, i));
    }
}

/* One case: written, added, without an input's gradient, and as in evaluation. */
static void run_case(lkt_case *c, const lki_backend *backend, lkt_random *random)
{
    lkt_result found, expected;
    lkt_bounds bound;
    const int hows = lkt_has_gradient(c, 1) ? 4 : 3;
    lkt_how how[4] = {{0}};

    how[1].slice = 1;
    how[2].skip_in = 1;
    how[3].skip_in = 2;
    for (int i = 0; i < LKI_MAX_IN && c->in[i] != NULL; i++) {
        float *prior = lkt_case_memory(c, (size_t)lkt_in_elements(c, i) * sizeof *prior);

        for (int64_t e = 0; e < lkt_in_elements(c, i); e++)
            prior[e] = (float)lkt_random_real(random, -1.0, 1.0);
        how[1].prior[i] = prior;
        how[1].add_in |= lkt_has_gradient(c, i) ? 1u << i : 0u;
    }
    for (int i = 0; i < hows; i++) {
        lkt_how whole = how[i];

        whole.slice = 0;
        lkt_run(c, lkt_ref(), NULL, &whole, &expected);
        lkt_run(c, backend, NULL, &how[i], &found);
        lkt_bounds_make(c, &whole, &expected, &bound);
        compare_all(c, backend, &found, &expected, &bound);
    }
    c->training = false;
    lkt_run(c, lkt_ref(), NULL, NULL, &expected);
    lkt_run(c, backend, NULL, NULL, &found);
    lkt_bounds_make(c, NULL, &expected, &bound);
    compare_all(c, backend, &found, &expected, &bound);
}

static void each_operation(const lki_backend *backend, lki_op_id op, lkt_random *random)
{
    static const int64_t counts[] = {1, 2, 3, 7, 8, 13};
    static const lkt_fill fills[] = {LKT_RANDOM, LKT_EXACT, LKT_SPACED};

    for (int i = 0; i < CASES; i++) {
        const int64_t count = counts[lkt_random_below(random, 6)];
        lkt_case c;

        lkt_case_begin(&c);
        lks_tensor *x = lkt_random_input(c.graph, op, random);
        lks_tensor *y = lkt_random_op(c.graph, op, x, false, random);
        lkt_case_end(&c, y, y, count, fills[i % 3], random);
        c.switches.bf16 = lkt_random_chance(random, 3);
        run_case(&c, backend, random);
        lkt_case_free(&c);
    }
}

static void operations_agree_with_ref(void **state)
{
    lkt_random random = lkt_random_make("operations_agree_with_ref", 1);

    (void)state;
    for (int b = 0; lkt_registered()[b] != NULL; b++) {
        for (lki_op_id op = 0; op < LKI_OP_COUNT; op++) {
            if (lkt_kernel(lkt_registered()[b], op) != NULL)
                each_operation(lkt_registered()[b], op, &random);
        }
    }
}

/* Convolutions as networks have them, and corners that random shapes seldom meet. */
static void convolutions_agree_with_ref(void **state)
{
    static const struct {
        int64_t in[3];
        lks_conv2d_opts opts;
    } list[] = {
        {{28, 28, 1}, {.filters = 32, .kernel = {3, 3}}},
        {{26, 26, 32}, {.filters = 64, .kernel = {3, 3}}},
        {{8, 8, 64}, {.filters = 64, .kernel = {3, 3}, .padding = {1, 1}}},
        {{9, 9, 16}, {.filters = 32, .kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}},
        {{32, 32, 3}, {.filters = 16, .kernel = {7, 7}, .stride = {4, 4}, .padding = {3, 3}}},
        {{7, 7, 64}, {.filters = 16, .kernel = {1, 1}, .no_bias = true}},
        {{5, 7, 3}, {.filters = 4, .kernel = {5, 7}}},
        {{1, 1, 128}, {.filters = 16, .kernel = {3, 3}, .padding = {1, 1}}},
        {{1, 1, 1}, {.filters = 1, .kernel = {1, 1}}},
        {{11, 13, 2}, {.filters = 6, .kernel = {2, 3}, .stride = {3, 5}}},
        {{12, 12, 4}, {.filters = 8, .kernel = {3, 3}, .dilation = {2, 3}, .padding = {2, 3}}},
        {{9, 9, 32}, {.filters = 32, .kernel = {3, 3}, .padding = {1, 1}, .groups = 32}},
        {{9, 9, 16}, {.filters = 32, .kernel = {3, 3}, .groups = 16}},
        {{6, 6, 8}, {.filters = 12, .kernel = {3, 3}, .groups = 4, .stride = {1, 2}}},
        {{17, 1, 5}, {.filters = 7, .kernel = {4, 1}}},
    };
    lkt_random random = lkt_random_make("convolutions_agree_with_ref", 2);
    const int64_t most = lkt_in_part() ? 2 : 5;

    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
            const int64_t *in = list[i].in;
            lkt_case c;

            lkt_case_begin(&c);
            lks_tensor *x = lks_input(c.graph,
                                      &(lks_input_opts){.shape = LKS_SHAPE(in[0], in[1], in[2])});
            lks_tensor *y = lks_conv2d(c.graph, x, &list[i].opts);
            lkt_case_end(&c, y, y, lkt_random_from(&random, 1, most), LKT_RANDOM, &random);
            run_case(&c, lkt_backends()[b], &random);
            lkt_case_free(&c);
        }
    }
}

/* One tensor as both inputs of add, mul or concat: the second gradient is added to the first. */
static void a_tensor_may_be_both_inputs(void **state)
{
    enum { N = 37 };
    static const lki_op_id ops[] = {LKI_OP_ADD, LKI_OP_MUL, LKI_OP_CONCAT};
    lkt_random random = lkt_random_make("a_tensor_may_be_both_inputs", 3);

    (void)state;
    for (int k = 0; lkt_backends()[k / 3] != NULL; k++) {
        const bool product = ops[k % 3] == LKI_OP_MUL, join = ops[k % 3] == LKI_OP_CONCAT;
        const lki_kernel *kernel = lkt_kernel(lkt_backends()[k / 3], ops[k % 3]);
        lkt_case c;
        lkt_stage stage;

        lkt_case_begin(&c);
        lks_tensor *x = lks_input(c.graph, &(lks_input_opts){.shape = LKS_SHAPE(N)});
        lks_tensor *y = join      ? lks_concat(c.graph, x, x)
                        : product ? lks_mul(c.graph, x, x)
                                  : lks_add(c.graph, x, x);
        lkt_case_end(&c, y, y, 1, LKT_EXACT, &random);
        float *out = lkt_case_memory(&c, 2 * N * sizeof *out);
        float *d = lkt_case_memory(&c, N * sizeof *d);
        c.memory = lkt_backends()[k / 3]->memory;
        lkt_stage_open(&c, kernel, &c.cluster, 1, 0, &stage);
        const lki_trial_tensors both = {
            .in = {c.in[0], c.in[0]}, .out = out, .d_out = c.d_out, .d_in = {d, d}, .add_in = 2};
        LKT_OK(lki_trial_forward(&c, &stage, &both, false));
        LKT_OK(lki_trial_backward(&c, &stage, &both, false));
        lki_trial_fetch(&c);
        for (int i = 0; i < N; i++) {
            const float value = ((const float *)c.in[0])[i];

            assert_true(out[i] == value * (join ? 1.0f : product ? value : 2.0f));
            assert_true(!join || out[N + i] == value);
            assert_true(d[i] ==
                        (c.d_out[i] + c.d_out[join ? N + i : i]) * (product ? value : 1.0f));
        }
        lkt_stage_close(&stage);
        lkt_case_free(&c);
    }
}

/* Layer norms as networks have them: rows longer than vectors and lanes, many rows, images. */
static void layer_norms_agree_with_ref(void **state)
{
    static const struct {
        lks_shape in;
        lks_layer_norm_opts opts;
    } list[] = {
        {{1, {768}}, {0}},
        {{1, {1001}}, {.no_affine = true}},
        {{3, {14, 14, 96}}, {0}},
        {{3, {14, 9, 33}}, {.dims = 3}},
        {{3, {14, 9, 33}}, {.dims = 3, .no_affine = true}},
        {{3, {1, 1, 40}}, {.dims = 3}},
        {{3, {5, 31, 1}}, {.dims = 3}},
        {{2, {50, 64}}, {.dims = 2}},
        {{4, {3, 5, 7, 11}}, {.dims = 3}},
        {{2, {9, 65}}, {.no_bias = true}},
        {{3, {4, 5, 17}}, {.dims = 3, .no_bias = true}},
    };
    lkt_random random = lkt_random_make("layer_norms_agree_with_ref", 5);

    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
            lkt_case c;

            lkt_case_begin(&c);
            lks_tensor *x = lks_input(c.graph, &(lks_input_opts){.shape = list[i].in});
            lks_tensor *y = lks_layer_norm(c.graph, x, &list[i].opts);
            lkt_case_end(&c, y, y, lkt_random_from(&random, 1, 5), LKT_RANDOM, &random);
            run_case(&c, lkt_backends()[b], &random);
            lkt_case_free(&c);
        }
    }
}

/* relu and relu6 give 0 for a NaN, and no gradient passes there. */
static void relu_of_nan_is_zero(void **state)
{
    lkt_random random = lkt_random_make("relu_of_nan_is_zero", 4);

    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        for (int six = 0; six <= 1; six++) {
            lkt_case c;
            lkt_result found;

            lkt_case_begin(&c);
            lks_tensor *x = lks_input(c.graph, &(lks_input_opts){.shape = LKS_SHAPE(33)});
            lks_tensor *y = six ? lks_relu6(c.graph, x) : lks_relu(c.graph, x);
            lkt_case_end(&c, y, y, 1, LKT_RANDOM, &random);
            for (int i = 0; i < 33; i++) ((float *)c.in[0])[i] = NAN;
            lkt_run(&c, lkt_backends()[b], NULL, NULL, &found);
            for (int i = 0; i < 33; i++) {
                assert_true(found.out[i] == 0.0f);
                assert_true(found.d_in[0][i] == 0.0f);
            }
            lkt_case_free(&c);
        }
    }
}

/* relu6 at its two kinks, where PyTorch's gradient is 0, and beside them. */
static void relu6_is_flat_where_it_ends(void **state)
{
    static const float in[] = {-INFINITY,      -1.0f, -0.0f,          0.0f, 0x1p-63f, 1.0f, 3.0f,
                               0x1.7ffffep+2f, 6.0f,  0x1.800002p+2f, 7.0f, INFINITY};
    lkt_random random = lkt_random_make("relu6_is_flat_where_it_ends", 4);

    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        lkt_case c;
        lkt_result found;

        lkt_case_begin(&c);
        lks_tensor *x = lks_input(c.graph, &(lks_input_opts){.shape = LKS_SHAPE(36)});
        lks_tensor *y = lks_relu6(c.graph, x);
        lkt_case_end(&c, y, y, 1, LKT_RANDOM, &random);
        for (int i = 0; i < 36; i++) ((float *)c.in[0])[i] = in[i % 12];
        lkt_run(&c, lkt_backends()[b], NULL, NULL, &found);
        for (int i = 0; i < 36; i++) {
            const float v = in[i % 12];
            const bool passes = v > 0 && v < 6;
            const float wanted = passes ? v : v > 0 ? 6.0f : 0.0f;

            assert_memory_equal(&found.out[i], &wanted, sizeof wanted);
            assert_true(found.d_in[0][i] == (passes ? c.d_out[i] : 0.0f));
        }
        lkt_case_free(&c);
    }
}

/* y and its derivative at the ends of a function's range, on every backend; denormals are flushed. */
static void activations_at_the_ends(void **state)
{
    static const float big[] = {20.0f, 88.0f, 104.0f, 1e4f, 1e19f, FLT_MAX};
    static const lki_op_id ops[] = {LKI_OP_GELU, LKI_OP_GELU,    LKI_OP_SILU,
                                    LKI_OP_TANH, LKI_OP_SIGMOID, LKI_OP_SOFTPLUS};
    lkt_random random = lkt_random_make("activations_at_the_ends", 5);

    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        for (int k = 0; k < 6; k++) {
            const double lower = k == 3 ? -1.0 : 0.0;
            lkt_result found;
            lkt_case c;

            lkt_case_begin(&c);
            lks_tensor *x = lks_input(c.graph, &(lks_input_opts){.shape = LKS_SHAPE(13)});
            lks_tensor *y = k == 2   ? lks_silu(c.graph, x)
                            : k == 3 ? lks_tanh(c.graph, x)
                            : k == 4 ? lks_sigmoid(c.graph, x)
                            : k == 5
                                ? lks_softplus(c.graph, x)
                                : lks_gelu(c.graph, x, &(lks_gelu_opts){.form = (lks_gelu_form)k});
            assert_int_equal(y->node->op, ops[k]);
            lkt_case_end(&c, y, y, 1, LKT_RANDOM, &random);
            float *in = c.in[0];
            for (int i = 0; i < 6; i++) in[2 * i] = big[i], in[2 * i + 1] = -big[i];
            in[12] = NAN;
            for (int i = 0; i < 13; i++) c.d_out[i] = 1.0f;
            lkt_run(&c, lkt_backends()[b], NULL, NULL, &found);
            for (int i = 0; i < 6; i++) {
                const bool bounded = k == 3 || k == 4;
                const double upper = bounded ? 1.0 : (double)big[i], slope = bounded ? 0.0 : 1.0;

                /* 20 exp(-20) is the most that is left of the function and the derivative. */
                assert_true(fabs((double)found.out[2 * i] / upper - 1.0) <= 1e-7);
                assert_true(fabs((double)found.out[2 * i + 1] - lower) <= 1e-7);
                assert_true(fabs((double)found.d_in[0][2 * i] - slope) <= 1e-7);
                assert_true(fabs((double)found.d_in[0][2 * i + 1]) <= 1e-7);
            }
            assert_true(isnan(found.out[12]) && isnan(found.d_in[0][12]));
            lkt_case_free(&c);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_agree_with_ref),
        cmocka_unit_test(convolutions_agree_with_ref),
        cmocka_unit_test(a_tensor_may_be_both_inputs),
        cmocka_unit_test(layer_norms_agree_with_ref),
        cmocka_unit_test(relu_of_nan_is_zero),
        cmocka_unit_test(relu6_is_flat_where_it_ends),
        cmocka_unit_test(activations_at_the_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What kernels promise beside values: pieces, dropout's numbers, batch norm's statistics. */
#include <math.h>
#include <string.h>

#include "numeric/random.h"
#include "support/backends.h"
#include "support/ops.h"

static void same_bits(const lkt_case *c, const char *what, const void *a, const void *b,
                      int64_t count)
{
    if (a != NULL && memcmp(a, b, (size_t)count * sizeof(float)) != 0)
        fail_msg("%s: %s depends on the pieces", lkt_describe(c), what);
}

/* A kernel that takes pieces gives the same bits for all. */
static void pieces_change_no_bit(void **state)
{
    static const int64_t slices[] = {1, 2, 3, 4};
    lkt_random random = lkt_random_make("pieces_change_no_bit", 30);

    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        for (int k = 0; k < 12 * LKI_OP_COUNT; k++) {
            const lki_op_id op = (lki_op_id)(k % LKI_OP_COUNT);
            const lki_kernel *kernel = lkt_kernel(lkt_backends()[b], op);
            lkt_result whole, cut;
            lkt_case c;

            if (kernel == NULL || lki_span_whole(kernel->span)) continue;
            lkt_case_begin(&c);
            lks_tensor *x = lkt_random_input(c.graph, op, &random);
            lks_tensor *y = lkt_random_op(c.graph, op, x, false, &random);
            lkt_case_end(&c, y, y, 7, LKT_RANDOM, &random);
            lkt_run(&c, lkt_backends()[b], NULL, &(lkt_how){.slice = 7}, &whole);
            lkt_run(&c, lkt_backends()[b], NULL, &(lkt_how){.slice = slices[k / LKI_OP_COUNT % 4]},
                    &cut);
            same_bits(&c, "the output", whole.out, cut.out, lkt_out_elements(&c));
            for (int i = 0; i < LKI_MAX_IN && c.in[i] != NULL; i++)
                same_bits(&c, "the input's gradient", whole.d_in[i], cut.d_in[i],
                          lkt_in_elements(&c, i));
            for (int i = 0; i < LKI_MAX_PARAM && c.param[i] != NULL; i++)
                same_bits(&c, "the parameter's gradient", whole.d_param[i], cut.d_param[i],
                          lkt_param_elements(&c, i));
            lkt_case_free(&c);
        }
    }
}

/* Added to what is there, a gradient of ref is the sum (other backends are compared with ref): each
 * f32 rounding errs by u = 2^-24 of its value. */
static void adding_adds(void **state)
{
    lkt_random random = lkt_random_make("adding_adds", 36);

    (void)state;
    for (int k = 0; k < 6 * LKI_OP_COUNT; k++) {
        const lki_op_id op = (lki_op_id)(k % LKI_OP_COUNT);
        const lki_kernel *kernel = lkt_kernel(lkt_ref(), op);
        lkt_how how = {0};
        lkt_result written, added;
        lkt_case c;

        if (kernel == NULL || kernel->backward == NULL) continue;
        lkt_case_begin(&c);
        lks_tensor *x = lkt_random_input(c.graph, op, &random);
        lks_tensor *y = lkt_random_op(c.graph, op, x, false, &random);
        lkt_case_end(&c, y, y, 3, LKT_RANDOM, &random);
        for (int i = 0; i < LKI_MAX_IN; i++) {
            how.prior[i] = c.in[i]; /* any numbers */
            how.add_in |= lkt_has_gradient(&c, i) ? 1u << i : 0u;
        }
        lkt_run(&c, lkt_ref(), NULL, NULL, &written);
        lkt_run(&c, lkt_ref(), NULL, &how, &added);
        for (int i = 0; i < LKI_MAX_IN && how.add_in >> i & 1u; i++) {
            for (int64_t e = 0; e < lkt_in_elements(&c, i); e++) {
                const double prior = (double)how.prior[i][e];
                const double g = (double)written.d_in[i][e], sum = prior + g;

                if (!(fabs((double)added.d_in[i][e] - sum) <=
                      0x1p-24 * (fabs(g) + fabs(sum)) * 1.01))
                    fail_msg("%s: gradient of input %d[%lld] is %.9g, expected %.9g + %.9g",
                             lkt_describe(&c), i, (long long)e, (double)added.d_in[i][e], prior, g);
            }
        }
        lkt_case_free(&c);
    }
}

static void equal(const lkt_case *c, const char *what, const float *found, const float *expected,
                  int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!(found[i] == expected[i]))
            fail_msg("%s: %s[%lld] is %.9g, on ref %.9g", lkt_describe(c), what, (long long)i,
                     (double)found[i], (double)expected[i]);
}

/* A convolution costs what its pixels cost, whatever its stride: a loop over 2^24 steps, squared,
 * would not end. All sums are exact. */
static void convolutions_take_any_stride(void **state)
{
    static const int64_t strides[] = {2, 3, 4, 6, 7, 12, 13, 2000, 1 << 24};
    lkt_random random = lkt_random_make("convolutions_take_any_stride", 38);

    (void)state;
    for (size_t i = 0; i < 6 * sizeof strides / sizeof *strides; i++) {
        for (int b = 0; lkt_backends()[b] != NULL; b++) {
            const int64_t stride = strides[i / 6], dilation = (int64_t)(i % 6) + 1;
            lkt_result found, expected;
            lkt_case c;

            lkt_case_begin(&c);
            lks_tensor *x = lks_input(c.graph, &(lks_input_opts){.shape = LKS_SHAPE(13, 11, 3)});
            lks_tensor *y = lks_conv2d(c.graph, x,
                                       &(lks_conv2d_opts){.filters = 5,
                                                          .kernel = {3, 4},
                                                          .padding = {4, 7},
                                                          .stride = {stride, 5},
                                                          .dilation = {dilation, 7 - dilation}});
            lkt_case_end(&c, y, y, 2, LKT_EXACT, &random);
            lkt_run(&c, lkt_ref(), NULL, NULL, &expected);
            lkt_run(&c, lkt_backends()[b], NULL, NULL, &found);
            equal(&c, "the output", found.out, expected.out, lkt_out_elements(&c));
            equal(&c, "the input's gradient", found.d_in[0], expected.d_in[0],
                  lkt_in_elements(&c, 0));
            equal(&c, "the weight's gradient", found.d_param[0], expected.d_param[0],
                  lkt_param_elements(&c, 0));
            lkt_case_free(&c);
        }
    }
}

/* All values of a window are equal: the first in row order gets the gradient. */
static void ties_go_to_the_first(void **state)
{
    lkt_random random = lkt_random_make("ties_go_to_the_first", 37);

    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        lkt_result found;
        lkt_case c;

        lkt_case_begin(&c);
        lks_tensor *x = lks_input(c.graph, &(lks_input_opts){.shape = LKS_SHAPE(4, 6, 3)});
        lks_tensor *y = lks_max_pool(c.graph, x, &(lks_pool_opts){.kernel = {2, 3}});
        lkt_case_end(&c, y, y, 2, LKT_RANDOM, &random);
        for (int64_t i = 0; i < lkt_in_elements(&c, 0); i++) ((float *)c.in[0])[i] = -0.5f;
        lkt_run(&c, lkt_backends()[b], NULL, NULL, &found);
        for (int64_t i = 0; i < lkt_in_elements(&c, 0); i++) {
            const int64_t at = i / 3, n = at / 24, row = at / 6 % 4, column = at % 6;
            const int64_t out = ((n * 2 + row / 2) * 2 + column / 3) * 3 + i % 3;
            const bool first = row % 2 == 0 && column % 3 == 0;

            assert_true(found.d_in[0][i] == (first ? c.d_out[out] : 0.0f));
        }
        lkt_case_free(&c);
    }
}

/* 2^60, then -2^60, then 1: in another order the 1 is lost in a double. Of the two samples each has its own columns. */
static void rows_are_summed_in_order(void **state)
{
    lkt_random random = lkt_random_make("rows_are_summed_in_order", 43);

    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        static const float given[2][3][2] = {{{0x1p60f, 0}, {-0x1p60f, 0}, {1, 0}},
                                             {{0, 0x1p60f}, {0, -0x1p60f}, {0, 1}}};
        lkt_result found;
        lkt_case c;

        lkt_case_begin(&c);
        lks_tensor *x = lks_input(
            c.graph, &(lks_input_opts){.shape = LKS_SHAPE(3), .dtype = LKS_I32, .vocabulary = 4});
        lks_tensor *y = lks_embedding(c.graph, x, &(lks_embedding_opts){.units = 2});
        lkt_case_end(&c, y, y, 2, LKT_RANDOM, &random);
        for (int i = 0; i < 6; i++) ((int32_t *)c.in[0])[i] = 2;
        memcpy(c.d_out, given, sizeof given);
        lkt_run(&c, lkt_backends()[b], NULL, NULL, &found);
        for (int i = 0; i < 8; i++) assert_true(found.d_param[0][i] == (i / 2 == 2 ? 1.0f : 0.0f));
        lkt_case_free(&c);
    }
}

static void dropout_case(lkt_case *c, float probability, bool by_sample, int64_t count,
                         lkt_random *random)
{
    lkt_case_begin(c);
    lks_tensor *x = lks_input(
        c->graph,
        &(lks_input_opts){.shape = LKS_SHAPE(9, 37, 16)}); /* more than cpu draws at once */
    lks_tensor *y = lks_dropout(
        c->graph, x, &(lks_dropout_opts){.probability = probability, .by_sample = by_sample});
    lkt_case_end(c, y, y, count, LKT_RANDOM, random);
}

/* Each element is 0 or scaled, as the documented draw says; the rate is the one realised. */
static void dropout_draws_as_documented(void **state)
{
    static const float probabilities[] = {0.0f, 0.25f, 0.5f, 0.1f, 0.9f};
    lkt_random random = lkt_random_make("dropout_draws_as_documented", 31);

    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        for (int k = 0; k < 10; k++) {
            const bool whole = k >= 5;
            const lki_bernoulli drop = lki_bernoulli_make(probabilities[k % 5]);
            const float scale = (float)(1.0 / (1.0 - drop.probability));
            const int64_t each = 9 * 37 * 16;
            double dropped = 0.0;
            uint8_t draw[9 * 37 * 16];
            lkt_result found;
            lkt_case c;

            dropout_case(&c, probabilities[k % 5], whole, 50, &random);
            lkt_run(&c, lkt_backends()[b], NULL, &(lkt_how){.slice = 8}, &found);
            for (int64_t i = 0; i < lkt_out_elements(&c); i++) {
                const float x = ((const float *)c.in[0])[i];

                if (i % each == 0)
                    lki_bernoulli_draw(&drop, c.key, c.step, (uint32_t)(c.position + i / each), 0,
                                       each, draw);
                if (whole) memset(draw, draw[0], sizeof draw);
                assert_true(found.out[i] == (draw[i % each] ? 0.0f : x * scale));
                assert_true(found.d_in[0][i] == (draw[i % each] ? 0.0f : c.d_out[i] * scale));
                dropped += draw[i % each];
            }
            /* The number dropped is binomial: five standard deviations. */
            const double n = whole ? 50 : (double)lkt_out_elements(&c), p = drop.probability;
            if (whole) dropped /= (double)each;
            assert_true(fabs(dropped - n * p) <= 5.0 * sqrt(n * p * (1.0 - p)));
            lkt_case_free(&c);
        }
    }
}

/* Another step draws other elements. */
static void dropout_changes_with_the_step(void **state)
{
    lkt_random random = lkt_random_make("dropout_changes_with_the_step", 32);

    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        lkt_result one, other;
        int64_t equal = 0;
        lkt_case c;

        dropout_case(&c, 0.5f, false, 8, &random);
        lkt_run(&c, lkt_backends()[b], NULL, NULL, &one);
        c.step++;
        lkt_run(&c, lkt_backends()[b], NULL, NULL, &other);
        for (int64_t i = 0; i < lkt_out_elements(&c); i++)
            equal += (one.out[i] == 0.0f) == (other.out[i] == 0.0f);
        const double n = (double)lkt_out_elements(&c);
        assert_true(fabs((double)equal - n / 2.0) <= 5.0 * sqrt(n) / 2.0);
        lkt_case_free(&c);
    }
}

/* One value per channel: the output is bias, the variance has no weight, no gradient but bias's. */
static void batch_norm_of_one_value_is_bias(void **state)
{
    lkt_random random = lkt_random_make("batch_norm_of_one_value_is_bias", 33);

    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        lkt_result found;
        lkt_case c;

        lkt_case_begin(&c);
        lks_tensor *x = lks_input(c.graph, &(lks_input_opts){.shape = LKS_SHAPE(1, 1, 5)});
        lks_tensor *y = lks_batch_norm(c.graph, x, NULL);
        lkt_case_end(&c, y, y, 1, LKT_RANDOM, &random);
        lkt_run(&c, lkt_backends()[b], NULL, NULL, &found);
        assert_true(found.stats[0] == 1.0 && found.stats[1] == 0.0);
        for (int j = 0; j < 5; j++) {
            assert_true(found.out[j] == c.param[1][j]);
            assert_true(found.stats[2 + j] == (double)((const float *)c.in[0])[j]);
            assert_true(found.stats[7 + j] == 0.0);
            assert_true(found.d_in[0][j] == 0.0f);
            assert_true(found.d_param[0][j] == 0.0f);
            assert_true(found.d_param[1][j] == c.d_out[j]);
        }
        lkt_case_free(&c);
    }
}

/* Statistics of replicas with 4, 1 and 2 values of one channel, worked out by hand:
 * {1, 2, 3, 6}: mean 3, unbiased variance 14/3; {5}: mean 5; {0, 4}: mean 2, variance 8. */
static void running_statistics_are_weighted_means(void **state)
{
    static const double stats[3][4] = {
        {4.0, 4.0, 12.0, 4.0 * 14.0 / 3.0}, {1.0, 0.0, 5.0, 0.0}, {2.0, 2.0, 4.0, 16.0}};
    static const float values[] = {1.0f, 2.0f, 3.0f, 6.0f, 5.0f, 0.0f, 4.0f};
    static const int64_t start[] = {0, 4, 5, 7};
    lkt_random random = lkt_random_make("running_statistics_are_weighted_means", 34);
    lkt_case c;

    (void)state;
    lkt_case_begin(&c);
    lks_tensor *x = lks_input(c.graph, &(lks_input_opts){.shape = LKS_SHAPE(1)});
    lks_tensor *y = lks_batch_norm(c.graph, x, &(lks_batch_norm_opts){.momentum = 0.25f});
    lkt_case_end(&c, y, y, 7, LKT_RANDOM, &random);
    memcpy(c.in[0], values, sizeof values);
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        double sums[4] = {0};

        for (int r = 0; r < 3; r++) {
            lkt_case part = c;
            lkt_result found;

            part.count = start[r + 1] - start[r];
            part.in[0] = (float *)c.in[0] + start[r];
            part.d_out = c.d_out + start[r];
            lkt_run(&part, lkt_backends()[b], NULL, NULL, &found);
            c.blocks = part.blocks;
            for (int i = 0; i < 4; i++) {
                /* Few small integers: a f32 kernel errs by some u = 2^-24 of the value. */
                assert_true(fabs(found.stats[i] - stats[r][i]) <= 0x1p-20 * stats[r][i]);
                sums[i] += stats[r][i];
            }
        }
        float mean = 10.0f, variance = 20.0f;
        int64_t batches = 41;
        lki_op_batch_norm.update_buffers(lkt_first(&c), sums,
                                         (void *[]){&mean, &variance, &batches});
        assert_true(mean == 0.75f * 10.0f + 0.25f * 3.0f); /* 21/7 */
        assert_true(fabs((double)variance - (0.75 * 20.0 + 0.25 * 52.0 / 9.0)) < 20.0 * 0x1p-23);
        assert_int_equal(batches, 42);
    }
    lkt_case_free(&c);
}

/* No replica had two values: the variance stays, the mean moves. */
static void running_variance_needs_two_values(void **state)
{
    lkt_random random = lkt_random_make("running_variance_needs_two_values", 35);
    float mean = 1.0f, variance = 3.0f;
    int64_t batches = 0;
    lkt_case c;

    (void)state;
    lkt_case_begin(&c);
    lks_tensor *x = lks_input(c.graph, &(lks_input_opts){.shape = LKS_SHAPE(1)});
    lks_tensor *y = lks_batch_norm(c.graph, x, &(lks_batch_norm_opts){.momentum = 0.5f});
    lkt_case_end(&c, y, y, 1, LKT_RANDOM, &random);
    lki_op_batch_norm.update_buffers(lkt_first(&c), (double[]){2.0, 0.0, 10.0, 0.0},
                                     (void *[]){&mean, &variance, &batches});
    assert_true(mean == 3.0f);
    assert_true(variance == 3.0f);
    assert_int_equal(batches, 1);
    lkt_case_free(&c);
}

static void none_is_tiny(const lkt_case *c, const lki_backend *backend, const char *what,
                         const float *values, int64_t count)
{
    for (int64_t i = 0; values != NULL && i < count; i++)
        if (values[i] != 0 && fabsf(values[i]) < LKI_TINY)
            fail_msg("%s, %s: %s[%lld] is %a, expected 0 below 2^-63", backend->name,
                     lkt_describe(c), what, (long long)i, (double)values[i]);
}

/* Gradients that are as small as stored ones can be become smaller in products: those that are stored are 0. */
static void tiny_gradients_are_zero(void **state)
{
    lkt_random random = lkt_random_make("tiny_gradients_are_zero", 41);

    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        const lki_backend *backend = lkt_backends()[b];
        for (int k = 0; k < 6 * LKI_OP_COUNT; k++) {
            const lki_op_id op = (lki_op_id)(k % LKI_OP_COUNT);
            const lki_kernel *kernel = lkt_kernel(backend, op);
            lkt_result found;
            lkt_case c;

            if (kernel == NULL || kernel->backward == NULL || lki_op_get(op)->is_loss) continue;
            lkt_case_begin(&c);
            lks_tensor *x = lkt_random_input(c.graph, op, &random);
            lks_tensor *y = lkt_random_op(c.graph, op, x, false, &random);
            lkt_case_end(&c, y, y, 1 + k % 4, LKT_RANDOM, &random);
            for (int64_t i = 0; i < lkt_out_elements(&c); i++)
                c.d_out[i] = copysignf(LKI_TINY * (float)lkt_random_real(&random, 1, 1.5),
                                       c.d_out[i]);
            lkt_run(&c, backend, NULL, NULL, &found);
            none_is_tiny(&c, backend, "the output", found.out, lkt_out_elements(&c));
            for (int i = 0; i < LKI_MAX_IN && c.in[i] != NULL; i++)
                none_is_tiny(&c, backend, "an input's gradient", found.d_in[i],
                             lkt_in_elements(&c, i));
            for (int i = 0; i < LKI_MAX_PARAM && c.param[i] != NULL; i++)
                none_is_tiny(&c, backend, "a parameter's gradient", found.d_param[i],
                             lkt_param_elements(&c, i));
            lkt_case_free(&c);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_change_no_bit),
        cmocka_unit_test(adding_adds),
        cmocka_unit_test(convolutions_take_any_stride),
        cmocka_unit_test(ties_go_to_the_first),
        cmocka_unit_test(rows_are_summed_in_order),
        cmocka_unit_test(dropout_draws_as_documented),
        cmocka_unit_test(dropout_changes_with_the_step),
        cmocka_unit_test(batch_norm_of_one_value_is_bias),
        cmocka_unit_test(running_statistics_are_weighted_means),
        cmocka_unit_test(running_variance_needs_two_values),
        cmocka_unit_test(tiny_gradients_are_zero),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

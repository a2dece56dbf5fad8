/*
 * Sums of products whose number of terms is just that at which a block, a stretch or a group of them ends, and one more
 * or less, against ref within bounds: dense layers, those behind relu, and weight gradients by Winograd's algorithm, whose
 * terms are tiles.
 */
#include <math.h>

#include "support/backends.h"
#include "support/ops.h"

static void within(const lkt_case *c, const char *what, const float *found, const float *expected,
                   const double *bound, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!(fabs((double)found[i] - (double)expected[i]) <= bound[i] + (double)LKI_TINY))
            fail_msg("%s: %s[%lld] is %.9g, on ref %.9g, the bound is %.3g", lkt_describe(c), what,
                     (long long)i, (double)found[i], (double)expected[i], bound[i]);
}

static void compare(lkt_case *c)
{
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        lkt_result found, expected;
        lkt_bounds bound;
        lkt_run(c, lkt_ref(), NULL, NULL, &expected);
        lkt_run(c, lkt_backends()[b], NULL, NULL, &found);
        lkt_bounds_make(c, NULL, &expected, &bound);
        within(c, "out", found.out, expected.out, bound.out, lkt_out_elements(c));
        within(c, "d_in", found.d_in[0], expected.d_in[0], bound.d_in[0], lkt_in_elements(c, 0));
        for (int i = 0; i < c->cluster.param_count; i++)
            within(c, "d_param", found.d_param[i], expected.d_param[i], bound.d_param[i],
                   lkt_param_elements(c, i));
    }
}

static void dense_layers(void **state)
{
    static const int64_t borders[] = {64, 256, 512, 1024, 2048}, units[] = {3, 20, 70};
    lkt_random random = lkt_random_make("dense layers", 160);
    (void)state;
    for (int k = 0; k < 5 * 3 * 3 * 2; k++) {
        const bool active = k % 2 == 1;
        const int64_t inputs = borders[k / 18] + k / 2 % 3 - 1;
        lkt_case c;
        lkt_case_begin(&c);
        lks_tensor *x = lks_input(c.graph, &(lks_input_opts){.shape = LKS_SHAPE(inputs)});
        if (active) x = lks_relu(c.graph, x);
        x = lks_dense(c.graph, x, &(lks_dense_opts){.units = units[k / 6 % 3]});
        lkt_case_end(&c, x, x, 2, LKT_RANDOM, &random);
        for (int64_t i = 0; i < lkt_in_elements(&c, 0) && active; i++) /* all of them active */
            ((float *)c.in[0])[i] = (float)lkt_random_real(&random, 0.01, 1);
        compare(&c);
        lkt_case_free(&c);
    }
}

/* 8 x 8 pixels are 4 tiles of 4 x 4. */
static void weight_gradients_by_tiles(void **state)
{
    static const int64_t tiles[] = {60, 64, 68, 128, 1024, 1088};
    lkt_random random = lkt_random_make("weight gradients by tiles", 161);
    (void)state;
    for (int k = 0; k < (lkt_in_part() ? 4 : 6); k++) {
        const lks_conv2d_opts opts = {.filters = 16, .kernel = {3, 3}, .padding = {1, 1}};
        lkt_case c;
        lkt_case_begin(&c);
        lks_tensor *x = lks_input(c.graph, &(lks_input_opts){.shape = LKS_SHAPE(8, 8, 16)});
        x = lks_conv2d(c.graph, x, &opts);
        lkt_case_end(&c, x, x, tiles[k] / 4, LKT_RANDOM, &random);
        c.switches.winograd = LKS_WINOGRAD_F4;
        compare(&c);
        lkt_case_free(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_layers),
        cmocka_unit_test(weight_gradients_by_tiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

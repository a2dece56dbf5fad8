/*
 * Convolutions by Winograd's algorithm against ref, within bounds that are derived for each element
 * (src/check/bounds_winograd.c), for either tile, wherever it can be; how much more it errs than direct sums; what
 * a NaN reaches.
 */
#include <math.h>
#include <string.h>

#include "core/winograd.h"
#include "support/backends.h"
#include "support/exact.h"
#include "support/ops.h"

static const lks_winograd TILES[] = {LKS_WINOGRAD_F2, LKS_WINOGRAD_F4};

static void make_case(lkt_case *c, const int64_t in[3], int64_t filters, const int64_t padding[2],
                      int64_t count, lkt_fill fill, lkt_random *random)
{
    lkt_case_begin(c);
    lks_tensor *x = lks_input(c->graph, &(lks_input_opts){.shape = LKS_SHAPE(in[0], in[1], in[2])});
    lks_tensor *y = lks_conv2d(c->graph, x,
                               &(lks_conv2d_opts){.filters = filters,
                                                  .kernel = {3, 3},
                                                  .padding = {padding[0], padding[1]}});
    lkt_case_end(c, y, y, count, fill, random);
}

static void compare(const lkt_case *c, const char *what, const float *found, const float *expected,
                    const double *bound, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!(fabs((double)found[i] - (double)expected[i]) <= bound[i]))
            fail_msg("%s, winograd %d: %s[%lld] is %.9g, on ref %.9g, the bound is %.3g",
                     lkt_describe(c), (int)c->switches.winograd, what, (long long)i,
                     (double)found[i], (double)expected[i], bound[i]);
}

static void hold_to_ref(lkt_case *c, const lki_backend *backend, int64_t slice)
{
    lkt_result found, expected;
    lkt_bounds bound;
    lkt_run(c, lkt_ref(), NULL, NULL, &expected);
    lkt_run(c, backend, NULL, &(lkt_how){.slice = slice}, &found);
    lkt_bounds_make(c, NULL, &expected, &bound);
    compare(c, "out", found.out, expected.out, bound.out, lkt_out_elements(c));
    compare(c, "d_in", found.d_in[0], expected.d_in[0], bound.d_in[0], lkt_in_elements(c, 0));
    for (int i = 0; i < 2; i++)
        compare(c, "d_param", found.d_param[i], expected.d_param[i], bound.d_param[i],
                lkt_param_elements(c, i));
}

static void results_are_within_bounds(void **state)
{
    lkt_random random = lkt_random_make("winograd", 140);
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int k = 0; k < 40; k++) {
            int64_t in[3], padding[2];
            lkt_case c;
            for (int i = 0; i < 2; i++) {
                padding[i] = lkt_random_below(&random, 4);
                in[i] = lkt_random_from(&random, padding[i] < 1 ? 3 : 1, 10);
            }
            in[2] = lkt_random_from(&random, 16, k % 10 == 0 ? 150 : 40);
            make_case(&c, in, lkt_random_from(&random, 16, 40), padding,
                      lkt_random_from(&random, 1, 3), k % 8 == 7 ? LKT_EXACT : LKT_RANDOM, &random);
            c.switches.winograd = TILES[k % 2];
            assert_int_equal(lki_winograd_side(lkt_first(&c), &c.switches), k % 2 == 0 ? 2 : 4);
            hold_to_ref(&c, lkt_backends()[b], 1 + k % 3);
            lkt_case_free(&c);
        }
}

/* Sums go through a strip by blocks of 64 channels (forward) or filters (the data gradient): one that is not full, one, a
 * block and a term, two, and more than two. The 17 to 50 tiles of a strip are more than the register tile has rows. */
static void blocks_of_channels_are_whole_or_not(void **state)
{
    static const int64_t terms[] = {63, 64, 65, 128, 129};
    const int64_t padding[2] = {1, 1};
    lkt_random random = lkt_random_make("winograd blocks", 142);
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int k = 0; k < 10; k++) {
            const int64_t in[3] = {k % 2 == 0 ? 9 : 17, k % 2 == 0 ? 10 : 19, terms[k / 2]};
            lkt_case c;
            make_case(&c, in, terms[4 - k / 2], padding, 2, LKT_RANDOM, &random);
            c.switches.winograd = TILES[k % 2 == 0 ? 0 : 1];
            hold_to_ref(&c, lkt_backends()[b], 2);
            lkt_case_free(&c);
        }
}

/* The relative root mean square error of out, of d_in and of the weight's gradient. */
static void errors_of(lkt_case *c, const lki_backend *backend, double error[3])
{
    lkt_result found;
    lkt_exact exact;
    lkt_run(c, backend, NULL, NULL, &found);
    lkt_exact_make(c, found.out, &exact);
    for (int k = 0; k < 3; k++) {
        const float *values = k == 0 ? found.out : k == 1 ? found.d_in[0] : found.d_param[0];
        const double *right = k == 0 ? exact.out : k == 1 ? exact.d_in[0] : exact.d_param[0];
        const int64_t count = k == 0   ? lkt_out_elements(c)
                              : k == 1 ? lkt_in_elements(c, 0)
                                       : lkt_param_elements(c, 0);
        double sum = 0, norm = 0;
        for (int64_t i = 0; i < count; i++) {
            sum += ((double)values[i] - right[i]) * ((double)values[i] - right[i]);
            norm += right[i] * right[i];
        }
        error[k] = sqrt(sum / norm);
    }
}

/* The variance that roundings add to a sum of n independent terms of variance 1, in units of one rounding's and of n:
 * each addition rounds what is there, in blocks of 64, groups of 16 blocks and totals in double (numerics.md, 3). */
static double roundings(int64_t n)
{
    double all = n > 1024 ? (double)n : 0;
    for (int64_t group = 0; group < n; group += 1024) {
        const int64_t end = group + 1024 < n ? group + 1024 : n;
        for (int64_t block = group; block < end; block += 64) {
            const int64_t stop = block + 64 < end ? block + 64 : end;
            all += (double)((stop - block) * (stop - block + 1)) / 2;
            all += block > group ? (double)(stop - group) : 0;
        }
    }
    return all / (double)n;
}

/* The squares of a transform's numbers, added along its rows: the variance of each line's result. */
typedef struct transforms {
    int side;
    double a[6][4], b[6],
        g[6]; /* squares of A [place][pixel], sums of squares of B' and G by place */
} transforms;

static const transforms F2 = {2, {{1, 0}, {1, 1}, {1, 1}, {0, 1}}, {2, 2, 2, 2}, {1, .75, .75, 1}};

static transforms f4_transforms(void)
{
    const double p = 0.75, q = 1.5, c = 128.0 / 243, d = 32.0 / 243;
    transforms t = {.side = 4};
    for (int i = 0; i < 6; i++) {
        const double x = i == 0 ? 0 : i < 3 ? p : q;
        for (int k = 0; k < 4; k++) t.a[i][k] = i == 5 ? k == 3 : pow(x, 2 * k);
        const double other = i < 3 ? q : p, scale = i < 3 ? c : d;
        t.b[i] = pow(other, 4) * (1 + x * x) + x * x + 1;
        t.g[i] = scale * scale * (1 + x * x + pow(x, 4));
    }
    t.b[0] = t.b[5] = pow(p * q, 4) + pow(p * p + q * q, 2) + 1;
    t.g[0] = pow(64.0 / 81, 2);
    t.g[5] = 1;
    return t;
}

/* How many times the root mean square error of direct sums of 9 n terms that of Winograd's is, by numerics.md's
 * formula: n channels, and as much for filters or tiles, as kappa is the same for all three passes. */
static double derived_ratio(const transforms *t, int64_t n)
{
    const int places = t->side + 2;
    double kappa = 0; /* of one axis, squared: the mean over pixels */
    for (int y = 0; y < t->side; y++)
        for (int x = 0; x < t->side; x++)
            for (int i = 0; i < places; i++)
                for (int j = 0; j < places; j++)
                    kappa += t->a[i][y] * t->g[i] * t->b[i] * t->a[j][x] * t->g[j] * t->b[j];
    kappa /= 9.0 * t->side * t->side;
    return sqrt(kappa * (roundings(n) + 6) / roundings(9 * n));
}

/* The rule for `auto`: a tile of 4 x 4 that erred by more than ten times as much as direct sums would not be taken.
 * Derived, it errs by at most 5.5 times as much and one of 2 x 2 by 1.8, whatever the number of channels, so that no
 * shape is refused for it. */
static void errors_are_derived(void **state)
{
    const transforms f4 = f4_transforms();
    (void)state;
    for (int64_t n = 16; n <= 1 << 16; n++) {
        assert_true(derived_ratio(&f4, n) < 5.6);
        assert_true(derived_ratio(&F2, n) < 1.85);
    }
    assert_true(derived_ratio(&f4, 1 << 16) > 5.3);
    assert_true(derived_ratio(&F2, 1 << 16) > 1.7);
}

/* What is measured is what is derived, within a quarter; positive numbers, for which nothing is derived, are no exception. */
static void errors_stay_near_those_of_direct_sums(void **state)
{
    static const int64_t channels[] = {16, 32, 64, 200};
    static const char *const names[] = {"forward", "data gradient", "weight gradient"};
    const transforms f4 = f4_transforms();
    lkt_random random = lkt_random_make("winograd errors", 141);
    int64_t padding[2] = {1, 1};
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int k = 0; k < 8; k++) {
            const int64_t in[3] = {12, 12, channels[k / 2]};
            double direct[3], error[3];
            lkt_case c;
            make_case(&c, in, 32, padding, 2, LKT_RANDOM, &random);
            for (int64_t i = 0; i < lkt_in_elements(&c, 0) && k % 2 == 1; i++)
                ((float *)c.in[0])[i] = fabsf(((float *)c.in[0])[i]);
            for (int64_t i = 0; i < lkt_out_elements(&c) && k % 2 == 1; i++)
                c.d_out[i] = fabsf(c.d_out[i]);
            c.switches.winograd = LKS_WINOGRAD_OFF;
            errors_of(&c, lkt_backends()[b], direct);
            for (int tile = 0; tile < 2; tile++) {
                c.switches.winograd = TILES[tile];
                errors_of(&c, lkt_backends()[b], error);
                for (int i = 0; i < 3; i++) {
                    print_message("%d channels, %s, f%d: %.2g, directly %.2g\n", (int)in[2],
                                  names[i], 2 + 2 * tile, error[i], direct[i]);
                    assert_true(error[i] <= (tile == 0 ? 3 : 10) * direct[i]);
                    if (k % 2 == 0 && i < 2)
                        assert_true(error[i] <=
                                    1.25 * direct[i] *
                                        derived_ratio(tile == 0 ? &F2 : &f4, i == 0 ? in[2] : 32));
                }
            }
            lkt_case_free(&c);
        }
}

/* A NaN in a pixel reaches the tiles whose patch has it, and no other. */
static void a_nan_stays_in_its_tiles(void **state)
{
    lkt_random random = lkt_random_make("winograd NaN", 142);
    const int64_t in[3] = {14, 14, 16};
    int64_t padding[2] = {0, 0};
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int tile = 0; tile < 2; tile++) {
            const int64_t side = 2 + 2 * tile, row = 5, column = 9;
            lkt_result found;
            lkt_case c;
            make_case(&c, in, 16, padding, 1, LKT_RANDOM, &random);
            c.switches.winograd = TILES[tile];
            ((float *)c.in[0])[(row * in[1] + column) * in[2] + 3] = NAN;
            lkt_run(&c, lkt_backends()[b], NULL, &(lkt_how){.no_backward = true}, &found);
            for (int64_t i = 0; i < lkt_out_elements(&c); i++) {
                const int64_t y = i / 16 / 12 / side * side, x = i / 16 % 12 / side * side;
                const bool patch = y <= row && row < y + side + 2 && x <= column &&
                                   column < x + side + 2;
                if (!patch && isnan(found.out[i]))
                    fail_msg("%s, f%d: out[%lld] is NaN", lkt_backends()[b]->name, (int)side,
                             (long long)i);
                const int64_t under_y = row - i / 16 / 12, under_x = column - i / 16 % 12;
                if (under_y >= 0 && under_y < 3 && under_x >= 0 && under_x < 3)
                    assert_true(isnan(found.out[i]));
            }
            lkt_case_free(&c);
        }
}

/* The gradient of a large weight is formed directly. */
static void weights_choose(void **state)
{
    (void)state;
    assert_true(lki_winograd_has_weight(2, 1024, 1024));
    assert_false(lki_winograd_has_weight(2, 1024, 1025));
    assert_true(lki_winograd_has_weight(4, 512, 910));
    assert_false(lki_winograd_has_weight(4, 512, 911));
}

/* `auto` goes by the shape. */
static void shapes_choose(void **state)
{
    static const struct {
        int64_t in[3], filters, padding;
        int side;
    } list[] = {
        {{26, 26, 32}, 64, 0, 4}, {{32, 32, 64}, 64, 1, 4},   {{7, 7, 512}, 512, 1, 4},
        {{6, 6, 32}, 32, 1, 4},   {{4, 4, 512}, 512, 1, 4},   {{3, 3, 64}, 64, 1, 4},
        {{4, 4, 256}, 256, 1, 4}, {{3, 3, 256}, 257, 1, 4},   {{2, 2, 512}, 512, 1, 2},
        {{2, 2, 64}, 64, 1, 2},   {{1, 1, 64}, 64, 1, 0},     {{1, 40, 64}, 64, 1, 4},
        {{2, 40, 64}, 64, 1, 4},  {{32, 32, 15}, 64, 1, 0},   {{32, 32, 64}, 15, 1, 0},
        {{4, 40, 64}, 64, 1, 4},  {{28, 28, 128}, 128, 1, 4}, {{9, 9, 20}, 20, 1, 4},
        {{5, 5, 512}, 512, 1, 4}, {{4, 5, 512}, 512, 1, 4},   {{1, 2, 64}, 64, 1, 2},
    };
    lkt_random random = lkt_random_make("winograd shapes", 143);
    (void)state;
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        int64_t padding[2] = {list[i].padding, list[i].padding};
        lkt_case c;
        make_case(&c, list[i].in, list[i].filters, padding, 1, LKT_RANDOM, &random);
        if (lki_winograd_side(lkt_first(&c), &c.switches) != list[i].side)
            fail_msg("%s: side %d, expected %d", lkt_describe(&c),
                     lki_winograd_side(lkt_first(&c), &c.switches), list[i].side);
        c.switches.winograd = LKS_WINOGRAD_OFF;
        assert_int_equal(lki_winograd_side(lkt_first(&c), &c.switches), 0);
        lkt_case_free(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_within_bounds),
        cmocka_unit_test(blocks_of_channels_are_whole_or_not),
        cmocka_unit_test(errors_are_derived),
        cmocka_unit_test(errors_stay_near_those_of_direct_sums),
        cmocka_unit_test(a_nan_stays_in_its_tiles),
        cmocka_unit_test(shapes_choose),
        cmocka_unit_test(weights_choose),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

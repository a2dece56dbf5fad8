/*
 * Convolutions by Winograd's algorithm against ref, within bounds that are derived for each element
 * (src/check/bounds_winograd.c), for each tile, wherever it can be; how much more it errs than direct sums; what
 * a NaN reaches.
 */
#include <math.h>
#include <string.h>

#include "core/winograd.h"
#include "support/backends.h"
#include "support/exact.h"
#include "support/ops.h"

/* F(2x2,3x3), F(4x4,3x3) and F(2x2,5x5). */
typedef struct tile {
    lks_winograd winograd;
    int side, kernel;
} tile;

enum { TILES = 3 };
static const tile tiles[TILES] = {
    {LKS_WINOGRAD_F2, 2, 3}, {LKS_WINOGRAD_F4, 4, 3}, {LKS_WINOGRAD_F2, 2, 5}};

static void make_case(lkt_case *c, int64_t kernel, const int64_t in[3], int64_t filters,
                      const int64_t padding[2], int64_t count, lkt_fill fill, lkt_random *random)
{
    lkt_case_begin(c);
    lks_tensor *x = lks_input(c->graph, &(lks_input_opts){.shape = LKS_SHAPE(in[0], in[1], in[2])});
    lks_tensor *y = lks_conv2d(c->graph, x,
                               &(lks_conv2d_opts){.filters = filters,
                                                  .kernel = {kernel, kernel},
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
        for (int k = 0; k < 60; k++) {
            const tile *t = &tiles[k % TILES];
            int64_t in[3], padding[2];
            lkt_case c;
            for (int i = 0; i < 2; i++) {
                padding[i] = lkt_random_below(&random, t->kernel + 1);
                in[i] = lkt_random_from(&random, padding[i] < t->kernel / 2 ? t->kernel : 1, 10);
            }
            in[2] = lkt_random_from(&random, 16, k % 10 == 0 ? 150 : 40);
            make_case(&c, t->kernel, in, lkt_random_from(&random, 16, 40), padding,
                      lkt_random_from(&random, 1, 3), k % 8 == 7 ? LKT_EXACT : LKT_RANDOM, &random);
            c.switches.winograd = t->winograd;
            assert_int_equal(lki_winograd_side(lkt_first(&c), &c.switches), t->side);
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
        for (int k = 0; k < 15; k++) {
            const tile *t = &tiles[k % TILES];
            const bool large = t->side == 4;
            const int64_t in[3] = {large ? 17 : 9, large ? 19 : 10, terms[k / TILES]};
            lkt_case c;
            make_case(&c, t->kernel, in, terms[4 - k / TILES], padding, 2, LKT_RANDOM, &random);
            c.switches.winograd = t->winograd;
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
    int side, kernel;
    double a[6][4], b[6],
        g[6]; /* squares of A [place][pixel], sums of squares of B' and G by place */
} transforms;

static const transforms F2 = {
    2, 3, {{1, 0}, {1, 1}, {1, 1}, {0, 1}}, {2, 2, 2, 2}, {1, .75, .75, 1}};

/* Those with six points. */
static transforms transforms_of(const tile *of)
{
    const double p = 0.75, q = 1.5, c = 128.0 / 243, d = 32.0 / 243;
    transforms t = {.side = of->side, .kernel = of->kernel};
    if (t.side + t.kernel == 5) return F2;
    for (int i = 0; i < 6; i++) {
        const double x = i == 0 ? 0 : i < 3 ? p : q;
        for (int k = 0; k < t.side; k++) t.a[i][k] = i == 5 ? k == t.side - 1 : pow(x, 2 * k);
        const double other = i < 3 ? q : p, scale = i < 3 ? c : d;
        t.b[i] = pow(other, 4) * (1 + x * x) + x * x + 1;
        for (int k = 0; k < t.kernel; k++) t.g[i] += scale * scale * pow(x, 2 * k);
    }
    t.b[0] = t.b[5] = pow(p * q, 4) + pow(p * p + q * q, 2) + 1;
    t.g[0] = pow(64.0 / 81, 2);
    t.g[5] = 1;
    return t;
}

/* How many times the root mean square error of direct sums of as many terms as n channels have that of Winograd's is, by numerics.md's
 * formula: n channels, and as much for filters or tiles, as kappa is the same for all three passes. */
static double derived_ratio(const transforms *t, int64_t n)
{
    const int places = t->side + t->kernel - 1, taps = t->kernel * t->kernel;
    double kappa = 0; /* of one axis, squared: the mean over pixels */
    for (int y = 0; y < t->side; y++)
        for (int x = 0; x < t->side; x++)
            for (int i = 0; i < places; i++)
                for (int j = 0; j < places; j++)
                    kappa += t->a[i][y] * t->g[i] * t->b[i] * t->a[j][x] * t->g[j] * t->b[j];
    kappa /= taps * t->side * t->side;
    return sqrt(kappa * (roundings(n) + 6) / roundings(taps * n));
}

/* The rule for `auto`: a tile of 4 x 4 that erred by more than ten times as much as direct sums would not be taken.
 * Derived, it errs by at most 5.5 times as much and one of 2 x 2 by 1.8, or with 5 x 5 taps 6.1, whatever the number of
 * channels, so that no shape is refused for it. */
static void errors_are_derived(void **state)
{
    static const double least[TILES] = {1.7, 5.3, 5.9}, most[TILES] = {1.85, 5.6, 6.1};
    (void)state;
    for (int k = 0; k < TILES; k++) {
        const transforms t = transforms_of(&tiles[k]);
        for (int64_t n = 16; n <= 1 << 16; n++) assert_true(derived_ratio(&t, n) < most[k]);
        assert_true(derived_ratio(&t, 1 << 16) > least[k]);
    }
}

/* What is measured is what is derived, within a quarter; positive numbers, for which nothing is derived, are no exception. */
static void errors_stay_near_those_of_direct_sums(void **state)
{
    static const int64_t channels[] = {16, 32, 64, 200};
    static const char *const names[] = {"forward", "data gradient", "weight gradient"};
    lkt_random random = lkt_random_make("winograd errors", 141);
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int k = 0; k < 8 * TILES; k++) {
            const tile *t = &tiles[k % TILES];
            const transforms derived = transforms_of(t);
            const int64_t in[3] = {12, 12, channels[k / TILES / 2]};
            const int64_t padding[2] = {t->kernel / 2, t->kernel / 2};
            const bool positive = k / TILES % 2 == 1;
            double direct[3], error[3];
            lkt_case c;
            make_case(&c, t->kernel, in, 32, padding, 2, LKT_RANDOM, &random);
            for (int64_t i = 0; i < lkt_in_elements(&c, 0) && positive; i++)
                ((float *)c.in[0])[i] = fabsf(((float *)c.in[0])[i]);
            for (int64_t i = 0; i < lkt_out_elements(&c) && positive; i++)
                c.d_out[i] = fabsf(c.d_out[i]);
            c.switches.winograd = LKS_WINOGRAD_OFF;
            errors_of(&c, lkt_backends()[b], direct);
            c.switches.winograd = t->winograd;
            errors_of(&c, lkt_backends()[b], error);
            for (int i = 0; i < 3; i++) {
                print_message("%d channels, %s, f%d, %d taps: %.2g, directly %.2g\n", (int)in[2],
                              names[i], t->side, t->kernel, error[i], direct[i]);
                assert_true(error[i] <= (t->side + t->kernel == 5 ? 3 : 10) * direct[i]);
                if (!positive && i < 2)
                    assert_true(error[i] <=
                                1.25 * direct[i] * derived_ratio(&derived, i == 0 ? in[2] : 32));
            }
            lkt_case_free(&c);
        }
}

/* A NaN in a pixel reaches the tiles whose patch has it, and no other. */
static void a_nan_stays_in_its_tiles(void **state)
{
    enum { SIZE = 14, ROW = 5, COLUMN = 9 };
    lkt_random random = lkt_random_make("winograd NaN", 142);
    const int64_t in[3] = {SIZE, SIZE, 16}, padding[2] = {0, 0};
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int k = 0; k < TILES; k++) {
            const int64_t side = tiles[k].side, kernel = tiles[k].kernel, out = SIZE - kernel + 1;
            const int64_t size = side + kernel - 1;
            lkt_result found;
            lkt_case c;
            make_case(&c, kernel, in, 16, padding, 1, LKT_RANDOM, &random);
            c.switches.winograd = tiles[k].winograd;
            ((float *)c.in[0])[(ROW * SIZE + COLUMN) * in[2] + 3] = NAN;
            lkt_run(&c, lkt_backends()[b], NULL, &(lkt_how){.no_backward = true}, &found);
            for (int64_t i = 0; i < lkt_out_elements(&c); i++) {
                const int64_t row = i / 16 / out, column = i / 16 % out;
                const int64_t y = row / side * side, x = column / side * side;
                const bool patch = y <= ROW && ROW < y + size && x <= COLUMN && COLUMN < x + size;
                if (!patch && isnan(found.out[i]))
                    fail_msg("%s, f%d: out[%lld] is NaN", lkt_backends()[b]->name, (int)side,
                             (long long)i);
                if (ROW >= row && ROW < row + kernel && COLUMN >= column &&
                    COLUMN < column + kernel)
                    assert_true(isnan(found.out[i]));
            }
            lkt_case_free(&c);
        }
}

/* The gradient of a large weight, and of 5 x 5 taps, is formed directly. */
static void weights_choose(void **state)
{
    (void)state;
    assert_true(lki_winograd_has_weight(2, 3, 1024, 1024));
    assert_false(lki_winograd_has_weight(2, 3, 1024, 1025));
    assert_true(lki_winograd_has_weight(4, 3, 512, 910));
    assert_false(lki_winograd_has_weight(4, 3, 512, 911));
    assert_false(lki_winograd_has_weight(2, 5, 16, 16));
}

/* `auto` goes by the shape. */
static void shapes_choose(void **state)
{
    static const struct {
        int64_t kernel, in[3], filters, padding;
        int side;
    } list[] = {
        {3, {26, 26, 32}, 64, 0, 4},  {3, {32, 32, 64}, 64, 1, 4},   {3, {7, 7, 512}, 512, 1, 4},
        {3, {6, 6, 32}, 32, 1, 4},    {3, {4, 4, 512}, 512, 1, 4},   {3, {3, 3, 64}, 64, 1, 4},
        {3, {4, 4, 256}, 256, 1, 4},  {3, {3, 3, 256}, 257, 1, 4},   {3, {2, 2, 512}, 512, 1, 2},
        {3, {2, 2, 64}, 64, 1, 2},    {3, {1, 1, 64}, 64, 1, 0},     {3, {1, 40, 64}, 64, 1, 4},
        {3, {2, 40, 64}, 64, 1, 4},   {3, {32, 32, 15}, 64, 1, 0},   {3, {32, 32, 64}, 15, 1, 0},
        {3, {4, 40, 64}, 64, 1, 4},   {3, {28, 28, 128}, 128, 1, 4}, {3, {9, 9, 20}, 20, 1, 4},
        {3, {5, 5, 512}, 512, 1, 4},  {3, {4, 5, 512}, 512, 1, 4},   {3, {1, 2, 64}, 64, 1, 2},
        {5, {27, 27, 64}, 192, 2, 2}, {5, {12, 12, 16}, 16, 0, 2},   {5, {12, 12, 15}, 16, 0, 0},
        {5, {1, 1, 64}, 64, 2, 0},    {5, {1, 2, 64}, 64, 2, 2},     {5, {3, 1, 64}, 64, 2, 2},
        {4, {9, 9, 64}, 64, 1, 0},
    };
    lkt_random random = lkt_random_make("winograd shapes", 143);
    (void)state;
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        int64_t padding[2] = {list[i].padding, list[i].padding};
        lkt_case c;
        make_case(&c, list[i].kernel, list[i].in, list[i].filters, padding, 1, LKT_RANDOM, &random);
        if (lki_winograd_side(lkt_first(&c), &c.switches) != list[i].side)
            fail_msg("%s: side %d, expected %d", lkt_describe(&c),
                     lki_winograd_side(lkt_first(&c), &c.switches), list[i].side);
        c.switches.winograd = LKS_WINOGRAD_OFF;
        assert_int_equal(lki_winograd_side(lkt_first(&c), &c.switches), 0);
        c.switches.winograd = LKS_WINOGRAD_F4; /* which 5 x 5 taps have not */
        if (list[i].kernel == 5) assert_int_equal(lki_winograd_side(lkt_first(&c), &c.switches), 0);
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

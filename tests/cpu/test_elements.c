/* Elementwise vector functions against scalar loops, to the bit: every size around the vectors',
 * any alignment, nothing written beyond; and dropout against lki_bernoulli_draw(). */
#include <math.h>
#include <string.h>

#include "cpu/vectors.h"
#include "numeric/real.h"
#include "support/optims.h"

#ifdef LKT_HAVE_CPU

enum { SIZES = 70 };

static void elements(const lki_vector *v, lkt_random *random, int64_t n)
{
    lkt_floats a = lkt_floats_make(random, n), b = lkt_floats_make(random, n);
    lkt_floats out = lkt_floats_make(random, n), expected = lkt_floats_make(random, n);
    float *e = expected.at;
    v->element->sum(n, a.at, b.at, out.at);
    for (int64_t i = 0; i < n; i++) e[i] = a.at[i] + b.at[i];
    lkt_same(v, "sum", out.at, e, n);
    v->element->add(n, out.at, b.at);
    for (int64_t i = 0; i < n; i++) e[i] += b.at[i];
    lkt_same(v, "add", out.at, e, n);
    v->element->pass(n, a.at, out.at, true);
    for (int64_t i = 0; i < n; i++) e[i] += a.at[i];
    lkt_same(v, "pass", out.at, e, n);
    v->element->relu(n, a.at, out.at);
    for (int64_t i = 0; i < n; i++) e[i] = a.at[i] > 0 ? a.at[i] : 0;
    lkt_same(v, "relu", out.at, e, n);
    v->element->relu_backward(n, a.at, b.at, out.at, true);
    for (int64_t i = 0; i < n; i++) e[i] += a.at[i] > 0 ? b.at[i] : 0;
    lkt_same(v, "relu_backward", out.at, e, n);
    lkt_floats_free(&a);
    lkt_floats_free(&b);
    lkt_floats_free(&out);
    lkt_floats_free(&expected);
}

/* Of l1 (limit 0), huber, and half of mse (no limit); with values that are equal, at the edge, not a number. */
static double length_of(double d, double limit)
{
    const double size = fabs(d), least = size > limit ? limit : size;
    if (isinf(limit)) return d * d / 2;
    return limit == 0 ? size : least * (size - least / 2);
}

static double slope_of(double d, double limit)
{
    if (limit == 0) return d > 0 ? 1 : d < 0 ? -1 : d;
    return d > limit ? limit : d < -limit ? -limit : d;
}

static void lengths_and_slopes(void **state)
{
    static const double limits[] = {0, 0.5, 1.25, (double)INFINITY};
    lkt_random random = lkt_random_make("lengths", 8);
    (void)state;
    LKT_FOR_ISAS(v)
    for (int64_t n = 1; n < SIZES; n++) {
        lkt_floats a = lkt_floats_make(&random, n), b = lkt_floats_make(&random, n);
        lkt_floats out = lkt_floats_make(&random, n), more = lkt_floats_make(&random, n);
        lkt_floats expected = lkt_floats_make(&random, n), sum = lkt_floats_make(&random, n);
        const double factor = lkt_random_real(&random, -3, 3), limit = limits[n % 4];
        double lane[8] = {0};
        b.at[n / 2] = a.at[n / 2] = 0.75f; /* equal */
        if (n > 4) b.at[n - 1] = (a.at[n - 1] = 0.25f) + (float)limit;
        if (n >
            1) { /* a difference that is flushed, and would be seen beside what it is added to */
            a.at[0] = 0;
            b.at[0] = 0x1p-66f;
            more.at[0] = 0x1p-62f;
        }
        for (int64_t i = 0; i < n; i++) {
            const double away = (double)a.at[i] - (double)b.at[i];
            lane[i % 8] += length_of(away, limit);
            expected.at[i] = lki_flush((float)(slope_of(away, limit) * factor));
            sum.at[i] = lki_flush(more.at[i] + expected.at[i]);
        }
        const double length = ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
                              ((lane[1] + lane[5]) + (lane[3] + lane[7]));
        const double found = v->element->lengths(n, limit, a.at, b.at);
        if (memcmp(&found, &length, sizeof found) != 0)
            fail_msg("%s: length %.17g, expected %.17g", v->name, found, length);
        v->element->slopes(n, factor, limit, a.at, b.at, out.at, false);
        lkt_same(v, "slopes", out.at, expected.at, n);
        v->element->slopes(n, factor, limit, a.at, b.at, more.at, true);
        lkt_same(v, "slopes, added", more.at, sum.at, n);
        a.at[0] = NAN;
        v->element->slopes(n, factor, limit, a.at, b.at, out.at, false);
        assert_true(isnan(out.at[0]) && isnan(v->element->lengths(n, limit, a.at, b.at)));
        lkt_floats *all[] = {&a, &b, &out, &more, &expected, &sum};
        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) lkt_floats_free(all[i]);
    }
}

/* Against lki_exp(): the same bits down to e^-200, and 0 below; some are in the middle of two powers of 2. */
static void shares_are_exponentials(void **state)
{
    lkt_random random = lkt_random_make("shares", 7);
    (void)state;
    LKT_FOR_ISAS(v)
    for (int64_t n = 1; n < SIZES; n++) {
        lkt_floats x = lkt_floats_make(&random, n);
        double out[SIZES];
        const double from = (double)lkt_random_from(&random, 0, 3) / 3;
        for (int64_t i = 0; i < n; i++) x.at[i] = -fabsf(x.at[i]) * (i % 3 == 0 ? 150 : 1);
        x.at[0] = n % 3 == 0 ? 0 : n % 3 == 1 ? -INFINITY : -0.34657359f;
        v->element->shares(n, x.at, from, out);
        for (int64_t i = 0; i < n; i++) {
            const double at = (double)x.at[i] - from, expected = at < -200 ? 0 : lki_exp(at);
            if (memcmp(&out[i], &expected, sizeof expected) != 0)
                fail_msg("%s: e^%.17g is %a, expected %a", v->name, at, out[i], expected);
        }
        lkt_floats_free(&x);
    }
}

/* Of more values than a chunk has, of which the largest may be anywhere. */
static void check_answers(const lki_vector *v, lkt_random *random, int64_t n)
{
    lkt_floats x = lkt_floats_make(random, n), out = lkt_floats_make(random, n),
               more = lkt_floats_make(random, n);
    const double from = lkt_random_real(random, 1, 3), factor = lkt_random_real(random, -1, 1);
    double lane[8] = {0}, rest = lkt_random_real(random, 0, .1);
    for (int64_t i = 0; i < n; i++) x.at[i] *= i % 5 == 0 ? 60 : 1;
    const int64_t place = lkt_random_from(random, 0, (int)n - 1);
    x.at[place] = 61;
    assert_true(v->element->most(n, x.at) == 61);
    x.at[place] = lkt_random_chance(random, 2) ? -INFINITY : -.5f;
    if (lkt_random_chance(random, 4)) rest = 0; /* what is small alone is stored as 0 */
    memcpy(more.at, out.at, sizeof(float) * (size_t)n);
    v->element->answers(n, factor, rest, x.at, from, more.at, true);
    for (int64_t i = 0; i < n; i++) {
        const double at = (double)x.at[i] - from, share = at < -200 ? 0 : lki_exp(at);
        const float plain = lki_round(factor * (share - rest)),
                    added = lki_flush(out.at[i] + plain);
        lane[i % 8] += share;
        lkt_same(v, "answer that is added", &more.at[i], &added, 1);
        v->element->answers(1, factor, rest, &x.at[i], from, &out.at[i], false);
        lkt_same(v, "answer alone", &out.at[i], &plain, 1);
    }
    v->element->answers(n, factor, rest, x.at, from, more.at, false);
    lkt_same(v, "answers", more.at, out.at, n);
    const double sum = ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
                       ((lane[1] + lane[5]) + (lane[3] + lane[7]));
    const double found = v->element->sum_shares(n, x.at, from);
    if (memcmp(&found, &sum, sizeof sum) != 0)
        fail_msg("%s: sum of %lld is %a, expected %a", v->name, (long long)n, found, sum);
    lkt_floats_free(&x);
    lkt_floats_free(&out);
    lkt_floats_free(&more);
}

static void answers_are_what_shares_are_above(void **state)
{
    lkt_random random = lkt_random_make("answers", 9);
    (void)state;
    LKT_FOR_ISAS(v)
    {
        for (int64_t n = 1; n < SIZES; n++) check_answers(v, &random, n);
        for (int64_t n = 250; n < 1100; n += 37) check_answers(v, &random, n);
    }
}

static void products(const lki_vector *v, lkt_random *random, int64_t n)
{
    lkt_floats a = lkt_floats_make(random, n), b = lkt_floats_make(random, n);
    lkt_floats out = lkt_floats_make(random, n), expected = lkt_floats_make(random, n);
    float *e = expected.at;
    v->product->scale(n, -1.3f, a.at, out.at, false);
    for (int64_t i = 0; i < n; i++) e[i] = a.at[i] * -1.3f;
    lkt_same(v, "scale", out.at, e, n);
    v->product->scale(n, .7f, b.at, out.at, true);
    for (int64_t i = 0; i < n; i++) e[i] += b.at[i] * .7f;
    lkt_same(v, "scale, added", out.at, e, n);
    v->product->product(n, a.at, b.at, out.at, false);
    for (int64_t i = 0; i < n; i++) e[i] = a.at[i] * b.at[i];
    lkt_same(v, "product", out.at, e, n);
    v->product->product(n, a.at, a.at, out.at, true);
    for (int64_t i = 0; i < n; i++) e[i] += a.at[i] * a.at[i];
    lkt_same(v, "product, added", out.at, e, n);
    lkt_floats_free(&a);
    lkt_floats_free(&b);
    lkt_floats_free(&out);
    lkt_floats_free(&expected);
}

static void elementwise(void **state)
{
    lkt_random random = lkt_random_make("elementwise", 70);
    (void)state;
    LKT_FOR_ISAS(v)
    for (int64_t n = 0; n < SIZES; n++) {
        elements(v, &random, n);
        products(v, &random, n);
    }
}

/* A matrix and a vector with a value for each of its columns. */
static void columns_of_a_matrix(void **state)
{
    lkt_random random = lkt_random_make("columns_of_a_matrix", 74);
    (void)state;
    LKT_FOR_ISAS(v)
    for (int64_t columns = 1; columns < SIZES; columns++) {
        const int64_t rows = lkt_random_from(&random, 1, 9), n = rows * columns;
        lkt_floats a = lkt_floats_make(&random, n), b = lkt_floats_make(&random, n);
        lkt_floats x = lkt_floats_make(&random, columns), out = lkt_floats_make(&random, n);
        lkt_floats sums = lkt_floats_make(&random, columns);
        float *e = lkt_scratch(sizeof(float) * (size_t)n);
        v->product->rows_plus(rows, columns, a.at, x.at, out.at);
        for (int64_t i = 0; i < n; i++) e[i] = a.at[i] + x.at[i % columns];
        lkt_same(v, "rows_plus", out.at, e, n);
        v->product->rows_times(rows, columns, a.at, x.at, out.at, true);
        for (int64_t i = 0; i < n; i++) e[i] += a.at[i] * x.at[i % columns];
        lkt_same(v, "rows_times", out.at, e, n);
        v->product->column_sums(rows, columns, a.at, sums.at, false);
        for (int64_t c = 0; c < columns; c++) {
            double sum = 0;
            for (int64_t i = c; i < n; i += columns) sum += (double)a.at[i];
            e[c] = (float)sum;
        }
        lkt_same(v, "column_sums", sums.at, e, columns);
        v->product->column_products(rows, columns, a.at, b.at, sums.at, true);
        for (int64_t c = 0; c < columns; c++) {
            double sum = 0;
            for (int64_t i = c; i < n; i += columns) sum += (double)a.at[i] * (double)b.at[i];
            e[c] += (float)sum;
        }
        lkt_same(v, "column_products", sums.at, e, columns);
        lkt_floats_free(&a);
        lkt_floats_free(&b);
        lkt_floats_free(&x);
        lkt_floats_free(&out);
        lkt_floats_free(&sums);
        free(e);
    }
}

static void transposes(void **state)
{
    lkt_random random = lkt_random_make("transposes", 71);
    (void)state;
    LKT_FOR_ISAS(v)
    for (int k = 0; k < 60; k++) {
        const int64_t rows = lkt_random_from(&random, 1, 21);
        const int64_t columns = lkt_random_from(&random, 1, 21);
        lkt_floats in = lkt_floats_make(&random, rows * columns);
        lkt_floats out = lkt_floats_make(&random, rows * columns);
        v->element->transpose(rows, columns, in.at, out.at, false);
        v->element->transpose(rows, columns, in.at, out.at, true);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < columns; c++)
                assert_true(out.at[c * rows + r] == 2 * in.at[r * columns + c]);
        lkt_floats_free(&in);
        lkt_floats_free(&out);
    }
}

/* One update of n elements, from the same values every time. */
enum { UPDATED = 83 };

/* The parameters, and behind them what the optimizer keeps. */
static void update_once(const lki_vector *v, const lki_update *update, int64_t cut,
                        float value[1 + LKI_MAX_STATES][UPDATED])
{
    const int64_t n = UPDATED;
    lkt_random random = {.state = 5};
    float *sums = lkt_scratch(sizeof(float) * (size_t)(n + 1));
    for (int64_t i = 0; i < n; i++) {
        sums[i] = (float)lkt_random_real(&random, -8.0, 8.0);
        value[0][i] = (float)lkt_random_real(&random, -1.0, 1.0);
        for (int a = 1; a <= LKI_MAX_STATES; a++)
            value[a][i] = (float)lkt_random_real(&random, 0.0, 1.0);
    }
    for (int part = 0; part < 2; part++) {
        float *state[LKI_MAX_STATES];
        const int64_t first = part == 0 ? 0 : cut, count = part == 0 ? cut : n - cut;
        for (int a = 0; a < LKI_MAX_STATES; a++) state[a] = value[1 + a] + first;
        v->element->update(update, count, value[0] + first, state, sums + first);
    }
    free(sums);
}

/* The update rounds every product, so all instruction sets agree; and ranges do not matter. */
static void updates(void **state)
{
    lki_update update = {.lr = .1f,
                         .scale = 1.0f / 61,
                         .step = 2,
                         .correction1 = 1 - .81,
                         .correction2 = 1 - .998001};
    const char *name;
    (void)state;
    for (int k = 0; (name = lkt_optim(k, &update.optim)) != NULL; k++) {
        float expected[1 + LKI_MAX_STATES][UPDATED], found[1 + LKI_MAX_STATES][UPDATED];
        update_once(lki_cpu_vector_find("portable"), &update, 0, expected);
        LKT_FOR_ISAS(v)
        for (int64_t cut = 0; cut <= UPDATED; cut++) {
            update_once(v, &update, cut, found);
            lkt_same(v, name, found[0], expected[0], (1 + LKI_MAX_STATES) * UPDATED);
        }
    }
}

static void dropout_draws_as_base_does(void **state)
{
    static const double probability[] = {.5, .25, .0625, .75, .1, .3, .99, 0, 3.0 / 256, 1};
    lkt_random random = lkt_random_make("dropout_draws_as_base_does", 72);
    (void)state;
    LKT_FOR_ISAS(v)
    for (int k = 0; k < 120; k++) {
        const lki_bernoulli event = lki_bernoulli_make(probability[k % 10]);
        const uint64_t key = lkt_random_bits(&random), step = lkt_random_bits(&random);
        const uint32_t position = (uint32_t)lkt_random_bits(&random);
        const int64_t first = lkt_random_below(&random, k % 3 == 0 ? 1 : 3000);
        const int64_t count = lkt_random_below(&random, k % 7 == 0 ? 40000 : 700);
        uint8_t *found = malloc((size_t)count + 1), *expected = malloc((size_t)count + 1);
        assert_true(found != NULL && expected != NULL);
        found[count] = 77;
        v->dropout->draw(&event, key, step, position, first, count, found);
        lki_bernoulli_draw(&event, key, step, position, first, count, expected);
        assert_memory_equal(found, expected, (size_t)count);
        assert_int_equal(found[count], 77);
        free(found);
        free(expected);
    }
}

static void dropped_elements(void **state)
{
    lkt_random random = lkt_random_make("dropped_elements", 73);
    (void)state;
    LKT_FOR_ISAS(v)
    for (int64_t n = 0; n < SIZES; n++) {
        lkt_floats in = lkt_floats_make(&random, n), out = lkt_floats_make(&random, n);
        uint8_t dropped[SIZES];
        float expected[SIZES];
        for (int64_t i = 0; i < n; i++) dropped[i] = lkt_random_bits(&random) & 1;
        for (int64_t i = 0; i < n; i++)
            expected[i] = out.at[i] + (dropped[i] ? 0 : in.at[i] * 1.25f);
        v->dropout->apply(n, dropped, 1.25f, in.at, out.at, true);
        lkt_same(v, "apply", out.at, expected, n);
        lkt_floats_free(&in);
        lkt_floats_free(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise),
        cmocka_unit_test(lengths_and_slopes),
        cmocka_unit_test(shares_are_exponentials),
        cmocka_unit_test(answers_are_what_shares_are_above),
        cmocka_unit_test(columns_of_a_matrix),
        cmocka_unit_test(transposes),
        cmocka_unit_test(updates),
        cmocka_unit_test(dropout_draws_as_base_does),
        cmocka_unit_test(dropped_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0; /* the cpu backend was not built */
}

#endif

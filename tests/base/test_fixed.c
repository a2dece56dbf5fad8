/* Exact sums. */
#include "support/test.h"

#include <float.h>
#include <math.h>

#include "numeric/fixed.h"

static lki_fixed of(double x)
{
    lki_fixed sum = {0};
    lki_fixed_add(&sum, x);
    return sum;
}

static void check(double x, int64_t high, uint64_t low)
{
    const lki_fixed sum = of(x);
    if (sum.high != high || sum.low != low) {
        fail_msg("%a gives %lld, %llu; expected %lld, %llu", x, (long long)sum.high,
                 (unsigned long long)sum.low, (long long)high, (unsigned long long)low);
    }
}

static void known_values(void **state)
{
    (void)state;
    check(0, 0, 0);
    check(-0.0, 0, 0);
    check(1, 0, UINT64_C(1) << 32);
    check(-1, -1, UINT64_C(0xffffffff00000000));
    check(0x1p-32, 0, 1);
    check(-0x1p-32, -1, UINT64_MAX);
    check(0x1p32, 1, 0);
    check(-0x1p32, -1, 0);
    /* Ties go to even, and what is not a tie to the nearer side. */
    check(0x1p-33, 0, 0);
    check(0x1.8p-32, 0, 2);
    check(0x1.4p-31, 0, 2);
    check(0x1.cp-31, 0, 4);
    check(nextafter(0x1p-33, 1), 0, 1);
    check(nextafter(0x1p-33, 0), 0, 0);
    check(nextafter(0x1.8p-32, 0), 0, 1);
    check(-0x1.8p-32, -1, UINT64_MAX - 1);
    check(0x1p-34, 0, 0);
    check(DBL_MIN, 0, 0);
    check(DBL_TRUE_MIN, 0, 0);
    check(-DBL_MAX, -(INT64_C(1) << 30), 0);
    /* The clamp at 2^62. */
    check(0x1p62, INT64_C(1) << 30, 0);
    check(0x1.8p62, INT64_C(1) << 30, 0);
    check(0x1p63, INT64_C(1) << 30, 0);
    check(DBL_MAX, INT64_C(1) << 30, 0);
    check(nextafter(0x1p62, 0), (INT64_C(1) << 30) - 1, UINT64_C(0xfffffe0000000000) + 0);
}

/* Where 2^32 x fits a double's integers, rounding it is the definition. */
static void against_rounding(void **state)
{
    (void)state;
    lkt_random random = lkt_random_make("against_rounding", 1);
    for (int i = 0; i < 200000; i++) {
        const int exponent = (int)lkt_random_from(&random, -40, 18);
        const double x = ldexp(lkt_random_real(&random, -1, 1), exponent);
        const int64_t expected = llrint(x * 0x1p32);
        check(x, expected < 0 ? -1 : 0, (uint64_t)expected);
    }
}

/* Any order and any grouping give the same bits; and the value is the exact sum, rounded once. */
static void order_does_not_matter(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    double values[COUNT];
    lkt_random random = lkt_random_make("order_does_not_matter", 2);
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < COUNT; i++) {
            values[i] = ldexp(lkt_random_real(&random, -1, 1),
                              (int)lkt_random_from(&random, -50, 60));
        }
        lki_fixed forward = {0};
        for (int i = 0; i < COUNT; i++) lki_fixed_add(&forward, values[i]);
        for (int i = COUNT - 1; i > 0; i--) { /* shuffle (Fisher, Yates) */
            const int64_t j = lkt_random_below(&random, i + 1);
            const double kept = values[i];
            values[i] = values[j];
            values[j] = kept;
        }
        lki_fixed parts[7] = {{0}}, merged = {0};
        for (int i = 0; i < COUNT; i++) {
            lki_fixed_add(&parts[lkt_random_below(&random, 7)], values[i]);
        }
        for (int i = 6; i >= 0; i--) lki_fixed_merge(&merged, parts[i]);
        assert_int_equal(merged.high, forward.high);
        assert_int_equal(merged.low, forward.low);
        for (int i = 0; i < COUNT; i++) lki_fixed_add(&merged, -values[i]);
        assert_int_equal(merged.high, 0);
        assert_int_equal(merged.low, 0);
    }
}

static void many_of_the_largest(void **state)
{
    (void)state;
    lki_fixed sum = of(-0x1p62);
    for (int i = 0; i < 32; i++) lki_fixed_merge(&sum, sum); /* 2^32 of them */
    assert_int_equal(sum.high, INT64_MIN / 2);
    assert_int_equal(sum.low, 0);
    assert_true(lki_fixed_value(sum) == -0x1p94);
}

static void values(void **state)
{
    (void)state;
    static const struct {
        lki_fixed sum;
        double value;
    } known[] = {
        {{0, 0}, 0},
        {{0, 1}, 0x1p-32},
        {{-1, UINT64_MAX}, -0x1p-32},
        {{0, UINT64_C(3) << 31}, 1.5},
        {{1, 0}, 0x1p32},
        {{1, 1}, 0x1p32},                       /* 2^64 + 1 */
        {{0, (UINT64_C(1) << 53) + 1}, 0x1p21}, /* a tie, to even */
        {{0, (UINT64_C(1) << 53) + 3}, 0x1.0000000000002p21},
        {{-1, UINT64_MAX - (UINT64_C(1) << 53)}, -0x1p21}, /* -(2^53 + 1) */
        {{INT64_MAX, UINT64_MAX}, 0x1p95},
        {{INT64_MIN, 0}, -0x1p95},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        assert_true(lki_fixed_value(known[i].sum) == known[i].value);
    }
    lkt_random random = lkt_random_make("values", 3);
    for (int i = 0; i < 100000; i++) { /* a multiple of 2^-32 that is a double comes back */
        const double x = ldexp(
            (double)(lkt_random_from(&random, -(INT64_C(1) << 53), INT64_C(1) << 53)),
            (int)lkt_random_from(&random, -32, 9));
        assert_true(lki_fixed_value(of(x)) == x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values),
        cmocka_unit_test(against_rounding),
        cmocka_unit_test(order_does_not_matter),
        cmocka_unit_test(many_of_the_largest),
        cmocka_unit_test(values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

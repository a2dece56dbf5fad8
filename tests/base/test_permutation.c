/* The order of samples. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "numeric/permutation.h"

static void is_bijection(uint64_t seed, int64_t epoch, int64_t count)
{
    const lki_permutation order = lki_permutation_make(seed, epoch, count);
    uint8_t *seen = calloc((size_t)count, 1);
    assert_non_null(seen);
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = lki_permutation_at(&order, i);
        assert_true(at >= 0 && at < count);
        assert_int_equal(seen[at], 0);
        seen[at] = 1;
    }
    free(seen);
}

static void bijections(void **state)
{
    (void)state;
    static const int64_t counts[] = {97,   1000,  1024,    1025,         4095,
                                     9973, 60000, 1 << 16, (1 << 16) + 1};
    for (int64_t count = 1; count <= 70; count++) {
        for (int64_t epoch = 0; epoch < 5; epoch++) is_bijection(7, epoch, count);
    }
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) is_bijection(1, 3, counts[i]);
    lkt_random random = lkt_random_make("bijections", 4);
    for (int i = 0; i < 50; i++) {
        is_bijection(lkt_random_bits(&random), lkt_random_below(&random, 1 << 20),
                     lkt_random_from(&random, 1, 5000));
    }
}

/* The domain is less than four times the count (at least 1), so a walk takes less than four steps
 * on average. */
static void domains_are_small(void **state)
{
    (void)state;
    assert_int_equal(lki_permutation_make(0, 0, 1).half_bits, 0);
    assert_int_equal(lki_permutation_make(0, 0, 2).half_bits, 1);
    for (int64_t count = 2; count < 70000; count += 1 + count / 50) {
        const unsigned half_bits = lki_permutation_make(0, 0, count).half_bits;
        assert_true((INT64_C(1) << 2 * half_bits) >= count);
        assert_true((INT64_C(1) << 2 * half_bits) < 4 * count);
    }
    const lki_permutation huge = lki_permutation_make(0, 0, INT64_C(1) << 61);
    const int64_t at = lki_permutation_at(&huge, (INT64_C(1) << 61) - 1);
    assert_true(at >= 0 && at < INT64_C(1) << 61);
}

/* Positions on which two orders agree: about one of random orders (Poisson with mean 1). */
static int64_t agreements(lki_permutation a, lki_permutation b)
{
    int64_t equal = 0;
    for (int64_t i = 0; i < a.count; i++) {
        equal += lki_permutation_at(&a, i) == lki_permutation_at(&b, i);
    }
    return equal;
}

static void differ(void **state)
{
    (void)state;
    const lki_permutation first = lki_permutation_make(1, 0, 10000);
    assert_int_equal(agreements(first, lki_permutation_make(1, 0, 10000)), 10000);
    assert_true(agreements(first, lki_permutation_make(1, 1, 10000)) < 10);
    assert_true(agreements(first, lki_permutation_make(2, 0, 10000)) < 10);
    assert_true(agreements(first, lki_permutation_make(1, INT64_C(1) << 32, 10000)) < 10);
    assert_true(agreements(first, lki_permutation_make(UINT64_C(1) << 32 | 1, 0, 10000)) < 10);
}

/* All orders of four things are about equally frequent over epochs: chi-square with 23 degrees of
 * freedom is below 58 with probability 1 - 8e-5; the epochs are fixed, so it holds or it does not. */
static void small_orders_are_uniform(void **state)
{
    (void)state;
    enum { EPOCHS = 24000 };
    int seen[256] = {0};
    for (int64_t epoch = 0; epoch < EPOCHS; epoch++) {
        const lki_permutation order = lki_permutation_make(5, epoch, 4);
        int code = 0;
        for (int64_t i = 0; i < 4; i++) code = code * 4 + (int)lki_permutation_at(&order, i);
        seen[code]++;
    }
    double chi2 = 0;
    int kinds = 0;
    for (int i = 0; i < 256; i++) {
        if (!seen[i]) continue;
        kinds++;
        chi2 += (seen[i] - EPOCHS / 24.0) * (seen[i] - EPOCHS / 24.0) / (EPOCHS / 24.0);
    }
    assert_int_equal(kinds, 24);
    if (chi2 >= 58) fail_msg("chi-square is %g", chi2);
}

/* Where the first of 101 samples lands over epochs: 100 degrees of freedom, below 161 with
 * probability 1 - 1e-4. And consecutive samples land apart: the mean distance of two random places
 * is a third of the count. */
static void large_orders_are_uniform(void **state)
{
    (void)state;
    enum { EPOCHS = 20200, COUNT = 101 };
    int seen[COUNT] = {0};
    double distance = 0;
    for (int64_t epoch = 0; epoch < EPOCHS; epoch++) {
        const lki_permutation order = lki_permutation_make(5, epoch, COUNT);
        const int64_t at = lki_permutation_at(&order, 0), next = lki_permutation_at(&order, 1);
        seen[at]++;
        distance += (double)llabs(at - next);
    }
    double chi2 = 0;
    for (int i = 0; i < COUNT; i++) {
        chi2 += (seen[i] - EPOCHS / (double)COUNT) * (seen[i] - EPOCHS / (double)COUNT) /
                (EPOCHS / (double)COUNT);
    }
    if (chi2 >= 161) fail_msg("chi-square is %g", chi2);
    /* (COUNT + 1) / 3 = 34 with a standard deviation of 24 / sqrt(20200) = 0.17. */
    const double mean = distance / EPOCHS;
    if (mean < 34 - 0.7 || mean > 34 + 0.7) fail_msg("the mean distance is %g", mean);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bijections),
        cmocka_unit_test(domains_are_small),
        cmocka_unit_test(differ),
        cmocka_unit_test(small_orders_are_uniform),
        cmocka_unit_test(large_orders_are_uniform),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Samples in parts. */
#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/comm.h>

#include "support/test.h"

#include "numeric/permutation.h"

/* Each sample once, in the order of numerics.md; no part further than 1 from its fraction. */
static void parts_of(void **state)
{
    enum { PARTS = 4, MOST = 1000 };
    const double fractions[][PARTS] = {
        {1, 1, 1, 1}, {0.1, 0.2, 0.3, 0.4}, {0, 3, 0, 1}, {1e-9, 1e9, 5, 0}};
    static int64_t order[MOST];
    int64_t start[PARTS + 1];
    (void)state;
    for (int f = 0; f < 4; f++) {
        for (int64_t samples = 0; samples <= MOST; samples = samples * 2 + 1) {
            static bool seen[MOST];
            double sum = 0;
            memset(seen, 0, sizeof seen);
            LKT_OK(lks_partition(samples, fractions[f], PARTS, 9, order, start));
            for (int64_t i = 0; i < samples; i++) {
                const lki_permutation permutation = lki_permutation_make(9, 0, samples);
                assert_int_equal(order[i], lki_permutation_at(&permutation, i));
                assert_false(seen[order[i]]);
                seen[order[i]] = true;
            }
            for (int k = 0; k < PARTS; k++) sum += fractions[f][k];
            assert_int_equal(start[0], 0);
            assert_int_equal(start[PARTS], samples);
            for (int k = 0; k < PARTS; k++) {
                const double exact = fractions[f][k] / sum * (double)samples;
                assert_true(fabs((double)(start[k + 1] - start[k]) - exact) <= 1 + 1e-9);
            }
        }
    }
}

/* Three tenths are three tenths, though 0.1 + 0.2 is not; nothing is lost of what three cannot share;
 * and the program's rounding has no say. */
static void borders_are_whole(void **state)
{
    int64_t order[50000], start[4], again[4];
    const double third[] = {1, 1, 1}, tenths[] = {0.1, 0.2, 0.7};
    (void)state;
    LKT_OK(lks_partition(50000, third, 3, 1234, order, start));
    assert_int_equal(start[1], 16667);
    assert_int_equal(start[2], 33333);
    assert_int_equal(start[3], 50000);
    for (int mode = 0; mode < 3; mode++) {
        const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TONEAREST};
        fesetround(modes[mode]);
        const lks_status status = lks_partition(10, tenths, 3, 0, order, again);
        fesetround(FE_TONEAREST);
        assert_int_equal(status, LKS_OK);
        assert_int_equal(again[1], 1);
        assert_int_equal(again[2], 3);
    }
}

static void refuses(void **state)
{
    int64_t order[10], start[3];
    const double good[] = {1, 2}, none[] = {0, 0}, bad[] = {1, -1}, wild[] = {1, NAN};
    (void)state;
    LKT_FAILS(LKS_E_INVALID, "got -1 samples", lks_partition(-1, good, 2, 0, order, start));
    LKT_FAILS(LKS_E_INVALID, "got 0 parts", lks_partition(10, good, 0, 0, order, start));
    LKT_FAILS(LKS_E_INVALID, "all 2 fractions", lks_partition(10, none, 2, 0, order, start));
    LKT_FAILS(LKS_E_INVALID, "fraction 1 of a partition is -1",
              lks_partition(10, bad, 2, 0, order, start));
    LKT_FAILS(LKS_E_INVALID, "fraction 1 of a partition is nan",
              lks_partition(10, wild, 2, 0, order, start));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of),
        cmocka_unit_test(borders_are_whole),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

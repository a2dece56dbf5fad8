/* Eigenvectors: what they are by definition, in order, and with the bits that everybody gets. */
#include "support/test.h"

#include <math.h>
#include <string.h>

#include "numeric/eigen.h"
#include "numeric/hash.h"

enum { MOST = 64 };

static uint64_t state;

/* Between -1 and 1; a multiple of 2^-31. */
static double drawn(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int32_t)(state >> 32) * 0x1p-31;
}

/* Of n rotations and sums the error is below 50 n units of the last place of the largest entry. */
static void check(const double *matrix, const double *value, const double *vector, int n)
{
    double size = 0;
    for (int i = 0; i < n * n; i++) size = fmax(size, fabs(matrix[i]));
    const double bound = 50 * n * n * 0x1p-53;
    for (int i = 0; i < n; i++) {
        const double *v = vector + i * n;
        double most = 0;
        for (int k = 0; k < n; k++) {
            double sum = 0, dot = 0;
            for (int j = 0; j < n; j++) {
                sum += matrix[k * n + j] * v[j];
                dot += v[j] * vector[k * n + j];
            }
            assert_true(fabs(sum - value[i] * v[k]) <= bound * size);
            assert_true(fabs(dot - (i == k)) <= bound);
            if (fabs(v[k]) > fabs(most)) most = v[k];
        }
        assert_true(most > 0);
        assert_true(i == 0 || value[i] <= value[i - 1]);
    }
}

static void solve(const double *matrix, double *value, double *vector, int n)
{
    static double a[MOST * MOST];
    memcpy(a, matrix, (size_t)(n * n) * sizeof *a);
    for (int i = 0; i < n; i++) /* the upper half is not read */
        for (int k = i + 1; k < n; k++) a[i * n + k] = (double)NAN;
    lki_eigen_symmetric(a, value, vector, n);
    check(matrix, value, vector, n);
}

static void vectors_are_what_they_are(void **state_)
{
    static const int sizes[] = {1, 2, 3, 12, 27, MOST};
    static double matrix[MOST * MOST], value[MOST], vector[MOST * MOST];
    (void)state_;
    state = 1;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const int n = sizes[s];
        for (int turn = 0; turn < 20; turn++) {
            for (int i = 0; i < n; i++)
                for (int k = 0; k <= i; k++) matrix[i * n + k] = matrix[k * n + i] = drawn();
            solve(matrix, value, vector, n);
        }
    }
}

/* Moments of something that has fewer dimensions, equal values, zeros, sizes far apart. */
static void hard_ones_too(void **state_)
{
    enum { N = 12, THIN = 3 };
    static double matrix[N * N], value[N], vector[N * N];
    (void)state_;
    state = 2;
    for (int turn = 0; turn < 50; turn++) {
        memset(matrix, 0, sizeof matrix);
        for (int p = 0; p < THIN; p++) {
            double x[N];
            for (int i = 0; i < N; i++) x[i] = drawn();
            for (int i = 0; i < N; i++)
                for (int k = 0; k < N; k++) matrix[i * N + k] += x[i] * x[k];
        }
        solve(matrix, value, vector, N);
        for (int i = THIN; i < N; i++) assert_true(fabs(value[i]) < 1e-13);
    }
    memset(matrix, 0, sizeof matrix);
    solve(matrix, value, vector, N);
    for (int i = 0; i < N; i++) assert_true(value[i] == 0);
    for (int i = 0; i < N; i++) matrix[i * N + i] = i % 3;
    solve(matrix, value, vector, N);
    for (int i = 0; i < N; i++) assert_true(value[i] == 2 - i / 4);
    for (int i = 0; i < N; i++) matrix[i * N + i] = ldexp(1, -40 * i);
    matrix[1] = matrix[N] = ldexp(1, -30);
    solve(matrix, value, vector, N);
}

static void the_bits_are_everybodys(void **state_)
{
    enum { N = 27 };
    static const uint64_t VALUES = 0x5323a7eda19c2f92u, VECTORS = 0x8fa53ec397172ed6u;
    static double matrix[N * N], value[N], vector[N * N];
    (void)state_;
    state = 3;
    for (int i = 0; i < N; i++)
        for (int k = 0; k <= i; k++) matrix[i * N + k] = matrix[k * N + i] = drawn();
    solve(matrix, value, vector, N);
    assert_int_equal(lki_hash(value, sizeof value), VALUES);
    assert_int_equal(lki_hash(vector, sizeof vector), VECTORS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_are_what_they_are),
        cmocka_unit_test(hard_ones_too),
        cmocka_unit_test(the_bits_are_everybodys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

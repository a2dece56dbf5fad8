/* Weighted means over ranks: of any cut of the samples they are the mean over all. */
#include <fenv.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/ranks/fake.h"
#include "support/test.h"

/*
 * A linear model by hand: loss of a sample (w.x - y)^2 / 2, gradient (w.x - y) x. Numbers are small
 * integers, so that every sum is exact and a mean is rounded once: what two ways of forming the same
 * mean differ by is nothing at all.
 */
enum { WIDTH = 6, SAMPLES = 101 };

static void gradient_of(const int64_t *samples, int64_t count, float mean[WIDTH])
{
    double sum[WIDTH] = {0};
    for (int64_t i = 0; i < count; i++) {
        double x[WIDTH], error = -(double)(samples[i] % 5);
        for (int k = 0; k < WIDTH; k++) {
            x[k] = (double)(samples[i] * (k + 3) % 7) - 3;
            error += (k - 2) * x[k];
        }
        for (int k = 0; k < WIDTH; k++) sum[k] += error * x[k];
    }
    for (int k = 0; k < WIDTH; k++) mean[k] = (float)(sum[k] / (double)count);
}

/* Sums of a part over powers of two are exact as floats, so parts have 1, 4, 32 and 64 samples. */
static int large_batch(lks_comm *comm, int rank, void *user)
{
    const double fractions[] = {1, 4, 32, 64};
    int64_t order[SAMPLES], start[5];
    float whole[WIDTH], mine[WIDTH], plain[WIDTH];
    (void)user;
    LKT_CHECK(lks_partition(SAMPLES, fractions, 4, 3, order, start) == LKS_OK);
    gradient_of(order, SAMPLES, whole);
    const int64_t count = start[rank + 1] - start[rank];
    LKT_CHECK(count == (int64_t)fractions[rank]);
    gradient_of(order + start[rank], count, mine);
    memcpy(plain, mine, sizeof plain);
    float *const arrays[] = {mine}, *const plains[] = {plain};
    LKT_CHECK(lks_comm_average(comm, arrays, &(int64_t){WIDTH}, 1, (double)count) == LKS_OK);
    LKT_CHECK(memcmp(mine, whole, sizeof mine) == 0);
    /* Which the mean of means is not. */
    LKT_CHECK(lks_comm_average(comm, plains, &(int64_t){WIDTH}, 1, 1) == LKS_OK);
    LKT_CHECK(fabsf(plain[0] - whole[0]) > 0.01f);
    return 0;
}

static void is_the_large_batch(void **state)
{
    (void)state;
    lkt_ranks(&(lkt_hub_opts){.size = 4}, NULL, large_batch, NULL);
    lkt_ranks(&(lkt_hub_opts){.size = 4, .seed = 5, .delay = 10}, NULL, large_batch, NULL);
}

/* Rank r's number i. */
static float number(int rank, int64_t i)
{
    lkt_random random = {(uint64_t)(rank * 1000003 + i)};
    return (float)ldexp(lkt_random_real(&random, -1, 1), (int)(i % 40) - 20);
}

/* The formula of comm.h, on one core; arrays of many sizes, more than one chunk of numbers. */
static int formula(lks_comm *comm, int rank, void *user)
{
    enum { ARRAYS = 5 };
    static const int64_t counts[ARRAYS] = {1, 0, 3, (1 << 20) + 17, 9};
    static const double weights[] = {3, 0.25, 7e9, 1e-30, 2};
    const int size = lks_comm_size(comm);
    float *arrays[ARRAYS];
    int64_t at = 0;
    int wrong = 0;
    (void)user;
    for (int i = 0; i < ARRAYS; i++) {
        arrays[i] = malloc((size_t)counts[i] * sizeof **arrays + 1);
        for (int64_t k = 0; k < counts[i]; k++) arrays[i][k] = number(rank, at++);
    }
    LKT_CHECK(lks_comm_average(comm, arrays, counts, ARRAYS, weights[rank]) == LKS_OK);
    at = 0;
    double sum = 0;
    for (int r = 0; r < size; r++) sum += weights[r];
    for (int i = 0; i < ARRAYS; i++) {
        for (int64_t k = 0; k < counts[i]; k++, at++) {
            double mean = 0;
            if (i == 3 && k % 101 != 0) continue; /* enough of them */
            for (int r = 0; r < size; r++) mean += weights[r] * (double)number(r, at);
            const float expected = size == 1 ? number(0, at) : (float)(mean / sum);
            wrong += memcmp(&arrays[i][k], &expected, sizeof expected) != 0;
        }
        free(arrays[i]);
    }
    return wrong;
}

static void is_the_formula(void **state)
{
    const int sizes[] = {1, 2, 3, 5};
    (void)state;
    for (int s = 0; s < 4; s++) {
        lkt_ranks(&(lkt_hub_opts){.size = sizes[s]}, NULL, formula, NULL);
        lkt_ranks(&(lkt_hub_opts){.size = sizes[s], .seed = 2, .delay = 5},
                  &(lks_comm_opts){.verify = true}, formula, NULL);
    }
}

static int edges(lks_comm *comm, int rank, void *user)
{
    enum { COUNT = 8 };
    const float tiny = 1e-45f;
    float values[COUNT] = {FLT_MAX, -FLT_MAX, tiny, -0.0f, INFINITY, 0, 1, 0.1f},
          *arrays[] = {values};
    const int64_t counts[] = {COUNT};
    (void)user;
    if (rank == 1) values[4] = -INFINITY;
    if (rank == 1) values[5] = NAN;
    if (rank == 1) values[6] = INFINITY;
    LKT_CHECK(lks_comm_average(comm, arrays, counts, 1, rank == 0 ? 3e99 : 1e-99) == LKS_OK);
    LKT_CHECK(values[0] == FLT_MAX && values[1] == -FLT_MAX); /* no product overflows */
    LKT_CHECK(values[2] == tiny && values[3] == 0 && signbit(values[3]) && values[7] == 0.1f);
    LKT_CHECK(isnan(values[4]) && isnan(values[5]) && values[6] == INFINITY);
    /* Which NaN it is, is the same on all ranks. */
    uint32_t bits[2], all[3][2];
    memcpy(bits, values + 4, sizeof bits);
    LKT_CHECK(lks_comm_all_gather(comm, bits, sizeof bits, all) == LKS_OK);
    LKT_CHECK(memcmp(all[0], all[1], sizeof bits) == 0 && memcmp(all[0], all[2], sizeof bits) == 0);
    return 0;
}

/* Equal numbers stay what they are; denormals count; NaN and infinity go on. */
static void at_the_edges(void **state)
{
    (void)state;
    lkt_ranks(&(lkt_hub_opts){.size = 3}, NULL, edges, NULL);
}

/* Who has no samples has no say, whatever is in its arrays; but all without any are refused. */
static int weightless(lks_comm *comm, int rank, void *user)
{
    float value = rank == 1 ? NAN : 5 + (float)rank, *arrays[] = {&value};
    const int64_t one = 1;
    (void)user;
    LKT_CHECK(lks_comm_average(comm, arrays, &one, 1, rank == 1 ? 0 : 2) == LKS_OK);
    LKT_CHECK(value == 6);
    LKT_CHECK(lks_comm_average(comm, arrays, &one, 1, 0) == LKS_E_INVALID);
    LKT_CHECK(
        strcmp(lks_last_error()->message, "lks_comm_average() got weight 0 from all 3 ranks") == 0);
    LKT_CHECK(lks_comm_average(comm, arrays, &one, rank == 2 ? 0 : 1, 1) == LKS_E_SHAPE);
    const char *said = lks_last_error()->message;
    LKT_CHECK(strstr(said, "rank 2 (host ") != NULL &&
              strstr(said, ") has 0 numbers in 0") != NULL);
    LKT_CHECK(lks_comm_average(comm, arrays, &one, 1, 1) == LKS_OK && value == 6); /* it goes on */
    return 0;
}

static void of_no_samples(void **state)
{
    (void)state;
    lkt_ranks(&(lkt_hub_opts){.size = 3}, NULL, weightless, NULL);
}

/* A weight that is none, on one rank: all end, with its sentence. */
static int bad_weight(lks_comm *comm, int rank, void *user)
{
    float value = 1, *arrays[] = {&value};
    const int64_t one = 1;
    const double *weight = user;
    LKT_CHECK(lks_comm_average(comm, arrays, &one, 1, rank == 1 ? *weight : 1) == LKS_E_INVALID);
    const char *said = lks_last_error()->message;
    LKT_CHECK(strncmp(said, "rank 1 (host ", 13) == 0);
    LKT_CHECK(strstr(said, "lks_comm_average() got weight ") != NULL);
    LKT_CHECK(lks_comm_barrier(comm) == LKS_E_INVALID); /* and it stays so */
    return 0;
}

static void refuses_weights(void **state)
{
    double weights[] = {-1, NAN, INFINITY, 1e101, 1e-101};
    (void)state;
    for (int i = 0; i < 5; i++)
        lkt_ranks(&(lkt_hub_opts){.size = 3}, NULL, bad_weight, &weights[i]);
}

/* A program that rounds upwards gets the same bits. */
static int rounded(lks_comm *comm, int rank, void *user)
{
    float value = rank == 0 ? 1 : 2, *arrays[] = {&value};
    (void)user;
    fesetround(rank == 1 ? FE_UPWARD : FE_DOWNWARD);
    LKT_CHECK(lks_comm_average(comm, arrays, &(int64_t){1}, 1, 1 + rank) == LKS_OK);
    LKT_CHECK(fegetround() == (rank == 1 ? FE_UPWARD : FE_DOWNWARD));
    fesetround(FE_TONEAREST);
    LKT_CHECK(value == (float)(5.0 / 3.0));
    return 0;
}

static void in_any_rounding(void **state)
{
    (void)state;
    lkt_ranks(&(lkt_hub_opts){.size = 2}, NULL, rounded, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_the_large_batch), cmocka_unit_test(is_the_formula),
        cmocka_unit_test(at_the_edges),       cmocka_unit_test(of_no_samples),
        cmocka_unit_test(refuses_weights),    cmocka_unit_test(in_any_rounding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

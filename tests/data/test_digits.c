/* The embedded digits: the same bytes everywhere, spread over the classes, and digits at all. */
#include "support/test.h"

#include <fenv.h>
#include <string.h>

#include <lockstep/data.h>

enum { PIXELS = 28 * 28 };

static lks_context *context;

static int set_up(void **state)
{
    (void)state;
    return lks_context_create(&context, NULL) == LKS_OK ? 0 : 1;
}

static int tear_down(void **state)
{
    (void)state;
    lks_context_destroy(context);
    return 0;
}

static lks_dataset *open_digits(uint64_t seed, bool test, int64_t samples)
{
    lks_dataset *set;
    const lks_digits_opts opts = {.seed = seed, .test = test, .samples = samples};
    LKT_OK(lks_dataset_open_digits(&set, context, &opts));
    return set;
}

static uint64_t hash(uint64_t seed, bool test, int64_t samples)
{
    uint64_t found;
    lks_dataset *set = open_digits(seed, test, samples);
    LKT_OK(lks_dataset_hash(set, &found));
    lks_dataset_destroy(set);
    return found;
}

static void defaults(void **state)
{
    (void)state;
    lks_dataset *set;
    LKT_OK(lks_dataset_open_digits(&set, context, NULL));
    lks_dataset_info info = lks_dataset_get_info(set);
    assert_int_equal(info.samples, 60000);
    assert_int_equal(info.classes, 10);
    assert_int_equal(info.dtype, LKS_U8);
    assert_int_equal(info.shape.ndim, 3);
    assert_int_equal(info.shape.dim[0], 28);
    assert_int_equal(info.shape.dim[1], 28);
    assert_int_equal(info.shape.dim[2], 1);
    assert_string_equal(lks_dataset_name(set), "digits (training, seed 0)");
    lks_dataset_destroy(set);
    set = open_digits(7, true, 0);
    assert_int_equal(lks_dataset_get_info(set).samples, 10000);
    assert_string_equal(lks_dataset_name(set), "digits (test, seed 7)");
    lks_dataset_destroy(set);
    const lks_digits_opts opts = {.samples = -1};
    LKT_FAILS(LKS_E_INVALID, "info.samples is -1", lks_dataset_open_digits(&set, context, &opts));
    assert_null(set);
}

/* The bytes are integers and a function of the source alone: any compiler, any machine. They only
 * change when the data set is changed on purpose, and then every figure for it changes too. */
static void bytes_are_pinned(void **state)
{
    (void)state;
    assert_int_equal(hash(0, false, 2000), UINT64_C(0x5e325e66294f40c8));
    assert_int_equal(hash(0, true, 2000), UINT64_C(0x581b5c0e591d9246));
    assert_int_equal(hash(UINT64_MAX, false, 100), UINT64_C(0x6248b5beeaeb9ebf));
}

static void a_sample_depends_on_its_number_alone(void **state)
{
    (void)state;
    lkt_random random = lkt_random_make("digits", 11);
    lks_dataset *small = open_digits(3, false, 500), *large = open_digits(3, false, INT64_MAX);
    for (int i = 0; i < 300; i++) {
        uint8_t a[PIXELS], b[PIXELS];
        int32_t y, z;
        const int64_t at = lkt_random_below(&random, 500);
        LKT_OK(lks_dataset_read(small, at, a, &y));
        LKT_OK(lks_dataset_read(large, lkt_random_below(&random, INT64_MAX), b, &z));
        LKT_OK(lks_dataset_read(large, at, b, &z));
        assert_memory_equal(a, b, PIXELS);
        assert_int_equal(y, z);
    }
    lks_dataset_destroy(large);
    lks_dataset_destroy(small);
}

/* Neighbours, and samples whose numbers differ in the high word only, of two seeds and splits. */
static void seeds_splits_and_samples_differ(void **state)
{
    (void)state;
    enum { ALL = 200 };
    static uint8_t x[ALL][PIXELS];
    for (int i = 0; i < ALL; i++) {
        int32_t y;
        lks_dataset *set = open_digits((uint64_t)(i / 2 % 2), i % 2 == 1, INT64_MAX);
        LKT_OK(lks_dataset_read(set, i / 8 + (i / 4 % 2 ? INT64_C(1) << 32 : 0), x[i], &y));
        lks_dataset_destroy(set);
        for (int k = 0; k < i; k++) assert_memory_not_equal(x[i], x[k], PIXELS);
    }
}

/* Where the caller has changed how its floating-point unit rounds. */
static void the_callers_rounding_plays_no_part(void **state)
{
    (void)state;
    const uint64_t expected = hash(0, false, 300);
    assert_int_equal(fesetround(FE_UPWARD), 0);
    const uint64_t found = hash(0, false, 300);
    assert_int_equal(fegetround(), FE_UPWARD);
    fesetround(FE_TONEAREST);
    assert_true(found == expected);
}

/*
 * Labels are uniform: of n = 20,000 samples a class has n/10 on average with a standard deviation
 * of sqrt(n * 0.1 * 0.9) = 42; 6 of those are allowed. The mean and deviation of the pixels are
 * those that configs/digits.yaml normalises with. A digit has ink: at least 12 of the 784 pixels
 * above a third of white; and no more than half of the picture is bright.
 */
static void looks_like_a_data_set(void **state)
{
    (void)state;
    enum { SAMPLES = 20000 };
    int64_t counts[10] = {0};
    double sum = 0, squares = 0;
    lks_dataset *set = open_digits(0, false, 0);
    for (int64_t i = 0; i < SAMPLES; i++) {
        uint8_t x[PIXELS];
        int32_t y;
        int bright = 0;
        LKT_OK(lks_dataset_read(set, i, x, &y));
        counts[y]++;
        for (int k = 0; k < PIXELS; k++) {
            sum += x[k];
            squares += (double)x[k] * x[k];
            bright += x[k] > 85;
        }
        assert_in_range(bright, 12, PIXELS / 2);
    }
    for (int k = 0; k < 10; k++)
        assert_in_range(counts[k], SAMPLES / 10 - 6 * 42, SAMPLES / 10 + 6 * 42);
    const double mean = sum / (SAMPLES * (double)PIXELS * 255);
    const double variance = squares / (SAMPLES * (double)PIXELS * 255 * 255) - mean * mean;
    print_message("pixels / 255: mean %.4f, variance %.4f\n", mean, variance);
    assert_true(mean > 0.11 && mean < 0.14);
    assert_true(variance > 0.24 * 0.24 && variance < 0.28 * 0.28);
    lks_dataset_destroy(set);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(defaults),
        TEST(bytes_are_pinned),
        TEST(a_sample_depends_on_its_number_alone),
        TEST(seeds_splits_and_samples_differ),
        TEST(the_callers_rounding_plays_no_part),
        TEST(looks_like_a_data_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Arithmetic in the memory that ref and cpu share with the host, without a model around it. */
#include <math.h>
#include <string.h>

#include "core/backend.h"
#include "support/test.h"

static const lki_memory *memory(void)
{
    return lki_backend_find("ref")->memory;
}

static void a_sample_is_right_where_the_first_largest_is_its_label(void **state)
{
    enum { WIDTH = 4, SAMPLES = 5 };
    static const float output[SAMPLES][WIDTH] = {
        {1, 2, 3, 4}, {4, 3, 2, 1}, {0, 7, 7, -1}, {-3, -1, -2, -1}, {2, 2, 2, 2}};
    static const int32_t right[SAMPLES] = {3, 0, 1, 1, 0};
    int64_t top5 = 3;
    (void)state;
    assert_int_equal(memory()->count_correct(SAMPLES, WIDTH, output[0], right, &top5), SAMPLES);
    assert_int_equal(top5, 3 + SAMPLES);
    for (int s = 0; s < SAMPLES; s++)
        for (int32_t label = 0; label < WIDTH; label++)
            assert_int_equal(memory()->count_correct(1, WIDTH, output[s], &label, &top5),
                             label == right[s]);
}

/* Of equal outputs the first comes before; one that is no number comes before none. */
static void five_are_found(void **state)
{
    enum { WIDTH = 7, SAMPLES = 4 };
    static const float output[SAMPLES][WIDTH] = {{7, 6, 5, 4, 3, 2, 1},
                                                 {1, 1, 1, 1, 1, 1, 1},
                                                 {0, 9, 9, 9, 9, 9, 0},
                                                 {0, 1, 2, NAN, 4, 5, 6}};
    static const bool there[SAMPLES][WIDTH] = {
        {1, 1, 1, 1, 1, 0, 0}, {1, 1, 1, 1, 1, 0, 0}, {0, 1, 1, 1, 1, 1, 0}, {0, 1, 1, 0, 1, 1, 1}};
    (void)state;
    for (int s = 0; s < SAMPLES; s++)
        for (int32_t label = 0; label < WIDTH; label++) {
            int64_t top5 = 0;
            (void)memory()->count_correct(1, WIDTH, output[s], &label, &top5);
            if (top5 != there[s][label]) fail_msg("sample %d, label %d: %d", s, label, (int)top5);
        }
}

/* By definition: the first of the largest, where the first value is one even if it is no number. */
static int64_t plain_largest(const float *output, int64_t width)
{
    int64_t best = 0;
    for (int64_t i = 1; i < width; i++)
        if (output[i] > output[best]) best = i;
    return best;
}

static bool plain_five(const float *output, int64_t width, int32_t label)
{
    int64_t before = 0;
    for (int64_t i = 0; i < width; i++)
        before += output[i] > output[label] || (output[i] == output[label] && i < label);
    return !isnan(output[label]) && before < 5;
}

/* Vocabularies, around what vectors and chunks divide; with many equal values, and some that are no numbers. */
static void wide_outputs_are_looked_through(void **state)
{
    static const int64_t widths[] = {15, 16, 17, 33, 255, 256, 257, 700};
    float output[700];
    lkt_random random = lkt_random_make("wide_outputs", 7);
    (void)state;
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (int k = 0; k < 40; k++) {
            const int64_t width = widths[w], values = lkt_random_from(&random, 2, 400);
            for (int64_t i = 0; i < width; i++)
                output[i] = (float)lkt_random_below(&random, values) - 200;
            if (k % 4 == 0) output[lkt_random_below(&random, width)] = NAN;
            if (k % 8 == 0) output[0] = NAN;
            for (int64_t n = 0; n < 20; n++) {
                int32_t label = (int32_t)lkt_random_below(&random, width);
                int64_t top5 = 0;
                if (n == 0) label = (int32_t)plain_largest(output, width);
                assert_int_equal(memory()->count_correct(1, width, output, &label, &top5),
                                 label == plain_largest(output, width));
                assert_int_equal(top5, plain_five(output, width, label));
            }
        }
}

/* A mean below 2^-63 is 0; a limit hides no value that is no number. */
static void a_mean_is_flushed_and_limited(void **state)
{
    static const float sums[] = {0x1p-62f, -0x1p-62f, 0x1.8p-63f, -0x1.8p-63f, 8,
                                 -8,       2,         -2,         INFINITY,    NAN};
    static const float mean[] = {0x1p-63f, -0x1p-63f, 0, 0, 4, -4, 1, -1, INFINITY, NAN};
    enum { COUNT = sizeof sums / sizeof *sums };
    float found[COUNT];
    (void)state;
    for (int limited = 0; limited < 2; limited++) {
        const float most = limited ? 1.5f : INFINITY;
        memory()->mean(COUNT, 0.5f, most, sums, found);
        for (int i = 0; i < COUNT; i++) {
            const float expected = isnan(mean[i]) ? NAN : fminf(fmaxf(mean[i], -most), most);
            assert_int_equal(isnan(found[i]) != 0, isnan(expected) != 0);
            if (!isnan(expected)) assert_true(found[i] == expected);
        }
        memcpy(found, sums, sizeof found); /* in its own place */
        memory()->mean(COUNT, 0.5f, most, found, found);
        for (int i = 0; i < COUNT; i++)
            assert_true(isnan(mean[i]) ? isnan(found[i])
                                       : found[i] == fminf(fmaxf(mean[i], -most), most));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(five_are_found),
        cmocka_unit_test(a_sample_is_right_where_the_first_largest_is_its_label),
        cmocka_unit_test(wide_outputs_are_looked_through),
        cmocka_unit_test(a_mean_is_flushed_and_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

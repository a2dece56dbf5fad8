/* Data sets from callbacks and arrays: what they check, slices, identity. */
#include "numeric/permutation.h"
#include "support/test.h"

#include <string.h>

#include <lockstep/data.h>

enum { SAMPLES = 97, WIDTH = 5, CLASSES = 7 };

static lks_context *context;
static uint8_t all_x[SAMPLES][WIDTH];
static int32_t all_y[SAMPLES];
static const lks_dataset_info usual = {
    .samples = SAMPLES, .shape = {1, {WIDTH}}, .dtype = LKS_U8, .classes = CLASSES};

static int set_up(void **state)
{
    (void)state;
    for (int i = 0; i < SAMPLES; i++) {
        all_y[i] = i * i % CLASSES;
        for (int k = 0; k < WIDTH; k++) all_x[i][k] = (uint8_t)(31 * i + k);
    }
    return lks_context_create(&context, NULL) == LKS_OK ? 0 : 1;
}

static int tear_down(void **state)
{
    (void)state;
    lks_context_destroy(context);
    return 0;
}

static lks_status read_array(void *user, int64_t index, void *x, void *y)
{
    (void)user;
    memcpy(x, all_x[index], WIDTH);
    memcpy(y, &all_y[index], sizeof *all_y);
    return LKS_OK;
}

static void count_close(void *user)
{
    ++*(int *)user;
}

static lks_dataset *from_arrays(void)
{
    lks_dataset *set;
    LKT_OK(lks_dataset_from_arrays(&set, context, &usual, all_x, all_y));
    return set;
}

static lks_dataset *from_callback(int *closed)
{
    lks_dataset *set;
    const lks_dataset_ops ops = {.info = usual, .read = read_array, .close = count_close};
    LKT_OK(lks_dataset_create(&set, context, "squares", &ops, closed));
    return set;
}

static uint64_t hash(lks_dataset *set)
{
    uint64_t found;
    LKT_OK(lks_dataset_hash(set, &found));
    return found;
}

/* Samples first .. first + count - 1 of the arrays, and nothing beyond. */
static void check(lks_dataset *set, int64_t first, int64_t count)
{
    uint8_t x[WIDTH];
    int32_t y;
    assert_int_equal(lks_dataset_get_info(set).samples, count);
    for (int64_t i = 0; i < count; i++) {
        LKT_OK(lks_dataset_read(set, i, x, &y));
        assert_memory_equal(x, all_x[first + i], WIDTH);
        assert_int_equal(y, all_y[first + i]);
    }
    LKT_FAILS(LKS_E_INVALID, "sample -1 was asked for, expected 0 to",
              lks_dataset_read(set, -1, x, &y));
    LKT_FAILS(LKS_E_INVALID, lks_dataset_name(set), lks_dataset_read(set, count, x, &y));
}

static void reads_arrays_and_callbacks(void **state)
{
    (void)state;
    int closed = 0;
    lks_dataset *arrays = from_arrays(), *callback = from_callback(&closed);
    assert_string_equal(lks_dataset_name(arrays), "arrays");
    assert_string_equal(lks_dataset_name(callback), "squares");
    check(arrays, 0, SAMPLES);
    check(callback, 0, SAMPLES);
    lks_dataset_destroy(arrays);
    assert_int_equal(closed, 0);
    lks_dataset_destroy(callback);
    assert_int_equal(closed, 1);
    lks_dataset_destroy(NULL);
}

static void slices_and_slices_of_slices(void **state)
{
    (void)state;
    int closed = 0;
    lks_dataset *bases[] = {from_arrays(), from_callback(&closed)};
    for (int b = 0; b < 2; b++) {
        lks_dataset *slice, *inner, *none;
        LKT_OK(lks_dataset_slice(&slice, bases[b], 10, 61));
        check(slice, 10, 61);
        LKT_OK(lks_dataset_slice(&inner, slice, 60, 1));
        check(inner, 70, 1);
        assert_string_equal(lks_dataset_name(inner),
                            b == 0 ? "arrays[10:71][60:61]" : "squares[10:71][60:61]");
        LKT_FAILS(LKS_E_INVALID, "a slice of 2 samples from 60 was asked for, expected at least 1",
                  lks_dataset_slice(&none, slice, 60, 2));
        assert_null(none);
        LKT_FAILS(LKS_E_INVALID, "within its 61 samples", lks_dataset_slice(&none, slice, -1, 5));
        LKT_FAILS(LKS_E_INVALID, "a slice of 0", lks_dataset_slice(&none, slice, 3, 0));
        LKT_FAILS(LKS_E_INVALID, "samples from", /* the sum must not wrap around */
                  lks_dataset_slice(&none, slice, INT64_MAX, INT64_MAX));
        lks_dataset_destroy(inner);
        lks_dataset_destroy(slice);
    }
    assert_int_equal(closed, 0);
    for (int b = 0; b < 2; b++) lks_dataset_destroy(bases[b]);
    assert_int_equal(closed, 1);
}

/* Which sample it is follows from its first byte: 31 i modulo 256, which no two of 97 share. */
static int number_of(lks_dataset *set, int64_t index)
{
    uint8_t x[WIDTH];
    int32_t y;
    LKT_OK(lks_dataset_read(set, index, x, &y));
    for (int i = 0; i < SAMPLES; i++) {
        if (x[0] != all_x[i][0]) continue;
        assert_memory_equal(x, all_x[i], WIDTH);
        assert_int_equal(y, all_y[i]);
        return i;
    }
    fail();
    return -1;
}

/* Each sample is in one part, in order; both follow from the seed and the number of samples. */
static void splits_deal_every_sample_once(void **state)
{
    (void)state;
    int closed = 0, first[2][20] = {{0}};
    lks_dataset *bases[] = {from_arrays(), from_callback(&closed)};
    for (int b = 0; b < 2; b++) {
        lks_dataset *part[2], *slice, *again[2];
        bool seen[SAMPLES] = {false};
        LKT_OK(lks_dataset_split(&part[0], &part[1], bases[b], 20));
        for (int p = 0; p < 2; p++) {
            const int64_t count = lks_dataset_get_info(part[p]).samples;
            assert_int_equal(count, p == 0 ? SAMPLES - 20 : 20);
            for (int64_t i = 0, before = -1; i < count; i++) {
                const int number = number_of(part[p], i);
                assert_int_equal(lks_dataset_position(part[p], i), number);
                assert_true(number > before && !seen[number]);
                before = number;
                seen[number] = true;
                if (p == 1) first[b][i] = number;
            }
        }
        assert_string_equal(lks_dataset_name(part[1]), b == 0 ? "arrays[held]" : "squares[held]");
        /* a slice of a part, and a part of a slice of it, are parts of the same samples */
        LKT_OK(lks_dataset_slice(&slice, part[1], 5, 10));
        assert_int_equal(number_of(slice, 0), first[b][5]);
        assert_int_equal(lks_dataset_position(slice, 9), first[b][14]);
        assert_int_equal(lks_dataset_position(slice, 10), -1);
        assert_int_equal(lks_dataset_position(slice, -1), -1);
        LKT_OK(lks_dataset_split(&again[0], &again[1], slice, 3));
        for (int p = 0; p < 2; p++)
            for (int64_t i = 0; i < lks_dataset_get_info(again[p]).samples; i++)
                assert_true(number_of(again[p], i) >= first[b][5] &&
                            number_of(again[p], i) <= first[b][14]);
        for (int p = 0; p < 2; p++) lks_dataset_destroy(again[p]);
        lks_dataset_destroy(slice);
        LKT_FAILS(LKS_E_INVALID,
                  "a split of 97 samples was asked for, expected at least 1 and fewer",
                  lks_dataset_split(&again[0], &again[1], bases[b], SAMPLES));
        LKT_FAILS(LKS_E_INVALID, "a split of 0",
                  lks_dataset_split(&again[0], &again[1], bases[b], 0));
        assert_null(again[0]);
        assert_null(again[1]);
        for (int p = 0; p < 2; p++) lks_dataset_destroy(part[p]);
    }
    assert_int_equal(closed, 0);
    assert_memory_equal(first[0], first[1], sizeof first[0]);
    for (int b = 0; b < 2; b++) lks_dataset_destroy(bases[b]);
    /* they are the last 20 of 97 in the order of epoch -1, and do not lie in one piece */
    const lki_permutation order = lki_permutation_make(0, -1, SAMPLES);
    for (int i = SAMPLES - 20; i < SAMPLES; i++) {
        int found = 0;
        for (int k = 0; k < 20; k++) found += first[0][k] == lki_permutation_at(&order, i);
        assert_int_equal(found, 1);
    }
    assert_true(first[0][19] - first[0][0] > 40);
}

static void splits_follow_the_seed(void **state)
{
    (void)state;
    uint64_t found[3];
    for (int i = 0; i < 3; i++) {
        const lks_context_opts opts = {.seed = i == 2 ? 5 : 4};
        lks_context *other;
        lks_dataset *base, *rest, *held;
        LKT_OK(lks_context_create(&other, &opts));
        LKT_OK(lks_dataset_from_arrays(&base, other, &usual, all_x, all_y));
        LKT_OK(lks_dataset_split(&rest, &held, base, 30));
        found[i] = hash(held);
        lks_dataset_destroy(held);
        lks_dataset_destroy(rest);
        lks_dataset_destroy(base);
        lks_context_destroy(other);
    }
    assert_true(found[0] == found[1]);
    assert_true(found[0] != found[2]);
}

/* ---------------------------------------------------------------- identity */

static uint64_t hash_of(const lks_dataset_info *info)
{
    lks_dataset *set;
    LKT_OK(lks_dataset_from_arrays(&set, context, info, all_x, all_y));
    const uint64_t found = hash(set);
    lks_dataset_destroy(set);
    return found;
}

static void hash_is_the_identity(void **state)
{
    (void)state;
    int closed = 0;
    lks_dataset *arrays = from_arrays(), *callback = from_callback(&closed), *slice, *again;
    const uint64_t expected = hash(arrays);
    assert_true(expected == hash(arrays)); /* where the samples come from plays no part */
    assert_true(expected == hash(callback));
    LKT_OK(lks_dataset_slice(&slice, arrays, 0, SAMPLES));
    LKT_OK(lks_dataset_slice(&again, callback, 1, SAMPLES - 1));
    assert_true(expected == hash(slice));
    assert_true(expected != hash(again));
    lks_dataset_destroy(again);
    LKT_OK(lks_dataset_slice(&again, slice, 1, SAMPLES - 1));
    lks_dataset_destroy(slice);
    LKT_OK(lks_dataset_slice(&slice, callback, 1, SAMPLES - 1));
    assert_true(hash(slice) == hash(again));
    lks_dataset_destroy(again);
    lks_dataset_destroy(slice);

    all_x[SAMPLES - 1][WIDTH - 1] ^= 1; /* every byte counts */
    assert_true(expected != hash(arrays));
    all_x[SAMPLES - 1][WIDTH - 1] ^= 1;
    all_y[0] = (all_y[0] + 1) % CLASSES;
    assert_true(expected != hash(arrays));
    assert_true(expected != hash(callback));
    all_y[0] = 0;
    assert_true(expected == hash(callback));
    lks_dataset_destroy(callback);
    lks_dataset_destroy(arrays);

    lks_dataset_info other = usual; /* and so does every field of the description */
    other.classes++;
    assert_true(expected != hash_of(&other));
    other = usual;
    other.shape = LKS_SHAPE(1, WIDTH);
    assert_true(expected != hash_of(&other));
    other = usual;
    other.samples--;
    assert_true(expected != hash_of(&other));
    static const lks_dataset_info floats = {.samples = 4, .shape = {1, {WIDTH}}, .dtype = LKS_F32};
    lks_dataset_info targets = floats;
    targets.target_shape = LKS_SHAPE(1, 1);
    assert_true(hash_of(&floats) != hash_of(&targets));
}

/* Larger than a block, samples that do not divide it, read in both ways. */
static uint8_t large_x[40][30011];

static lks_status read_large(void *user, int64_t index, void *x, void *y)
{
    (void)user;
    const float target[2] = {(float)index, 1};
    memcpy(x, large_x[index], sizeof large_x[0]);
    memcpy(y, target, sizeof target);
    return LKS_OK;
}

static void hashes_large_samples(void **state)
{
    (void)state;
    static float y[40][2];
    const lks_dataset_info info = {
        .samples = 40, .shape = LKS_SHAPE(30011), .dtype = LKS_U8, .target_shape = LKS_SHAPE(2)};
    const lks_dataset_ops ops = {.info = info, .read = read_large};
    lks_dataset *arrays, *callback;
    for (int i = 0; i < 40; i++) {
        y[i][0] = (float)i;
        y[i][1] = 1;
        for (size_t k = 0; k < sizeof large_x[0]; k++) large_x[i][k] = (uint8_t)(k * k + (size_t)i);
    }
    LKT_OK(lks_dataset_from_arrays(&arrays, context, &info, large_x, y));
    LKT_OK(lks_dataset_create(&callback, context, NULL, &ops, NULL));
    assert_string_equal(lks_dataset_name(callback), "unnamed");
    assert_true(hash(arrays) == hash(callback));
    lks_dataset_destroy(callback);
    lks_dataset_destroy(arrays);
}

/* ---------------------------------------------------------------- errors */

static void refuses_bad_descriptions(void **state)
{
    (void)state;
    static const struct {
        lks_dataset_info info;
        lks_status status;
        const char *part;
    } cases[] = {
        {{.samples = 0, .dtype = LKS_U8, .classes = 2}, LKS_E_INVALID, "info.samples is 0"},
        {{.samples = -5, .dtype = LKS_U8, .classes = 2}, LKS_E_INVALID, "info.samples is -5"},
        {{.samples = 1, .dtype = LKS_I64, .classes = 2}, LKS_E_INVALID, "info.dtype is 3"},
        {{.samples = 1, .dtype = LKS_I32, .classes = 2}, LKS_E_INVALID, "info.vocabulary is 0"},
        {{.samples = 1, .dtype = LKS_U8, .vocabulary = 5, .classes = 2},
         LKS_E_INVALID,
         "info.vocabulary is 5"},
        {{.samples = 1, .dtype = LKS_U8, .vocabulary = -5}, LKS_E_INVALID, "info.vocabulary is -5"},
        {{.samples = 1, .dtype = LKS_U8, .classes = -1}, LKS_E_INVALID, "info.classes is -1"},
        {{.samples = 1, .dtype = LKS_U8, .classes = INT64_C(1) << 31},
         LKS_E_INVALID,
         "info.classes is 2147483648, expected 0 (targets are floats) to 2147483647"},
        {{.samples = 1, .dtype = LKS_U8, .shape = {6, {0}}, .classes = 2},
         LKS_E_SHAPE,
         "info.shape is not valid"},
        {{.samples = 1, .dtype = LKS_U8, .shape = {-1, {0}}, .classes = 2},
         LKS_E_SHAPE,
         "info.shape is not valid"},
        {{.samples = 1, .dtype = LKS_U8, .shape = {2, {3, 0}}, .classes = 2},
         LKS_E_SHAPE,
         "info.shape is not valid"},
        {{.samples = 1, .dtype = LKS_F32, .shape = {2, {INT64_C(1) << 31, INT64_C(1) << 31}}},
         LKS_E_SHAPE,
         "info.shape is not valid"},
        {{.samples = 1, .dtype = LKS_U8, .shape = {1, {2}}, .target_shape = {1, {-2}}},
         LKS_E_SHAPE,
         "info.target_shape is not valid"},
        {{.samples = INT64_MAX, .dtype = LKS_U8, .shape = {1, {2}}, .classes = 2},
         LKS_E_SHAPE,
         "more than fit in memory"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lks_dataset *set;
        LKT_FAILS(cases[i].status, cases[i].part,
                  lks_dataset_from_arrays(&set, context, &cases[i].info, all_x, all_y));
        assert_null(set);
    }
    lks_dataset *set;
    int closed = 0;
    LKT_FAILS(LKS_E_INVALID, "x is NULL",
              lks_dataset_from_arrays(&set, context, &usual, NULL, all_y));
    LKT_FAILS(LKS_E_INVALID, "y is NULL",
              lks_dataset_from_arrays(&set, context, &usual, all_x, NULL));
    LKT_FAILS(LKS_E_INVALID, "info is NULL",
              lks_dataset_from_arrays(&set, context, NULL, all_x, all_y));
    const lks_dataset_ops no_read = {.info = usual, .close = count_close};
    LKT_FAILS(LKS_E_INVALID, "set ops.read",
              lks_dataset_create(&set, context, "a", &no_read, &closed));
    const lks_dataset_ops no_info = {.read = read_array, .close = count_close};
    LKT_FAILS(LKS_E_INVALID, "data set 'a': info.samples",
              lks_dataset_create(&set, context, "a", &no_info, &closed));
    assert_null(set);
    assert_int_equal(closed, 0);
}

static void refuses_labels_out_of_range(void **state)
{
    (void)state;
    int closed = 0;
    uint8_t x[WIDTH];
    int32_t y;
    lks_dataset *set, *slice;
    static const int32_t bad[] = {CLASSES, -1, INT32_MAX, INT32_MIN};
    lks_dataset *callback = from_callback(&closed);
    LKT_OK(lks_dataset_slice(&slice, callback, 40, 20));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char part[80];
        all_y[53] = bad[i];
        snprintf(part, sizeof part, "the label of sample 53 is %d, expected 0 to 6", bad[i]);
        LKT_FAILS(LKS_E_FORMAT, part, lks_dataset_from_arrays(&set, context, &usual, all_x, all_y));
        assert_null(set);
        LKT_FAILS(LKS_E_FORMAT, part, lks_dataset_read(callback, 53, x, &y));
        LKT_FAILS(LKS_E_FORMAT, "data set 'squares[40:60]': the label of sample 13 is",
                  lks_dataset_read(slice, 13, x, &y));
        uint64_t hash_left = 1;
        LKT_FAILS(LKS_E_FORMAT, part, lks_dataset_hash(callback, &hash_left));
        assert_true(hash_left == 0);
    }
    lks_dataset_destroy(slice);
    lks_dataset_destroy(callback);
}

static lks_status read_fails(void *user, int64_t index, void *x, void *y)
{
    (void)x;
    (void)y;
    if (index == 3) return LKS_OK;
    if (user) return lks_fail(LKS_E_IO, "drawer %d is stuck", (int)index);
    return LKS_E_NOMEM; /* without a sentence of its own */
}

static void passes_on_what_a_callback_says(void **state)
{
    (void)state;
    uint8_t x[WIDTH];
    int32_t y;
    lks_dataset *set;
    const lks_dataset_ops ops = {.info = usual, .read = read_fails};
    LKT_OK(lks_dataset_create(&set, context, "desk", &ops, &y));
    LKT_FAILS(LKS_E_IO, "data set 'desk': sample 4 could not be read: drawer 4 is stuck",
              lks_dataset_read(set, 4, x, &y));
    lks_dataset_destroy(set);
    LKT_OK(lks_dataset_create(&set, context, "desk", &ops, NULL));
    (void)lks_fail(LKS_E_NOMEM, "the attic is full"); /* before, and elsewhere */
    LKT_FAILS(LKS_E_NOMEM,
              "data set 'desk': sample 4 could not be read: its read() returned LKS_E_NOMEM (5), "
              "out of memory, without a sentence by lks_fail()",
              lks_dataset_read(set, 4, x, &y));
    y = 0;
    LKT_OK(lks_dataset_read(set, 3, x, &y)); /* leaves the record of the last failure as it is */
    assert_int_equal(lks_last_error()->status, LKS_E_NOMEM);
    lks_dataset_destroy(set);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(reads_arrays_and_callbacks),     TEST(slices_and_slices_of_slices),
        TEST(splits_deal_every_sample_once),  TEST(splits_follow_the_seed),
        TEST(hash_is_the_identity),           TEST(hashes_large_samples),
        TEST(refuses_bad_descriptions),       TEST(refuses_labels_out_of_range),
        TEST(passes_on_what_a_callback_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

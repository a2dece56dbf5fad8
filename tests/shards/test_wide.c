/* Rows of some vectors and a rest: each number is standardised by itself, wherever the row is put, and looked at. */
#include "shards/shards.h"

#include <math.h>

#include "data/numpy/npy.h"

enum { WIDE = 45, LONG = 19, ALL = 24 }; /* columns of samples, of targets; rows */

static float number(int row, int column)
{
    return (float)((row * 29 + column * 13) % 97) * 0.5f - (float)column;
}

static void write_array(const char *name, int first, int columns)
{
    static bytes file;
    uint8_t head[LKI_NPY_HEAD];
    const lki_npy npy = {.kind = LKI_NPY_FLOAT, .size = 4, .ndim = 2, .dim = {ALL, columns}};
    file.count = 0;
    put(&file, head, lki_npy_write_head(head, &npy, 1));
    for (int i = 0; i < ALL * columns; i++) {
        const float value = number(i / columns, first + i % columns);
        put(&file, &value, sizeof value);
    }
    write_bytes(in_folder(name), &file);
}

static void write_wide(void)
{
    write_array("x.npy", 0, WIDE);
    write_array("y.npy", WIDE, LONG);
    run("data shard x.npy y.npy --out s --rows 8");
    expect_ok();
}

/* Of the training's rows, in extended precision. */
static void measure(lks_dataset *set, int column, long double *mean, long double *deviation)
{
    const int count = (int)lks_dataset_get_info(set).samples;
    *mean = *deviation = 0;
    for (int i = 0; i < count; i++)
        *mean += (long double)number((int)lks_dataset_position(set, i), column) / count;
    for (int i = 0; i < count; i++) {
        const long double off = number((int)lks_dataset_position(set, i), column) - *mean;
        *deviation += off * off / count;
    }
    *deviation = sqrtl(*deviation);
}

static void rows_have_the_same_bits_wherever_they_are_put(void **state)
{
    (void)state;
    _Alignas(64) float x[WIDE + 16], y[LONG + 16], all[ALL][WIDE + LONG];
    lks_recipe *recipe;
    write_wide();
    LKT_OK(open_shards(&recipe, "", "", LKS_RECIPE_TRAIN));
    lks_dataset *set = lks_recipe_get_parts(recipe).train;
    for (int i = 0; i < ALL; i++) {
        LKT_OK(lks_dataset_read(set, i, all[i], all[i] + WIDE));
        for (int at = 0; at < 16; at++) {
            LKT_OK(lks_dataset_read(set, i, x + at, y + (16 - at)));
            assert_memory_equal(x + at, all[i], WIDE * sizeof(float));
            assert_memory_equal(y + (16 - at), all[i] + WIDE, LONG * sizeof(float));
        }
    }
    for (int c = 0; c < WIDE + LONG; c++) {
        long double mean, deviation;
        measure(set, c, &mean, &deviation);
        for (int i = 0; i < ALL; i++) {
            const int row = (int)lks_dataset_position(set, i);
            const long double expected = (number(row, c) - mean) / deviation;
            if (fabsl(all[i][c] - expected) > 1e-6L * (1 + fabsl(expected)))
                fail_msg("row %d, column %d is %g, expected %Lg", row, c, all[i][c], expected);
        }
    }
    lks_recipe_close(recipe);
}

static void every_column_is_looked_at(void **state)
{
    (void)state;
    static const uint32_t not_finite[] = {0x7fc00000u, 0x7f800000u, 0xff800000u};
    _Alignas(64) float x[WIDE + 8], y[LONG];
    char name[80], says[80];
    lks_recipe *recipe;
    int64_t held = 0;
    write_wide();
    LKT_OK(open_shards(&recipe, "test_fraction: 0.5", "", LKS_RECIPE_TRAIN | LKS_RECIPE_TEST));
    lks_dataset *test = lks_recipe_get_parts(recipe).test;
    const int position = (int)lks_dataset_position(test, held), row = position % 8;
    snprintf(name, sizeof name, "s/data/processed/flattened-1000/x/%d.npy", position / 8);
    FILE *file = fopen(in_folder(name), "r+b"); /* what is mapped sees it */
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const long begin = ftell(file) - 8 * WIDE * (long)sizeof(float);
    for (int c = 0; c < WIDE; c++)
        for (int at = 0; at < 8; at += 7) {
            const float value = number(position, c);
            const long place = begin + (row * WIDE + c) * (long)sizeof(float);
            assert_int_equal(fseek(file, place, SEEK_SET), 0);
            assert_int_equal(fwrite(&not_finite[c % 3], sizeof(float), 1, file), 1);
            assert_int_equal(fflush(file), 0);
            snprintf(says, sizeof says, "row %d (sample %d) has", row, position);
            LKT_FAILS(LKS_E_FORMAT, says, lks_dataset_read(test, held, x + at, y));
            snprintf(says, sizeof says, "in column %d", c);
            assert_non_null(strstr(lks_last_error()->message, says));
            assert_int_equal(fseek(file, place, SEEK_SET), 0);
            assert_int_equal(fwrite(&value, sizeof value, 1, file), 1);
            assert_int_equal(fflush(file), 0);
            LKT_OK(lks_dataset_read(test, held, x + at, y));
        }
    fclose(file);
    lks_recipe_close(recipe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_have_the_same_bits_wherever_they_are_put, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(every_column_is_looked_at, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

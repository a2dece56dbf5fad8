/* Tables that are NumPy's arrays: .npy, whose columns have numbers, and .npz, whose members are columns. */
#include "recipe/recipes.h"

#include <math.h>

#include <lockstep/tools.h>

#include "data/npy_files.h"

enum { ROWS = 6 };

static lks_status open_arrays(lks_recipe **out, const char *name, const char *keys)
{
    char text[1024];
    snprintf(text, sizeof text, "data: {table: %s, standardize: false%s%s}\nmodel: {name: mlp}\n",
             in_folder(name), keys[0] != '\0' ? ", " : "", keys);
    lks_status status = lks_recipe_open_text(out, "r", text);
    return status == LKS_OK ? lks_recipe_open_data(*out, LKS_RECIPE_TRAIN) : status;
}

static void put_doubles(bytes *to, const double *values, int count)
{
    for (int i = 0; i < count; i++) {
        uint64_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        put_number(to, bits, 8);
    }
}

static double value_of(int row, int column)
{
    return 0.1 * row - 3.0 * column + (row == 2) * 100.0;
}

/* x.npy of three columns, in one order or the other, of which all but the last are inputs. */
static void write_array(const char *name, bool fortran)
{
    bytes file;
    put_npy(&file, "<f8", fortran, "(6, 3)");
    for (int i = 0; i < ROWS * 3; i++) {
        const double value = fortran ? value_of(i % ROWS, i / ROWS) : value_of(i / 3, i % 3);
        put_doubles(&file, &value, 1);
    }
    write_bytes(in_folder(name), &file);
}

static void assert_row(lks_dataset *set, int64_t row, int width, const double *x, double y)
{
    float found[8], target;
    assert_int_equal(lks_dataset_get_info(set).shape.dim[0], width);
    LKT_OK(lks_dataset_read(set, row, found, &target));
    for (int i = 0; i < width; i++)
        if (found[i] != (float)x[i]) fail_msg("element %d is %a, expected %a", i, found[i], x[i]);
    if (target != (float)y) fail_msg("target is %a, expected %a", target, y);
}

static void columns_of_one_array_are_called_by_numbers(void **state)
{
    (void)state;
    write_array("c.npy", false);
    write_array("f.npy", true);
    for (int k = 0; k < 2; k++) {
        lks_recipe *recipe;
        LKT_OK(open_arrays(&recipe, k == 0 ? "c.npy" : "f.npy", ""));
        lks_dataset *train = lks_recipe_get_parts(recipe).train;
        assert_int_equal(lks_dataset_get_info(train).samples, ROWS);
        for (int r = 0; r < ROWS; r++)
            assert_row(train, r, 2, (double[]){value_of(r, 0), value_of(r, 1)}, value_of(r, 2));
        assert_string_equal(lks_dataset_units(train)->name, "2");
        lks_recipe_close(recipe);
        LKT_OK(open_arrays(&recipe, k == 0 ? "c.npy" : "f.npy", "targets: [0], ignore: [-1]"));
        train = lks_recipe_get_parts(recipe).train;
        assert_row(train, 2, 1, (double[]){value_of(2, 1)}, value_of(2, 0));
        lks_recipe_close(recipe);
    }
}

/* All kinds of elements; those of 64 bits are rounded to doubles, and then to floats. */
static void elements_of_any_type_are_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        int size;
        uint64_t bits;
        double value;
    } types[] = {{"|b1", 1, 1, 1},
                 {"<u8", 8, UINT64_C(0xc000000000000000), 0x1.8p63},
                 {"<i8", 8, UINT64_C(0xfffffffffffffffe), -2},
                 {">i2", 2, UINT64_C(0x0100), 1},
                 {"<f2", 2, UINT64_C(0x3e00), 1.5},
                 {"<f4", 4, UINT64_C(0xc0200000), -2.5},
                 {"|u1", 1, 200, 200}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        bytes file;
        lks_recipe *recipe;
        put_npy(&file, types[i].type, false, "(2, 2)");
        for (int k = 0; k < 4; k++) put_number(&file, k == 0 ? types[i].bits : 0, types[i].size);
        write_bytes(in_folder("t.npy"), &file);
        LKT_OK(open_arrays(&recipe, "t.npy", ""));
        assert_row(lks_recipe_get_parts(recipe).train, 0, 1, &types[i].value, 0);
        lks_recipe_close(recipe);
    }
}

/* x of two columns, n of integers, y; the last is learned. */
static void write_archive(const char *rows_of_y, int count)
{
    static bytes x, n, y, archive;
    put_npy(&x, "<f8", false, "(3, 2)");
    put_doubles(&x, (double[]){1, 2, 3, 4, 5, 6}, 6);
    put_npy(&n, "|u1", false, "(3,)");
    put(&n, (uint8_t[]){7, 8, 9}, 3);
    put_npy(&y, "<f8", false, rows_of_y);
    put_doubles(&y, (double[]){10, 20, 30, 40}, count);
    make_zip(&archive,
             (member[]){{.name = "x.npy", .content = &x, .method = 8},
                        {.name = "n.npy", .content = &n},
                        {.name = "y.npy", .content = &y}},
             3, false);
    write_bytes(in_folder("t.npz"), &archive);
}

static void members_of_an_archive_are_columns(void **state)
{
    (void)state;
    lks_recipe *recipe;
    write_archive("(3,)", 3);
    LKT_OK(open_arrays(&recipe, "t.npz", ""));
    assert_row(lks_recipe_get_parts(recipe).train, 1, 3, (double[]){3, 4, 8}, 20);
    assert_string_equal(lks_dataset_units(lks_recipe_get_parts(recipe).train)->name, "y");
    lks_recipe_close(recipe);
    LKT_OK(open_arrays(&recipe, "t.npz", "targets: [x.1], ignore: [n]"));
    assert_row(lks_recipe_get_parts(recipe).train, 2, 2, (double[]){5, 30}, 6);
    lks_recipe_close(recipe);
    LKT_OK(open_arrays(&recipe, "t.npz", "targets: [n], task: classification"));
    assert_int_equal(lks_recipe_get_parts(recipe).data.classes, 3);
    lks_recipe_close(recipe);
    write_archive("(3, 1)", 3); /* a column that is written as two dimensions */
    LKT_OK(open_arrays(&recipe, "t.npz", "targets: [y]"));
    lks_recipe_close(recipe);
    write_archive("(4,)", 4);
    LKT_FAILS(LKS_E_FORMAT, "t.npz: y.npy' has 4 rows, but what stands before it has 3",
              open_arrays(&recipe, "t.npz", ""));
    lks_recipe_close(recipe);
}

static void what_is_wrong_with_arrays_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *shape, *keys, *sentence;
        int elements;
    } wrong[] = {
        {"(2, 2, 1)", "", "t.npy' has 3 dimensions, expected rows and columns", 4},
        {"()", "", "t.npy' has 0 dimensions, expected rows and columns", 1},
        {"(0, 2)", "", "t.npy' has no rows", 0},
        {"(2, 0)", "", "t.npy' has no columns", 0},
        {"(1, 65537)", "", "t.npy' has 65537 columns, expected at most 65536 in a table", 0},
        {"(2, 2)", "texts: [0]", "is NumPy's, whose columns have numbers alone", 4},
        {"(2, 2)", "ignore: [7]", "has no column '7', expected the name of one, such as '0'", 4},
        {"(4,)", "", "t.npy' has no columns beside targets", 4},
    };
    bytes file;
    lks_recipe *recipe;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        put_npy(&file, "<f8", false, wrong[i].shape);
        put_doubles(&file, (double[]){1, 2, 3, 4}, wrong[i].elements);
        for (int k = 0; i == 4 && k < 65537 / 8; k++) put_number(&file, 0, 8);
        write_bytes(in_folder("t.npy"), &file);
        if (i == 4) continue; /* larger than a file of this test may be: below */
        LKT_FAILS(wrong[i].keys[0] == '\0' ? LKS_E_FORMAT : LKS_E_INVALID, wrong[i].sentence,
                  open_arrays(&recipe, "t.npy", wrong[i].keys));
        lks_recipe_close(recipe);
    }
    put_npy(&file, "|u1", false, "(1, 65537)");
    memset(file.data + file.count, 0, 65537);
    file.count += 65537;
    write_bytes(in_folder("t.npy"), &file);
    LKT_FAILS(LKS_E_FORMAT, wrong[4].sentence, open_arrays(&recipe, "t.npy", ""));
    lks_recipe_close(recipe);
    put_npy(&file, "<f8", false, "(3, 2)");
    put_doubles(&file, (double[]){1, 2, (double)NAN, 4, 5, 6}, 6);
    write_bytes(in_folder("t.npy"), &file);
    LKT_FAILS(LKS_E_FORMAT, "t.npy, row 1: column '0' has no value",
              open_arrays(&recipe, "t.npy", ""));
    lks_recipe_close(recipe);
    LKT_OK(open_arrays(&recipe, "t.npy", "missing: mean"));
    assert_row(lks_recipe_get_parts(recipe).train, 1, 1, (double[]){3}, 4);
    lks_recipe_close(recipe);
    file.count -= 8;
    write_bytes(in_folder("t.npy"), &file);
    LKT_FAILS(LKS_E_FORMAT, "t.npy", open_arrays(&recipe, "t.npy", ""));
    lks_recipe_close(recipe);
}

/* --data of a configuration with a table is another one; else an array may be pictures, too. */
static void arrays_replace_a_table(void **state)
{
    static const char *const texts[] = {"data: {table: a.csv}\nmodel: {name: mlp}\n",
                                        "model: {name: mlp}\n"};
    static const char *const names[] = {"c.npy", "c.npz"};
    (void)state;
    for (int k = 0; k < 4; k++) {
        lks_recipe *recipe;
        LKT_OK(lks_recipe_open_text(&recipe, "r", texts[k / 2]));
        LKT_OK(lks_recipe_option(recipe, "data.path", names[k % 2], "--data"));
        LKT_OK(lks_recipe_name_data(recipe));
        assert_string_equal(lks_recipe_text(recipe, k < 2 ? "data.table" : "data.path"),
                            names[k % 2]);
        assert_false(lks_recipe_has(recipe, k < 2 ? "data.path" : "data.table"));
        lks_recipe_close(recipe);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_of_one_array_are_called_by_numbers),
        cmocka_unit_test(elements_of_any_type_are_numbers),
        cmocka_unit_test(members_of_an_archive_are_columns),
        cmocka_unit_test(what_is_wrong_with_arrays_is_said),
        cmocka_unit_test(arrays_replace_a_table),
    };
    return cmocka_run_group_tests_name("arrays", tests, set_up, tear_down);
}

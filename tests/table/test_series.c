/* Series of numbers: windows, splits in time, means of the training alone, and what is refused. */
#include <math.h>
#include <string.h>

#include "data/folder.h"
#include "data/table/series.h"

#include <lockstep/recipe.h>
#include <lockstep/tools.h>

static lki_table table;

static void open_csv(const char *text)
{
    static char path[4300];
    snprintf(path, sizeof path, "%s/s.csv", folder);
    LKT_OK(lks_file_write(path, text, strlen(text)));
    LKT_OK(lki_csv_open(&table, context, path, &(lki_csv_opts){.threads = 1}));
}

/* Rows 0 to 9: a is the row, b ten times that; a date is no number. */
static void open_ten(void)
{
    char text[400] = "date,a,b\n";
    for (int i = 0; i < 10; i++)
        sprintf(text + strlen(text), "2020-01-%02d,%d,%d\n", i + 1, i, 10 * i);
    open_csv(text);
}

typedef struct wanted {
    lki_series_opts windows;
    const char *target; /* NULL: all */
    bool standardize, fill;
    int64_t train; /* rows */
} wanted;

static const wanted usual = {
    .windows = {.context = 3, .horizon = 2, .stride = 1, .first = 0, .count = 10}, .train = 6};

static lks_status open_series(lks_dataset **out, const wanted *w)
{
    uint8_t used[16] = {0};
    lki_encoding encoding;
    assert_true(table.rows <= (int64_t)sizeof used);
    memset(used, 1, (size_t)w->train);
    *out = NULL;
    lks_status status = lki_encoding_fit(&encoding, context, &table, used,
                                         &(lki_encoding_opts){.series = true,
                                                              .targets = &w->target,
                                                              .target_count = w->target != NULL,
                                                              .task = LKI_TASK_REGRESSION,
                                                              .standardize = w->standardize,
                                                              .fill = w->fill});
    if (status == LKS_OK) status = lki_series_open(out, &table, &encoding, &w->windows);
    lki_encoding_release(&encoding);
    return status;
}

/* Samples as "first of the sample>target targets", all of column a. */
static void has(lks_dataset *data, const char *expected)
{
    char found[300] = "";
    for (int64_t i = 0; i < lks_dataset_get_info(data).samples; i++) {
        float x[3][2], y[2][2];
        LKT_OK(lks_dataset_read(data, i, x, y));
        sprintf(found + strlen(found), "%s%g>%g %g", i > 0 ? ", " : "", (double)x[0][0],
                (double)y[0][0], (double)y[1][0]);
        for (int k = 0; k < 3; k++) assert_true(x[k][0] == x[0][0] + (float)k);
        for (int k = 0; k < 3; k++) assert_true(x[k][1] == 10 * x[k][0]);
        for (int k = 0; k < 2; k++) assert_true(y[k][1] == 10 * y[k][0]);
    }
    assert_string_equal(found, expected);
}

static void windows_and_parts_lie_in_time(void **state)
{
    (void)state;
    lks_dataset *data, *part;
    open_ten();
    wanted opts = usual;
    LKT_OK(open_series(&data, &opts));
    has(data, "0>3 4, 1>4 5, 2>5 6, 3>6 7, 4>7 8, 5>8 9");
    const lks_dataset_info info = lks_dataset_get_info(data);
    assert_int_equal(info.shape.ndim, 2);
    assert_int_equal(info.shape.dim[1], 2);
    assert_int_equal(info.target_shape.dim[0], 4);
    assert_string_equal(lks_dataset_units(data)[0].name, "a +1");
    assert_string_equal(lks_dataset_units(data)[3].name, "b +2");
    LKT_OK(lki_series_part(&part, data, 0, 6));
    has(part, "0>3 4, 1>4 5");
    lks_dataset_destroy(part);
    LKT_OK(lki_series_part(&part, data, 6, 4)); /* samples begin before it, targets do not */
    has(part, "3>6 7, 4>7 8, 5>8 9");
    lks_dataset_destroy(part);
    LKT_OK(lki_series_part(&part, data, 8, 2));
    has(part, "5>8 9");
    lks_dataset_destroy(part);
    LKT_FAILS(LKS_E_INVALID, "has no window: its rows 9 to 9 are fewer than the 2 of a target",
              lki_series_part(&part, data, 9, 1));
    LKT_FAILS(LKS_E_INVALID, "has no window", lki_series_part(&part, data, 0, 4));
    lks_dataset_destroy(data);
    opts.windows.stride = 2;
    opts.windows.first = 4;
    opts.windows.count = 6;
    LKT_OK(open_series(&data, &opts));
    has(data, "1>4 5, 3>6 7, 5>8 9");
    lks_dataset_destroy(data);
    lki_table_close(&table);
}

static void targets_are_chosen_and_standardised(void **state)
{
    (void)state;
    lks_dataset *data;
    float x[3][2], y[2];
    open_ten();
    wanted opts = usual;
    opts.target = "b";
    opts.standardize = true;
    LKT_OK(open_series(&data, &opts));
    LKT_OK(lks_dataset_read(data, 5, x, y));
    /* Of 0, 10, ..., 50: mean 25, variance 875 / 3. */
    const double deviation = sqrt(875.0 / 3);
    assert_true(y[0] == (float)((80 - 25) / deviation));
    assert_true(x[0][1] == (float)((50 - 25) / deviation));
    assert_true(x[0][0] == x[0][1]);
    const lks_unit *unit = lks_dataset_units(data);
    assert_true(unit[1].mean == 25 && unit[1].standardised);
    assert_true(fabs(unit[1].deviation / deviation - 1) < 1e-15);
    lks_dataset_destroy(data);
    lki_table_close(&table);
    open_csv("a,a\n0,5\n1,6\n2,7\n3,8\n4,9\n"); /* of one name: by number */
    opts.target = "1";
    opts.windows.count = 5;
    opts.train = 5;
    opts.standardize = false;
    LKT_OK(open_series(&data, &opts));
    LKT_OK(lks_dataset_read(data, 0, x, y));
    assert_true(y[0] == 8 && y[1] == 9);
    lks_dataset_destroy(data);
    lki_table_close(&table);
    open_ten();
    opts = usual;
    opts.target = "date";
    LKT_FAILS(LKS_E_INVALID, "column 'date' has texts, expected numbers of a series",
              open_series(&data, &opts));
    assert_null(data);
    opts.target = "c";
    LKT_FAILS(LKS_E_INVALID, "'c'", open_series(&data, &opts));
    lki_table_close(&table);
}

static void missing_values_are_refused_or_filled(void **state)
{
    (void)state;
    lks_dataset *data;
    float x[3], y[2];
    open_csv("a\n1\n3\nNA\n4\n5\n9\n");
    wanted opts = {.windows = {.context = 3, .horizon = 2, .stride = 1, .count = 6}, .train = 3};
    LKT_FAILS(LKS_E_FORMAT, "line 4: column 'a' has no value, expected one in every row",
              open_series(&data, &opts));
    opts.fill = true;
    LKT_OK(open_series(&data, &opts));
    LKT_OK(lks_dataset_read(data, 0, x, y));
    assert_true(x[2] == 2 && y[0] == 4); /* the mean of 1 and 3 */
    lks_dataset_destroy(data);
    lki_table_close(&table);
    open_csv("a\nx\ny\nz\n");
    LKT_FAILS(LKS_E_FORMAT, "has no column of numbers", open_series(&data, &opts));
    lki_table_close(&table);
}

static void another_series_has_another_hash(void **state)
{
    (void)state;
    uint64_t hash[6];
    for (int i = 0; i < 6; i++) {
        lks_dataset *data;
        wanted opts = usual;
        if (i == 5)
            open_csv("a,b\n1,2\n3,4\n5,6\n1,2\n3,4\n5,6\n7,8\n1,9\n2,2\n2,3\n");
        else
            open_ten();
        opts.windows.context += i == 1;
        opts.windows.stride += i == 2;
        opts.windows.count -= i == 3;
        opts.standardize = i == 4;
        LKT_OK(open_series(&data, &opts));
        LKT_OK(lks_dataset_hash(data, &hash[i]));
        for (int k = 0; k < i; k++) assert_true(hash[i] != hash[k]);
        lks_dataset_destroy(data);
        lki_table_close(&table);
    }
}

/* Behind the last row nothing is known; a part may be closed behind the whole. */
static void the_last_rows_are_a_sample(void **state)
{
    (void)state;
    lks_dataset *data, *part;
    float x[3][2], y[2][2] = {{7}};
    open_ten();
    wanted opts = usual;
    LKT_OK(open_series(&data, &opts));
    assert_int_equal(lks_dataset_position(data, 0), 3); /* the row of its target */
    LKT_OK(lki_series_part(&part, data, 6, 4));
    lks_dataset_destroy(data);
    assert_int_equal(lks_dataset_position(part, 2), 8);
    has(part, "3>6 7, 4>7 8, 5>8 9");
    lks_dataset_destroy(part);
    opts.windows.stride = 2;
    LKT_OK(open_series(&data, &opts));
    assert_int_equal(lks_dataset_position(data, 2), 7);
    lks_dataset_destroy(data);
    opts.windows.last = true;
    LKT_OK(open_series(&data, &opts));
    assert_int_equal(lks_dataset_get_info(data).samples, 1);
    assert_int_equal(lks_dataset_position(data, 0), 10);
    LKT_OK(lks_dataset_read(data, 0, x, y));
    for (int k = 0; k < 3; k++) assert_true(x[k][0] == (float)(7 + k) && x[k][1] == 10 * x[k][0]);
    for (int k = 0; k < 4; k++) assert_true(y[k / 2][k % 2] == 0);
    lks_dataset_destroy(data);
    opts.windows.context = 10;
    LKT_OK(open_series(&data, &opts));
    lks_dataset_destroy(data);
    opts.windows.context = 11;
    LKT_FAILS(LKS_E_INVALID, "has 10 rows, expected at least the 11 that a sample sees",
              open_series(&data, &opts));
    lki_table_close(&table);
}

static uint64_t train(const char *text, const char *set)
{
    lks_recipe *recipe;
    const lks_run *run;
    LKT_OK(lks_recipe_open_text(&recipe, "a test", text));
    if (set != NULL) LKT_OK(lks_recipe_set(recipe, set));
    LKT_OK(lks_recipe_train(recipe, NULL, &run));
    const uint64_t hash = run->hash;
    assert_int_equal(run->history[1].valid.samples, 18 - 2 + 1);
    assert_int_equal(run->history[1].test.samples, 20 - 2 + 1);
    assert_int_equal(run->history[1].train.samples, 162 - 8 - 2 + 1);
    lks_recipe_close(recipe);
    return hash;
}

static void a_training_has_one_hash(void **state)
{
    (void)state;
    char text[6000] = "t,a,b\n", keys[5000], path[4300];
    for (int i = 0; i < 200; i++)
        sprintf(text + strlen(text), "x%d,%d,%d\n", i, i % 7, (i * i) % 5);
    snprintf(path, sizeof path, "%s/s.csv", folder);
    LKT_OK(lks_file_write(path, text, strlen(text)));
    snprintf(keys, sizeof keys,
             "data: {series: '%s', context: 8, horizon: 2, test_fraction: 0.1}\n"
             "validation: {fraction: 0.1}\n"
             "model: {layers: [flatten, {dense: 6}, relu, {dense: 4}]}\n"
             "train: {batch_size: 16, replicas: 3, epochs: 2, workers: 1}\n",
             path);
    const uint64_t hash = train(keys, NULL);
    assert_true(train(keys, "train.workers=2") == hash);
    assert_true(train(keys, "train.workers=3") == hash);
    lks_recipe *recipe;
    double sum = 0; /* of the rows that are trained with */
    for (int i = 0; i < 162; i++) sum += i % 7;
    LKT_OK(lks_recipe_open_text(&recipe, "a test", keys));
    LKT_OK(lks_recipe_start(recipe));
    assert_true(lks_dataset_units(lks_recipe_get_parts(recipe).train)[0].mean == sum / 162);
    lks_recipe_close(recipe);
    static const char *const wrong[][2] = {
        {"validation.samples=5", "of a series give validation.fraction"},
        {"validation.shuffle=true", "of a series the end is held back"},
        {"data.horizon=500", "has no window"},
        {"data.test_fraction=0.001", "would hold back none of 200 rows"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        LKT_OK(lks_recipe_open_text(&recipe, "a test", keys));
        if (i == 0) LKT_OK(lks_recipe_set(recipe, "validation.fraction=null"));
        LKT_OK(lks_recipe_set(recipe, wrong[i][0]));
        LKT_FAILS(LKS_E_INVALID, wrong[i][1], lks_recipe_start(recipe));
        lks_recipe_close(recipe);
    }
}

/* Whatever cannot be had: nothing of the encoding is lost, or freed twice. */
static void without_memory(void **state)
{
    (void)state;
    lks_context *all = context;
    lks_status status = LKS_E_NOMEM;
    open_ten();
    lki_table_close(&table);
    char path[4300];
    snprintf(path, sizeof path, "%s/s.csv", folder);
    for (int64_t fail_at = 1; status != LKS_OK; fail_at++) {
        lkt_heap heap = {.fail_at = fail_at};
        lks_dataset *data = NULL;
        assert_true(fail_at < 100);
        if (lks_context_create(
                &context, &(lks_context_opts){.allocator = lkt_heap_allocator(&heap)}) != LKS_OK)
            continue;
        status = lki_csv_open(&table, context, path, &(lki_csv_opts){.threads = 1});
        if (status == LKS_OK)
            status = open_series(
                &data, &(wanted){.train = 6,
                                 .windows = {.context = 2, .horizon = 1, .stride = 1, .count = 6}});
        if (status != LKS_OK && status != LKS_E_NOMEM) fail_msg("%s", lks_last_error()->message);
        lks_dataset_destroy(data);
        lki_table_close(&table);
        lks_context_destroy(context);
        assert_int_equal(heap.live, 0);
        assert_int_equal(heap.errors, 0);
    }
    context = all;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(windows_and_parts_lie_in_time),
        TEST(targets_are_chosen_and_standardised),
        TEST(missing_values_are_refused_or_filled),
        TEST(another_series_has_another_hash),
        TEST(the_last_rows_are_a_sample),
        TEST(a_training_has_one_hash),
        TEST(without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

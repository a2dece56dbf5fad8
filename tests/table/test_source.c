/* Tables as data of a recipe: samples and targets of their columns, splits, and what is wrong with them. */
#include "recipe/recipes.h"

#include <math.h>

enum { WIDTH = 16 };

/* Opens data.table t.csv with `keys`, the inside of a flow map, and `more` lines behind. */
static lks_status open_table(lks_recipe **out, const char *csv, const char *keys, const char *more,
                             int data)
{
    char text[1024];
    write_text("t.csv", csv);
    snprintf(text, sizeof text, "data: {table: %s%s%s}\nmodel: {name: mlp}\n%s", in_folder("t.csv"),
             keys[0] != '\0' ? ", " : "", keys, more);
    lks_status status = lks_recipe_open_text(out, "r", text);
    return status == LKS_OK ? lks_recipe_open_data(*out, data) : status;
}

static void assert_sample(lks_dataset *set, int64_t index, int width, const float *x, float y)
{
    float found[WIDTH], target;
    assert_int_equal(lks_dataset_get_info(set).shape.dim[0], width);
    LKT_OK(lks_dataset_read(set, index, found, &target));
    for (int i = 0; i < width; i++)
        if (found[i] != x[i]) fail_msg("element %d is %a, expected %a", i, found[i], x[i]);
    if (target != y) fail_msg("target is %a, expected %a", target, y);
}

static const char *const homes = "area,town,price\n1,Ulm,10\n3,Bonn,20\n5,Ulm,60\n";

/* Mean 3, deviation sqrt(8/3); of the price 30 and sqrt(1400/3). Towns in the order of their bytes. */
static void numbers_are_standardised_and_texts_are_one_of_many(void **state)
{
    (void)state;
    lks_recipe *recipe;
    LKT_OK(open_table(&recipe, homes, "", "", LKS_RECIPE_TRAIN));
    const lks_recipe_parts parts = lks_recipe_get_parts(recipe);
    const double a = sqrt(8.0 / 3), p = sqrt(1400.0 / 3);
    assert_int_equal(parts.data.samples, 3);
    assert_int_equal(parts.data.classes, 0);
    assert_int_equal(parts.data.target_shape.dim[0], 1);
    assert_sample(parts.train, 0, 3, (float[]){(float)(-2 / a), 0, 1}, (float)(-20 / p));
    assert_sample(parts.train, 1, 3, (float[]){0, 1, 0}, (float)(-10 / p));
    assert_sample(parts.train, 2, 3, (float[]){(float)(2 / a), 0, 1}, (float)(30 / p));
    const lks_unit *unit = lks_dataset_units(parts.train);
    assert_string_equal(unit->name, "price");
    assert_true(unit->mean == 30 && unit->deviation == p && unit->standardised);
    lks_recipe_close(recipe);
    LKT_OK(open_table(&recipe, homes, "standardize: false, targets: [area], ignore: [town]", "",
                      LKS_RECIPE_TRAIN));
    lks_dataset *train = lks_recipe_get_parts(recipe).train;
    assert_sample(train, 2, 1, (float[]){60}, 5);
    assert_false(lks_dataset_units(train)->standardised);
    assert_true(lks_dataset_units(train)->mean == 3);
    lks_recipe_close(recipe);
}

static char warned[500];

static void keep_warning(void *user, lks_log_level level, const char *line)
{
    (void)user;
    if (level == LKS_LOG_WARN) snprintf(warned, sizeof warned, "%s", line);
}

static void one_class_is_warned_of(void **state)
{
    static const struct {
        const char *csv, *keys, *expected; /* NULL: nothing */
    } cases[] = {
        {"a,kind\n1,x\n2,x\n", "",
         "column 'kind' has the class 'x' in all rows, so that there is "
         "nothing to learn; is it the column that is meant by "
         "data.targets?"},
        {"a,kind\n1,7\n2,7\n", ", task: classification", "column 'kind' has the class '7' in all"},
        {"a,kind\n1,x\n2,y\n", "", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        lks_recipe *recipe;
        write_text("t.csv", cases[i].csv);
        snprintf(text, sizeof text, "data: {table: %s%s}\nmodel: {name: mlp}\n", in_folder("t.csv"),
                 cases[i].keys);
        LKT_OK(lks_recipe_open_text(&recipe, "r", text));
        lks_recipe_log(recipe, keep_warning, NULL);
        warned[0] = '\0';
        LKT_OK(lks_recipe_open_data(recipe, LKS_RECIPE_TRAIN));
        if (cases[i].expected == NULL)
            assert_string_equal(warned, "");
        else if (strstr(warned, cases[i].expected) == NULL)
            fail_msg("case %zu: '%s'", i, warned);
        lks_recipe_close(recipe);
    }
}

static void classes_are_texts_or_integers(void **state)
{
    (void)state;
    lks_recipe *recipe;
    int32_t label;
    float x[WIDTH];
    LKT_OK(open_table(&recipe, homes, "targets: [town]", "", LKS_RECIPE_TRAIN));
    lks_dataset *train = lks_recipe_get_parts(recipe).train;
    assert_int_equal(lks_dataset_get_info(train).classes, 2);
    assert_string_equal(lks_dataset_class(train, 0), "Bonn");
    LKT_OK(lks_dataset_read(train, 0, x, &label));
    assert_int_equal(label, 1);
    assert_null(lks_dataset_units(train));
    lks_recipe_close(recipe);
    LKT_OK(open_table(&recipe, "x,y\n1,7\n2,-1\n3,10\n4,7\n", "task: classification", "",
                      LKS_RECIPE_TRAIN));
    train = lks_recipe_get_parts(recipe).train;
    assert_int_equal(lks_dataset_get_info(train).classes, 3);
    assert_string_equal(lks_dataset_class(train, 0), "-1");
    assert_string_equal(lks_dataset_class(train, 2), "10");
    LKT_OK(lks_dataset_read(train, 3, x, &label));
    assert_int_equal(label, 1);
    lks_recipe_close(recipe);
    LKT_OK(open_table(&recipe, "x,y\n1,\"a \"\"b\"\"\"\n2,c\n", "", "", LKS_RECIPE_TRAIN));
    train = lks_recipe_get_parts(recipe).train;
    assert_string_equal(lks_dataset_class(train, 0), "a \"b\"");
    lks_recipe_close(recipe);
    LKT_OK(open_table(&recipe, "zip,y\n01,1\n1,2\n01,3\n", "texts: [zip]", "", LKS_RECIPE_TRAIN));
    assert_sample(lks_recipe_get_parts(recipe).train, 2, 2, (float[]){1, 0},
                  (float)(1 / sqrt(2.0 / 3)));
    lks_recipe_close(recipe);
}

static void missing_values_are_filled_where_asked(void **state)
{
    (void)state;
    static const char csv[] = "a,b,t,y\n1,2,u,1\n,4,,2\n3,NA,v,3\n";
    lks_recipe *recipe;
    LKT_FAILS(LKS_E_FORMAT, "t.csv, line 3: column 'a' has no value, expected one in every row",
              open_table(&recipe, csv, "", "", LKS_RECIPE_TRAIN));
    lks_recipe_close(recipe);
    LKT_OK(open_table(&recipe, csv, "missing: mean, standardize: false", "", LKS_RECIPE_TRAIN));
    lks_dataset *train = lks_recipe_get_parts(recipe).train;
    assert_sample(train, 1, 4, (float[]){2, 4, 0, 0}, 2);
    assert_sample(train, 2, 4, (float[]){3, 3, 0, 1}, 3);
    lks_recipe_close(recipe);
    LKT_OK(open_table(&recipe, csv, "missing: mean", "", LKS_RECIPE_TRAIN));
    assert_sample(lks_recipe_get_parts(recipe).train, 1, 4, (float[]){0, 1, 0, 0}, 0);
    lks_recipe_close(recipe);
    LKT_FAILS(LKS_E_FORMAT, "line 4: column 'b' has no value, but is a target",
              open_table(&recipe, csv, "missing: mean, targets: [b]", "", LKS_RECIPE_TRAIN));
    lks_recipe_close(recipe);
}

/* 100 rows with the numbers 0 to 99 in both columns: which rows are where, and whose mean is taken. */
static void splits_are_drawn_and_standardised_by_the_training_alone(void **state)
{
    (void)state;
    char csv[2048] = "x,y\n";
    int seen[100] = {0}, in_order = 0;
    lks_recipe *recipe;
    for (int i = 0; i < 100; i++)
        snprintf(csv + strlen(csv), sizeof csv - strlen(csv), "%d,%d\n", i, i);
    LKT_OK(open_table(&recipe, csv, "test_fraction: 0.2", "validation: {samples: 10}\n",
                      LKS_RECIPE_TRAIN | LKS_RECIPE_TEST));
    const lks_recipe_parts parts = lks_recipe_get_parts(recipe);
    lks_dataset *const set[3] = {parts.train, parts.valid, parts.test};
    const int64_t samples[3] = {70, 10, 20};
    const lks_unit *unit = lks_dataset_units(parts.train);
    double sum = 0;
    for (int k = 0; k < 3; k++) {
        assert_int_equal(lks_dataset_get_info(set[k]).samples, samples[k]);
        for (int64_t i = 0; i < samples[k]; i++) {
            const int64_t row = lks_dataset_position(set[k], i);
            float x, y;
            LKT_OK(lks_dataset_read(set[k], i, &x, &y));
            assert_true(x == y && x == (float)(((double)row - unit->mean) / unit->deviation));
            seen[row]++;
            in_order += k == 1 && row == 90 + i;
            if (k == 0) sum += (double)row;
        }
    }
    for (int i = 0; i < 100; i++) assert_int_equal(seen[i], 1);
    assert_true(unit->mean == sum / 70);
    assert_true(in_order < 10); /* validation is drawn, too */
    assert_true(lks_dataset_units(parts.test)->mean == unit->mean);
    lks_recipe_close(recipe);
    LKT_OK(open_table(&recipe, csv, "test_fraction: 0.2",
                      "validation: {samples: 10, shuffle: false}\n", LKS_RECIPE_TRAIN));
    assert_int_equal(lks_dataset_get_info(lks_recipe_get_parts(recipe).valid).samples, 10);
    assert_true(lks_dataset_position(lks_recipe_get_parts(recipe).valid, 9) > 89);
    lks_recipe_close(recipe);
}

static void another_file_is_tested_with(void **state)
{
    (void)state;
    char keys[600];
    lks_recipe *recipe;
    snprintf(keys, sizeof keys, "standardize: false, test_table: %s", in_folder("u.csv"));
    write_text("u.csv", "town;other;price;area\nKiel;1;5;9\nUlm;2;6;7\n");
    LKT_OK(open_table(&recipe, homes, keys, "", LKS_RECIPE_TRAIN | LKS_RECIPE_TEST));
    lks_dataset *test = lks_recipe_get_parts(recipe).test;
    assert_sample(test, 0, 3, (float[]){9, 0, 0}, 5); /* a town that the training does not know */
    assert_sample(test, 1, 3, (float[]){7, 0, 1}, 6);
    lks_recipe_close(recipe);
    write_text("u.csv", "town,price,area\nUlm,2,big\n");
    LKT_FAILS(LKS_E_FORMAT, "u.csv': column 'area' has texts, expected numbers as in the table of",
              open_table(&recipe, homes, keys, "", LKS_RECIPE_TRAIN | LKS_RECIPE_TEST));
    lks_recipe_close(recipe);
    write_text("u.csv", "town,price\nUlm,2\n");
    LKT_FAILS(LKS_E_INVALID, "u.csv' has no column 'area'",
              open_table(&recipe, homes, keys, "", LKS_RECIPE_TRAIN | LKS_RECIPE_TEST));
    lks_recipe_close(recipe);
    strcat(keys, ", targets: [town]");
    write_text("u.csv", "town,price,area\nUlm,2,3\nKiel,2,3\n");
    LKT_FAILS(LKS_E_FORMAT,
              "u.csv, line 3: column 'town' has the class 'Kiel', which the table of the training "
              "has not; take the row out",
              open_table(&recipe, homes, keys, "", LKS_RECIPE_TRAIN | LKS_RECIPE_TEST));
    lks_recipe_close(recipe);
    snprintf(keys, sizeof keys, "task: classification, test_table: %s", in_folder("u.csv"));
    write_text("u.csv", "area,town,price\n1,Ulm,60\n1,Ulm,1234567\n");
    LKT_FAILS(LKS_E_FORMAT,
              "u.csv, line 3: column 'price' has the class '1234567', which the table",
              open_table(&recipe, homes, keys, "", LKS_RECIPE_TRAIN | LKS_RECIPE_TEST));
    lks_recipe_close(recipe);
}

static void what_is_wrong_is_said(void **state)
{
    (void)state;
    static const struct fault {
        const char *csv, *keys, *says;
    } faults[] = {
        {"a,b\n1,2\n", "targets: [c]", "has no column 'c'"},
        {"a,b\n1,2\n", "targets: [b, b]", "column 'b' is a target twice"},
        {"a,b,b\n1,2,3\n", "targets: [1, 2]", "two targets are called 'b'"},
        {"a,b\n1,2\n", "targets: [b], ignore: [b]", "column 'b' is a target, but is left out"},
        {"a,b\n1,2\n", "targets: [a, b]", "has no columns beside targets"},
        {"a;b\n1;2\n", "separator: comma",
         "has no columns beside targets and those left out; is its separator"},
        {"a,b\n1,x\n", "task: regression",
         "column 'b' has texts, expected numbers of a regression"},
        {"a,b,c\n1,2,x\n", "targets: [b, c]",
         "column 'c' has texts, expected numbers of a regression"},
        {"a,b\n1,2.5\n", "task: classification", "has the value 2.5, expected classes"},
        {"a,b,c\n1,2,3\n", "task: classification, targets: [b, c]",
         "classification has one target, but 2"},
        {"a,b\n1e200,2\n3,4\n", "", "column 'a' has numbers too large to be squared"},
        {"a,b\n1e50,2\n3,4\n", "standardize: false",
         "line 2: column 'a' has a number too large for 32-bit"},
        {"a,b\nNA,2\nNA,4\n", "missing: mean",
         "column 'a' has no value in the rows of the training"},
        {"a,b\n1,2\n3,4\n", "test_fraction: 0.1",
         "data.test_fraction would hold back none of 2 rows"},
        {"a,b\n1,2\n", "targets: [[a]]", "data.targets has a list or a section in it"},
        {"a,b\n1,2\n", "path: x", "data.path and data.table name two data sets"},
        {"a,b\n1,2\n", "name: mnist",
         "data.table is not known to mnist; it is for data.name 'table'"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        lks_recipe *recipe;
        const lks_status status = open_table(&recipe, faults[i].csv, faults[i].keys, "",
                                             LKS_RECIPE_TRAIN);
        assert_int_not_equal(status, LKS_OK);
        LKT_FAILS(status, faults[i].says, status);
        lks_recipe_close(recipe);
    }
}

static void columns_of_too_many_texts_are_refused(void **state)
{
    (void)state;
    enum { ROWS = 1001 };
    static char csv[ROWS * 16];
    lks_recipe *recipe;
    int used = snprintf(csv, sizeof csv, "t,y\n");
    for (int i = 0; i < ROWS; i++)
        used += snprintf(csv + used, sizeof csv - (size_t)used, "t%d,1\n", i);
    LKT_FAILS(LKS_E_FORMAT, "column 't' has 1001 different texts, more than 1000",
              open_table(&recipe, csv, "", "", LKS_RECIPE_TRAIN));
    lks_recipe_close(recipe);
    csv[used - (int)strlen("t1000,1\n")] = '\0';
    LKT_OK(open_table(&recipe, csv, "", "", LKS_RECIPE_TRAIN));
    assert_int_equal(lks_recipe_get_parts(recipe).data.shape.dim[0], 1000);
    lks_recipe_close(recipe);
}

/* The program: trained by its path alone, the same bits for any number of workers, tested as it was. */
static void tables_are_trained_and_tested(void **state)
{
    (void)state;
    char csv[4096] = "a,b,kind,y\n", alone[32], many[32];
    for (int i = 0; i < 100; i++)
        snprintf(csv + strlen(csv), sizeof csv - strlen(csv), "%d,%.2f,%s,%d\n", i, i * i * 0.01,
                 i % 3 == 0 ? "low" : "high", i / 2 + 3 * (i % 3 == 0));
    write_text("t.csv", csv);
    write_text("c.yaml", "data: {table: t.csv, test_fraction: 0.2}\nmodel: {name: mlp}\n");
    run("train c.yaml --epochs 20 --workers 1 --out o");
    expect_ok();
    expect_out("Test set: Average loss: 0.");
    last_hash(alone);
    run("train c.yaml --epochs 20 --workers 4");
    expect_ok();
    last_hash(many);
    assert_string_equal(alone, many);
    run("eval c.yaml --out o");
    expect_ok();
    run("train c.yaml --epochs 20 --set loss.name=l1"); /* other losses, other bits */
    expect_ok();
    last_hash(many);
    assert_string_not_equal(alone, many);
    run("train c.yaml --epochs 20 --set loss.name=huber --set loss.delta=0.25");
    expect_ok();
    last_hash(alone);
    assert_string_not_equal(alone, many);
    run("train c.yaml --epochs 20 --set loss.name=huber");
    expect_ok();
    last_hash(many);
    assert_string_not_equal(alone, many);
    run("train c.yaml --set data.test_table=t.csv");
    expect(2, "and data.test_table both say what to test with; drop one");
    run("train c.yaml --set data.std=2 --dry-run");
    expect(2, "is for pictures and arrays; columns have data.standardize");
    run("train c.yaml --set loss.delta=0.25 --dry-run");
    expect(2, "loss.delta");
    run("train c.yaml --set loss.name=nll --dry-run");
    expect(2,
           "loss.name is nll, but the data set 'table' has no classes; expected mse, l1 or huber");
    write_text("d.yaml", "model: {name: mlp}\n");
    run("train d.yaml --data t.csv --dry-run"); /* a path alone */
    expect_ok();
    run("train d.yaml --set data.name=table");
    expect(2, "data.name is table, which needs data.table: FILE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_standardised_and_texts_are_one_of_many),
        cmocka_unit_test(one_class_is_warned_of),
        cmocka_unit_test(classes_are_texts_or_integers),
        cmocka_unit_test(missing_values_are_filled_where_asked),
        cmocka_unit_test(splits_are_drawn_and_standardised_by_the_training_alone),
        cmocka_unit_test(another_file_is_tested_with),
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(columns_of_too_many_texts_are_refused),
        cmocka_unit_test(tables_are_trained_and_tested),
    };
    return cmocka_run_group_tests_name("source", tests, set_up, tear_down);
}

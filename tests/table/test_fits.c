/* Predicted numbers in the units of the table, and how well they fit: beside sums of the test's own, and PyTorch. */
#include "recipe/recipes.h"

#include <math.h>

#include <lockstep/tools.h>

#include "support/golden.h"

enum { ROWS = 60 };

/* Two targets of different size; the rows of the test are those whose number predict prints. */
static void write_table(double y[ROWS][2])
{
    char csv[8192] = "a,b,small,\"large, too\"\n";
    for (int i = 0; i < ROWS; i++) {
        y[i][0] = i * 0.001;
        y[i][1] = 1000.0 * (i % 7) - 500.0 * i;
        snprintf(csv + strlen(csv), sizeof csv - strlen(csv), "%d,%d,%.3f,%.0f\n", i, i % 7,
                 y[i][0], y[i][1]);
    }
    write_text("t.csv", csv);
}

static double score(const char *target, const char *name)
{
    json_t *line = json_loads(last.out, JSON_DISABLE_EOF_CHECK, NULL);
    assert_non_null(line);
    json_t *found = json_object_get(json_object_get(json_object_get(line, "test_targets"), target),
                                    name);
    assert_true(json_is_real(found));
    const double value = json_real_value(found);
    json_decref(line);
    return value;
}

static void assert_near(double found, double expected)
{
    if (!(fabs(found - expected) <= 1e-5 * fabs(expected) + 1e-7))
        fail_msg("found %.9g, expected %.9g", found, expected);
}

/* What predict --format npy wrote to p.npy: so many rows of so many columns. */
static void read_array(const char *shape, float *out, size_t count)
{
    char head[128];
    FILE *file = fopen(in_folder("p.npy"), "rb");
    assert_non_null(file);
    assert_int_equal(fread(head, 1, sizeof head, file), sizeof head);
    assert_memory_equal(head, "\x93NUMPY\1\0v\0{'descr': '<f4', 'fortran_order': False, ", 51);
    head[sizeof head - 1] = '\0';
    if (strstr(head + 10, shape) == NULL) fail_msg("%s, expected %s", head + 10, shape);
    assert_int_equal(fread(out, sizeof *out, count, file), count);
    assert_int_equal(fgetc(file), EOF);
    fclose(file);
}

/* Predictions are read from the CSV, as pandas would; the table has the values that they are compared with. */
static void fits_are_those_of_predictions(void **state)
{
    (void)state;
    static const char *const names[2] = {"small", "large, too"};
    static const char *const standardize[2] = {"true", "false"};
    double y[ROWS][2], wide[2];
    write_table(y);
    for (int k = 0; k < 2; k++) {
        double n = 0, errors[2] = {0}, squares[2] = {0}, sum[2] = {0}, sum2[2] = {0};
        float array[18][2];
        char config[512];
        snprintf(config, sizeof config,
                 "data: {table: t.csv, targets: [small, 'large, too'], test_fraction: 0.3, "
                 "standardize: %s}\n"
                 "model: {name: mlp}\ntrain: {epochs: 3}\noptimizer: {lr: %s}\n",
                 standardize[k], k == 0 ? "0.1" : "1e-9");
        write_text("c.yaml", config);
        run("train c.yaml --out o%d", k);
        expect_ok();
        assert_int_equal(
            shell("'%s' predict c.yaml --out o%d --format npy >p.npy 2>err.txt", program(), k), 0);
        read_array("'shape': (18, 2), }", &array[0][0], 18 * 2);
        run("predict c.yaml --out o%d --format csv", k);
        expect_ok();
        char *line = strtok(last.out, "\n");
        assert_string_equal(line, "sample,small,\"large, too\",small_true,\"large, too_true\"");
        for (; (line = strtok(NULL, "\n")) != NULL; n++) {
            int row;
            double out[2];
            assert_int_equal(
                sscanf(line, "%d,%lf,%lf,%lf,%lf", &row, &out[0], &out[1], &wide[0], &wide[1]), 5);
            for (int t = 0; t < 2; t++) {
                assert_near(wide[t], y[row][t]);
                assert_true(array[(int)n][t] == (float)out[t]);
                errors[t] += fabs(out[t] - y[row][t]);
                squares[t] += (out[t] - y[row][t]) * (out[t] - y[row][t]);
                sum[t] += y[row][t];
                sum2[t] += y[row][t] * y[row][t];
            }
        }
        assert_true(n == 18);
        run("eval c.yaml --out o%d --format json", k);
        expect_ok();
        for (int t = 0; t < 2; t++) {
            assert_near(score(names[t], "mae"), errors[t] / n);
            assert_near(score(names[t], "rmse"), sqrt(squares[t] / n));
            assert_near(score(names[t], "r2"), 1 - squares[t] / (sum2[t] - sum[t] * sum[t] / n));
        }
    }
    run("eval c.yaml --out o1");
    expect_ok();
    expect_out("target");
    expect_out("RMSE");
    run("predict c.yaml --out o1 --format json --count 1");
    expect_ok();
    expect_out("\"predicted\": {\"small\": ");
    run("predict c.yaml --out o1 --outputs");
    expect(2, "--probabilities and --outputs are of classes, but this data has none");
}

/* As CSV has them: class and probability, then those that are asked for, without the label. */
static void predictions_of_classes_are_an_array(void **state)
{
    (void)state;
    float array[3][22];
    write_text("d.yaml", "data: {name: digits, samples: 30, test_samples: 5}\n"
                         "model: {name: mlp, hidden: [8]}\ntrain: {steps: 2, batch_size: 10}\n");
    run("train d.yaml --out o");
    expect_ok();
    assert_int_equal(shell("'%s' predict d.yaml --out o --count 3 --format npy --outputs "
                           "--probabilities >p.npy 2>err.txt",
                           program()),
                     0);
    read_array("'shape': (3, 22), }", &array[0][0], 3 * 22);
    run("predict d.yaml --out o --count 3 --format csv --outputs --probabilities");
    expect_ok();
    char *line = strtok(last.out, "\n");
    for (int row = 0; row < 3; row++) {
        line = strtok(NULL, "\n");
        assert_non_null(line);
        const char *at = line;
        for (int column = -1; column < 23; column++, at += strcspn(at, ",") + 1) {
            const float found = strtof(at, NULL);
            if (column == 1) assert_true(fabsf(array[row][1] - found) < 1e-6f);
            if (column == 0) assert_true(array[row][0] == found);
            if (column > 2) assert_true(array[row][column - 1] == found); /* behind the label */
        }
    }
    assert_int_equal(shell("'%s' predict d.yaml --out o --count 3 --format npy >p.npy", program()),
                     0);
    read_array("'shape': (3, 2), }", &array[0][0], 3 * 2);
}

/* Where the values of a test are all the same, R2 is none, whatever roundings make of their sums; and numbers larger than what a float
 * tells apart are predicted and shown as the table has them. */
static void values_that_are_close_are_told_apart(void **state)
{
    (void)state;
    char csv[8192] = "a,y,z\n";
    for (int i = 0; i < ROWS; i++)
        snprintf(csv + strlen(csv), sizeof csv - strlen(csv), "%d,%d,%d\n", i, 16777216 + i, i % 5);
    write_text("t.csv", csv);
    write_text("s.csv", "a,y,z\n1,16777999,3\n2,16777999,3\n3,16777999,3\n");
    write_text("c.yaml",
               "data: {table: t.csv, targets: [y, z], test_table: s.csv}\nmodel: {name: mlp}\n"
               "train: {epochs: 1}\n");
    run("train c.yaml --out close");
    expect_ok();
    run("eval c.yaml --out close --format json");
    expect_ok();
    expect_out("{\"y\": {\"r2\": null, ");
    expect_out("\"z\": {\"r2\": null, ");
    run("predict c.yaml --out close --format csv --split train");
    expect_ok();
    strtok(last.out, "\n");
    for (char *line; (line = strtok(NULL, "\n")) != NULL;) {
        int row;
        double value;
        assert_int_equal(sscanf(line, "%d,%*f,%*f,%lf", &row, &value), 2);
        assert_true(value == 16777216 + row);
    }
}

/* Each loss may be 8 times as far from PyTorch's float64 as its own float32 is, and 2^-20 more, where that has been lucky. */
/* Targets that are numbers have no classes to count. */
static void statistics_are_those_of_the_columns(void **state)
{
    (void)state;
    double y[ROWS][2];
    write_table(y);
    write_text("c.yaml",
               "data: {table: t.csv, targets: [small, 'large, too'], standardize: false}\n"
               "model: {name: mlp}\n");
    run("data stats c.yaml");
    expect_ok();
    expect_out("c.yaml: 60 training samples of 2\n");
    expect_out("t.csv: 60 rows\ncolumn ");
    assert_null(strstr(last.out, "class"));
    assert_null(strstr(last.out, "mean: ")); /* data.mean is not for tables */
    write_text("c.yaml", "data: {table: t.csv, targets: [b]}\nmodel: {name: mlp}\n");
    write_text("t.csv", "a,b\n1,no\n2,yes\n3,no\n4,no\n");
    run("data stats c.yaml");
    expect_ok();
    expect_out("75.00%");
    /* As the file lies there, whatever misses; deviations are those of the whole. */
    write_text("t.csv", "a,city,left,b\n1,rome,7,no\n,bern,7,yes\n4,,7,no\n-2,rome,7,no\n");
    write_text("c.yaml",
               "data: {table: t.csv, targets: [b], ignore: [left]}\nmodel: {name: mlp}\n");
    run("data stats c.yaml");
    expect(4, "t.csv, line 3: column 'a' has no value");
    assert_string_equal(last.out, "t.csv: 4 rows\n"
                                  "column  mean      std  least  most  missing  texts\n"
                                  "a          1  2.44949     -2     4        1      -\n"
                                  "city       -        -      -     -        1      2\n"
                                  "b          -        -      -     -        0      2\n\n");
    write_text("c.yaml", "data: {table: t.csv, targets: [b], ignore: [left], missing: mean,\n"
                         "       test_table: new.csv}\nmodel: {name: mlp}\n");
    write_text("new.csv", "a,city,left,b\n5,oslo,7,no\n");
    run("data stats c.yaml");
    expect_ok();
    expect_out("\na          1  2.44949     -2     4        1      -\n");
    expect_out("\nc.yaml: 4 training samples of 3\n");
    run("data stats c.yaml --test");
    expect_ok();
    expect_out("new.csv: 1 row\n");
    expect_out("\na          5    0      5     5        0      -\n");
}

static void diabetes_is_learned_as_by_pytorch(void **state)
{
    (void)state;
    static const char *const names[] = {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"};
    char text[5000];
    lks_recipe *recipe;
    json_t *golden = lkt_json_load("tests/table/golden/diabetes.json");
    const json_t *losses = json_object_get(golden, "losses");
    const json_t *errors = json_object_get(golden, "f32_loss_errors");
    const int batch = (int)lkt_json_integer(golden, "batch");
    snprintf(text, sizeof text,
             "data: {table: %s}\nmodel: {name: mlp, hidden: [16]}\ntrain: {batch_size: %d, "
             "replicas: 4}\n",
             source("tests/table/golden/diabetes.csv"), batch);
    LKT_OK(lks_recipe_open_text(&recipe, "diabetes", text));
    LKT_OK(lks_recipe_open_data(recipe, LKS_RECIPE_TRAIN));
    LKT_OK(lks_recipe_compile(recipe, 2));
    const lks_recipe_parts parts = lks_recipe_get_parts(recipe);
    assert_int_equal(parts.data.samples, 442);
    for (uint32_t i = 0; i < 4; i++) lkt_golden_write(parts.model, names[i], i + 1, 0.25f, 0);
    for (size_t step = 0; step < json_array_size(losses); step++) {
        static float x[64 * 10], y[64];
        const lks_batch part = {.x = x, .y = y, .count = batch};
        lks_metrics metrics;
        for (int64_t i = 0; i < batch; i++)
            LKT_OK(
                lks_dataset_read(parts.train, (int64_t)(step % 6) * batch + i, x + i * 10, y + i));
        LKT_OK(lks_model_step(parts.model, &part, lkt_json_number(golden, "rate"), &metrics));
        const double expected = json_number_value(json_array_get(losses, step));
        const double bound = 8 * json_number_value(json_array_get(errors, step)) + 0x1p-20;
        if (!(fabs(lks_metrics_loss(&metrics) - expected) <= bound))
            fail_msg("step %zu: loss %.9g, PyTorch %.9g +- %.2g", step, lks_metrics_loss(&metrics),
                     expected, bound);
    }
    json_decref(golden);
    lks_recipe_close(recipe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fits_are_those_of_predictions),
        cmocka_unit_test(predictions_of_classes_are_an_array),
        cmocka_unit_test(values_that_are_close_are_told_apart),
        cmocka_unit_test(statistics_are_those_of_the_columns),
        cmocka_unit_test(diabetes_is_learned_as_by_pytorch),
    };
    return cmocka_run_group_tests_name("fits", tests, set_up, tear_down);
}

/* What a record has of its test at the end: that which `eval` says of the last weights; and `report` of it. */
#include "recipe/recipes.h"

#include <lockstep/tools.h>

static json_t *evaluated(const char *command)
{
    run("%s", command);
    expect_ok();
    json_t *line = json_loads(last.out, JSON_DISABLE_EOF_CHECK, NULL);
    assert_non_null(line);
    return line;
}

static void targets_are_those_of_eval(void **state)
{
    (void)state;
    char csv[4096] = "a,b,y,\"z, too\"\n";
    for (int i = 0; i < 80; i++)
        snprintf(csv + strlen(csv), sizeof csv - strlen(csv), "%d,%d,%d,%d\n", i, i * i % 17,
                 3 * i + i * i % 17, i % 5);
    write_text("t.csv", csv);
    write_text("c.yaml", "data: {table: t.csv, targets: [y, 'z, too'], test_fraction: 0.3}\n"
                         "model: {name: mlp}\ntrain: {epochs: 9}\n");
    run("train c.yaml --out o --record r.json");
    expect_ok();
    json_t *record = read_json_file("r.json"),
           *line = evaluated("eval c.yaml --out o --last --format json");
    const json_t *found = json_object_get(record, "test_targets");
    assert_int_equal(json_object_size(found), 2);
    assert_true(json_equal(found, json_object_get(line, "test_targets")));
    assert_null(json_object_get(record, "test_confusion"));
    json_decref(line);
    json_decref(record);
    run("report r.json --html r.html");
    expect_ok();
    assert_int_equal(shell("grep -q '^<h2>Test</h2>$' r.html &&"
                           "grep -q '<th>target</th><th class=\"n\">R2</th>' r.html &&"
                           "grep -q '^<tr><td>z, too</td><td class=\"n\">' r.html"),
                     0);
    expect_out("\nTest:\ntarget ");
    expect_out("\nz, too ");
    run("train c.yaml --record r.json --set data.test_fraction=null"); /* nothing is tested */
    expect_ok();
    record = read_json_file("r.json");
    assert_null(json_object_get(record, "test_targets"));
    json_decref(record);
}

/* And of a series by time ahead, in the table that eval has. */
static void horizons_are_those_of_eval(void **state)
{
    (void)state;
    char csv[4096] = "a,b\n", table[400];
    for (int i = 0; i < 90; i++)
        snprintf(csv + strlen(csv), sizeof csv - strlen(csv), "%d,%d\n", i * i % 17, i % 5);
    write_text("s.csv", csv);
    write_text("s.yaml", "data: {series: s.csv, context: 6, horizon: 3, test_fraction: 0.3}\n"
                         "model: {layers: [flatten, {dense: 6}]}\ntrain: {epochs: 2}\n");
    run("train s.yaml --out q --record q.json");
    expect_ok();
    json_t *record = read_json_file("q.json"),
           *line = evaluated("eval s.yaml --out q --last --format json");
    assert_int_equal(json_array_size(json_object_get(record, "test_horizons")), 3);
    assert_true(json_equal(json_object_get(record, "test_horizons"),
                           json_object_get(line, "test_horizons")));
    json_decref(line);
    json_decref(record);
    run("eval s.yaml --out q --last");
    const char *from = strstr(last.out, "time ahead");
    assert_non_null(from);
    snprintf(table, sizeof table, "Test:\n%s", from);
    assert_non_null(strstr(table, "\nall "));
    run("report q.json");
    expect_ok();
    expect_out(table);
}

/* The matrix of eval from the cells of the record. */
static void assert_cells(const json_t *cells, const json_t *matrix)
{
    int64_t sum = 0, all = 0;
    for (size_t i = 0; i < json_array_size(cells); i++) {
        const json_t *cell = json_array_get(cells, i);
        const int64_t count = json_integer_value(json_array_get(cell, 2));
        const json_t *row = json_array_get(matrix,
                                           (size_t)json_integer_value(json_array_get(cell, 0)));
        assert_true(count > 0);
        assert_int_equal(count, json_integer_value(json_array_get(
                                    row, (size_t)json_integer_value(json_array_get(cell, 1)))));
        sum += count;
    }
    for (size_t i = 0; i < json_array_size(matrix); i++)
        for (size_t k = 0; k < json_array_size(json_array_get(matrix, i)); k++)
            all += json_integer_value(json_array_get(json_array_get(matrix, i), k));
    assert_int_equal(sum, all);
    assert_int_equal(sum, 300);
}

static void classes_are_those_of_eval(void **state)
{
    (void)state;
    write_text("d.yaml", "data: {name: digits, samples: 640, test_samples: 300}\n"
                         "model: {name: mlp}\ntrain: {epochs: 2, test_batch_size: 70}\n");
    run("train d.yaml --out d --record d.json --workers 1");
    expect_ok();
    json_t *record = read_json_file("d.json"),
           *line = evaluated("eval d.yaml --out d --last --metrics --format json");
    assert_cells(json_object_get(record, "test_confusion"),
                 json_object_get(line, "test_confusion"));
    assert_null(json_object_get(record, "test_targets"));
    json_decref(line);
    run("train d.yaml --record w.json --workers 3");
    expect_ok();
    json_t *other = read_json_file("w.json");
    assert_true(json_equal(json_object_get(record, "test_confusion"),
                           json_object_get(other, "test_confusion")));
    json_decref(other);
    run("train d.yaml --record two.json --num-processes 2");
    if (last.code == 0) { /* where there is an MPI */
        other = read_json_file("two.json");
        assert_true(json_equal(json_object_get(record, "test_confusion"),
                               json_object_get(other, "test_confusion")));
        json_decref(other);
    }
    run("report d.json");
    expect_ok();
    expect_out("\nTest:\nclass  samples  precision  recall      F1\n    0 ");
    char macro[64]; /* of the record, and of the matrix in it */
    const json_t *epochs = json_object_get(record, "epochs");
    const json_t *end = json_array_get(epochs, json_array_size(epochs) - 1);
    snprintf(macro, sizeof macro, "  %.4f  %.4f  %.4f\n",
             json_real_value(json_object_get(end, "test_macro_precision")),
             json_real_value(json_object_get(end, "test_macro_recall")),
             json_real_value(json_object_get(end, "test_macro_f1")));
    json_decref(record);
    expect_out(macro);
    expect_out("\n\nclass \\ given ");
    run("report d.json w.json --html d.html");
    expect_ok();
    assert_int_equal(shell("grep -q '^<h2>Test of w</h2>$' d.html &&"
                           "grep -q '<th class=\"n\">precision</th>' d.html &&"
                           "grep -q '>class .* given</th><th' d.html"),
                     0);
    expect_out("\nTest of w:\n");
    run("train d.yaml --record w.json --set data.classes=1001"); /* too many for a matrix */
    expect_ok();
    other = read_json_file("w.json");
    assert_null(json_object_get(other, "test_confusion"));
    json_decref(other);
}

/* Of many classes the most frequent mistakes, with names where there are some; what is no cell is passed over. */
static void records_of_others_are_read(void **state)
{
    (void)state;
    static const char *const wrong[] = {"[[0, 1]]",
                                        "[[0, -1, 2]]",
                                        "[[0, 1.5, 2]]",
                                        "{}",
                                        "[5]",
                                        "[[0, 1001, 1]]",
                                        "[[9223372036854775807, 0, 1]]"};
    char text[4096];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(text, sizeof text,
                 "{\"hash\": \"00\", \"config\": {}, \"epochs\": [], \"test_confusion\": %s}",
                 wrong[i]);
        write_text("x.json", text);
        run("report x.json");
        assert_true(last.code == 0 || last.code == 4);
        assert_null(strstr(last.out, "given"));
    }
    snprintf(
        text, sizeof text,
        "{\"hash\": \"00\", \"config\": {}, \"epochs\": [], \"class_names\": [\"cat\", \"dog\"], "
        "\"test_confusion\": [[0, 0, 99], [0, 1, 3], [1, 24, 7], [24, 0, 7], [24, 24, 8]]}");
    write_text("x.json", text);
    run("report x.json --html x.html");
    expect_ok();
    assert_int_equal(shell("grep -q '^<p>25 classes, the most frequent mistakes:</p>$' x.html &&"
                           "grep -q '<td>1 dog</td><td>24</td><td class=\"n\">7</td>' x.html"),
                     0);
    expect_out("class  given  samples\n1 dog  24           7\n24     0 cat        7\n"
               "0 cat  1 dog        3\n");
    write_text("x.json", "{\"hash\": \"00\", \"config\": {}, \"epochs\": [], \"test_targets\": "
                         "{\"a\": {\"r2\": null, "
                         "\"mae\": 1}, \"b\": 7}}");
    run("report x.json");
    expect_ok();
    expect_out("\na       nan");
    write_text("x.json", "{\"hash\": \"00\", \"config\": {}, \"epochs\": [], \"test_horizons\": "
                         "[{\"mse\": 4, \"mae\": 1}, 7]}");
    run("report x.json");
    expect_ok();
    expect_out("\n1           4.000000  1.000000\n2                nan       nan\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(targets_are_those_of_eval),
        cmocka_unit_test(horizons_are_those_of_eval),
        cmocka_unit_test(classes_are_those_of_eval),
        cmocka_unit_test(records_of_others_are_read),
    };
    return cmocka_run_group_tests_name("scores", tests, set_up, tear_down);
}

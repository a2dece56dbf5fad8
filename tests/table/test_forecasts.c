/* Forecasts of series by the program: what is said of them, and which times they are called by. */
#include "cli/program.h"

/* What comes behind the rows of another file is what the network says of these rows in the first: by the means of that one's
 * training, whichever the file has, and with neither the first file nor columns that are left out. */
static void series_are_forecast_beyond_their_end(void **state)
{
    (void)state;
    char text[4000] = "day,a,b\n", part[4000] = "b,a\n", one[31], two[31], line[100];
    for (int i = 0; i < 120; i++) {
        sprintf(text + strlen(text), "d%d,%d,%d\n", i, 100 * (i % 7), (i * i) % 5);
        if (i >= 90 && i < 99) sprintf(part + strlen(part), "%d,%d\n", (i * i) % 5, 100 * (i % 7));
    }
    write_text("s.csv", text);
    write_text("part.csv", part);
    write_text("s.yaml", "data: {series: s.csv, context: 8, horizon: 2, test_fraction: 0.25, "
                         "targets: [b], ignore: [day]}\n"
                         "model: {layers: [lstm: 5, select: -1, dense: 2]}\n"
                         "train: {batch_size: 8, replicas: 2, epochs: 2}\n");
    run("train s.yaml --out run --quiet");
    expect_ok();
    run("predict s.yaml --out run --format csv");
    expect_ok();
    expect_out("sample,b +1,b +2,b +1_true,b +2_true\n90,");
    const char *from = strstr(last.out, "\n99,"); /* the row of its first target */
    assert_non_null(from);
    assert_int_equal(sscanf(from, " 99,%30[^,],%30[^,],", one, two), 2);
    snprintf(line, sizeof line, "sample,b +1,b +2\n9,%s,%s\n", one, two);
    assert_int_equal(shell("cp -r run old && rm old/columns.txt"), 0); /* of a version without it */
    run("predict s.yaml --out old --table part.csv --format csv");
    expect_ok();
    assert_string_equal(last.out, line);
    remove("s.csv");
    run("predict s.yaml --out run --table part.csv --format csv");
    expect_ok();
    assert_string_equal(last.out, line);
    write_text("short.csv", "a,b\n1,2\n");
    run("predict s.yaml --out run --table short.csv");
    expect(2, "'short.csv' has 1 row, expected at least the 8 that a sample sees (data.context)");
    write_text("other.csv", "a,c\n1,2\n");
    run("predict s.yaml --out run --table other.csv");
    expect(2, "'other.csv'");
    write_text("table.yaml", "data: {table: part.csv}\nmodel: {layers: [dense: 1]}\n");
    run("train table.yaml --out table --quiet");
    expect_ok();
    run("predict s.yaml --out table --table part.csv");
    expect(5, "'part.csv' cannot be forecast by a training whose columns were a table's");
    sprintf(text + strlen(text), "d120,7,7\nd121,7,7\n"); /* one of them is trained with */
    write_text("s.csv", text);
    run("eval s.yaml --out run");
    expect(5, "'s.csv': column 'a' has mean");
}

/* Forecasts are called by the times of the file, and behind its end by the time that comes next, if there is one. */
static void forecasts_have_the_times_of_the_file(void **state)
{
    (void)state;
    char text[2000] = "day,a\n";
    for (int i = 0; i < 28; i++)
        sprintf(text + strlen(text), "2021-02-%02d 12:00,%d\n", i + 1, i % 5);
    write_text("s.csv", text);
    write_text("s.yaml", "data: {series: s.csv, context: 3, horizon: 2, test_fraction: 0.25}\n"
                         "model: {layers: [flatten, {dense: 2}]}\n"
                         "train: {batch_size: 4, replicas: 2}\n");
    run("train s.yaml --out run --quiet");
    expect_ok();
    run("predict s.yaml --out run --format csv");
    expect_ok();
    expect_out("sample,a +1,a +2,a +1_true,a +2_true\n2021-02-22 12:00,");
    run("predict s.yaml --out run --table s.csv --format csv");
    expect_ok();
    expect_out("sample,a +1,a +2\n2021-03-01 12:00,");
    run("predict s.yaml --out run --table s.csv --format json");
    expect_ok();
    expect_out("{\"sample\": 28, \"time\": \"2021-03-01 12:00\", \"predicted\": {");
    sprintf(text + strlen(text), "2021-03-02 12:00,0\n"); /* a day is left out */
    write_text("s.csv", text);
    run("predict s.yaml --out run --table s.csv --format csv");
    expect_ok();
    expect_out("sample,a +1,a +2\n29,");
}

/* A column of numbers that is named has times, and is no input. */
static void times_may_be_numbers(void **state)
{
    (void)state;
    char text[2000] = "a,when\n";
    for (int i = 0; i < 28; i++)
        sprintf(text + strlen(text), "%d,%d\n", i % 5, 1467331200 + 3600 * i);
    write_text("s.csv", text);
    write_text("s.yaml",
               "data: {series: s.csv, time: when, context: 3, horizon: 2, test_fraction: 0.25}\n"
               "model: {layers: [flatten, {dense: 2}]}\n"
               "train: {batch_size: 4, replicas: 2}\n");
    run("info s.yaml");
    expect_ok();
    expect_out("3x1");
    run("train s.yaml --out run --quiet");
    expect_ok();
    run("predict s.yaml --out run --format csv");
    expect_ok();
    expect_out("sample,a +1,a +2,a +1_true,a +2_true\n1467406800,");
    run("predict s.yaml --out run --table s.csv --format csv");
    expect_ok();
    expect_out("sample,a +1,a +2\n1467432000,");
    run("predict s.yaml --out run --table s.csv --format json");
    expect_ok();
    expect_out("{\"sample\": 28, \"time\": \"1467432000\", \"predicted\": {");
    shell("cut -d, -f1 s.csv >part.csv"); /* times may be missing where it is forecast */
    run("predict s.yaml --out run --table part.csv --format csv");
    expect_ok();
    expect_out("sample,a +1,a +2\n28,");
    run("eval s.yaml --out run --set data.time=hour");
    expect(2, "'s.csv' has no column 'hour', expected the name of one, such as 'a'");
    run("eval s.yaml --out run --set data.ignore=[when]");
    expect(2, "'s.csv': column 'when' has the times (data.time), but is left out");
    run("eval s.yaml --out run --set data.targets=[when]");
    expect(2, "'s.csv': column 'when' has texts, expected numbers of a series");
}

/* --data is another series in the place of that of the file; and new times may lack values. */
static void another_file_of_times(void **state)
{
    (void)state;
    char text[1000] = "a\n", hash[OUTPUT_SIZE];
    for (int i = 0; i < 28; i++) sprintf(text + strlen(text), "%d\n", i % 5);
    write_text("other.csv", text);
    write_text("s.csv", "a\n1\n2\n");
    write_text("s.yaml", "data: {series: s.csv, context: 3, horizon: 2, test_fraction: 0.25}\n"
                         "model: {layers: [flatten, {dense: 2}]}\n"
                         "train: {batch_size: 4, replicas: 2}\n");
    run("train s.yaml --quiet --set data.series=other.csv");
    expect_ok();
    memcpy(hash, last.out, sizeof hash);
    run("train s.yaml --quiet --data other.csv --out run");
    expect_ok();
    assert_string_equal(last.out, hash);
    run("train s.yaml --quiet --set data.table=other.csv");
    expect(2, "data.table and data.series name two data sets");
    write_text("new.csv", "a\n1\nNA\n2\n");
    run("predict s.yaml --data other.csv --out run --table new.csv");
    expect(4, "new.csv, line 3: column 'a' has no value");
    run("predict s.yaml --data other.csv --out run --table new.csv --set data.missing=mean");
    expect_ok();
}

static void a_series_without_a_test_says_how_to_have_one(void **state)
{
    (void)state;
    static const char *const verbs[] = {"eval", "predict"};
    char text[1000] = "a\n";
    for (int i = 0; i < 28; i++) sprintf(text + strlen(text), "%d\n", i % 5);
    write_text("s.csv", text);
    write_text("s.yaml", "data: {series: s.csv, context: 3, horizon: 2}\n"
                         "model: {layers: [flatten, {dense: 2}]}\n"
                         "train: {batch_size: 4, replicas: 2}\n");
    run("train s.yaml --out run --quiet");
    expect_ok();
    for (int i = 0; i < 2; i++) {
        run("%s s.yaml --out run", verbs[i]);
        expect(2,
               "'s.csv' has no rows to test with: data.test_fraction is null, expected the share "
               "of its rows that are held back at its end, such as 0.2; give that of the "
               "training, or --split train");
        run("%s s.yaml --out run --split train", verbs[i]);
        expect(0, "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(series_are_forecast_beyond_their_end),
        TEST(forecasts_have_the_times_of_the_file),
        TEST(times_may_be_numbers),
        TEST(a_series_without_a_test_says_how_to_have_one),
        TEST(another_file_of_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Times of a series: which columns have them, in which forms, and which time is behind the last row. */
#include <string.h>

#include "data/folder.h"
#include "data/table/series.h"
#include "data/table/times.h"

static lki_table table;

/* `name` is opened as a column of texts; NULL: none is. */
static void open_csv(const char *text, const char *name)
{
    static char path[4300];
    snprintf(path, sizeof path, "%s/s.csv", folder);
    LKT_OK(lks_file_write(path, text, strlen(text)));
    LKT_OK(lki_csv_open(&table, context, path,
                        &(lki_csv_opts){.threads = 1, .texts = &name, .text_count = name != NULL}));
}

/* Rows of "time;number": the times are found, and behind the last comes `next` (NULL: nobody knows). */
static void follows(const char *name, const char *const times[], const char *next)
{
    char text[1000] = "number;time\n";
    const char *const *found;
    lki_arena arena = {.context = context};
    int rows = 0;
    for (; times[rows] != NULL; rows++) sprintf(text + strlen(text), "%d;%s\n", rows, times[rows]);
    open_csv(text, name);
    LKT_OK(lki_times_of(&found, &arena, &table, name));
    assert_non_null(found);
    for (int i = 0; i < rows; i++) assert_string_equal(found[i], times[i]);
    if (next == NULL)
        assert_null(found[rows]);
    else
        assert_string_equal(found[rows], next);
    lki_arena_release(&arena);
    lki_table_close(&table);
}
#define FOLLOWS(next, ...) follows(NULL, (const char *const[]){__VA_ARGS__, NULL}, next)
#define NAMED(next, ...)   follows("time", (const char *const[]){__VA_ARGS__, NULL}, next)

static void steps_that_are_constant_go_on(void **state)
{
    (void)state;
    FOLLOWS("2016-07-01 02:00:00", "2016-07-01 00:00:00", "2016-07-01 01:00:00");
    FOLLOWS("2020-03-01T00:05", "2020-02-29T23:45", "2020-02-29T23:55");
    FOLLOWS("2021-03-01", "2021-02-26", "2021-02-27", "2021-02-28");
    FOLLOWS("2024-02-29", "2024-02-27", "2024-02-28");
    FOLLOWS("1900-03-01", "1900-02-27", "1900-02-28"); /* no leap year, as 2000 is one */
    FOLLOWS("2000-02-29", "2000-02-27", "2000-02-28");
    FOLLOWS("2000-01-01 00:00:10Z", "1999-12-31 23:59:50Z", "2000-01-01 00:00:00Z");
    FOLLOWS("1990/1/11 0:00", "1990/1/9 0:00", "1990/1/10 0:00");
    FOLLOWS("1990/01/10 12:00", "1990/01/08 12:00", "1990/01/09 12:00");
    FOLLOWS("2020-05", "2020-01", "2020-02", "2020-03", "2020-04");
    FOLLOWS("2021-01-15", "2020-10-15", "2020-11-15", "2020-12-15");
    FOLLOWS("2025-01-01", "2022-01-01", "2023-01-01", "2024-01-01");
    FOLLOWS("0001-01-03", "0001-01-01", "0001-01-02");
}

static void steps_that_differ_do_not(void **state)
{
    (void)state;
    FOLLOWS(NULL, "2020-01-01");
    FOLLOWS(NULL, "2020-01-01", "2020-01-02", "2020-01-04");
    FOLLOWS(NULL, "2020-01-01", "2020-01-01", "2020-01-01");
    FOLLOWS(NULL, "2020-01-03", "2020-01-02", "2020-01-01");
    FOLLOWS(NULL, "2020-01-31", "2020-03-31", "2020-05-31"); /* not every month has a 31st */
    FOLLOWS(NULL, "2020-01-01 00:00", "2020-02-01 00:00", "2020-03-01 00:01");
}

/* Rows of a column, none of which is taken. */
static void is_no_time(const char *rows)
{
    char text[200];
    const char *const *found;
    lki_arena arena = {.context = context};
    snprintf(text, sizeof text, "time\n%s\n", rows);
    open_csv(text, NULL);
    LKT_OK(lki_times_of(&found, &arena, &table, NULL));
    if (found != NULL) fail_msg("%s is taken for a time", rows);
    lki_arena_release(&arena);
    lki_table_close(&table);
}

static void other_texts_are_no_times(void **state)
{
    static const char *const wrong[] = {"d7",
                                        "20-01-01",
                                        "2020-13-01",
                                        "2021-02-29",
                                        "1900-02-29",
                                        "2021-04-31",
                                        "2020-01-00",
                                        "2020-00-01",
                                        "0000-01-01",
                                        "2020-01/01",
                                        "2020-01-01 24:00",
                                        "2020-01-01 00:60",
                                        "2020-01-01 10",
                                        "2020-01-01 00:00:60",
                                        "2020-01-01x",
                                        "2020-01-01 01:00:00.5",
                                        "02020-01-01",
                                        "2020-01-001",
                                        "2020-01-01 00:00:00:00",
                                        "2020-01-01_00:00",
                                        "2020.01.01",
                                        "2020-",
                                        "2020-01-01Zz"};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) is_no_time(wrong[i]);
}

/* Each by itself would be one. */
static void forms_that_differ_are_no_times(void **state)
{
    (void)state;
    is_no_time("2020-01-01\n2020-01-02\nNA");
    is_no_time("2020-01-01\n2020-01-02\n2020/01/03");
    is_no_time("2020-01-01\n2020-01-02\n2020-01");
    is_no_time("2020-01-01\n2020-01-02\n2020-1-3");
    is_no_time("2020-1-8\n2020-1-9\n2020-01-10");
    is_no_time("2020-01-01 00:00\n2020-01-01T01:00");
    is_no_time("2020-01-01 00:00\n2020-01-01 01:00:00");
    is_no_time("2020-01-01 00:00\n2020-01-01 01:00Z");
}

static void the_first_column_of_times_is_meant(void **state)
{
    const char *const *found;
    lki_arena arena = {.context = context};
    (void)state;
    open_csv("who,a,when,then\nx,1,2020-01-01,2021-01-01\ny,2,2020-01-02,2021-01-03\n", NULL);
    LKT_OK(lki_times_of(&found, &arena, &table, NULL));
    assert_string_equal(found[1], "2020-01-02");
    assert_string_equal(found[2], "2020-01-03");
    lki_arena_release(&arena);
    lki_table_close(&table);
}

/* Of the column that is named, as the file writes them. */
static void numbers_are_times_where_they_are_named(void **state)
{
    (void)state;
    NAMED("2016-07-03", "2016-07-01", "2016-07-02");
    NAMED("3", "0", "1", "2");
    NAMED("1467334800", "1467327600", "1467331200");
    NAMED("0", "-2", "-1");
    NAMED("0.4", "0.1", "0.2", "0.3"); /* whose steps differ as doubles */
    NAMED("2.0", "0.0", "0.5", "1.0", "1.5");
    NAMED("1", "-0.5", "0", "0.5");
    NAMED("1.25", ".5", "0.75", "1.00"); /* with as many decimals as are needed */
    NAMED("-0.25", "-0.75", "-0.50");
    NAMED("100000000000000000", "99999999999999998", "99999999999999999");
    NAMED(NULL, "7");
    NAMED(NULL, "0", "1", "3");
    NAMED(NULL, "2", "1", "0");
    NAMED(NULL, "1", "1", "1");
    NAMED(NULL, "1e3", "2e3", "3e3"); /* times, but nobody counts in these */
    NAMED(NULL, "0", "1", "2", "+3");
    NAMED(NULL, "0", "100000000000000000", "200000000000000000");
    NAMED(NULL, "0.00000000000000000000", "1.00000000000000000000");
}

static void named_fails(const char *text, lks_status wanted, const char *part)
{
    const char *const *found;
    lki_arena arena = {.context = context};
    open_csv(text, "t");
    LKT_FAILS(wanted, part, lki_times_of(&found, &arena, &table, "t"));
    lki_arena_release(&arena);
    lki_table_close(&table);
}

/* The first row that has none is told, of the form that goes on for longer. */
static void what_is_named_has_times(void **state)
{
    const char *const *found;
    (void)state;
    named_fails("t,a\n0,1\n1,2\nx,3\n", LKS_E_FORMAT,
                "s.csv, line 4: column 't' has 'x', expected times (data.time): numbers, or dates");
    named_fails("t,a\n0,1\n,2\n", LKS_E_FORMAT, "s.csv, line 3: column 't' has '', expected");
    named_fails("t,a\n2020-01-01,1\n2020-01-02,2\n7,2\n", LKS_E_FORMAT,
                "line 4: column 't' has '7'");
    open_csv("t,a\n0,1\n1,2\n", "t");
    LKT_OK(lki_times_of(&found, NULL, &table, "u")); /* not in this table */
    assert_null(found);
    table.column[0].kind = LKI_COLUMN_SKIPPED;
    LKT_FAILS(LKS_E_INVALID, "has the times (data.time), but is left out; drop it from data.ignore",
              lki_times_of(&found, NULL, &table, "t"));
    lki_table_close(&table);
}

static lks_dataset *open_days(bool last)
{
    uint8_t used[6];
    char text[300] = "day,a\n";
    lks_dataset *data;
    lki_encoding encoding;
    memset(used, 1, sizeof used);
    for (int i = 0; i < 6; i++) sprintf(text + strlen(text), "2020-01-%02d,%d\n", i + 1, i);
    open_csv(text, NULL);
    LKT_OK(lki_encoding_fit(&encoding, context, &table, used,
                            &(lki_encoding_opts){.series = true, .task = LKI_TASK_REGRESSION}));
    const lki_series_opts opts = {
        .context = 2, .horizon = 1, .stride = 2, .count = 6, .last = last};
    LKT_OK(lki_series_open(&data, &table, &encoding, &opts));
    lki_table_close(&table); /* what it has said is kept */
    return data;
}

static char warned[500];

static void keep_warning(void *user, lks_log_level level, const char *line)
{
    (void)user;
    if (level == LKS_LOG_WARN) snprintf(warned, sizeof warned, "%s", line);
}

/* Whether rows are found to be in another order than their times, and where. */
static void goes_back(const char *rows, const char *name, const char *part)
{
    char text[300];
    const char *const *found;
    lks_context *listened;
    warned[0] = '\0';
    LKT_OK(lks_context_create(&listened, &(lks_context_opts){.log = keep_warning}));
    lki_arena arena = {.context = listened};
    snprintf(text, sizeof text, "a,t\n%s", rows);
    open_csv(text, name);
    LKT_OK(lki_times_of(&found, &arena, &table, name));
    if (part == NULL)
        assert_string_equal(warned, "");
    else
        assert_non_null(strstr(warned, part));
    lki_arena_release(&arena);
    lks_context_destroy(listened);
    lki_table_close(&table);
}

static void times_that_go_back_are_reported(void **state)
{
    (void)state;
    goes_back("1,2020-01-02\n2,2020-01-01\n", NULL,
              "s.csv, line 3: column 't' has 2020-01-01 behind 2020-01-02, but rows of a series");
    goes_back("1,2020-01-01\n2,2020-01-03\n3,2020-01-02\n4,2020-01-01\n", NULL, "line 4: ");
    goes_back("1,2020-01-01\n2,2020-01-01\n3,2020-03-01\n", NULL, NULL);
    goes_back("1,7\n2,-1e1\n3,-20\n", "t", "line 3: column 't' has -1e1 behind 7, but rows");
    goes_back("1,0.5\n2,0.5\n3,7\n", "t", NULL);
}

/* By the time of its first target, in every part. */
static void samples_are_called_by_their_times(void **state)
{
    lks_dataset *data = open_days(false), *part;
    (void)state;
    assert_string_equal(lks_dataset_sample(data, 0), "2020-01-03");
    assert_string_equal(lks_dataset_sample(data, 1), "2020-01-05");
    assert_null(lks_dataset_sample(data, 2));
    LKT_OK(lki_series_part(&part, data, 3, 3));
    lks_dataset_destroy(data);
    assert_string_equal(lks_dataset_sample(part, 0), "2020-01-04");
    assert_string_equal(lks_dataset_sample(part, 1), "2020-01-06");
    LKT_OK(lks_dataset_slice(&data, part, 1, 1));
    assert_string_equal(lks_dataset_sample(data, 0), "2020-01-06");
    lks_dataset_destroy(data);
    lks_dataset_destroy(part);
    data = open_days(true);
    assert_string_equal(lks_dataset_sample(data, 0), "2020-01-07");
    lks_dataset_destroy(data);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(steps_that_are_constant_go_on),
        TEST(steps_that_differ_do_not),
        TEST(other_texts_are_no_times),
        TEST(forms_that_differ_are_no_times),
        TEST(the_first_column_of_times_is_meant),
        TEST(samples_are_called_by_their_times),
        TEST(numbers_are_times_where_they_are_named),
        TEST(what_is_named_has_times),
        TEST(times_that_go_back_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What makes no column of texts unnoticed: numbers with commas, as spreadsheets write them where the decimal point is a comma;
 * and one text above numbers. */
#include "recipe/recipes.h"

#include "data/table/table.h"

static lks_context *context;

static lks_status open_text(lki_table *out, const char *text, const lki_csv_opts *opts)
{
    const lki_csv_opts usual = {0};
    write_text("t.csv", text);
    return lki_csv_open(out, context, in_folder("t.csv"), opts != NULL ? opts : &usual);
}

/* A decimal comma makes no column of texts unnoticed, but texts that were asked for, or in a table of columns that are known. */
static void numbers_with_commas_are_refused(void **state)
{
    (void)state;
    static const char *const numbers[] = {"0,5",         "-3,25",    "1,5E+03",     "1.234,5",
                                          "1,234,567.8", "+1,234,5", "1.234.567,8", "100,000"},
                             *const texts[] = {
                                 "1,2,3", "1,",    ",5",
                                 "1,x",   "1,,2",  "1,2,345",
                                 "a",     "1,.5",  "1-2,3",
                                 "1, 2",  "1.,25", "1,23456789012345678901234567890123456"};
    char text[80];
    lki_table t;
    const lki_csv_opts lenient = {.lenient = true};
    const lki_csv_opts wanted = {.texts = (const char *const[]){"b"}, .text_count = 1};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        snprintf(text, sizeof text, "a;b\n\nx;NA\ny;\"%s\"\n", numbers[i]);
        LKT_FAILS(LKS_E_FORMAT, "t.csv, line 4: column 'b' has '", open_text(&t, text, NULL));
        assert_non_null(strstr(lks_last_error()->message, "', which has a comma"));
        lki_table_close(&t);
        LKT_OK(open_text(&t, text, &wanted));
        lki_table_close(&t);
        LKT_OK(open_text(&t, text, &lenient));
        assert_int_equal(t.column[1].kind, LKI_COLUMN_TEXTS);
        lki_table_close(&t);
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        snprintf(text, sizeof text, "a;b\nx;%s\n", texts[i]);
        LKT_OK(open_text(&t, text, NULL));
        assert_int_equal(t.column[1].kind, LKI_COLUMN_TEXTS);
        lki_table_close(&t);
    }
}

/* A text is a mistake where only numbers come below: eight of them, or all three that there are; and not where the column is one
 * of texts. Values that are missing do not count. */
static void a_text_above_numbers_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        bool refused;
    } cases[] = {
        {"x;\n1;\n2;\n3;\n", true},
        {";\n<NA>;\nx;\n1;\n\n2;\nNA;\n#N/A;\n3;\n", true},
        {"1e400;\n1;\n2;\n3;\n4;\n5;\n6;\n7;\n8;\nx;\n", true},
        {"x;\n1;\n2;\n3;\n4;\n5;\n6;\n7;\nx;\n8;\n", false},
        {"x;\n1;\n2;\n", false},
        {"x;\n1;\ny;\n1;\n2;\n3;\n4;\n5;\n6;\n7;\n8;\n9;\n", false},
        {"x;\n", false},
    };
    const lki_csv_opts wanted = {.texts = (const char *const[]){"a"}, .text_count = 1};
    const lki_csv_opts lenient = {.lenient = true};
    char text[80];
    lki_table t;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text, "a;b\n%s", cases[i].body);
        if (cases[i].refused)
            LKT_FAILS(LKS_E_FORMAT, "which is no number, but the values below it are",
                      open_text(&t, text, NULL));
        else
            LKT_OK(open_text(&t, text, NULL));
        assert_int_equal(t.column[0].kind, LKI_COLUMN_TEXTS);
        lki_table_close(&t);
        LKT_OK(open_text(&t, text, &wanted));
        lki_table_close(&t);
        LKT_OK(open_text(&t, text, &lenient));
        lki_table_close(&t);
    }
    LKT_FAILS(LKS_E_FORMAT, "has carriage returns in the place of line feeds",
              open_text(&t, "a;b\r1;2\r", NULL));
    lki_table_close(&t);
}

/* No classification by chance; and what a training does not look at may be as it is. */
static void a_training_says_what_to_do(void **state)
{
    (void)state;
    write_text("e.csv", "\xEF\xBB\xBF"
                        "a;price\r\n1,5;2,25\r\n2,5;3,25\r\n3,5;4,25\r\n");
    write_text("c.yaml", "data: {table: e.csv}\nmodel: {name: mlp, hidden: [2]}\n");
    run("train c.yaml --quiet");
    expect(4, "e.csv, line 2: column 'a' has '1,5', which has a comma where a number has none, "
              "expected one such as 1234.5; or list the column in data.texts");
    run("data check e.csv");
    expect(4, "column 'a' has '1,5'");
    run("train c.yaml --quiet --set 'data.ignore=[a]'");
    expect(4, "column 'price' has '2,25'");
    run("train c.yaml --quiet --set 'data.texts=[a, price]'");
    expect_ok();
    write_text("d.csv", "a;b;price\n1;x;2\n2;y;3\n3;x;4\n");
    run("train c.yaml --quiet --set data.table=d.csv --out o");
    expect_ok();
    write_text("n.csv", "a;more;b\n1;1,5;x\n");
    run("predict c.yaml --set data.table=d.csv --out o --table n.csv");
    expect_ok();
    write_text("n.csv", "a;b\n1,5;x\n");
    run("predict c.yaml --set data.table=d.csv --out o --table n.csv");
    expect(4, "'n.csv': column 'a' has texts, expected numbers as in the table of the training");
}

static int set_up_context(void **state)
{
    const int failed = set_up(state);
    if (failed == 0) LKT_OK(lks_context_create(&context, NULL));
    return failed;
}

static int tear_down_context(void **state)
{
    lks_context_destroy(context);
    return tear_down(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_with_commas_are_refused),
        cmocka_unit_test(a_text_above_numbers_is_refused),
        cmocka_unit_test(a_training_says_what_to_do),
    };
    return cmocka_run_group_tests_name("commas", tests, set_up_context, tear_down_context);
}

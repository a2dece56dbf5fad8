/* What a run keeps of its table's columns, and what is predicted with it. */
#include "recipe/recipes.h"

#include <lockstep/tools.h>

#include "data/table/kept.h"
#include "numeric/hash.h"

static const char config[] = "data: {table: t.csv, test_fraction: 0.2}\nmodel: {name: mlp}\n"
                             "train: {epochs: 3}\n";

/* A text with all that is escaped, and a name with a tab. */
static void write_table(const char *name, int first, int rows, bool targets, const char *town)
{
    static char csv[16384];
    int used = snprintf(csv, sizeof csv, "area,\"to\twn\"%s\n", targets ? ",price" : "");
    for (int i = first; i < first + rows; i++) {
        used += snprintf(csv + used, sizeof csv - (size_t)used, "%d.5,%s", i * 7 % 40,
                         i % 3 == 0   ? "Ulm"
                         : i % 3 == 1 ? "\"a\\b\tc\nd\""
                                      : town);
        if (targets) used += snprintf(csv + used, sizeof csv - (size_t)used, ",%d", i * 3 % 50);
        used += snprintf(csv + used, sizeof csv - (size_t)used, "\n");
    }
    write_text(name, csv);
}

static void rows_without_targets_are_predicted_as_those_with(void **state)
{
    (void)state;
    static char with[OUTPUT_SIZE];
    write_text("c.yaml", config);
    write_table("t.csv", 0, 60, true, "Bonn");
    run("train c.yaml --out o");
    expect_ok();
    assert_true(there("o/columns.txt"));
    run("predict c.yaml --out o --format csv --split test");
    expect_ok();
    memcpy(with, last.out, sizeof with);
    write_table("new.csv", 0, 60, false, "Bonn");
    assert_int_equal(shell("cd %s && mv t.csv away.csv", in_folder("")), 0);
    run("predict c.yaml --out o --format csv --table new.csv");
    expect_ok();
    int rows = 0; /* each line of the test is one of these, with what is true behind it */
    for (char *line = strtok(with, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char *end = strrchr(line, ',');
        assert_non_null(end);
        *end = '\0';
        if (strcmp(line, "sample,price") == 0) continue;
        char text[256];
        snprintf(text, sizeof text, "\n%s\n", line);
        if (strstr(last.out, text) == NULL) fail_msg("no line '%s' in\n%s", line, last.out);
        rows++;
    }
    assert_int_equal(rows, 12);
    assert_int_equal(shell("cd %s && mv away.csv t.csv && rm o/columns.txt", in_folder("")), 0);
    memcpy(with, last.out, sizeof with);
    run("predict c.yaml --out o --format csv --table new.csv"); /* of a run from before */
    expect_ok();
    assert_string_equal(last.out, with);
}

static void classes_are_kept(void **state)
{
    (void)state;
    static char with[OUTPUT_SIZE];
    for (int k = 0; k < 2; k++) {
        write_table("t.csv", 0, 60, true, "\"Bad \"\"B\"\"\"");
        write_text("k.yaml", k == 0 ? "data: {table: t.csv, targets: [1]}\nmodel: {name: mlp}\n"
                                    : "data: {table: t.csv, task: classification}\n"
                                      "model: {name: mlp}\n");
        run("train k.yaml --out k%d", k);
        expect_ok();
        run("predict k.yaml --out k%d --format json --split train", k);
        expect_ok();
        memcpy(with, last.out, sizeof with);
        run("predict k.yaml --out k%d --format json --table t.csv", k);
        expect_ok();
        assert_true(k > 0 || strstr(last.out, "\"Bad \\\"B\\\"\"") != NULL);
        json_t *one = json_loads(with, JSON_DISABLE_EOF_CHECK, NULL),
               *other = json_loads(last.out, JSON_DISABLE_EOF_CHECK, NULL);
        json_object_del(one, "label");
        assert_true(json_equal(one, other));
        json_decref(one);
        json_decref(other);
    }
}

/* Numbers as they are, and values that are filled with the mean of the training: as the split itself is predicted. */
static void settings_are_kept(void **state)
{
    (void)state;
    static char with[OUTPUT_SIZE];
    char csv[2048] = "a,b,y\n";
    for (int i = 0; i < 40; i++)
        snprintf(csv + strlen(csv), sizeof csv - strlen(csv), i % 5 == 0 ? "%d,,%d\n" : "%d,1,%d\n",
                 i % 4, i % 7);
    write_text("m.csv", csv);
    for (int k = 0; k < 2; k++) {
        write_text("m.yaml", k == 0 ? "data: {table: m.csv, missing: mean}\nmodel: {name: mlp}\n"
                                    : "data: {table: m.csv, missing: mean, standardize: false}\n"
                                      "model: {name: mlp}\n");
        run("train m.yaml --out s%d", k);
        expect_ok();
        run("predict m.yaml --out s%d --format json --split train --count 1", k);
        expect_ok();
        memcpy(with, last.out, sizeof with);
        run("predict m.yaml --out s%d --format json --table m.csv --count 1", k);
        expect_ok();
        json_t *one = json_loads(with, JSON_DISABLE_EOF_CHECK, NULL),
               *other = json_loads(last.out, JSON_DISABLE_EOF_CHECK, NULL);
        json_object_del(one, "true");
        assert_true(json_equal(one, other));
        json_decref(one);
        json_decref(other);
    }
}

/* A new table may lack values though the training's did not: the configuration says what becomes of them. */
static void values_that_only_a_new_table_lacks(void **state)
{
    (void)state;
    static char mean[OUTPUT_SIZE];
    write_text("f.csv", "a,b,y\n1,5,1\n2,7,2\n3,9,3\n");
    write_text("f.yaml", "data: {table: f.csv, standardize: false}\nmodel: {name: mlp}\n");
    run("train f.yaml --out f");
    expect_ok();
    write_text("new.csv", "a,b\n2,7\n");
    run("predict f.yaml --out f --table new.csv --format csv");
    expect_ok();
    memcpy(mean, last.out, sizeof mean);
    write_text("new.csv", "a,b\n2,\n");
    run("predict f.yaml --out f --table new.csv --format csv");
    expect(4, "new.csv, line 2: column 'b' has no value, expected one in every row; data.missing: "
              "mean fills it");
    run("predict f.yaml --out f --table new.csv --format csv --set data.missing=mean");
    expect_ok();
    assert_string_equal(last.out, mean);
}

static void another_table_is_told(void **state)
{
    (void)state;
    write_text("c.yaml", config);
    write_table("t.csv", 0, 60, true, "Bonn");
    run("train c.yaml --out a");
    expect_ok();
    write_table("new.csv", 0, 12, false, "Rom");
    for (int kept = 1; kept >= 0; kept--) { /* also where the table of the training has to say it */
        if (!kept) assert_int_equal(shell("mv a/columns.txt columns.txt"), 0);
        run("predict c.yaml --out a --table new.csv");
        expect(0,
               "column 'to?wn' has texts that the training did not have, in 4 rows, first 'Rom'");
    }
    assert_int_equal(shell("mv columns.txt a"), 0);
    write_table("t.csv", 0, 60, true, "Rom");
    run("eval c.yaml --out a");
    expect(5, "rows of the training have 'Rom' in column 'to?wn', which the checkpoint's had not");
    run("train c.yaml --out a --resume --epochs 4");
    expect(5, "rows of the training have 'Rom'");
    write_table("t.csv", 1, 60, true, "Bonn");
    run("eval c.yaml --out a");
    expect(5, "column 'area' has mean ");
    write_text("w.csv", "a,y\n1,1\n2,2\n3,3\n");
    write_text("w.yaml", "data: {table: w.csv}\nmodel: {name: mlp}\n");
    run("train w.yaml --out w");
    expect_ok();
    run("eval w.yaml --out w --split train --set data.standardize=false");
    expect(5, "data.standardize is false, but the training of the checkpoint had true");
    write_text("w.csv", "a,y\n0,1\n2,2\n4,3\n"); /* the same mean */
    run("eval w.yaml --out w --split train");
    expect(5, "column 'a' has mean 2 and deviation 1.63299");
    write_text("t.csv", "area,town,price\n1,Ulm,2\n2,Bonn,3\n3,Ulm,4\n4,Bonn,3\n5,Ulm,1\n");
    run("eval c.yaml --out a");
    expect(5, "has the column 'town' with texts where the table of the training has 'to?wn'");
    run("predict c.yaml --out a --table t.csv");
    expect(2, "has no column 'to?wn'");
}

static void damaged_files_are_refused(void **state)
{
    (void)state;
    static char kept[OUTPUT_SIZE];
    write_text("c.yaml", config);
    write_table("t.csv", 0, 60, true, "Bonn");
    write_table("new.csv", 0, 12, false, "Bonn");
    run("train c.yaml --out d");
    expect_ok();
    read_text(kept, "d/columns.txt");
    const size_t length = strlen(kept);
    for (size_t i = 0; i < length; i += 7) {
        const char was = kept[i];
        kept[i] = was == 'x' ? 'y' : 'x';
        write_text("d/columns.txt", kept);
        kept[i] = was;
        run("predict c.yaml --out d --table new.csv");
        expect(4, "columns.txt' is damaged, or no file of a table's columns");
    }
    write_text("d/columns.txt", "");
    run("predict c.yaml --out d --table new.csv");
    expect(4, "columns.txt");
    run("predict c.yaml --out d --table new.csv --split test");
    expect(2, "--table and --split name two sets of samples; drop one");
    write_text("p.yaml", "model: {name: mlp}\n");
    run("predict p.yaml --table new.csv");
    expect(2, "is for a training with a table (data.table)");
}

/* With a hash that fits, whatever else is wrong: read, and where that goes well used, without harm. */
static void files_of_others_do_no_harm(void **state)
{
    (void)state;
    static char kept[OUTPUT_SIZE], text[OUTPUT_SIZE + 64];
    lkt_random random = lkt_random_make("files_of_others_do_no_harm", 1);
    lks_context *context;
    lki_table table;
    int good = 0;
    write_text("c.yaml", config);
    write_table("t.csv", 0, 60, true, "Bonn");
    write_table("new.csv", 0, 12, false, "Bonn");
    run("train c.yaml --out h");
    expect_ok();
    read_text(kept, "h/columns.txt");
    const int length = (int)strlen(kept) - 21; /* without its last line */
    LKT_OK(lks_context_create(&context, NULL));
    LKT_OK(lki_table_open(&table, context, in_folder("new.csv"), &(lki_csv_opts){0}));
    for (int round = 0; round < 1500; round++) {
        static const char some[] = "\t\n\\0123459aftnxtic";
        lki_encoding e;
        int used = length;
        memcpy(text, kept, (size_t)length);
        for (int i = (int)lkt_random_below(&random, 4); i >= 0 && used > 20; i--) {
            const int64_t at = 19 + lkt_random_below(&random, used - 19);
            if (lkt_random_chance(&random, 3)) { /* a byte is left out, or all behind it */
                if (lkt_random_chance(&random, 4)) used = (int)at + 1;
                memmove(text + at, text + at + 1, (size_t)(used - at - 1));
                used--;
            } else {
                text[at] = some[lkt_random_below(&random, (int64_t)sizeof some - 1)];
            }
        }
        used += snprintf(text + used, 40, "end\t%016llx\n",
                         (unsigned long long)lki_hash(text, (size_t)used));
        text[used] = '\0';
        write_text("k.txt", text);
        lks_status status = lki_encoding_read(&e, context, in_folder("k.txt"));
        good += status == LKS_OK;
        if (status == LKS_OK) {
            float *x = calloc((size_t)(table.rows * e.width), sizeof *x);
            assert_non_null(x);
            (void)lki_encoding_apply(&e, &table, x, NULL);
            free(x);
        }
        lki_encoding_release(&e);
    }
    assert_true(good > 20 && good < 1450);
    lki_table_close(&table);
    lks_context_destroy(context);
}

/* Of many targets the mean and the worst, or all. */
static void the_worst_targets_are_said(void **state)
{
    (void)state;
    static char csv[32768] = "x";
    int used = 1;
    for (int t = 0; t < 25; t++) used += snprintf(csv + used, sizeof csv - (size_t)used, ",t%d", t);
    for (int i = 0; i < 40; i++) {
        used += snprintf(csv + used, sizeof csv - (size_t)used, "\n%d", i);
        for (int t = 0; t < 25; t++) /* the first is noise */
            used += snprintf(csv + used, sizeof csv - (size_t)used, ",%d",
                             t == 0 ? i * 7919 % 101 : i * (t + 1));
    }
    write_text("t.csv", csv);
    static char text[2048] = "data: {table: t.csv, test_fraction: 0.3, targets: [";
    for (int t = 0; t < 25; t++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%st%d", t > 0 ? ", " : "", t);
    snprintf(text + strlen(text), sizeof text - strlen(text),
             "]}\nmodel: {name: mlp}\ntrain: {epochs: 200}\noptimizer: {name: adam, lr: 0.01}\n");
    write_text("m.yaml", text);
    run("train m.yaml --out m");
    expect_ok();
    run("eval m.yaml --out m");
    expect_ok();
    expect_out("25 targets: mean R2 0.");
    const char *head = strstr(last.out, "target ");
    assert_non_null(head);
    head = strchr(head, '\n') + 1;
    assert_memory_equal(head, "t0 ", 3);
    int lines = 0;
    for (; *head != '\0'; head++) lines += *head == '\n';
    assert_int_equal(lines, 10);
    run("eval m.yaml --out m --targets");
    expect_ok();
    expect_out("\nt24 ");
    expect_out("\nt0 ");
    assert_null(strstr(last.out, "25 targets"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_without_targets_are_predicted_as_those_with),
        cmocka_unit_test(classes_are_kept),
        cmocka_unit_test(settings_are_kept),
        cmocka_unit_test(values_that_only_a_new_table_lacks),
        cmocka_unit_test(another_table_is_told),
        cmocka_unit_test(damaged_files_are_refused),
        cmocka_unit_test(files_of_others_do_no_harm),
        cmocka_unit_test(the_worst_targets_are_said),
    };
    return cmocka_run_group_tests_name("kept", tests, set_up, tear_down);
}

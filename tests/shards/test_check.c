/* lockstep data check of shards and tables: what is there, and every row that is wrong. */
#include "shards/shards.h"

#include <math.h>

static void all_rows_are_read(void **state)
{
    (void)state;
    write_shards();
    run("data check s");
    expect_ok();
    expect_out("50 rows of 5 numbers and 3 targets\ns: nothing is wrong\n");
    for (int i = 2; i < 5; i++)
        write_shard(i == 3, i, "<f4", EACH, i == 3 ? TARGETS : WIDTH, false, NAN);
    run("data check s");
    assert_int_equal(last.code, 4);
    expect_out("WRONG: ");
    expect_out("x/2.npy': row 0 (sample 16) has a NaN in column 0");
    expect_out("y/3.npy': row 0 (sample 24) has a NaN in column 0");
    expect_out("x/4.npy': row 0 (sample 32) has a NaN in column 0");
    expect(4, "3 rows of s cannot be read, as said above");
}

static void a_shard_that_is_missing_is_said(void **state)
{
    (void)state;
    write_shards();
    assert_int_equal(remove(in_folder("s/data/processed/flattened-1000/y/5.npy")), 0);
    run("data check s");
    assert_int_not_equal(last.code, 0);
    expect(last.code, "y/5.npy");
    write_shards();
    write_shard(0, 1, "<f4", EACH - 1, WIDTH, false, 0);
    run("data check s");
    expect(4, "x/1.npy");
}

static void tables_are_checked(void **state)
{
    (void)state;
    write_text("t.csv", "a,b,c\n1,2,3\n4,5,6\n7,8,8\n");
    run("data check t.csv");
    expect_ok();
    expect_out("3 rows of 2 numbers and 1 target\nt.csv: nothing is wrong\n");
    write_text("t.csv", "a,b,c\n1,2,low\n4,5,high\n");
    run("data check t.csv");
    expect_ok();
    expect_out("2 rows of 2 numbers, and one of 2 classes\n");
    write_text("t.csv", "a,b,c\n1,2,3\n4,5\n");
    run("data check t.csv");
    expect(4, "t.csv, line 3: has 2 fields, expected 3");
}

/* What they say of the data counts, and what is wrong with them is said. */
static void configurations_are_checked(void **state)
{
    (void)state;
    write_shards();
    write_text("s.yaml", "data: {shards: s}\nmodel: {name: mlp}\n");
    run("data check s.yaml");
    expect_ok();
    expect_out("50 rows of 5 numbers and 3 targets\ns.yaml: nothing is wrong\n");
    write_text("t.csv", "a,b,c\n1,2,3\n4,5,6\n7,8,8\n");
    write_text("u.csv", "a,c\n1,3\n4,5\n");
    write_text("t.yaml", "data: {table: t.csv, ignore: [b], test_table: u.csv}\n"
                         "model: {name: mlp}\n");
    run("data check t.yaml");
    expect(2, "'u.csv' has no column 'b'");
    write_text("u.csv", "a,b,c\n1,3,2\n4,5,1\n");
    run("data check t.yaml");
    expect_ok();
    expect_out("3 rows of 1 number and 1 target\n2 rows of 1 number and 1 target\n"
               "t.yaml: nothing is wrong\n");
    write_text("u.csv", "a,b,c\n1,3,x\n4,5,1\n");
    run("data check t.yaml");
    expect(4, "'u.csv': column 'c' has texts, expected numbers as in the table of the training");
    write_text("t.yaml", "data: {table: t.csv, task: wrong}\nmodel: {name: mlp}\n");
    run("data check t.yaml");
    expect(2, "data.task is 'wrong', expected ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_rows_are_read),
        cmocka_unit_test(a_shard_that_is_missing_is_said),
        cmocka_unit_test(tables_are_checked),
        cmocka_unit_test(configurations_are_checked),
    };
    return cmocka_run_group_tests_name("check", tests, set_up, tear_down);
}

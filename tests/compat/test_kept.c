/* What released versions wrote, kept in tests/compat/<version>: this version reads it. Device ref has
 * the same bits on every machine. */
#include "cli/program.h"

/* A copy of the folder of a version is the test's folder. */
static void take(const char *version)
{
    char path[64];
    snprintf(path, sizeof path, "tests/compat/%s", version);
    assert_int_equal(shell("cp -R '%s'/. . && chmod -R u+w .", source(path)), 0);
    setenv("LC_ALL", "C", 1);
}

static void reads_0_1(void **state)
{
    (void)state;
    take("0.1");
    run("info run");
    expect_ok();
    expect_out("run, step 8 (finished)\n");
    expect_out("\nhash          f3af456a83a3f208\n");
    expect_out("\nbest loss     2.3034453272819517, step 5\n");
    expect_out("\nema.dense_1.weight ");
    run("eval small.yaml --out run");
    expect_ok();
    expect_out("Checkpoint of step 8\n");
    expect_out("Average loss: 2.3382, Accuracy: 7/100 (7%)\n");
    run("eval small.yaml --init small.safetensors");
    expect_ok();
    expect_out("Average loss: 2.3382, Accuracy: 7/100 (7%)\n");
    run("predict small.yaml --out run --count 2");
    expect_ok();
    expect_out("label\n0\t3\t0.142667\t8\n1\t2\t0.144272\t8\n");
    run("report run.json");
    expect_ok();
    expect_out(" f3af456a83a3f208\n");
    expect_out("\nTest accuracy, %");
    run("compare run run");
    expect_ok();
}

/* The old run goes on, with the arithmetic of this version, which is another one; so it does not end
 * as a run that was never stopped, and records and checkpoints of the two differ. */
static void goes_on_from_0_1(void **state)
{
    (void)state;
    char hash[32], whole[32];
    take("0.1");
    assert_int_equal(shell("mkdir new && cp -R run new/old"), 0);
    run("train small.yaml --quiet --resume --out run --workers 3");
    expect(5, "has bits of version 1 of the numerics, this program computes those of version 4");
    run("train small.yaml --quiet --resume --accept-changes --out run --workers 3");
    expect_ok();
    assert_int_equal(last_hash(hash), 15);
    run("train small.yaml --quiet");
    expect_ok();
    assert_int_equal(last_hash(whole), 15);
    assert_string_not_equal(hash, whole);

    shell("mv small.safetensors old.safetensors");
    run("train small.yaml --quiet --steps 8 --save-model --out new/run --record new.json");
    expect_ok();
    run("compare run.json new.json");
    assert_int_equal(last.code, 1);
    run("compare new/old new/run");
    assert_int_equal(last.code, 1);
    run("compare old.safetensors small.safetensors");
    assert_int_equal(last.code, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(reads_0_1), TEST(goes_on_from_0_1)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

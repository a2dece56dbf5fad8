/* model.freeze: trained, resumed, shown, and every way to get it wrong. */
#include "cli/program.h"

static const char freeze[] = "--set 'model.freeze=[\"fc1.*\"]'";

static void runs_go_on_with_it(void **state)
{
    (void)state;
    char whole[32], parts[32];
    write_text("c.yaml", tiny);
    run("train c.yaml --quiet %s", freeze);
    expect_ok();
    assert_int_equal(last_hash(whole), 20);
    run("train c.yaml --quiet %s --steps 7 --out o --workers 1", freeze);
    expect_ok();
    run("train c.yaml --quiet %s --out o --resume --epochs 2", freeze);
    expect_ok();
    last_hash(parts);
    assert_string_equal(whole, parts);
    run("info o");
    expect_ok();
    expect_out("optimizer.momentum_buffer.fc2.weight");
    assert_null(strstr(last.out, "optimizer.momentum_buffer.fc1."));
    /* What it is, is part of what the run is. */
    run("train c.yaml --quiet --out o --resume --epochs 3");
    expect(5,
           "model.freeze was [\"fc1.*\"], is not set; use the same, or start a new run in another "
           "folder");
    run("verify c.yaml --steps 4 --workers 1,2,3 %s", freeze);
    expect_ok();
}

/* Weights of a file stay as they are there. */
static void what_was_read_stays(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    run("train c.yaml --quiet --save-model");
    expect_ok();
    shell("mv mlp.safetensors first.safetensors");
    run("train c.yaml --quiet --save-model --init first.safetensors --seed 8 %s", freeze);
    expect_ok();
    run("compare first.safetensors mlp.safetensors");
    expect(1, "");
    expect_out("fc2");
    assert_null(strstr(last.out, "fc1"));
    shell("mv mlp.safetensors second.safetensors");
    run("train c.yaml --quiet --save-model --init first.safetensors --seed 8");
    run("compare first.safetensors mlp.safetensors");
    expect(1, "");
    expect_out("fc1");
}

static void it_is_shown(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    run("info c.yaml --plan %s", freeze);
    expect_ok();
    expect_out("(12,560)");
    expect_out("170 parameters to train, 12,560 frozen, in brackets\n");
    expect_out("frozen  ");
    run("info c.yaml");
    expect_out("12,730 parameters to train\n");
    assert_null(strstr(last.out, "frozen"));
    run("train c.yaml --print-config %s", freeze);
    expect_out("  freeze:\n    - \"fc1.*\"\n");
}

static void mistakes_are_named(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    run("train c.yaml --set 'model.freeze=[conv1.*]'");
    expect(2,
           "freeze 'conv1.*' matches no parameter; there are 4, from 'fc1.weight' to 'fc2.bias'");
    run("train c.yaml --set 'model.freeze=[fc?.*]'");
    expect(2, "freeze leaves no parameter to train");
    run("train c.yaml --set 'model.freeze=fc1.*'");
    expect(2, "--set model.freeze: model.freeze is ");
    run("train c.yaml --set 'model.freeze=[[fc1]]'");
    expect(2, "model.freeze is a list of patterns for names of parameters, such as 'conv1.*'");
    run("train c.yaml --set 'model.freeze=[null]'");
    expect(2, "model.freeze is a list of patterns");
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(runs_go_on_with_it), TEST(what_was_read_stays),
                                       TEST(it_is_shown), TEST(mistakes_are_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* lockstep info of networks by name. */
#include "cli/program.h"

static void networks_are_listed(void **state)
{
    (void)state;
    run("info --models");
    assert_int_equal(last.code, 0);
    assert_non_null(strstr(last.out, "resnet18            224x224x3     1000   11,689,512  "));
    assert_non_null(strstr(last.out, "lenet5              28x28x1         10       61,706  "));
}

static void a_network_is_shown_by_its_name(void **state)
{
    (void)state;
    run("info resnet18");
    assert_int_equal(last.code, 0);
    assert_non_null(strstr(last.out, "\nconv1 "));
    assert_non_null(strstr(last.out, "112x112x64 "));
    assert_non_null(strstr(last.out, "11,689,512 parameters to train"));
    run("info resnet18 --shape 32x32x3 --set model.stem=imagenet");
    assert_non_null(strstr(last.out, "16x16x64 "));
    run("info resnet18 --shape 32x32x3 --batch-size 6 --replicas 3");
    assert_int_equal(last.code, 0);
    assert_non_null(strstr(last.out, "11,173,962 parameters to train"));
    assert_non_null(strstr(last.out, "batches of 6 in 3 replicas"));
}

/* Names of any length stand above each other. */
static void tensors_stand_in_columns(void **state)
{
    (void)state;
    write_text("c.yaml", "data: {name: digits, samples: 20, test_samples: 10}\n"
                         "model: {name: own, layers: [flatten, {dense: {name: "
                         "a.name.of.so.many.letters.that.it.is.long, units: 10}}]}\n"
                         "train: {batch_size: 10, replicas: 2}\noptimizer: {name: adam}\n");
    run("train c.yaml --quiet --out o");
    assert_int_equal(last.code, 0);
    run("info o");
    assert_int_equal(last.code, 0);
    assert_non_null(strstr(last.out, "\noptimizer.exp_avg_sq.a.name.of.so.many.letters.that.it.is."
                                     "long.weight F32  [10][784]\n"));
    assert_non_null(strstr(last.out, "\na.name.of.so.many.letters.that.it.is.long.bias"
                                     "                        F32  [10]\n"));
}

static void what_is_wrong_is_said(void **state)
{
    static const struct {
        const char *command, *sentence;
    } wrong[] = {
        {"info", "info takes CONFIG|NETWORK|CHECKPOINT, found 0 operands"},
        {"info resnet18 --shape 32x32", "--shape is '32x32', expected height, width and channels"},
        {"info resnet18 --shape 0x32x3", "--shape is '0x32x3', expected height"},
        {"info resnet19", "resnet19"},
        {"info vgg11 --shape 100x100x3", "vgg11: its classifier takes 7x7, but 3x3 come out"},
    };
    (void)state;
    run("info ResNet50");
    expect(3, "'ResNet50' is neither a file nor the name of a network, of which the nearest is "
              "resnet50; 'lockstep info --models' lists networks\n");
    run("info resnet5");
    expect(3, "of which the nearest is resnet");
    run("info nowhere");
    expect(3, "'nowhere' is neither a file nor the name of a network; 'lockstep info --models'");
    run("info nowhere.yaml");
    expect(3, "configuration nowhere.yaml cannot be opened: No such file");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        run("%s", wrong[i].command);
        assert_int_not_equal(last.code, 0);
        if (strstr(last.err, wrong[i].sentence) == NULL)
            fail_msg("%s: '%s', expected '%s'", wrong[i].command, last.err, wrong[i].sentence);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks_are_listed),
        cmocka_unit_test(a_network_is_shown_by_its_name),
        cmocka_unit_test(tensors_stand_in_columns),
        cmocka_unit_test(what_is_wrong_is_said),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

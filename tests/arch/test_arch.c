/* lockstep train --arch: a training without a configuration, with the options of scripts for PyTorch's DDP. */
#include <math.h>

#include "cli/program.h"

#define KEPT  "--checkpoint_dir b --set checkpoint.keep=5"
#define SMALL "--set data.shape=[16,16,3] --batch_size 25 --lr 0.001"

static void settings_and_results_are_said(void **state)
{
    (void)state;
    run("train --arch lenet5 " SMALL " --num_epochs 2 --exp_name mine --model_name m_{epoch}");
    expect_ok();
    expect_out(
        "Configuration:\n                arch: lenet5\n          batch_size: 25\n"
        "          num_epochs: 2\n                  lr: 0.001\n"
        "      checkpoint_dir: checkpoints/lenet5-dummy\n          model_name: m_{epoch}\n"
        "                seed: 42\n            evaluate: False\n             dataset: dummy\n"
        "              resume: latest\n            exp_name: mine\n"
        "         num_classes: 10\n       no_checkpoint: False\n"
        "Rank 0/1 (local rank 0) connected.\n");
    expect_out("Train set size: 100\nTest set size: 300\n");
    expect_out("\nValidation Results:\n  val_loss: 2.");
    assert_true(there("checkpoints/lenet5-dummy/step-00000008.json"));
}

/* The block has the numbers that the record has. */
static void results_are_those_of_the_record(void **state)
{
    (void)state;
    char block[400];
    run("train --arch lenet5 " SMALL
        " --num_epochs 1 --no_checkpoint --num_classes 4 --record r.json");
    expect_ok();
    assert_null(strstr(last.out, "checkpoint_dir: checkpoints"));
    expect_out("         num_classes: 4\n");
    json_t *record = read_json_file("r.json");
    const json_t *epoch = json_array_get(json_object_get(record, "epochs"), 0);
    snprintf(block, sizeof block,
             "\nValidation Results:\n  val_loss: %.4f\n  accuracy: %.4f\n precision: %.4f\n"
             "    recall: %.4f\n        f1: %.4f\n"
             "(precision, recall, f1: means over classes; over samples each is the accuracy)\n",
             json_number_of(epoch, "test_loss"), json_number_of(epoch, "test_correct") / 300,
             json_number_of(epoch, "test_macro_precision"),
             json_number_of(epoch, "test_macro_recall"), json_number_of(epoch, "test_macro_f1"));
    expect_out(block);
    json_decref(record);
}

static void runs_go_on_from_the_newest(void **state)
{
    (void)state;
    char whole[32], parts[32], block[600];
    run("train --arch mlp " SMALL " --num_epochs 3 --checkpoint_dir whole");
    expect_ok();
    last_hash(whole);
    const char *from = strstr(last.out, "epoch 2/3"), *results = strstr(from, "Validation Results");
    snprintf(block, sizeof block, "%.*s", (int)(strstr(results, "epoch 3/3") - results), results);
    run("train --arch mlp " SMALL " --num_epochs 2 --checkpoint_dir p --resume latest");
    expect(0, "no checkpoint in p yet: starting afresh");
    run("train --arch mlp " SMALL " --num_epochs 3 --checkpoint_dir p --resume 2");
    expect(0, "continuing from step 8 in p");
    last_hash(parts);
    assert_string_equal(whole, parts);
    run("train --arch mlp " SMALL " --checkpoint_dir whole --evaluate True");
    expect_ok();
    assert_non_null(strstr(block, "f1"));
    expect_out(block);
    assert_null(strstr(last.out, "Train Epoch"));
    run("train --arch lenet5 " SMALL " --num_epochs 4 --checkpoint_dir p");
    expect(5, "model.name was mlp, is lenet5");
    run("train --arch mlp " SMALL " --num_classes 5 --num_epochs 4 --checkpoint_dir p");
    expect(5, "data.classes");
    run("train --arch mlp " SMALL " --checkpoint_dir q --resume 2");
    expect(3, "--resume 2: there is no checkpoint in q");
}

/* Back to the first of three epochs, twice, and with another rate; what was behind it is still there, whole. */
static void runs_go_back_to_an_epoch(void **state)
{
    (void)state;
    char whole[32], again[32];
    run("train --arch mlp " SMALL " --num_epochs 3 " KEPT);
    expect_ok();
    last_hash(whole);
    run("train --arch mlp " SMALL " --num_epochs 3 " KEPT " --resume 1 --dry-run");
    expect_ok();
    assert_true(there("b/step-00000012.json"));
    run("train --arch mlp " SMALL " --num_epochs 3 " KEPT " --resume 1");
    expect(0, "checkpoints of later epochs are in b/later-than-epoch-1\n");
    expect(0, "continuing from step 4 in b");
    last_hash(again);
    assert_string_equal(whole, again);
    run("compare b b/later-than-epoch-1");
    expect_ok();
    run("compare b/step-00000008.json b/later-than-epoch-1/step-00000008.json");
    expect_ok();
    run("train --arch mlp --set data.shape=[16,16,3] --batch_size 25 --lr 0.002 --num_epochs "
        "2 " KEPT " --resume 1 --accept-changes");
    expect(0, "checkpoints of later epochs are in b/later-than-epoch-1-2\n");
    assert_true(there("b/later-than-epoch-1-2/step-00000012.safetensors"));
    assert_true(there("b/later-than-epoch-1/step-00000012.safetensors"));
    assert_false(there("b/step-00000012.json"));
    run("train --arch mlp " SMALL " --num_epochs 3 " KEPT " --resume 3");
    expect(5, "--resume 3: b has no whole checkpoint of step 12, where that epoch ends "
              "(checkpoint.keep is 5); the "
              "newest is of step 8, epoch 2: --resume latest");
}

/* A batch is that of a process, as with torchrun; so the bits of two are those of one with twice the batch. */
static void processes_have_a_batch_each(void **state)
{
    (void)state;
    char one[32], two[32];
    allow_leaks(); /* this test is the last one */
    run("train --arch mlp --set data.shape=[8,8,3] --batch_size 24 --num_epochs 1 --no_checkpoint");
    expect_ok();
    last_hash(one);
    run("train --arch mlp --set data.shape=[8,8,3] --batch_size 12 --num_epochs 1 --no_checkpoint "
        "--num-processes 2");
    if (last.code != 0 && strstr(last.err, "MPI") != NULL) skip();
    expect_ok();
    last_hash(two);
    assert_string_equal(one, two);
    expect_out("          batch_size: 12\n");
    expect_out("Rank 0/2 (local rank 0) connected.\nRank 1/2 (local rank 1) connected.\n");
}

static void what_does_not_fit_is_said(void **state)
{
    (void)state;
    write_text("c.yaml", "model: {name: mlp}\n");
    static const struct {
        const char *words, *sentence;
    } wrong[] = {
        {"--arch nothing", "model.name is 'nothing', expected mnist_cnn"},
        {"--arch 'a: b'", "--arch is 'a: b', expected a network by name"},
        {"--dataset cifar", "--dataset is 'cifar', expected dummy or tiny-imagenet"},
        {"--dataset tiny-imagenet", "--dataset tiny-imagenet needs --data DIR"},
        {"--arch mlp c.yaml", "stand in the place of a configuration, but c.yaml is given too"},
        {"c.yaml --no_checkpoint", "--no-checkpoint is for a training by --arch or --dataset"},
        {"c.yaml --evaluate True", "--evaluate is for a training by --arch or --dataset"},
        {"c.yaml --exp_name a", "--exp-name is for a training by --arch or --dataset"},
        {"c.yaml --model_name a", "--model-name is for a training by --arch or --dataset"},
        {"--arch mlp --evaluate perhaps", "--evaluate is 'perhaps', expected True or False"},
        {"--arch mlp --resume-from soon", "--resume is 'soon', expected latest or the number"},
        {"--arch mlp --no_checkpoint --resume latest", "--no-checkpoint writes and reads none"},
        {"--arch mlp --no_checkpoint --checkpoint_dir d", "--no-checkpoint writes and reads none"},
        {"--num_epochs 1", "train takes CONFIG, found 0 operands"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        run("train %s", wrong[i].words);
        expect(2, wrong[i].sentence);
    }
    write_text("c.yaml", "data: {name: digits, samples: 64}\nmodel: {name: mlp}\n");
    run("train c.yaml --resume-from 1"); /* as --resume 1 does */
    expect(2, "needs the folder of checkpoints: give --out DIR");
    run("train c.yaml --quiet --epochs 2 --out c");
    expect_ok();
    run("train c.yaml --quiet --epochs 2 --out c --resume-from 1");
    expect(0, "checkpoints of later epochs are in c/later-than-epoch-1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_and_results_are_said),
        cmocka_unit_test(results_are_those_of_the_record),
        cmocka_unit_test(runs_go_on_from_the_newest),
        cmocka_unit_test(runs_go_back_to_an_epoch),
        cmocka_unit_test(what_does_not_fit_is_said),
        cmocka_unit_test(processes_have_a_batch_each),
    };
    return cmocka_run_group_tests_name("arch", tests, set_up, tear_down);
}

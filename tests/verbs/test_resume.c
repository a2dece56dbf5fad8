/* lockstep train: going on, what may change then, early stopping and the best weights. */
#include "cli/program.h"

#include <jansson.h>

static void runs_are_resumed(void **state)
{
    (void)state;
    char whole[32], parts[32];
    write_text("c.yaml", tiny);
    run("train c.yaml");
    last_hash(whole);
    run("train c.yaml --out run --resume --steps 7 --workers 1");
    expect(0, "lockstep: no checkpoint in run yet: starting afresh");
    assert_true(there("run/step-00000007.json"));
    run("train c.yaml --out run");
    expect(2, "--out: checkpoint.path is run, which has checkpoints up to step 7; give --resume");
    run("train c.yaml --out run --resume --steps 13 --workers 3"); /* in the middle of an epoch */
    expect(0, "lockstep: continuing from step 7 in run");
    run("train c.yaml --out run --resume --workers 2");
    expect(0, "continuing from step 13");
    assert_int_equal(last_hash(parts), 20);
    assert_string_equal(whole, parts);
    run("train c.yaml --out run --resume"); /* it is finished */
    expect(0, "nothing is left to train: run is at step 20, and the run ends with step 20; more "
              "--epochs or --steps go on from there");
    assert_int_equal(last_hash(parts), 20);
    assert_string_equal(whole, parts);
    run("train c.yaml --out run --resume --replicas 5");
    expect(5, "5");
    run("train c.yaml --out run --resume --seed 8");
    expect(5, "seed");
    run("train c.yaml --out run --resume --set data.seed=8");
    expect(5, "data");
    run("train c.yaml --out c.yaml/run");
    expect(3, "c.yaml");
}

/* What a resumed run changes is said, a line for each; nothing where nothing has changed. */
static void changes_are_said(void **state)
{
    (void)state;
    static const struct row {
        const char *options, *said;
    } rows[] = {
        {"", ""},
        {"--lr 1e-1 --set data.mean=[0.13]", ""}, /* other words for the same */
        {"--init mlp.safetensors", ""},           /* it says where a run begins */
        {"--lr 0.05", "lockstep: optimizer.lr was 0.1, is 0.05\n"},
        {"--epochs 4 --workers 1 --record r.json",
         "lockstep: train.epochs was 2, is 4\nlockstep: train.workers was not set, is 1\n"
         "lockstep: log.record was not set, is r.json\n"},
        {"--steps 30",
         "lockstep: train.epochs was 2, is not set\nlockstep: train.steps was not set, is 30\n"},
        {"--set schedule.name=step --set validation.patience=3",
         "lockstep: schedule.name was constant, is step\n"
         "lockstep: schedule.step_size was not set, is 1\n"
         "lockstep: schedule.gamma was not set, is 0.1\n"
         "lockstep: validation.patience was not set, is 3\n"},
    };
    write_text("c.yaml", tiny);
    run("train c.yaml --quiet --save-model");
    run("train c.yaml --out whole --set checkpoint.every_steps=5");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char expected[1000];
        shell("rm -rf run && mkdir run && cp whole/step-00000015.* run");
        run("train c.yaml --out run --set checkpoint.every_steps=5 --resume %s", rows[i].options);
        snprintf(expected, sizeof expected, "%slockstep: continuing from step 15 in run\n",
                 rows[i].said);
        expect(0, "");
        assert_string_equal(last.err, expected);
    }
}

/* What makes the run what it is stays, unless that is asked for. */
static void another_run_is_refused(void **state)
{
    (void)state;
    static const char
        never[] = ", or start a new run in another folder",
        taken[] = ", start in another folder, or give --accept-changes",
        batches[] = ", start in another folder, or, where an epoch has as many batches "
                    "as before, give --accept-changes",
        network[] = ", start in another folder, or, where the parameters have the same "
                    "names and shapes, give --accept-changes";
    static const struct row {
        const char *option, *said, *advice;
        int code; /* with --accept-changes */
    } rows[] = {
        {"data.samples=460", "data.samples was 500, is 460", batches, 0},
        {"data.test_samples=50", "data.test_samples was 100, is 50", taken, 0},
        {"data.classes=11", "data.classes was not set, is 11", network, 5},
        {"data.mean=0.5", "data.mean was [0.13], is [0.5]", taken, 0},
        {"data.std=2", "data.std was not set, is [2.0]", taken, 0},
        {"data.augment=[flip]", "data.augment was not set, is [flip]", taken, 0},
        {"data.shuffle=false", "data.shuffle was true, is false", taken, 0},
        {"data.seed=8", "data.seed was 0, is 8", taken, 0},
        {"model.hidden=[8,8]", "model.hidden was [16], is [8, 8]", never, 5},
        {"model.name=mnist_cnn --set model.dropout=0", "model.name was mlp, is mnist_cnn", never,
         5},
        {"model.dropout=0", "model.dropout was 0.1, is 0.0", taken, 0},
        {"loss.label_smoothing=0.1 --set loss.name=cross_entropy",
         "loss.name was not set, is cross_entropy", taken, 0},
        {"train.batch_size=25", "train.batch_size was 50, is 25", never, 5},
        {"train.replicas=5", "train.replicas was 4, is 5", never, 5},
        {"train.accumulate=2 --set train.replicas=2", "train.replicas was 4, is 2", taken, 0},
        {"train.seed=8 --set data.mean=0.5", "train.seed was 3, is 8", never, 5},
        {"train.hash_every=7", "train.hash_every was 4, is 7", never, 5},
        {"train.ema=0.9", "train.ema was not set, is 0.9", never, 5},
        {"train.comm=none", "train.comm was all, is none", taken, 0},
        {"train.average_every=3", "train.average_every was not set, is 3", taken, 0},
        {"train.reduction=library", "train.reduction was strict, is library", taken, 0},
        {"kernels.winograd=off", "kernels.winograd was auto, is \"off\"", taken, 0},
        {"kernels.skip_zeros=false", "kernels.skip_zeros was true, is false", taken, 0},
        {"kernels.fuse=false", "kernels.fuse was true, is false", taken, 0},
        {"train.dtype=bf16_storage", "train.dtype was f32, is bf16_storage", taken, 0},
        {"optimizer.name=adam", "optimizer.name was sgd, is adam", never, 5},
        {"optimizer.momentum=0.5", "optimizer.momentum was 0.9, is 0.5", taken, 0},
        {"optimizer.momentum=0", "optimizer.momentum was 0.9, is 0.0", never, 5},
        {"optimizer.weight_decay=0.5", "optimizer.weight_decay was 0.0, is 0.5", taken, 0},
        {"validation.samples=50", "validation.samples was not set, is 50", batches, 0},
    };
    char expected[400];
    write_text("c.yaml", tiny);
    run("train c.yaml --out run --epochs 1");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        run("train c.yaml --epochs 1 --out run --resume --set %s", rows[i].option);
        snprintf(expected, sizeof expected, "lockstep: %s\n", rows[i].said);
        expect(5, expected);
        snprintf(
            expected, sizeof expected,
            "lockstep: the checkpoint of step 10 in run is of another run: %s; use the same%s\n",
            rows[i].said, rows[i].advice);
        expect(5, expected);
        assert_string_equal(last.out, "");
        shell("rm -rf copy && cp -r run copy"); /* what the advice says is so */
        run("train c.yaml --epochs 1 --out copy --resume --accept-changes --set %s",
            rows[i].option);
        assert_int_equal(last.code, rows[i].code);
    }
    run("train c.yaml --out adam --epochs 1 --set optimizer.name=adam");
    run("train c.yaml --out adam --epochs 2 --resume --set optimizer.name=adamw");
    expect(5, "optimizer.name was adam, is adamw; use the same, start in another folder, or give ");
    run("train c.yaml --out adam --epochs 2 --resume --accept-changes --set optimizer.name=adamw");
    expect(0, "lockstep: continuing from step 10 in adam\n");
    run("train c.yaml --out run --resume --accept-changes --set data.mean=0.5 "
        "--set data.test_samples=50 --set optimizer.momentum=0.5");
    expect(0, "lockstep: data.mean was [0.13], is [0.5]\n");
    expect(0, "lockstep: continuing from step 10 in run\n");
    run("train c.yaml --epochs 3 --out run --resume --set data.mean=0.5 " /* it is so from now on */
        "--set data.test_samples=50 --set optimizer.momentum=0.5 --accept-changes");
    expect(0, "lockstep: train.epochs was 2, is 3\nlockstep: continuing from step 20 in run\n");
    run("train c.yaml --out run --resume --accept-changes --batch-size 25"); /* no sense in it */
    expect(5,
           "finished 3 epochs, but with 20 batches in an epoch it would be 1; give the same data ");
}

/* Data is known by its content: a folder may move, and one of other data is refused. */
static void data_is_known_by_its_content(void **state)
{
    (void)state;
    write_text("c.yaml", "data: {name: d, path: d, mean: 0.13}\n"
                         "model: {name: mlp, hidden: [8]}\n"
                         "train: {batch_size: 50, epochs: 1}\n");
    run("data digits --out d --samples 200 --test-samples 50");
    run("train c.yaml --out run");
    shell("mv d other && mv run moved");
    run("train c.yaml --data other --out moved --resume --epochs 2");
    expect(0, "lockstep: data.path was d, is other\n");
    shell("cp -r other test");
    run("data digits --out more --samples 200 --test-samples 50 --seed 9");
    shell("cp more/t10k* test");
    run("train c.yaml --data test --out moved --resume --epochs 3");
    expect(5, "was made with other test data: its hash is ");
    run("train c.yaml --data more --out moved --resume --epochs 3");
    expect(5, "was made with other data: its hash is ");
    run("train c.yaml --data more --out moved --resume --epochs 3 --accept-changes");
    expect(0, "lockstep: data.path was other, is more\n");
    run("train c.yaml --data more --out moved --resume --epochs 4");
    expect(0, "");
}

/* What follows from a change where it is not what one may think. */
static void consequences_are_said(void **state)
{
    (void)state;
    static const char line[] = "schedule.length is not set, so cosine ends with the run: ";
    write_text("c.yaml", tiny);
    run("train c.yaml --out a --set schedule.name=cosine");
    run("train c.yaml --out a --set schedule.name=cosine --resume --epochs 3");
    expect(0, line);
    run("train c.yaml --out a --set schedule.name=cosine --resume --epochs 3 --workers 1");
    assert_null(strstr(last.err, line));
    run("train c.yaml --out b --set schedule.name=cosine --set schedule.length=9");
    run("train c.yaml --out b --set schedule.name=cosine --set schedule.length=9 --resume "
        "--epochs 3");
    assert_null(strstr(last.err, line));
    run("train c.yaml --out b --set schedule.name=cosine --resume --epochs 4");
    expect(0, "schedule.length was 9, is not set");
    assert_null(strstr(last.err, line)); /* it was set, and what it was has been said */
    run("train c.yaml --out c --set schedule.name=reduce_on_plateau");
    run("train c.yaml --out c --set schedule.name=reduce_on_plateau --lr 1 --resume --epochs 3");
    expect(0, "reduce_on_plateau goes on from the rate that the run has come to; the new ");
}

static void early_stopping_says_so(void **state)
{
    (void)state;
    char hash[32];
    write_text("c.yaml", tiny);
    run("train c.yaml --epochs 50 --lr 0 --set validation.fraction=0.2 "
        "--set validation.patience=3");
    expect(0, "lockstep: stopped early: no better loss in 3 evaluations");
    expect_out("Train set size: 400\nValidation set size: 100\nTest set size: 100\n");
    expect_out("\nValidation set: Average loss: ");
    assert_int_equal(last_hash(hash), 32); /* the first is the best; 4 epochs of 8 steps */
    run("train c.yaml --epochs 3 --lr 0 --set validation.fraction=0.2 "
        "--set validation.patience=3"); /* one evaluation fewer: it ends by its epochs */
    assert_null(strstr(last.err, "stopped early"));
    run("train c.yaml --epochs 4 --lr 0 --set validation.fraction=0.2 "
        "--set validation.patience=3"); /* both at once */
    expect(0, "lockstep: stopped early: no better loss in 3 evaluations");
}

/* The test line of `eval c.yaml` with these options. */
static const char *eval_line(const char *options)
{
    static char line[8][200];
    static int turn;
    turn = (turn + 1) % 8;
    run("eval c.yaml %s", options);
    expect(0, "");
    const char *test = strstr(last.out, "Test set: ");
    assert_non_null(test);
    snprintf(line[turn], sizeof line[turn], "%.*s", (int)strcspn(test, "\n"), test);
    return line[turn];
}

/* So large a rate makes the loss worse after some epochs. */
static void the_best_weights_are_those_that_count(void **state)
{
    (void)state;
    char hash[32], kept[32], text[200];
    static const char arguments[] =
        "train c.yaml --epochs 30 --lr 0.5 --save-model --record r.json "
        "--set validation.patience=2";
    write_text("c.yaml", tiny);
    run("%s --out run", arguments);
    expect(0, "lockstep: stopped early: no better loss in 2 evaluations\n");
    const long long end = last_hash(hash), best = end - 20;
    assert_true(best >= 10);
    snprintf(text, sizeof text,
             "lockstep: the model is that of step %lld, whose loss was the best; the hash is of "
             "step %lld, the last\n",
             best, end);
    expect(0, text);
    json_t *record = read_json_file("r.json");
    assert_int_equal(json_integer_value(json_object_get(record, "weights_step")), best);
    assert_int_equal(json_integer_value(json_object_get(record, "best_step")), best);
    assert_int_equal(json_integer_value(json_object_get(record, "steps")), end);
    assert_string_equal(json_string_value(json_object_get(record, "hash")), hash);
    json_decref(record);

    const char *saved = eval_line("--init mlp.safetensors"), *usual = eval_line("--out run");
    const char *asked = eval_line("--out run --best"), *newest = eval_line("--out run --last");
    assert_string_equal(saved, usual);
    assert_string_equal(saved, asked);
    assert_string_not_equal(saved, newest);
    run("eval c.yaml --out run --format json");
    snprintf(text, sizeof text, "\"step\": %lld", best);
    expect_out(text);
    run("predict c.yaml --out run");
    shell("cp out.txt usual.txt");
    run("predict c.yaml --out run --best");
    assert_int_equal(shell("cmp -s out.txt usual.txt"), 0);
    run("predict c.yaml --out run --last");
    assert_int_equal(shell("cmp -s out.txt usual.txt"), 1);

    /* Without a folder it is the same file; and with a switch the last one. */
    shell("mv mlp.safetensors best.safetensors");
    run("%s --quiet", arguments);
    expect(0, "");
    assert_string_equal(last.err, "");
    assert_int_equal(last_hash(kept), end);
    assert_string_equal(kept, hash);
    assert_int_equal(shell("cmp best.safetensors mlp.safetensors"), 0);
    run("%s --out last --set validation.restore_best=false", arguments);
    assert_null(strstr(last.err, "the model is that of"));
    assert_int_equal(last_hash(kept), end);
    assert_string_equal(kept, hash);
    assert_string_equal(eval_line("--init mlp.safetensors"), newest);
    assert_string_equal(eval_line("--out last"), newest);
    assert_string_equal(eval_line("--out last --best"), saved);
    run("train c.yaml --out usual --quiet --epochs %lld --lr 0.5", end / 10);
    assert_string_equal(eval_line("--out usual"), newest); /* without patience */
    assert_string_equal(eval_line("--out usual --best"), saved);
}

static void a_best_that_is_not_there_is_said(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    run("train c.yaml --out run --lr 0 --set checkpoint.every_epochs=0 --quiet");
    run("eval c.yaml --out run --best");
    expect(3, "the best loss of the run in run was after step 10, which has no checkpoint; --last "
              "takes the newest, of step 20");
    run("train c.yaml --out run --lr 0 --set checkpoint.every_epochs=0 --resume "
        "--set validation.patience=9");
    expect(0, "lockstep: step 10, whose loss was the best, has no checkpoint: the model is that of "
              "step 20, the last\n");
    run("train c.yaml --out lost --lr 0 --quiet --set validation.patience=9");
    run("eval c.yaml --out lost");
    expect_out("Checkpoint of step 10\n");
    shell("rm lost/step-00000010.*");
    run("eval c.yaml --out lost"); /* not asked for: the newest */
    expect(0, "");
    expect_out("Checkpoint of step 20\n");
    run("train c.yaml --out short --steps 3 --quiet");
    run("predict c.yaml --out short --best");
    expect(3,
           "the run in short has no best loss: no whole epoch was evaluated until step 3; --last ");
    run("eval c.yaml --out short --best --last");
    expect(2, "--best and --last name two checkpoints");
    run("eval c.yaml --best --init mlp.safetensors");
    expect(2, "--best is about a folder of checkpoints: give --out DIR, and no --init");
    run("eval c.yaml --last --init mlp.safetensors --out lost");
    expect(2, "--last is about a folder of checkpoints: give --out DIR, and no --init");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(runs_are_resumed),
        TEST(changes_are_said),
        TEST(another_run_is_refused),
        TEST(data_is_known_by_its_content),
        TEST(consequences_are_said),
        TEST(early_stopping_says_so),
        TEST(the_best_weights_are_those_that_count),
        TEST(a_best_that_is_not_there_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* eval, predict, info, data, verify, compare; the real data where it is at hand. */
#include "cli/program.h"
#include "numeric/hash.h"
#include <math.h>

static int count_lines(const char *text)
{
    int lines = 0;
    for (; *text != '\0'; text++) lines += *text == '\n';
    return lines;
}

static void predictions_agree_with_the_evaluation(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    run("train c.yaml --save-model --out run");
    expect_ok();
    run("eval c.yaml --out run --log-format json");
    expect_ok();
    expect_out("\"step\": 20");
    int right = -1;
    const char *at = strstr(last.out, "\"test_correct\": ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "\"test_correct\": %d", &right), 1);
    run("eval c.yaml --out run");
    expect_ok();
    expect_out("Checkpoint of step 20\n\nTest set: Average loss: ");

    run("predict c.yaml --init mlp.safetensors");
    expect_ok();
    assert_int_equal(strncmp(last.out, "sample\tclass\tprobability\tlabel\n", 31), 0);
    int rows = 0, hits = 0;
    for (const char *line = strchr(last.out, '\n') + 1; *line != '\0';
         line = strchr(line, '\n') + 1) {
        int sample, class, label;
        double probability;
        assert_int_equal(sscanf(line, "%d\t%d\t%lf\t%d", &sample, &class, &probability, &label), 4);
        assert_int_equal(sample, rows++);
        assert_true(probability >= 0.1 && probability <= 1);
        hits += class == label;
    }
    assert_int_equal(rows, 100);
    assert_int_equal(hits, right);

    run("predict c.yaml --out run --count 7 --format json --test-batch-size 3");
    expect_ok();
    assert_int_equal(count_lines(last.out), 7);
    expect_out("{\"sample\": 0, \"class\": ");
    run("predict c.yaml --out nowhere");
    expect(3, "there is no checkpoint in nowhere; train with --out first");
}

/* All probabilities and raw outputs, in all formats: the same numbers, and softmax between them. */
static void predictions_tell_all_they_know(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    run("train c.yaml --save-model");
    run("predict c.yaml --init mlp.safetensors --format csv --count 3");
    expect_ok();
    assert_int_equal(strncmp(last.out, "sample,class,probability,label\n0,", 33), 0);
    run("predict c.yaml --init mlp.safetensors --format csv --probabilities --outputs");
    expect_ok();
    const char *head = "sample,class,probability,label,p0,p1,p2,p3,p4,p5,p6,p7,p8,p9,"
                       "y0,y1,y2,y3,y4,y5,y6,y7,y8,y9\n";
    assert_int_equal(strncmp(last.out, head, strlen(head)), 0);
    int rows = 0;
    double first[20];
    for (char *at = last.out + strlen(head); *at != '\0'; at++, rows++) {
        double value[24], sum = 0;
        for (int i = 0; i < 24; i++, at += i < 24) value[i] = strtod(at, &at);
        assert_int_equal(*at, '\n');
        for (int i = 0; i < 10; i++) sum += value[4 + i];
        assert_true(sum > 1 - 1e-6 && sum < 1 + 1e-6);
        const int class = (int)value[1];
        for (int i = 0; i < 10; i++) {
            /* p_i / p_class = exp(y_i - y_class), both rounded to float once */
            const double ratio = value[4 + i] / value[4 + class];
            const double expected = exp(value[14 + i] - value[14 + class]);
            assert_true(ratio <= 1 && fabs(ratio - expected) <= 1e-6 * expected);
        }
        assert_true(fabs(value[2] - value[4 + class]) < 1e-6);
        if (rows == 0) memcpy(first, value + 4, sizeof first);
    }
    assert_int_equal(rows, 100);
    /* Floats are printed so that they are read back: many need nine digits. */
    bool nine = false;
    for (const char *at = last.out + strlen(head); *at != '\0' && !nine; at++) {
        const size_t length = strcspn(at, ",\n");
        const char *digits = at + strspn(at, "-0.");
        int count = 0;
        for (const char *c = digits; c < at + length && *c != 'e'; c++) count += *c != '.';
        nine = count == 9;
        at += length;
    }
    assert_true(nine);

    run("predict c.yaml --init mlp.safetensors --format json --count 1 --probabilities --outputs");
    expect_ok();
    char *at = strstr(last.out, "\"probabilities\": [");
    assert_non_null(at);
    at = strchr(at, '[') + 1;
    for (int i = 0; i < 10; i++, at++) assert_true(strtod(at, &at) == first[i]);
    at = strstr(at, "\"outputs\": [");
    assert_non_null(at);
    at = strchr(at, '[') + 1;
    for (int i = 0; i < 10; i++, at++) assert_true(strtod(at, &at) == first[10 + i]);
    run("predict c.yaml --init mlp.safetensors --outputs --count 1");
    expect_out("sample\tclass\tprobability\tlabel\ty0\ty1\t");
    run("predict c.yaml --init mlp.safetensors --format xml");
    expect(2, "--format is 'xml', expected text, csv, json or npy");
}

static void written_digits_are_the_embedded_ones(void **state)
{
    (void)state;
    char embedded[32], written[32];
    write_text("c.yaml", tiny);
    run("data digits --out some/where --samples 500 --test-samples 100");
    expect_ok();
    run("train c.yaml");
    last_hash(embedded);
    run("train c.yaml --data some/where");
    expect_ok();
    last_hash(written);
    assert_string_equal(embedded, written);
    run("train c.yaml --save-model");
    run("predict c.yaml --init mlp.safetensors --images some/where/t10k-images-idx3-ubyte");
    expect_ok();
    assert_int_equal(count_lines(last.out), 101);
    assert_int_equal(strncmp(last.out, "sample\tclass\tprobability\n", 25), 0);
    run("predict c.yaml --init mlp.safetensors --images some/where/t10k-labels-idx1-ubyte");
    expect(4, "t10k-labels-idx1-ubyte");

    run("data digits --out some/where");
    expect(3, "some/where/train-images-idx3-ubyte is there already; remove it");
    run("data digits");
    expect(2, "data digits needs a folder to write to: give --out DIR");
    run("data digits --out c.yaml/x");
    expect(3, "c.yaml/x");
    run("data digist");
    expect(2, "unknown data set 'digist'; the nearest is digits");
}

static void missing_data_says_what_gets_it(void **state)
{
    (void)state;
    run("train '%s'", source("configs/mnist.yaml"));
    expect(3, "data set 'mnist' is not at ");
    expect(3, "/.local/share/lockstep/mnist: No such file or directory; expected a folder with its "
              "files, "
              "here or where --data DIR says; 'lockstep data mnist' gets it\n");
    run("train '%s' --data none", source("configs/mnist.yaml"));
    expect(3, "data set 'mnist' is not at none: No such file");
    expect(3, "; 'lockstep data mnist --out none' gets it\n");
    shell("mkdir -p .local/share/lockstep/mnist"); /* what a download that failed leaves */
    run("train '%s'", source("configs/mnist.yaml"));
    expect(3, "data set 'mnist': '");
    expect(3, "there or where torchvision puts them below it");
    expect(3, "; 'lockstep data mnist' gets it\n");
    shell("mkdir empty");
    run("train '%s' --data empty", source("configs/mnist.yaml"));
    expect(3, "empty");
    setenv("XDG_DATA_HOME", folder, 1);
    run("train '%s'", source("configs/fashion.yaml"));
    expect(3, "/lockstep/fashion_mnist: No such file");
    unsetenv("XDG_DATA_HOME");
    unsetenv("HOME");
    run("train '%s'", source("configs/mnist.yaml"));
    expect(2, "neither XDG_DATA_HOME nor HOME is set; give --data DIR");
    write_text("c.yaml", tiny);
    run("train c.yaml --set data.samples=500 --data empty");
    expect(3, "empty");
    run("data digits --out d --samples 20 --test-samples 10");
    run("train c.yaml --data d");
    expect(2, "c.yaml:1: data.samples is 500, but there are only 20 samples");
    run("train c.yaml --set data.classes=3");
    expect(2, "data.classes is 3, but there are labels up to 9");
}

/* No line is wider than 80 columns. */
static void fit_a_terminal(const char *lines)
{
    for (const char *line = lines; *line != '\0'; line = strchr(line, '\n') + 1)
        if (strcspn(line, "\n") > 80) fail_msg("too wide: %.*s", (int)strcspn(line, "\n"), line);
}

static void info_describes(void **state)
{
    (void)state;
    char hash[32], row[64];
    write_text("c.yaml", tiny);
    run("info c.yaml");
    expect_ok();
    expect_out("\nfc1  ");
    expect_out("  dense units=16 in=13x784\n");
    expect_out("\n12,730 parameters to train\n"
               "12,704 multiply-adds in a sample's forward pass\n"
               "0.05 MB parameters, 0.05 MB optimizer, ");
    assert_null(strstr(last.out, "bytes"));
    assert_null(strstr(last.out, "stage"));
    run("info c.yaml --memory --plan --workers 2");
    expect_ok();
    expect_out("bytes");
    expect_out("\nstage  segment  at a time");
    expect_out("batches of 50 in 4 replicas on 2 workers\n");
    fit_a_terminal(last.out);
    run("info '%s'", source("configs/mnist.yaml")); /* also without its files */
    expect(0, "data set 'mnist' is not here; its shape is known");
    expect_out("\n1,199,882 parameters to train");
    expect_out("\nconv1          26x26x32           320      194,688\n"
               "    conv2d filters=32 kernel=3x3 in=8x28x28x1\n"); /* below: it can be copied */
    fit_a_terminal(last.out);
    run("info '%s' --memory --set train.dtype=bf16_storage", source("configs/needle_resnet9.yaml"));
    assert_int_equal(last.code, 0);
    expect_out(" bf16 "); /* what is kept for backward */

    run("train c.yaml --save-model --out run");
    assert_int_equal(last_hash(hash), 20);
    snprintf(row, sizeof row, "\nhash          %s\n", hash);
    static const char *const names[] = {"run", "run/step-00000020.json",
                                        "run/step-00000020.safetensors"};
    for (size_t i = 0; i < 3; i++) {
        run("info %s", names[i]);
        expect_ok();
        expect_out("checkpoint    run, step 20 (finished)\n");
        expect_out("replicas      4\n");
        expect_out(row);
        expect_out("  optimizer: {name: sgd, lr: 0.1,");
        expect_out("fc1.weight ");
        expect_out("[16][784]\n");
    }
    run("info run/step-00000010.json");
    expect_ok();
    expect_out("step 10\n");
    run("train c.yaml --steps 10");
    assert_int_equal(last_hash(hash), 10);
    snprintf(row, sizeof row, "\nhash          %s\n", hash);
    run("info run/step-00000010.json");
    expect_out(row);
    shell("mkdir cut && "
          "cp run/step-00000010.safetensors cut"); /* as a save that was cut off leaves them */
    run("info cut/step-00000010.safetensors");
    expect_ok();
    expect_out("\n8 tensors, 25460 numbers\n");
    assert_null(strstr(last.out, "checkpoint "));
    run("info mlp.safetensors");
    expect_ok();
    expect_out("4 tensors, 12730 numbers\n");
    shell("mkdir empty");
    run("info empty");
    expect(3, "there is no checkpoint in empty");
    run("info none.safetensors");
    expect(3, "none.safetensors");
}

static void the_promise_is_verified(void **state)
{
    (void)state;
    char hash[32], row[64];
    write_text("c.yaml", tiny);
    run("train c.yaml --steps 12");
    last_hash(hash);
    run("verify c.yaml --workers 1,2,3,4 --steps 12");
    expect(0, "");
    for (int workers = 1; workers <= 4; workers++) {
        snprintf(row, sizeof row, "\n      %d      12  %s  ", workers, hash);
        expect_out(row);
    }
    expect_out("equal: 4 runs have the same bits after 12 steps\n");
    run("verify c.yaml --replicas 6 --steps 3");
    expect_ok();
    expect_out("equal: 4 runs");                            /* 1, 2, 3, 5 */
    run("verify c.yaml --workers 1,2 --set train.steps=3"); /* a training's length, not a check's */
    expect_out("equal: 2 runs have the same bits after 3 steps\n");
    write_text("steps.yaml", "model: {name: mlp}\ntrain: {steps: 3}\n");
    run("verify steps.yaml --workers 1,2");
    expect_out("equal: 2 runs have the same bits after 20 steps\n");
    run("verify c.yaml --workers 1,8 --replicas 2 --set train.accumulate=4 --steps 2");
    expect_out("equal: 2 runs");
    run("verify c.yaml --workers 0,1");
    expect(2, "--workers is '0,1', expected numbers of workers such as 1,2,3,5");
    run("verify c.yaml --replicas 1");
    expect(2, "with 1 replica there is only 1 worker");
}

/* From given weights a run is verified as it is trained. */
static void a_run_from_weights_is_verified(void **state)
{
    (void)state;
    char random[32], given[32], row[64];
    write_text("c.yaml", tiny);
    run("train c.yaml --seed 8 --save-model");
    run("train c.yaml --steps 5");
    last_hash(random);
    run("train c.yaml --steps 5 --init mlp.safetensors");
    last_hash(given);
    assert_string_not_equal(random, given);
    run("verify c.yaml --workers 1,4 --steps 5 --init mlp.safetensors");
    expect(0, "");
    for (int workers = 1; workers <= 4; workers += 3) {
        snprintf(row, sizeof row, "\n      %d       5  %s  ", workers, given);
        expect_out(row);
    }
}

/* drop_last is of training: every test sample counts, also those of a short last batch. */
static void dropping_is_for_training_alone(void **state)
{
    (void)state;
    char hash[32];
    write_text("c.yaml", tiny);
    run("train c.yaml --batch-size 60 --test-batch-size 30 --set data.drop_last=true --out o "
        "--set validation.samples=70");
    expect_ok();
    assert_int_equal(last_hash(hash), 2 * (430 / 60));
    expect_out("Test set: Average loss: ");
    expect_out("/100 (");
    expect_out("/70 (");
    run("eval c.yaml --test-batch-size 30 --batch-size 60 --set data.drop_last=true --out o");
    expect_out("/100 (");
    run("predict c.yaml --test-batch-size 30 --batch-size 60 --set data.drop_last=true --out o");
    expect_ok();
    assert_int_equal(count_lines(last.out), 101);
}

/* 9,973 samples in batches of 61: two primes, so that nothing divides, and more than an epoch. */
static void the_promise_holds_for_primes(void **state)
{
    (void)state;
    write_text("c.yaml", "data: {name: digits, samples: 9973, test_samples: 10}\n"
                         "model: {name: mlp, hidden: [10], dropout: 0.25}\n"
                         "train: {batch_size: 61, device: ref}\n");
    for (int replicas = 6; replicas <= 8; replicas += 2) {
        run("verify c.yaml --replicas %d --workers 1,2,3,5,%d --steps 170", replicas, replicas);
        expect_ok();
        expect_out("equal: 5 runs have the same bits after 170 steps\n");
    }
}

/* Of equal outputs the first is the class, as in training. */
static void ties_are_the_first_class(void **state)
{
    (void)state;
    write_text("c.yaml", "data: {name: digits, samples: 50, test_samples: 20}\n"
                         "model:\n  layers:\n  - flatten\n"
                         "  - dense: {units: 10, weight_init: zeros, bias_init: constant, "
                         "bias_value: 1000}\n" /* exp(1000) is no number */

                         "train: {batch_size: 50}\n");
    run("train c.yaml --save-model --lr 0");
    expect_ok();
    run("predict c.yaml --init model.safetensors --count 3 --format csv");
    expect_ok();
    expect_out("\n0,0,0.100000,");
    expect_out("\n2,0,0.100000,");
}

/* Real MNIST: the example's first lines, two steps long. */
static void mnist_is_trained(void **state)
{
    (void)state;
    const char *data = lkt_data_folder();
    if (data == NULL) {
        print_message("no real data: skipped\n");
        skip();
    }
    char hash[32];
    run("train '%s' --data '%s/mnist' --steps 2 --batch-size 16 --log-interval 1",
        source("configs/mnist.yaml"), data);
    expect_ok();
    expect_out("Train set size: 60000\nTest set size: 10000\n");
    expect_out("\nTrain Epoch: 1 [0/60000 (0%)]\tLoss: 2.");
    expect_out("\nTrain Epoch: 1 [16/60000 (0%)]\tLoss: ");
    assert_int_equal(last_hash(hash), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(predictions_agree_with_the_evaluation),
        TEST(predictions_tell_all_they_know),
        TEST(written_digits_are_the_embedded_ones),
        TEST(missing_data_says_what_gets_it),
        TEST(info_describes),
        TEST(the_promise_is_verified),
        TEST(a_run_from_weights_is_verified),
        TEST(dropping_is_for_training_alone),
        TEST(the_promise_holds_for_primes),
        TEST(ties_are_the_first_class),
        TEST(mnist_is_trained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

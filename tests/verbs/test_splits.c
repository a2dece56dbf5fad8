/* eval and predict on the samples that a training held back, or trained on. */
#include "cli/program.h"

static const char net[] = "data: {name: digits, samples: 500, test_samples: 100, mean: 0.13}\n"
                          "model:\n"
                          "  name: net\n"
                          "  layers:\n"
                          "    - conv2d: {filters: 4, kernel: 3}\n"
                          "    - batch_norm\n"
                          "    - relu\n"
                          "    - max_pool: 4\n"
                          "    - flatten\n"
                          "    - dropout: 0.2\n"
                          "    - dense: 10\n"
                          "train: {epochs: 3, batch_size: 50, replicas: 4, seed: 3}\n"
                          "optimizer: {name: adam, lr: 0.01}\n";

/* Each line of JSON with this event, in order; NULL behind the last. `*at` begins at last.out. */
static json_t *next_event(const char **at, const char *name)
{
    while (**at != '\0') {
        json_t *json = json_loads(*at, JSON_DISABLE_EOF_CHECK, NULL);
        assert_non_null(json);
        *at = strchr(*at, '\n') + 1;
        if (strcmp(json_string_value(json_object_get(json, "event")), name) == 0) return json;
        json_decref(json);
    }
    return NULL;
}

static const char *const keys[] = {"valid_loss", "valid_correct", "valid_samples"};

/* What eval prints is what the training printed. */
static void expect_evaluated(const json_t *epoch, const char *options)
{
    run("eval c.yaml --split validation --format json %s", options);
    expect_ok();
    const char *at = last.out;
    json_t *found = next_event(&at, "eval");
    assert_non_null(found);
    for (int k = 0; k < 3; k++) {
        const json_t *expected = json_object_get(epoch, keys[k]);
        assert_non_null(expected);
        if (!json_equal(json_object_get(found, keys[k]), expected))
            fail_msg("%s: %s differs:\n%s", options, keys[k], last.out);
    }
    json_decref(found);
}

/* The last line that begins so. */
static void copy_line(char *out, size_t size, const char *begin)
{
    const char *at = NULL, *next = last.out;
    while ((next = strstr(next, begin)) != NULL) at = next++;
    if (at == NULL) fail_msg("no \"%s\" in:\n%s", begin, last.out);
    snprintf(out, size, "%.*s", (int)strcspn(at, "\n"), at);
}

static const char *const ways[] = {
    "--set validation.fraction=0.1",
    "--set validation.fraction=0.25 --set validation.shuffle=true",
    "--set validation.samples=77 --set validation.shuffle=true --set data.samples=300",
    "--set validation.samples=80 --set train.ema=0.9",
};

/* To the last digit: with any number of workers, any test batch, and of the best epoch. */
static void evaluates_what_the_training_printed(void **state)
{
    (void)state;
    write_text("c.yaml", net);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char options[400], expected[120], found[120];
        json_t *last_epoch = NULL, *best = NULL, *epoch;
        shell("rm -rf run");
        run("train c.yaml --out run --format json --workers 2 %s", ways[i]);
        expect_ok();
        for (const char *at = last.out; (epoch = next_event(&at, "epoch")) != NULL;) {
            const double loss = json_real_value(json_object_get(epoch, "valid_loss"));
            json_decref(last_epoch);
            last_epoch = json_incref(epoch);
            if (best == NULL || loss < json_real_value(json_object_get(best, "valid_loss"))) {
                json_decref(best);
                best = json_incref(epoch);
            }
            json_decref(epoch);
        }
        assert_non_null(best);
        snprintf(options, sizeof options, "--out run --workers 3 %s", ways[i]);
        expect_evaluated(last_epoch, options);
        snprintf(options, sizeof options, "--out run --test-batch-size 7 %s", ways[i]);
        expect_evaluated(last_epoch, options);
        snprintf(options, sizeof options, "--out run --best %s", ways[i]);
        expect_evaluated(best, options);
        if (strstr(ways[i], "ema") == NULL) { /* which --save-model writes, not the checkpoint */
            snprintf(options, sizeof options, "--init \"$(ls run/*.safetensors | tail -n 1)\" %s",
                     ways[i]);
            expect_evaluated(last_epoch, options);
        }
        json_decref(last_epoch);
        json_decref(best);
        shell("rm -rf run");
        run("train c.yaml --out run %s", ways[i]);
        copy_line(expected, sizeof expected, "Validation set: ");
        run("eval c.yaml --out run --split validation %s", ways[i]);
        copy_line(found, sizeof found, "Validation set: ");
        assert_string_equal(found, expected);
    }
}

/* Marks the samples of a split by their number in the file, and counts those that are right. */
static int mark_samples(bool seen[500], const char *options, int *correct)
{
    int count = 0;
    *correct = 0;
    run("predict c.yaml --out run --format json %s", options);
    expect_ok();
    for (const char *at = last.out; *at != '\0'; at = strchr(at, '\n') + 1, count++) {
        json_t *json = json_loads(at, JSON_DISABLE_EOF_CHECK, NULL);
        const int id = (int)json_integer_value(json_object_get(json, "sample"));
        assert_true(id >= 0 && id < 500 && !seen[id]);
        seen[id] = true;
        *correct += json_equal(json_object_get(json, "class"), json_object_get(json, "label"));
        json_decref(json);
    }
    return count;
}

static int evaluated_correct(const char *key, const char *options)
{
    run("eval c.yaml --out run --format json %s", options);
    expect_ok();
    const char *at = last.out;
    json_t *json = next_event(&at, "eval");
    const int correct = (int)json_integer_value(json_object_get(json, key));
    json_decref(json);
    return correct;
}

/* Samples have the numbers that `data show --first` takes; each is held back or trained on. */
static void predicts_each_sample_once(void **state)
{
    bool seen[500] = {false};
    int correct;
    const char *way = "--set validation.fraction=0.2 --set validation.shuffle=true";
    char options[200];
    (void)state;
    write_text("c.yaml", net);
    run("train c.yaml --out run --quiet --epochs 1 %s", way);
    expect_ok();
    snprintf(options, sizeof options, "--split validation %s", way);
    assert_int_equal(mark_samples(seen, options, &correct), 100);
    assert_int_equal(evaluated_correct("valid_correct", options), correct);
    int at_the_end = 0;
    for (int i = 400; i < 500; i++) at_the_end += seen[i];
    assert_true(at_the_end < 50);
    snprintf(options, sizeof options, "--split train %s", way);
    assert_int_equal(mark_samples(seen, options, &correct), 400);
    assert_int_equal(evaluated_correct("train_correct", options), correct);
    /* Without drawing they are the last. */
    run("train c.yaml --out end --quiet --epochs 1 --set validation.samples=3");
    run("predict c.yaml --out end --split validation --set validation.samples=3 --format csv");
    expect_out("\n497,");
    expect_out("\n498,");
    expect_out("\n499,");
}

static void other_samples_are_refused(void **state)
{
    (void)state;
    write_text("c.yaml", net);
    run("train c.yaml --out run --quiet --epochs 1 --save-model --set validation.fraction=0.2");
    expect_ok();
    run("eval c.yaml --out run --split validation --set validation.fraction=0.1");
    expect(5, "lockstep: the run in run trained on other samples than the configuration has: "
              "validation.fraction was 0.2, is 0.1; use the same\n");
    run("predict c.yaml --out run --split validation");
    expect(5, "validation.fraction was 0.2, is not set; use the same\n");
    assert_string_equal(last.out, "");
    run("eval c.yaml --out run --split train --set validation.fraction=0.2 --set data.samples=400");
    expect(5, "data.samples was 500, is 400; use the same\n");
    run("eval c.yaml --out run"); /* the test set is the same */
    expect_ok();
    run("eval c.yaml --init net.safetensors --split validation");
    expect(2, "lockstep: no samples are held back: neither validation.samples nor "
              "validation.fraction is set; give the one that the training had\n");
    run("eval c.yaml --out run --split valid");
    expect(2, "lockstep: --split is 'valid', expected test, validation or train\n");
    run("predict c.yaml --out run --split train --images file");
    expect(2, "lockstep: --images and --split name two sets of samples; drop one\n");
    /* The same keys, but other files. */
    shell("for s in 1 2; do '%s' data digits --out d$s --seed $s --samples 300 --test-samples 9; "
          "done >out.txt; rm d?/t10k*; ln -s d1 d",
          program());
    run("train c.yaml --data d --out run-d --quiet --set data.samples=null --set "
        "validation.fraction=0.2 --set data.test_samples=null");
    expect_ok();
    run("eval c.yaml --data d --out run-d --set data.samples=null");
    expect(3, "lockstep: there are no test samples in d; --split validation takes those that the "
              "training held back, --split train those that it trained on\n");
    shell("rm d; ln -s d2 d");
    run("eval c.yaml --data d --out run-d --split train --set data.samples=null --set "
        "validation.fraction=0.2");
    expect(5, "the data is another; use the same\n");
}

/* What a checkpoint does not fit is said in the words of the configuration. */
static void another_run_is_named_by_its_keys(void **state)
{
    static const struct {
        const char *options, *part;
    } changes[] = {
        {"--replicas 2", "train.replicas was 4, is 2; use the same, or give its .safetensors file "
                         "to --init for the weights alone\n"},
        {"--batch-size 20", "train.batch_size was 50, is 20; use the same, or give its"},
        {"--seed 4", "train.seed was 3, is 4; use the same, or give its"},
        {"--set optimizer.name=sgd", "optimizer.name was adam, is sgd; use the same, or give its"},
        {"--set train.ema=0.9", "train.ema was not set, is 0.9; use the same\n"},
        {"--set 'model.layers=[flatten, dense: 10]' --set data.samples=400",
         "model.layers was [{conv2d: {filters: 4, kernel: 3}}, batch_norm, relu, {max_p..., is "
         "[flatten, {dense: 10}]; use the same\n"},
    };
    char expected[400];
    (void)state;
    write_text("c.yaml", net);
    run("train c.yaml --out run --quiet --epochs 1");
    expect_ok();
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        snprintf(expected, sizeof expected,
                 "lockstep: the checkpoint of step 10 in run is of another run: %s",
                 changes[i].part);
        run("eval c.yaml --out run %s", changes[i].options);
        expect(5, expected);
    }
    run("eval c.yaml --init run/step-00000010.safetensors --replicas 2");
    expect_ok();
    assert_string_equal(last.err, "");
    /* What fits, but makes other numbers, is said. */
    run("eval c.yaml --out run --set data.std=0.5");
    expect(0, "lockstep: data.std was not set, is [0.5]\n");
    run("train c.yaml --out mean --quiet --epochs 1 --set train.ema=0.5");
    run("predict c.yaml --out mean --count 1 --set train.ema=0.5 --replicas 2");
    expect(5, "train.replicas was 4, is 2; use the same\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(evaluates_what_the_training_printed),
        TEST(predicts_each_sample_once),
        TEST(other_samples_are_refused),
        TEST(another_run_is_named_by_its_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

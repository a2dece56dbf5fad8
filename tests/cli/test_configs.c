/* Several configurations in one file: chosen by name, merged, and SC20's 16 with the numbers that NERSC published. */
#include "cli/program.h"

#include <math.h>

static const char file[] = "configs/sc20_cifar100.yaml";

/* As in the table of NERSC's tutorial: rates have two digits there. */
static const struct row {
    const char *name;
    int batch, epochs, warmup, replicas, sync;
    double rate;
    const char *dtype;
    int saves;
} rows[] = {
    {"default", 128, 100, 0, 8, 1, .1, "f32", 1},
    {"bs128", 128, 100, 0, 8, 1, .1, "f32", 1},
    {"bs256", 256, 100, 0, 8, 1, .14, "f32", 1},
    {"bs256-prof", 256, 2, 0, 8, 1, .14, "f32", 0},
    {"bs256-amp", 256, 100, 0, 8, 1, .14, "bf16", 1},
    {"bs256-amp-prof", 256, 2, 0, 8, 1, .14, "bf16", 0},
    {"bs256-amp-nhwc", 256, 100, 0, 8, 1, .14, "bf16", 1},
    {"bs256-amp-nhwc-prof", 256, 2, 0, 8, 1, .14, "bf16", 0},
    {"bs256-amp-nhwc-extra-opts", 256, 100, 0, 8, 1, .14, "bf16", 1},
    {"bs256-amp-nhwc-extra-opts-prof", 256, 2, 0, 8, 1, .14, "bf16", 0},
    {"bs128-opt", 128, 100, 0, 8, 1, .1, "bf16", 1},
    {"bs512-opt", 512, 120, 0, 4, 0, .2, "bf16", 1},
    {"bs1024-opt", 1024, 120, 0, 8, 0, .28, "bf16", 1},
    {"bs1024-warmup-opt", 1024, 120, 8, 8, 0, .28, "bf16", 1},
    {"bs2048-opt", 2048, 120, 0, 16, 0, .4, "bf16", 1},
    {"bs2048-warmup-opt", 2048, 120, 16, 16, 0, .4, "bf16", 1},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* The number behind "  key: " in what was printed. */
static double number_of(const char *key)
{
    char line[64];
    snprintf(line, sizeof line, "\n  %s: ", key);
    const char *at = strstr(last.out, line);
    if (at == NULL) fail_msg("no %s in:\n%s", key, last.out);
    return strtod(at + strlen(line), NULL);
}

static void sc20_has_what_was_published(void **state)
{
    (void)state;
    char names[1024] = "", text[128];
    for (int i = 0; i < ROWS; i++) {
        const struct row *r = &rows[i];
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s\n", r->name);
        run("train --yaml_config '%s' --config %s --print-config", source(file), r->name);
        expect(0, "");
        assert_true(number_of("batch_size") == r->batch && number_of("epochs") == r->epochs);
        assert_true(number_of("warmup_epochs") == r->warmup);
        assert_true(number_of("replicas") == r->replicas);
        snprintf(text, sizeof text, "\n  dtype: %s\n", r->dtype);
        expect_out(text);
        snprintf(text, sizeof text, "\n  sync_batch_norm: %s\n", r->sync ? "true" : "false");
        expect_out(text);
        snprintf(text, sizeof text, "\n  path: expts/%s\n  resume: true\n", r->name);
        expect_out(r->saves ? text : "\n  path: null\n  resume: false\n");
        expect_out(r->saves ? "\n  tensorboard: \"true\"\n" : "\n  tensorboard: null\n");
        static const char *const common[] = {
            "  name: cifar100\n",
            "  mean: [0.5070751592371323, 0.48654887331495095, 0.4409178433670343]\n",
            "  std: [0.2673342858792401, 0.2564384629170883, 0.27615047132568404]\n",
            "  drop_last: true\n",
            "    - {crop: 4}\n    - flip\n    - {rotate: 15}\n",
            "  name: resnet50\n",
            "  stem: unpooled\n",
            "  name: sgd\n  lr: 0.1\n  lr_scaling: sqrt\n  lr_batch: 128\n",
            "  weight_decay: 0.0005\n  decay_of: weights\n",
            "  momentum: 0.9\n",
            "  name: reduce_on_plateau\n",
            "  factor: 0.2\n  patience: 10\n  threshold: 0.0001\n",
            "  interval: 20\n"};
        for (size_t k = 0; k < sizeof common / sizeof *common; k++) expect_out(common[k]);
    }
    run("info '%s' --config list", source(file));
    expect(0, "");
    assert_string_equal(last.out, names);
}

/* 5 steps of 2 samples a replica, of small random images; the second is resumed by itself. */
static void sc20_trains(void **state)
{
    (void)state;
    static const char *const names[] = {"bs128", "bs256-amp-prof", "bs2048-warmup-opt"};
    for (size_t i = 0; i < 3; i++) {
        for (int again = 0; again < 2; again++) {
            run("train '%s#%s' --replicas 2 --set data.name=dummy --set data.shape=[8,8,3] "
                "--set data.classes=4 --set data.samples=20 --set data.test_samples=8 "
                "--batch-size 4 --lr 0.01 --log-interval 1 --epochs 1 --steps %d --record r.json",
                source(file), names[i], again == 0 ? 2 : 5);
            expect_ok();
            expect_out("\t");
            if (again == 1) expect_out("\n\nepoch 1/1  train ");
            expect_out("Learning rate 0.00176777: 0.01 for a batch of 128, times the root "
                       "of 4 / 128.\n");
            json_t *record = read_json_file("r.json");
            const double rate = json_number_value(json_object_get(record, "learning_rate"));
            assert_true(rate == 0.01 * sqrt(4.0 / 128.0));
            json_decref(record);
            const char *resumed = strstr(last.err, "continuing from step 2");
            assert_true((resumed != NULL) == (again == 1 && i != 1));
        }
    }
    assert_true(there("expts/bs128") && there("expts/bs2048-warmup-opt"));
    assert_true(there("expts/bs128/tensorboard"));
}

static void expect_rate(const char *set, double rate)
{
    run("train c.yaml --quiet --steps 1 --record r.json %s", set);
    expect_ok();
    json_t *record = read_json_file("r.json");
    const double found = json_number_value(json_object_get(record, "learning_rate"));
    if (found != rate) fail_msg("%s: the rate is %.17g, expected %.17g", set, found, rate);
    json_decref(record);
}

/* tiny: 50 of 500 samples, lr 0.1. */
static void rates_follow_the_batch(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    expect_rate("", 0.1);
    expect_rate("--set optimizer.lr_scaling=linear --set optimizer.lr_batch=25", 0.1 * 2);
    expect_rate("--set optimizer.lr_scaling=sqrt --set optimizer.lr_batch=200", 0.1 * 0.5);
    expect_rate("--set optimizer.lr_scaling=none --set optimizer.lr_batch=25", 0.1);
    run("train c.yaml --set optimizer.lr_scaling=sqrt");
    expect(2, "--set optimizer.lr_scaling: optimizer.lr_scaling is sqrt, which needs "
              "optimizer.lr_batch, the batch size that optimizer.lr is for");
    run("train c.yaml --set optimizer.lr_batch=64");
    expect(2, "optimizer.lr_batch needs optimizer.lr_scaling, sqrt or linear");
}

/* 10 steps an epoch. */
static void warmup_counts_epochs(void **state)
{
    (void)state;
    static char steps[OUTPUT_SIZE];
    write_text("c.yaml", tiny);
    run("train c.yaml --format csv --set schedule.warmup_steps=20 | cut -d, -f1-5 | grep ^step");
    expect_ok();
    memcpy(steps, last.out, sizeof steps);
    run("train c.yaml --format csv --set schedule.warmup_epochs=2 | cut -d, -f1-5 | grep ^step");
    expect_ok();
    assert_string_equal(steps, last.out);
    write_text("c.yaml", "model: {name: mlp}\nschedule: {warmup_epochs: 2}\n");
    run("train c.yaml --print-config --set schedule.warmup_steps=7");
    expect_out("  warmup_steps: 7\n  warmup_epochs: 0\n");
    write_text("c.yaml", "model: {name: mlp}\nschedule: {warmup_epochs: 2, warmup_steps: 7}\n");
    run("train c.yaml --print-config");
    expect(2, "c.yaml:2: schedule.warmup_epochs and schedule.warmup_steps say the same thing");
}

/* With a rate of 0 no loss is better than the first: what is measured while the rate rises does not count. */
static void plateaus_begin_behind_the_warmup(void **state)
{
    (void)state;
    double rates[8];
    write_text("c.yaml", tiny);
    for (int warm = 0; warm < 2; warm++) {
        run("train c.yaml --epochs 8 --quiet --record r.json --set optimizer.momentum=0 "
            "--set train.not_finite=skip --lr 1e-7 --set schedule.name=reduce_on_plateau "
            "--set schedule.patience=1 --set schedule.factor=0.5 --set schedule.threshold=0.5 "
            "--set schedule.min_lr=0 --set schedule.warmup_epochs=%d",
            3 * warm);
        expect_ok();
        json_t *record = read_json_file("r.json");
        for (size_t i = 0; i < 8; i++)
            rates[i] = json_number_value(
                json_object_get(json_array_get(json_object_get(record, "epochs"), i), "lr"));
        json_decref(record);
        /* Evaluations 2 and 3 are not better than the first that counts: the next epoch has half. */
        const int first = 3 + 3 * warm;
        if (rates[first - 1] != 1e-7 || rates[first] != 0.5e-7)
            fail_msg("rates %g %g around epoch %d", rates[first - 1], rates[first], first);
    }
}

static void names_choose(void **state)
{
    (void)state;
    static const char several[] =
        "model: {name: mlp}\n"
        "train: {epochs: 5, batch_size: 40}\n"
        "configs:\n"
        "  slow: &slow {optimizer: {name: adam, lr: 0.5}, train.seed: 9}\n"
        "  small: {<<: *slow, train.batch_size: 8, optimizer.lr: 0.25}\n"
        "  smaller: {<<: {<<: *slow, train: {seed: 4}}, train.epochs: 6}\n"
        "  plain:\n";
    write_text("c.yaml", several);
    run("train c.yaml --config small --print-config --set train.epochs=7");
    expect_ok();
    expect_out("  epochs: 7\n"); /* the command */
    expect_out("  batch_size: 8\n");
    expect_out("  seed: 9\n");
    expect_out(
        "  name: adam\n  lr: 0.25\n"); /* its own key, in whatever form, and the merged rest */
    run("train 'c.yaml#smaller' --print-config");
    expect_ok();
    expect_out("  epochs: 6\n");
    expect_out("  batch_size: 40\n"); /* what the file has for all */
    expect_out("  seed: 4\n");        /* merged from nearer */
    run("info c.yaml --config plain --print-config");
    expect_ok();
    expect_out("  epochs: 5\n");
    expect_out("  name: sgd\n");
    run("train c.yaml --print-config");
    expect(2, "c.yaml has several configurations; choose one with --config: slow, small, smaller, "
              "plain");
    run("train c.yaml --config smal");
    expect(2, "c.yaml has no configuration 'smal'; the nearest is small, expected one of slow, "
              "small, smaller, plain");
    run("bench --yaml-config c.yaml --config list");
    expect(0, "");
    assert_string_equal(last.out, "slow\nsmall\nsmaller\nplain\n");
    shell("mv c.yaml 'd#small'");
    run("train 'd#small#slow' --print-config");
    expect_ok();
    expect_out("  epochs: 5\n");
    write_text("e.yaml", "model: {name: mlp}\n");
    run("train e.yaml --config small");
    expect(2, "e.yaml is one configuration, without names (configs)");
    run("train e.yaml --config list");
    expect(0, "e.yaml is one configuration, without names");
    run("train e.yaml --yaml_config e.yaml");
    expect(2, "train takes CONFIG, found 2 operands");
    run("data stats digits --config small");
    expect(2, "--config, --bias and --fc-relu are for a file, and none is given");
}

static void bad_lists_are_refused(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"configs: 3\n", "c.yaml:1: configs is a map of configurations by name"},
        {"configs: {}\n", "c.yaml:1: configs is a map of configurations by name"},
        {"configs: {a: 3}\n",
         "c.yaml:1: configuration 'a' is not a map of sections and keys alone"},
        {"configs: {a: {configs: {b: }}}\n", "configuration 'a' is not a map of sections and keys"},
        {"configs:\n  a:\n    train.epoch: 3\n", "c.yaml:3: unknown key 'train.epoch'"},
        {"configs: {b: }\n", "c.yaml has no configuration 'a', expected one of b"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        write_text("c.yaml", pairs[i][0]);
        run("train c.yaml --config a");
        expect(2, pairs[i][1]);
    }
}

static void stems_are_those_of_the_network(void **state)
{
    (void)state;
    run("info vgg11 --set model.stem=unpooled");
    expect(2, "model.stem is unpooled, expected auto, cifar or imagenet of vgg11");
    run("info resnet18 --set model.stem=unpooled --shape 16x16x3");
    expect_ok();
    expect_out("conv2d filters=64 kernel=7x7 padding=3 no_bias");
}

static void data_takes_names(void **state)
{
    (void)state;
    write_text("c.yaml",
               "model: {name: mlp}\ndata: {samples: 20}\nconfigs: {few: {data.samples: 7}}\n");
    run("data stats c.yaml --config few");
    expect_ok();
    run("data stats 'c.yaml#few'");
    expect_ok();
    run("data stats c.yaml");
    expect(2, "c.yaml has several configurations; choose one with --config: few");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(sc20_has_what_was_published),
        TEST(sc20_trains),
        TEST(rates_follow_the_batch),
        TEST(warmup_counts_epochs),
        TEST(plateaus_begin_behind_the_warmup),
        TEST(names_choose),
        TEST(bad_lists_are_refused),
        TEST(data_takes_names),
        TEST(stems_are_those_of_the_network),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

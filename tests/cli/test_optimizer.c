/* Optimizers, groups of parameters and schedules of a configuration. */
#include "cli/program.h"

#include <math.h>

#include <lockstep/tools.h>

#define NET "model: {name: mlp}\n"

static void defaults_follow_the_name(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"optimizer: {name: adamw}\n",
         "  lr: 0.001\n  lr_scaling: none\n  lr_batch: null\n  weight_decay: 0.01\n"},
        {"optimizer: {name: adamw, weight_decay: 0}\n", "  weight_decay: 0.0\n"},
        {"optimizer: {name: adamw}\n", "  betas: [0.9, 0.999]\n  eps: 1.0e-08\n"},
        {"optimizer: {name: rmsprop}\n", "  lr: 0.01\n  lr_scaling: none\n"},
        {"optimizer: {name: rmsprop}\n", "  alpha: 0.99\n  centered: false\n  eps: 1.0e-08\n"},
        {"optimizer: {name: rmsprop}\n", "  momentum: 0.0\n"},
        {"optimizer: {name: adamp}\n",
         "  nesterov: false\n  betas: [0.9, 0.999]\n  delta: 0.1\n  wd_ratio: 0.1\n"},
        {"optimizer: {clip_norm: 5}\n", "  clip_value: null\n  clip_norm: 5.0\n"},
        {"train: {ema: 0.999}\n", "  ema: 0.999\n  ema_evaluate: true\n  not_finite: stop\n"},
        {"optimizer: {decay_of: weights}\n", "  decay_of: weights\n  groups: null\n"},
        {"optimizer: {groups: [{match: \"*.bias\", weight_decay: 0}]}\n",
         "  groups:\n    - {match: \"*.bias\", weight_decay: 0}\n"},
        {"schedule: {name: one_cycle}\n",
         "  name: one_cycle\n  per_step: true\n  begin: 0\n  rise: 0.3\n  start_div: 25.0\n"
         "  final_div: 10000.0\n"},
        {"schedule: {name: multi_step, milestones: [3, 5]}\n",
         "  per_step: false\n  begin: 0\n  milestones: [3, 5]\n  gamma: 0.1\n"},
        {"schedule: {name: polynomial}\n", "  final_lr: 0.0\n  power: 1.0\n"},
        {"schedule: {name: reduce_on_plateau}\n",
         "  factor: 0.1\n  patience: 10\n  threshold: 0.0001\n  min_lr: 0.0\n"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char yaml[512];
        snprintf(yaml, sizeof yaml, "%s%s", NET, pairs[i][0]);
        write_text("c.yaml", yaml);
        run("train c.yaml --print-config");
        expect_ok();
        expect_out(pairs[i][1]);
    }
}

static void mistakes_are_sentences(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"schedule: {name: multi_step}\n", "c.yaml:2: schedule.name is multi_step, which needs "
                                           "schedule.milestones, such as [30, 60]"},
        {"schedule: {name: exponential}\n", "schedule.name is exponential, which needs "
                                            "schedule.gamma"},
        {"schedule: {name: linear, gamma: 0.5}\n", "schedule.gamma is not known to linear; it is "
                                                   "for schedule.name 'step', 'multi_step' or "
                                                   "'exponential'"},
        {"schedule: {name: multi_step, milestones: [5, 3]}\n",
         "milestone 3 comes behind 5, expected ascending numbers above 0"},
        {"schedule: {name: reduce_on_plateau, factor: 1}\n",
         "schedule.factor is '1', expected a number above 0 and below 1"},
        {"optimizer: {alpha: 0.5}\n", "optimizer.alpha is not known to sgd; it is for "
                                      "optimizer.name 'rmsprop'"},
        {"optimizer: {delta: 0.5}\n", "optimizer.delta is not known to sgd"},
        {"optimizer: {clip_norm: 0}\n", "optimizer.clip_norm is '0', expected a number above 0"},
        {"optimizer: {max_grad_norm: 1}\n", "the nearest is 'optimizer.clip_norm'"},
        {"train: {ema: 1}\n", "train.ema is '1', expected a number above 0 and below 1"},
        {"train: {not_finite: ignore}\n", "expected stop or skip"},
        {"optimizer: {decay_of: biases}\n", "expected all or weights"},
        {"optimizer: {groups: 3}\n", "c.yaml:2: optimizer.groups is '3', expected a list"},
        {"optimizer:\n  groups:\n    - bias\n", "c.yaml:4: a group is written '- {match: "},
        {"optimizer:\n  groups:\n    - {weight_decay: 0}\n", "c.yaml:4: a group needs match"},
        {"optimizer:\n  groups:\n    - {match: a, lr: 3}\n",
         "c.yaml:4: a group has no 'lr', expected match, weight_decay or lr_factor"},
        {"optimizer:\n  groups:\n    - {match: \"*\", lr_factor: -1}\n",
         "c.yaml:4: lr_factor is '-1', expected a number of at least 0"},
        {"optimizer:\n  groups:\n    - {match: \"*.bais\", lr_factor: 1}\n",
         "group '*.bais' matches no parameter"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char yaml[512];
        snprintf(yaml, sizeof yaml, "%s%s", NET, pairs[i][0]);
        write_text("c.yaml", yaml);
        run("train c.yaml --steps 1 --set data.samples=64 --set data.test_samples=10");
        expect(2, pairs[i][1]);
    }
}

/* Every optimizer and schedule runs, is resumed, and ends with the hash of the whole run. */
static void every_name_trains(void **state)
{
    (void)state;
    static const char *const more[] = {
        "--set optimizer.name=rmsprop --set optimizer.centered=true",
        "--set optimizer.name=adamp --set optimizer.delta=1",
        "--set optimizer.clip_norm=0.5",
        "--set optimizer.clip_value=0.01",
        "--set train.ema=0.9",
        "--set schedule.name=linear",
        "--set schedule.name=polynomial --set schedule.power=2",
        "--set schedule.name=exponential --set schedule.gamma=0.9 --set schedule.per_step=true",
        "--set schedule.name=multi_step --set 'schedule.milestones=[1]'",
        "--set schedule.name=one_cycle",
        "--set schedule.name=reduce_on_plateau --set schedule.patience=0",
        "--set optimizer.weight_decay=0.1 --set optimizer.decay_of=weights",
        "--set 'optimizer.groups=[{match: \"*.bias\", lr_factor: 0}]'",
    };
    enum { MOST = 100, MORE = sizeof more / sizeof *more };
    char settings[MOST][100], hashes[MOST + 1][32];
    size_t count = 0;
    for (; count < MORE; count++) snprintf(settings[count], sizeof *settings, "%s", more[count]);
    for (int i = 0; lks_list_name(LKS_LIST_OPTIMIZERS, i, NULL) != NULL; i++) {
        assert_true(count < MOST);
        snprintf(settings[count++], sizeof *settings, "--set optimizer.name=%s",
                 lks_list_name(LKS_LIST_OPTIMIZERS, i, NULL));
    }
    write_text("c.yaml", tiny);
    run("train c.yaml");
    expect_ok();
    last_hash(hashes[count]);
    for (size_t i = 0; i < count; i++) {
        char hash[32];
        run("train c.yaml --set 'optimizer.lr=0.01' %s", settings[i]);
        expect_ok();
        assert_int_equal(last_hash(hashes[i]), 20);
        run("train c.yaml --set 'optimizer.lr=0.01' %s --workers 1 --steps 13 --out run%zu",
            settings[i], i);
        expect_ok();
        run("train c.yaml --set 'optimizer.lr=0.01' %s --workers 3 --out run%zu --resume",
            settings[i], i);
        expect_ok();
        last_hash(hash);
        /* A schedule that ends with the run is another for a shorter run. */
        const bool ends = strstr(settings[i], "linear") || strstr(settings[i], "polynomial") ||
                          strstr(settings[i], "one_cycle");
        if (!ends) assert_string_equal(hash, hashes[i]);
    }
    for (size_t i = 0; i <= count; i++)
        for (size_t k = i < count && i >= MORE ? MORE : 0; k < i; k++) {
            if (i == count && k >= MORE) break; /* the usual optimizer has another name there */
            assert_string_not_equal(hashes[i], hashes[k]);
        }
}

/* The norm in every step's line; the saved model is the average, unless that is not wanted. */
static void norms_and_averages_are_seen(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    run("train c.yaml --steps 3 --log-format json");
    expect_ok();
    assert_null(strstr(last.out, "gradient_norm"));
    run("train c.yaml --steps 3 --log-format json --set optimizer.clip_norm=0.5");
    expect_ok();
    expect_out("\"gradient_norm\": ");
    run("train c.yaml --set train.ema=0.9 --save-model --out run --set model.name=mlp");
    expect_ok();
    shell("mv mlp.safetensors average.safetensors");
    run("eval c.yaml --set train.ema=0.9 --out run --log-format json");
    expect_ok();
    char averages[OUTPUT_SIZE];
    snprintf(averages, sizeof averages, "%s", last.out);
    run("eval c.yaml --init average.safetensors --log-format json");
    expect_ok();
    *strchr(averages, '}') = '\0'; /* but for the step, which weights alone do not know */
    *strstr(averages, ", \"step\"") = '\0';
    assert_memory_equal(averages, last.out, strlen(averages));
    run("eval c.yaml --set train.ema=0.9 --set train.ema_evaluate=false --out run --log-format "
        "json");
    expect_ok();
    assert_memory_not_equal(averages, last.out, strlen(averages));
    run("eval c.yaml --out run");
    expect(5, "is of another run: train.ema was 0.9, is not set; use the same\n");
    run("train c.yaml --steps 3 --out bare");
    expect_ok();
    run("train c.yaml --out bare --resume --accept-changes --set train.ema=0.9");
    expect(5, "has no 'ema.fc1.weight': it was made without averages");
}

/* A rate that sends parameters to infinity: the run stops, or skips from there on and counts. */
static void steps_are_skipped_and_counted(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    run("train c.yaml --lr 1e30 --set optimizer.momentum=0");
    expect(6, "the loss is not finite");
    run("train c.yaml --lr 1e30 --set optimizer.momentum=0 --set train.not_finite=skip "
        "--log-format json --record r.json --set data.test_samples=1");
    if (last.code != 0) fail_msg("%s", last.err);
    if (strstr(last.err, "the loss or the gradient is not finite; the step was skipped") == NULL)
        fail_msg("no sentence in %s", last.err);
    expect_out("\"skipped\": true");
    expect_out("\"loss\": null");
    run("train c.yaml --lr 1e30 --set optimizer.momentum=0 --set train.not_finite=skip "
        "--log-format csv --set data.test_samples=1");
    expect_out("\nstep,2,20,,"); /* a loss that is not finite is no value */
    assert_null(strstr(last.out, "null"));
    static char record[OUTPUT_SIZE];
    read_text(record, "r.json");
    const char *found = strstr(record, "\"skipped_steps\": ");
    assert_non_null(found);
    assert_true(atoi(found + strlen("\"skipped_steps\": ")) >= 15);
    run("train c.yaml --set train.not_finite=skip --record r.json");
    expect_ok();
    char hash[32], plain[32];
    last_hash(hash);
    read_text(record, "r.json");
    assert_non_null(strstr(record, "\"skipped_steps\": 0"));
    run("train c.yaml");
    last_hash(plain);
    assert_string_equal(hash, plain);
}

/* As long as a run can be: its schedule has a length all the same. */
static void endless_runs_have_schedules(void **state)
{
    (void)state;
    static const char *const schedules[] = {"cosine", "one_cycle --set schedule.per_step=false",
                                            "linear --set schedule.per_step=true"};
    write_text("c.yaml", tiny);
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
        run("train c.yaml --dry-run --format json --steps 9223372036854775807 "
            "--set schedule.name=%s",
            schedules[i]);
        expect(0, "");
        expect_out(i == 1 ? "\"lr\": 0.004," : "\"lr\": 0.1,");
    }
}

/* The rates of all epochs, or of all steps, of a run in JSON lines; returns how many. */
static int rates_of(const char *event, double rates[64])
{
    int count = 0;
    for (const char *line = last.out; *line != '\0'; line = strchr(line, '\n') + 1) {
        char kind[64];
        snprintf(kind, sizeof kind, "{\"event\": \"%s\"", event);
        if (strncmp(line, kind, strlen(kind)) != 0 || count == 64) continue;
        const char *at = strstr(line, "\"lr\": ");
        assert_non_null(at);
        rates[count++] = atof(at + strlen("\"lr\": "));
    }
    return count;
}

/* patience: 0 is no patience, not the default: with nothing trained no loss is better than the first. */
static void a_plateau_may_have_no_patience(void **state)
{
    (void)state;
    double rates[64];
    write_text("c.yaml", tiny);
    for (int patience = 0; patience < 3; patience++) {
        run("train c.yaml --epochs 5 --format json --set schedule.name=reduce_on_plateau --set "
            "schedule.factor=0.5 --set schedule.patience=%d --set 'optimizer.groups=[{match: "
            "\"*\", "
            "lr_factor: 0}]'",
            patience);
        expect(0, "");
        assert_int_equal(rates_of("epoch", rates), 5);
        static const double expected[][5] = {{0.1, 0.1, 0.05, 0.025, 0.0125},
                                             {0.1, 0.1, 0.1, 0.05, 0.05},
                                             {0.1, 0.1, 0.1, 0.1, 0.05}};
        for (int i = 0; i < 5; i++) assert_true(fabs(rates[i] - expected[patience][i]) < 1e-12);
    }
}

/* threshold: 0 is none, not the default: then every smaller loss is a better one. */
static void a_plateau_may_have_no_threshold(void **state)
{
    (void)state;
    double rates[64];
    write_text("c.yaml", tiny);
    for (int k = 0; k < 2; k++) {
        run("train c.yaml --epochs 4 --format json --lr 1e-6 --set model.dropout=0 --set "
            "schedule.name=reduce_on_plateau --set schedule.patience=0 --set schedule.threshold=%s",
            k == 0 ? "0.0001" : "0");
        expect(0, "");
        assert_int_equal(rates_of("epoch", rates), 4);
        assert_true(fabs(rates[3] - (k == 0 ? 1e-8 : 1e-6)) < 1e-12);
    }
}

/* A schedule is as long as the run, whichever of epochs and steps ends it. */
static void schedules_end_with_the_run(void **state)
{
    (void)state;
    static const char *const lengths[] = {"--epochs 2", "--epochs 2 --steps 1000",
                                          "--epochs 9 --steps 20", "--steps 20"};
    double rates[4][64];
    write_text("c.yaml", tiny);
    for (int i = 0; i < 4; i++) {
        run("train c.yaml --format json --set schedule.name=linear --set schedule.per_step=true %s",
            lengths[i]);
        expect(0, "");
        assert_int_equal(rates_of("step", rates[i]), 20);
        assert_memory_equal(rates[i], rates[0], 20 * sizeof **rates);
    }
    assert_true(fabs(rates[0][19] - 0.1 / 20) < 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(defaults_follow_the_name),
        TEST(mistakes_are_sentences),
        TEST(every_name_trains),
        TEST(norms_and_averages_are_seen),
        TEST(steps_are_skipped_and_counted),
        TEST(endless_runs_have_schedules),
        TEST(a_plateau_may_have_no_patience),
        TEST(a_plateau_may_have_no_threshold),
        TEST(schedules_end_with_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A training from C: the program's hash, files and sentences. */
#include "recipe/recipes.h"

#include <inttypes.h>
#include <locale.h>

#include "support/locale.h"

static const char NETWORK[] = "data: {name: digits, samples: 600, test_samples: 200}\n"
                              "model:\n"
                              "  layers:\n"
                              "    - flatten\n"
                              "    - dense: {units: 20}\n"
                              "    - relu\n"
                              "    - dropout: 0.3\n"
                              "    - dense: 10\n"
                              "train: {epochs: 2, batch_size: 50, hash_every: 4}\n"
                              "optimizer: {name: adam, lr: 0.002}\n"
                              "validation: {fraction: 0.2}\n"
                              "log: {quiet: true}\n";

/* The recipe of NETWORK, with paths that lie in the test's folder. */
static lks_recipe *opened(void)
{
    lks_recipe *recipe;
    LKT_OK(lks_recipe_open_text(&recipe, "net.yaml", NETWORK));
    return recipe;
}

static uint64_t hash_of(lks_recipe *recipe)
{
    const lks_run *end;
    LKT_OK(lks_recipe_train(recipe, NULL, &end));
    return end->hash;
}

static uint64_t program_hash(void)
{
    char hash[32];
    expect_ok();
    last_hash(hash);
    return strtoull(hash, NULL, 16);
}

static void ends_with_the_hash_of_the_program(void **state)
{
    (void)state;
    write_text("net.yaml", NETWORK);
    run("train net.yaml --workers 2");
    const uint64_t expected = program_hash();
    for (int workers = 1; workers <= 3; workers++) {
        char assignment[32];
        lks_recipe *recipe = opened();
        snprintf(assignment, sizeof assignment, "train.workers=%d", workers);
        LKT_OK(lks_recipe_set(recipe, assignment));
        assert_int_equal(hash_of(recipe), expected);
        lks_recipe_close(recipe);
    }
}

/* Runs the example into `last`. */
static void run_example(const char *arguments)
{
    const char *build = getenv("LKT_BUILD");
    last.code = shell("'%s/tests/example_recipe' %s >out.txt 2>err.txt",
                      build != NULL ? build : "build/release", arguments);
    read_text(last.out, "out.txt");
    read_text(last.err, "err.txt");
}

static void the_example_does_what_the_program_does(void **state)
{
    (void)state;
    write_text("net.yaml", NETWORK);
    run("train net.yaml --set optimizer.lr=0.01 --set train.steps=7");
    const uint64_t expected = program_hash();
    run_example("net.yaml optimizer.lr=0.01 train.steps=7");
    assert_int_equal(program_hash(), expected);
    run_example("absent.yaml");
    assert_string_equal(last.err,
                        "recipe: configuration absent.yaml cannot be opened: No such file or "
                        "directory\n");
    assert_int_equal(last.code, LKS_E_IO);
    run_example("net.yaml train.device=abacus");
    assert_string_equal(last.err,
                        "recipe: device 'abacus' is not in this build, which has: cpu, ref\n");
    write_text("wrong.yaml", "train:\n  steps: 3\noptimizer:\n  rate: 0.1\n");
    run_example("wrong.yaml");
    run("train wrong.yaml");
    assert_string_equal(strchr(last.err, ' '), " wrong.yaml:4: unknown key 'optimizer.rate'; the "
                                               "nearest is 'optimizer.name'\n");
}

static void errors_are_sentences_with_their_line(void **state)
{
    lks_recipe *recipe;
    (void)state;
    LKT_FAILS(LKS_E_IO, "configuration /nowhere.yaml cannot be opened",
              lks_recipe_open(&recipe, "/nowhere.yaml"));
    assert_null(recipe);
    LKT_FAILS(LKS_E_INVALID, "net.yaml:2: unknown key 'train.epoch'; the nearest is 'train.epochs'",
              lks_recipe_open_text(&recipe, "net.yaml", "train:\n  epoch: 3\n"));
    LKT_FAILS(LKS_E_INVALID, "the recipe:3: not valid YAML: ",
              lks_recipe_open_text(&recipe, NULL, "train:\n  [3\n: {"));
    recipe = opened();
    LKT_FAILS(LKS_E_INVALID, "--set optimizer.lr: optimizer.lr is 'fast', expected a number",
              lks_recipe_set(recipe, "optimizer.lr=fast"));
    LKT_OK(lks_recipe_set(recipe, "model.name=mlp"));
    /* What does not go together is refused at the first use, and at every one. */
    for (int i = 0; i < 2; i++)
        LKT_FAILS(LKS_E_INVALID, "model.name is 'mlp', but there are model.layers too",
                  lks_recipe_train(recipe, NULL, NULL));
    LKT_FAILS(LKS_E_STATE, "has been used already", lks_recipe_set(recipe, "model.name=net"));
    lks_recipe_close(recipe);
}

static void yaml_gives_the_same_recipe(void **state)
{
    const char *yaml, *again;
    lks_recipe *recipe = opened(), *copy;
    (void)state;
    LKT_OK(lks_recipe_set(recipe, "optimizer.betas=[0.8, 0.99]"));
    LKT_OK(lks_recipe_yaml(recipe, &yaml));
    assert_string_equal(lks_recipe_value(recipe, "optimizer.betas"), "[0.8, 0.99]");
    assert_string_equal(lks_recipe_value(recipe, "train.steps"), "null");
    assert_string_equal(lks_recipe_value(recipe, "train.stops"), "");
    LKT_OK(lks_recipe_open_text(&copy, "a copy", yaml));
    LKT_OK(lks_recipe_yaml(copy, &again));
    assert_string_equal(again, yaml);
    write_text("net.yaml", NETWORK);
    run("train net.yaml --set 'optimizer.betas=[0.8, 0.99]' --print-config");
    assert_string_equal(last.out, yaml);
    assert_int_equal(hash_of(copy), hash_of(recipe));
    lks_recipe_close(copy);
    lks_recipe_close(recipe);
}

typedef struct seen {
    int64_t steps, epochs, saves, resumed_from, stop_at;
} seen;

static lks_status see_step(void *user, const lks_step_event *event)
{
    seen *s = user;
    s->steps++;
    return event->step == s->stop_at ? lks_fail(LKS_E_STOPPED, "that is enough") : LKS_OK;
}

static lks_status see_epoch(void *user, const lks_epoch *epoch)
{
    seen *s = user;
    s->epochs++;
    assert_int_equal(epoch->train.samples, 480);
    assert_int_equal(epoch->valid.samples, 120);
    assert_int_equal(epoch->test.samples, 200);
    return LKS_OK;
}

static void see_resume(void *user, const lks_run *found)
{
    seen *s = user;
    s->resumed_from = found != NULL ? found->progress.step : -1;
}

static void see_save(void *user, int64_t step)
{
    seen *s = user;
    s->saves += step > 0;
}

static void events_follow_and_stop_a_run(void **state)
{
    seen s = {.stop_at = 13};
    const lks_train_events events = {see_step, see_epoch, see_resume, see_save, NULL, &s};
    const lks_run *end;
    lks_recipe *recipe = opened();
    (void)state;
    const uint64_t expected = hash_of(recipe);
    lks_recipe_close(recipe);
    for (int part = 0; part < 2; part++) {
        recipe = opened();
        set_path(recipe, "checkpoint.path", "run");
        LKT_OK(lks_recipe_set(recipe, "checkpoint.resume=true"));
        if (part == 0)
            LKT_FAILS(LKS_E_STOPPED, "that is enough", lks_recipe_train(recipe, &events, &end));
        else
            LKT_OK(lks_recipe_train(recipe, &events, &end));
        assert_int_equal(s.resumed_from, part == 0 ? -1 : 13);
        assert_int_equal(end->progress.step, part == 0 ? 13 : 20);
        LKT_FAILS(LKS_E_STATE, "has run already", lks_recipe_train(recipe, NULL, NULL));
        lks_recipe_close(recipe);
    }
    assert_int_equal(s.steps, 20);
    assert_int_equal(s.epochs, 2);
    assert_true(s.saves >= 3);
    recipe = opened();
    set_path(recipe, "checkpoint.path", "run");
    LKT_FAILS(LKS_E_INVALID, "which has checkpoints up to step 20; give --resume",
              lks_recipe_train(recipe, NULL, NULL));
    lks_recipe_close(recipe);
    run("eval net.yaml --out run"); /* which is a run like the program's own */
    write_text("net.yaml", NETWORK);
    run("info run");
    char hash[40];
    snprintf(hash, sizeof hash, "hash          %016" PRIx64, expected);
    expect_out(hash);
}

static void count_lines(void *user, lks_log_level level, const char *line)
{
    (void)level;
    if (strstr(line, "optimizer.lr was 0.002, is 0.5") != NULL) ++*(int *)user;
}

static void a_resumed_run_stays_the_same(void **state)
{
    int said = 0;
    lks_recipe *recipe = opened();
    (void)state;
    set_path(recipe, "checkpoint.path", "run");
    hash_of(recipe);
    lks_recipe_close(recipe);
    recipe = opened();
    set_path(recipe, "checkpoint.path", "run");
    LKT_OK(lks_recipe_set(recipe, "checkpoint.resume=true"));
    LKT_OK(lks_recipe_set(recipe, "optimizer.lr=0.5"));
    LKT_OK(lks_recipe_set(recipe, "train.batch_size=60"));
    lks_recipe_log(recipe, count_lines, &said);
    LKT_FAILS(LKS_E_MISMATCH, "is of another run: train.batch_size was 50, is 60; use the same",
              lks_recipe_train(recipe, NULL, NULL));
    assert_int_equal(said, 1);
    lks_recipe_close(recipe);
}

static void writes_weights_and_record(void **state)
{
    static char text[OUTPUT_SIZE], other[OUTPUT_SIZE];
    lks_recipe *recipe = opened();
    char *record;
    (void)state;
    LKT_FAILS(LKS_E_STATE, "no record before", lks_recipe_record(recipe, &record));
    set_path(recipe, "log.record", "record.json");
    hash_of(recipe);
    read_text(text, "record.json");
    LKT_OK(lks_recipe_record(recipe, &record));
    const char *links = strstr(record, "\"links\""), *found = strstr(text, "\"links\"");
    assert_non_null(links);
    assert_non_null(found);
    assert_string_equal(found, links);
    free(record);
    lks_recipe_close(recipe);
    /* But for times and the like it is the program's. */
    write_text("net.yaml", NETWORK);
    run("train net.yaml --record other.json");
    expect_ok();
    read_text(other, "other.json");
    assert_string_equal(strstr(other, "\"links\""), strstr(text, "\"links\""));
    run("compare record.json other.json");
    assert_int_equal(last.code, 0);
    run("report record.json other.json");
    expect_ok();
}

static void add_prediction(void *user, const lks_prediction *p)
{
    int64_t *counts = user;
    double sum = 0;
    for (int64_t i = 0; i < p->classes; i++) sum += p->softmax[i];
    assert_true(sum > 0.999999 && sum < 1.000001);
    assert_int_equal(p->id, counts[0]);
    counts[0]++;
    counts[1] += p->best == p->label;
}

static void evaluates_and_predicts(void **state)
{
    int64_t step, counts[2] = {0};
    lks_metrics sum;
    lks_recipe *recipe = opened();
    (void)state;
    set_path(recipe, "checkpoint.path", "run");
    hash_of(recipe);
    lks_recipe_close(recipe);
    recipe = opened();
    set_path(recipe, "checkpoint.path", "run");
    LKT_OK(lks_recipe_set(recipe, "train.workers=1"));
    LKT_FAILS(LKS_E_STATE, "has no model", lks_recipe_evaluate(recipe, NULL, &sum));
    LKT_OK(lks_recipe_open_data(recipe, LKS_RECIPE_TEST));
    LKT_OK(lks_recipe_compile(recipe, 2)); /* rather than as the key says */
    LKT_OK(lks_recipe_load(recipe, LKS_WHICH_LAST, &step));
    assert_int_equal(step, 20);
    LKT_OK(lks_recipe_evaluate(recipe, NULL, &sum));
    assert_int_equal(sum.samples, 200);
    LKT_OK(lks_recipe_predict(recipe, NULL, INT64_MAX, add_prediction, counts));
    assert_int_equal(counts[0], 200);
    assert_int_equal(counts[1], sum.correct);
    const lks_recipe_parts parts = lks_recipe_get_parts(recipe);
    assert_int_equal(parts.data.classes, 10);
    assert_null(parts.train);
    assert_int_equal(lks_model_get_info(parts.model).workers, 2);
    lks_recipe_close(recipe);
}

static void take_line(void *user, const char *line)
{
    *(bool *)user |= strstr(line, "dropout") != NULL;
}

static void what_was_looked_at_is_trained(void **state)
{
    bool seen_dropout = false;
    lks_recipe *recipe = opened(), *looked = opened();
    (void)state;
    for (int time = 0; time < 2; time++) {
        LKT_OK(lks_recipe_open_data(looked, LKS_RECIPE_SHAPE));
        LKT_OK(lks_recipe_compile(looked, 1));
        LKT_OK(lks_model_describe(lks_recipe_get_parts(looked).model, LKS_DESCRIBE_LAYERS,
                                  take_line, &seen_dropout));
        assert_true(seen_dropout);
    }
    assert_int_equal(hash_of(looked), hash_of(recipe));
    LKT_FAILS(LKS_E_STATE, "has started its run already", lks_recipe_compile(looked, 1));
    LKT_FAILS(LKS_E_STATE, "has started its run already",
              lks_recipe_open_data(looked, LKS_RECIPE_TEST));
    lks_recipe_close(looked);
    lks_recipe_close(recipe);
}

/* A program may have any locale. */
static void numbers_have_a_point(void **state)
{
    const char *yaml;
    char plain[1 << 14];
    lks_recipe *recipe = opened();
    (void)state;
    LKT_OK(lks_recipe_yaml(recipe, &yaml));
    assert_true(strlen(yaml) < sizeof plain);
    strcpy(plain, yaml);
    const uint64_t expected = hash_of(recipe);
    lks_recipe_close(recipe);
    if (!lkt_comma_locale(folder)) skip();
    recipe = opened();
    LKT_OK(lks_recipe_yaml(recipe, &yaml));
    assert_string_equal(yaml, plain);
    lks_recipe_close(recipe);
    recipe = opened();
    LKT_FAILS(LKS_E_INVALID, "expected a number of at least 0 and below 1",
              lks_recipe_set(recipe, "optimizer.alpha=1.5"));
    assert_int_equal(hash_of(recipe), expected);
    lks_recipe_close(recipe);
    setlocale(LC_ALL, "C");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ends_with_the_hash_of_the_program, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_example_does_what_the_program_does, set_up, tear_down),
        cmocka_unit_test_setup_teardown(errors_are_sentences_with_their_line, set_up, tear_down),
        cmocka_unit_test_setup_teardown(yaml_gives_the_same_recipe, set_up, tear_down),
        cmocka_unit_test_setup_teardown(events_follow_and_stop_a_run, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_resumed_run_stays_the_same, set_up, tear_down),
        cmocka_unit_test_setup_teardown(writes_weights_and_record, set_up, tear_down),
        cmocka_unit_test_setup_teardown(evaluates_and_predicts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_looked_at_is_trained, set_up, tear_down),
        cmocka_unit_test_setup_teardown(numbers_have_a_point, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What a recipe answers before its run, at its end, and where two things go wrong. */
#include "recipe/recipes.h"

#include <lockstep/tools.h>
#include <time.h>
#include <unistd.h>

static const char NETWORK[] = "data: {name: digits, samples: 600, test_samples: 200}\n"
                              "model: {layers: [flatten, dense: {units: 20}, relu, dense: 10]}\n"
                              "train: {epochs: 2, batch_size: 50, workers: 2}\n"
                              "optimizer: {name: adam, lr: 0.002}\n"
                              "validation: {fraction: 0.2}\n";

static lks_recipe *opened(void)
{
    lks_recipe *recipe;
    LKT_OK(lks_recipe_open_text(&recipe, "net.yaml", NETWORK));
    return recipe;
}

/* Once it is used its keys stay; and what the record says before the run, and behind it. */
static void a_record_tells_how_far_the_run_is(void **state)
{
    char *record;
    lks_recipe *recipe = opened();
    (void)state;
    LKT_OK(lks_recipe_open_data(recipe, LKS_RECIPE_TEST));
    LKT_FAILS(LKS_E_STATE, "has been used already", lks_recipe_set(recipe, "optimizer.lr=1"));
    LKT_OK(lks_recipe_compile(recipe, 1));
    LKT_OK(lks_recipe_compile(recipe, 2)); /* anew */
    lks_recipe_close(recipe);
    recipe = opened();
    LKT_OK(lks_recipe_start(recipe));
    LKT_OK(lks_recipe_record(recipe, &record));
    assert_non_null(strstr(record, "\"best_step\": null"));
    free(record);
    LKT_OK(lks_recipe_train(recipe, NULL, NULL));
    LKT_OK(lks_recipe_record(recipe, &record));
    assert_non_null(strstr(record, "\"train_samples\": 480"));
    assert_non_null(strstr(record, "\"valid_samples\": 120"));
    assert_non_null(strstr(record, "\"test_samples\": 200"));
    const char *peak = strstr(record, "\"peak_rss_bytes\": ");
    assert_non_null(peak);
    assert_true(strtoll(strchr(peak, ':') + 1, NULL, 10) > 1 << 20);
    free(record);
    lks_recipe_close(recipe);
}

static void expect_first(void *user, const lks_prediction *p)
{
    assert_int_equal(p->best, 0);
    ++*(int *)user;
}

/* Of equal outputs the first class is the best; and so many samples are predicted as were asked for. */
static void ties_are_the_first_class(void **state)
{
    int predicted = 0;
    lks_recipe *recipe;
    (void)state;
    LKT_OK(lks_recipe_open_text(
        &recipe, NULL,
        "data: {name: digits, test_samples: 20}\n"
        "model: {layers: [flatten, dense: {units: 10, weight_init: zeros, bias_init: zeros}]}\n"));
    set_path(recipe, "checkpoint.path", "run");
    set_path(recipe, "model.init", "absent.safetensors");
    LKT_OK(lks_recipe_open_data(recipe, LKS_RECIPE_TEST));
    LKT_OK(lks_recipe_compile(recipe, 1));
    LKT_OK(lks_recipe_predict(recipe, NULL, 7, expect_first, &predicted));
    assert_int_equal(predicted, 7);
    LKT_FAILS(LKS_E_INVALID, "--best is about a folder of checkpoints: give --out DIR, and no",
              lks_recipe_load(recipe, LKS_WHICH_BEST, NULL));
    LKT_FAILS(LKS_E_INVALID, "got which 3, expected one of lks_which, which are 0 to 2",
              lks_recipe_load(recipe, (lks_which)3, NULL));
    lks_recipe_close(recipe);
}

static lks_status check_other_samples(int64_t step)
{
    lks_recipe *recipe = opened();
    LKT_OK(lks_recipe_set(recipe, "validation.fraction=0.3"));
    set_path(recipe, "checkpoint.path", "run");
    LKT_OK(lks_recipe_check_samples(recipe, step)); /* no data is open yet */
    LKT_OK(lks_recipe_open_data(recipe, LKS_RECIPE_TRAIN));
    LKT_OK(lks_recipe_check_samples(recipe, -1)); /* weights of a file */
    const lks_status status = lks_recipe_check_samples(recipe, step);
    lks_recipe_close(recipe);
    return status;
}

/* A run that a program trained without the hash of its data may have had any. */
static void samples_are_compared_where_they_are_known(void **state)
{
    lks_run run;
    lks_recipe *recipe = opened();
    (void)state;
    set_path(recipe, "checkpoint.path", "run");
    LKT_OK(lks_recipe_train(recipe, NULL, NULL));
    LKT_FAILS(LKS_E_MISMATCH, "validation.fraction was 0.2, is 0.3; use the same",
              check_other_samples(20));
    const lks_recipe_parts parts = lks_recipe_get_parts(recipe);
    LKT_OK(lks_checkpoint_load(parts.context, NULL, &run, in_folder("run"), 20));
    run.data_hash = 0;
    LKT_OK(lks_checkpoint_save(parts.model, &run, in_folder("run"), 2));
    LKT_OK(check_other_samples(20));
    lks_run_clear(&run);
    lks_recipe_close(recipe);
}

/* A program may save before the first step: eval names that step as any other. */
static void step_0_is_a_step(void **state)
{
    lks_run saved = {.best_step = -1};
    lks_recipe *recipe = opened();
    (void)state;
    write_text("net.yaml", NETWORK);
    LKT_OK(lks_recipe_start(recipe));
    lks_model *model = lks_recipe_get_parts(recipe).model;
    const lks_model_info info = lks_model_get_info(model);
    saved.replicas = info.replicas;
    saved.global_batch = info.global_batch;
    saved.hash_every = info.hash_every;
    saved.progress = lks_model_progress(model);
    LKT_OK(lks_checkpoint_save(model, &saved, in_folder("run"), 1));
    lks_recipe_close(recipe);
    run("eval net.yaml --out run");
    expect_ok();
    expect_out("Checkpoint of step 0\n");
    run("eval net.yaml --out run --format json");
    expect_out(", \"step\": 0}\n");
}

/* Averages are kept either way, and look at validation data only where that is asked for. */
static void averages_are_evaluated_where_they_are_asked_for(void **state)
{
    const lks_run *end;
    uint64_t hash[2];
    double loss[2];
    (void)state;
    for (int averaged = 0; averaged < 2; averaged++) {
        lks_recipe *recipe = opened();
        LKT_OK(lks_recipe_set(recipe, "train.ema=0.9"));
        if (!averaged) LKT_OK(lks_recipe_set(recipe, "train.ema_evaluate=false"));
        LKT_OK(lks_recipe_train(recipe, NULL, &end));
        hash[averaged] = end->hash;
        loss[averaged] = lks_metrics_loss(&end->history[0].valid);
        lks_recipe_close(recipe);
    }
    assert_int_equal(hash[0], hash[1]);
    assert_true(loss[0] < loss[1] || loss[0] > loss[1]);
}

/* Mirrored images are for tests alone, in training and behind it. */
static void mirrored_images_change_answers_alone(void **state)
{
    const lks_run *end;
    uint64_t hash[2];
    lks_metrics test[2], sum;
    (void)state;
    for (int flips = 0; flips < 2; flips++) {
        lks_recipe *recipe = opened();
        if (flips) LKT_OK(lks_recipe_set(recipe, "validation.flip=true"));
        LKT_OK(lks_recipe_train(recipe, NULL, &end));
        hash[flips] = end->hash;
        test[flips] = end->history[end->epochs - 1].test;
        LKT_OK(lks_recipe_evaluate(recipe, NULL, &sum));
        assert_memory_equal(&sum, &test[flips], sizeof sum);
        lks_recipe_close(recipe);
    }
    assert_int_equal(hash[0], hash[1]);
    assert_memory_not_equal(&test[0], &test[1], sizeof sum);
}

/* An epoch has 10 batches: whichever of epochs and steps comes first is the end. */
static void a_run_ends_with_its_epochs_or_its_steps(void **state)
{
    static const int64_t steps[] = {1, 10, 11, 19, 20, 21, 300};
    (void)state;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        char assignment[32];
        lks_recipe *recipe = opened();
        snprintf(assignment, sizeof assignment, "train.steps=%d", (int)steps[i]);
        LKT_OK(lks_recipe_set(recipe, "train.epochs=2"));
        LKT_OK(lks_recipe_set(recipe, assignment));
        assert_int_equal(lks_recipe_get_parts(recipe).steps, 0);
        LKT_OK(lks_recipe_start(recipe));
        const lks_recipe_parts parts = lks_recipe_get_parts(recipe);
        assert_int_equal(parts.steps, steps[i] < 20 ? steps[i] : 20);
        assert_int_equal(parts.epochs, steps[i] <= 10 ? 1 : 2);
        lks_recipe_close(recipe);
    }
}

static lks_status stop(void *user, const lks_step_event *event)
{
    (void)user;
    return event->step == 3 ? lks_fail(LKS_E_STOPPED, "that is enough") : LKS_OK;
}

static lks_status wait_at_three(void *user, const lks_step_event *event)
{
    (void)user;
    if (event->step == 3) nanosleep(&(struct timespec){.tv_nsec = 60000000}, NULL);
    return LKS_OK;
}

/* The first step is the first one: what comes later is not before it. */
static void the_first_step_is_timed_once(void **state)
{
    char *text;
    json_error_t error;
    lks_recipe *recipe = opened();
    (void)state;
    LKT_OK(lks_recipe_train(recipe, &(lks_train_events){.on_step = wait_at_three}, NULL));
    LKT_OK(lks_recipe_record(recipe, &text));
    json_t *record = json_loads(text, 0, &error);
    const double first = json_real_value(json_object_get(record, "seconds_to_first_step"));
    const double all = json_real_value(json_object_get(record, "seconds"));
    assert_true(first > 0 && all - first >= 0.06);
    json_decref(record);
    free(text);
    lks_recipe_close(recipe);
}

static void note_line(void *user, lks_log_level level, const char *line)
{
    (void)level;
    if (strstr(line, "record.json") != NULL) ++*(int *)user;
}

/* The first that went wrong comes back; what went wrong at the end, too, is said. */
static void the_first_failure_comes_back(void **state)
{
    int said = 0;
    lks_recipe *recipe = opened();
    (void)state;
    set_path(recipe, "log.record", "absent/record.json");
    lks_recipe_log(recipe, note_line, &said);
    LKT_FAILS(LKS_E_STOPPED, "that is enough",
              lks_recipe_train(recipe, &(lks_train_events){.on_step = stop}, NULL));
    assert_int_equal(said, 1);
    lks_recipe_close(recipe);
}

/* A file is kept current after every epoch; what cannot be replaced, a pipe, has the last record alone. */
static void a_pipe_gets_one_record(void **state)
{
    static char text[1 << 16];
    char assignment[64];
    int ends[2];
    size_t used = 0;
    lks_recipe *recipe = opened();
    (void)state;
    assert_int_equal(pipe(ends), 0);
    snprintf(assignment, sizeof assignment, "log.record=/dev/fd/%d", ends[1]);
    LKT_OK(lks_recipe_set(recipe, assignment));
    LKT_OK(lks_recipe_train(recipe, NULL, NULL));
    lks_recipe_close(recipe);
    close(ends[1]);
    for (ssize_t got = 1; got > 0; used += got > 0 ? (size_t)got : 0)
        got = read(ends[0], text + used, sizeof text - 1 - used);
    close(ends[0]);
    assert_true(used > 100 && text[used - 1] == '\n');
    const char *head = strstr(text, "\"numerics\"");
    assert_non_null(head);
    assert_null(strstr(head + 1, "\"numerics\""));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_record_tells_how_far_the_run_is),
        TEST(ties_are_the_first_class),
        TEST(averages_are_evaluated_where_they_are_asked_for),
        TEST(mirrored_images_change_answers_alone),
        TEST(a_run_ends_with_its_epochs_or_its_steps),
        TEST(the_first_failure_comes_back),
        TEST(a_pipe_gets_one_record),
        TEST(the_first_step_is_timed_once),
        TEST(samples_are_compared_where_they_are_known),
        TEST(step_0_is_a_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The loop: resuming, stopping, ends, failures. */
#include "train/ends.h"

static bool has_step(int64_t step)
{
    char path[4300];
    snprintf(path, sizeof path, "%s/step-%08" PRId64 ".json", folder, step);
    return access(path, F_OK) == 0;
}

/* Stopped at every place there is, resumed with other numbers of workers and loader threads. */
static void resumed_is_uninterrupted(void **state)
{
    (void)state;
    lks_run whole, run;
    const uint64_t hash = alone(&whole);
    for (int64_t stop = 1; stop <= 21 + 3; stop++) {
        char path[4300];
        snprintf(path, sizeof path, "%s-%" PRId64, folder, stop);
        tiny_opts net = NET;
        net.workers = 1 + (int)(stop % 4);
        job *j = job_open(&net, 1 + (int)(stop % 3));
        lks_train_opts opts = job_opts(j, path);
        opts.resume = true;
        j->stop_step = stop <= 21 ? stop : 0;
        j->stop_epoch = stop <= 21 ? 0 : stop - 21;
        (void)lks_fail(LKS_E_STOPPED, "an older sentence");
        LKT_FAILS(LKS_E_STOPPED,
                  stop <= 21 ? "training: on_step() returned LKS_E_STOPPED (11), a callback asked"
                             : "training: on_epoch() returned LKS_E_STOPPED (11), a callback asked",
                  lks_train(j->net.context, &opts, &run));
        assert_int_equal(j->resumed_at, -1);
        assert_int_equal(run.progress.step, stop <= 21 ? stop : (stop - 21) * JOB_BATCHES);
        assert_int_equal(j->last_save, run.progress.step);
        lks_run_clear(&run);
        job_close(j);

        net.workers = 1 + (int)((stop + 2) % 4);
        j = job_open(&net, stop % 2 ? -1 : 2);
        opts = job_opts(j, path);
        opts.resume = true;
        LKT_OK(lks_train(j->net.context, &opts, &run));
        assert_int_equal(j->resumed_at, stop <= 21 ? stop : (stop - 21) * JOB_BATCHES);
        assert_int_equal(tiny_hash(&j->net), hash);
        job_assert_same(&whole, &run);
        lks_run_clear(&run);
        job_close(j);
    }
    lks_run_clear(&whole);
}

static void finished_runs_return_and_extend(void **state)
{
    (void)state;
    lks_run whole, run;
    const uint64_t hash = alone(&whole);
    /* One epoch and a half, then "two epochs", then 20 steps, then three epochs. */
    const int64_t ends[][2] = {{0, 10}, {2, 0}, {5, 20}, {3, 0}};
    for (int i = 0; i < 4; i++) {
        job *j = job_open(&NET, 1);
        lks_train_opts opts = job_opts(j, folder);
        opts.resume = true;
        opts.epochs = ends[i][0];
        opts.steps = ends[i][1];
        LKT_OK(lks_train(j->net.context, &opts, &run));
        assert_true(run.finished);
        assert_int_equal(run.progress.step, newest());
        if (i == 3) {
            assert_int_equal(tiny_hash(&j->net), hash);
            job_assert_same(&whole, &run);
        }
        lks_run_clear(&run);
        const int64_t steps = j->steps;
        LKT_OK(lks_train(j->net.context, &opts, &run));
        assert_int_equal(j->steps, steps);
        assert_true(run.finished);
        lks_run_clear(&run);
        opts.epochs = 1;
        LKT_OK(lks_train(j->net.context, &opts, NULL));
        assert_int_equal(j->steps, steps);
        job_close(j);
    }
    lks_run_clear(&whole);
}

/* In one program, without a folder: the model itself is where the run goes on. */
static void goes_on_in_memory(void **state)
{
    (void)state;
    lks_run whole, run;
    const uint64_t hash = alone(&whole);
    job *j = job_open(&NET, 1);
    lks_train_opts opts = job_opts(j, NULL);
    for (opts.steps = 7; opts.steps <= 21; opts.steps += 7) {
        LKT_OK(lks_train(j->net.context, &opts, &run));
        assert_int_equal(run.epochs, 1);
        assert_int_equal(run.history[0].epoch, opts.steps / 7);
        assert_int_equal(run.best_step, opts.steps); /* the first of its call */
        lks_run_clear(&run);
    }
    assert_int_equal(tiny_hash(&j->net), hash);
    assert_int_equal(j->saves, 0);
    job_close(j);
    lks_run_clear(&whole);
}

static void rates_follow_the_schedule(void **state)
{
    (void)state;
    for (int per_step = 0; per_step < 2; per_step++) {
        job *j = job_open(&NET, 1);
        lks_train_opts opts = job_opts(j, NULL);
        opts.schedule.per_step = per_step;
        opts.schedule.warmup_steps = 3;
        lks_run run;
        LKT_OK(lks_train(j->net.context, &opts, &run));
        for (int64_t step = 0; step < 21; step++) {
            const int64_t t = per_step ? step : step / JOB_BATCHES;
            double rate = 0.2 * pow(0.5, (double)t);
            if (step < 3) rate *= (double)(step + 1) / 4.0;
            assert_true(fabs(j->rates[step + 1] - rate) <= 4e-16 * rate);
        }
        assert_true(run.history[1].learning_rate == j->rates[14]);
        lks_run_clear(&run);
        job_close(j);
    }
}

/* At rate 0 the loss stays what it is after the first epoch, so that one is the best. */
static void patience_and_the_best(void **state)
{
    (void)state;
    tiny_opts net = {.shallow = true};
    job *j = job_open(&net, 1);
    lks_train_opts opts = job_opts(j, folder);
    lks_run run;
    opts.schedule.lr = 0.0;
    opts.epochs = 10;
    opts.patience = 2;
    opts.keep = 1;
    LKT_OK(lks_train(j->net.context, &opts, &run));
    assert_int_equal(run.epochs, 3);
    assert_int_equal(run.bad_epochs, 2);
    assert_int_equal(run.best_step, 7);
    assert_true(run.best_loss == lks_metrics_loss(&run.history[2].valid));
    assert_true(run.finished);
    assert_true(has_step(7) && !has_step(14) && has_step(21));
    lks_run_clear(&run);
    job_close(j);

    j = job_open(&net, 1);
    opts = job_opts(j, folder);
    opts.schedule.lr = 0.0;
    opts.epochs = 10;
    opts.patience = 2;
    opts.keep = 1;
    opts.resume = true;
    LKT_OK(lks_train(j->net.context, &opts, NULL));
    assert_int_equal(j->steps, 0);
    opts.patience = 4; /* more patience: goes on */
    LKT_OK(lks_train(j->net.context, &opts, &run));
    assert_int_equal(run.epochs, 5);
    assert_true(has_step(7) && !has_step(21) && has_step(35));
    lks_run_clear(&run);
    job_close(j);
}

/* So large a rate makes the loss worse at some time. */
static lks_train_opts opts_of_the_best(job *j, const char *path)
{
    lks_train_opts opts = job_opts(j, path);
    opts.schedule = (lks_schedule){.kind = LKS_CONSTANT, .lr = 1.0};
    opts.epochs = 12;
    opts.patience = 2;
    opts.save_epochs = -1;
    opts.keep = 1;
    opts.resume = path != NULL;
    return opts;
}

/* With a folder and without, stopped early or not, when it ends and when it is asked again: the
 * model is that of the best, and the run's hash that of the last step. */
static void the_best_is_restored(void **state)
{
    (void)state;
    lks_run last, run;
    job *j = job_open(&NET, 1);
    lks_train_opts opts = opts_of_the_best(j, NULL);
    opts.keep_last = true;
    LKT_OK(lks_train(j->net.context, &opts, &last));
    const int64_t best = last.best_step;
    assert_true(best > 0 && best < last.progress.step && last.epochs < 12);
    assert_int_equal(tiny_hash(&j->net), last.hash);
    assert_int_equal(lks_model_progress(j->net.model).step, last.progress.step);
    job_close(j);
    j = job_open(&NET, 1);
    opts = opts_of_the_best(j, NULL);
    opts.steps = best;
    opts.patience = 0;
    LKT_OK(lks_train(j->net.context, &opts, NULL));
    const tiny_state expected = tiny_read(&j->net);
    job_close(j);

    for (int way = 0; way < 5; way++) { /* in memory, in memory, a folder, again, longer */
        tiny_opts net = NET;
        net.workers = 1 + way % 4;
        j = job_open(&net, 1);
        opts = opts_of_the_best(j, way < 2 ? NULL : folder);
        if (way == 1) opts.patience = 100; /* ends by its epochs */
        if (way == 1) opts.epochs = last.epochs;
        if (way == 4) opts.epochs = 20;
        LKT_OK(lks_train(j->net.context, &opts, &run));
        const tiny_state found = tiny_read(&j->net);
        tiny_assert_same(&expected, &found);
        job_assert_same(&last, &run);
        assert_int_equal(run.hash, last.hash);
        lks_run_clear(&run);
        job_close(j);
    }
    assert_true(has_step(best) && newest() == last.progress.step);
    lks_run_clear(&last);
}

/* One that was stopped from outside is not restored: it is not at its end. Nor is one whose best has
 * no checkpoint; and a checkpoint that is damaged is said. */
static void what_is_not_restored(void **state)
{
    (void)state;
    lks_run run;
    job *j = job_open(&NET, 1);
    lks_train_opts opts = opts_of_the_best(j, folder);
    LKT_OK(lks_train(j->net.context, &opts, &run));
    const int64_t best = run.best_step, end = run.progress.step;
    const uint64_t hash = run.hash;
    lks_run_clear(&run);
    job_close(j);

    char path[4300];
    snprintf(path, sizeof path, "%s-stopped", folder);
    j = job_open(&NET, 1);
    opts = opts_of_the_best(j, path);
    j->stop_step = best + 3;
    LKT_FAILS(LKS_E_STOPPED, "", lks_train(j->net.context, &opts, &run));
    assert_int_equal(lks_model_progress(j->net.model).step, best + 3);
    assert_int_equal(run.hash, tiny_hash(&j->net));
    lks_run_clear(&run);
    job_close(j);

    snprintf(path, sizeof path, "%s/step-%08" PRId64 ".safetensors", folder, best);
    assert_int_equal(truncate(path, 64), 0);
    j = job_open(&NET, 1);
    opts = opts_of_the_best(j, folder);
    LKT_FAILS(LKS_E_FORMAT, "is damaged", lks_train(j->net.context, &opts, NULL));
    snprintf(path, sizeof path, "%s/step-%08" PRId64 ".json", folder, best);
    assert_int_equal(unlink(path), 0);
    LKT_OK(lks_train(j->net.context, &opts, &run));
    assert_int_equal(lks_model_progress(j->net.model).step, end);
    assert_int_equal(tiny_hash(&j->net), hash);
    lks_run_clear(&run);
    job_close(j);
}

static lks_status step_says_why(void *user, const lks_step_event *event)
{
    (void)user;
    return event->step == 3 ? lks_fail(LKS_E_IO, "the plotter is out of paper") : LKS_OK;
}

static void what_an_event_says_is_what_the_training_says(void **state)
{
    (void)state;
    char path[4300];
    snprintf(path, sizeof path, "%s-says", folder);
    job *j = job_open(&NET, 1);
    lks_train_opts opts = job_opts(j, path);
    opts.events.on_step = step_says_why;
    LKT_FAILS(LKS_E_IO, "the plotter is out of paper", lks_train(j->net.context, &opts, NULL));
    assert_string_equal(lks_last_error()->message, "the plotter is out of paper");
    job_close(j);
}

/* One that is evaluated goes back to its first batch, and one process evaluates all of it. */
static void loaders_that_cannot_be(void **state)
{
    (void)state;
    job *j = job_open(&NET, 1);
    lks_train_opts opts = job_opts(j, NULL);
    lks_loader *part;
    for (int k = 0; k < 2; k++) {
        opts.valid = k == 0 ? j->train : NULL;
        opts.test = k == 1 ? j->train : NULL;
        LKT_FAILS(LKS_E_INVALID,
                  k == 0 ? "training: the loader of training data is that of validation data, too"
                         : "training: the loader of training data is that of test data, too",
                  lks_train(j->net.context, &opts, NULL));
    }
    LKT_OK(lks_loader_create(&part, j->net.context, j->held,
                             &(lks_loader_opts){.global_batch = 4, .shares = 2}));
    opts.valid = part;
    opts.test = NULL;
    LKT_FAILS(LKS_E_INVALID,
              "reads 0 of 4 samples of a batch, and one process evaluates all of them",
              lks_train(j->net.context, &opts, NULL));
    lks_loader_destroy(part);
    job_close(j);
}

static void rare_evaluations_and_saves(void **state)
{
    (void)state;
    job *j = job_open(&NET, 1);
    lks_train_opts opts = job_opts(j, folder);
    lks_run run;
    opts.test = j->valid;
    opts.valid = NULL;
    opts.epochs = 5;
    opts.eval_epochs = 3;
    opts.save_epochs = -1;
    opts.save_steps = 10;
    opts.keep = 9;
    LKT_OK(lks_train(j->net.context, &opts, &run));
    for (int64_t i = 0; i < 5; i++) {
        assert_int_equal(run.history[i].valid.samples, 0);
        assert_int_equal(run.history[i].test.samples, i == 2 || i == 4 ? JOB_HELD : 0);
    }
    assert_int_equal(j->saves, 4);
    for (int64_t step = 1; step <= 35; step++) {
        assert_int_equal(has_step(step), step % 10 == 0 || step == 35);
    }
    /* What is best is known also where it has no checkpoint; the last evaluation decides nothing. */
    assert_int_equal(run.best_step, 21);
    assert_true(run.best_loss == lks_metrics_loss(&run.history[2].test));
    lks_run_clear(&run);
    job_close(j);
}

/* Every second epoch, the best (at rate 0 the first), and the end. */
static void epochs_are_saved(void **state)
{
    (void)state;
    job *j = job_open(&(tiny_opts){.shallow = true}, 1);
    lks_train_opts opts = job_opts(j, folder);
    opts.schedule.lr = 0.0;
    opts.epochs = 5;
    opts.save_epochs = 2;
    opts.keep = 9;
    LKT_OK(lks_train(j->net.context, &opts, NULL));
    for (int64_t epoch = 1; epoch <= 5; epoch++) {
        assert_int_equal(has_step(epoch * JOB_BATCHES), epoch != 3);
    }
    job_close(j);
}

/* Where nothing is said, those of the last two. */
static void two_are_kept(void **state)
{
    (void)state;
    job *j = job_open(&NET, 1);
    lks_train_opts opts = job_opts(j, folder);
    opts.valid = NULL; /* no best one is kept beside them */
    opts.epochs = 4;
    LKT_OK(lks_train(j->net.context, &opts, NULL));
    assert_int_equal(j->saves, 4);
    for (int64_t epoch = 1; epoch <= 4; epoch++)
        assert_int_equal(has_step(epoch * JOB_BATCHES), epoch > 2);
    job_close(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(resumed_is_uninterrupted),
        TEST(finished_runs_return_and_extend),
        TEST(goes_on_in_memory),
        TEST(rates_follow_the_schedule),
        TEST(patience_and_the_best),
        TEST(rare_evaluations_and_saves),
        TEST(the_best_is_restored),
        TEST(what_is_not_restored),
        TEST(epochs_are_saved),
        TEST(two_are_kept),
        TEST(what_an_event_says_is_what_the_training_says),
        TEST(loaders_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

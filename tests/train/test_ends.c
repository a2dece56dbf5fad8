/* How a training ends: bad samples and parameters, other runs, a full disk, refused options. */
#include "train/ends.h"

/* Validation losses that are no numbers are never the best, and do not stop the training. */
static void validation_may_be_nan(void **state)
{
    (void)state;
    job *j = job_make();
    j->x[TINY_SAMPLES + 3][2] = NAN;
    job_load(j, &(tiny_opts){.shallow = true}, 1);
    lks_train_opts opts = job_opts(j, folder);
    lks_run run;
    LKT_OK(lks_train(j->net.context, &opts, &run));
    assert_true(isnan(run.best_loss));
    assert_int_equal(run.best_step, -1);
    assert_int_equal(run.bad_epochs, 3);
    assert_int_equal(run.history[0].valid.not_finite, 1);
    lks_run_clear(&run);
    opts.resume = true;
    opts.epochs = 4;
    LKT_OK(lks_train(j->net.context, &opts, &run));
    assert_true(isnan(run.best_loss));
    lks_run_clear(&run);
    job_close(j);
}

/* A bad sample fails its step, or, where a relu hides it from the loss, the save after the step:
 * the sentence passes through, and the checkpoint before it stays. */
static void bad_samples_stop_the_run(void **state)
{
    (void)state;
    for (int shallow = 0; shallow < 2; shallow++) {
        job *j = job_make();
        j->x[19][1] = NAN;
        tiny_opts net = NET;
        net.shallow = shallow;
        job_load(j, &net, 1);
        char path[4300];
        snprintf(path, sizeof path, "%s-%d", folder, shallow);
        lks_train_opts opts = job_opts(j, path);
        lks_run run;
        opts.save_steps = 1;
        LKT_FAILS(LKS_E_NUMERIC, shallow ? "19" : "parameter 'fc1.weight' is not finite after step",
                  lks_train(j->net.context, &opts, &run));
        assert_false(run.finished);
        assert_true(run.progress.step > 1 && run.progress.step <= JOB_BATCHES);
        assert_int_equal(j->steps, run.progress.step);
        int64_t newest_step;
        LKT_OK(lks_checkpoint_find(path, &newest_step));
        assert_int_equal(newest_step, run.progress.step - (shallow ? 0 : 1));
        lks_run_clear(&run);
        job_close(j);
    }
}

/* A step whose loss is finite, and whose update is not. */
static void bad_parameters_are_not_saved(void **state)
{
    (void)state;
    job *j = job_make();
    for (int64_t i = 0; i < TINY_SAMPLES; i++) j->x[i][0] *= 1000.0f;
    job_load(j, &(tiny_opts){.shallow = true}, 1);
    lks_train_opts opts = job_opts(j, folder);
    opts.save_steps = 1;
    opts.steps = 1;
    opts.schedule.lr = 1e-6;
    LKT_OK(lks_train(j->net.context, &opts, NULL));
    opts.schedule.lr = 3e38;
    opts.steps = 2;
    LKT_FAILS(LKS_E_NUMERIC, "parameter 'head.weight' is not finite after step 2: element ",
              lks_train(j->net.context, &opts, NULL));
    assert_int_equal(newest(), 1);
    job_close(j);
}

static void other_runs_are_refused(void **state)
{
    (void)state;
    job *j = job_open(&NET, 1);
    lks_train_opts opts = job_opts(j, folder);
    opts.data_hash = 0x1234;
    opts.steps = 16;
    LKT_OK(lks_train(j->net.context, &opts, NULL));
    job_close(j);

    j = job_open(&NET, 1);
    opts = job_opts(j, folder);
    const tiny_state before = tiny_read(&j->net);
    LKT_FAILS(LKS_E_MISMATCH, "has checkpoints of an earlier run, up to step 16; resume it",
              lks_train(j->net.context, &opts, NULL));
    opts.resume = true;
    opts.data_hash = 0x4321;
    LKT_FAILS(LKS_E_MISMATCH, "its hash is 0000000000001234, this data's is 0000000000004321",
              lks_train(j->net.context, &opts, NULL));
    lks_loader *train = opts.train;
    opts.train = j->valid;
    opts.valid = NULL;
    opts.data_hash = 0;
    LKT_FAILS(LKS_E_MISMATCH, "finished 2 epochs, but with 3 batches in an epoch it would be 5",
              lks_train(j->net.context, &opts, NULL));
    opts.train = train;
    opts.valid = j->valid;
    const tiny_state after = tiny_read(&j->net);
    tiny_assert_same(&before, &after);
    assert_int_equal(j->resumed_at, 0);
    LKT_OK(lks_train(j->net.context, &opts, NULL)); /* a hash that is not known fits */
    job_close(j);

    lks_run run;
    LKT_OK(lks_checkpoint_load(NULL, NULL, &run, folder, 21));
    assert_int_equal(run.data_hash, 0x1234);
    lks_run_clear(&run);
    tiny_opts net = NET;
    net.replicas = 2;
    j = job_open(&net, 1);
    opts = job_opts(j, folder);
    opts.resume = true;
    LKT_FAILS(LKS_E_MISMATCH, "was made with replicas 4, this run has 2",
              lks_train(j->net.context, &opts, NULL));
    job_close(j);
}

static void full_disk_keeps_the_last(void **state)
{
    (void)state;
    lks_run whole, run;
    const uint64_t hash = alone(&whole);
    struct rlimit old;
    job *j = job_open(&NET, 1);
    lks_train_opts opts = job_opts(j, folder);
    opts.steps = 9;
    LKT_OK(lks_train(j->net.context, &opts, NULL));
    opts.steps = 0;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){700, old.rlim_max}), 0);
    const lks_status status = lks_train(j->net.context, &opts, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, handler);
    LKT_FAILS(LKS_E_IO, "larger than is allowed", status);
    assert_int_equal(newest(), 9);
    job_close(j);

    j = job_open(&NET, 1);
    opts = job_opts(j, folder);
    opts.resume = true;
    LKT_OK(lks_train(j->net.context, &opts, &run));
    assert_int_equal(tiny_hash(&j->net), hash);
    job_assert_same(&whole, &run);
    lks_run_clear(&run);
    lks_run_clear(&whole);
    job_close(j);
}

static void bad_options_are_refused(void **state)
{
    (void)state;
    job *j = job_open(&NET, 1);
    const lks_train_opts good = job_opts(j, folder);
    lks_train_opts opts[9];
    for (int i = 0; i < 9; i++) opts[i] = good;
    opts[0].model = NULL;
    opts[1].epochs = 0;
    opts[2].steps = -1;
    opts[3].schedule.lr = -1.0;
    opts[4].patience = 3, opts[4].valid = NULL;
    opts[5].resume = true, opts[5].folder = NULL;
    opts[6].save_epochs = -2;
    opts[7].keep = -1;
    opts[8].eval_epochs = -1;
    const char *parts[] = {"a model and a loader", "epochs is 0",  "steps -1",
                           "learning rate is -1",  "needs a loss", "needs the folder",
                           "save_epochs -2",       "keep -1",      "eval_epochs is -1"};
    for (int i = 0; i < 9; i++) {
        lks_run run = {.epochs = 7};
        LKT_FAILS(LKS_E_INVALID, parts[i], lks_train(j->net.context, &opts[i], &run));
        assert_int_equal(run.epochs, 0);
    }
    assert_int_equal(newest(), -1);
    job_close(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(validation_may_be_nan),        TEST(bad_samples_stop_the_run),
        TEST(bad_parameters_are_not_saved), TEST(other_runs_are_refused),
        TEST(full_disk_keeps_the_last),     TEST(bad_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

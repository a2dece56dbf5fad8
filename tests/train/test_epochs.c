/* What an epoch is made of: its length, which loss decides at its end, and its seconds. */
#include "base/context.h"
#include "train/folder.h"
#include "train/job.h"

static const tiny_opts NET = {0};

/* Behind a whole epoch nothing is pending: epochs of fewer batches would lack one in the history. */
static void other_epochs_are_refused(void **state)
{
    (void)state;
    job *j = job_open(&NET, 1);
    lks_train_opts opts = job_opts(j, folder);
    opts.epochs = 2;
    LKT_OK(lks_train(j->net.context, &opts, NULL));
    job_close(j);

    lks_dataset *part;
    lks_loader *loader;
    j = job_open(&NET, 1);
    LKT_OK(lks_dataset_slice(&part, j->all, 0, 4 * TINY_BATCH));
    LKT_OK(lks_loader_create(&loader, j->net.context, part,
                             &(lks_loader_opts){.global_batch = TINY_BATCH}));
    opts = job_opts(j, folder);
    opts.train = loader;
    opts.resume = true;
    LKT_FAILS(LKS_E_MISMATCH, "finished 2 epochs, but with 4 batches in an epoch it would be 3",
              lks_train(j->net.context, &opts, NULL));
    lks_loader_destroy(loader);
    lks_dataset_destroy(part);
    job_close(j);
}

/* Where there are both, test data are for the end: what is best, patience and plateaus follow the
 * validation. */
static void validation_decides(void **state)
{
    (void)state;
    lks_loader *loader;
    lks_run run;
    job *j = job_open(&NET, 1);
    LKT_OK(lks_loader_create(&loader, j->net.context, j->data,
                             &(lks_loader_opts){.global_batch = 4, .in_order = true}));
    lks_train_opts opts = job_opts(j, NULL);
    opts.test = loader;
    opts.schedule.kind = LKS_PLATEAU;
    LKT_OK(lks_train(j->net.context, &opts, &run));
    double best[2] = {INFINITY, INFINITY};
    for (int64_t i = 0; i < run.epochs; i++) {
        best[0] = fmin(best[0], lks_metrics_loss(&run.history[i].valid));
        best[1] = fmin(best[1], lks_metrics_loss(&run.history[i].test));
    }
    assert_true(best[0] != best[1]);
    assert_true(run.best_loss == best[0]);
    assert_true(fabs(run.plateau.best - best[0]) < fabs(run.plateau.best - best[1]));
    lks_run_clear(&run);
    lks_loader_destroy(loader);
    job_close(j);
}

/* A run is at its end where a shorter one ends that goes on there. */
static void shortened_runs_are_finished(void **state)
{
    (void)state;
    lks_run run;
    for (int part = 0; part < 2; part++) {
        job *j = job_open(&NET, 1);
        lks_train_opts opts = job_opts(j, folder);
        opts.resume = part == 1;
        opts.steps = part == 0 ? 20 : 10;
        j->stop_step = part == 0 ? 10 : 0;
        const lks_status status = lks_train(j->net.context, &opts, &run);
        assert_int_equal(status, part == 0 ? LKS_E_STOPPED : LKS_OK);
        assert_int_equal(run.progress.step, 10);
        assert_int_equal(run.finished, part == 1);
        assert_int_equal(run.epochs, 1 + part); /* the second as far as it came */
        lks_run_clear(&run);
        job_close(j);
    }
}

/* A record that does not know its data takes any, and knows them from there on. */
static void data_may_become_known(void **state)
{
    (void)state;
    lks_run run;
    for (uint64_t part = 0; part < 2; part++) {
        job *j = job_open(&NET, 1);
        lks_train_opts opts = job_opts(j, folder);
        opts.resume = part == 1;
        opts.epochs = 1 + (int64_t)part;
        opts.data_hash = 7 * part;
        opts.test_hash = 9 * part;
        LKT_OK(lks_train(j->net.context, &opts, &run));
        assert_true(run.data_hash == 7 * part && run.test_hash == 9 * part);
        lks_run_clear(&run);
        job_close(j);
    }
}

/* All epochs together take no longer than the whole. */
static void seconds_are_those_of_an_epoch(void **state)
{
    (void)state;
    lks_run run;
    job *j = job_open(&NET, 1);
    lks_train_opts opts = job_opts(j, NULL);
    opts.valid = NULL;
    opts.epochs = 40;
    const double begin = lki_seconds();
    LKT_OK(lks_train(j->net.context, &opts, &run));
    const double whole = lki_seconds() - begin;
    double sum = 0;
    for (int64_t i = 0; i < run.epochs; i++) sum += run.history[i].seconds;
    assert_true(sum > 0 && sum <= whole);
    lks_run_clear(&run);
    job_close(j);
}

/* A run that ends within an epoch is evaluated there, once, and goes on as one that has not ended. */
static void a_cut_epoch_is_evaluated(void **state)
{
    (void)state;
    enum { WITHIN = JOB_BATCHES + 3, SAMPLES = 3 * TINY_BATCH };
    static const int64_t ends[] = {WITHIN, WITHIN, WITHIN + 1, 2 * JOB_BATCHES};
    for (int part = 0; part < 4; part++) {
        lks_run run;
        job *j = job_open(&NET, 1);
        lks_train_opts opts = job_opts(j, folder);
        opts.resume = true;
        opts.steps = ends[part];
        LKT_OK(lks_train(j->net.context, &opts, &run));
        const lks_epoch *last = &run.history[1];
        assert_int_equal(run.epochs, 2);
        assert_int_equal(last->epoch, 2);
        assert_int_equal(last->valid.samples, JOB_HELD);
        assert_int_equal(j->epochs, part == 0 ? 2 : part == 1 ? 0 : 1); /* events */
        if (part < 3) {
            assert_int_equal(last->train.samples, SAMPLES + (part == 2) * TINY_BATCH);
            assert_int_equal(run.best_step, JOB_BATCHES); /* the end decides nothing */
            assert_int_equal(run.bad_epochs, 0);
            assert_memory_equal(&last->train, &run.so_far, sizeof run.so_far);
        } else {
            assert_int_equal(last->train.samples, TINY_SAMPLES);
            assert_int_equal(run.so_far.samples, 0);
        }
        lks_run_clear(&run);
        job_close(j);
    }
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(other_epochs_are_refused),      TEST(validation_decides),
        TEST(shortened_runs_are_finished),   TEST(data_may_become_known),
        TEST(seconds_are_those_of_an_epoch), TEST(a_cut_epoch_is_evaluated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A training in a folder of a test. */
#ifndef LKT_TRAIN_ENDS_H
#define LKT_TRAIN_ENDS_H

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "train/folder.h"
#include "train/job.h"

static int64_t newest(void)
{
    int64_t step;
    LKT_OK(lks_checkpoint_find(folder, &step));
    return step;
}

static const tiny_opts NET = {.seed = 4, .optim = {.momentum = 0.9f}};

/* The run that is left alone: three epochs, in another folder. */
static uint64_t alone(lks_run *run)
{
    char path[4300];
    snprintf(path, sizeof path, "%s-alone", folder);
    job *j = job_open(&NET, 1);
    lks_train_opts opts = job_opts(j, path);
    LKT_OK(lks_train(j->net.context, &opts, run));
    const uint64_t hash = tiny_hash(&j->net);
    assert_int_equal(run->progress.step, 3 * JOB_BATCHES);
    assert_int_equal(run->epochs, 3);
    assert_true(run->finished);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(run->history[i].train.samples, TINY_SAMPLES);
        assert_int_equal(run->history[i].valid.samples, JOB_HELD);
        assert_int_equal(run->history[i].test.samples, 0);
        assert_true(run->history[i].seconds > 0.0);
    }
    assert_int_equal(j->steps, 21);
    assert_int_equal(j->epochs, 3);
    assert_int_equal(j->saves, 3);
    assert_int_equal(j->last_save, 21);
    assert_int_equal(j->resumed_at, 0);
    job_close(j);
    return hash;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

#endif

/* Checkpoints in a folder of a test. */
#ifndef LKT_CHECKPOINT_CHECKPOINTS_H
#define LKT_CHECKPOINT_CHECKPOINTS_H

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "numeric/hash.h"
#include "train/folder.h"
#include "train/run.h"
#include "train/tiny.h"

static int64_t newest(void)
{
    int64_t step;
    LKT_OK(lks_checkpoint_find(folder, &step));
    return step;
}

static void save(tiny *t, int keep)
{
    const lks_run run = tiny_run(t);
    LKT_OK(lks_checkpoint_save(t->model, &run, folder, keep));
}

/* A run with something unusual in every field. */
static lks_run full_run(tiny *t, lks_epoch history[2])
{
    history[0] = (lks_epoch){.epoch = 1,
                             .train = {53, 20, 1, -3, UINT64_MAX, 33, 53},
                             .valid = {10, 3, 0, INT64_MAX, 1, 7, 80},
                             .learning_rate = 0.1 + 0.2,
                             .seconds = 1e-300};
    history[1] = (lks_epoch){
        .epoch = 2, .test = {1, 1, 0, INT64_MIN, 0, 1, 1}, .seconds = 1.0 / 3.0};
    lks_run run = tiny_run(t);
    run.data_hash = UINT64_C(0xfedcba9876543210);
    run.test_hash = UINT64_C(0x8000000000000001);
    run.fingerprint = "another kind of device";
    run.config = "{\"name\": \"\xc3\xa9t\xc3\xa9\\n\",\n\t\"x\": [1, 2]}";
    run.so_far = (lks_metrics){8, 2, 0, 1, 2, 3, 8};
    run.so_far_seconds = 0.1;
    run.best_loss = 2.0 / 3.0;
    run.best_step = 4;
    run.bad_epochs = 3;
    run.plateau = (lks_plateau){.lr = 0.1 / 3.0, .best = 1e-7, .bad = 2};
    run.finished = true;
    run.history = history;
    run.epochs = 2;
    return run;
}

static void assert_same_run(const lks_run *a, const lks_run *b)
{
    assert_int_equal(a->progress.step, b->progress.step);
    assert_int_equal(a->progress.link, b->progress.link);
    assert_int_equal(a->seed, b->seed);
    assert_int_equal(a->global_batch, b->global_batch);
    assert_int_equal(a->replicas, b->replicas);
    assert_int_equal(a->hash_every, b->hash_every);
    assert_int_equal(a->data_hash, b->data_hash);
    assert_int_equal(a->test_hash, b->test_hash);
    assert_string_equal(a->fingerprint, b->fingerprint);
    assert_string_equal(a->config, b->config);
    assert_memory_equal(&a->so_far, &b->so_far, sizeof a->so_far);
    assert_true(a->so_far_seconds == b->so_far_seconds);
    assert_true(a->best_loss == b->best_loss);
    assert_int_equal(a->best_step, b->best_step);
    assert_int_equal(a->bad_epochs, b->bad_epochs);
    assert_true(a->plateau.lr == b->plateau.lr && a->plateau.best == b->plateau.best);
    assert_int_equal(a->plateau.bad, b->plateau.bad);
    assert_int_equal(a->progress.skipped, b->progress.skipped);
    assert_int_equal(a->finished, b->finished);
    assert_int_equal(a->epochs, b->epochs);
    assert_memory_equal(a->history, b->history, (size_t)a->epochs * sizeof *a->history);
}

/* Loading checkpoint 5 of the folder fails with this sentence, and the model stays as it is. */
static void refuses(const tiny_opts *opts, lks_status status, const char *part)
{
    tiny t = tiny_open(opts);
    tiny_steps(&t, 2);
    const tiny_state before = tiny_read(&t);
    lks_run run;
    LKT_FAILS(status, part, lks_checkpoint_load(t.context, t.model, &run, folder, 5));
    assert_null(run.history);
    assert_null(run.fingerprint);
    const tiny_state after = tiny_read(&t);
    tiny_assert_same(&before, &after);
    tiny_close(&t);
}

static void save_five(const tiny_opts *opts)
{
    tiny t = tiny_open(opts);
    tiny_steps(&t, 5);
    save(&t, 0);
    tiny_close(&t);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

#endif

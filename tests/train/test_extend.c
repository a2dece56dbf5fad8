/* A run that is ended, and given more, again and again, is the run that was never stopped: bits,
 * history, learning rates, what is best, when it stops early. */
#include "train/folder.h"
#include "train/job.h"

#include <inttypes.h>

static uint64_t draw_state;

/* 0 to n-1: PCG's multiplier, the upper bits. */
static int draw(int n)
{
    draw_state = draw_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((draw_state >> 33) % (uint64_t)n);
}

/* What a run is about, drawn at random: which evaluations there are, and what they decide. */
typedef struct plan {
    lks_schedule schedule;
    int64_t epochs, eval_epochs, save_epochs, save_steps;
    int patience;
    bool as_test; /* the data that is watched is given as test data */
} plan;

static plan draw_plan(void)
{
    plan p = {.epochs = 3 + draw(8),
              .eval_epochs = 1 + draw(3),
              .save_epochs = draw(4) - 1,
              .save_steps = draw(3) == 0 ? 1 + draw(9) : 0,
              .patience = draw(2) * (1 + draw(2)),
              .as_test = draw(3) == 0};
    const lks_schedule list[] = {
        {.kind = LKS_PLATEAU,
         .lr = 0.1 * (1 + draw(15)),
         .factor = 0.5,
         .patience = draw(2) == 0 ? -1 : 1,
         .threshold = draw(2) == 0 ? -1.0 : 0.05,
         .warmup_steps = draw(2) * 5},
        {.kind = LKS_CONSTANT, .lr = 0.1 * (1 + draw(15))},
        {.kind = LKS_STEP, .lr = 0.5, .gamma = 0.7, .per_step = draw(2) == 0, .step_size = 3},
    };
    p.schedule = list[draw(4) % 3]; /* a plateau half of the time */
    return p;
}

static lks_train_opts opts_of(job *j, const plan *p, const char *path)
{
    lks_train_opts opts = job_opts(j, path);
    opts.schedule = p->schedule;
    opts.epochs = p->epochs;
    opts.eval_epochs = p->eval_epochs;
    opts.save_epochs = p->save_epochs;
    opts.save_steps = p->save_steps;
    opts.patience = p->patience;
    opts.resume = true;
    if (p->as_test) opts.test = opts.valid, opts.valid = NULL;
    return opts;
}

static job *open_job(void)
{
    const tiny_opts net = {.seed = 4, .workers = 1 + draw(4), .optim = {.momentum = 0.9f}};
    return job_open(&net, -1);
}

/* A part of the run: until an epoch or a step, or until it is stopped from outside. */
static void run_part(const plan *p, const char *path, int64_t steps_in_all)
{
    job *j = open_job();
    lks_train_opts opts = opts_of(j, p, path);
    const int how = draw(4);
    if (how == 0)
        opts.steps = 1 + draw((int)steps_in_all);
    else if (how == 1)
        j->stop_step = 1 + draw((int)steps_in_all);
    else if (how == 2)
        j->stop_epoch = 1 + draw((int)p->epochs);
    else
        opts.epochs = 1 + draw((int)p->epochs);
    const lks_status status = lks_train(j->net.context, &opts, NULL);
    assert_true(status == LKS_OK || status == LKS_E_STOPPED);
    job_close(j);
}

static int stopped_early, ended_between; /* how often what is to be tested occurred */

static void extended_is_uninterrupted(const char *name)
{
    const plan p = draw_plan();
    char path[4300];
    lks_run whole, run;
    snprintf(path, sizeof path, "%s-%s-whole", folder, name);
    job *j = open_job();
    lks_train_opts opts = opts_of(j, &p, path);
    LKT_OK(lks_train(j->net.context, &opts, &whole));
    const uint64_t hash = tiny_hash(&j->net);
    const int64_t last = whole.progress.step;
    stopped_early += whole.epochs < p.epochs;
    job_close(j);

    snprintf(path, sizeof path, "%s-%s-parts", folder, name);
    for (int part = draw(4); part >= 0; part--) {
        run_part(&p, path, last);
        LKT_OK(lks_checkpoint_find(path, &(int64_t){0}));
    }
    j = open_job();
    opts = opts_of(j, &p, path);
    LKT_OK(lks_train(j->net.context, &opts, &run));
    ended_between += j->resumed_at > 0 && j->resumed_at / JOB_BATCHES % p.eval_epochs != 0;
    if (tiny_hash(&j->net) != hash) fail_msg("%s: extended, the hash is another", name);
    job_assert_same(&whole, &run);
    lks_run_clear(&run);
    lks_run_clear(&whole);
    job_close(j);
}

static void random_runs(void **state)
{
    (void)state;
    for (int i = 0; i < 60; i++) {
        char name[16];
        draw_state = (uint64_t)i;
        snprintf(name, sizeof name, "%d", i);
        extended_is_uninterrupted(name);
    }
    print_message("%d stopped early, %d had ended between evaluations\n", stopped_early,
                  ended_between);
    assert_true(stopped_early >= 8 && ended_between >= 8);
}

/* The smallest case: evaluations every third epoch, and one that is there as the run ends at two.
 * At rate 0 no loss is better than the first. */
static void the_last_evaluation_decides_nothing(void **state)
{
    (void)state;
    lks_run run;
    for (int64_t epochs = 2; epochs <= 6; epochs += 4) {
        job *j = job_open(&(tiny_opts){.shallow = true}, -1);
        lks_train_opts opts = job_opts(j, folder);
        opts.schedule = (lks_schedule){.kind = LKS_PLATEAU, .patience = -1, .factor = 0.5};
        opts.resume = true;
        opts.eval_epochs = 3;
        opts.epochs = epochs;
        opts.patience = 2;
        LKT_OK(lks_train(j->net.context, &opts, &run));
        assert_int_equal(run.epochs, epochs);
        /* It is made, and is gone when the run goes on. */
        assert_int_equal(run.history[1].valid.samples, epochs == 2 ? JOB_HELD : 0);
        assert_int_equal(run.bad_epochs, epochs == 2 ? 0 : 1);
        assert_int_equal(run.best_step, epochs == 2 ? -1 : 21);
        assert_int_equal(isnan(run.best_loss), epochs == 2);
        lks_run_clear(&run);
        job_close(j);
    }
}

/* At rate 0 the first is the best, and it has no checkpoint. */
static void the_best_is_known_without_saves(void **state)
{
    (void)state;
    lks_run run;
    job *j = job_open(&(tiny_opts){.shallow = true}, -1);
    lks_train_opts opts = job_opts(j, folder);
    opts.schedule = (lks_schedule){.kind = LKS_CONSTANT};
    opts.save_epochs = -1;
    LKT_OK(lks_train(j->net.context, &opts, &run));
    assert_int_equal(run.best_step, JOB_BATCHES);
    assert_int_equal(j->saves, 1);
    lks_run_clear(&run);
    job_close(j);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(random_runs),
        TEST(the_last_evaluation_decides_nothing),
        TEST(the_best_is_known_without_saves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

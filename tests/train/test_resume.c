/* Every optimizer and option of training: stopped after any step and resumed, the run has the bits
 * and the record of one that was left alone. */
#include "train/folder.h"
#include "train/job.h"

#include <inttypes.h>
#include <math.h>

/* What a run is about: a model's options and a schedule. */
typedef struct variant {
    const char *name;
    lks_optim optim;
    lks_model_opts model;
    lks_schedule schedule;
} variant;

static lks_train_opts opts_of(job *j, const variant *v, const char *path)
{
    lks_train_opts opts = job_opts(j, path);
    if (v->schedule.lr > 0.0) opts.schedule = v->schedule;
    opts.resume = path != NULL;
    opts.save_epochs = -1; /* where it stops, and at its end */
    return opts;
}

static job *open_variant(const variant *v, int workers)
{
    const tiny_opts net = {.seed = 4, .workers = workers, .optim = v->optim, .model = v->model};
    return job_open(&net, -1);
}

static void check(const variant *v)
{
    lks_run whole, run;
    job *j = open_variant(v, 1);
    lks_train_opts opts = opts_of(j, v, NULL);
    char path[4300];
    /* The best has a checkpoint only where there is a folder. */
    snprintf(path, sizeof path, "%s-%s", folder, v->name);
    opts.folder = path;
    LKT_OK(lks_train(j->net.context, &opts, &whole));
    const uint64_t hash = tiny_hash(&j->net);
    const tiny_state end = tiny_read(&j->net);
    job_close(j);
    for (int64_t stop = 1; stop <= 20; stop++) {
        snprintf(path, sizeof path, "%s-%s-%" PRId64, folder, v->name, stop);
        j = open_variant(v, 1 + (int)(stop % 4));
        opts = opts_of(j, v, path);
        j->stop_step = stop;
        LKT_FAILS(LKS_E_STOPPED, "", lks_train(j->net.context, &opts, &run));
        assert_int_equal(run.progress.step, stop);
        lks_run_clear(&run);
        job_close(j);

        j = open_variant(v, 1 + (int)((stop + 2) % 4));
        opts = opts_of(j, v, path);
        LKT_OK(lks_train(j->net.context, &opts, &run));
        assert_int_equal(j->resumed_at, stop);
        if (tiny_hash(&j->net) != hash)
            fail_msg("%s: resumed after step %" PRId64 " the hash is another", v->name, stop);
        const tiny_state found = tiny_read(&j->net);
        tiny_assert_same(&end, &found);
        job_assert_same(&whole, &run);
        lks_run_clear(&run);
        job_close(j);
    }
    lks_run_clear(&whole);
}

static void optimizers(void **state)
{
    (void)state;
    variant list[] = {{.name = "adam", .optim = lks_adam()},
                      {.name = "adadelta", .optim = lks_adadelta()},
                      {.name = "adamw", .optim = lks_adamw()},
                      {.name = "rmsprop", .optim = lks_rmsprop()},
                      {.name = "adamp", .optim = lks_adamp()}};
    list[4].optim.delta = 1.0f;
    list[4].optim.weight_decay = 0.1f;
    list[3].optim.centered = true;
    list[3].optim.momentum = 0.5f;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) check(&list[i]);
}

static void groups(void **state)
{
    (void)state;
    lks_group list[] = {lks_group_of("*.bias"), lks_group_of("fc1.*")};
    list[0].weight_decay = 0.0f;
    list[1].lr_factor = 0.25f;
    check(&(variant){.name = "groups",
                     .optim = {.momentum = 0.9f, .weight_decay = 0.01f},
                     .model = {.groups = list, .group_count = 2, .decay_of = LKS_DECAY_WEIGHTS}});
}

static void clipping_and_averages(void **state)
{
    (void)state;
    const variant list[] = {
        {.name = "clip", .optim = {.momentum = 0.9f}, .model = {.clip_norm = 0.25f}},
        {.name = "value", .optim = {.momentum = 0.9f}, .model = {.clip_value = 0.03125f}},
        {.name = "ema", .optim = {.momentum = 0.9f}, .model = {.ema_decay = 0.75f}}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) check(&list[i]);
}

/* One sample of every epoch has a loss that is no number: three steps are skipped, at other places
 * of each epoch, and Adam's count of updates is without them. */
static void skipped_steps(void **state)
{
    (void)state;
    lks_run whole, run;
    uint64_t hash = 0;
    for (int64_t stop = 0; stop <= 20; stop++) {
        const tiny_opts net = {.seed = 4,
                               .shallow = true,
                               .workers = 1 + (int)(stop % 4),
                               .optim = lks_adam(),
                               .model = {.skip_not_finite = true}};
        char path[4300];
        snprintf(path, sizeof path, "%s-skip-%" PRId64, folder, stop);
        for (int part = stop > 0 ? 0 : 1; part < 2; part++) {
            job *j = job_make();
            j->x[19][1] = NAN;
            job_load(j, &net, -1);
            lks_train_opts opts = job_opts(j, path);
            opts.resume = true;
            opts.save_epochs = -1;
            j->stop_step = part == 0 ? stop : 0;
            const lks_status status = lks_train(j->net.context, &opts, &run);
            assert_int_equal(status, part == 0 ? LKS_E_STOPPED : LKS_OK);
            if (part == 1) assert_int_equal(run.progress.skipped, 3);
            if (part == 1 && stop == 0) hash = tiny_hash(&j->net), whole = run;
            if (part == 1 && stop > 0) {
                assert_int_equal(tiny_hash(&j->net), hash);
                job_assert_same(&whole, &run);
            }
            if (part == 0 || stop > 0) lks_run_clear(&run);
            job_close(j);
        }
    }
    lks_run_clear(&whole);
}

/* The rate falls twice in three epochs, as no loss is better by a share of 0.9. */
static void plateau(void **state)
{
    (void)state;
    const variant v = {.name = "plateau",
                       .schedule = {.kind = LKS_PLATEAU,
                                    .lr = 0.2,
                                    .factor = 0.5,
                                    .patience = -1,
                                    .threshold = 0.9,
                                    .warmup_steps = 3}};
    check(&v);
    lks_run run;
    job *j = open_variant(&v, 1);
    lks_train_opts opts = opts_of(j, &v, NULL);
    opts.epochs = 4;
    LKT_OK(lks_train(j->net.context, &opts, &run));
    assert_true(run.history[0].learning_rate == 0.2);
    assert_true(run.history[1].learning_rate == 0.2); /* the first loss is better than none */
    assert_true(run.history[2].learning_rate == 0.1);
    assert_true(run.history[3].learning_rate == 0.05);
    assert_true(j->rates[1] == 0.2 / 4.0);
    lks_run_clear(&run);
    job_close(j);
    j = open_variant(&v, 1);
    opts = opts_of(j, &v, folder);
    opts.epochs = 2;
    LKT_OK(lks_train(j->net.context, &opts, &run)); /* in a record, until the schedule is another */
    assert_true(run.plateau.lr > 0);
    lks_run_clear(&run);
    job_close(j);
    j = open_variant(&v, 1);
    opts = opts_of(j, &v, folder);
    opts.resume = true;
    opts.epochs = 5;
    opts.schedule = (lks_schedule){.kind = LKS_CONSTANT, .lr = 0.1};
    LKT_OK(lks_train(j->net.context, &opts, &run));
    assert_true(run.progress.step == 5 * JOB_BATCHES && run.plateau.lr == 0);
    lks_run_clear(&run);
    opts.schedule = v.schedule;
    opts.valid = NULL;
    LKT_FAILS(LKS_E_INVALID, "to reduce on plateau needs a loss to watch",
              lks_train(j->net.context, &opts, NULL));
    job_close(j);
}

static void schedules_are_functions_of_the_step(void **state)
{
    (void)state;
    const variant list[] = {
        {.name = "multi",
         .schedule = {.kind = LKS_MULTI_STEP, .lr = 0.2, .milestone_count = 1, .milestones = {2}}},
        {.name = "cycle",
         .schedule = {.kind = LKS_ONE_CYCLE, .lr = 0.3, .length = 21, .per_step = true}}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) check(&list[i]);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(optimizers),    TEST(groups),  TEST(clipping_and_averages),
        TEST(skipped_steps), TEST(plateau), TEST(schedules_are_functions_of_the_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

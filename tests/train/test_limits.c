/* Both sides of every limit of schedules, optimizers and the options of a training, and what is said
 * beyond it. */
#include "train/job.h"

#include <math.h>

static const double INF = (double)INFINITY;

static void sentence(lks_status status, const char *expected)
{
    assert_int_equal(status, LKS_E_INVALID);
    assert_string_equal(lks_last_error()->message, expected);
}

static void schedule_is(lks_schedule schedule, const char *expected)
{
    if (expected == NULL)
        LKT_OK(lks_schedule_check(&schedule));
    else
        sentence(lks_schedule_check(&schedule), expected);
}

static void schedules(void **state)
{
    (void)state;
    schedule_is((lks_schedule){.lr = 0}, NULL);
    schedule_is((lks_schedule){.lr = 1e300}, NULL);
    schedule_is((lks_schedule){.lr = -1e-300},
                "schedule: the learning rate is -1e-300, expected a number of at least 0");
    schedule_is((lks_schedule){.warmup_steps = 0}, NULL);
    schedule_is((lks_schedule){.warmup_steps = -1},
                "schedule: warmup_steps is -1, expected 0 or more");
    schedule_is((lks_schedule){.begin = -1}, "schedule: begin is -1, expected 0 or more");
    schedule_is((lks_schedule){.kind = LKS_STEP, .step_size = 0}, NULL);
    schedule_is((lks_schedule){.kind = LKS_STEP, .step_size = -1},
                "schedule step: step_size is -1, expected an integer of at least 1");
    schedule_is((lks_schedule){.kind = LKS_STEP, .gamma = 0}, NULL);
    schedule_is((lks_schedule){.kind = LKS_STEP, .gamma = INF},
                "schedule step: gamma is inf, expected a number of at least 0");
    schedule_is((lks_schedule){.kind = LKS_COSINE, .length = 1}, NULL);
    schedule_is((lks_schedule){.kind = LKS_COSINE, .length = 0},
                "schedule cosine: length is 0, expected an integer of at least 1");
    schedule_is((lks_schedule){.kind = LKS_COSINE, .length = -3, .per_step = true},
                "schedule cosine: length is -3, expected an integer of at least 1");
    schedule_is((lks_schedule){.kind = LKS_COSINE, .length = 1, .final_lr = -0.5},
                "schedule cosine: final_lr is -0.5, expected a number of at least 0");
    schedule_is((lks_schedule){.kind = LKS_EXPONENTIAL, .gamma = 1e-300}, NULL);
    schedule_is((lks_schedule){.kind = LKS_EXPONENTIAL, .gamma = 0},
                "schedule exponential: gamma is 0, expected a number above 0");
    schedule_is((lks_schedule){.kind = LKS_LINEAR, .length = 1}, NULL);
    schedule_is((lks_schedule){.kind = LKS_LINEAR, .length = 1, .final_lr = INF},
                "schedule linear: final_lr is inf, expected a number of at least 0");
    schedule_is((lks_schedule){.kind = LKS_POLYNOMIAL, .length = 1}, NULL);
    schedule_is((lks_schedule){.kind = LKS_POLYNOMIAL, .length = 0},
                "schedule polynomial: length is 0, expected an integer of at least 1");
    schedule_is((lks_schedule){.kind = LKS_POLYNOMIAL, .length = 1, .power = -2},
                "schedule polynomial: power is -2, expected a number above 0");
    schedule_is((lks_schedule){.kind = LKS_POLYNOMIAL, .length = 1, .final_lr = -1},
                "schedule polynomial: final_lr is -1, expected a number of at least 0");
    schedule_is((lks_schedule){.kind = (lks_schedule_kind)9},
                "schedule: kind is 9, expected LKS_CONSTANT or another lks_schedule_kind");
}

static void cycles_plateaus_and_milestones(void **state)
{
    (void)state;
    lks_schedule many = {.kind = LKS_MULTI_STEP, .milestone_count = LKS_MAX_MILESTONES};
    for (int i = 0; i < LKS_MAX_MILESTONES; i++) many.milestones[i] = i + 1;
    schedule_is(many, NULL);
    many.gamma = -1;
    schedule_is(many, "schedule multi_step: gamma is -1, expected a number of at least 0");
    many.gamma = 0;
    many.milestones[31] = 31;
    schedule_is(
        many,
        "schedule multi_step: milestone 31 comes behind 31, expected ascending numbers above 0");
    many.milestones[31] = 99;
    many.milestone_count++;
    schedule_is(many, "schedule multi_step: there are 33 milestones, expected 1 to 32");
    schedule_is((lks_schedule){.kind = LKS_MULTI_STEP, .milestone_count = 1, .milestones = {1}},
                NULL);

    const lks_schedule cycle = {.kind = LKS_ONE_CYCLE, .length = 1};
    lks_schedule other = cycle;
    schedule_is(cycle, NULL);
    other.start_div = -1;
    schedule_is(other, "schedule one_cycle: start_div is -1, expected a number above 0");
    other = cycle;
    other.final_div = INF;
    schedule_is(other, "schedule one_cycle: final_div is inf, expected a number above 0");
    other = cycle;
    other.rise = 1;
    schedule_is(other, "schedule one_cycle: rise is 1, expected a number above 0 and below 1");
    other.rise = -0.25;
    schedule_is(other, "schedule one_cycle: rise is -0.25, expected a number above 0 and below 1");
    other.rise = 0x1.fffffffffffffp-1;
    schedule_is(other, NULL);

    schedule_is((lks_schedule){.kind = LKS_PLATEAU}, NULL);
    schedule_is((lks_schedule){.kind = LKS_PLATEAU, .factor = 1},
                "schedule reduce_on_plateau: factor is 1, expected a number above 0 and below 1");
    schedule_is(
        (lks_schedule){.kind = LKS_PLATEAU, .factor = -0.5},
        "schedule reduce_on_plateau: factor is -0.5, expected a number above 0 and below 1");
    schedule_is((lks_schedule){.kind = LKS_PLATEAU, .patience = -1}, NULL);
    schedule_is((lks_schedule){.kind = LKS_PLATEAU, .patience = -2},
                "schedule reduce_on_plateau: patience is -2, expected an integer of at least -1");
    schedule_is((lks_schedule){.kind = LKS_PLATEAU, .threshold = -5}, NULL);
    schedule_is((lks_schedule){.kind = LKS_PLATEAU, .threshold = 1},
                "schedule reduce_on_plateau: threshold is 1, expected a number below 1");
    schedule_is((lks_schedule){.kind = LKS_PLATEAU, .min_lr = -1},
                "schedule reduce_on_plateau: min_lr is -1, expected a number of at least 0");
}

/* A plateau after `losses` of 1: the first is the best, and patience counts those behind it. */
static lks_plateau after(const lks_schedule *schedule, int losses)
{
    lks_plateau plateau = lks_plateau_begin(schedule);
    for (int i = 0; i < losses; i++) lks_plateau_observe(schedule, &plateau, 1.0);
    return plateau;
}

static void plateaus_end_where_they_end(void **state)
{
    (void)state;
    const lks_schedule usual = {.kind = LKS_PLATEAU, .lr = 1.0};
    assert_true(after(&usual, 11).lr == 1.0 && after(&usual, 11).bad == 10);
    assert_true(after(&usual, 12).lr == 0.1 && after(&usual, 12).bad == 0);
    const lks_schedule none = {.kind = LKS_PLATEAU, .lr = 1.0, .factor = 0.5, .patience = -1};
    assert_true(after(&none, 2).lr == 0.5);
    const lks_schedule one = {.kind = LKS_PLATEAU, .lr = 1.0, .factor = 0.5, .patience = 1};
    assert_true(after(&one, 2).lr == 1.0 && after(&one, 3).lr == 0.5 && after(&one, 5).lr == 0.25);
    const lks_schedule floor = {
        .kind = LKS_PLATEAU, .lr = 1.0, .factor = 0.5, .patience = -1, .min_lr = 0.375};
    assert_true(after(&floor, 3).lr == 0.375 && after(&floor, 9).lr == 0.375);
    /* Steps of 1e-8 and less are none. */
    const lks_schedule small = {.kind = LKS_PLATEAU, .lr = 0x1p-26, .factor = 0.5, .patience = -1};
    assert_true(after(&small, 5).lr == 0x1p-26);
    const lks_schedule larger = {.kind = LKS_PLATEAU, .lr = 0x1p-25, .factor = 0.5, .patience = -1};
    assert_true(after(&larger, 2).lr == 0x1p-26);
    /* Better is below the bar: 1 - threshold of the best. */
    const lks_schedule bar = {
        .kind = LKS_PLATEAU, .lr = 1.0, .factor = 0.5, .patience = 9, .threshold = 0.25};
    lks_plateau plateau = after(&bar, 1);
    lks_plateau_observe(&bar, &plateau, 0.75);
    assert_true(plateau.best == 1.0 && plateau.bad == 1);
    lks_plateau_observe(&bar, &plateau, 0.7499);
    assert_true(plateau.best == 0.7499 && plateau.bad == 0);
    lks_schedule any = bar; /* every smaller loss is better */
    any.threshold = -1;
    plateau = after(&any, 2);
    assert_true(plateau.bad == 1);
    lks_plateau_observe(&any, &plateau, 0x1.fffffffffffffp-1);
    assert_true(plateau.bad == 0);
    lks_plateau_observe(NULL, &plateau, 2.0);
    lks_plateau_observe(&any, NULL, 2.0);
    assert_true(plateau.bad == 0);
    assert_true(lks_plateau_begin(NULL).lr == 0 && isnan(lks_plateau_begin(NULL).best));
    assert_true(isnan(lks_schedule_at(NULL, 0, 0)));
}

static void optim_is(lks_optim optim, const char *expected)
{
    if (expected == NULL)
        LKT_OK(lks_optim_check(&optim));
    else
        sentence(lks_optim_check(&optim), expected);
}

static void optimizers(void **state)
{
    (void)state;
    static const char *const names[] = {"sgd",     "adam",  "adadelta", "adamw",
                                        "rmsprop", "adamp", "lars",     "lamb"};
    static const lks_optim_kind kinds[] = {LKS_SGD,     LKS_ADAM,  LKS_ADADELTA, LKS_ADAMW,
                                           LKS_RMSPROP, LKS_ADAMP, LKS_LARS,     LKS_LAMB};
    char expected[200];
    for (int k = 0; k < 8; k++) {
        const char *name = names[k];
        optim_is((lks_optim){.kind = kinds[k]}, NULL);
        snprintf(expected, sizeof expected,
                 "%s: weight_decay is -1, expected a number of at least 0", name);
        optim_is((lks_optim){.kind = kinds[k], .weight_decay = -1}, expected);
        snprintf(expected, sizeof expected, "%s: epsilon is inf, expected a number of at least 0",
                 name);
        if (k != 0) optim_is((lks_optim){.kind = kinds[k], .epsilon = INF}, expected);
        const bool adam = k == 1 || k == 3 || k == 5 || k == 7;
        for (int second = 0; adam && second < 2; second++) {
            for (int one = 0; one < 2; one++) {
                const double value = one ? 1.0 : -0.5;
                lks_optim optim = {.kind = kinds[k]};
                *(second ? &optim.beta2 : &optim.beta1) = value;
                snprintf(expected, sizeof expected,
                         "%s: beta%d is %g, expected a number of at least 0 and below 1", name,
                         1 + second, value);
                optim_is(optim, expected);
            }
        }
    }
    optim_is((lks_optim){.dampening = 1}, NULL);
    optim_is((lks_optim){.dampening = 1.5}, "sgd: dampening is 1.5, expected a number from 0 to 1");
    optim_is((lks_optim){.dampening = -1}, "sgd: dampening is -1, expected a number from 0 to 1");
    optim_is((lks_optim){.momentum = INF}, "sgd: momentum is inf, expected a number of at least 0");
    optim_is((lks_optim){.nesterov = true, .momentum = 0.5, .dampening = 0.25},
             "sgd: nesterov needs a momentum above 0 and no dampening; found momentum 0.5, "
             "dampening 0.25");
    optim_is((lks_optim){.kind = LKS_ADADELTA, .rho = 1}, NULL);
    optim_is((lks_optim){.kind = LKS_ADADELTA, .rho = -1},
             "adadelta: rho is -1, expected a number from 0 to 1");
    optim_is((lks_optim){.kind = LKS_RMSPROP, .alpha = 1, .momentum = 2}, NULL);
    optim_is((lks_optim){.kind = LKS_RMSPROP, .alpha = 1.25},
             "rmsprop: alpha is 1.25, expected a number from 0 to 1");
    optim_is((lks_optim){.kind = LKS_RMSPROP, .momentum = -1},
             "rmsprop: momentum is -1, expected a number of at least 0");
    optim_is((lks_optim){.kind = LKS_ADAMP, .delta = -1},
             "adamp: delta is -1, expected a number of at least 0");
    optim_is((lks_optim){.kind = LKS_ADAMP, .wd_ratio = -1},
             "adamp: wd_ratio is -1, expected a number of at least 0");
    optim_is((lks_optim){.kind = (lks_optim_kind)9},
             "optimizer: kind is 9, expected LKS_SGD or another lks_optim_kind");
    const lks_optim adamp = lks_adamp();
    assert_true(adamp.delta == 0.1 && adamp.wd_ratio == 0.1 && adamp.beta1 == 0.9 &&
                adamp.epsilon == 1e-8 && adamp.weight_decay == 0);
    assert_true(lks_sgd(0.5).momentum == 0.5);
    const lks_group group = lks_group_of("a.*");
    assert_string_equal(group.match, "a.*");
    assert_true(isnan(group.weight_decay) && isnan(group.lr_factor));
}

static void training_is(const lks_train_opts *opts, const char *expected)
{
    if (expected == NULL)
        LKT_OK(lks_train(NULL, opts, NULL));
    else
        sentence(lks_train(NULL, opts, NULL), expected);
}

static void options_of_a_training(void **state)
{
    (void)state;
    job *j = job_open(&(tiny_opts){0}, 1);
    lks_train_opts good = job_opts(j, NULL);
    good.epochs = 0;
    good.steps = 1;
    lks_train_opts opts = good;
    training_is(&opts, NULL);
    const char *needed = "training: a model and a loader of training data are needed";
    opts.model = NULL;
    training_is(&opts, needed);
    opts = good;
    opts.train = NULL;
    training_is(&opts, needed);
    opts = good;
    opts.epochs = -1;
    training_is(&opts, "training: epochs is -1, steps 1; expected 1 or more of one of both");
    opts = good;
    opts.epochs = 1;
    opts.steps = -2;
    training_is(&opts, "training: epochs is 1, steps -2; expected 1 or more of one of both");
    opts.epochs = opts.steps = 0;
    training_is(&opts, "training: epochs is 0, steps 0; expected 1 or more of one of both");
    for (int k = 0; k < 5; k++) {
        int numbers[5] = {0};
        char expected[300];
        numbers[k] = k == 3 ? -2 : -1;
        opts = good;
        opts.eval_epochs = numbers[0];
        opts.patience = numbers[1];
        opts.save_steps = numbers[2];
        opts.save_epochs = numbers[3];
        opts.keep = numbers[4];
        snprintf(
            expected, sizeof expected,
            "training: eval_epochs is %d, patience %d, save_steps %d, save_epochs %d, keep %d; "
            "expected 0 or more (save_epochs: or -1)",
            numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]);
        training_is(&opts, expected);
    }
    opts = good;
    opts.save_epochs = -1;
    training_is(&opts, NULL);
    opts = good;
    opts.resume = true;
    training_is(&opts, "training: to resume needs the folder that has the checkpoints");
    opts = good;
    opts.valid = NULL;
    opts.patience = 2;
    training_is(&opts, "training: patience 2 needs a loss to watch; give validation or test data");
    opts.test = j->valid;
    training_is(&opts, NULL);
    opts.patience = 0;
    opts.schedule = (lks_schedule){.kind = LKS_PLATEAU, .lr = 0.1};
    training_is(&opts, NULL);
    opts.test = NULL;
    training_is(&opts, "training: to reduce on plateau needs a loss to watch; give validation or "
                       "test data");
    opts = good;
    opts.schedule.lr = -1;
    training_is(&opts, "schedule: the learning rate is -1, expected a number of at least 0");
    job_close(j);
}

/* The sooner of epochs and steps ends a run; so many epochs that their steps cannot be counted do not. */
static void the_sooner_end_counts(void **state)
{
    (void)state;
    const int64_t cases[][3] = {{1, 100, JOB_BATCHES},
                                {1, JOB_BATCHES, JOB_BATCHES},
                                {1, JOB_BATCHES - 1, JOB_BATCHES - 1},
                                {2, JOB_BATCHES + 1, JOB_BATCHES + 1},
                                {2, 0, 2 * JOB_BATCHES},
                                {INT64_MAX, 3, 3},
                                {INT64_MAX / JOB_BATCHES, 3, 3},
                                {INT64_MAX / JOB_BATCHES + 1, 2, 2}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        job *j = job_open(&(tiny_opts){0}, -1);
        lks_train_opts opts = job_opts(j, NULL);
        opts.epochs = cases[k][0];
        opts.steps = cases[k][1];
        LKT_OK(lks_train(NULL, &opts, NULL));
        assert_int_equal(j->steps, cases[k][2]);
        job_close(j);
    }
}

/* A plateau's rate begins as the schedule's; a run without one keeps none. */
static void plateaus_begin_with_the_run(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        lks_run run;
        job *j = job_open(&(tiny_opts){0}, -1);
        lks_train_opts opts = job_opts(j, NULL);
        opts.schedule = (lks_schedule){.kind = k == 0 ? LKS_PLATEAU : LKS_CONSTANT, .lr = 0.125};
        opts.epochs = 1;
        LKT_OK(lks_train(NULL, &opts, &run));
        for (int i = 1; i <= JOB_BATCHES; i++) assert_true(j->rates[i] == 0.125);
        assert_true(run.plateau.lr == (k == 0 ? 0.125 : 0));
        if (k == 0) assert_true(run.plateau.best == run.best_loss && run.plateau.bad == 0);
        assert_true(run.history[0].learning_rate == 0.125);
        lks_run_clear(&run);
        job_close(j);
    }
}

/* What is said of each step and epoch, and what the run has at the end. */
typedef struct told {
    lks_model *model;
    lks_metrics sum;
    int64_t steps, epochs;
} told;

static lks_status step_is_told(void *user, const lks_step_event *event)
{
    told *t = user;
    assert_int_equal(event->step, ++t->steps);
    assert_int_equal(event->batches, JOB_BATCHES);
    assert_int_equal(event->epoch, 1 + (t->steps - 1) / JOB_BATCHES);
    assert_int_equal(event->batch, (t->steps - 1) % JOB_BATCHES);
    assert_int_equal(event->metrics->samples, event->batch < JOB_BATCHES - 1 ? 8 : 5);
    assert_true(event->learning_rate == (event->epoch == 1 ? 0.5 : 0.25));
    assert_true(event->info.gradient_norm > 0 &&
                event->info.gradient_norm == lks_model_last_step(t->model).gradient_norm);
    lks_metrics_add(&t->sum, event->metrics);
    return LKS_OK;
}

static lks_status epoch_is_told(void *user, const lks_epoch *epoch)
{
    told *t = user;
    assert_int_equal(epoch->epoch, ++t->epochs);
    assert_int_equal(t->steps, t->epochs * JOB_BATCHES);
    assert_memory_equal(&epoch->train, &t->sum, sizeof t->sum);
    assert_int_equal(epoch->train.samples, TINY_SAMPLES);
    assert_int_equal(epoch->valid.samples, JOB_HELD);
    assert_memory_equal(&epoch->test, &epoch->valid, sizeof epoch->test);
    assert_true(epoch->learning_rate == (t->epochs == 1 ? 0.5 : 0.25));
    assert_true(epoch->seconds > 0 && epoch->seconds < 60);
    t->sum = (lks_metrics){0};
    return LKS_OK;
}

static void events_say_what_was_done(void **state)
{
    (void)state;
    lks_run run;
    uint64_t hash;
    job *j = job_open(&(tiny_opts){.model = {.clip_norm = 1}}, 1);
    told t = {.model = j->net.model};
    lks_train_opts opts = job_opts(j, NULL);
    opts.schedule = (lks_schedule){.kind = LKS_STEP, .lr = 0.5, .gamma = 0.5};
    opts.test = j->valid;
    opts.epochs = 2;
    opts.data_hash = 7;
    opts.test_hash = 8;
    opts.config = "{}";
    opts.events = (lks_train_events){
        .on_step = step_is_told, .on_epoch = epoch_is_told, .user = &t};
    LKT_OK(lks_train(NULL, &opts, &run));
    assert_int_equal(t.epochs, 2);
    assert_int_equal(run.progress.step, 2 * JOB_BATCHES);
    assert_int_equal(run.epochs, 2);
    assert_int_equal(run.so_far.samples, 0);
    assert_true(run.so_far_seconds == 0 && run.finished);
    assert_true(run.data_hash == 7 && run.test_hash == 8);
    assert_string_equal(run.config, "{}");
    assert_string_equal(run.fingerprint, lks_context_fingerprint(j->net.context));
    assert_true(run.plateau.lr == 0);
    LKT_OK(lks_model_hash(j->net.model, &hash));
    assert_true(run.hash == hash);
    const int best = lks_metrics_loss(&run.history[1].valid) <
                     lks_metrics_loss(&run.history[0].valid);
    assert_int_equal(run.best_step, (1 + best) * JOB_BATCHES);
    assert_true(run.best_loss == lks_metrics_loss(&run.history[best].valid));
    assert_int_equal(run.bad_epochs, 1 - best);
    lks_run_clear(&run);
    job_close(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules),
        cmocka_unit_test(cycles_plateaus_and_milestones),
        cmocka_unit_test(plateaus_end_where_they_end),
        cmocka_unit_test(optimizers),
        cmocka_unit_test(options_of_a_training),
        cmocka_unit_test(the_sooner_end_counts),
        cmocka_unit_test(plateaus_begin_with_the_run),
        cmocka_unit_test(events_say_what_was_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

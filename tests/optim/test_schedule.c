/* Schedules against PyTorch's schedulers; what optimizers and schedules accept. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <lockstep/optim.h>

static json_t *load_golden(const char *name)
{
    char path[4096];
    const char *source = getenv("LKT_SOURCE");
    snprintf(path, sizeof path, "%s/tests/optim/golden/%s", source ? source : ".", name);
    json_error_t problem;
    json_t *json = json_load_file(path, 0, &problem);
    if (!json) fail_msg("%s: %s", path, problem.text);
    return json;
}

static lks_schedule_kind kind_of(const char *name)
{
    static const char *const names[] = {"constant",    "step",   "cosine",     "multi_step",
                                        "exponential", "linear", "polynomial", "one_cycle"};
    int kind = 0;
    while (strcmp(names[kind], name) != 0) kind++;
    return (lks_schedule_kind)kind;
}

static double number(const json_t *test, const char *key)
{
    return json_number_value(json_object_get(test, key));
}

static int64_t integer(const json_t *test, const char *key)
{
    return json_integer_value(json_object_get(test, key));
}

static lks_schedule schedule_of(const json_t *test)
{
    const json_t *milestones = json_object_get(test, "milestones");
    lks_schedule schedule = {
        .kind = kind_of(json_string_value(json_object_get(test, "kind"))),
        .lr = number(test, "lr"),
        .per_step = json_is_true(json_object_get(test, "per_step")),
        .warmup_steps = integer(test, "warmup_steps"),
        .begin = integer(test, "begin"),
        .step_size = integer(test, "step_size"),
        .gamma = number(test, "gamma"),
        .length = integer(test, "length"),
        .final_lr = number(test, "final_lr"),
        .milestone_count = (int)json_array_size(milestones),
        .power = number(test, "power"),
        .rise = number(test, "rise"),
        .start_div = number(test, "start_div"),
        .final_div = number(test, "final_div"),
    };
    for (size_t i = 0; i < json_array_size(milestones); i++)
        schedule.milestones[i] = json_integer_value(json_array_get(milestones, i));
    return schedule;
}

/*
 * PyTorch forms the rate of step t by t factors, one rounding each, and a sum (cosine); ours has at
 * most 2 log2(t) + 4 roundings. With t < 48 and one rounding at most 2^-53 of the value, both lie
 * within 3 * 48 + 16 roundings of the exact rate. A cosine multiplies by (1 + cos(t+1)) /
 * (1 + cos(t)), whose relative error grows where both are near 0: the absolute error is bounded by
 * the same count of roundings of the first rate. So it is with the other schedules that end near 0
 * by a difference (linear, polynomial, one cycle): PyTorch's factors divide by what is left.
 */
static const double ROUNDINGS = 160.0 * 0x1p-53;

static void matches_pytorch(void **state)
{
    (void)state;
    json_t *golden = load_golden("schedules.json"), *test;
    const int64_t per_epoch = json_integer_value(json_object_get(golden, "steps_per_epoch"));
    size_t index;
    double worst = 0.0;
    json_array_foreach(json_object_get(golden, "cases"), index, test)
    {
        const lks_schedule schedule = schedule_of(test);
        const json_t *rates = json_object_get(test, "rates");
        LKT_OK(lks_schedule_check(&schedule));
        assert_true(json_array_size(rates) >= 20);
        for (size_t step = 0; step < json_array_size(rates); step++) {
            const double expected = json_number_value(json_array_get(rates, step));
            const double found = lks_schedule_at(&schedule, (int64_t)step,
                                                 (int64_t)step / per_epoch);
            const bool ends = schedule.length > 0;
            const double scale = ends ? schedule.lr : expected;
            const double error = fabs(found - expected) / (scale * ROUNDINGS);
            if (error > worst) worst = error;
            if (error > 1.0) {
                fail_msg("%s: step %zu: found %.17g, expected %.17g",
                         json_string_value(json_object_get(test, "name")), step, found, expected);
            }
        }
    }
    assert_true(index >= 19);
    print_message("largest difference: %.2g of the bound\n", worst);
    json_decref(golden);
}

/* cos(pi s) of optim.h's formulas, with 11 bits more than a double has. */
static long double half_turn(long double done, long double span)
{
    return (1 + cosl(acosl(-1) * (done / span))) / 2;
}

/* The formulas of optim.h. */
static long double closed_form(const lks_schedule *s, int64_t t)
{
    const long double lr = s->lr, final = s->final_lr, length = s->length;
    const long double done = t < s->length ? t : s->length;
    switch (s->kind) {
    case LKS_STEP:
        return lr * powl(s->gamma, t / s->step_size);
    case LKS_EXPONENTIAL:
        return lr * powl(s->gamma, t);
    case LKS_COSINE:
        return final + (lr - final) * half_turn(done, length);
    case LKS_LINEAR:
        return lr + (final - lr) * (done / length);
    case LKS_POLYNOMIAL:
        return final + (lr - final) * powl((length - done) / length, s->power);
    case LKS_ONE_CYCLE: {
        const long double start = lr / s->start_div, end = start / s->final_div;
        const long double top = (double)(s->rise * (double)s->length - 1), last = length - 1;
        if (t >= last) return end;
        return t <= top ? lr + (start - lr) * half_turn(t, top)
                        : end + (lr - end) * half_turn(t - top, last - top);
    }
    default:
        return lr;
    }
}

/* No factor of a rate errs by more than a few units of its last place, and no sum cancels: 9 of 2^-53
 * are below 10^-15. A cosine near its end is small; the long double's own error, of 2^-64, counts
 * against that. */
static void rates_are_exact(void **state)
{
    (void)state;
    lkt_random random = lkt_random_make("rates_are_exact", 31);
    long double worst = 0;
    for (int i = 0; i < 200000; i++) {
        static const lks_schedule_kind kinds[] = {LKS_STEP,   LKS_EXPONENTIAL, LKS_COSINE,
                                                  LKS_LINEAR, LKS_POLYNOMIAL,  LKS_ONE_CYCLE};
        const int64_t length = lkt_random_from(&random, 2, i % 2 == 0 ? 100 : 10000000);
        const double forgets = lkt_random_real(&random, 0.0, 20.0) / (double)length;
        const lks_schedule s = {
            .kind = kinds[lkt_random_below(&random, 6)],
            .lr = lkt_random_real(&random, 1e-5, 1.0),
            .step_size = lkt_random_from(&random, 1, 3),
            .gamma = forgets < 1 ? 1 - forgets : 0.1,
            .length = length,
            .final_lr = i % 3 == 0 ? 0.0 : lkt_random_real(&random, 0.0, 1e-5),
            .power = i % 4 == 0 ? 2.0 : lkt_random_real(&random, 0.1, 5.0),
            .rise = lkt_random_real(&random, 0.05, 0.9),
            .start_div = lkt_random_real(&random, 1.0, 50.0),
            .final_div = lkt_random_real(&random, 1.0, 1e6),
        };
        const int64_t t = lkt_random_below(&random, length + 2);
        const double found = lks_schedule_at(&s, 0, t);
        const long double exact = closed_form(&s, t);
        const long double error = fabsl((long double)found - exact);
        const long double own = 16 * 0x1p-64L * (long double)s.lr;
        if (error > 1e-15L * exact + own)
            fail_msg("kind %d, %lld of %lld: found %.17g, expected %.19Lg", (int)s.kind,
                     (long long)t, (long long)length, found, exact);
        if (exact > 0 && (error - own) / exact > worst) worst = (error - own) / exact;
    }
    print_message("largest relative error: %.2Lg\n", worst);
}

/* The same comparisons of the same doubles, so the same steps down; a rate is a product of at most
 * 40 factors, each with one rounding on either side. */
static void plateaus_match_pytorch(void **state)
{
    (void)state;
    json_t *golden = load_golden("schedules.json"), *test;
    const json_t *losses = json_object_get(golden, "losses");
    size_t index;
    int steps_down = 0;
    json_array_foreach(json_object_get(golden, "plateaus"), index, test)
    {
        const json_t *patience = json_object_get(test, "patience");
        lks_schedule schedule = {.kind = LKS_PLATEAU,
                                 .lr = number(test, "lr"),
                                 .factor = number(test, "factor"),
                                 .threshold = number(test, "threshold"),
                                 .min_lr = number(test, "min_lr")};
        if (patience != NULL) schedule.patience = (int)json_integer_value(patience);
        if (patience != NULL && schedule.patience == 0) schedule.patience = -1;
        LKT_OK(lks_schedule_check(&schedule));
        lks_plateau plateau = lks_plateau_begin(&schedule);
        for (size_t i = 0; i < json_array_size(losses); i++) {
            const double before = plateau.lr;
            const double expected = json_number_value(
                json_array_get(json_object_get(test, "rates"), i));
            lks_plateau_observe(&schedule, &plateau, json_number_value(json_array_get(losses, i)));
            steps_down += plateau.lr < before;
            if (fabs(plateau.lr - expected) > 80.0 * 0x1p-53 * expected)
                fail_msg("%s: loss %zu: rate %.17g, expected %.17g",
                         json_string_value(json_object_get(test, "name")), i, plateau.lr, expected);
        }
    }
    assert_true(index >= 5 && steps_down >= 15);
    json_decref(golden);
}

/* What PyTorch's would call better or not by chance of a comparison with a NaN. */
static void plateaus_take_what_is_no_number(void **state)
{
    (void)state;
    const lks_schedule schedule = {.kind = LKS_PLATEAU, .lr = 1.0, .factor = 0.5, .patience = -1};
    lks_plateau plateau = lks_plateau_begin(&schedule);
    assert_true(plateau.lr == 1.0 && isnan(plateau.best) && plateau.bad == 0);
    lks_plateau_observe(&schedule, &plateau, (double)NAN);
    assert_true(plateau.lr == 0.5 && isnan(plateau.best));
    lks_plateau_observe(&schedule, &plateau, 3.0);
    assert_true(plateau.lr == 0.5 && plateau.best == 3.0);
    lks_plateau_observe(&schedule, &plateau, -(double)INFINITY);
    assert_true(plateau.lr == 0.25 && plateau.best == 3.0);
}

static void defaults_and_ends(void **state)
{
    (void)state;
    const lks_schedule step = {.kind = LKS_STEP, .lr = 1.0};
    assert_true(lks_schedule_at(&step, 0, 0) == 1.0);
    assert_true(fabs(lks_schedule_at(&step, 0, 3) - 0.001) < 1e-17);
    assert_true(lks_schedule_at(&step, 0, INT64_MAX) == 0.0);
    const lks_schedule cosine = {.kind = LKS_COSINE, .lr = 0.5, .final_lr = 0.125, .length = 7};
    assert_true(lks_schedule_at(&cosine, 0, 0) == 0.5);
    assert_true(lks_schedule_at(&cosine, 0, 7) == 0.125);
    assert_true(lks_schedule_at(&cosine, 0, 1000) == 0.125);
    const lks_schedule linear = {.kind = LKS_LINEAR, .lr = 0.5, .final_lr = 0.125, .length = 3};
    assert_true(lks_schedule_at(&linear, 0, 0) == 0.5);
    assert_true(lks_schedule_at(&linear, 0, 9) == 0.125);
    const lks_schedule fade = {.kind = LKS_POLYNOMIAL, .lr = 1.0, .length = 8, .power = 1.5};
    assert_true(lks_schedule_at(&fade, 0, 0) == 1.0);
    assert_true(lks_schedule_at(&fade, 0, 8) == 0.0 && lks_schedule_at(&fade, 0, 99) == 0.0);
    const lks_schedule cycle = {.kind = LKS_ONE_CYCLE, .lr = 1.0, .length = 10};
    assert_true(fabs(lks_schedule_at(&cycle, 0, 0) - 1.0 / 25.0) <= 0x1p-53); /* a sum near 1 */
    assert_true(lks_schedule_at(&cycle, 0, 2) == 1.0);
    assert_true(lks_schedule_at(&cycle, 0, 9) == 1.0 / 25.0 / 1e4);
    assert_true(lks_schedule_at(&cycle, 0, INT64_MAX) == 1.0 / 25.0 / 1e4);
    for (int64_t length = 1; length < 9; length++) { /* too short to rise: still numbers */
        const lks_schedule brief = {.kind = LKS_ONE_CYCLE, .lr = 1.0, .length = length};
        for (int64_t t = 0; t < 12; t++) {
            const double rate = lks_schedule_at(&brief, 0, t);
            assert_true(rate > 0.0 && rate <= 1.0);
        }
    }
    const lks_schedule warm = {.lr = 1.0, .warmup_steps = 3};
    assert_true(lks_schedule_at(&warm, 0, 0) == 0.25);
    assert_true(lks_schedule_at(&warm, 2, 0) == 0.75);
    assert_true(lks_schedule_at(&warm, 3, 0) == 1.0);
}

static void refuses_bad_schedules(void **state)
{
    (void)state;
    LKT_FAILS(LKS_E_INVALID, "kind is 9", lks_schedule_check(&(lks_schedule){.kind = 9}));
    LKT_FAILS(LKS_E_INVALID, "learning rate is -1", lks_schedule_check(&(lks_schedule){.lr = -1}));
    LKT_FAILS(LKS_E_INVALID, "learning rate is inf",
              lks_schedule_check(&(lks_schedule){.lr = (double)INFINITY}));
    LKT_FAILS(LKS_E_INVALID, "learning rate is",
              lks_schedule_check(&(lks_schedule){.lr = (double)NAN}));
    LKT_FAILS(LKS_E_INVALID, "warmup_steps is -2",
              lks_schedule_check(&(lks_schedule){.warmup_steps = -2}));
    LKT_FAILS(LKS_E_INVALID, "step_size is -1",
              lks_schedule_check(&(lks_schedule){.kind = LKS_STEP, .step_size = -1}));
    LKT_FAILS(LKS_E_INVALID, "gamma is -0.5",
              lks_schedule_check(&(lks_schedule){.kind = LKS_STEP, .gamma = -0.5}));
    LKT_FAILS(LKS_E_INVALID, "schedule cosine: length is 0",
              lks_schedule_check(&(lks_schedule){.kind = LKS_COSINE}));
    LKT_FAILS(LKS_E_INVALID, "final_lr is -1",
              lks_schedule_check(&(lks_schedule){.kind = LKS_COSINE, .length = 3, .final_lr = -1}));
}

static void refuses_schedule(lks_schedule schedule, const char *part)
{
    schedule.lr = 0.1;
    LKT_FAILS(LKS_E_INVALID, part, lks_schedule_check(&schedule));
}

static void refuses_bad_newer_schedules(void **state)
{
    (void)state;
    refuses_schedule((lks_schedule){.kind = LKS_MULTI_STEP}, "there are 0 milestones");
    refuses_schedule((lks_schedule){.kind = LKS_MULTI_STEP, .milestone_count = 33},
                     "there are 33 milestones, expected 1 to 32");
    refuses_schedule(
        (lks_schedule){.kind = LKS_MULTI_STEP, .milestone_count = 2, .milestones = {5, 5}},
        "milestone 5 comes behind 5");
    refuses_schedule((lks_schedule){.kind = LKS_MULTI_STEP, .milestone_count = 1},
                     "milestone 0 comes behind 0, expected ascending numbers above 0");
    refuses_schedule((lks_schedule){.kind = LKS_EXPONENTIAL}, "gamma is 0");
    refuses_schedule((lks_schedule){.kind = LKS_LINEAR}, "schedule linear: length is 0");
    refuses_schedule((lks_schedule){.kind = LKS_LINEAR, .length = 1, .final_lr = -1},
                     "final_lr is -1");
    refuses_schedule((lks_schedule){.kind = LKS_POLYNOMIAL, .length = 1, .power = -1},
                     "power is -1");
    refuses_schedule((lks_schedule){.kind = LKS_ONE_CYCLE}, "schedule one_cycle: length is 0");
    refuses_schedule((lks_schedule){.kind = LKS_ONE_CYCLE, .length = 9, .rise = 1.0}, "rise is 1");
    refuses_schedule((lks_schedule){.kind = LKS_ONE_CYCLE, .length = 9, .start_div = -1},
                     "start_div is -1");
    refuses_schedule((lks_schedule){.kind = LKS_ONE_CYCLE, .length = 9, .final_div = (double)NAN},
                     "final_div is");
    refuses_schedule((lks_schedule){.kind = LKS_PLATEAU, .factor = 1.0}, "factor is 1");
    refuses_schedule((lks_schedule){.kind = LKS_PLATEAU, .patience = -2}, "patience is -2");
    refuses_schedule((lks_schedule){.kind = LKS_PLATEAU, .threshold = (double)NAN}, "threshold is");
    refuses_schedule((lks_schedule){.kind = LKS_PLATEAU, .threshold = 1},
                     "threshold is 1, expected a number below 1");
    refuses_schedule((lks_schedule){.kind = LKS_PLATEAU, .min_lr = -1}, "min_lr is -1");
}

static void refuses(lks_optim optim, const char *part)
{
    LKT_FAILS(LKS_E_INVALID, part, lks_optim_check(&optim));
}

static void optimizers(void **state)
{
    (void)state;
    lks_optim sgd = lks_sgd(0.9), adam = lks_adam(), adadelta = lks_adadelta();
    LKT_OK(lks_optim_check(&(lks_optim){0}));
    LKT_OK(lks_optim_check(&sgd));
    LKT_OK(lks_optim_check(&adam));
    LKT_OK(lks_optim_check(&adadelta));
    assert_true(adam.beta1 == 0.9 && adam.beta2 == 0.999 && adam.epsilon == 1e-8);
    assert_true(adadelta.rho == 0.9 && adadelta.epsilon == 1e-6);
    lks_optim adamw = lks_adamw(), rmsprop = lks_rmsprop();
    LKT_OK(lks_optim_check(&adamw));
    LKT_OK(lks_optim_check(&rmsprop));
    assert_true(adamw.beta2 == 0.999 && adamw.epsilon == 1e-8 && adamw.weight_decay == 0.01);
    assert_true(rmsprop.alpha == 0.99 && rmsprop.epsilon == 1e-8 && !rmsprop.centered);
    sgd.nesterov = true;
    LKT_OK(lks_optim_check(&sgd));

    refuses((lks_optim){.kind = 99}, "kind is 99");
    refuses((lks_optim){.momentum = -1.0}, "sgd: momentum is -1");
    refuses((lks_optim){.momentum = (double)NAN}, "sgd: momentum");
    refuses((lks_optim){.weight_decay = (double)INFINITY}, "sgd: weight_decay is inf");
    refuses((lks_optim){.dampening = 2.0}, "sgd: dampening is 2");
    refuses((lks_optim){.nesterov = true}, "nesterov needs a momentum");
    refuses((lks_optim){.nesterov = true, .momentum = 0.9, .dampening = 0.1}, "no dampening");
    refuses((lks_optim){.kind = LKS_ADAM, .beta1 = 1.0}, "adam: beta1 is 1");
    refuses((lks_optim){.kind = LKS_ADAM, .beta2 = -0.5}, "adam: beta2 is -0.5");
    refuses((lks_optim){.kind = LKS_ADAM, .epsilon = -1.0}, "adam: epsilon is -1");
    refuses((lks_optim){.kind = LKS_ADADELTA, .rho = 1.5}, "adadelta: rho is 1.5");
    refuses((lks_optim){.kind = LKS_ADADELTA, .epsilon = (double)NAN}, "adadelta: epsilon");
    refuses((lks_optim){.kind = LKS_ADAMW, .beta1 = 1.0}, "adamw: beta1 is 1");
    refuses((lks_optim){.kind = LKS_ADAMW, .weight_decay = -1.0}, "adamw: weight_decay is -1");
    refuses((lks_optim){.kind = LKS_ADAMP, .delta = -1.0}, "adamp: delta is -1");
    refuses((lks_optim){.kind = LKS_ADAMP, .wd_ratio = (double)NAN}, "adamp: wd_ratio is");
    refuses((lks_optim){.kind = LKS_LARS, .trust = -1.0}, "lars: trust is -1");
    refuses((lks_optim){.kind = LKS_LAMB, .beta2 = 1.0}, "lamb: beta2 is 1");
    refuses((lks_optim){.kind = LKS_RMSPROP, .alpha = 1.5}, "rmsprop: alpha is 1.5");
    refuses((lks_optim){.kind = LKS_RMSPROP, .momentum = -1.0}, "rmsprop: momentum is -1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_pytorch),
        cmocka_unit_test(rates_are_exact),
        cmocka_unit_test(plateaus_match_pytorch),
        cmocka_unit_test(plateaus_take_what_is_no_number),
        cmocka_unit_test(defaults_and_ends),
        cmocka_unit_test(refuses_bad_schedules),
        cmocka_unit_test(refuses_bad_newer_schedules),
        cmocka_unit_test(optimizers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

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
    snprintf(path, sizeof path, "%s/tests/train/golden/%s", source ? source : ".", name);
    json_error_t problem;
    json_t *json = json_load_file(path, 0, &problem);
    if (!json) fail_msg("%s: %s", path, problem.text);
    return json;
}

static lks_schedule_kind kind_of(const char *name)
{
    if (strcmp(name, "step") == 0) return LKS_STEP;
    return strcmp(name, "cosine") == 0 ? LKS_COSINE : LKS_CONSTANT;
}

static lks_schedule schedule_of(const json_t *test)
{
    return (lks_schedule){
        .kind = kind_of(json_string_value(json_object_get(test, "kind"))),
        .lr = json_number_value(json_object_get(test, "lr")),
        .per_step = json_is_true(json_object_get(test, "per_step")),
        .warmup_steps = json_integer_value(json_object_get(test, "warmup_steps")),
        .step_size = json_integer_value(json_object_get(test, "step_size")),
        .gamma = json_number_value(json_object_get(test, "gamma")),
        .length = json_integer_value(json_object_get(test, "length")),
        .final_lr = json_number_value(json_object_get(test, "final_lr")),
    };
}

/*
 * PyTorch forms the rate of step t by t factors, one rounding each, and a sum (cosine); ours has at
 * most 2 log2(t) + 4 roundings. With t < 48 and one rounding at most 2^-53 of the value, both lie
 * within 3 * 48 + 16 roundings of the exact rate. A cosine multiplies by (1 + cos(t+1)) /
 * (1 + cos(t)), whose relative error grows where both are near 0: the absolute error is bounded by
 * the same count of roundings of the first rate.
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
            const double scale = schedule.kind == LKS_COSINE ? schedule.lr : expected;
            const double error = fabs(found - expected) / (scale * ROUNDINGS);
            if (error > worst) worst = error;
            if (error > 1.0) {
                fail_msg("%s: step %zu: found %.17g, expected %.17g",
                         json_string_value(json_object_get(test, "name")), step, found, expected);
            }
        }
    }
    assert_true(index >= 9);
    print_message("largest difference: %.2g of the bound\n", worst);
    json_decref(golden);
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
    LKT_FAILS(LKS_E_INVALID, "length of the cosine is 0",
              lks_schedule_check(&(lks_schedule){.kind = LKS_COSINE}));
    LKT_FAILS(LKS_E_INVALID, "final_lr is -1",
              lks_schedule_check(&(lks_schedule){.kind = LKS_COSINE, .length = 3, .final_lr = -1}));
}

static void refuses(lks_optim optim, const char *part)
{
    LKT_FAILS(LKS_E_INVALID, part, lks_optim_check(&optim));
}

static void optimizers(void **state)
{
    (void)state;
    lks_optim sgd = lks_sgd(0.9f), adam = lks_adam(), adadelta = lks_adadelta();
    LKT_OK(lks_optim_check(&(lks_optim){0}));
    LKT_OK(lks_optim_check(&sgd));
    LKT_OK(lks_optim_check(&adam));
    LKT_OK(lks_optim_check(&adadelta));
    assert_true(adam.beta1 == 0.9f && adam.beta2 == 0.999f && adam.epsilon == 1e-8f);
    assert_true(adadelta.rho == 0.9f && adadelta.epsilon == 1e-6f);
    sgd.nesterov = true;
    LKT_OK(lks_optim_check(&sgd));

    refuses((lks_optim){.kind = 7}, "kind is 7");
    refuses((lks_optim){.momentum = -1.0f}, "sgd: momentum is -1");
    refuses((lks_optim){.momentum = NAN}, "sgd: momentum");
    refuses((lks_optim){.weight_decay = INFINITY}, "sgd: weight_decay is inf");
    refuses((lks_optim){.dampening = 2.0f}, "sgd: dampening is 2");
    refuses((lks_optim){.nesterov = true}, "nesterov needs a momentum");
    refuses((lks_optim){.nesterov = true, .momentum = 0.9f, .dampening = 0.1f}, "no dampening");
    refuses((lks_optim){.kind = LKS_ADAM, .beta1 = 1.0f}, "adam: beta1 is 1");
    refuses((lks_optim){.kind = LKS_ADAM, .beta2 = -0.5f}, "adam: beta2 is -0.5");
    refuses((lks_optim){.kind = LKS_ADAM, .epsilon = -1.0f}, "adam: epsilon is -1");
    refuses((lks_optim){.kind = LKS_ADADELTA, .rho = 1.5f}, "adadelta: rho is 1.5");
    refuses((lks_optim){.kind = LKS_ADADELTA, .epsilon = NAN}, "adadelta: epsilon");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_pytorch),
        cmocka_unit_test(defaults_and_ends),
        cmocka_unit_test(refuses_bad_schedules),
        cmocka_unit_test(optimizers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

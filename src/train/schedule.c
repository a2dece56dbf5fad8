#include <math.h>

#include <lockstep/optim.h>

#include "base/check.h"
#include "base/real.h"

/* base^n from exact operations in a fixed order: libm's pow differs by version. */
static double power(double base, int64_t n)
{
    double result = 1.0;
    for (double square = base; n > 0; n >>= 1, square *= square) {
        if (n & 1) result *= square;
    }
    return result;
}

double lks_schedule_at(const lks_schedule *schedule, int64_t step, int64_t epoch)
{
    const int64_t t = schedule->per_step ? step : epoch;
    const double lr = schedule->lr;
    double rate = lr;
    if (schedule->kind == LKS_STEP) {
        const int64_t size = schedule->step_size ? schedule->step_size : 1;
        const double gamma = schedule->gamma != 0.0 ? schedule->gamma : 0.1;
        rate = lr * power(gamma, t / size);
    } else if (schedule->kind == LKS_COSINE) {
        const double final = schedule->final_lr;
        const double done = (double)(t < schedule->length ? t : schedule->length);
        const double turns = done / (2.0 * (double)schedule->length);
        rate = final + (lr - final) * (1.0 + lki_cos_2pi(turns)) / 2.0;
    }
    if (step < schedule->warmup_steps) {
        rate *= (double)(step + 1) / ((double)schedule->warmup_steps + 1.0);
    }
    return rate;
}

lks_status lks_schedule_check(const lks_schedule *schedule)
{
    if (schedule->kind != LKS_CONSTANT && schedule->kind != LKS_STEP &&
        schedule->kind != LKS_COSINE) {
        return LKI_FAIL(LKS_E_INVALID,
                        "schedule: kind is %d, expected LKS_CONSTANT, _STEP or _COSINE",
                        (int)schedule->kind);
    }
    if (!(schedule->lr >= 0.0) || !isfinite(schedule->lr)) {
        return LKI_FAIL(LKS_E_INVALID, "schedule: the learning rate is %g, expected 0 or more",
                        schedule->lr);
    }
    if (schedule->warmup_steps < 0) {
        return LKI_FAIL(LKS_E_INVALID, "schedule: warmup_steps is %lld, expected 0 or more",
                        (long long)schedule->warmup_steps);
    }
    if (schedule->kind == LKS_STEP && schedule->step_size < 0) {
        return LKI_FAIL(LKS_E_INVALID, "schedule: step_size is %lld, expected 1 or more",
                        (long long)schedule->step_size);
    }
    if (schedule->kind == LKS_STEP && (!(schedule->gamma >= 0.0) || !isfinite(schedule->gamma))) {
        return LKI_FAIL(LKS_E_INVALID, "schedule: gamma is %g, expected a positive number",
                        schedule->gamma);
    }
    if (schedule->kind == LKS_COSINE && schedule->length < 1) {
        return LKI_FAIL(LKS_E_INVALID,
                        "schedule: the length of the cosine is %lld, expected 1 or more: the "
                        "number of %s until final_lr",
                        (long long)schedule->length, schedule->per_step ? "steps" : "epochs");
    }
    if (schedule->kind == LKS_COSINE &&
        (!(schedule->final_lr >= 0.0) || !isfinite(schedule->final_lr))) {
        return LKI_FAIL(LKS_E_INVALID, "schedule: final_lr is %g, expected 0 or more",
                        schedule->final_lr);
    }
    return LKS_OK;
}

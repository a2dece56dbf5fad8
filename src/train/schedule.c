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

static double real_power(double base, double exponent)
{
    if (exponent == floor(exponent) && exponent <= 64.0) return power(base, (int64_t)exponent);
    return base > 0.0 ? lki_exp(exponent * lki_log(base)) : 0.0;
}

/* From `begin` to `end` by half a cosine; done is 0 to 1. */
static double half_cosine(double begin, double end, double done)
{
    return end + (begin - end) * (1.0 + lki_cos_2pi(done / 2.0)) / 2.0;
}

/* The share of the schedule's length that is done at t. */
static double done_at(const lks_schedule *schedule, int64_t t)
{
    return (double)(t < schedule->length ? t : schedule->length) / (double)schedule->length;
}

static double or_default(double value, double standard)
{
    return value != 0.0 ? value : standard;
}

static double multi_step(const lks_schedule *schedule, int64_t t)
{
    int64_t passed = 0;
    for (int i = 0; i < schedule->milestone_count; i++) passed += schedule->milestones[i] <= t;
    return schedule->lr * power(or_default(schedule->gamma, 0.1), passed);
}

static double one_cycle(const lks_schedule *schedule, int64_t t)
{
    const double start = schedule->lr / or_default(schedule->start_div, 25.0);
    const double end = start / or_default(schedule->final_div, 1e4);
    const double top = or_default(schedule->rise, 0.3) * (double)schedule->length - 1.0;
    const double last = (double)schedule->length - 1.0;
    if ((double)t >= last) return end;
    if ((double)t <= top && top > 0.0) return half_cosine(start, schedule->lr, (double)t / top);
    return half_cosine(schedule->lr, end, ((double)t - top) / (last - top));
}

/* The rate without warm-up. */
static double rate_at(const lks_schedule *schedule, int64_t t)
{
    const double lr = schedule->lr, final = schedule->final_lr;
    switch (schedule->kind) {
    case LKS_CONSTANT:
    case LKS_PLATEAU:
        break;
    case LKS_STEP: {
        const int64_t size = schedule->step_size ? schedule->step_size : 1;
        return lr * power(or_default(schedule->gamma, 0.1), t / size);
    }
    case LKS_COSINE: {
        const double done = (double)(t < schedule->length ? t : schedule->length);
        const double turns = done / (2.0 * (double)schedule->length);
        return final + (lr - final) * (1.0 + lki_cos_2pi(turns)) / 2.0;
    }
    case LKS_MULTI_STEP:
        return multi_step(schedule, t);
    case LKS_EXPONENTIAL:
        return lr * power(schedule->gamma, t);
    case LKS_LINEAR:
        return lr + (final - lr) * done_at(schedule, t);
    case LKS_POLYNOMIAL:
        return final + (lr - final) *
                           real_power(1.0 - done_at(schedule, t), or_default(schedule->power, 1.0));
    case LKS_ONE_CYCLE:
        return one_cycle(schedule, t);
    }
    return lr;
}

double lks_schedule_at(const lks_schedule *schedule, int64_t step, int64_t epoch)
{
    double rate = rate_at(schedule, schedule->per_step ? step : epoch);
    if (step < schedule->warmup_steps) {
        rate *= (double)(step + 1) / ((double)schedule->warmup_steps + 1.0);
    }
    return rate;
}

lks_plateau lks_plateau_begin(const lks_schedule *schedule)
{
    return (lks_plateau){.lr = schedule->lr, .best = (double)NAN};
}

void lks_plateau_observe(const lks_schedule *schedule, lks_plateau *plateau, double loss)
{
    const double least_change = 1e-8; /* PyTorch's eps */
    const double threshold = or_default(schedule->threshold, 1e-4);
    const double bar = plateau->best * (1.0 - (threshold > 0.0 ? threshold : 0.0));
    const int patience = schedule->patience == 0 ? 10 : schedule->patience;
    if (isfinite(loss) && (isnan(plateau->best) || loss < bar)) {
        plateau->best = loss;
        plateau->bad = 0;
        return;
    }
    plateau->bad++;
    if (plateau->bad <= (patience > 0 ? patience : 0)) return;
    const double reduced = plateau->lr * or_default(schedule->factor, 0.1);
    const double lr = reduced > schedule->min_lr ? reduced : schedule->min_lr;
    if (plateau->lr - lr > least_change) plateau->lr = lr;
    plateau->bad = 0;
}

/* low <= value, or low < value where `above`, and finite. */
static lks_status at_least(const char *field, double value, double low, bool above)
{
    if ((above ? value > low : value >= low) && isfinite(value)) return LKS_OK;
    return LKI_FAIL(LKS_E_INVALID, "schedule: %s is %g, expected %s %g", field, value,
                    above ? "a number above" : "a number of at least", low);
}

static lks_status check_length(const lks_schedule *schedule, const char *name)
{
    if (schedule->length >= 1) return LKS_OK;
    return LKI_FAIL(LKS_E_INVALID,
                    "schedule: the length of the %s is %lld, expected 1 or more: the number of %s "
                    "until its end",
                    name, (long long)schedule->length, schedule->per_step ? "steps" : "epochs");
}

static lks_status check_milestones(const lks_schedule *schedule)
{
    if (schedule->milestone_count < 1 || schedule->milestone_count > LKS_MAX_MILESTONES) {
        return LKI_FAIL(LKS_E_INVALID, "schedule: there are %d milestones, expected 1 to %d",
                        schedule->milestone_count, LKS_MAX_MILESTONES);
    }
    for (int i = 0; i < schedule->milestone_count; i++) {
        const int64_t before = i > 0 ? schedule->milestones[i - 1] : 0;
        if (schedule->milestones[i] > before) continue;
        return LKI_FAIL(LKS_E_INVALID,
                        "schedule: milestone %lld comes behind %lld, expected ascending numbers "
                        "above 0",
                        (long long)schedule->milestones[i], (long long)before);
    }
    return at_least("gamma", schedule->gamma, 0.0, false);
}

static lks_status check_one_cycle(const lks_schedule *schedule)
{
    LKI_TRY(check_length(schedule, "one_cycle"));
    LKI_TRY(at_least("start_div", or_default(schedule->start_div, 25.0), 0.0, true));
    LKI_TRY(at_least("final_div", or_default(schedule->final_div, 1e4), 0.0, true));
    const double rise = or_default(schedule->rise, 0.3);
    if (rise > 0.0 && rise < 1.0) return LKS_OK;
    return LKI_FAIL(LKS_E_INVALID, "schedule: rise is %g, expected a share above 0 and below 1",
                    rise);
}

static lks_status check_plateau(const lks_schedule *schedule)
{
    const double factor = or_default(schedule->factor, 0.1);
    if (!(factor > 0.0 && factor < 1.0)) {
        return LKI_FAIL(LKS_E_INVALID, "schedule: factor is %g, expected one above 0 and below 1",
                        factor);
    }
    if (schedule->patience < -1) {
        return LKI_FAIL(LKS_E_INVALID, "schedule: patience is %d, expected 0 or more, or -1 (none)",
                        schedule->patience);
    }
    if (!(schedule->threshold < 1.0)) {
        return LKI_FAIL(LKS_E_INVALID, "schedule: threshold is %g, expected a number below 1",
                        schedule->threshold);
    }
    return at_least("min_lr", schedule->min_lr, 0.0, false);
}

static lks_status check_kind(const lks_schedule *schedule)
{
    switch (schedule->kind) {
    case LKS_CONSTANT:
        return LKS_OK;
    case LKS_STEP:
        if (schedule->step_size < 0) {
            return LKI_FAIL(LKS_E_INVALID, "schedule: step_size is %lld, expected 1 or more",
                            (long long)schedule->step_size);
        }
        return at_least("gamma", schedule->gamma, 0.0, false);
    case LKS_COSINE:
        LKI_TRY(check_length(schedule, "cosine"));
        return at_least("final_lr", schedule->final_lr, 0.0, false);
    case LKS_MULTI_STEP:
        return check_milestones(schedule);
    case LKS_EXPONENTIAL:
        return at_least("gamma", schedule->gamma, 0.0, true);
    case LKS_LINEAR:
        LKI_TRY(check_length(schedule, "linear"));
        return at_least("final_lr", schedule->final_lr, 0.0, false);
    case LKS_POLYNOMIAL:
        LKI_TRY(check_length(schedule, "polynomial"));
        LKI_TRY(at_least("power", or_default(schedule->power, 1.0), 0.0, true));
        return at_least("final_lr", schedule->final_lr, 0.0, false);
    case LKS_ONE_CYCLE:
        return check_one_cycle(schedule);
    case LKS_PLATEAU:
        return check_plateau(schedule);
    }
    return LKI_FAIL(LKS_E_INVALID,
                    "schedule: kind is %d, expected LKS_CONSTANT or another lks_schedule_kind",
                    (int)schedule->kind);
}

lks_status lks_schedule_check(const lks_schedule *schedule)
{
    LKI_TRY(at_least("the learning rate", schedule->lr, 0.0, false));
    if (schedule->warmup_steps < 0) {
        return LKI_FAIL(LKS_E_INVALID, "schedule: warmup_steps is %lld, expected 0 or more",
                        (long long)schedule->warmup_steps);
    }
    return check_kind(schedule);
}

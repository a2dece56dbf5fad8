#include <math.h>
#include <stddef.h>

#include <lockstep/optim.h>

#include "base/check.h"
#include "base/float.h"
#include "numeric/real.h"

/* From `begin` to `end` by half a cosine, of whose `span` a part is `done` and the `rest` is left. As a
 * sum of two terms that are not negative, neither of which is formed by a difference: sin^2 and cos^2
 * of a quarter turn's part. */
static double half_cosine(double begin, double end, double done, double rest, double span)
{
    const double left = lki_sin_2pi(rest / (4.0 * span)), gone = lki_sin_2pi(done / (4.0 * span));
    return begin * (left * left) + end * (gone * gone);
}

/* The part of the schedule's length that is done at t, in its units. */
static double done_at(const lks_schedule *schedule, int64_t t)
{
    return (double)(t < schedule->length ? t : schedule->length);
}

static double or_default(double value, double standard)
{
    return value != 0.0 ? value : standard;
}

static double multi_step(const lks_schedule *schedule, int64_t t)
{
    int64_t passed = 0;
    for (int i = 0; i < schedule->milestone_count; i++) passed += schedule->milestones[i] <= t;
    return schedule->lr * lki_power(or_default(schedule->gamma, 0.1), passed);
}

static double one_cycle(const lks_schedule *schedule, int64_t t)
{
    const double start = schedule->lr / or_default(schedule->start_div, 25.0);
    const double end = start / or_default(schedule->final_div, 1e4);
    const double top = or_default(schedule->rise, 0.3) * (double)schedule->length - 1.0;
    const double last = (double)schedule->length - 1.0, at = (double)t;
    if (at >= last) return end;
    if (at <= top && top > 0.0) return half_cosine(start, schedule->lr, at, top - at, top);
    return half_cosine(schedule->lr, end, at - top, last - at, last - top);
}

/* The rate without warm-up. */
static double rate_at(const lks_schedule *schedule, int64_t t)
{
    const double lr = schedule->lr, final = schedule->final_lr;
    const double length = (double)schedule->length, done = done_at(schedule, t);
    const double rest = length - done;
    switch (schedule->kind) {
    case LKS_CONSTANT:
    case LKS_PLATEAU:
        break;
    case LKS_STEP: {
        const int64_t size = schedule->step_size ? schedule->step_size : 1;
        return lr * lki_power(or_default(schedule->gamma, 0.1), t / size);
    }
    case LKS_COSINE:
        return half_cosine(lr, final, done, rest, length);
    case LKS_MULTI_STEP:
        return multi_step(schedule, t);
    case LKS_EXPONENTIAL:
        return lr * lki_power(schedule->gamma, t);
    case LKS_LINEAR:
        return lr * (rest / length) + final * (done / length);
    case LKS_POLYNOMIAL: {
        const double left = lki_real_power(rest / length, or_default(schedule->power, 1.0));
        return lr * left + final * (1.0 - left);
    }
    case LKS_ONE_CYCLE:
        return one_cycle(schedule, t);
    }
    return lr;
}

double lks_schedule_at(const lks_schedule *schedule, int64_t step, int64_t epoch)
{
    if (schedule == NULL) return (double)NAN;
    const unsigned saved = lki_float_enter();
    volatile double rate = rate_at(schedule, schedule->per_step ? step : epoch); /* before leave */
    if (step < schedule->warmup_steps) {
        rate *= (double)(step + 1) / ((double)schedule->warmup_steps + 1.0);
    }
    lki_float_leave(saved);
    return rate;
}

lks_plateau lks_plateau_begin(const lks_schedule *schedule)
{
    return (lks_plateau){.lr = schedule != NULL ? schedule->lr : 0, .best = (double)NAN};
}

static void observe(const lks_schedule *schedule, lks_plateau *plateau, double loss)
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

void lks_plateau_observe(const lks_schedule *schedule, lks_plateau *plateau, double loss)
{
    if (schedule == NULL || plateau == NULL) return;
    const unsigned saved = lki_float_enter();
    observe(schedule, plateau, loss);
    lki_float_leave(saved);
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
    if (schedule == NULL) return LKI_FAIL_NULL(schedule);
    LKI_TRY(at_least("the learning rate", schedule->lr, 0.0, false));
    if (schedule->warmup_steps < 0) {
        return LKI_FAIL(LKS_E_INVALID, "schedule: warmup_steps is %lld, expected 0 or more",
                        (long long)schedule->warmup_steps);
    }
    return check_kind(schedule);
}

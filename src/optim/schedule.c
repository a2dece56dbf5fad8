/* Schedules: found by kind and name, asked for rates. */
#include <math.h>
#include <stdio.h>

#include "base/check.h"
#include "base/float.h"
#include "base/named.h"
#include "optim/schedule/schedule.h"

static const void *const rules[] = {
#define X(KIND, name) &lki_schedule_##name,
    LKS_SCHEDULES(X)
#undef X
};
static const lki_named named = LKI_NAMED(rules);

const lki_schedule_rule *lki_schedule_rule_at(int number)
{
    return lki_named_at(&named, number);
}

const lki_schedule_rule *lki_schedule_find(const char *name)
{
    return lki_named_find(&named, name);
}

const lki_schedule_rule *lki_schedule_of(lks_schedule_kind kind)
{
    const lki_schedule_rule *rule;
    for (int i = 0; (rule = lki_schedule_rule_at(i)) != NULL; i++)
        if (rule->kind == kind) return rule;
    return NULL;
}

/* The rate without warm-up. */
static double rate_at(const lks_schedule *schedule, int64_t t)
{
    const lki_schedule_rule *rule = lki_schedule_of(schedule->kind);
    return rule != NULL && rule->rate != NULL ? rule->rate(schedule, t) : schedule->lr;
}

double lks_schedule_at(const lks_schedule *schedule, int64_t step, int64_t epoch)
{
    if (schedule == NULL) return (double)NAN;
    const unsigned saved = lki_float_enter();
    const int64_t done = schedule->per_step ? step : epoch;
    const int64_t t = done > schedule->begin ? done - schedule->begin : 0;
    volatile double rate = rate_at(schedule, t); /* before leave */
    if (step < schedule->warmup_steps) {
        rate *= (double)(step + 1) / ((double)schedule->warmup_steps + 1.0);
    }
    lki_float_leave(saved);
    return rate;
}

lks_status lks_schedule_check(const lks_schedule *schedule)
{
    if (schedule == NULL) return LKI_FAIL_NULL(schedule);
    const lki_schedule_rule *rule = lki_schedule_of(schedule->kind);
    if (!(schedule->lr >= 0.0 && isfinite(schedule->lr)))
        return LKI_FAIL(LKS_E_INVALID,
                        "schedule: the learning rate is %g, expected a number of at least 0",
                        schedule->lr);
    if (schedule->warmup_steps < 0) {
        return LKI_FAIL(LKS_E_INVALID, "schedule: warmup_steps is %lld, expected 0 or more",
                        (long long)schedule->warmup_steps);
    }
    if (schedule->begin < 0)
        return LKI_FAIL(LKS_E_INVALID, "schedule: begin is %lld, expected 0 or more",
                        (long long)schedule->begin);
    if (rule == NULL)
        return LKI_FAIL(LKS_E_INVALID,
                        "schedule: kind is %d, expected LKS_CONSTANT or another lks_schedule_kind",
                        (int)schedule->kind);
    char who[64];
    lks_schedule filled = *schedule;
    snprintf(who, sizeof who, "schedule %s", rule->name);
    lki_attributes_fill(&rule->attributes, &filled);
    LKI_TRY(lki_attributes_check(&rule->attributes, &filled, who));
    return rule->check != NULL ? rule->check(schedule) : LKS_OK;
}

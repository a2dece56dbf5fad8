#include <stddef.h>

#include "base/check.h"
#include "numeric/real.h"
#include "optim/schedule/schedule.h"

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(INTS, lks_schedule, milestones, .count = offsetof(lks_schedule, milestone_count)),
    LKI_SCHEDULE_GAMMA,
};

static double multi_step_rate(const lks_schedule *schedule, int64_t t)
{
    int64_t passed = 0;
    for (int i = 0; i < schedule->milestone_count; i++) passed += schedule->milestones[i] <= t;
    return schedule->lr * lki_power(lki_or_default(schedule->gamma, 0.1), passed);
}

static lks_status multi_step_check(const lks_schedule *schedule)
{
    if (schedule->milestone_count < 1 || schedule->milestone_count > LKS_MAX_MILESTONES) {
        return LKI_FAIL(LKS_E_INVALID,
                        "schedule multi_step: there are %d milestones, expected 1 to %d",
                        schedule->milestone_count, LKS_MAX_MILESTONES);
    }
    for (int i = 0; i < schedule->milestone_count; i++) {
        const int64_t before = i > 0 ? schedule->milestones[i - 1] : 0;
        if (schedule->milestones[i] > before) continue;
        return LKI_FAIL(
            LKS_E_INVALID,
            "schedule multi_step: milestone %lld comes behind %lld, expected ascending numbers "
            "above 0",
            (long long)schedule->milestones[i], (long long)before);
    }
    return LKS_OK;
}

const lki_schedule_rule lki_schedule_multi_step = {
    .name = "multi_step",
    .kind = LKS_MULTI_STEP,
    .attributes = LKI_ATTRIBUTES(attributes),
    .rate = multi_step_rate,
    .check = multi_step_check,
    .needs = "milestones",
    .example = "[30, 60]",
};

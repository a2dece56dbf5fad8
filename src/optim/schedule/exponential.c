#include "numeric/real.h"
#include "optim/schedule/schedule.h"

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(DOUBLE, lks_schedule, gamma, .range = "(0,)"),
};

static double exponential_rate(const lks_schedule *schedule, int64_t t)
{
    return schedule->lr * lki_power(schedule->gamma, t);
}

const lki_schedule_rule lki_schedule_exponential = {
    .name = "exponential",
    .kind = LKS_EXPONENTIAL,
    .attributes = LKI_ATTRIBUTES(attributes),
    .rate = exponential_rate,
    .needs = "gamma",
    .example = "0.95",
};

#include "numeric/real.h"
#include "optim/schedule/schedule.h"

static double exponential_rate(const lks_schedule *schedule, int64_t t)
{
    return schedule->lr * lki_power(schedule->gamma, t);
}

static lks_status exponential_check(const lks_schedule *schedule)
{
    return lki_schedule_at_least("gamma", schedule->gamma, 0.0, true);
}

const lki_schedule_rule lki_schedule_exponential = {
    .name = "exponential",
    .kind = LKS_EXPONENTIAL,
    .rate = exponential_rate,
    .check = exponential_check,
    .needs = "gamma",
    .example = "0.95",
};

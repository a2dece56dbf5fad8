#include "numeric/real.h"
#include "optim/schedule/schedule.h"

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(INT, lks_schedule, step_size, .range = "[1,)", .fallback = "1",
                  .most = INT64_MAX),
    LKI_SCHEDULE_GAMMA,
};

static double step_rate(const lks_schedule *schedule, int64_t t)
{
    const int64_t size = schedule->step_size ? schedule->step_size : 1;
    return schedule->lr * lki_power(lki_or_default(schedule->gamma, 0.1), t / size);
}

const lki_schedule_rule lki_schedule_step = {
    .name = "step",
    .kind = LKS_STEP,
    .attributes = LKI_ATTRIBUTES(attributes),
    .rate = step_rate,
};

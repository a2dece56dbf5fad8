#include "base/check.h"
#include "numeric/real.h"
#include "optim/schedule/schedule.h"

static double step_rate(const lks_schedule *schedule, int64_t t)
{
    const int64_t size = schedule->step_size ? schedule->step_size : 1;
    return schedule->lr * lki_power(lki_or_default(schedule->gamma, 0.1), t / size);
}

static lks_status step_check(const lks_schedule *schedule)
{
    if (schedule->step_size < 0)
        return LKI_FAIL(LKS_E_INVALID, "schedule: step_size is %lld, expected 1 or more",
                        (long long)schedule->step_size);
    return lki_schedule_at_least("gamma", schedule->gamma, 0.0, false);
}

const lki_schedule_rule lki_schedule_step = {
    .name = "step",
    .kind = LKS_STEP,
    .rate = step_rate,
    .check = step_check,
};

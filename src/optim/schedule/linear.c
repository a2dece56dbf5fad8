#include "optim/schedule/schedule.h"

static double linear_rate(const lks_schedule *schedule, int64_t t)
{
    const double length = (double)schedule->length, done = lki_schedule_done(schedule, t);
    return schedule->lr * ((length - done) / length) + schedule->final_lr * (done / length);
}

static lks_status linear_check(const lks_schedule *schedule)
{
    return lki_schedule_check_end(schedule, "linear");
}

const lki_schedule_rule lki_schedule_linear = {
    .name = "linear",
    .kind = LKS_LINEAR,
    .rate = linear_rate,
    .check = linear_check,
};

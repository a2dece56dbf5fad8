#include "optim/schedule/schedule.h"

static const lki_attribute attributes[] = {
    LKI_SCHEDULE_LENGTH,
    LKI_SCHEDULE_FINAL,
};

static double linear_rate(const lks_schedule *schedule, int64_t t)
{
    const double length = (double)schedule->length, done = lki_schedule_done(schedule, t);
    return schedule->lr * ((length - done) / length) + schedule->final_lr * (done / length);
}

const lki_schedule_rule lki_schedule_linear = {
    .name = "linear",
    .kind = LKS_LINEAR,
    .attributes = LKI_ATTRIBUTES(attributes),
    .rate = linear_rate,
};

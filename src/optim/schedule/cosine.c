#include "optim/schedule/schedule.h"

static const lki_attribute attributes[] = {
    LKI_SCHEDULE_LENGTH,
    LKI_SCHEDULE_FINAL,
};

static double cosine_rate(const lks_schedule *schedule, int64_t t)
{
    const double length = (double)schedule->length, done = lki_schedule_done(schedule, t);
    return lki_half_cosine(schedule->lr, schedule->final_lr, done, length - done, length);
}

const lki_schedule_rule lki_schedule_cosine = {
    .name = "cosine",
    .kind = LKS_COSINE,
    .attributes = LKI_ATTRIBUTES(attributes),
    .rate = cosine_rate,
};

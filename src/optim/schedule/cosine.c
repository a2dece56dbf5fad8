#include "optim/schedule/schedule.h"

static double cosine_rate(const lks_schedule *schedule, int64_t t)
{
    const double length = (double)schedule->length, done = lki_schedule_done(schedule, t);
    return lki_half_cosine(schedule->lr, schedule->final_lr, done, length - done, length);
}

static lks_status cosine_check(const lks_schedule *schedule)
{
    return lki_schedule_check_end(schedule, "cosine");
}

const lki_schedule_rule lki_schedule_cosine = {
    .name = "cosine",
    .kind = LKS_COSINE,
    .rate = cosine_rate,
    .check = cosine_check,
};

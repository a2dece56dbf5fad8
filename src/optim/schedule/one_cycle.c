#include "optim/schedule/schedule.h"

static const lki_attribute attributes[] = {
    LKI_SCHEDULE_LENGTH,
    LKI_ATTRIBUTE(DOUBLE, lks_schedule, rise, .range = "(0,1)", .fallback = "0.3"),
    LKI_ATTRIBUTE(DOUBLE, lks_schedule, start_div, .range = "(0,)", .fallback = "25"),
    LKI_ATTRIBUTE(DOUBLE, lks_schedule, final_div, .range = "(0,)", .fallback = "10000"),
};

static double one_cycle_rate(const lks_schedule *schedule, int64_t t)
{
    const double start = schedule->lr / lki_or_default(schedule->start_div, 25.0);
    const double end = start / lki_or_default(schedule->final_div, 1e4);
    const double top = lki_or_default(schedule->rise, 0.3) * (double)schedule->length - 1.0;
    const double last = (double)schedule->length - 1.0, at = (double)t;
    if (at >= last) return end;
    if (at <= top && top > 0.0) return lki_half_cosine(start, schedule->lr, at, top - at, top);
    return lki_half_cosine(schedule->lr, end, at - top, last - at, last - top);
}

const lki_schedule_rule lki_schedule_one_cycle = {
    .name = "one_cycle",
    .kind = LKS_ONE_CYCLE,
    .attributes = LKI_ATTRIBUTES(attributes),
    .rate = one_cycle_rate,
    .per_step = true,
};

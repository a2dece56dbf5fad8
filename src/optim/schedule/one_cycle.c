#include "base/check.h"
#include "optim/schedule/schedule.h"

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

static lks_status check_one_cycle(const lks_schedule *schedule)
{
    LKI_TRY(lki_schedule_check_length(schedule, "one_cycle"));
    LKI_TRY(
        lki_schedule_at_least("start_div", lki_or_default(schedule->start_div, 25.0), 0.0, true));
    LKI_TRY(
        lki_schedule_at_least("final_div", lki_or_default(schedule->final_div, 1e4), 0.0, true));
    const double rise = lki_or_default(schedule->rise, 0.3);
    if (rise > 0.0 && rise < 1.0) return LKS_OK;
    return LKI_FAIL(LKS_E_INVALID, "schedule: rise is %g, expected a share above 0 and below 1",
                    rise);
}

const lki_schedule_rule lki_schedule_one_cycle = {
    .name = "one_cycle",
    .kind = LKS_ONE_CYCLE,
    .rate = one_cycle_rate,
    .check = check_one_cycle,
    .per_step = true,
};

#include "base/check.h"
#include "numeric/real.h"
#include "optim/schedule/schedule.h"

static double polynomial_rate(const lks_schedule *schedule, int64_t t)
{
    const double length = (double)schedule->length, done = lki_schedule_done(schedule, t);
    const double left = lki_real_power((length - done) / length,
                                       lki_or_default(schedule->power, 1.0));
    return schedule->lr * left + schedule->final_lr * (1.0 - left);
}

static lks_status polynomial_check(const lks_schedule *schedule)
{
    LKI_TRY(lki_schedule_check_length(schedule, "polynomial"));
    LKI_TRY(lki_schedule_at_least("power", lki_or_default(schedule->power, 1.0), 0.0, true));
    return lki_schedule_at_least("final_lr", schedule->final_lr, 0.0, false);
}

const lki_schedule_rule lki_schedule_polynomial = {
    .name = "polynomial",
    .kind = LKS_POLYNOMIAL,
    .rate = polynomial_rate,
    .check = polynomial_check,
};

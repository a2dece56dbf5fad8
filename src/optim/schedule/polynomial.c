#include "numeric/real.h"
#include "optim/schedule/schedule.h"

static const lki_attribute attributes[] = {
    LKI_SCHEDULE_LENGTH,
    LKI_SCHEDULE_FINAL,
    LKI_ATTRIBUTE(DOUBLE, lks_schedule, power, .range = "(0,)", .fallback = "1"),
};

static double polynomial_rate(const lks_schedule *schedule, int64_t t)
{
    const double length = (double)schedule->length, done = lki_schedule_done(schedule, t);
    const double left = lki_real_power((length - done) / length,
                                       lki_or_default(schedule->power, 1.0));
    return schedule->lr * left + schedule->final_lr * (1.0 - left);
}

const lki_schedule_rule lki_schedule_polynomial = {
    .name = "polynomial",
    .kind = LKS_POLYNOMIAL,
    .attributes = LKI_ATTRIBUTES(attributes),
    .rate = polynomial_rate,
};

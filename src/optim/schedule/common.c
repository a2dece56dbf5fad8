/* What schedules share. */
#include <math.h>

#include "base/check.h"
#include "numeric/real.h"
#include "optim/schedule/schedule.h"

/* As a sum of two terms that are not negative, neither of which is formed by a difference: sin^2 and cos^2
 * of a quarter turn's part. */
double lki_half_cosine(double begin, double end, double done, double rest, double span)
{
    const double left = lki_sin_2pi(rest / (4.0 * span)), gone = lki_sin_2pi(done / (4.0 * span));
    return begin * (left * left) + end * (gone * gone);
}

double lki_schedule_done(const lks_schedule *schedule, int64_t t)
{
    return (double)(t < schedule->length ? t : schedule->length);
}

lks_status lki_schedule_at_least(const char *field, double value, double low, bool above)
{
    if ((above ? value > low : value >= low) && isfinite(value)) return LKS_OK;
    return LKI_FAIL(LKS_E_INVALID, "schedule: %s is %g, expected %s %g", field, value,
                    above ? "a number above" : "a number of at least", low);
}

lks_status lki_schedule_check_length(const lks_schedule *schedule, const char *name)
{
    if (schedule->length >= 1) return LKS_OK;
    return LKI_FAIL(LKS_E_INVALID,
                    "schedule: the length of the %s is %lld, expected 1 or more: the number of %s "
                    "until its end",
                    name, (long long)schedule->length, schedule->per_step ? "steps" : "epochs");
}

lks_status lki_schedule_check_end(const lks_schedule *schedule, const char *name)
{
    LKI_TRY(lki_schedule_check_length(schedule, name));
    return lki_schedule_at_least("final_lr", schedule->final_lr, 0.0, false);
}

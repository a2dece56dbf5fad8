/* What schedules share. */
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

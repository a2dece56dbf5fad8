#include <math.h>
#include <stddef.h>

#include "base/check.h"
#include "base/float.h"
#include "optim/schedule/schedule.h"

static lks_status check_plateau(const lks_schedule *schedule)
{
    const double factor = lki_or_default(schedule->factor, 0.1);
    if (!(factor > 0.0 && factor < 1.0)) {
        return LKI_FAIL(LKS_E_INVALID, "schedule: factor is %g, expected one above 0 and below 1",
                        factor);
    }
    if (schedule->patience < -1) {
        return LKI_FAIL(LKS_E_INVALID, "schedule: patience is %d, expected 0 or more, or -1 (none)",
                        schedule->patience);
    }
    if (!(schedule->threshold < 1.0)) {
        return LKI_FAIL(LKS_E_INVALID, "schedule: threshold is %g, expected a number below 1",
                        schedule->threshold);
    }
    return lki_schedule_at_least("min_lr", schedule->min_lr, 0.0, false);
}

lks_plateau lks_plateau_begin(const lks_schedule *schedule)
{
    return (lks_plateau){.lr = schedule != NULL ? schedule->lr : 0, .best = (double)NAN};
}

static void observe(const lks_schedule *schedule, lks_plateau *plateau, double loss)
{
    const double least_change = 1e-8; /* PyTorch's eps */
    const double threshold = lki_or_default(schedule->threshold, 1e-4);
    const double bar = plateau->best * (1.0 - (threshold > 0.0 ? threshold : 0.0));
    const int patience = schedule->patience == 0 ? 10 : schedule->patience;
    if (isfinite(loss) && (isnan(plateau->best) || loss < bar)) {
        plateau->best = loss;
        plateau->bad = 0;
        return;
    }
    plateau->bad++;
    if (plateau->bad <= (patience > 0 ? patience : 0)) return;
    const double reduced = plateau->lr * lki_or_default(schedule->factor, 0.1);
    const double lr = reduced > schedule->min_lr ? reduced : schedule->min_lr;
    if (plateau->lr - lr > least_change) plateau->lr = lr;
    plateau->bad = 0;
}

void lks_plateau_observe(const lks_schedule *schedule, lks_plateau *plateau, double loss)
{
    if (schedule == NULL || plateau == NULL) return;
    const unsigned saved = lki_float_enter();
    observe(schedule, plateau, loss);
    lki_float_leave(saved);
}

const lki_schedule_rule lki_schedule_reduce_on_plateau = {
    .name = "reduce_on_plateau",
    .kind = LKS_PLATEAU,
    .check = check_plateau,
    .from_losses = true,
};

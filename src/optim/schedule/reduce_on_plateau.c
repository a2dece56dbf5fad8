#include <limits.h>
#include <math.h>
#include <stddef.h>

#include "base/check.h"
#include "base/float.h"
#include "optim/schedule/schedule.h"

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(DOUBLE, lks_schedule, factor, .range = "(0,1)", .fallback = "0.1"),
    LKI_ATTRIBUTE(SHORT, lks_schedule, patience, .range = "[-1,)", .fallback = "10",
                  .most = INT_MAX),
    LKI_ATTRIBUTE(DOUBLE, lks_schedule, threshold, .fallback = "0.0001"),
    LKI_ATTRIBUTE(DOUBLE, lks_schedule, min_lr, .range = "[0,)"),
};

/* Below 0 it is none, however far. */
static lks_status reduce_on_plateau_check(const lks_schedule *schedule)
{
    if (schedule->threshold < 1.0) return LKS_OK;
    return LKI_FAIL(LKS_E_INVALID,
                    "schedule reduce_on_plateau: threshold is %g, expected a number below 1",
                    schedule->threshold);
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
    .attributes = LKI_ATTRIBUTES(attributes),
    .check = reduce_on_plateau_check,
    .from_losses = true,
};

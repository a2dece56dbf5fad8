/* What workers take for their replicas: balance.h. */
#include <string.h>

#include "model/model.h"
#include "numeric/median.h"

static const double LEAST_COST = 1e-9;

static void count(const lks_model *model, int worker, int64_t nanoseconds)
{
    if (model->mode != LKI_TRAIN) return;
    const int part = lki_balance_part(model->progress.step);
    model->balance->spent[worker * LKI_BALANCE_PARTS + part] += nanoseconds;
}

void lki_balance_spent(lks_model *model, int worker, int64_t begin)
{
    if (model->balance != NULL) count(model, worker, lki_laps_clock() - begin);
}

void lki_balance_waited(lks_model *model, int worker, int64_t begin)
{
    if (model->balance != NULL) count(model, worker, begin - lki_laps_clock());
}

void lki_balance_forget(lki_balance *balance)
{
    const size_t part = LKI_BALANCE_PARTS * sizeof(int64_t);
    memset(balance->spent, 0, (size_t)balance->own * part);
    memset(balance->stepped, 0, part);
    memset(balance->steps, 0, part);
    balance->seconds = 0;
}

/* Seconds a step, of nanoseconds in the parts of the window; 0: nothing was measured. */
static double seconds_of(const lki_balance *balance, const int64_t *nanoseconds)
{
    double mean[LKI_BALANCE_PARTS];
    int parts = 0;
    for (int p = 0; p < LKI_BALANCE_PARTS; p++)
        if (balance->steps[p] > 0)
            mean[parts++] = 1e-9 * (double)nanoseconds[p] / (double)balance->steps[p];
    return parts > 0 ? lki_upper_quartile(mean, parts) : 0;
}

void lki_balance_measure(const lki_balance *balance, double *told)
{
    told[LKI_TOLD_SECONDS] = balance->seconds;
    told[LKI_TOLD_STEP] = seconds_of(balance, balance->stepped);
    for (int w = 0; w < balance->own; w++) {
        const double spent = seconds_of(balance, balance->spent + w * LKI_BALANCE_PARTS) /
                             (double)balance->count[balance->first + w];
        told[LKI_TOLD_WORKERS + w] = spent > LEAST_COST ? spent : LEAST_COST;
    }
}

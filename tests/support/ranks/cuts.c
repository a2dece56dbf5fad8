#include "support/ranks/cuts.h"

#include <string.h>

#include "model/model.h"

static void pretend(void *user, int64_t step, double *cost, double *rest)
{
    lki_balance *balance = user;
    int most = 0;
    (void)step;
    for (int w = 0; w < balance->workers; w++) {
        cost[w] = 1;
        if (balance->count[w] > balance->count[most]) most = w;
    }
    cost[most] = 4;
    *rest = balance->rest[1] = 0;
    balance->before = true; /* and was so before */
    memcpy(cost + balance->workers, cost, (size_t)balance->workers * sizeof *cost);
}

void lkt_cut_often(lks_model *model)
{
    if (model->balance == NULL) return;
    model->balance->least = 0;
    model->balance->pretend = pretend;
    model->balance->pretend_user = model->balance;
}

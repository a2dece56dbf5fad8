/* Who should take how many replicas: arithmetic of balance.h, the same on every rank. */
#include "model/ranges/balance.h"

#include <math.h>

double lki_balance_predict(const int64_t *count, const double *cost, int workers, double rest)
{
    double most = 0;
    for (int w = 0; w < workers; w++) most = fmax(most, (double)count[w] * cost[w]);
    return rest + most;
}

/* The worker that would be ready first with one replica more. */
static int first_ready(const int64_t *count, const double *cost, int workers)
{
    int best = 0;
    for (int w = 1; w < workers; w++)
        if ((double)(count[w] + 1) * cost[w] < (double)(count[best] + 1) * cost[best]) best = w;
    return best;
}

/* The worker that is ready last, of those that can give one away. */
static int last_ready(const int64_t *count, const double *cost, int workers)
{
    int worst = -1;
    for (int w = 0; w < workers; w++)
        if (count[w] > 1 &&
            (worst < 0 || (double)count[w] * cost[w] > (double)count[worst] * cost[worst]))
            worst = w;
    return worst;
}

/* Each gets what it can do until all could be ready if replicas had parts, rounded down; then one by one. */
void lki_balance_share(int64_t *count, const double *cost, int workers, int64_t replicas)
{
    double speed = 0;
    int64_t left = replicas;
    for (int w = 0; w < workers; w++) speed += 1 / cost[w];
    for (int w = 0; w < workers; w++) {
        const int64_t whole = (int64_t)((double)replicas / (speed * cost[w]));
        count[w] = whole > 1 ? whole : 1;
        left -= count[w];
    }
    for (; left > 0; left--) count[first_ready(count, cost, workers)]++;
    for (; left < 0; left++) count[last_ready(count, cost, workers)]--;
}

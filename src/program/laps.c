/* The clock of laps. */
#include "program/laps.h"

#include <time.h>

int64_t lki_laps_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void lki_laps_add(lki_laps *laps, int id, int calls)
{
    const int64_t now = lki_laps_clock();
    laps->sum[id].nanoseconds += now - laps->last;
    laps->sum[id].calls += calls;
    laps->last = now;
}

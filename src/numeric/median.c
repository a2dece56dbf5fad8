#include "numeric/median.h"

#include <stdlib.h>

static int by_size(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double lki_median(double *value, int count)
{
    qsort(value, (size_t)count, sizeof *value, by_size);
    return (value[(count - 1) / 2] + value[count / 2]) / 2;
}

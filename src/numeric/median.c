#include "numeric/median.h"

#include <stdlib.h>

static int by_size(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double middle(const double *sorted, int count)
{
    return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
}

double lki_median(double *value, int count)
{
    qsort(value, (size_t)count, sizeof *value, by_size);
    return middle(value, count);
}

double lki_upper_quartile(double *value, int count)
{
    qsort(value, (size_t)count, sizeof *value, by_size);
    return middle(value + count / 2, count - count / 2);
}

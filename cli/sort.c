#include "cli/sort.h"

#include <stdlib.h>

static int sort_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void sort_ascending(double *values, size_t count)
{
    qsort(values, count, sizeof *values, sort_compare);
}

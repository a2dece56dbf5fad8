/* Numbers in order. */
#ifndef CLI_SORT_H
#define CLI_SORT_H

#include <stddef.h>

void sort_ascending(double *values, size_t count);

#endif

/* An array of floats, a row after the other, that standard output gets as a .npy file. */
#ifndef CLI_OUT_ARRAY_H
#define CLI_OUT_ARRAY_H

#include <stdint.h>

#include <lockstep/status.h>

#include "cli/pool.h"

typedef struct array {
    float *values;
    int64_t columns, used;
} array;

/* Fails where standard output is a terminal. */
LKS_MUSTUSE lks_status array_check_place(void);

/* For at most so many rows. */
void array_begin(array *a, cli_pool *pool, int64_t rows, int64_t columns);
void array_add(array *a, double value);
LKS_MUSTUSE lks_status array_print(const array *a);

#endif

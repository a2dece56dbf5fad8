/* Exact sums: 128-bit fixed point in units of 2^-32. */
#ifndef LKI_NUMERIC_FIXED_H
#define LKI_NUMERIC_FIXED_H

#include <stdint.h>

/* As lks_metrics has it: value = (high * 2^64 + low) * 2^-32. */
typedef struct lki_fixed {
    int64_t high;
    uint64_t low;
} lki_fixed;

/* Adds x rounded to the nearest multiple of 2^-32 (ties to even). x is finite; |x| is clamped to
 * 2^62, so that 2^32 terms cannot overflow. */
void lki_fixed_add(lki_fixed *sum, double x);
void lki_fixed_merge(lki_fixed *sum, lki_fixed part);
double lki_fixed_value(lki_fixed sum); /* nearest double */

#endif

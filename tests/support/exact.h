/*
 * Operations in double from their formulas, for the errors of backends: values without the rounding
 * to f32 that ref's results have. Plain loops over whole tensors, and no code of the library.
 */
#ifndef LKT_EXACT_H
#define LKT_EXACT_H

#include "support/ops.h"

/* From the case's memory; NULL where there is none. */
typedef struct lkt_exact {
    double *out;
    double *d_in[LKI_MAX_IN];
    double *d_param[LKI_MAX_PARAM];
} lkt_exact;

/* The case's one node in training. Dropout takes its mask from `out`, what a backend computed. */
void lkt_exact_make(lkt_case *c, const float *out, lkt_exact *result);

/* The same with a power of every factor, for sums of products (conv2d, dense): 0 counts the terms of each
 * sum, 2 adds up their squares. The bias is a term. */
void lkt_exact_powers(lkt_case *c, int power, lkt_exact *result);

/* Attention without padding and dropout; d_in begins as zeros, and `in` is turned where positions are rotary. */
void lkt_exact_attention(const lki_node *node, int64_t count, double *in, const double *d_out,
                         double *out, double *d_in);

/* Value and derivative of an activation that is curved. */
void lkt_exact_curve(const lki_node *node, double x, double *y, double *slope);

#endif

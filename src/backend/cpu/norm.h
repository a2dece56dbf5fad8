/* Batch norm's numbers of a replica: alone and behind a convolution (conv_norm.c). */
#ifndef LKI_CPU_NORM_H
#define LKI_CPU_NORM_H

#include "backend/cpu/cpu.h"

typedef struct lki_norm {
    const lki_vector_norm *vector;
    int64_t channels;
    float epsilon;
} lki_norm;
lki_norm lki_norm_of(const lki_node *node, const lki_vector *vector);

/* What is kept of a replica, a value for each channel. */
typedef struct lki_norm_kept {
    double *sum[2];        /* forward: lki_norm_moments; backward: of d, of d (x - mean) */
    float *mean, *inverse; /* 1 / sqrt(variance + epsilon) */
    float *scale;          /* inverse * weight */
    float *level, *slope;  /* of backward: lki_vector_norm */
} lki_norm_kept;
size_t lki_norm_bytes(const lki_norm *norm);
lki_norm_kept lki_norm_kept_at(const lki_norm *norm, void *replica);

/* Both sums are 0, in front of the first piece. */
void lki_norm_clear(const lki_norm *norm, const lki_norm_kept *kept);
/* Where moments are formed of x whose first row in the replica is `first`. */
lki_norm_moments lki_norm_moments_of(const lki_norm *norm, void *replica, const float *first);
/* lki_kernel.give of rows of x, from its moments; and give_backward. */
void lki_norm_give(const lki_norm *norm, const lki_args *args, int64_t rows, const float *x);
void lki_norm_give_backward(const lki_norm *norm, const lki_args *args, int64_t rows);
/* lki_kernel.finish of rows of x: from its moments, from what was met or from running statistics, to what apply
 * needs, and the replica's statistics (op/layer/batch_norm.c). The weight is in this slot, the bias in the next. */
void lki_norm_finish(const lki_norm *norm, const lki_args *args, int64_t rows, const float *x,
                     int slot);
/* lki_kernel.finish_backward: from the sums of d to what backward needs, and the parameters' gradients. */
void lki_norm_finish_backward(const lki_norm *norm, const lki_args *args, int64_t rows, int slot);

#endif

/* Names within one instruction set: what a file of this folder offers to the table. */
#ifndef LKI_CPU_VECTOR_LOCAL_H
#define LKI_CPU_VECTOR_LOCAL_H

#include "backend/cpu/vector/isa.h"
#include "backend/cpu/vector/vector.h"

/* Floats of a weight from which on it is taken to come from memory: what is read of it next is fetched. */
enum { LARGE_WEIGHT = 1 << 20 };

extern const lki_vector_element LKI_ISA_NAME(lki_vector_element);
extern const lki_vector_activation LKI_ISA_NAME(lki_vector_activation)[LKI_ACTIVATIONS];
extern const lki_vector_product LKI_ISA_NAME(lki_vector_product);
extern const lki_vector_dropout LKI_ISA_NAME(lki_vector_dropout);
extern const lki_vector_pool LKI_ISA_NAME(lki_vector_pool);
extern const lki_vector_norm LKI_ISA_NAME(lki_vector_norm);
extern const lki_vector_layer_norm LKI_ISA_NAME(lki_vector_layer_norm);
extern const lki_vector_recurrent LKI_ISA_NAME(lki_vector_recurrent);
extern const lki_vector_attention LKI_ISA_NAME(lki_vector_attention);
extern const lki_vector_dense LKI_ISA_NAME(lki_vector_dense), LKI_ISA_NAME(lki_vector_dense_bf16);
extern const lki_vector_conv LKI_ISA_NAME(lki_vector_conv), LKI_ISA_NAME(lki_vector_depthwise);
extern const lki_vector_conv LKI_ISA_NAME(lki_vector_winograd), LKI_ISA_NAME(lki_vector_first);
extern const lki_vector_conv LKI_ISA_NAME(lki_vector_bf16);
extern const lki_vector_block LKI_ISA_NAME(lki_vector_block);
extern const lki_vector LKI_ISA_NAME(lki_vector);

void LKI_ISA_NAME(lki_vector_update)(const lki_update *update, int64_t count, float *w,
                                     float *const state[LKI_MAX_STATES], const float *sums);

void LKI_ISA_NAME(lki_vector_approach)(int64_t count, float part, float *left, const float *right);
double LKI_ISA_NAME(lki_vector_dot)(int64_t count, const float *a, const float *b);
void LKI_ISA_NAME(lki_vector_direction)(const lki_update *update, int64_t count, const float *w,
                                        float *const state[LKI_MAX_STATES], float *gradient,
                                        double sum[LKI_ROW_SUMS]);

void LKI_ISA_NAME(lki_vector_norm_sums)(int64_t rows, int64_t columns, int64_t stride,
                                        const float *x, double *sum);
void LKI_ISA_NAME(lki_vector_norm_moments)(int64_t rows, int64_t columns, int64_t stride,
                                           const float *x, const lki_norm_moments *operands);

/* dense_pack.c: the forward packing, behind which the other begins; both; units of them (lki_vector_dense.pack). */
int64_t LKI_ISA_NAME(lki_dense_forward_floats)(const lki_dense_shape *s);
size_t LKI_ISA_NAME(lki_dense_packed_bytes)(const lki_dense_shape *s);
void LKI_ISA_NAME(lki_dense_pack)(const lki_dense_shape *s, const float *weight, void *packed,
                                  int64_t first, int64_t count);

size_t LKI_ISA_NAME(lki_vector_masks_bytes)(const lki_dense_shape *shape, int64_t rows);
void LKI_ISA_NAME(lki_vector_masks_forward)(const lki_dense_shape *shape, int64_t rows,
                                            const float *x, const float *packed, const float *bias,
                                            float *y, void *workspace);
void LKI_ISA_NAME(lki_vector_masks_backward)(const lki_dense_shape *shape, int64_t rows,
                                             const float *x, const float *d_y, const float *packed,
                                             float *d_x, bool add, void *workspace);
size_t LKI_ISA_NAME(lki_vector_rows_bytes)(void);
void LKI_ISA_NAME(lki_vector_rows)(const lki_dense_shape *shape, const lki_rows *rows);

#endif

/*
 * Convolutions by oneDNN, 2.6 and 3.x, to compare with: NHWC, the primitive that the library chooses,
 * in the calling thread alone. A call spans a power of two of samples; a primitive exists for each.
 */
#ifndef BENCH_ONEDNN_H
#define BENCH_ONEDNN_H

#include "backend/cpu/cpu.h"

typedef struct onednn_conv onednn_conv;

/* Pieces of slice, slice/2, ... 1 samples. `data`: its data gradient is wanted too. Errors:
 * LKS_E_NOMEM, LKS_E_DEVICE when the library refuses. */
lks_status onednn_conv_create(onednn_conv **out, lks_context *context, const lki_conv_shape *shape,
                              int64_t slice, bool data);
void onednn_conv_destroy(onednn_conv *conv); /* NULL is fine */

size_t onednn_conv_packed_bytes(const onednn_conv *conv);
size_t onednn_conv_workspace_bytes(const onednn_conv *conv);
const char *onednn_conv_algorithm(const onednn_conv *conv); /* the forward pass's */

/* The weight for both passes; part `part` of `parts`. */
void onednn_conv_pack(const onednn_conv *conv, const float *weight, void *packed, int part,
                      int parts);

/* bias and d_bias are NULL where there is none; outputs are overwritten. */
lks_status onednn_conv_forward(const onednn_conv *conv, int64_t count, const float *x,
                               const void *packed, const float *bias, float *y, void *workspace);
lks_status onednn_conv_backward_data(const onednn_conv *conv, int64_t count, const float *d_y,
                                     const void *packed, float *d_x, void *workspace);
lks_status onednn_conv_backward_weight(const onednn_conv *conv, int64_t count, const float *x,
                                       const float *d_y, float *d_weight, float *d_bias,
                                       void *workspace);

#endif

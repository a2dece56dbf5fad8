/*
 * Convolutions by oneDNN, 2.6 and 3.x: the only header and file that know the library. The backend
 * takes it for depthwise convolutions; other shapes are faster with kernels of our own, and serve
 * here for comparison.
 *
 * A call runs in the calling thread alone and spans one piece: a power of two of samples. A
 * primitive exists for every piece, made in advance, as which primitive ran is part of the bits.
 */
#ifndef LKI_CPU_ONEDNN_H
#define LKI_CPU_ONEDNN_H

#include "backend/cpu/cpu.h"

/* "oneDNN 2.6.3" */
void lki_onednn_version(char *out, size_t size);

typedef struct lki_onednn_conv lki_onednn_conv;

/* Pieces of slice, slice/2, ... 1 samples. `data`: its data gradient is wanted too. Errors:
 * LKS_E_NOMEM, LKS_E_DEVICE when the library refuses. */
lks_status lki_onednn_conv_create(lki_onednn_conv **out, lks_context *context,
                                  const lki_conv_shape *shape, int64_t slice, bool data);
void lki_onednn_conv_destroy(lki_onednn_conv *conv); /* NULL is fine */

size_t lki_onednn_conv_packed_bytes(const lki_onednn_conv *conv);
size_t lki_onednn_conv_workspace_bytes(const lki_onednn_conv *conv);
const char *lki_onednn_conv_algorithm(const lki_onednn_conv *conv); /* the forward pass's */

/* The weight for both passes; see lki_kernel.prepare. */
void lki_onednn_conv_pack(const lki_onednn_conv *conv, const float *weight, void *packed, int part,
                          int parts);

/* bias and d_bias are NULL where there is none; outputs are overwritten. */
lks_status lki_onednn_conv_forward(const lki_onednn_conv *conv, int64_t count, const float *x,
                                   const void *packed, const float *bias, float *y,
                                   void *workspace);
lks_status lki_onednn_conv_backward_data(const lki_onednn_conv *conv, int64_t count,
                                         const float *d_y, const void *packed, float *d_x,
                                         void *workspace);
lks_status lki_onednn_conv_backward_weight(const lki_onednn_conv *conv, int64_t count,
                                           const float *x, const float *d_y, float *d_weight,
                                           float *d_bias, void *workspace);

#endif

/* What the files of depthwise convolutions share. */
#ifndef LKI_CPU_VECTOR_DEPTHWISE_H
#define LKI_CPU_VECTOR_DEPTHWISE_H

#include "backend/cpu/vector/local.h"

/* Vectors of channels. */
INLINE int64_t depthwise_blocks(const lki_conv_shape *s)
{
    return (s->channels + LANES - 1) / LANES;
}

size_t LKI_ISA_NAME(lki_depthwise_sums_bytes)(const lki_conv_shape *s);
void LKI_ISA_NAME(lki_depthwise_weight)(const lki_conv_shape *s, int64_t count,
                                        const lki_conv_gradient *g);

#endif

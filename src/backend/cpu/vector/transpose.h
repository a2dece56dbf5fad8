/* A block of a transposition. */
#ifndef LKI_CPU_VECTOR_TRANSPOSE_H
#define LKI_CPU_VECTOR_TRANSPOSE_H

#include "backend/cpu/vector/isa.h"

typedef float v4 __attribute__((vector_size(16)));
typedef int32_t v4_bits __attribute__((vector_size(16)));
typedef float v4_memory __attribute__((vector_size(16), aligned(4), may_alias));

/* vf_flush() */
INLINE v4 v4_flush(v4 x)
{
    const v4_bits tiny = (v4)((v4_bits)x & 0x7fffffff) < LKI_TINY;
    return (v4)((v4_bits)x & ~tiny);
}

/* 4 x 4: out[c][r] = in[r][c], or += ; strides in floats. */
INLINE void transpose4(const float *in, int64_t in_stride, float *out, int64_t out_stride,
                       bool adds)
{
    const v4 a = *(const v4_memory *)in, b = *(const v4_memory *)(in + in_stride);
    const v4 c = *(const v4_memory *)(in + 2 * in_stride);
    const v4 d = *(const v4_memory *)(in + 3 * in_stride);
    const v4 ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    const v4 ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const v4 cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    const v4 cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    const v4 row[4] = {__builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5),
                       __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7),
                       __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5),
                       __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7)};
    for (int r = 0; r < 4; r++) {
        v4_memory *to = (v4_memory *)(out + r * out_stride);
        *to = adds ? v4_flush(*to + row[r]) : row[r];
    }
}

#endif

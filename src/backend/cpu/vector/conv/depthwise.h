/* What the files of depthwise convolutions share. */
#ifndef LKI_CPU_VECTOR_DEPTHWISE_H
#define LKI_CPU_VECTOR_DEPTHWISE_H

#include "backend/cpu/vector/local.h"

/* From here on a value that the compiler derives from no other: a number; a vector, which it would else
 * read from memory again for each use. */
#define OPAQUE(number) __asm__("" : "+r"(number))
#if defined(__AVX2__)
#define OPAQUE_VECTOR(x) __asm__("" : "+v"(x))
#elif defined(LKI_NEON)
#define OPAQUE_VECTOR(x) __asm__("" : "+w"(x))
#else
#define OPAQUE_VECTOR(x) (void)(x)
#endif

/* Vectors of channels. */
INLINE int64_t depthwise_blocks(const lki_conv_shape *s)
{
    return (s->channels + LANES - 1) / LANES;
}

/* A vector of channels, or the n < LANES that are left. */
INLINE vf get(const float *from, const bool whole, int64_t n)
{
    return whole ? vf_load(from) : vf_load_some(from, n);
}

size_t LKI_ISA_NAME(lki_depthwise_sums_bytes)(const lki_conv_shape *s);
void LKI_ISA_NAME(lki_depthwise_weight)(const lki_conv_shape *s, int64_t count,
                                        const lki_conv_gradient *g);

#endif

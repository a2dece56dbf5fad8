/*
 * The few things in which instruction sets differ. Only files of this folder include it; each is
 * compiled once per instruction set, and everything they export carries its name.
 *
 *   vf, vi, vu  LANES floats, int32_t, uint32_t      vm  a mask of LANES lanes
 *   vq          LANES / 2 uint64_t
 *
 *   vd          LANES / 2 doubles: half of a vf
 *
 * Vectors of GCC and clang: + - * / and comparisons work on them directly. vf_fma and f_fma, for one
 * float, round once, on every machine.
 */
#ifndef LKI_CPU_VECTOR_ISA_H
#define LKI_CPU_VECTOR_ISA_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/backend.h"
#include "numeric/fma.h"

#define LKI_ISA_PASTE2(name, isa) name##_##isa
#define LKI_ISA_PASTE(name, isa)  LKI_ISA_PASTE2(name, isa)
/* lki_vector_avx2, say. */
#define LKI_ISA_NAME(name) LKI_ISA_PASTE(name, LKI_ISA)
#define LKI_ISA_TEXT2(isa) #isa
#define LKI_ISA_TEXT1(isa) LKI_ISA_TEXT2(isa)
#define LKI_ISA_TEXT       LKI_ISA_TEXT1(LKI_ISA)

#include "backend/cpu/vector/names.h"

#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX2__)
#define LANES 8
#elif !defined(LANES)
#define LANES 4
#endif

typedef float vf __attribute__((vector_size(4 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));
typedef uint32_t vu __attribute__((vector_size(4 * LANES)));
typedef uint64_t vq __attribute__((vector_size(4 * LANES)));
typedef uint8_t vb __attribute__((vector_size(LANES)));
typedef double vd __attribute__((vector_size(4 * LANES)));
typedef int64_t vl __attribute__((vector_size(4 * LANES)));
typedef float vh __attribute__((vector_size(2 * LANES))); /* half a vf */
typedef float vf_memory __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef double vd_memory __attribute__((vector_size(4 * LANES), aligned(8), may_alias));

#define INLINE static inline __attribute__((always_inline, unused))
/* Before a short loop over registers, which has to be unrolled for them to be registers; and before a
 * long one, for the operations of several vectors to be mixed. Where a multiply-add is twenty instructions
 * that would only be large. */
#ifdef __clang__
#define UNROLL   _Pragma("unroll")
#define UNROLL_4 _Pragma("unroll 4")
#else
#define UNROLL   _Pragma("GCC unroll 16")
#define UNROLL_4 _Pragma("GCC unroll 4")
#endif
#if !defined(LKI_FAST_FMA)
#undef UNROLL_4
#define UNROLL_4
#endif

/* Here all of them have been formed: the compiler does not take chains of operations one behind the other. */
INLINE void vd_in_turn(vd *v, const int count)
{
#if defined(__AVX2__)
    UNROLL for (int i = 0; i < count; i++) __asm__ volatile("" : "+v"(v[i]));
#else
    (void)v;
    (void)count;
#endif
}

INLINE vf vf_load(const float *p)
{
    return *(const vf_memory *)p;
}
INLINE void vf_store(float *p, vf v)
{
    *(vf_memory *)p = v;
}
INLINE vd vd_load(const double *p)
{
    return *(const vd_memory *)p;
}
INLINE void vd_store(double *p, vd v)
{
    *(vd_memory *)p = v;
}
INLINE vf vf_zero(void)
{
    return (vf){0};
}

/* What differs. */
#if defined(__AVX512F__)
#include "backend/cpu/vector/isa/avx512.h"
#elif defined(__AVX2__)
#include "backend/cpu/vector/isa/avx2.h"
#else
#include "backend/cpu/vector/isa/generic.h"
#endif

INLINE float f_fma(float a, float b, float c)
{
    return lki_fma(a, b, c);
}

INLINE vf vf_size(vf x)
{
    return (vf)((vi)x & vi_set(0x7fffffff));
}
#if !defined(__AVX512F__)
INLINE vf vf_where_bits(vf x, int32_t mask)
{
    return (vf)((vi)x & ~(((vi)x & vi_set(mask)) == 0));
}
#endif

/* What is stored: a value, and one that only ever stands for a square (core/backend.h). Below LKI_TINY
 * the two highest bits of an exponent are 0. */
enum { TINY_BITS = 0x60000000 };
INLINE vf vf_flush(vf x)
{
    return vf_where_bits(x, TINY_BITS);
}
INLINE vf vf_flush_square(vf x)
{
    return vf_flush_below(x, LKI_TINY_SQUARE);
}

/* totals[0 .. LANES) = or += v, in double; and their sum with v, rounded once. */
INLINE void vf_fold(double *totals, vf v, bool first)
{
    vd low = vf_low(v), high = vf_high(v);
    if (!first) {
        low += vd_load(totals);
        high += vd_load(totals + LANES / 2);
    }
    vd_store(totals, low);
    vd_store(totals + LANES / 2, high);
}
INLINE vf vf_total(const double *totals, vf v)
{
    return vf_join(vd_load(totals) + vf_low(v), vd_load(totals + LANES / 2) + vf_high(v));
}

/* Bit i: p[i] == value, for 32 bytes. */
#if defined(__AVX2__)
INLINE uint32_t bytes_equal(const uint8_t *p, uint8_t value)
{
    const __m256i bytes = _mm256_loadu_si256((const __m256i *)(const void *)p);
    return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, _mm256_set1_epi8((char)value)));
}
#elif defined(LKI_NEON)
INLINE uint32_t bytes_equal(const uint8_t *p, uint8_t value)
{
    static const uint8_t weights[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    uint32_t bits = 0;
    for (int i = 0; i < 2; i++) {
        const uint8x16_t equal = vceqq_u8(vld1q_u8(p + 16 * i), vdupq_n_u8(value));
        const uint8x16_t bit = vandq_u8(equal, vld1q_u8(weights));
        bits |= (uint32_t)vaddv_u8(vget_low_u8(bit)) << (16 * i);
        bits |= (uint32_t)vaddv_u8(vget_high_u8(bit)) << (16 * i + 8);
    }
    return bits;
}
#else
INLINE uint32_t bytes_equal(const uint8_t *p, uint8_t value)
{
    uint32_t bits = 0;
    for (int i = 0; i < 32; i++) bits |= (uint32_t)(p[i] == value) << i;
    return bits;
}
#endif

/* Bit i: x[i] is not 0; NaN is not. */
#if defined(__AVX512F__)
INLINE uint32_t vf_nonzero(vf x)
{
    return _mm512_cmp_ps_mask(x, vf_zero(), _CMP_NEQ_UQ);
}
#elif defined(__AVX2__)
INLINE uint32_t vf_nonzero(vf x)
{
    return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(x, vf_zero(), _CMP_NEQ_UQ));
}
#elif defined(LKI_NEON)
INLINE uint32_t vf_nonzero(vf x)
{
    return vaddvq_u32((uint32x4_t)((x != 0) & (vi){1, 2, 4, 8}));
}
#else
INLINE uint32_t vf_nonzero(vf x)
{
    uint32_t bits = 0;
    for (int i = 0; i < LANES; i++) bits |= (uint32_t)(x[i] != 0) << i;
    return bits;
}
#endif

/*
 * Runs a body over [0, count) LANES at a time; the last, partial vector is loaded into a whole one
 * (rest lanes zero), so that an element's arithmetic is the same wherever it lies. In the body,
 * `i` is the first element and `n` the number of elements in this vector.
 */
#define FOR_VECTORS(i, n, count)                                                                   \
    for (int64_t i = 0, n; n = (count)-i < LANES ? (count)-i : LANES, i < (count); i += LANES)

/* n floats of a vector, n <= LANES; a branch that is always taken but at the end. */
INLINE vf vf_get(const float *p, int64_t n)
{
    return n == LANES ? vf_load(p) : vf_load_some(p, n);
}
INLINE void vf_put(float *p, vf v, int64_t n)
{
    if (n == LANES)
        vf_store(p, v);
    else
        vf_store_some(p, v, n);
}

/* A result of arithmetic, written or added to what is there: what is tiny as 0. */
INLINE void vf_put_result(float *p, vf v, int64_t n, bool adds)
{
    vf_put(p, vf_flush(adds ? vf_get(p, n) + v : v), n);
}
/* The same of what was stored before, where nothing is tiny. */
INLINE void vf_give(float *p, vf v, int64_t n, bool adds)
{
    if (adds)
        vf_put_result(p, v, n, true);
    else
        vf_put(p, v, n);
}

#endif

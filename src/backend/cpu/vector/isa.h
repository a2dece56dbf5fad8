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

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#elif defined(LKI_NEON)
#include <arm_neon.h>
#endif

#include "core/backend.h"
#include "numeric/fma.h"

#define LKI_ISA_PASTE2(name, isa) name##_##isa
#define LKI_ISA_PASTE(name, isa)  LKI_ISA_PASTE2(name, isa)
/* lki_vector_avx2, say. */
#define LKI_ISA_NAME(name) LKI_ISA_PASTE(name, LKI_ISA)
#define LKI_ISA_TEXT2(isa) #isa
#define LKI_ISA_TEXT1(isa) LKI_ISA_TEXT2(isa)
#define LKI_ISA_TEXT       LKI_ISA_TEXT1(LKI_ISA)

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

#if defined(__AVX512F__)

typedef __mmask16 vm;

INLINE vf vf_set(float x)
{
    return _mm512_set1_ps(x);
}
INLINE vi vi_set(int32_t x)
{
    return (vi)_mm512_set1_epi32(x);
}
INLINE vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}
INLINE vf vf_sqrt(vf a)
{
    return _mm512_sqrt_ps(a);
}
INLINE vm vm_gt(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
}
INLINE vm vm_equal(vi a, vi b)
{
    return _mm512_cmpeq_epi32_mask((__m512i)a, (__m512i)b);
}
INLINE vf vf_blend(vm m, vf yes, vf no)
{
    return _mm512_mask_blend_ps(m, no, yes);
}
INLINE vi vi_blend(vm m, vi yes, vi no)
{
    return (vi)_mm512_mask_blend_epi32(m, (__m512i)no, (__m512i)yes);
}
INLINE vq vq_multiply(vq a, vq b)
{
    return (vq)_mm512_mul_epu32((__m512i)a, (__m512i)b);
}
INLINE vi vi_from_bytes(const uint8_t *p)
{
    return (vi)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}
INLINE void vi_to_bytes(uint8_t *p, vi v)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtepi32_epi8((__m512i)v));
}
INLINE vf vf_load_some(const float *p, int64_t n)
{
    return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
}
INLINE void vf_store_some(float *p, vf v, int64_t n)
{
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), v);
}

/* x where x > 0, else +0, also for NaN. */
INLINE vf vf_relu(vf x)
{
    return _mm512_max_ps(x, vf_zero());
}
/* a, but b where that is less, or greater; a also where one of them is a NaN. */
INLINE vf vf_least(vf a, vf b)
{
    return _mm512_min_ps(b, a);
}
INLINE vf vf_most(vf a, vf b)
{
    return _mm512_max_ps(b, a);
}
/* x, but 0 where a is less than b. */
INLINE vi vi_unless_below(vi x, vf a, vf b)
{
    return (vi)_mm512_maskz_mov_epi32(_mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ), (__m512i)x);
}
/* +0 where |x| < least; NaN stays. */
INLINE vf vf_flush_below(vf x, float least)
{
    return _mm512_maskz_mov_ps(
        _mm512_cmp_ps_mask(_mm512_abs_ps(x), _mm512_set1_ps(least), _CMP_NLT_UQ), x);
}
/* x where it shares a bit with the mask. */
INLINE vf vf_where_bits(vf x, int32_t mask)
{
    return _mm512_maskz_mov_ps(_mm512_test_epi32_mask((__m512i)x, _mm512_set1_epi32(mask)), x);
}
/* x where it is not below LKI_TINY, else +0: what is stored of relu(x). */
INLINE vf vf_relu_flush(vf x)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(LKI_TINY), _CMP_GE_OQ), x);
}

/* The two halves of a vector, as doubles; and back, rounded. */
INLINE vd vf_low(vf a)
{
    return _mm512_cvtps_pd(_mm512_castps512_ps256(a));
}
INLINE vd vf_high(vf a)
{
    return _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1));
}
INLINE vf vf_join(vd low, vd high)
{
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)), _mm512_cvtpd_ps(high),
                              1);
}

#elif defined(__AVX2__)

typedef vi vm;

INLINE vf vf_set(float x)
{
    return _mm256_set1_ps(x);
}
INLINE vi vi_set(int32_t x)
{
    return (vi)_mm256_set1_epi32(x);
}
INLINE vf vf_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}
INLINE vf vf_sqrt(vf a)
{
    return _mm256_sqrt_ps(a);
}
INLINE vm vm_gt(vf a, vf b)
{
    return (vm)_mm256_cmp_ps(a, b, _CMP_GT_OQ);
}
INLINE vm vm_equal(vi a, vi b)
{
    return a == b;
}
INLINE vf vf_blend(vm m, vf yes, vf no)
{
    return _mm256_blendv_ps(no, yes, (__m256)m);
}
INLINE vi vi_blend(vm m, vi yes, vi no)
{
    return (vi)_mm256_blendv_epi8((__m256i)no, (__m256i)yes, (__m256i)m);
}
INLINE vq vq_multiply(vq a, vq b)
{
    return (vq)_mm256_mul_epu32((__m256i)a, (__m256i)b);
}
INLINE vi vi_from_bytes(const uint8_t *p)
{
    return (vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
}
INLINE void vi_to_bytes(uint8_t *p, vi v)
{
    const __m256i words = _mm256_packus_epi32((__m256i)v, (__m256i)v);
    const __m256i bytes = _mm256_packus_epi16(words, words);
    const int low = _mm256_extract_epi32(bytes, 0), high = _mm256_extract_epi32(bytes, 4);
    memcpy(p, &low, 4);
    memcpy(p + 4, &high, 4);
}
INLINE __m256i vi_first(int64_t n)
{
    const __m256i number = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int32_t)n), number);
}
INLINE vf vf_load_some(const float *p, int64_t n)
{
    return _mm256_maskload_ps(p, vi_first(n));
}
INLINE void vf_store_some(float *p, vf v, int64_t n)
{
    _mm256_maskstore_ps(p, vi_first(n), v);
}

INLINE vf vf_relu(vf x)
{
    return _mm256_max_ps(x, vf_zero());
}
INLINE vf vf_least(vf a, vf b)
{
    return _mm256_min_ps(b, a);
}
INLINE vf vf_most(vf a, vf b)
{
    return _mm256_max_ps(b, a);
}
INLINE vi vi_unless_below(vi x, vf a, vf b)
{
    return (vi)_mm256_and_si256((__m256i)_mm256_cmp_ps(a, b, _CMP_NLT_UQ), (__m256i)x);
}
INLINE vf vf_flush_below(vf x, float least)
{
    const __m256 size = _mm256_and_ps(x, (__m256)_mm256_set1_epi32(0x7fffffff));
    return _mm256_and_ps(_mm256_cmp_ps(size, _mm256_set1_ps(least), _CMP_NLT_UQ), x);
}
INLINE vf vf_relu_flush(vf x)
{
    return _mm256_and_ps(_mm256_cmp_ps(x, _mm256_set1_ps(LKI_TINY), _CMP_GE_OQ), x);
}

INLINE vd vf_low(vf a)
{
    return _mm256_cvtps_pd(_mm256_castps256_ps128(a));
}
INLINE vd vf_high(vf a)
{
    return _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1));
}
INLINE vf vf_join(vd low, vd high)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(low)), _mm256_cvtpd_ps(high),
                                1);
}

#else

typedef vi vm;

#if defined(LKI_NEON)
INLINE vf vf_set(float x)
{
    return (vf)vdupq_n_f32(x);
}
INLINE vi vi_set(int32_t x)
{
    return (vi)vdupq_n_s32(x);
}
INLINE vd vf_low(vf a)
{
    return (vd)vcvt_f64_f32(vget_low_f32((float32x4_t)a));
}
INLINE vd vf_high(vf a)
{
    return (vd)vcvt_high_f64_f32((float32x4_t)a);
}
INLINE vf vf_join(vd low, vd high)
{
    return (vf)vcvt_high_f32_f64(vcvt_f32_f64((float64x2_t)low), (float64x2_t)high);
}
INLINE vf vf_fma(vf a, vf b, vf c)
{
    return (vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
INLINE vf vf_sqrt(vf a)
{
    return (vf)vsqrtq_f32((float32x4_t)a);
}
INLINE vq vq_multiply(vq a, vq b)
{
    return (vq)vmull_u32(vmovn_u64((uint64x2_t)a), vmovn_u64((uint64x2_t)b));
}
#else
INLINE vf vf_set(float x)
{
    vf v = {0};
    for (int i = 0; i < LANES; i++) v[i] = x;
    return v;
}
INLINE vi vi_set(int32_t x)
{
    vi v = {0};
    for (int i = 0; i < LANES; i++) v[i] = x;
    return v;
}
INLINE vd vf_low(vf a)
{
    vh half;
    memcpy(&half, &a, sizeof half);
    return __builtin_convertvector(half, vd);
}
INLINE vd vf_high(vf a)
{
    vh half;
    memcpy(&half, (const char *)&a + sizeof half, sizeof half);
    return __builtin_convertvector(half, vd);
}
INLINE vf vf_join(vd low, vd high)
{
    const vh half[2] = {__builtin_convertvector(low, vh), __builtin_convertvector(high, vh)};
    vf v;
    memcpy(&v, half, sizeof v);
    return v;
}
#if defined(LKI_FAST_FMA)
INLINE vf vf_fma(vf a, vf b, vf c)
{
    for (int i = 0; i < LANES; i++) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return c;
}
#else
/* lki_fma_sum() for a vector. */
INLINE vd vd_sum_odd(vd p, vd c)
{
    const vd s = p + c, from_c = s - p, rest = (p - (s - from_c)) + (c - from_c);
    const vd zero = {0};
    const vl bits = (vl)s, inexact = (rest > zero) | (rest < zero), even = (bits & 1) - 1;
    const vl away = (rest > zero) ^ (s < zero);
    return (vd)(bits + ((-1 - 2 * away) & inexact & even));
}
INLINE vf vf_fma(vf a, vf b, vf c)
{
    return vf_join(vd_sum_odd(vf_low(a) * vf_low(b), vf_low(c)),
                   vd_sum_odd(vf_high(a) * vf_high(b), vf_high(c)));
}
#endif
INLINE vf vf_sqrt(vf a)
{
    for (int i = 0; i < LANES; i++) a[i] = sqrtf(a[i]);
    return a;
}
INLINE vq vq_multiply(vq a, vq b)
{
    return (a & 0xffffffffu) * (b & 0xffffffffu);
}
#endif

INLINE vm vm_gt(vf a, vf b)
{
    return a > b;
}
INLINE vm vm_equal(vi a, vi b)
{
    return a == b;
}
INLINE vi vi_blend(vm m, vi yes, vi no)
{
    return (yes & m) | (no & ~m);
}
INLINE vf vf_blend(vm m, vf yes, vf no)
{
    return (vf)vi_blend(m, (vi)yes, (vi)no);
}
INLINE vf vf_relu(vf x)
{
    return (vf)((vi)x & (x > vf_zero()));
}
INLINE vf vf_least(vf a, vf b)
{
    return vf_blend(a > b, b, a);
}
INLINE vf vf_most(vf a, vf b)
{
    return vf_blend(b > a, b, a);
}
INLINE vi vi_unless_below(vi x, vf a, vf b)
{
    return x & ~(vi)(a < b);
}
INLINE vf vf_flush_below(vf x, float least)
{
    const vi below = (vf)((vi)x & 0x7fffffff) < vf_set(least);
    return (vf)((vi)x & ~below);
}
INLINE vf vf_relu_flush(vf x)
{
    return (vf)((vi)x & (x >= vf_set(LKI_TINY)));
}
INLINE vi vi_from_bytes(const uint8_t *p)
{
    vb bytes;
    memcpy(&bytes, p, LANES);
    return __builtin_convertvector(bytes, vi);
}
INLINE void vi_to_bytes(uint8_t *p, vi v)
{
    const vb bytes = __builtin_convertvector(v, vb);
    memcpy(p, &bytes, LANES);
}
#if defined(LKI_NEON)
INLINE vf vf_load_some(const float *p, int64_t n)
{
    float32x4_t v = vdupq_n_f32(0);
    if (n > 0) v = vld1q_lane_f32(p, v, 0);
    if (n > 1) v = vld1q_lane_f32(p + 1, v, 1);
    if (n > 2) v = vld1q_lane_f32(p + 2, v, 2);
    return n > 3 ? vf_load(p) : (vf)v;
}
INLINE void vf_store_some(float *p, vf v, int64_t n)
{
    if (n > 0) vst1q_lane_f32(p, (float32x4_t)v, 0);
    if (n > 1) vst1q_lane_f32(p + 1, (float32x4_t)v, 1);
    if (n > 2) vst1q_lane_f32(p + 2, (float32x4_t)v, 2);
    if (n > 3) vst1q_lane_f32(p + 3, (float32x4_t)v, 3);
}
#else
INLINE vf vf_load_some(const float *p, int64_t n)
{
    vf v = vf_zero();
    memcpy(&v, p, sizeof(float) * (size_t)n);
    return v;
}
INLINE void vf_store_some(float *p, vf v, int64_t n)
{
    memcpy(p, &v, sizeof(float) * (size_t)n);
}
#endif

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

#endif

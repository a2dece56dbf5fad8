/*
 * The few things in which instruction sets differ. Only files of this folder include it; each is
 * compiled once per instruction set, and everything they export carries its name.
 *
 *   vf, vi, vu  LANES floats, int32_t, uint32_t      vm  a mask of LANES lanes
 *   vq          LANES / 2 uint64_t
 *
 * Vectors of GCC and clang: + - * / and comparisons work on them directly. Multiplication followed
 * by addition is fused where the instruction set has it: vf_fma in vectors, f_fma for one float.
 */
#ifndef LKI_CPU_VECTOR_ISA_H
#define LKI_CPU_VECTOR_ISA_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

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
typedef float vf_memory __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline, unused))

INLINE vf vf_load(const float *p)
{
    return *(const vf_memory *)p;
}
INLINE void vf_store(float *p, vf v)
{
    *(vf_memory *)p = v;
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

#else

typedef vi vm;

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
INLINE vf vf_fma(vf a, vf b, vf c)
{
    return a * b + c;
}
INLINE vf vf_sqrt(vf a)
{
    for (int i = 0; i < LANES; i++) a[i] = sqrtf(a[i]);
    return a;
}
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
INLINE vq vq_multiply(vq a, vq b)
{
    return (a & 0xffffffffu) * (b & 0xffffffffu);
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

#if defined(__FMA__)
INLINE float f_fma(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}
#else
INLINE float f_fma(float a, float b, float c)
{
    return a * b + c;
}
#endif

/* Bit i: p[i] == value, for 32 bytes. */
#if defined(__AVX2__)
INLINE uint32_t bytes_equal(const uint8_t *p, uint8_t value)
{
    const __m256i bytes = _mm256_loadu_si256((const __m256i *)(const void *)p);
    return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, _mm256_set1_epi8((char)value)));
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

#endif

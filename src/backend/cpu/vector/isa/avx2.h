/* AVX2 with FMA: part of isa.h, which includes one of these. */
#ifndef LKI_CPU_VECTOR_ISA_AVX2_H
#define LKI_CPU_VECTOR_ISA_AVX2_H

#include <immintrin.h>

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
INLINE void vf_stream(float *p, vf v)
{
    _mm256_stream_ps(p, v);
}
INLINE void vf_stream_end(void)
{
    _mm_sfence();
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

INLINE vd vd_whole(vd a)
{
    return _mm256_round_pd(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}

#endif

/* AVX-512: part of isa.h, which includes one of these. */
#ifndef LKI_CPU_VECTOR_ISA_AVX512_H
#define LKI_CPU_VECTOR_ISA_AVX512_H

#include <immintrin.h>

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

/* Stores to a multiple of a vector, past the caches; before others are told of it, vf_stream_end(). */
INLINE void vf_stream(float *p, vf v)
{
    _mm512_stream_ps(p, v);
}
INLINE void vf_stream_end(void)
{
    _mm_sfence();
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

/* Without what is behind the point, of numbers below 2^31. */
INLINE vd vd_whole(vd a)
{
    return _mm512_roundscale_pd(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}

#endif

/* Vectors of the compiler, with NEON where there is one: part of isa.h, which includes one of these. */
#ifndef LKI_CPU_VECTOR_ISA_GENERIC_H
#define LKI_CPU_VECTOR_ISA_GENERIC_H

#if defined(LKI_NEON)
#include <arm_neon.h>
#else
#include <math.h>
#endif

typedef vi vm;

#if defined(LKI_NEON)
INLINE vd vd_whole(vd a)
{
    return (vd)vrndq_f64((float64x2_t)a);
}
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
typedef int32_t vd_count __attribute__((vector_size(2 * LANES)));
INLINE vd vd_whole(vd a)
{
    return __builtin_convertvector(__builtin_convertvector(a, vd_count), vd);
}
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

INLINE void vf_stream(float *p, vf v)
{
    vf_store(p, v);
}
INLINE void vf_stream_end(void) {}

#endif

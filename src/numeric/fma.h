/* Multiply-add with one rounding, on any machine. */
#ifndef LKI_NUMERIC_FMA_H
#define LKI_NUMERIC_FMA_H

#include <float.h>
#include <stdint.h>
#include <string.h>

/* What all arithmetic rests on: IEEE 754, each type in its own precision. */
#if defined(__FAST_MATH__)
#error "Lockstep promises bits: build it without -ffast-math"
#endif
_Static_assert(FLT_EVAL_METHOD == 0 && FLT_MANT_DIG == 24 && DBL_MANT_DIG == 53,
               "Lockstep needs IEEE 754 float and double, not evaluated in more precision");

/* Where the target has the instruction, the compiler's function is it, and no call. */
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__FP_FAST_FMAF)
#define LKI_FAST_FMA 1
#endif

/*
 * p + c rounded to odd: where the sum is not exact, of the two doubles around it the one whose last
 * bit is set. Rounding that to float rounds the exact sum, as 53 bits are more than 2 * 24 + 1
 * (S. Boldo, G. Melquiond: "Emulation of FMA and correctly rounded sums: proved algorithms using
 * rounding to odd", IEEE Transactions on Computers 57, 2008). The error of the sum is that of
 * D. Knuth's TwoSum.
 */
static inline double lki_fma_sum(double p, double c)
{
    double s = p + c;
    const double from_c = s - p, rest = (p - (s - from_c)) + (c - from_c);
    if (rest > 0 || rest < 0) { /* not where there are infinities or NaN */
        int64_t bits;
        memcpy(&bits, &s, sizeof bits);
        if ((bits & 1) == 0) bits += (rest > 0) == (s > 0) ? 1 : -1;
        memcpy(&s, &bits, sizeof s);
    }
    return s;
}

/* a * b + c, rounded once. */
static inline float lki_fma(float a, float b, float c)
{
#ifdef LKI_FAST_FMA
    return __builtin_fmaf(a, b, c);
#else
    return (float)lki_fma_sum((double)a * (double)b, (double)c); /* the product is exact */
#endif
}

#endif

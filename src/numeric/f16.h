/* Half precision (IEEE 754 binary16): 11 bits, from 2^-24 to 65504. */
#ifndef LKI_NUMERIC_F16_H
#define LKI_NUMERIC_F16_H

#include <math.h>

/* The nearest number that half precision has, of two equally near ones the even one: infinity from 65520 on, and
 * multiples of 2^-24 below 2^-14. NaN stays one. */
static inline float lki_f16_round(float x)
{
    const float size = fabsf(x);
    int exponent;
    if (!(size < 65520.0f)) return size > 65504.0f ? copysignf(INFINITY, x) : x;
    (void)frexpf(size, &exponent); /* size is below 2^exponent, and from half of it on */
    /* Added to 1.5 times a power of two a float keeps multiples of 2^-23 of that power, as it rounds. */
    const float whole = ldexpf(1.5f, (exponent < -13 ? -13 : exponent) - 11 + 23);
    return copysignf((size + whole) - whole, x);
}

#endif

/* bfloat16: the upper half of a float, as a factor of products (docs/numerics.md 3). */
#ifndef LKI_NUMERIC_BF16_H
#define LKI_NUMERIC_BF16_H

#include <stdint.h>
#include <string.h>

/* A factor below this counts as 0. The last bits of two factors then have a product of 2^-126 at least, of which every
 * sum is a multiple: none is denormal, which some processors would take for 0 and others not. */
#define LKI_BF16_TINY 0x1p-56f

/* The nearest, of two equally near ones the even one; NaN stays one. */
static inline uint16_t lki_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
    bits += 0x7fff + (bits >> 16 & 1);
    return (bits & 0x7fffffff) < (127 - 56) << 23 ? 0 : (uint16_t)(bits >> 16);
}

static inline float lki_bf16_value(uint16_t x)
{
    const uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* x as a factor of such a product. */
static inline float lki_bf16_round(float x)
{
    return lki_bf16_value(lki_bf16(x));
}

#endif

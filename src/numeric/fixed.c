/* Exact sums in 128-bit fixed point. */
#include "numeric/fixed.h"

#include <string.h>

__extension__ typedef __int128 wide;
__extension__ typedef unsigned __int128 unsigned_wide;

static unsigned_wide fixed_join(lki_fixed value)
{
    return (unsigned_wide)(uint64_t)value.high << 64 | value.low;
}

static lki_fixed fixed_split(unsigned_wide value)
{
    /* The conversion of a value above INT64_MAX wraps in gcc and clang, as two's complement. */
    return (lki_fixed){.high = (int64_t)(uint64_t)(value >> 64), .low = (uint64_t)value};
}

/* |x| in units of 2^-32, from x's bits, so that no rounding mode or flushing matters. */
static unsigned_wide magnitude(uint64_t bits)
{
    const int exponent = (int)(bits >> 52 & 0x7ff);
    uint64_t mantissa = bits & ((UINT64_C(1) << 52) - 1);
    if (exponent > 0) mantissa |= UINT64_C(1) << 52;
    const int shift = (exponent > 0 ? exponent : 1) - 1075 + 32; /* |x| = mantissa * 2^(shift-32) */
    if (exponent >= 1023 + 62) return (unsigned_wide)1 << (62 + 32);
    if (shift >= 0) return (unsigned_wide)mantissa << shift;
    const int drop = -shift;
    if (drop > 63) return 0;
    const uint64_t kept = mantissa >> drop;
    const uint64_t rest = mantissa & ((UINT64_C(1) << drop) - 1);
    const uint64_t half = UINT64_C(1) << (drop - 1);
    return kept + (rest > half || (rest == half && (kept & 1)));
}

void lki_fixed_add(lki_fixed *sum, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const unsigned_wide size = magnitude(bits);
    *sum = fixed_split(bits >> 63 ? fixed_join(*sum) - size : fixed_join(*sum) + size);
}

void lki_fixed_merge(lki_fixed *sum, lki_fixed part)
{
    *sum = fixed_split(fixed_join(*sum) + fixed_join(part));
}

double lki_fixed_value(lki_fixed sum)
{
    return (double)(wide)fixed_join(sum) * 0x1p-32; /* one rounding: the scaling is exact */
}

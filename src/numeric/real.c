/*
 * exp, log, cos, sin, erf, tanh, powers from + - * / and exact scaling.
 *
 * The polynomials are Taylor series cut where the rest is below 2^-57 of the result; ranges are
 * reduced until that takes few terms. Every constant is written so that its bits are plain.
 */
#include "numeric/real.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static const double LN2_HIGH = 0x1.62e42fefa2000p-1; /* 40 bits: k * LN2_HIGH is exact */
static const double LN2_LOW = 0x1.9ef35793c7673p-41;
static const double LN2_INVERSE = 0x1.71547652b82fep+0;

static double from_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t to_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* 2^k for a normal result. */
static double power_of_two(int64_t k)
{
    return from_bits((uint64_t)(k + 1023) << 52);
}

double lki_exp(double x)
{
    if (x != x) return x;
    if (x > 709.8) return (double)INFINITY;
    if (x < -745.2) return 0;
    /* x = k ln2 + r, |r| <= ln2 / 2; exp(r) = 1 + r + r^2/2! + ... + r^13/13!. */
    const double scaled = x * LN2_INVERSE;
    const int64_t k = (int64_t)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
    const double r = (x - (double)k * LN2_HIGH) - (double)k * LN2_LOW;
    static const double inverse_factorial[] = {
        1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320,
        1.0 / 5040,       1.0 / 720,       1.0 / 120,      1.0 / 24,      1.0 / 6,      1.0 / 2};
    double sum = inverse_factorial[0];
    for (int i = 1; i < 12; i++) sum = sum * r + inverse_factorial[i];
    const double value = 1 + (r + r * r * sum);
    if (k >= -1021 && k <= 1023) return value * power_of_two(k);
    const int64_t half = k / 2; /* 2^1024, or a denormal result: in two steps, one rounding */
    return value * power_of_two(half) * power_of_two(k - half);
}

double lki_log(double x)
{
    if (x != x || x == (double)INFINITY) return x;
    if (x == 0) return -(double)INFINITY;
    if (x < 0) return (double)NAN;
    int64_t k = 0;
    if (x < 0x1p-1022) {
        x *= 0x1p54;
        k = -54;
    }
    /* x = 2^k m with m in [sqrt(1/2), sqrt(2)), f = m - 1, s = f / (2 + f), z = s^2:
     * log(m) = 2 atanh(s) = 2s + s R with R = 2z/3 + 2z^2/5 + ..., and 2s = f - s f. */
    const uint64_t root_half = UINT64_C(0x3fe6a09e667f3bcd); /* the bits of sqrt(1/2) */
    const uint64_t offset = to_bits(x) - root_half;
    const int64_t exponent = (int64_t)offset < 0 ? -(int64_t)((~offset >> 52) + 1)
                                                 : (int64_t)(offset >> 52);
    k += exponent;
    const double m = from_bits(to_bits(x) - ((uint64_t)exponent << 52));
    const double f = m - 1, s = f / (2 + f), z = s * s;
    double sum = 2.0 / 21;
    for (int n = 19; n >= 3; n -= 2) sum = sum * z + 2.0 / n;
    const double tail = s * (f - sum * z);
    return (double)k * LN2_HIGH + (f - (tail - (double)k * LN2_LOW));
}

/* sin(2 pi t) and cos(2 pi t) for |t| <= 1/8: the series in t, with coefficients (2 pi)^n / n!. */
static double sin_near(double t)
{
    static const double c[] = {0x1.aaec32af93359p-4,  -0x1.6fadb9f155744p-1, 0x1.e8f434d018d63p+1,
                               -0x1.e3074fde8871fp+3, 0x1.50783487ee782p+5,  -0x1.32d2cce62bd86p+6,
                               0x1.466bc6775aae2p+6,  -0x1.4abbce625be53p+5};
    const double tau_high = 0x1.921fb54442d18p+2, tau_low = 0x1.1a62633145c07p-52;
    const double z = t * t;
    double sum = c[0];
    for (int i = 1; i < 8; i++) sum = sum * z + c[i];
    return t * (tau_high + (tau_low + z * sum));
}

static double cos_near(double t)
{
    static const double c[] = {0x1.20c62c2f2d7f5p-2,  -0x1.b6e24f44b128fp+0, 0x1.f9d38a3763cc3p+2,
                               -0x1.a6d1f2a204a8cp+4, 0x1.e1f506891babbp+5,  -0x1.55d3c7e3cbffap+6,
                               0x1.03c1f081b5ac4p+6,  -0x1.3bd3cc9be45dep+4};
    const double z = t * t;
    double sum = c[0];
    for (int i = 1; i < 8; i++) sum = sum * z + c[i];
    return 1 + z * sum;
}

/* cos of `turns` plus a number of quarter turns. */
static double cos_quarters(double turns, int quarters)
{
    const int nearest = (int)(turns * 4 + 0.5);
    const double rest = turns - 0.25 * nearest; /* exact, at most 1/8 */
    switch ((nearest + quarters) & 3) {
    case 0:
        return cos_near(rest);
    case 1:
        return -sin_near(rest);
    case 2:
        return -cos_near(rest);
    default:
        return sin_near(rest);
    }
}

double lki_cos_2pi(double turns)
{
    return cos_quarters(turns, 0);
}

double lki_sin_2pi(double turns)
{
    return cos_quarters(turns, 3);
}

/* erf(x) for |x| < 1/2: x + x w, w = (c - 1) + c (-z/3 + z^2/(2! 5) - z^3/(3! 7) + ...), z = x^2,
 * c = 2/sqrt(pi). */
static double erf_near(double x)
{
    static const double c[] = {-1.0 / 918086400, 1.0 / 76204800, -1.0 / 6894720, 1.0 / 685440,
                               -1.0 / 75600,     1.0 / 9360,     -1.0 / 1320,    1.0 / 216,
                               -1.0 / 42,        1.0 / 10,       -1.0 / 3};
    const double z = x * x;
    double sum = c[0];
    for (int i = 1; i < 11; i++) sum = sum * z + c[i];
    return x + x * (0x1.06eba8214db69p-3 + 0x1.20dd750429b6dp+0 * (z * sum));
}

/*
 * erf(x) for 1/2 <= x < 6, from the value at the nearest of 5/8, 7/8, 9/8, ... With x = a + h,
 *
 *     erf(x) = erf(a) + 2/sqrt(pi) exp(-a^2) h (g0 + g1 h/2 + g2 h^2/3 + ...)
 *
 * where the g are the coefficients of exp(-2ah - h^2): g0 = 1, n g(n) = -2a g(n-1) - 2 g(n-2).
 * The products g(n) h^n are formed one from another.
 */
static double erf_far(double x)
{
    static const double erf_at[] = {
        0x1.3f196dcd0f135p-1, 0x1.91724951b8fc6p-1, 0x1.c6dad2829ec62p-1, 0x1.e5768c3b4a3fcp-1,
        0x1.f4f693b67bd77p-1, 0x1.fbe61eef4cf6ap-1, 0x1.fea4218d6594ap-1, 0x1.ff9960f3eb327p-1,
        0x1.ffe514bbdc197p-1, 0x1.fff9ba420e834p-1, 0x1.fffeb3ebb267bp-1, 0x1.ffffc316d9ed0p-1,
        0x1.fffff618c3da6p-1, 0x1.fffffe92ced93p-1, 0x1.ffffffd169d0cp-1, 0x1.fffffffabd229p-1,
        0x1.ffffffff79626p-1, 0x1.fffffffff4188p-1, 0x1.ffffffffff11ap-1, 0x1.ffffffffffef8p-1,
        0x1.ffffffffffff0p-1, 0x1.fffffffffffffp-1};
    const int k = (int)(x * 4 - 2);
    const double a = 0.625 + 0.25 * k, h = x - a; /* exact */
    const double first = -2 * a * h, second = -2 * h * h;
    double before = 0, term = 1, sum = 1;
    for (int n = 1; n <= 16; n++) {
        const double next = (first * term + second * before) / n;
        before = term;
        term = next;
        sum += term / (n + 1);
    }
    return erf_at[k] + 0x1.20dd750429b6dp+0 * lki_exp(-a * a) * h * sum;
}

double lki_erf(double x)
{
    const double size = x < 0 ? -x : x;
    if (size < 0.5 || x != x) return erf_near(x);
    const double value = size < 6 ? erf_far(size) : 1;
    return x < 0 ? -value : value;
}

/* tanh(x) for |x| < 0.55: sinh(x) / cosh(x) = x - x (cosh(x) - sinh(x)/x) / cosh(x), where
 * cosh(x) - sinh(x)/x = 2 z/3! + 4 z^2/5! + 6 z^3/7! + ..., z = x^2. */
static double tanh_near(double x)
{
    static const double c[] = {
        14.0 / 1307674368000, 12.0 / 6227020800, 10.0 / 39916800, 8.0 / 362880,
        6.0 / 5040,           4.0 / 120,         2.0 / 6};
    static const double d[] = {1.0 / 87178291200, 1.0 / 479001600, 1.0 / 3628800, 1.0 / 40320,
                               1.0 / 720,         1.0 / 24,        1.0 / 2,       1.0};
    const double z = x * x;
    double difference = c[0], cosine = d[0];
    for (int i = 1; i < 7; i++) difference = difference * z + c[i];
    for (int i = 1; i < 8; i++) cosine = cosine * z + d[i];
    return x - x * (z * difference / cosine);
}

double lki_tanh(double x)
{
    const double size = x < 0 ? -x : x;
    if (x == 0) return x;
    if (size < 0.55 || x != x) return tanh_near(x);
    const double value = 1 - 2 / (lki_exp(2 * size) + 1);
    return x < 0 ? -value : value;
}

/* A number as the sum of two, the second of which is at most half an ulp of the first. */
typedef struct pair {
    double high, low;
} pair;

/* a * b, exactly (T. J. Dekker: "A floating-point technique for extending the available precision",
 * Numerische Mathematik 18, 1971); the second part is left out where the first is very large. */
static pair exact_product(double a, double b)
{
    const double product = a * b, split = 0x1p27 + 1;
    if (!(product < 0x1p900 && a < 0x1p900 && b < 0x1p900)) return (pair){product, 0};
    const double a_top = split * a - (split * a - a), b_top = split * b - (split * b - b);
    const double a_rest = a - a_top, b_rest = b - b_top;
    const double low = ((a_top * b_top - product) + a_top * b_rest + a_rest * b_top) +
                       a_rest * b_rest;
    return (pair){product, low};
}

/* Errs by some 2^-103. */
static pair real_multiply(pair a, pair b)
{
    const pair p = exact_product(a.high, b.high);
    if (!(p.high < 0x1p900)) return p;
    const double low = p.low + (a.high * b.low + a.low * b.high), high = p.high + low;
    return (pair){high, low - (high - p.high)};
}

/* By squaring: an error doubles with every square, so that it is below n * 2^-102. */
static pair power(double base, int64_t n)
{
    pair result = {1, 0}, square = {base, 0};
    for (;; square = real_multiply(square, square)) {
        if (n & 1) result = real_multiply(result, square);
        n >>= 1;
        if (n == 0) return result;
    }
}

double lki_power(double base, int64_t n)
{
    const pair p = power(base, n);
    return p.high + p.low;
}

double lki_power_rest(double base, int64_t n)
{
    const pair p = power(base, n);
    const double rest = 1 - p.high, lost = (1 - rest) - p.high; /* exactly rest + lost */
    return rest + (lost - p.low);
}

/*
 * base = 2^k m with m in [sqrt(1/2), sqrt(2)): base^e = 2^(k e) m^e, for e below 1, so that exp() has
 * a small argument: k e is formed exactly, and its integer is taken out.
 */
static double fractional_power(double base, double e)
{
    int64_t k = (int64_t)(to_bits(base) >> 52) - 1023;
    double m = base * power_of_two(-k);
    if (m >= 0x1.6a09e667f3bcdp+0) m /= 2, k++;
    const pair turns = exact_product((double)-k, e); /* k is at most 0 */
    const int64_t whole = (int64_t)(turns.high + 0.5);
    const double rest = (turns.high - (double)whole) + turns.low;
    return lki_exp(e * lki_log(m) - rest * 0x1.62e42fefa39efp-1) * power_of_two(-whole);
}

double lki_real_power(double base, double exponent)
{
    if (base < 0x1p-900) return 0;
    if (exponent >= 0x1p62) return base < 1 ? 0 : 1;
    const int64_t whole = (int64_t)exponent;
    const double part = exponent - (double)whole, value = lki_power(base, whole);
    return part > 0 ? value * fractional_power(base, part) : value;
}

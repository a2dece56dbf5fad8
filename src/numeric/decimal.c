/*
 * A decimal is w * 10^e with an integer w. Where doubles hold both w and the power of 10, one product or quotient of them
 * is rounded once. Up to 19 digits, and an e from -27 to 27, it is rounded by integers: 10^e = 5^e * 2^e, 5^27 has less
 * than 64 bits, so that product or quotient of w and a power of 5 fits in 128. Others are few in people's files, and
 * the C library reads them.
 */
#include "numeric/decimal.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/eight.h"
#include "base/text.h"

__extension__ typedef unsigned __int128 wide;

enum { MOST_DIGITS = 19, MOST_POWER = 27, DIGITS = 53, MOST_EXPONENT = 100000 };

static const uint64_t power_of_5[MOST_POWER + 1] = {
    1,
    5,
    25,
    125,
    625,
    3125,
    15625,
    78125,
    390625,
    1953125,
    9765625,
    48828125,
    244140625,
    1220703125,
    6103515625,
    30517578125,
    152587890625,
    762939453125,
    3814697265625,
    19073486328125,
    95367431640625,
    476837158203125,
    2384185791015625,
    11920928955078125,
    59604644775390625,
    298023223876953125,
    1490116119384765625,
    7450580596923828125,
};

enum { MOST_EXACT = 22 }; /* 5^22 has less than 53 bits */
static const double power_of_10[MOST_EXACT + 1] = {
    1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
};

static int bits_of(wide x)
{
    const uint64_t high = (uint64_t)(x >> 64);
    return high != 0 ? 128 - __builtin_clzll(high) : 64 - __builtin_clzll((uint64_t)x);
}

/* 2^power, a normal double. */
static double power_of_2(int power)
{
    const uint64_t bits = (uint64_t)(1023 + power) << (DIGITS - 1);
    double out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

/* m * 2^power, m not 0, and a bit more than that where `more`; m has over 53 bits then. The result is normal. */
static double round_to_double(wide m, int power, bool more)
{
    const int extra = bits_of(m) - DIGITS;
    if (extra <= 0) return (double)(uint64_t)m * power_of_2(power);
    uint64_t kept = (uint64_t)(m >> extra);
    const wide rest = m - ((wide)kept << extra), half = (wide)1 << (extra - 1);
    if (rest > half || (rest == half && (more || kept % 2 == 1))) kept++;
    return (double)kept * power_of_2(power + extra); /* exact: kept is at most 2^53 */
}

/* w * 10^exponent, w not 0, exponent from -MOST_POWER to MOST_POWER. Small ones have one rounding in double. */
static double scale_exactly(uint64_t w, int exponent)
{
    if (w >> DIGITS == 0 && abs(exponent) <= MOST_EXACT)
        return exponent < 0 ? (double)w / power_of_10[-exponent]
                            : (double)w * power_of_10[exponent];
    if (exponent >= 0) return round_to_double((wide)w * power_of_5[exponent], exponent, false);
    const uint64_t divisor = power_of_5[-exponent];
    const int a = __builtin_clzll(w), b = __builtin_clzll(divisor);
    const wide n = (wide)(w << a) << 63; /* the quotient has 63 or 64 bits */
    const uint64_t d = divisor << b, quotient = (uint64_t)(n / d);
    return round_to_double(quotient, exponent + b - a - 63, n != (wide)quotient * d);
}

static bool read_slowly(const char *text, size_t bytes, double *out)
{
    char copy[LKI_DECIMAL_MOST + 1];
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    const lki_text_caller had = lki_text_enter();
    *out = strtod(copy, NULL);
    lki_text_leave(had);
    return isfinite(*out);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* "e-7", where `at` has one; adds it to *exponent, as far as it matters. Returns where it ends; NULL: it has no digits. */
static const char *scan_exponent(const char *at, const char *end, int *exponent)
{
    int power = 0;
    if (at == end || (*at != 'e' && *at != 'E')) return at;
    at++;
    const bool negative = at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+')) at++;
    const char *digits = at;
    for (; at < end && is_digit(*at); at++)
        if (power < MOST_EXPONENT) power = power * 10 + (*at - '0');
    *exponent += negative ? -power : power;
    return at > digits ? at : NULL;
}

/* How many of the eight characters, from the first one, are digits; `x` has '0' taken from each by exclusive or. */
static int count_digits(uint64_t x)
{
    /* A byte above 9 carries into its high bit. What a carry out of it does to the bytes behind it does not matter. */
    const uint64_t other = ((x + lki_eight_of(0x76)) | x) & lki_eight_of(0x80);
    return other != 0 ? __builtin_ctzll(other) / 8 : 8;
}

/* The number of eight digits, the first in the lowest byte: neighbours are joined to pairs, to fours and to one. */
static uint64_t join_digits(uint64_t x)
{
    x = x * 10 + (x >> 8);
    x = (x & 0x000000FF000000FF) * 0x000F424000000064 +      /* 10^6, 100 */
        (x >> 16 & 0x000000FF000000FF) * 0x0000271000000001; /* 10^4, 1 */
    return x >> 32;
}

/* Appends the digits with which the eight characters at `at` begin to *w, modulo 2^64. Returns how many. */
static int scan_eight(const char *at, uint64_t *w)
{
    static const uint64_t shift[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
    const uint64_t x = lki_eight_load(at) ^ lki_eight_of('0');
    const int count = count_digits(x);
    if (count > 0) *w = *w * shift[count] + join_digits(x << (64 - 8 * count));
    return count;
}

/*
 * A number as most tables have them: "-12" or "3.25", up to 7 digits before and behind the point. They are looked at in one go: a
 * loop over them ends where the processor cannot foresee it, and that took most of the time. NULL: it is something else.
 */
static const char *scan_short(const char *at, const char *end, double *out)
{
    static const double sign[] = {1, -1};
    uint64_t w = 0;
    int behind = 0;
    if (end - at < 9) return NULL;
    const bool negative = *at == '-';
    at += negative;
    const int before = scan_eight(at, &w);
    if (before == 0 || before == 8) return NULL;
    at += before;
    if (*at == '.') {
        if (end - at < 9) return NULL;
        behind = scan_eight(at + 1, &w);
        if (behind == 0 || behind == 8) return NULL;
        at += 1 + behind;
    }
    if ((*at | 32) == 'e') return NULL;
    *out = sign[negative] * (double)(int64_t)w / power_of_10[behind];
    return at;
}

/* Appends the digits at `at` to *w, modulo 2^64; returns where they end. */
static const char *scan_digits(const char *at, const char *end, uint64_t *w)
{
    while (end - at >= 8) {
        const int count = scan_eight(at, w);
        at += count;
        if (count < 8) return at;
    }
    for (; at < end && is_digit(*at); at++) *w = *w * 10 + (uint64_t)(*at - '0');
    return at;
}

/* Digits, of which `behind` stand behind a point; *w is their number where it has no more than MOST_DIGITS. */
static const char *scan_point(const char *at, const char *end, uint64_t *w, int *behind, bool *fits)
{
    const char *first = at;
    *w = 0;
    *behind = 0;
    at = scan_digits(at, end, w);
    ptrdiff_t count = at - first;
    if (at < end && *at == '.') {
        const char *point = at;
        at = scan_digits(at + 1, end, w);
        *behind = (int)(at - point - 1);
        count += *behind;
    }
    if (count == 0) return NULL;
    if (count > MOST_DIGITS) /* they may be zeros */
        for (; first < at && (*first == '0' || *first == '.'); first++) count -= *first == '0';
    *fits = count <= MOST_DIGITS;
    return at;
}

static const char *scan_any(const char *text, const char *end, double *out)
{
    const char *at = text;
    uint64_t w;
    int behind, exponent;
    bool fits;
    if (end - text > LKI_DECIMAL_MOST) end = text + LKI_DECIMAL_MOST;
    const bool negative = at < end && *at == '-';
    if (negative || (at < end && *at == '+')) at++;
    at = scan_point(at, end, &w, &behind, &fits);
    exponent = -behind;
    if (at == NULL || (at = scan_exponent(at, end, &exponent)) == NULL) return NULL;
    if (!fits || (w != 0 && abs(exponent) > MOST_POWER))
        return read_slowly(text, (size_t)(at - text), out) ? at : NULL;
    const double size = w != 0 ? scale_exactly(w, exponent) : 0;
    *out = negative ? -size : size;
    return at;
}

const char *lki_decimal_scan(const char *text, const char *end, double *out)
{
    const char *stop = scan_short(text, end, out);
    return stop != NULL ? stop : scan_any(text, end, out);
}

bool lki_decimal_read(const char *text, size_t bytes, double *out)
{
    return bytes > 0 && lki_decimal_scan(text, text + bytes, out) == text + bytes;
}

/* Eight bytes of a text, looked at in one go. */
#ifndef LKI_BASE_EIGHT_H
#define LKI_BASE_EIGHT_H

#include <stdint.h>
#include <string.h>

/* The first one lowest. */
static inline uint64_t lki_eight_load(const void *at)
{
    uint64_t out;
    memcpy(&out, at, sizeof out);
    return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? __builtin_bswap64(out) : out;
}

/* Eight times this byte. */
static inline uint64_t lki_eight_of(uint8_t byte)
{
    return UINT64_C(0x0101010101010101) * byte;
}

/* The high bit of each byte that is 0. */
static inline uint64_t lki_eight_zeros(uint64_t x)
{
    const uint64_t low = lki_eight_of(0x7f);
    return ~(((x & low) + low) | x | low);
}

#endif

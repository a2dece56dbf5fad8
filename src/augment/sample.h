/* A pixel between four others. */
#ifndef LKI_AUGMENT_SAMPLE_H
#define LKI_AUGMENT_SAMPLE_H

#include "augment/augment.h"

enum { LKI_WEIGHT_BITS = 11 }; /* 255 * 2^22 is below 2^31 */

/* Where a coordinate lies between the centres of two pixels of a line: the first, the second, and the weight of the
 * second in 2^-11. */
typedef struct lki_between {
    int64_t first, second;
    int32_t weight;
} lki_between;

/* Of `at`, in 2^-32 pixels from the centre of the line's first pixel; beyond the ends is the last pixel of [0, count),
 * `from` pixels further. */
static inline lki_between lki_between_of(int64_t at, int64_t from, int64_t count)
{
    const int64_t whole = at >> 32;
    const int64_t first = whole < 0 ? 0 : whole < count ? whole : count - 1;
    const int64_t second = whole + 1 < 0 ? 0 : whole + 1 < count ? whole + 1 : count - 1;
    return (lki_between){from + first, from + second,
                         (int32_t)((at & 0xffffffff) >> (32 - LKI_WEIGHT_BITS))};
}

/* The weighted mean of four pixels, rounded to the nearest, halves up. */
static inline void lki_sample(const lki_image *image, lki_between row, lki_between column,
                              uint8_t *out)
{
    const int64_t n = image->columns, channels = image->channels;
    const uint8_t *a = image->in + (row.first * n + column.first) * channels;
    const uint8_t *b = image->in + (row.first * n + column.second) * channels;
    const uint8_t *c = image->in + (row.second * n + column.first) * channels;
    const uint8_t *d = image->in + (row.second * n + column.second) * channels;
    const int32_t one = 1 << LKI_WEIGHT_BITS, half = 1 << (2 * LKI_WEIGHT_BITS - 1);
    for (int64_t k = 0; k < channels; k++) {
        const int32_t upper = a[k] * (one - column.weight) + b[k] * column.weight;
        const int32_t lower = c[k] * (one - column.weight) + d[k] * column.weight;
        out[k] = (uint8_t)((upper * (one - row.weight) + lower * row.weight + half) >>
                           2 * LKI_WEIGHT_BITS);
    }
}

#endif

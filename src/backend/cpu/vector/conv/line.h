/*
 * Pixels as one line of rows of a product, through rows of the image and samples, so that tiles have their full height: where
 * they follow each other in memory as they are, else a strip of them is copied, with what all taps see of each.
 *
 *   image 4 x 4, tiles of 6     [ 0 0 0 0 ] [ 1 1 1 1 ] [ 2 2 2 2 ] [ 3 3 3 3 ] [ next sample ...     by rows
 *                               [ 0 0 0 0 0 0 | 1 1 1 1 1 1 | 2 2 2 2 2 2 | 3 ...                      a line
 *
 * Nothing of it makes a difference to a sum.
 */
#ifndef LKI_CPU_VECTOR_LINE_H
#define LKI_CPU_VECTOR_LINE_H

#include "backend/cpu/vector/conv/conv.h"

enum {
    LINE_MOST = 96,      /* pixels of a strip, that all panels pass over in turn, at most, */
    LINE_LEAST = 24,     /* and at least, in whole tiles of every instruction set: */
    LINE_TILES = 12,     /* so many; */
    LINE_FLOATS = 49152, /* as many as have so many floats in a: a second-level cache keeps them */
    LINE_COPIED = 4096,  /* more of a pixel, or */
    LINE_COLUMNS = 64    /* fewer columns of c do not pay for a copy */
};

INLINE int64_t line_strip(int64_t pixel)
{
    const int64_t pixels = LINE_FLOATS / pixel / LINE_TILES * LINE_TILES;
    return pixels < LINE_LEAST ? LINE_LEAST : pixels < LINE_MOST ? pixels : LINE_MOST;
}

/* Floats from pixel to pixel of a copy. A whole tile of pixels that are 4,096 bytes apart would fill their set of the
 * first-level cache. */
INLINE int64_t line_step(int64_t pixel)
{
    return pixel + (pixel % 1024 == 0 ? 16 : 0);
}

/* Of the copy, whatever taps of the kernel a sweep has, with so many channels under each. */
INLINE size_t line_bytes(const lki_conv_shape *s, int64_t channels)
{
    const int64_t taps = s->kernel[0] * s->kernel[1], all = taps * channels;
    const int64_t most = all < LINE_COPIED ? all : LINE_COPIED, least = LINE_LEAST * most;
    const int64_t cached = LINE_MOST * most < LINE_FLOATS ? LINE_MOST * most : LINE_FLOATS;
    return sizeof(float) * (size_t)((cached > least ? cached : least) + LINE_MOST * 16);
}

/* Whether the pixels are a line as they are. */
INLINE bool is_line(const sweep *s, int64_t count)
{
    if (count * s->grid[0] == 1) return true;
    return s->taps[0] * s->taps[1] == 1 && s->a_pixel[1] % 1024 != 0 &&
           s->a_pixel[0] == s->grid[1] * s->a_pixel[1] &&
           s->c_pixel[0] == s->grid[1] * s->c_pixel[1] &&
           s->a_sample == s->grid[0] * s->a_pixel[0] && s->c_sample == s->grid[0] * s->c_pixel[0];
}

/* Whether it pays to make a line of others, whose pixels follow each other in c: of products of matrices, or where tiles
 * of a row would be low or their pixels in one set of the cache. `channels`: under a tap; `columns`: of c. */
INLINE bool line_pays(const sweep *s, int64_t channels, int64_t columns)
{
    const int64_t taps = s->taps[0] * s->taps[1], tiles = (s->grid[1] + TILE_ROWS - 1) / TILE_ROWS;
    const bool low = 3 * s->grid[1] <= 2 * TILE_ROWS * tiles;
    return (low || taps == 1 || s->a_pixel[1] % 1024 == 0) && columns >= LINE_COLUMNS &&
           taps * channels <= LINE_COPIED && s->c_pixel[0] == s->grid[1] * s->c_pixel[1] &&
           s->c_sample == s->grid[0] * s->c_pixel[0];
}

/* Copies `count` pixels from `first` on, of so many channels under each tap, for the sweep to read these. */
INLINE void line_copy(sweep *s, int64_t first, int64_t count, int64_t channels, float *to)
{
    const int64_t pixel = s->taps[0] * s->taps[1] * channels, step = line_step(pixel);
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = (first + i) / s->grid[1], column = (first + i) % s->grid[1];
        const float *from = s->a + row / s->grid[0] * s->a_sample +
                            row % s->grid[0] * s->a_pixel[0] + column * s->a_pixel[1];
        float *at = to + i * step;
        for (int64_t v = 0; v < s->taps[0]; v++)
            for (int64_t h = 0; h < s->taps[1]; h++, at += channels)
                memcpy(at, from + v * s->a_tap[0] + h * s->a_tap[1],
                       sizeof(float) * (size_t)channels);
    }
    s->a = to;
    s->a_pixel[1] = step;
    s->a_tap[0] = s->taps[1] * channels;
    s->a_tap[1] = channels;
}

#endif

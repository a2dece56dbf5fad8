/*
 * Resizing pictures of bytes, row by row as they are decoded: Pillow's Image.resize() with BILINEAR, whose triangle
 * is as wide as the ratio of the sizes where a picture shrinks (antialiasing), in integers alone.
 *
 * Along an axis of n pixels that becomes m, output o is the mean of the inputs x with the weights
 *
 *   w(x) = 2 max(n, m) - |(2x + 1) m - (2o + 1) n|,   where that is positive and x is in [0, n)
 *
 * as multiples of 2^-22 of their sum, rounded to the nearest, halves up; the mean is rounded likewise. Rows are resized
 * first, to bytes, then columns. Pillow has the same weights in double, so some bytes may differ by one.
 */
#ifndef LKI_DATA_PICTURES_RESIZE_H
#define LKI_DATA_PICTURES_RESIZE_H

#include <lockstep/context.h>

/* What is larger is no picture to train on, and may be made to fill the memory. */
enum { LKI_PICTURE_CHANNELS = 3, LKI_PICTURE_PIXELS = 100000000, LKI_PICTURE_SIDE = 65535 };

/* One axis: output o is of the inputs first[o] .. first[o] + count[o] - 1. */
typedef struct lki_resize_axis {
    int *first, *count;
    int32_t *weight; /* [outputs][taps] */
    int taps;
} lki_resize_axis;

/* Zero it, set context, height and width of what is to come out, and use it for any number of pictures. */
typedef struct lki_resize {
    lks_context *context;
    int height, width;
    int from_height, from_width; /* of this picture */
    int rows;                    /* of it that came */
    lki_resize_axis across, down;
    uint8_t *narrow; /* [from_height][width][3] */
    void *memory;    /* all of the above */
    size_t bytes;
} lki_resize;

/* A picture begins, of a size that its file says. LKS_E_FORMAT: it has no pixels, or too many. */
lks_status lki_resize_begin(lki_resize *resize, uint64_t height, uint64_t width);
/* Its next row of red, green, blue. */
void lki_resize_row(lki_resize *resize, const uint8_t *row);
/* All rows came: out is [height][width][3]. */
void lki_resize_end(const lki_resize *resize, uint8_t *out);
void lki_resize_free(lki_resize *resize);

#endif

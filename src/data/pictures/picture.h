/*
 * Pictures in files: JPEG by libjpeg-turbo, PNG by libpng; what a file is its first bytes say. Whatever it has becomes
 * red, green and blue of a byte each: grey three times; a palette's colours; of 16 bits the upper 8; alpha is dropped,
 * as Pillow's convert("RGB") does; CMYK as Adobe's programs write it (inverted), each colour times black / 255, rounded.
 * JPEG is turned upright as its Exif says. Gamma and colour profiles are not looked at.
 *
 * Bits are the same on every machine: libjpeg-turbo's ISLOW has one definition for all its instruction sets, and what its
 * versions do in different ways is off (smoothing of blocks; smooth upsampling where only rows were halved).
 */
#ifndef LKI_DATA_PICTURES_PICTURE_H
#define LKI_DATA_PICTURES_PICTURE_H

#include "data/pictures/resize.h"

enum { LKI_PICTURE_FILE = 1 << 28 }; /* bytes of a file, at most */

/* A decoder. LKS_E_FORMAT: the picture is bad, and the sentence says why without its name. */
typedef lks_status lki_picture_decode(lki_resize *to, const uint8_t *data, size_t bytes);
lki_picture_decode lki_jpeg_decode, lki_png_decode;

/* The picture of these bytes, resized: out is [to->height][to->width][3]. LKS_E_UNSUPPORTED: this build has no such
 * decoder; else as above. */
lks_status lki_picture_read(uint8_t *out, lki_resize *to, const uint8_t *data, size_t bytes);

/* Reads pictures from files, one after the other. Zero it, and set resize.context, height and width. */
typedef struct lki_picture_reader {
    lki_resize resize;
    uint8_t *file; /* what came from one */
    size_t room;
} lki_picture_reader;
/* LKS_E_FORMAT: that file cannot be read or is bad; other failures are of this machine. */
lks_status lki_picture_load(uint8_t *out, lki_picture_reader *reader, const char *path);
void lki_picture_reader_free(lki_picture_reader *reader);

#endif

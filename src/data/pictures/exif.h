/* How a camera was held: the orientation that it notes in a picture (Exif 2.32, 4.6.4.A: tag 274 of the first directory). */
#ifndef LKI_DATA_PICTURES_EXIF_H
#define LKI_DATA_PICTURES_EXIF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 1 to 8, as Exif numbers them, from the content of an APP1 marker; 1, upright, where that has no orientation, or none that
 * makes sense. */
int lki_exif_orientation(const uint8_t *marker, size_t bytes);

/* From 5 on rows become columns. */
static inline bool lki_exif_lies(int orientation)
{
    return orientation >= 5;
}

/* Row `row` of the upright picture into `out`, from one of [height][width][3] that lies as `orientation` says. */
void lki_exif_row(uint8_t *out, const uint8_t *picture, int height, int width, int orientation,
                  int row);

#endif

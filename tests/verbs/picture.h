/* PNG files that the program has drawn, as libpng reads them. */
#ifndef LKT_VERBS_PICTURE_H
#define LKT_VERBS_PICTURE_H

#include <png.h>
#include <stdlib.h>

#include "cli/program.h"

typedef struct picture {
    png_image image;
    uint8_t *value; /* row by row, as the format says; for free() */
} picture;

/* format: PNG_FORMAT_RGB, say. */
static inline picture read_png(const char *name, png_uint_32 format)
{
    picture p = {.image = {.version = PNG_IMAGE_VERSION}};
    if (png_image_begin_read_from_file(&p.image, in_folder(name)) == 0)
        fail_msg("%s: %s", name, p.image.message);
    p.image.format = format;
    p.value = malloc(PNG_IMAGE_SIZE(p.image));
    assert_non_null(p.value);
    if (png_image_finish_read(&p.image, NULL, p.value, 0, NULL) == 0)
        fail_msg("%s: %s", name, p.image.message);
    return p;
}

#endif

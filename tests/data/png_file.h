/* PNG files for tests, written by libpng. */
#ifndef LKT_DATA_PNG_FILE_H
#define LKT_DATA_PNG_FILE_H

#include <png.h>
#include <stdlib.h>

#include "support/test.h"

/* Row by row, as the type and depth have it. */
static inline void lkt_write_png(const char *path, int height, int width, int type, int depth,
                                 bool interlaced, const uint8_t *pixels, size_t row)
{
    FILE *file = fopen(path, "wb");
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    static const png_color palette[] = {{10, 20, 30}, {200, 100, 0}, {0, 0, 255}, {255, 255, 255}};
    static const uint8_t alpha[] = {0, 128};
    assert_non_null(file);
    if (setjmp(png_jmpbuf(png)) != 0) fail_msg("%s could not be written", path);
    png_init_io(png, file);
    png_set_compression_level(png, 1);
    png_set_IHDR(png, info, (png_uint_32)width, (png_uint_32)height, depth, type,
                 interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (type == PNG_COLOR_TYPE_PALETTE) {
        png_set_PLTE(png, info, palette, 4);
        png_set_tRNS(png, info, alpha, 2, NULL);
    }
    png_write_info(png, info);
    const int passes = png_set_interlace_handling(png);
    for (int pass = 0; pass < passes; pass++)
        for (int y = 0; y < height; y++) png_write_row(png, pixels + (size_t)y * row);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    assert_int_equal(fclose(file), 0);
}

/* A picture of a colour of its own for each class, with some noise for each number. */
static inline void lkt_write_sample(const char *path, int class, int number, int height, int width)
{
    uint8_t *pixels = malloc((size_t)height * (size_t)width * 3), *p = pixels;
    uint32_t noise = (uint32_t)(number * 7919 + class * 104729 + 1);
    assert_non_null(pixels);
    for (int i = 0; i < height * width; i++)
        for (int c = 0; c < 3; c++) {
            noise = noise * 1664525 + 1013904223;
            *p++ = (uint8_t)((c == class % 3 ? 180 : 60) + (noise >> 24) / 8);
        }
    lkt_write_png(path, height, width, PNG_COLOR_TYPE_RGB, 8, number % 2 == 1, pixels,
                  (size_t)width * 3);
    free(pixels);
}

#endif

/*
 * Orientation in Exif: what a marker says in either order of bytes, and that one which lies about itself says nothing; the
 * eight ways in which a picture may lie, by what each does to a corner (Exif 2.32, 4.6.4.A), and through the decoder.
 * tests/data/pillow.py compares with Pillow's exif_transpose().
 */
#include <stdlib.h>
#include <string.h>

#include "data/pictures/exif.h"
#include "data/pictures/picture.h"
#include "support/test.h"

enum { HEAD = 6, ENTRY = HEAD + 10, ALL = ENTRY + 2 * 12 + 4 };

static void put(uint8_t *out, bool big, int bytes, uint32_t value)
{
    for (int i = 0; i < bytes; i++) out[i] = (uint8_t)(value >> 8 * (big ? bytes - 1 - i : i));
}

/* A directory of two: the width of a picture, and its orientation. */
static void make_marker(uint8_t out[ALL], bool big, uint32_t orientation)
{
    memset(out, 0, ALL);
    memcpy(out, "Exif\0", 6);
    memcpy(out + HEAD, big ? "MM" : "II", 2);
    put(out + HEAD + 2, big, 2, 42);
    put(out + HEAD + 4, big, 4, 8);
    put(out + HEAD + 8, big, 2, 2);
    for (int e = 0; e < 2; e++) {
        put(out + ENTRY + 12 * e, big, 2, e == 0 ? 256 : 274);
        put(out + ENTRY + 12 * e + 2, big, 2, 3);
        put(out + ENTRY + 12 * e + 4, big, 4, 1);
        put(out + ENTRY + 12 * e + 8, big, 2, e == 0 ? 7 : orientation);
    }
}

static void either_order_of_bytes_is_read(void **state)
{
    uint8_t marker[ALL];
    (void)state;
    for (int big = 0; big < 2; big++)
        for (uint32_t o = 0; o < 300; o++) {
            make_marker(marker, big == 1, o);
            assert_int_equal(lki_exif_orientation(marker, ALL), o >= 1 && o <= 8 ? o : 1);
        }
}

/* The marker's bytes alone, so that a sanitizer sees what is read behind them. */
static int orientation_of(const uint8_t *marker, size_t bytes)
{
    uint8_t *copy = malloc(bytes + 1);
    assert_non_null(copy);
    memcpy(copy + 1, marker, bytes);
    const int found = lki_exif_orientation(copy + 1, bytes);
    free(copy);
    return found;
}

static void what_makes_no_sense_is_upright(void **state)
{
    static const struct {
        int at, bytes;
        uint32_t value;
    } lies[] = {
        {0, 4, 0},                 /* another marker */
        {HEAD, 2, 0x494d},         /* an order of bytes that there is not */
        {HEAD + 1, 1, 'X'},        /* half of one */
        {HEAD + 2, 2, 43},         /* no TIFF */
        {HEAD + 4, 4, UINT32_MAX}, /* a directory behind the end, */
        {HEAD + 4, 4, ALL - HEAD}, /* at the end, */
        {HEAD + 4, 4, ALL - HEAD - 1},
        {HEAD + 8, 2, 1},   /* without the entry, */
        {ENTRY + 12, 2, 0}, /* with another, */
        {ENTRY + 14, 2, 5}, /* of another type, */
        {ENTRY + 16, 4, 2}, /* of two values */
    };
    uint8_t marker[ALL];
    (void)state;
    for (int big = 0; big < 2; big++) {
        make_marker(marker, big == 1, 6);
        /* The last entry ends 4 bytes before the end. */
        for (size_t bytes = 0; bytes <= ALL; bytes++)
            assert_int_equal(orientation_of(marker, bytes), bytes >= ALL - 4 ? 6 : 1);
        for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
            make_marker(marker, big == 1, 6);
            put(marker + lies[i].at, big == 1, lies[i].bytes, lies[i].value);
            if (orientation_of(marker, ALL) != 1) fail_msg("lie %zu is believed", i);
        }
        make_marker(marker, big == 1, 6);
        put(marker + HEAD + 8, big == 1, 2, UINT16_MAX); /* more entries than there is room for */
        assert_int_equal(orientation_of(marker, ALL), 6);
        put(marker + ENTRY + 12, big == 1, 2, 275);
        assert_int_equal(orientation_of(marker, ALL), 1);
    }
}

/* Where the file's first pixel and the one to its right are in the upright picture: top or bottom, left or right, and
 * beside or below each other. */
static const struct {
    bool bottom, right, below;
} CORNER[9] = {[1] = {false, false, false}, [2] = {false, true, false}, [3] = {true, true, false},
               [4] = {true, false, false},  [5] = {false, false, true}, [6] = {false, true, true},
               [7] = {true, true, true},    [8] = {true, false, true}};

static void the_corner_is_where_exif_says(void **state)
{
    enum { HEIGHT = 2, WIDTH = 3 };
    uint8_t picture[HEIGHT * WIDTH * 3], upright[HEIGHT * WIDTH * 3];
    (void)state;
    for (int i = 0; i < HEIGHT * WIDTH; i++) memset(picture + 3 * i, i + 1, 3);
    for (int o = 1; o <= 8; o++) {
        const int height = o >= 5 ? WIDTH : HEIGHT, width = o >= 5 ? HEIGHT : WIDTH;
        assert_int_equal(lki_exif_lies(o), o >= 5);
        for (int row = 0; row < height; row++)
            lki_exif_row(upright + 3 * row * width, picture, HEIGHT, WIDTH, o, row);
        int sum = 0;
        for (int i = 0; i < HEIGHT * WIDTH; i++) sum += upright[3 * i + 2];
        assert_int_equal(sum, 1 + 2 + 3 + 4 + 5 + 6);
        const int y = CORNER[o].bottom ? height - 1 : 0, x = CORNER[o].right ? width - 1 : 0;
        assert_int_equal(upright[3 * (y * width + x)], 1);
        const int y2 = y + (!CORNER[o].below ? 0 : CORNER[o].bottom ? -1 : 1);
        const int x2 = x + (CORNER[o].below ? 0 : CORNER[o].right ? -1 : 1);
        assert_int_equal(upright[3 * (y2 * width + x2)], 2);
    }
}

#if defined(LKT_HAVE_JPEG)

#include <stdio.h>

#include <jpeglib.h>

enum { HIGH = 50, WIDE = 9, PIXELS = HIGH * WIDE * 3 }; /* a row of the turned one is longer */

/* A picture with this orientation; 0: with none. Its memory is to be freed. */
static uint8_t *write_jpeg(uint32_t orientation, size_t *bytes)
{
    struct jpeg_compress_struct info;
    struct jpeg_error_mgr errors;
    uint8_t marker[ALL], *file = NULL;
    unsigned long size = 0;
    info.err = jpeg_std_error(&errors);
    jpeg_create_compress(&info);
    jpeg_mem_dest(&info, &file, &size);
    info.image_height = HIGH;
    info.image_width = WIDE;
    info.input_components = 3;
    info.in_color_space = JCS_RGB;
    jpeg_set_defaults(&info);
    jpeg_start_compress(&info, TRUE);
    make_marker(marker, orientation % 2 == 0, orientation);
    if (orientation > 0) jpeg_write_marker(&info, JPEG_APP0 + 1, marker, ALL);
    for (int y = 0; y < HIGH; y++) {
        uint8_t line[WIDE * 3], *row = line;
        for (int i = 0; i < WIDE * 3; i++) line[i] = (uint8_t)(y * 4 + i * 7 + i * y % 5);
        jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
    jpeg_destroy_compress(&info);
    *bytes = size;
    return file;
}

static void read_turned(uint8_t out[PIXELS], uint32_t orientation, int height, int width)
{
    size_t bytes;
    uint8_t *file = write_jpeg(orientation, &bytes);
    lki_resize to = {.height = height, .width = width};
    LKT_OK(lki_picture_read(out, &to, file, bytes));
    lki_resize_free(&to);
    free(file);
}

static void jpeg_is_turned_upright(void **state)
{
    uint8_t plain[PIXELS], found[PIXELS], expected[PIXELS];
    (void)state;
    read_turned(plain, 0, HIGH, WIDE);
    for (int o = 1; o <= 9; o++) {
        const int height = o >= 5 && o <= 8 ? WIDE : HIGH, width = HIGH + WIDE - height;
        read_turned(found, (uint32_t)o, height, width);
        for (int row = 0; row < height; row++)
            lki_exif_row(expected + 3 * row * width, plain, HIGH, WIDE, o == 9 ? 1 : o, row);
        assert_memory_equal(found, expected, PIXELS);
    }
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(either_order_of_bytes_is_read),
        cmocka_unit_test(what_makes_no_sense_is_upright),
        cmocka_unit_test(the_corner_is_where_exif_says),
#if defined(LKT_HAVE_JPEG)
        cmocka_unit_test(jpeg_is_turned_upright),
#endif
    };
    return cmocka_run_group_tests_name("pictures/exif", tests, NULL, NULL);
}

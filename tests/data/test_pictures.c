/* Decoding and resizing pictures. */
#include "data/pictures.h"

#include <math.h>

#include "numeric/hash.h"

/* ---------------------------------------------------------------- resizing */

/* Along one axis of `n` values, `step` apart, as Pillow's precompute_coeffs() has it, in double; rounded to a byte. */
static int mean_at(const uint8_t *from, size_t step, int n, int m, int output)
{
    const double ratio = (double)n / m, wide = ratio > 1 ? ratio : 1;
    const double centre = (output + 0.5) * ratio;
    double sum = 0, weights = 0;
    for (int x = 0; x < n; x++) {
        const double distance = fabs((x + 0.5 - centre) / wide);
        if (distance >= 1) continue;
        weights += 1 - distance;
        sum += (1 - distance) * from[(size_t)x * step];
    }
    return (int)floor(sum / weights + 0.5);
}

/* Columns, then rows, in double, with a rounding between. */
static void resize_slowly(uint8_t *out, int height, int width, const uint8_t *from, int from_height,
                          int from_width)
{
    uint8_t *narrow = malloc((size_t)from_height * (size_t)width * 3);
    assert_non_null(narrow);
    for (int y = 0; y < from_height; y++)
        for (int x = 0; x < width; x++)
            for (int c = 0; c < 3; c++)
                narrow[(y * width + x) * 3 + c] = (uint8_t)mean_at(
                    from + (size_t)y * (size_t)from_width * 3 + c, 3, from_width, width, x);
    for (int y = 0; y < height; y++)
        for (int i = 0; i < width * 3; i++)
            out[y * width * 3 + i] = (uint8_t)mean_at(narrow + i, (size_t)width * 3, from_height,
                                                      height, y);
    free(narrow);
}

static void resize(lki_resize *r, uint8_t *out, const uint8_t *from, int height, int width)
{
    LKT_OK(lki_resize_begin(r, (uint64_t)height, (uint64_t)width));
    for (int y = 0; y < height; y++) lki_resize_row(r, from + (size_t)y * (size_t)width * 3);
    lki_resize_end(r, out);
}

static void resizing_is_a_mean_with_a_triangles_weights(void **state)
{
    (void)state;
    enum { MOST = 60 };
    lkt_random random = lkt_random_make("resizing", 11);
    static uint8_t from[MOST * MOST * 3], found[MOST * MOST * 3], expected[MOST * MOST * 3];
    for (int i = 0; i < 300; i++) {
        const int sizes[] = {
            (int)lkt_random_from(&random, 1, MOST), (int)lkt_random_from(&random, 1, MOST),
            (int)lkt_random_from(&random, 1, MOST), (int)lkt_random_from(&random, 1, MOST)};
        lki_resize r = {.context = context, .height = sizes[0], .width = sizes[1]};
        for (int twice = 0; twice < 2; twice++) { /* in the memory of a larger one */
            for (size_t k = 0; k < sizeof from; k++) from[k] = (uint8_t)lkt_random_bits(&random);
            resize(&r, found, from, sizes[2], sizes[3]);
            resize_slowly(expected, sizes[0], sizes[1], from, sizes[2], sizes[3]);
            for (int k = 0; k < sizes[0] * sizes[1] * 3; k++)
                if (abs(found[k] - expected[k]) > 1)
                    fail_msg("%dx%d to %dx%d: byte %d is %d, expected %d", sizes[2], sizes[3],
                             sizes[0], sizes[1], k, found[k], expected[k]);
            const size_t same = (size_t)sizes[0] * (size_t)sizes[1] * 3;
            if (sizes[0] == sizes[2] && sizes[1] == sizes[3])
                assert_memory_equal(found, from, same);
            if (twice == 0 && sizes[2] > 1) resize(&r, found, from, sizes[2] - 1, sizes[3]);
        }
        lki_resize_free(&r);
    }
}

/* The extremes: rounded weights of 65535 pixels still add up to something that gives white. */
static void what_is_white_stays_white(void **state)
{
    (void)state;
    enum { LONG = 65535 };
    static uint8_t row[LONG * 3], out[7 * 3];
    memset(row, 255, sizeof row);
    for (int width = 1; width <= 7; width += 3) {
        lki_resize r = {.context = context, .height = 1, .width = width};
        resize(&r, out, row, 1, LONG);
        for (int i = 0; i < width * 3; i++) assert_in_range(out[i], 254, 255);
        lki_resize_free(&r);
    }
}

/* ---------------------------------------------------------------- decoding */

static void every_form_of_png_becomes_colours(void **state)
{
    (void)state;
    static const struct {
        int type, depth;
        size_t row;
        uint8_t pixels[32];
        uint8_t expected[12]; /* of 2x2 */
    } forms[] = {
        {PNG_COLOR_TYPE_RGB,
         8,
         6,
         {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
         {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
        {PNG_COLOR_TYPE_RGB,
         16,
         12,
         {1, 255, 2, 255, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 8, 0, 9, 0, 10, 0, 11, 0, 12, 200},
         {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
        {PNG_COLOR_TYPE_GRAY, 8, 2, {9, 80, 7, 255}, {9, 9, 9, 80, 80, 80, 7, 7, 7, 255, 255, 255}},
        {PNG_COLOR_TYPE_GRAY, 1, 1, {0x40, 0x80}, {0, 0, 0, 255, 255, 255, 255, 255, 255, 0, 0, 0}},
        {PNG_COLOR_TYPE_GRAY,
         16,
         4,
         {9, 200, 80, 0, 7, 0, 255, 255},
         {9, 9, 9, 80, 80, 80, 7, 7, 7, 255, 255, 255}},
        {PNG_COLOR_TYPE_GRAY_ALPHA,
         8,
         4,
         {9, 0, 80, 128, 7, 255, 255, 1},
         {9, 9, 9, 80, 80, 80, 7, 7, 7, 255, 255, 255}},
        {PNG_COLOR_TYPE_RGB_ALPHA,
         8,
         8,
         {1, 2, 3, 0, 4, 5, 6, 1, 7, 8, 9, 2, 10, 11, 12, 255},
         {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
        {PNG_COLOR_TYPE_PALETTE,
         8,
         2,
         {0, 1, 2, 3},
         {10, 20, 30, 200, 100, 0, 0, 0, 255, 255, 255, 255}},
        {PNG_COLOR_TYPE_PALETTE,
         2,
         1,
         {0x10, 0xb0},
         {10, 20, 30, 200, 100, 0, 0, 0, 255, 255, 255, 255}},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        for (int interlaced = 0; interlaced < 2; interlaced++) {
            uint8_t found[12];
            lkt_write_png(in_folder("a.png"), 2, 2, forms[i].type, forms[i].depth, interlaced == 1,
                          forms[i].pixels, forms[i].row);
            LKT_OK(decode(found, in_folder("a.png"), 2, 2));
            for (int k = 0; k < 12; k++)
                if (found[k] != forms[i].expected[k])
                    fail_msg("form %zu: byte %d is %d, expected %d", i, k, found[k],
                             forms[i].expected[k]);
        }
}

#if defined(LKT_HAVE_JPEG)

#include <jpeglib.h>

#include "data/small_jpeg.h"

/* `inks` are four, as Adobe's programs write them. */
static void write_jpeg(const char *path, int height, int width, int channels, bool progressive,
                       const uint8_t *pixels)
{
    struct jpeg_compress_struct info;
    struct jpeg_error_mgr errors;
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    info.err = jpeg_std_error(&errors);
    jpeg_create_compress(&info);
    jpeg_stdio_dest(&info, file);
    info.image_height = (JDIMENSION)height;
    info.image_width = (JDIMENSION)width;
    info.input_components = channels;
    info.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&info);
    jpeg_set_quality(&info, 100, TRUE);
    info.write_Adobe_marker = channels == 4;
    if (progressive) jpeg_simple_progression(&info);
    jpeg_start_compress(&info, TRUE);
    while (info.next_scanline < info.image_height) {
        uint8_t *row = (uint8_t *)(uintptr_t)pixels +
                       (size_t)info.next_scanline * (size_t)(width * channels);
        jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
    jpeg_destroy_compress(&info);
    fclose(file);
}

static void expect_flat(const char *what, const uint8_t *found, int pixels, const int colour[3])
{
    for (int i = 0; i < pixels * 3; i++)
        if (abs(found[i] - colour[i % 3]) > 2)
            fail_msg("%s: byte %d is %d, expected about %d", what, i, found[i], colour[i % 3]);
}

static void every_form_of_jpeg_becomes_colours(void **state)
{
    (void)state;
    enum { SIDE = 20 };
    static uint8_t pixels[SIDE * SIDE * 4], found[SIDE * SIDE * 3];
    for (int progressive = 0; progressive < 2; progressive++) {
        memset(pixels, 77, sizeof pixels);
        write_jpeg(in_folder("a.jpg"), SIDE, SIDE, 1, progressive == 1, pixels);
        LKT_OK(decode(found, in_folder("a.jpg"), SIDE, SIDE));
        expect_flat("grey", found, SIDE * SIDE, (const int[]){77, 77, 77});
        for (int i = 0; i < SIDE * SIDE; i++) memcpy(pixels + 3 * i, (uint8_t[]){200, 100, 50}, 3);
        write_jpeg(in_folder("a.jpg"), SIDE, SIDE, 3, progressive == 1, pixels);
        LKT_OK(decode(found, in_folder("a.jpg"), SIDE, SIDE));
        expect_flat("colours", found, SIDE * SIDE, (const int[]){200, 100, 50});
        /* Inverted inks: 255 is none. */
        for (int i = 0; i < SIDE * SIDE; i++)
            memcpy(pixels + 4 * i, (uint8_t[]){255, 128, 51, 128}, 4);
        write_jpeg(in_folder("a.jpg"), SIDE, SIDE, 4, progressive == 1, pixels);
        LKT_OK(decode(found, in_folder("a.jpg"), SIDE, SIDE));
        expect_flat("inks", found, SIDE * SIDE, (const int[]){128, 64, 26});
    }
}

/* Whatever processor libjpeg-turbo runs on. */
static void bits_of_jpeg_are_the_same_everywhere(void **state)
{
    (void)state;
    uint8_t found[21 * 19 * 3];
    write_bytes(in_folder("a.jpg"), small_jpeg, sizeof small_jpeg);
    LKT_OK(decode(found, in_folder("a.jpg"), 19, 21));
    assert_int_equal(lki_hash(found, sizeof found), SMALL_JPEG_PIXELS);
    LKT_OK(decode(found, in_folder("a.jpg"), 5, 7));
    assert_int_equal(lki_hash(found, 5 * 7 * 3), SMALL_JPEG_RESIZED);
}

#endif

/* A decoder's bytes may end anywhere: it says so, and keeps no memory. */
static void what_is_cut_off_is_bad(void **state)
{
    (void)state;
    enum { SIDE = 24 };
    static uint8_t pixels[SIDE * SIDE * 3], found[SIDE * SIDE * 3];
    static const char *const names[] = {"a.png", "b.png", "a.jpg", "b.jpg"};
    int files = 2;
    for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(i * i * 31 + i / 7);
    for (int k = 0; k < 2; k++)
        lkt_write_png(in_folder(names[k]), SIDE, SIDE, PNG_COLOR_TYPE_RGB, 8, k == 1, pixels,
                      SIDE * 3);
#if defined(LKT_HAVE_JPEG)
    for (int k = 0; k < 2; k++) write_jpeg(in_folder(names[2 + k]), SIDE, SIDE, 3, k == 1, pixels);
    files = 4;
#endif
    for (int k = 0; k < files; k++) {
        size_t count;
        uint8_t *bytes = read_bytes(in_folder(names[k]), &count);
        lkt_heap heap = {0};
        const lks_allocator allocator = lkt_heap_allocator(&heap);
        lks_context *own;
        LKT_OK(lks_context_create(&own, &(lks_context_opts){.allocator = allocator}));
        const int64_t live = heap.live;
        lki_resize r = {.context = own, .height = SIDE, .width = SIDE};
        for (size_t n = 0; n < count; n++) {
            const lks_status status = lki_picture_read(found, &r, bytes, n);
            /* Of a JPEG the mark of its end may be all that lacks, where nothing else was read ahead. */
            if (status == LKS_OK && n + 2 >= count && k >= 2) continue;
            if (status != LKS_E_FORMAT)
                fail_msg("%s of %zu of %zu bytes: status %d", names[k], n, count, (int)status);
        }
        LKT_OK(lki_picture_read(found, &r, bytes, count));
        lki_resize_free(&r);
        assert_int_equal(heap.live, live);
        lks_context_destroy(own);
        free(bytes);
    }
}

static void other_files_are_bad(void **state)
{
    (void)state;
    uint8_t out[3] = {0};
    lki_resize r = {.context = context, .height = 1, .width = 1};
    LKT_FAILS(LKS_E_FORMAT, "the file is empty", lki_picture_read(out, &r, out, 0));
    LKT_FAILS(LKS_E_FORMAT, "but GIF by its",
              lki_picture_read(out, &r, (const uint8_t *)"GIF89a", 6));
    LKT_FAILS(LKS_E_FORMAT, "something else", lki_picture_read(out, &r, (const uint8_t *)"abc", 3));
    LKT_FAILS(LKS_E_FORMAT, "100000 x 1 pixels", lki_resize_begin(&r, 1, 100000));
    LKT_FAILS(LKS_E_FORMAT, "at most 100 million", lki_resize_begin(&r, 10001, 10000));
    LKT_FAILS(LKS_E_FORMAT, "no pixels", lki_resize_begin(&r, 0, 5));
    LKT_OK(lki_resize_begin(&r, 10000, 10000));
    lki_resize_free(&r);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(resizing_is_a_mean_with_a_triangles_weights),
        TEST(what_is_white_stays_white),
        TEST(every_form_of_png_becomes_colours),
#if defined(LKT_HAVE_JPEG)
        TEST(every_form_of_jpeg_becomes_colours),
        TEST(bits_of_jpeg_are_the_same_everywhere),
#endif
        TEST(what_is_cut_off_is_bad),
        TEST(other_files_are_bad),
    };
    return cmocka_run_group_tests_name("data/pictures", tests, NULL, NULL);
}

/* IDX files: what is read, what is refused and with which sentence, what is written. */
#include "data/idx.h"
#include <lockstep/tools.h>

static void write_bytes(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void write_usual(void)
{
    const idx x = make(3, image_dims, 251), y = make(1, label_dims, 3);
    write_bytes(images, x.data, x.bytes);
    write_bytes(labels, y.data, y.bytes);
}

static void reads_plain_and_gzip(void **state)
{
    (void)state;
    const idx x = make(3, image_dims, 251), y = make(1, label_dims, 3);
    write_usual();
    check_usual();
    write_gzip(images, x.data, x.bytes);
    check_usual();
    write_gzip(labels, y.data, y.bytes);
    check_usual();
}

static void reads_one_to_four_dimensions(void **state)
{
    (void)state;
    static const int dims[] = {5, 2, 3, 4, 2};
    const idx y = make(1, dims, 2);
    write_bytes(labels, y.data, y.bytes);
    for (int ndim = 1; ndim <= 4; ndim++) {
        const idx x = make(1 + ndim, dims, 200);
        lks_dataset *set;
        write_bytes(images, x.data, x.bytes);
        LKT_OK(lks_dataset_open_idx(&set, context, images, labels, 2));
        const lks_dataset_info info = lks_dataset_get_info(set);
        assert_int_equal(info.shape.ndim, ndim == 2 ? 3 : ndim);
        for (int i = 0; i < ndim; i++) assert_int_equal(info.shape.dim[i], dims[1 + i]);
        lks_dataset_destroy(set);
    }
}

static void reads_images_alone(void **state)
{
    (void)state;
    lks_dataset *set;
    uint8_t x[15];
    int32_t y = -1;
    write_usual();
    LKT_OK(lks_dataset_open_idx(&set, context, images, NULL, 10));
    const lks_dataset_info info = lks_dataset_get_info(set);
    assert_int_equal(info.samples, 7);
    assert_int_equal(info.classes, 10);
    LKT_OK(lks_dataset_read(set, 5, x, &y));
    assert_int_equal(y, 0);
    assert_int_equal(x[0], 75);
    lks_dataset_destroy(set);
}

static void fails(lks_status status, const char *part, int64_t classes)
{
    lks_dataset *set = (lks_dataset *)(void *)images; /* must become NULL */
    LKT_FAILS(status, part, lks_dataset_open_idx(&set, context, images, labels, classes));
    assert_null(set);
}

static void refuses_what_is_not_there(void **state)
{
    (void)state;
    lks_dataset *set;
    fails(LKS_E_IO, images, 0);
    write_usual();
    unlink(labels);
    fails(LKS_E_IO, labels, 0);
    LKT_FAILS(LKS_E_INVALID, "no path of images",
              lks_dataset_open_idx(&set, context, NULL, "a", 0));
    fails(LKS_E_INVALID, "257 classes were asked for, expected 1 to 256", 257);
    fails(LKS_E_INVALID, "-1 classes", -1);
}

static void refuses_swapped_files(void **state)
{
    (void)state;
    lks_dataset *set;
    write_usual();
    LKT_FAILS(LKS_E_FORMAT, "labels' holds labels, expected images; are the two files swapped?",
              lks_dataset_open_idx(&set, context, labels, images, 0));
    LKT_FAILS(LKS_E_FORMAT, "images' holds images (3 dimensions), expected labels; are the two",
              lks_dataset_open_idx(&set, context, images, images, 0));
}

static void refuses_bad_magic(void **state)
{
    (void)state;
    static const struct {
        uint8_t magic[4];
        const char *part;
    } cases[] = {
        {{'P', 'K', 3, 4}, "starts with the bytes 50 4b 03 04, expected 00 00 08 03"},
        {{0, 1, 8, 3}, "starts with the bytes 00 01 08 03"},
        {{0, 0, 0x0D, 3}, "holds 32-bit floats (type byte 0x0d), expected unsigned bytes (0x08)"},
        {{0, 0, 0x09, 3}, "holds signed bytes"},
        {{0, 0, 0x0B, 3}, "holds 16-bit integers"},
        {{0, 0, 0x0C, 3}, "holds 32-bit integers"},
        {{0, 0, 0x0E, 3}, "holds 64-bit floats"},
        {{0, 0, 0x0A, 3}, "holds elements of an unknown type (type byte 0x0a)"},
        {{0, 0, 8, 0}, "has 0 dimensions by its header, expected 2 to 5"},
        {{0, 0, 8, 6}, "has 6 dimensions by its header, expected 2 to 5"},
        {{0, 0, 8, 4}, "bytes"}, /* the first elements are taken for a size */
    };
    write_usual();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        idx x = make(3, image_dims, 251);
        memcpy(x.data, cases[i].magic, 4);
        write_bytes(images, x.data, x.bytes);
        fails(LKS_E_FORMAT, cases[i].part, 0);
    }
    write_usual();
    idx y = make(1, label_dims, 3);
    y.data[3] = 0;
    write_bytes(labels, y.data, y.bytes);
    fails(LKS_E_FORMAT, "labels' has 0 dimensions by its header, expected 1;", 0);
    y.data[0] = 1;
    write_bytes(labels, y.data, y.bytes);
    fails(LKS_E_FORMAT, "expected 00 00 08 01 as an IDX file of labels does", 0);
}

/* A file cut anywhere is refused, and says that it is truncated; so is one with more bytes. */
static void refuses_every_other_length(void **state)
{
    (void)state;
    idx x = make(3, image_dims, 251), y = make(1, label_dims, 3);
    for (size_t bytes = 0; bytes < x.bytes; bytes++) {
        write_usual();
        write_bytes(images, x.data, bytes);
        fails(LKS_E_FORMAT, "it is truncated, copy or download it again", 0);
    }
    fails(LKS_E_FORMAT, "has 104 bytes of images, expected 105 for the 7 that its header", 0);
    for (size_t bytes = 0; bytes < y.bytes; bytes++) {
        write_usual();
        write_bytes(labels, y.data, bytes);
        fails(LKS_E_FORMAT, "it is truncated, copy or download it again", 0);
    }
    write_usual();
    write_bytes(images, x.data, x.bytes + 3);
    fails(LKS_E_FORMAT, "has 3 trailing bytes after the 7 images that its header promises", 0);
    write_usual();
    write_bytes(labels, y.data, y.bytes + 1);
    fails(LKS_E_FORMAT, "has 1 trailing byte after the 7 labels", 0);
}

static void refuses_impossible_sizes(void **state)
{
    (void)state;
    write_usual();
    idx x = make(3, image_dims, 251);
    for (size_t dimension = 0; dimension < 3; dimension++) {
        idx zero = x;
        memset(zero.data + 4 + 4 * dimension, 0, 4);
        write_bytes(images, zero.data, zero.bytes);
        fails(LKS_E_FORMAT, "has a dimension of 0", 0);
    }
    memset(x.data + 4, 0xFF, 12); /* the product is far beyond 64 bits */
    write_bytes(images, x.data, x.bytes);
    fails(LKS_E_FORMAT, "has 105 bytes of images, expected 18446744073709551615", 0);
    /* a product of 2^64, which is 0 in 64 bits */
    static const uint8_t wraps[12] = {0x80, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 4};
    memcpy(x.data + 4, wraps, 12);
    write_bytes(images, x.data, x.bytes);
    fails(LKS_E_FORMAT, "expected 18446744073709551615", 0);
    /* the same, and a 0 after it */
    idx deep = {.data = {0, 0, 8, 4}, .bytes = 20};
    memcpy(deep.data + 4, wraps, 12);
    write_bytes(images, deep.data, deep.bytes);
    fails(LKS_E_FORMAT, "has a dimension of 0", 0);
}

static void refuses_counts_and_labels(void **state)
{
    (void)state;
    static const int eight[] = {8};
    idx y = make(1, eight, 3);
    write_usual();
    write_bytes(labels, y.data, y.bytes);
    fails(LKS_E_FORMAT, "images' has 7 images but '", 0);
    fails(LKS_E_FORMAT, "labels' has 8 labels, expected as many", 0);
    y = make(1, label_dims, 3);
    y.data[8 + 4] = 200;
    write_bytes(labels, y.data, y.bytes);
    fails(LKS_E_FORMAT, "label number 4 is 200, expected 0 to 9 for 10 classes", 10);
    lks_dataset *set;
    LKT_OK(lks_dataset_open_idx(&set, context, images, labels, 0));
    assert_int_equal(lks_dataset_get_info(set).classes, 201);
    lks_dataset_destroy(set);
    LKT_OK(lks_dataset_open_idx(&set, context, images, labels, 256));
    lks_dataset_destroy(set);
}

static void refuses_damaged_gzip(void **state)
{
    (void)state;
    uint8_t packed[4096];
    const idx x = make(3, image_dims, 251);
    write_usual();
    write_gzip(images, x.data, x.bytes);
    const size_t bytes = read_bytes(images, packed, sizeof packed);
    packed[bytes - 5] ^= 0x10; /* in the checksum */
    write_bytes(images, packed, bytes);
    fails(LKS_E_FORMAT, "gzip", 0);
    packed[bytes - 5] ^= 0x10;
    write_bytes(images, packed, bytes - 9);
    fails(LKS_E_FORMAT, "gzip", 0);
    /* sound gzip of a truncated file */
    write_gzip(images, x.data, x.bytes - 1);
    fails(LKS_E_FORMAT, "has 104 bytes of images, expected 105", 0);
}

/* ---------------------------------------------------------------- writing */

static void checks_one_file(void **state)
{
    (void)state;
    lks_idx_info info;
    const idx x = make(3, image_dims, 251), y = make(1, label_dims, 3);
    write_usual();
    LKT_OK(lks_idx_check(&info, context, images, 0));
    assert_int_equal(info.count, 7);
    assert_int_equal(info.shape.ndim, 2);
    assert_int_equal(info.shape.dim[0], 3);
    assert_int_equal(info.shape.dim[1], 5);
    assert_false(info.packed);
    for (int i = 0; i < 256; i++) assert_int_equal(info.values[i], i < 7 * 15 ? 1 : 0);
    write_gzip(labels, y.data, y.bytes);
    LKT_OK(lks_idx_check(&info, context, labels, 3));
    assert_int_equal(info.count, 7);
    assert_int_equal(info.shape.ndim, 0);
    assert_true(info.packed);
    assert_int_equal(info.values[0], 3);
    assert_int_equal(info.values[1], 2);
    assert_int_equal(info.values[2], 2);
    assert_int_equal(info.values[3], 0);
    LKT_FAILS(LKS_E_FORMAT, "label number 2 is 2, expected 0 to 1 for 2 classes",
              lks_idx_check(&info, context, labels, 2));
    assert_int_equal(info.count, 0);
    LKT_FAILS(LKS_E_FORMAT, "holds labels, expected images",
              lks_idx_check(&info, context, labels, 0));
    LKT_FAILS(LKS_E_FORMAT, "expected labels", lks_idx_check(&info, context, images, 3));
    write_bytes(images, x.data, x.bytes - 1);
    LKT_FAILS(LKS_E_FORMAT, "truncated", lks_idx_check(&info, context, images, 0));
    LKT_FAILS(LKS_E_INVALID, "no path", lks_idx_check(&info, context, NULL, 0));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_idx, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(reads_plain_and_gzip),
        TEST(reads_one_to_four_dimensions),
        TEST(reads_images_alone),
        TEST(refuses_what_is_not_there),
        TEST(refuses_swapped_files),
        TEST(refuses_bad_magic),
        TEST(refuses_every_other_length),
        TEST(refuses_impossible_sizes),
        TEST(refuses_counts_and_labels),
        TEST(refuses_damaged_gzip),
        TEST(checks_one_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

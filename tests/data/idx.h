/* IDX files in a folder of a test. */
#ifndef LKT_DATA_IDX_H
#define LKT_DATA_IDX_H

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#include "data/folder.h"

static char images[4200], labels[4200];

static int set_up_idx(void **state)
{
    const int failed = set_up(state);
    snprintf(images, sizeof images, "%s/images", folder);
    snprintf(labels, sizeof labels, "%s/labels", folder);
    return failed;
}

static void write_gzip(const char *path, const void *data, size_t bytes)
{
    gzFile file = gzopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, data, (unsigned)bytes), (int)bytes);
    assert_int_equal(gzclose(file), Z_OK);
}

static size_t read_bytes(const char *path, uint8_t *data, size_t room)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t bytes = fread(data, 1, room, file);
    fclose(file);
    return bytes;
}

/* An IDX file in memory: header of `ndim` dimensions and elements i % modulus. */
typedef struct idx {
    uint8_t data[4096];
    size_t bytes;
} idx;

static idx make(int ndim, const int *dims, int modulus)
{
    idx made = {.data = {0, 0, 8, (uint8_t)ndim}, .bytes = 4 + 4 * (size_t)ndim};
    size_t elements = 1;
    for (int i = 0; i < ndim; i++) {
        made.data[4 + 4 * i + 2] = (uint8_t)(dims[i] >> 8);
        made.data[4 + 4 * i + 3] = (uint8_t)dims[i];
        elements *= (size_t)dims[i];
    }
    assert_true(made.bytes + elements <= sizeof made.data);
    for (size_t i = 0; i < elements; i++) made.data[made.bytes++] = (uint8_t)(i % (size_t)modulus);
    return made;
}

/* Seven images of 3x5 and labels 0 1 2 0 1 2 0. */
static const int image_dims[] = {7, 3, 5}, label_dims[] = {7};

static void check_usual(void)
{
    lks_dataset *set;
    LKT_OK(lks_dataset_open_idx(&set, context, images, labels, 0));
    const lks_dataset_info info = lks_dataset_get_info(set);
    assert_int_equal(info.samples, 7);
    assert_int_equal(info.classes, 3);
    assert_int_equal(info.dtype, LKS_U8);
    assert_int_equal(info.shape.ndim, 3);
    assert_int_equal(info.shape.dim[0], 3);
    assert_int_equal(info.shape.dim[1], 5);
    assert_int_equal(info.shape.dim[2], 1);
    for (int64_t i = 0; i < 7; i++) {
        uint8_t x[15];
        int32_t y = -1;
        LKT_OK(lks_dataset_read(set, i, x, &y));
        assert_int_equal(y, i % 3);
        for (int64_t k = 0; k < 15; k++) assert_int_equal(x[k], i * 15 + k);
    }
    lks_dataset_destroy(set);
}

#endif

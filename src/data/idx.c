/*
 * IDX files, the format of MNIST: reading and writing.
 *
 *   byte 0, 1   0
 *   byte 2      type of the elements: 0x08 = unsigned bytes, the only one read here
 *   byte 3      number of dimensions, the count of samples included
 *   4 bytes     for each dimension: its size, big-endian
 *   the rest    elements, the last dimension fastest
 *
 * Format: Y. LeCun, C. Cortes, C. Burges, "The MNIST database of handwritten digits".
 */
#include "data/dataset.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <lockstep/tools.h>

#include "base/check.h"
#include "base/file.h"
#include "base/memory.h"

enum { IDX_U8 = 0x08, MAX_SAMPLE_DIMS = 4 };

typedef struct header {
    int64_t count;
    lks_shape sample; /* the dimensions after the count */
    size_t bytes;     /* of the header: where the elements start */
} header;

/* ---------------------------------------------------------------- reading */

static const char *type_name(uint8_t type)
{
    switch (type) {
    case 0x09:
        return "signed bytes";
    case 0x0B:
        return "16-bit integers";
    case 0x0C:
        return "32-bit integers";
    case 0x0D:
        return "32-bit floats";
    case 0x0E:
        return "64-bit floats";
    default:
        return "elements of an unknown type";
    }
}

/* The first four bytes: is it IDX, of unsigned bytes, of images or labels as expected? */
static lks_status check_magic(const lki_file *file, const char *path, bool labels)
{
    const uint8_t *b = file->data;
    const char *want = labels ? "labels" : "images";
    const char *magic = labels ? "00 00 08 01" : "00 00 08 03";
    if (file->bytes < 4)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' has %zu byte%s, too few for an IDX file of %s; it is truncated, copy "
                        "or download it again",
                        path, file->bytes, LKI_S(file->bytes), want);
    if (b[0] != 0 || b[1] != 0)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' starts with the bytes %02x %02x %02x %02x, expected %s as an IDX "
                        "file of %s does; give it an IDX file",
                        path, b[0], b[1], b[2], b[3], magic, want);
    if (b[2] != IDX_U8)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' holds %s (type byte 0x%02x), expected unsigned bytes (0x08); convert "
                        "the file or check that it is the right one",
                        path, type_name(b[2]), b[2]);
    if (labels && b[3] > 1)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' holds images (%d dimensions), expected labels; are the two files "
                        "swapped?",
                        path, b[3]);
    if (!labels && b[3] == 1)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' holds labels, expected images; are the two files swapped?", path);
    if (b[3] == 0 || b[3] > 1 + MAX_SAMPLE_DIMS)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' has %d dimensions by its header, expected %s; the file is damaged or "
                        "not one of %s",
                        path, b[3], labels ? "1" : "2 to 5", want);
    return LKS_OK;
}

static int64_t big_endian_32(const uint8_t *b)
{
    return (int64_t)b[0] << 24 | (int64_t)b[1] << 16 | (int64_t)b[2] << 8 | (int64_t)b[3];
}

/* Reads and checks every field, and that the file has exactly the bytes that they promise. */
static lks_status read_header(const lki_file *file, const char *path, bool labels, header *out)
{
    LKI_TRY(check_magic(file, path, labels));
    const int ndim = file->data[3];
    const char *what = labels ? "labels" : "images";
    header h = {.bytes = 4 + 4 * (size_t)ndim};
    if (file->bytes < h.bytes)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' ends within its header, after %zu of %zu bytes; it is truncated, "
                        "copy or download it again",
                        path, file->bytes, h.bytes);
    h.count = big_endian_32(file->data + 4);
    h.sample.ndim = ndim - 1;
    uint64_t elements = (uint64_t)h.count; /* up to 2^32 */
    for (int i = 0; i < h.sample.ndim; i++) {
        h.sample.dim[i] = big_endian_32(file->data + 8 + 4 * i);
        if (__builtin_mul_overflow(elements, (uint64_t)h.sample.dim[i], &elements))
            elements = UINT64_MAX; /* far more than any file has, and so is the next product */
        if (elements == 0) break;
    }
    if (elements == 0)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' has a dimension of 0 in its header, expected at least one of the %s "
                        "and of each dimension; check how the file was made",
                        path, what);
    const uint64_t found = file->bytes - h.bytes;
    if (found < elements)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' has %" PRIu64 " byte%s of %s, expected %" PRIu64 " for the %" PRId64
                        " that its header promises; it is truncated, copy or download it again",
                        path, found, LKI_S(found), what, elements, h.count);
    if (found > elements)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' has %" PRIu64 " trailing byte%s after the %" PRId64
                        " %.*s that its header promises; the file is damaged, copy or download it "
                        "again",
                        path, found - elements, LKI_S(found - elements), h.count,
                        (int)strlen(what) - (h.count == 1), what);
    *out = h;
    return LKS_OK;
}

typedef struct idx {
    lks_context *context;
    lki_file images;
    int32_t *labels;
    int64_t count;
} idx;

static void close_idx(void *user)
{
    idx *set = user;
    lki_file_close(&set->images);
    lki_free(set->context, set->labels, (size_t)set->count * sizeof *set->labels);
    lki_free(set->context, set, sizeof *set);
}

static lks_status check_labels(const char *path, const uint8_t *labels, int64_t count,
                               int64_t classes)
{
    for (int64_t i = 0; i < count; i++)
        if (labels[i] >= classes)
            return LKI_FAIL(LKS_E_FORMAT,
                            "'%s': label number %" PRId64 " is %d, expected 0 to %" PRId64
                            " for %" PRId64 " class%s; the file is damaged or of another data set",
                            path, i, labels[i], classes - 1, classes, classes == 1 ? "" : "es");
    return LKS_OK;
}

/* Checks the labels and widens them to what a batch wants. *classes 0: found from the labels.
 * `from` NULL: there are none, and every target is 0. */
static lks_status read_labels(idx *set, const char *path, const uint8_t *from, int64_t *classes)
{
    void *memory = NULL;
    int32_t largest = 0;
    LKI_TRY(lki_alloc(set->context, &memory, (size_t)set->count * sizeof *set->labels, "labels"));
    set->labels = memory;
    if (from && *classes > 0) LKI_TRY(check_labels(path, from, set->count, *classes));
    for (int64_t i = 0; i < set->count; i++) {
        set->labels[i] = from ? from[i] : 0;
        if (set->labels[i] > largest) largest = set->labels[i];
    }
    if (*classes == 0) *classes = largest + 1;
    return LKS_OK;
}

static lks_status idx_load(idx *set, const char *images, const char *labels, lks_dataset_info *info)
{
    lki_file file = {0};
    header x, y = {0};
    lks_status status = lki_file_open(&set->images, set->context, images);
    if (status != LKS_OK) return status;
    LKI_TRY(read_header(&set->images, images, false, &x));
    if (labels) {
        LKI_TRY(lki_file_open(&file, set->context, labels));
        LKI_TRY_OR(status, done, read_header(&file, labels, true, &y));
    }
    if (labels && x.count != y.count) {
        status = LKI_FAIL(LKS_E_FORMAT,
                          "'%s' has %" PRId64 " image%s but '%s' has %" PRId64
                          " label%s, expected as many; are they of the same data set?",
                          images, x.count, LKI_S(x.count), labels, y.count, LKI_S(y.count));
        goto done;
    }
    set->count = x.count;
    const uint8_t *values = labels ? file.data + y.bytes : NULL;
    LKI_TRY_OR(status, done, read_labels(set, labels, values, &info->classes));
    if (x.sample.ndim == 2) x.sample.dim[x.sample.ndim++] = 1;
    info->samples = x.count;
    info->shape = x.sample;
    info->dtype = LKS_U8;
done:
    lki_file_close(&file);
    return status;
}

lks_status lks_dataset_open_idx(lks_dataset **out, lks_context *context, const char *images,
                                const char *labels, int64_t classes)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    lks_dataset_ops ops = {.info.classes = classes, .close = close_idx};
    void *memory = NULL;
    lks_status status;

    *out = NULL;
    if (!images) return LKI_FAIL(LKS_E_INVALID, "IDX data set: no path of images was given");
    if (classes < 0 || classes > 256)
        return LKI_FAIL(LKS_E_INVALID,
                        "IDX data set '%s': %" PRId64
                        " classes were asked for, expected 1 to 256, or 0 to count them",
                        images, classes);
    LKI_TRY(lki_alloc(context, &memory, sizeof(idx), "an IDX data set"));
    idx *set = memory;
    set->context = context;
    LKI_TRY_OR(status, fail, idx_load(set, images, labels, &ops.info));
    const size_t start = set->images.bytes -
                         (size_t)(set->count * lks_shape_elements(&ops.info.shape));
    LKI_TRY_OR(status, fail,
               lki_dataset_in_memory(out, context, images, &ops, set, set->images.data + start,
                                     set->labels));
    return LKS_OK;
fail:
    close_idx(set);
    return status;
}

lks_status lks_idx_check(lks_idx_info *out, lks_context *context, const char *path, int64_t classes)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    lki_file file = {0};
    header h;
    *out = (lks_idx_info){0};
    if (!path) return LKI_FAIL(LKS_E_INVALID, "IDX file: no path was given");
    LKI_TRY(lki_file_open(&file, context, path));
    lks_status status = read_header(&file, path, classes > 0, &h);
    if (status == LKS_OK && classes > 0)
        status = check_labels(path, file.data + h.bytes, h.count, classes);
    if (status == LKS_OK) {
        *out = (lks_idx_info){.count = h.count, .shape = h.sample, .packed = !file.mapped};
        for (size_t i = h.bytes; i < file.bytes; i++) out->values[file.data[i]]++;
    }
    lki_file_close(&file);
    return status;
}

/* ---------------------------------------------------------------- writing */

enum { WRITE_BLOCK = 256 }; /* samples fetched and written at a time */

static void put_big_endian_32(uint8_t *b, int64_t value)
{
    for (int i = 0; i < 4; i++) b[i] = (uint8_t)(value >> (24 - 8 * i));
}

static lks_status write_header(lki_writer *writer, int64_t count, const lks_shape *sample)
{
    uint8_t b[8 + 4 * MAX_SAMPLE_DIMS] = {0, 0, IDX_U8, (uint8_t)(1 + sample->ndim)};
    put_big_endian_32(b + 4, count);
    for (int i = 0; i < sample->ndim; i++) put_big_endian_32(b + 8 + 4 * i, sample->dim[i]);
    return lki_writer_write(writer, b, 8 + 4 * (size_t)sample->ndim);
}

/* Whether IDX can hold the data set, and the sample's shape as it is written: one channel goes. */
static lks_status shape_to_write(const lks_dataset *set, lks_shape *out)
{
    const lks_dataset_info *info = &set->info;
    lks_shape sample = info->shape;
    if (info->dtype != LKS_U8 || info->classes < 1 || info->classes > 256)
        return LKI_FAIL(LKS_E_INVALID,
                        "data set '%s' has %s samples and %" PRId64
                        " classes; IDX files are written of U8 samples with 1 to 256 classes",
                        set->name, lks_dtype_name(info->dtype), info->classes);
    if (sample.ndim == 3 && sample.dim[2] == 1) sample.ndim = 2;
    bool fits = sample.ndim >= 1 && sample.ndim <= MAX_SAMPLE_DIMS && info->samples <= INT32_MAX;
    for (int i = 0; i < sample.ndim; i++) fits = fits && sample.dim[i] <= INT32_MAX;
    if (!fits)
        return LKI_FAIL(LKS_E_INVALID,
                        "data set '%s' has %" PRId64
                        " samples of %d dimensions; an IDX file holds up to %" PRId32
                        " samples of 1 to %d dimensions of at most that size",
                        set->name, info->samples, sample.ndim, INT32_MAX, MAX_SAMPLE_DIMS);
    *out = sample;
    return LKS_OK;
}

static lks_status write_samples(const lks_dataset *set, lki_writer *images, lki_writer *labels)
{
    uint8_t y[WRITE_BLOCK];
    void *memory = NULL;
    lks_status status;
    LKI_TRY(lki_alloc(set->context, &memory, WRITE_BLOCK * set->x_bytes, "samples to write"));
    uint8_t *x = memory;
    for (int64_t at = 0; at < set->info.samples; at += WRITE_BLOCK) {
        const int64_t left = set->info.samples - at;
        const size_t count = left < WRITE_BLOCK ? (size_t)left : WRITE_BLOCK;
        for (size_t i = 0; i < count; i++) {
            int32_t label = 0;
            LKI_TRY_OR(status, done,
                       lki_dataset_fetch(set, LKI_NO_EPOCH, at + (int64_t)i, x + i * set->x_bytes,
                                         &label));
            y[i] = (uint8_t)label;
        }
        LKI_TRY_OR(status, done, lki_writer_write(images, x, count * set->x_bytes));
        LKI_TRY_OR(status, done, lki_writer_write(labels, y, count));
    }
    status = LKS_OK;
done:
    lki_free(set->context, memory, WRITE_BLOCK * set->x_bytes);
    return status;
}

lks_status lks_dataset_write_idx(lks_dataset *dataset, const char *images, const char *labels)
{
    if (dataset == NULL) return LKI_FAIL_NULL(dataset);
    const lks_shape number = {.ndim = 0};
    lki_writer *x = NULL, *y = NULL;
    lks_shape sample;
    lks_status status;

    if (!images || !labels || strcmp(images, labels) == 0)
        return LKI_FAIL(LKS_E_INVALID,
                        "data set '%s': images and labels need a path each, two different ones",
                        dataset->name);
    LKI_TRY(shape_to_write(dataset, &sample));
    LKI_TRY_OR(status, fail, lki_writer_open(&x, dataset->context, images));
    LKI_TRY_OR(status, fail, lki_writer_open(&y, dataset->context, labels));
    lki_writer_tidy(x);
    lki_writer_tidy(y);
    LKI_TRY_OR(status, fail, write_header(x, dataset->info.samples, &sample));
    LKI_TRY_OR(status, fail, write_header(y, dataset->info.samples, &number));
    LKI_TRY_OR(status, fail, write_samples(dataset, x, y));
    lki_writer *whole = x;
    x = NULL;
    LKI_TRY_OR(status, fail, lki_writer_commit(whole));
    whole = y;
    y = NULL;
    status = lki_writer_commit(whole);
    struct stat info; /* images with other labels would mislead; a device is not ours to remove */
    if (status != LKS_OK && stat(images, &info) == 0 && S_ISREG(info.st_mode)) (void)remove(images);
    return status;
fail:
    lki_writer_abandon(x);
    lki_writer_abandon(y);
    return status;
}

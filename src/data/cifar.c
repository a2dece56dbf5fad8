/*
 * CIFAR-10 and CIFAR-100 as they are published: the binary version (files of records without a header: one
 * label, or a coarse and a fine one, and 32 x 32 pixels as planes of red, green and blue), the Python version
 * (pickled dictionaries), loose, each file packed by gzip, or in the .tar.gz itself.
 *
 * Format: A. Krizhevsky, "The CIFAR-10 dataset", https://www.cs.toronto.edu/~kriz/cifar.html.
 */
#include "data/cifar.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/file.h"
#include "base/memory.h"
#include "data/format.h"
#include "data/pickle.h"
#include "data/tar.h"

enum { SIDE = 32, PLANE = SIDE * SIDE, CHANNELS = 3, PIXEL_BYTES = CHANNELS * PLANE };

/* A file of the split: its bytes, and where the samples are in them. */
typedef struct part {
    lki_file file;
    const uint8_t *pixels; /* of the first sample */
    size_t stride;         /* from one to the next */
    int64_t count;
    int32_t *labels; /* [count] */
} part;

typedef struct cifar {
    lks_context *context;
    lki_file archive; /* that parts are in; zero: none */
    int64_t samples, classes;
    part part[LKI_CIFAR_FILES];
} cifar;

/* ---------------------------------------------------------------- reading */

static lks_status cifar_read(void *user, int64_t index, void *x, void *y)
{
    const cifar *set = user;
    const part *p = set->part;
    for (; index >= p->count; p++) index -= p->count;
    const uint8_t *red = p->pixels + (size_t)index * p->stride;
    uint8_t *out = x;
    for (int i = 0; i < PLANE; i++)
        for (int c = 0; c < CHANNELS; c++) out[CHANNELS * i + c] = red[c * PLANE + i];
    memcpy(y, &p->labels[index], sizeof *p->labels);
    return LKS_OK;
}

static void cifar_close(void *user)
{
    cifar *set = user;
    for (int i = 0; i < LKI_CIFAR_FILES; i++) {
        lki_free(set->context, set->part[i].labels,
                 (size_t)set->part[i].count * sizeof *set->part[i].labels);
        lki_file_close(&set->part[i].file);
    }
    lki_file_close(&set->archive);
    lki_free(set->context, set, sizeof *set);
}

/* ---------------------------------------------------------------- opening */

static lks_status cifar_check_labels(const cifar *set, const part *p, const char *path)
{
    for (int64_t i = 0; i < p->count; i++)
        if (p->labels[i] >= set->classes)
            return LKI_FAIL(LKS_E_FORMAT,
                            "'%s': label number %" PRId64 " is %" PRId32 ", expected 0 to %" PRId64
                            "; the file is damaged or of another data set",
                            path, i, p->labels[i], set->classes - 1);
    return LKS_OK;
}

static lks_status cifar_make_labels(cifar *set, part *p, int64_t count)
{
    void *memory = NULL;
    LKI_TRY(lki_alloc(set->context, &memory, (size_t)count * sizeof *p->labels, "labels"));
    p->labels = memory;
    p->count = count;
    return LKS_OK;
}

static lks_status cifar_read_records(cifar *set, part *p, const lki_cifar_layout *layout,
                                     const uint8_t *data, size_t bytes, const char *path)
{
    const size_t label_bytes = layout->coarse > 0 ? 2 : 1, stride = label_bytes + PIXEL_BYTES;
    if (bytes == 0 || bytes % stride != 0)
        return LKI_FAIL(
            LKS_E_FORMAT,
            "'%s' has %zu byte%s, expected records of %zu (%zu of labels, %d of pixels); it is "
            "truncated or another kind of file, copy or download it again",
            path, bytes, LKI_S(bytes), stride, label_bytes, PIXEL_BYTES);
    LKI_TRY(cifar_make_labels(set, p, (int64_t)(bytes / stride)));
    const size_t at = label_bytes == 2 && set->classes != layout->coarse ? 1 : 0;
    for (int64_t i = 0; i < p->count; i++) p->labels[i] = data[(size_t)i * stride + at];
    p->pixels = data + label_bytes;
    p->stride = stride;
    return LKS_OK;
}

static lks_status cifar_read_pickle(cifar *set, part *p, const lki_cifar_layout *layout,
                                    const uint8_t *data, size_t bytes, const char *path)
{
    lki_pickle pickle;
    int64_t count;
    const char *key = layout->coarse == 0              ? "labels"
                      : set->classes == layout->coarse ? "coarse_labels"
                                                       : "fine_labels";
    lks_status status;
    LKI_TRY_OR(status, done, lki_pickle_read(&pickle, set->context, data, bytes, path));
    LKI_TRY_OR(status, done, lki_pickle_array(&pickle, "data", PIXEL_BYTES, &p->pixels, &count));
    LKI_TRY_OR(status, done, cifar_make_labels(set, p, count));
    LKI_TRY_OR(status, done, lki_pickle_integers(&pickle, key, count, p->labels));
    p->stride = PIXEL_BYTES;
done:
    lki_pickle_close(&pickle);
    return status;
}

static lks_status cifar_read_part(cifar *set, part *p, const lki_cifar_layout *layout,
                                  const uint8_t *data, size_t bytes, const char *path)
{
    LKI_TRY((layout->pickled ? cifar_read_pickle : cifar_read_records)(set, p, layout, data, bytes,
                                                                       path));
    set->samples += p->count;
    return cifar_check_labels(set, p, path);
}

/* Bytes of the test split are copied, as the rest of the archive, most of it, is not needed. */
static lks_status cifar_open_member(cifar *set, part *p, const lki_cifar_layout *layout,
                                    const lki_cifar_place *place, const char *member)
{
    char name[LKI_CIFAR_PATH + 64];
    const uint8_t *data;
    size_t bytes;
    LKI_TRY(
        lki_tar_find(&data, &bytes, set->archive.data, set->archive.bytes, place->path, member));
    if (data == NULL)
        return LKI_FAIL(
            LKS_E_FORMAT,
            "'%s' has no file '%s' in it; it is another archive, or truncated: copy or download "
            "it again",
            place->path, member);
    if (place->test_split) {
        void *copy;
        LKI_TRY(lki_alloc(set->context, &copy, bytes, "a part of an archive"));
        p->file = (lki_file){.data = copy, .bytes = bytes, .context = set->context};
        memcpy(copy, data, bytes);
        data = copy;
    }
    snprintf(name, sizeof name, "%s: %s", place->path, member);
    return cifar_read_part(set, p, layout, data, bytes, name);
}

static lks_status cifar_open_file(cifar *set, part *p, const lki_cifar_layout *layout,
                                  const lki_cifar_place *place, const char *name)
{
    char path[LKI_CIFAR_PATH + 64];
    if (!lki_cifar_file(path, sizeof path, place->path, name))
        return LKI_FAIL(LKS_E_IO,
                        "'%s' has files of the %s split of %s but no %s[.gz]; put it beside them",
                        place->path, place->test_split ? "test" : "training", layout->name, name);
    LKI_TRY(lki_file_open(&p->file, set->context, path));
    return cifar_read_part(set, p, layout, p->file.data, p->file.bytes, path);
}

static lks_status cifar_load(cifar *set, const lki_cifar_place *place)
{
    const lki_cifar_layout *layout = place->layout;
    const char *const *names = place->test_split ? layout->test : layout->training;
    if (place->archived) LKI_TRY(lki_file_open(&set->archive, set->context, place->path));
    for (int i = 0; i < LKI_CIFAR_FILES && names[i] != NULL; i++)
        LKI_TRY((place->archived ? cifar_open_member : cifar_open_file)(set, &set->part[i], layout,
                                                                        place, names[i]));
    if (place->archived && place->test_split) lki_file_close(&set->archive);
    return LKS_OK;
}

/* `classes` 20 takes the coarse labels of CIFAR-100; 0: as many as there are. */
static lks_status cifar_open(lks_dataset **out, lks_context *context, const char *folder,
                             bool test_split, int64_t classes)
{
    lki_cifar_place place;
    void *memory = NULL;
    lks_status status;
    *out = NULL;
    if (!lki_cifar_find(&place, folder, test_split))
        return LKI_FAIL(LKS_E_IO, "'%s' has no files of CIFAR", folder);
    LKI_TRY(lki_alloc(context, &memory, sizeof(cifar), "a CIFAR data set"));
    cifar *set = memory;
    set->context = context;
    /* A label is a byte; a network may have more outputs. */
    set->classes = classes > 256 ? 256 : classes > 0 ? classes : place.layout->classes;
    LKI_TRY_OR(status, fail, cifar_load(set, &place));
    const lks_dataset_ops ops = {.info = {.samples = set->samples,
                                          .shape = {3, {SIDE, SIDE, CHANNELS}},
                                          .dtype = LKS_U8,
                                          .classes = set->classes},
                                 .read = cifar_read,
                                 .close = cifar_close};
    LKI_TRY_OR(status, fail, lks_dataset_create(out, context, place.path, &ops, set));
    return LKS_OK;
fail:
    cifar_close(set);
    return status;
}

static bool cifar_has(const char *folder, bool test_split)
{
    lki_cifar_place place;
    return lki_cifar_find(&place, folder, test_split);
}

#define OTHERS ", loose, as .gz or in the .tar.gz, or those of the Python version"

const lki_data_format lki_cifar_format = {
    .files = {"CIFAR's data_batch_1.bin to data_batch_5.bin, or train.bin" OTHERS,
              "CIFAR's test_batch.bin, or test.bin" OTHERS},
    .has = cifar_has,
    .open = cifar_open,
};

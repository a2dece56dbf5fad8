/*
 * Data sets of NumPy arrays: one of samples, one of labels. Arrays that are as a batch wants them are taken
 * where they are; all others are converted sample by sample, but those in Fortran's order, whose samples are
 * strewn over the file, all at once.
 */
#include "data/dataset.h"

#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/float.h"
#include "base/memory.h"
#include "data/format.h"
#include "data/numpy/arrays.h"

enum { MOST_CLASSES = 65536, MOST_CHANNELS = 4 };

typedef struct numpy_set {
    lks_context *context;
    lki_array images;
    int64_t sample_stride;        /* in elements */
    int64_t stride[LKS_MAX_DIMS]; /* of the dimensions of a sample as it is given out */
    lks_shape shape;
    bool floats;
    int32_t *labels; /* [count] */
    int64_t count;
    void *copy; /* of all samples, converted; NULL: none */
    size_t copy_bytes;
} numpy_set;

static void close_numpy(void *user)
{
    numpy_set *set = user;
    lki_free(set->context, set->copy, set->copy_bytes);
    lki_free(set->context, set->labels, (size_t)set->count * sizeof *set->labels);
    lki_array_close(&set->images);
    lki_free(set->context, set, sizeof *set);
}

/* ---------------------------------------------------------------- samples */

/* Goes through the elements of a sample, the last dimension fastest. */
static lks_status read_numpy(void *user, int64_t index, void *x, void *y)
{
    const numpy_set *set = user;
    const lki_npy *npy = &set->images.npy;
    const int last = set->shape.ndim - 1;
    const int64_t count = set->shape.dim[last], step = set->stride[last] * (int64_t)npy->size,
                  elements = lks_shape_elements(&set->shape);
    int64_t at[LKS_MAX_DIMS] = {0}, offset = index * set->sample_stride, done = 0;
    const unsigned saved = lki_float_enter(); /* floats of 8 bytes are rounded */
    while (done < elements) {
        const uint8_t *from = npy->data + (size_t)offset * npy->size;
        for (int64_t i = 0; i < count; i++, from += step, done++) {
            if (set->floats)
                ((float *)x)[done] = lki_npy_float(npy, from);
            else if (npy->size == 1 && npy->kind != LKI_NPY_BOOL)
                ((uint8_t *)x)[done] = *from;
            else
                ((uint8_t *)x)[done] = (uint8_t)lki_npy_integer(npy, from);
        }
        for (int d = last - 1; d >= 0; d--) {
            offset += set->stride[d];
            if (++at[d] < set->shape.dim[d]) break;
            offset -= at[d] * set->stride[d];
            at[d] = 0;
        }
    }
    lki_float_leave(saved);
    memcpy(y, &set->labels[index], sizeof *set->labels);
    return LKS_OK;
}

/*
 * Dimensions behind the first are those of a sample. Two are rows and columns, and get one channel. Of three,
 * channels are the last, unless the first alone looks like them: 1 to 4, and less than both others.
 */
static lks_status lay_out(numpy_set *set, lks_dataset_info *info)
{
    const lki_npy *npy = &set->images.npy;
    int64_t stride[LKI_NPY_DIMS];
    const int ndim = npy->ndim - 1;
    if (npy->elements == 0 || ndim < 1 || ndim > LKS_MAX_DIMS)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' has %d dimension%s%s, expected 2 to %d, each at least 1: the "
                        "samples, and those of a sample",
                        set->images.name, npy->ndim, LKI_S(npy->ndim),
                        npy->elements == 0 ? ", one of them 0" : "", 1 + LKS_MAX_DIMS);
    lki_npy_strides(npy, stride);
    set->sample_stride = stride[0];
    set->shape.ndim = ndim;
    const int64_t *dim = npy->dim + 1;
    const bool first = ndim == 3 && dim[0] <= MOST_CHANNELS && dim[2] > MOST_CHANNELS &&
                       dim[0] < dim[1] && dim[0] < dim[2];
    for (int i = 0; i < ndim; i++) {
        const int from = first ? (i + 1) % 3 : i;
        set->shape.dim[i] = dim[from];
        set->stride[i] = stride[1 + from];
    }
    if (ndim == 2) {
        set->shape.dim[set->shape.ndim++] = 1;
        set->stride[2] = 1;
    }
    info->samples = npy->dim[0];
    info->shape = set->shape;
    return LKS_OK;
}

/* Integers are taken as bytes. */
static lks_status check_bytes(const numpy_set *set)
{
    const lki_npy *npy = &set->images.npy;
    if (npy->kind == LKI_NPY_BOOL || (npy->kind == LKI_NPY_UNSIGNED && npy->size == 1))
        return LKS_OK;
    for (int64_t i = 0; i < npy->elements; i++) {
        const int64_t value = lki_npy_integer(npy, npy->data + (size_t)i * npy->size);
        if (value < 0 || value > UINT8_MAX)
            return LKI_FAIL(LKS_E_FORMAT,
                            "'%s' is of %s and has the value %" PRId64
                            ", expected integers from 0 to 255, or floats; convert the array, as "
                            "by x.astype('float32')",
                            set->images.name, npy->type, value);
    }
    return LKS_OK;
}

/* Converts every sample now. */
static lks_status copy_samples(numpy_set *set)
{
    const size_t bytes = (size_t)lks_shape_elements(&set->shape) *
                         (set->floats ? sizeof(float) : 1);
    set->copy_bytes = lki_times(bytes, (size_t)set->count);
    LKI_TRY(lki_alloc(set->context, &set->copy, set->copy_bytes, "samples in another order"));
    for (int64_t i = 0; i < set->count; i++) {
        int32_t label;
        LKI_TRY(read_numpy(set, i, (uint8_t *)set->copy + (size_t)i * bytes, &label));
    }
    return LKS_OK;
}

/* Whether the file has the samples just as they are given out. */
static bool is_direct(const numpy_set *set)
{
    const lki_npy *npy = &set->images.npy;
    int64_t next = 1;
    for (int i = set->shape.ndim - 1; i >= 0; i--) {
        if (set->shape.dim[i] > 1 && set->stride[i] != next) return false;
        next *= set->shape.dim[i];
    }
    return set->sample_stride == next &&
           (set->floats ? lki_npy_is_own_float(npy) : npy->size == 1 && npy->kind != LKI_NPY_BOOL);
}

/* ---------------------------------------------------------------- labels */

static lks_status check_label_type(const lki_array *labels)
{
    const lki_npy *npy = &labels->npy;
    if (npy->kind == LKI_NPY_FLOAT)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' is of %s, expected labels that are integers; convert the array, as "
                        "by y.astype('int64')",
                        labels->name, npy->type);
    if (npy->ndim == 1 || (npy->ndim == 2 && npy->dim[1] == 1)) return LKS_OK;
    return LKI_FAIL(LKS_E_FORMAT,
                    "'%s' has %d dimension%s, expected 1, with one label a sample; of one column a "
                    "class y.argmax(axis=1) makes labels",
                    labels->name, npy->ndim, LKI_S(npy->ndim));
}

/* Into `out`, where it is not NULL. *classes 0: one more than the largest. */
static lks_status read_labels(const lki_array *labels, int32_t *out, int64_t *classes)
{
    const lki_npy *npy = &labels->npy;
    const int64_t limit = *classes > 0 ? *classes : MOST_CLASSES;
    int64_t largest = 0;
    LKI_TRY(check_label_type(labels));
    for (int64_t i = 0; i < npy->elements; i++) {
        const int64_t label = lki_npy_integer(npy, npy->data + (size_t)i * npy->size);
        if (label < 0 || label >= limit)
            return LKI_FAIL(LKS_E_FORMAT,
                            "'%s': label number %" PRId64 " is %" PRId64 ", expected 0 to %" PRId64
                            "%s; the file is damaged or of another data set",
                            labels->name, i, label, limit - 1,
                            *classes > 0 ? "" : ", the most there can be");
        if (label > largest) largest = label;
        if (out != NULL) out[i] = (int32_t)label;
    }
    if (*classes == 0) *classes = largest + 1;
    return LKS_OK;
}

static lks_status fail_counts(const numpy_set *set, const lki_array *labels)
{
    const int64_t images = set->count, found = labels->npy.dim[0];
    return LKI_FAIL(LKS_E_FORMAT,
                    "'%s' has %" PRId64 " sample%s but '%s' has %" PRId64
                    " label%s, expected as many; are they of the same data set?",
                    set->images.name, images, LKI_S(images), labels->name, found, LKI_S(found));
}

/* `labels` NULL: there are none, and every target is 0. */
static lks_status take_labels(numpy_set *set, const lki_array *labels, int64_t *classes)
{
    void *memory = NULL;
    if (labels != NULL) {
        LKI_TRY(check_label_type(labels));
        if (labels->npy.dim[0] != set->count) return fail_counts(set, labels);
    }
    LKI_TRY(lki_alloc(set->context, &memory, (size_t)set->count * sizeof *set->labels, "labels"));
    set->labels = memory;
    if (labels != NULL) return read_labels(labels, set->labels, classes);
    if (*classes == 0) *classes = 1;
    return LKS_OK;
}

/* ---------------------------------------------------------------- opening */

/* Takes the array of images over, also when it fails. */
static lks_status make_set(lks_dataset **out, lks_context *context, lki_array *images,
                           const lki_array *labels, int64_t classes)
{
    lks_dataset_ops ops = {.info.classes = classes, .read = read_numpy, .close = close_numpy};
    void *memory = NULL;
    lks_status status = lki_alloc(context, &memory, sizeof(numpy_set), "a data set of arrays");
    if (status != LKS_OK) {
        lki_array_close(images);
        return status;
    }
    numpy_set *set = memory;
    set->context = context;
    set->images = *images;
    set->floats = images->npy.kind == LKI_NPY_FLOAT;
    ops.info.dtype = set->floats ? LKS_F32 : LKS_U8;
    LKI_TRY_OR(status, fail, lay_out(set, &ops.info));
    set->count = ops.info.samples;
    LKI_TRY_OR(status, fail, take_labels(set, labels, &ops.info.classes));
    if (!set->floats) LKI_TRY_OR(status, fail, check_bytes(set));
    const bool direct = is_direct(set);
    if (!direct && images->npy.fortran) LKI_TRY_OR(status, fail, copy_samples(set));
    const void *x = direct ? set->images.npy.data : set->copy;
    if (x != NULL)
        status = lki_dataset_in_memory(out, context, images->name, &ops, set, x, set->labels);
    else
        status = lks_dataset_create(out, context, images->name, &ops, set);
    if (status == LKS_OK) return LKS_OK;
fail:
    close_numpy(set);
    return status;
}

lks_status lks_dataset_open_npy(lks_dataset **out, lks_context *context, const char *images,
                                const char *labels, int64_t classes)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    lki_array x, y = {.file.context = context};
    lks_status status;
    *out = NULL;
    if (images == NULL) return LKI_FAIL_NULL(images);
    if (classes < 0 || classes > MOST_CLASSES)
        return LKI_FAIL(LKS_E_INVALID,
                        "'%s': %" PRId64 " classes were asked for, expected 1 to %d, or 0 to count "
                        "them",
                        images, classes, MOST_CLASSES);
    LKI_TRY_OR(status, fail, lki_array_open(&x, context, images, NULL));
    if (labels != NULL) LKI_TRY_OR(status, fail, lki_array_open(&y, context, labels, NULL));
    status = make_set(out, context, &x, labels != NULL ? &y : NULL, classes);
    lki_array_close(&y);
    return status;
fail:
    lki_array_close(&y);
    lki_array_close(&x);
    return status;
}

/* ---------------------------------------------------------------- folders and archives */

/* The classes of a test split are those of the training labels, where these are. */
static lks_status settle_classes(int64_t *classes, lks_context *context, const char *path,
                                 const lki_array *test)
{
    lki_numpy_place place;
    lki_array training;
    int64_t found = 0;
    if (!lki_numpy_find(&place, path, false) || !place.has[1]) return LKS_OK;
    lks_status status = lki_numpy_open(&training, context, &place, true);
    if (status == LKS_OK) status = read_labels(&training, NULL, classes);
    if (status == LKS_OK) status = read_labels(test, NULL, &found);
    if (status == LKS_OK && found > *classes)
        status = LKI_FAIL(LKS_E_FORMAT,
                          "'%s' has labels up to %" PRId64 ", but '%s' only up to %" PRId64
                          "; if both are of the same data set, say how many classes it has "
                          "(data.classes)",
                          test->name, found - 1, training.name, *classes - 1);
    lki_array_close(&training);
    return status;
}

static lks_status numpy_open(lks_dataset **out, lks_context *context, const char *path,
                             bool test_split, int64_t classes)
{
    lki_numpy_place place;
    lki_array x, y = {.file.context = context};
    lks_status status;
    *out = NULL;
    lki_numpy_find(&place, path, test_split);
    LKI_TRY_OR(status, fail, lki_numpy_open(&x, context, &place, false));
    LKI_TRY_OR(status, fail, lki_numpy_open(&y, context, &place, true));
    if (test_split && classes == 0)
        LKI_TRY_OR(status, fail, settle_classes(&classes, context, path, &y));
    status = make_set(out, context, &x, &y, classes);
    lki_array_close(&y);
    return status;
fail:
    lki_array_close(&y);
    lki_array_close(&x);
    return status;
}

static bool numpy_has(const char *path, bool test_split)
{
    lki_numpy_place place;
    return lki_numpy_find(&place, path, test_split);
}

const lki_data_format lki_numpy_format = {
    .files = {"NumPy's x_train.npy and y_train.npy, or an .npz with these",
              "NumPy's x_test.npy and y_test.npy, or an .npz with these"},
    .has = numpy_has,
    .open = numpy_open,
};

/*
 * Data sets of NumPy arrays: one of samples, one of labels. Arrays that are as a batch wants them are taken
 * where they are; all others are converted sample by sample, but those in Fortran's order, whose samples are
 * strewn over the file, all at once. With an array of lengths samples are frames (positions, features), and
 * whatever the file has behind the end of one is given out as zeros.
 */
#include "data/dataset.h"

#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/float.h"
#include "base/memory.h"
#include "data/format.h"
#include "data/numpy/beside.h"

enum { MOST_CHANNELS = 4 };

/* The arrays of a split, as far as there are some. */
typedef struct arrays {
    lki_array array[LKI_NUMPY_ARRAYS];
    bool has[LKI_NUMPY_ARRAYS];
} arrays;

static void close_arrays(arrays *all)
{
    for (int k = 0; k < LKI_NUMPY_ARRAYS; k++) lki_array_close(&all->array[k]);
}

typedef struct numpy_set {
    lks_context *context;
    lki_array samples, lengths;
    int64_t sample_stride;        /* in elements */
    int64_t stride[LKS_MAX_DIMS]; /* of the dimensions of a sample as it is given out */
    lks_shape shape;
    bool floats, framed;
    bool direct;     /* the file has a sample just as it is given out, but for padding */
    int32_t *labels; /* [count][each] */
    int64_t each;    /* of a sample */
    int64_t count;
    void *copy; /* of all samples, converted; NULL: none */
    size_t copy_bytes;
} numpy_set;

static size_t label_bytes(const numpy_set *set) /* of a sample */
{
    return (size_t)set->each * sizeof *set->labels;
}

static void close_numpy(void *user)
{
    numpy_set *set = user;
    lki_free(set->context, set->copy, set->copy_bytes);
    lki_free(set->context, set->labels, label_bytes(set) * (size_t)set->count);
    lki_array_close(&set->samples);
    lki_array_close(&set->lengths);
    lki_free(set->context, set, sizeof *set);
}

/* ---------------------------------------------------------------- samples */

static lki_beside beside_of(const numpy_set *set, const lki_array *labels)
{
    return (lki_beside){.samples = set->samples.name,
                        .count = set->count,
                        .positions = set->shape.dim[0],
                        .labels = labels,
                        .lengths = set->framed ? &set->lengths : NULL};
}

/* Goes through the elements of a sample, the last dimension fastest. */
static void convert_sample(const numpy_set *set, int64_t index, void *x)
{
    const lki_npy *npy = &set->samples.npy;
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
}

/* What stands behind the end of frames. */
static void clear_padding(const numpy_set *set, int64_t index, float *x)
{
    const lki_beside beside = beside_of(set, NULL);
    const int64_t features = set->shape.dim[1], length = lki_beside_length(&beside, index);
    for (int64_t i = length * features; i < lks_shape_elements(&set->shape); i++) x[i] = 0;
}

static lks_status read_numpy(void *user, int64_t index, void *x, void *y)
{
    const numpy_set *set = user;
    const size_t bytes = (size_t)lks_shape_elements(&set->shape) * set->samples.npy.size;
    if (set->direct)
        memcpy(x, set->samples.npy.data + (size_t)index * bytes, bytes);
    else
        convert_sample(set, index, x);
    if (set->framed) clear_padding(set, index, x);
    memcpy(y, set->labels + index * set->each, label_bytes(set));
    return LKS_OK;
}

static int64_t count_labels(void *user, int64_t index)
{
    const numpy_set *set = user;
    int64_t count = 0;
    for (int64_t i = 0; i < set->each; i++)
        count += set->labels[index * set->each + i] != LKS_NO_CLASS;
    return count;
}

static lks_status check_frames(const numpy_set *set)
{
    const lki_npy *npy = &set->samples.npy;
    if (npy->ndim == 3 && npy->kind == LKI_NPY_FLOAT) return LKS_OK;
    return LKI_FAIL(LKS_E_FORMAT,
                    "'%s' has %d dimension%s of %s, expected 3 of floats (samples, positions, "
                    "features), as '%s' beside it has lengths of frames",
                    set->samples.name, npy->ndim, LKI_S(npy->ndim), npy->type, set->lengths.name);
}

/*
 * Dimensions behind the first are those of a sample. Two are rows and columns, and get one channel, unless they are frames.
 * Of three, channels are the last, unless the first alone looks like them: 1 to 4, and less than both others.
 */
static lks_status lay_out(numpy_set *set, lks_dataset_info *info)
{
    const lki_npy *npy = &set->samples.npy;
    int64_t stride[LKI_NPY_DIMS];
    const int ndim = npy->ndim - 1;
    if (npy->elements == 0 || ndim < 1 || ndim > LKS_MAX_DIMS)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' has %d dimension%s%s, expected 2 to %d, each at least 1: the "
                        "samples, and those of a sample",
                        set->samples.name, npy->ndim, LKI_S(npy->ndim),
                        npy->elements == 0 ? ", one of them 0" : "", 1 + LKS_MAX_DIMS);
    if (set->framed) LKI_TRY(check_frames(set));
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
    if (ndim == 2 && !set->framed) {
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
    const lki_npy *npy = &set->samples.npy;
    if (npy->kind == LKI_NPY_BOOL || (npy->kind == LKI_NPY_UNSIGNED && npy->size == 1))
        return LKS_OK;
    for (int64_t i = 0; i < npy->elements; i++) {
        const int64_t value = lki_npy_integer(npy, npy->data + (size_t)i * npy->size);
        if (value < 0 || value > UINT8_MAX)
            return LKI_FAIL(LKS_E_FORMAT,
                            "'%s' is of %s and has the value %" PRId64
                            ", expected integers from 0 to 255, or floats; convert the array, as "
                            "by x.astype('float32')",
                            set->samples.name, npy->type, value);
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
        uint8_t *x = (uint8_t *)set->copy + (size_t)i * bytes;
        convert_sample(set, i, x);
        if (set->framed) clear_padding(set, i, (float *)(void *)x);
    }
    return LKS_OK;
}

/* Whether the file has the samples just as they are given out. */
static bool is_direct(const numpy_set *set)
{
    const lki_npy *npy = &set->samples.npy;
    int64_t next = 1;
    for (int i = set->shape.ndim - 1; i >= 0; i--) {
        if (set->shape.dim[i] > 1 && set->stride[i] != next) return false;
        next *= set->shape.dim[i];
    }
    return set->sample_stride == next &&
           (set->floats ? lki_npy_is_own_float(npy) : npy->size == 1 && npy->kind != LKI_NPY_BOOL);
}

/* ---------------------------------------------------------------- opening */

/* `labels` NULL: there are none, and every target is 0. */
static lks_status take_labels(numpy_set *set, const lki_array *labels, lks_dataset_info *info)
{
    const lki_beside beside = beside_of(set, labels);
    void *memory = NULL;
    LKI_TRY(lki_beside_check(&beside));
    set->each = lki_beside_labels_each(&beside);
    if (set->each > 1) info->target_shape = LKS_SHAPE(set->each);
    LKI_TRY(lki_alloc(set->context, &memory, lki_times(label_bytes(set), (size_t)set->count),
                      "labels"));
    set->labels = memory;
    if (labels != NULL) return lki_beside_read(&beside, set->labels, &info->classes);
    if (info->classes == 0) info->classes = 1;
    return LKS_OK;
}

static lks_status fill_set(numpy_set *set, const lki_array *labels, lks_dataset_info *info)
{
    set->floats = set->samples.npy.kind == LKI_NPY_FLOAT;
    info->dtype = set->floats ? LKS_F32 : LKS_U8;
    LKI_TRY(lay_out(set, info));
    set->count = info->samples;
    LKI_TRY(take_labels(set, labels, info));
    if (!set->floats) LKI_TRY(check_bytes(set));
    set->direct = is_direct(set);
    return !set->direct && set->samples.npy.fortran ? copy_samples(set) : LKS_OK;
}

/* Takes the arrays over, also when it fails. */
static lks_status make_set(lks_dataset **out, lks_context *context, arrays *all, int64_t classes)
{
    lks_dataset_ops ops = {.info.classes = classes, .read = read_numpy, .close = close_numpy};
    void *memory = NULL;
    lks_status status = lki_alloc(context, &memory, sizeof(numpy_set), "a data set of arrays");
    if (status != LKS_OK) {
        close_arrays(all);
        return status;
    }
    numpy_set *set = memory;
    lki_array *labels = &all->array[LKI_NUMPY_LABELS];
    set->context = context;
    set->samples = all->array[LKI_NUMPY_SAMPLES];
    set->lengths = all->array[LKI_NUMPY_LENGTHS];
    set->framed = all->has[LKI_NUMPY_LENGTHS];
    status = fill_set(set, all->has[LKI_NUMPY_LABELS] ? labels : NULL, &ops.info);
    lki_array_close(labels);
    if (set->each > 1) ops.counted = count_labels;
    const void *x = set->direct && !set->framed ? set->samples.npy.data : set->copy;
    if (status == LKS_OK && x != NULL)
        status = lki_dataset_in_memory(out, context, set->samples.name, &ops, set, x, set->labels);
    else if (status == LKS_OK)
        status = lks_dataset_create(out, context, set->samples.name, &ops, set);
    if (status != LKS_OK) close_numpy(set);
    return status;
}

lks_status lks_dataset_open_npy(lks_dataset **out, lks_context *context, const char *images,
                                const char *labels, int64_t classes)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    arrays all = {.has = {[LKI_NUMPY_SAMPLES] = true, [LKI_NUMPY_LABELS] = labels != NULL}};
    lks_status status;
    *out = NULL;
    if (images == NULL) return LKI_FAIL_NULL(images);
    if (classes < 0 || classes > LKI_NUMPY_CLASSES)
        return LKI_FAIL(LKS_E_INVALID,
                        "'%s': %" PRId64 " classes were asked for, expected 1 to %d, or 0 to count "
                        "them",
                        images, classes, LKI_NUMPY_CLASSES);
    status = lki_array_open(&all.array[LKI_NUMPY_SAMPLES], context, images, NULL);
    if (status == LKS_OK && labels != NULL)
        status = lki_array_open(&all.array[LKI_NUMPY_LABELS], context, labels, NULL);
    if (status == LKS_OK) return make_set(out, context, &all, classes);
    close_arrays(&all);
    return status;
}

/* ---------------------------------------------------------------- folders and archives */

/* Arrays `first` and behind it. Closed by close_arrays(), also after a failure. */
static lks_status open_arrays(arrays *out, lks_context *context, const lki_numpy_place *place,
                              int first)
{
    *out = (arrays){.has = {false}};
    for (int k = first; k < LKI_NUMPY_ARRAYS; k++) {
        if (k == LKI_NUMPY_LENGTHS && !place->has[k]) continue;
        out->has[k] = true;
        LKI_TRY(lki_numpy_open(&out->array[k], context, place, k));
    }
    return LKS_OK;
}

/* Classes of labels whose samples need not be there. */
static lks_status count_classes(int64_t *out, const arrays *all)
{
    const lki_array *labels = &all->array[LKI_NUMPY_LABELS];
    const bool by_position = labels->npy.ndim == 2 && labels->npy.dim[1] > 1;
    const lki_beside beside = {.samples = labels->name,
                               .count = labels->npy.dim[0],
                               .positions = labels->npy.dim[1],
                               .labels = labels,
                               .lengths = by_position && all->has[LKI_NUMPY_LENGTHS]
                                              ? &all->array[LKI_NUMPY_LENGTHS]
                                              : NULL};
    *out = 0;
    LKI_TRY(lki_beside_check(&beside));
    return lki_beside_read(&beside, NULL, out);
}

/* The classes of a test split are those of the training labels, where these are. */
static lks_status settle_classes(int64_t *classes, lks_context *context, const char *path,
                                 const arrays *test)
{
    lki_numpy_place place;
    arrays training;
    int64_t found;
    if (!lki_numpy_find(&place, path, false) || !place.has[LKI_NUMPY_LABELS]) return LKS_OK;
    lks_status status = open_arrays(&training, context, &place, LKI_NUMPY_LABELS);
    if (status == LKS_OK) status = count_classes(classes, &training);
    if (status == LKS_OK) status = count_classes(&found, test);
    if (status == LKS_OK && found > *classes)
        status = LKI_FAIL(LKS_E_FORMAT,
                          "'%s' has labels up to %" PRId64 ", but '%s' only up to %" PRId64
                          "; if both are of the same data set, say how many classes it has "
                          "(data.classes)",
                          test->array[LKI_NUMPY_LABELS].name, found - 1,
                          training.array[LKI_NUMPY_LABELS].name, *classes - 1);
    close_arrays(&training);
    return status;
}

static lks_status numpy_open(lks_dataset **out, lks_context *context, const char *path,
                             bool test_split, int64_t classes)
{
    lki_numpy_place place;
    arrays all;
    *out = NULL;
    lki_numpy_find(&place, path, test_split);
    lks_status status = open_arrays(&all, context, &place, LKI_NUMPY_SAMPLES);
    if (status == LKS_OK && test_split && classes == 0)
        status = settle_classes(&classes, context, path, &all);
    if (status == LKS_OK) return make_set(out, context, &all, classes);
    close_arrays(&all);
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

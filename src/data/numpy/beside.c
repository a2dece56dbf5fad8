#include "data/numpy/beside.h"

#include <inttypes.h>
#include <stdio.h>

#include <lockstep/data.h>

#include "base/check.h"

static bool is_integer(const lki_npy *npy)
{
    return npy->kind == LKI_NPY_SIGNED || npy->kind == LKI_NPY_UNSIGNED;
}

/* Whether the array has one number a sample, in one dimension or in a column. */
static bool has_one_each(const lki_npy *npy)
{
    return npy->ndim == 1 || (npy->ndim == 2 && npy->dim[1] == 1);
}

static int64_t beside_number(const lki_array *array, int64_t sample, int64_t position)
{
    int64_t stride[LKI_NPY_DIMS] = {0};
    lki_npy_strides(&array->npy, stride);
    const int64_t at = sample * stride[0] + position * (array->npy.ndim > 1 ? stride[1] : 0);
    return lki_npy_integer(&array->npy, array->npy.data + (size_t)at * array->npy.size);
}

int64_t lki_beside_length(const lki_beside *beside, int64_t index)
{
    return beside->lengths != NULL ? beside_number(beside->lengths, index, 0) : beside->positions;
}

int64_t lki_beside_labels_each(const lki_beside *beside)
{
    if (beside->labels == NULL || beside->lengths == NULL) return 1;
    return has_one_each(&beside->labels->npy) ? 1 : beside->positions;
}

static lks_status fail_count(const lki_beside *beside, const lki_array *array, const char *what)
{
    const int64_t found = array->npy.dim[0];
    return LKI_FAIL(LKS_E_FORMAT,
                    "'%s' has %" PRId64 " sample%s but '%s' has %" PRId64
                    " %s%s, expected as many; are they of the same data set?",
                    beside->samples, beside->count, LKI_S(beside->count), array->name, found, what,
                    LKI_S(found));
}

static lks_status check_labels(const lki_beside *beside)
{
    const lki_array *labels = beside->labels;
    const lki_npy *npy = &labels->npy;
    if (npy->kind == LKI_NPY_FLOAT)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' is of %s, expected labels that are integers; convert the array, as "
                        "by y.astype('int64')",
                        labels->name, npy->type);
    const bool framed = beside->lengths != NULL;
    const bool by_position = framed && npy->ndim == 2 && npy->dim[1] == beside->positions;
    if (!has_one_each(npy) && !by_position && framed)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' has %d dimension%s, expected 1, with one label a sample, or 2, with "
                        "one for each of the %" PRId64 " positions of '%s'",
                        labels->name, npy->ndim, LKI_S(npy->ndim), beside->positions,
                        beside->samples);
    if (!has_one_each(npy) && !by_position)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' has %d dimension%s, expected 1, with one label a sample; of one "
                        "column a class y.argmax(axis=1) makes labels",
                        labels->name, npy->ndim, LKI_S(npy->ndim));
    return npy->dim[0] == beside->count ? LKS_OK : fail_count(beside, labels, "label");
}

static lks_status check_lengths(const lki_beside *beside)
{
    const lki_array *lengths = beside->lengths;
    const lki_npy *npy = &lengths->npy;
    if (!is_integer(npy) || !has_one_each(npy))
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' is of %s and has %d dimension%s, expected integers in 1: how many "
                        "positions of each sample are no padding",
                        lengths->name, npy->type, npy->ndim, LKI_S(npy->ndim));
    if (npy->dim[0] != beside->count) return fail_count(beside, lengths, "length");
    for (int64_t i = 0; i < beside->count; i++) {
        const int64_t length = lki_beside_length(beside, i);
        if (length < 0 || length > beside->positions)
            return LKI_FAIL(LKS_E_FORMAT,
                            "'%s': the length of sample %" PRId64 " is %" PRId64
                            ", expected 0 to %" PRId64 ", the positions that '%s' has",
                            lengths->name, i, length, beside->positions, beside->samples);
    }
    return LKS_OK;
}

lks_status lki_beside_check(const lki_beside *beside)
{
    if (beside->lengths != NULL) LKI_TRY(check_lengths(beside));
    return beside->labels != NULL ? check_labels(beside) : LKS_OK;
}

/* `most`: the largest that may be; `known`: as the data set has classes. */
static lks_status fail_label(const lki_beside *beside, int64_t number, int64_t label, int64_t most,
                             bool known)
{
    const int64_t each = lki_beside_labels_each(beside);
    char at[48] = "";
    if (each > 1) snprintf(at, sizeof at, " at position %" PRId64, number % each);
    return LKI_FAIL(LKS_E_FORMAT,
                    "'%s': label number %" PRId64 "%s is %" PRId64 ", expected 0 to %" PRId64
                    "%s; the file is damaged or of another data set",
                    beside->labels->name, number / each, at, label, most,
                    known ? "" : ", the most there can be");
}

lks_status lki_beside_read(const lki_beside *beside, int32_t *out, int64_t *classes)
{
    const bool known = *classes > 0;
    const int64_t limit = known ? *classes : LKI_NUMPY_CLASSES;
    const int64_t each = lki_beside_labels_each(beside);
    int64_t largest = 0;
    for (int64_t i = 0; i < beside->count * each; i++) {
        int64_t label = LKS_NO_CLASS;
        if (each == 1 || i % each < lki_beside_length(beside, i / each))
            label = beside_number(beside->labels, i / each, i % each);
        const bool none = each > 1 && label == LKS_NO_CLASS;
        if (!none && (label < 0 || label >= limit))
            return fail_label(beside, i, label, limit - 1, known);
        if (label > largest) largest = label;
        if (out != NULL) out[i] = (int32_t)label;
    }
    if (!known) *classes = largest + 1;
    return LKS_OK;
}

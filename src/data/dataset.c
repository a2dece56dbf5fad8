/* Data sets: made from callbacks and arrays, cut, read and hashed. Each format has its own file. */
#include "data/dataset.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/context.h"
#include "base/memory.h"
#include "numeric/hash.h"
#include "numeric/permutation.h"

/* Bytes of one tensor of this shape; false where the shape is not valid or the size overflows. */
static bool shape_bytes(const lks_shape *shape, size_t element, size_t *out)
{
    size_t bytes = element;
    if (shape->ndim < 0 || shape->ndim > LKS_MAX_DIMS) return false;
    for (int i = 0; i < shape->ndim; i++) {
        if (shape->dim[i] < 1) return false;
        if (__builtin_mul_overflow(bytes, (size_t)shape->dim[i], &bytes)) return false;
    }
    *out = bytes;
    return bytes <= PTRDIFF_MAX;
}

/* Checks the description of a data set and fills in the bytes of a sample and of a target. */
static lks_status dataset_measure(lks_dataset *set)
{
    const lks_dataset_info *info = &set->info;
    if (info->samples < 1)
        return LKI_FAIL(LKS_E_INVALID,
                        "data set '%s': info.samples is %" PRId64 ", expected at least 1",
                        set->name, info->samples);
    if (info->dtype != LKS_U8 && info->dtype != LKS_F32 && info->dtype != LKS_I32)
        return LKI_FAIL(LKS_E_INVALID,
                        "data set '%s': info.dtype is %d, expected LKS_U8, LKS_F32 or LKS_I32; "
                        "convert the samples to one of them",
                        set->name, (int)info->dtype);
    if ((info->dtype == LKS_I32) != (info->vocabulary != 0) || info->vocabulary < 0 ||
        info->vocabulary > INT32_MAX)
        return LKI_FAIL(LKS_E_INVALID,
                        "data set '%s': info.vocabulary is %" PRId64 ", expected 1 to %" PRId32
                        " for tokens (LKS_I32), and 0 for others",
                        set->name, info->vocabulary, INT32_MAX);
    if (!shape_bytes(&info->shape, lks_dtype_size(info->dtype), &set->x_bytes))
        return LKI_FAIL(LKS_E_SHAPE,
                        "data set '%s': info.shape is not valid, expected 0 to %d dimensions, each "
                        "at least 1, that fit in memory",
                        set->name, LKS_MAX_DIMS);
    if (info->classes < 0 || info->classes > INT32_MAX)
        return LKI_FAIL(LKS_E_INVALID,
                        "data set '%s': info.classes is %" PRId64
                        ", expected 0 (targets are floats) to %" PRId32,
                        set->name, info->classes, INT32_MAX);
    if (!shape_bytes(&info->target_shape, sizeof(int32_t), &set->y_bytes))
        return LKI_FAIL(LKS_E_SHAPE,
                        "data set '%s': info.target_shape is not valid, expected 0 to %d "
                        "dimensions, each at least 1, that fit in memory",
                        set->name, LKS_MAX_DIMS);
    if (info->columns < 0 || (info->columns > 0 && info->samples % info->columns != 0))
        return LKI_FAIL(LKS_E_INVALID,
                        "data set '%s': info.columns is %" PRId64 ", expected 0, or a number that "
                        "divides the %" PRId64 " samples",
                        set->name, info->columns, info->samples);
    return LKS_OK;
}

static lks_status create(lks_dataset **out, lks_context *context, const char *name,
                         const lks_dataset_info *info)
{
    void *memory = NULL;
    *out = NULL;
    LKI_TRY(lki_alloc(context, &memory, sizeof(lks_dataset), "a data set"));
    lks_dataset *set = memory;
    set->context = context;
    set->info = *info;
    snprintf(set->name, sizeof set->name, "%s", name ? name : "unnamed");
    const lks_status status = dataset_measure(set);
    if (status == LKS_OK)
        *out = set;
    else
        lki_free(context, set, sizeof *set);
    return status;
}

lks_status lks_dataset_create(lks_dataset **out, lks_context *context, const char *name,
                              const lks_dataset_ops *ops, void *user)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    *out = NULL;
    if (!ops || (!ops->read && !ops->read_epoch))
        return LKI_FAIL(LKS_E_INVALID,
                        "data set '%s': no function to read samples was given; set ops.read",
                        name ? name : "unnamed");
    LKI_TRY(create(out, context, name, &ops->info));
    (*out)->read = ops->read;
    (*out)->read_epoch = ops->read_epoch;
    (*out)->counted = ops->counted;
    (*out)->close = ops->close;
    (*out)->user = user;
    return LKS_OK;
}

static int64_t classes_of(const lks_dataset *set)
{
    return set->info.classes > 0 ? lks_shape_elements(&set->info.target_shape) : 0;
}

/* Of a data set in memory, or of one that says how many positions have a class, some may have none. */
static lks_status check_target(const lks_dataset *set, int64_t index, const void *y)
{
    const int64_t count = classes_of(set);
    const bool gaps = set->info.target_shape.ndim > 0 && (set->x || set->counted);
    for (int64_t i = 0; i < count; i++) {
        int32_t label;
        memcpy(&label, (const uint8_t *)y + (size_t)i * sizeof label, sizeof label);
        if ((label >= 0 && label < set->info.classes) || (gaps && label == LKS_NO_CLASS)) continue;
        return LKI_FAIL(LKS_E_FORMAT,
                        "data set '%s': the label of sample %" PRId64 " is %" PRId32
                        ", expected 0 to %" PRId64,
                        set->name, index, label, set->info.classes - 1);
    }
    return LKS_OK;
}

/* Tokens are checked where they are read, too, so that a message can name the sample. */
static lks_status check_tokens(const lks_dataset *set, int64_t index, const void *x)
{
    const int64_t count = set->info.dtype == LKS_I32 ? lks_shape_elements(&set->info.shape) : 0;
    for (int64_t i = 0; i < count; i++) {
        int32_t token;
        memcpy(&token, (const uint8_t *)x + (size_t)i * sizeof token, sizeof token);
        if (token >= 0 && token < set->info.vocabulary) continue;
        return LKI_FAIL(LKS_E_FORMAT,
                        "data set '%s': token %" PRId64 " of sample %" PRId64 " is %" PRId32
                        ", expected 0 to %" PRId64,
                        set->name, i, index, token, set->info.vocabulary - 1);
    }
    return LKS_OK;
}

static lks_status check_sample(const lks_dataset *set, int64_t index, const void *x, const void *y)
{
    LKI_TRY(check_tokens(set, index, x));
    return check_target(set, index, y);
}

lks_status lki_dataset_in_memory(lks_dataset **out, lks_context *context, const char *name,
                                 const lks_dataset_ops *ops, void *user, const void *x,
                                 const void *y)
{
    lks_dataset *set = NULL;
    lks_status status = create(&set, context, name, &ops->info);
    *out = NULL;
    if (status != LKS_OK) return status;
    set->x = x;
    set->y = y;
    const size_t samples = (size_t)set->info.samples;
    if (samples > PTRDIFF_MAX / set->x_bytes || samples > PTRDIFF_MAX / set->y_bytes) {
        status = LKI_FAIL(LKS_E_SHAPE,
                          "data set '%s': info.samples is %" PRId64
                          ", more than fit in memory; give the number that the arrays have",
                          set->name, set->info.samples);
        goto fail;
    }
    for (int64_t i = 0; i < set->info.samples; i++) {
        LKI_TRY_OR(status, fail,
                   check_sample(set, i, set->x + (size_t)i * set->x_bytes,
                                set->y + (size_t)i * set->y_bytes));
    }
    set->close = ops->close;
    set->user = user;
    *out = set;
    return LKS_OK;
fail:
    lki_free(context, set, sizeof *set);
    return status;
}

lks_status lks_dataset_from_arrays(lks_dataset **out, lks_context *context,
                                   const lks_dataset_info *info, const void *x, const void *y)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    *out = NULL;
    if (!info || !x || !y)
        return LKI_FAIL(LKS_E_INVALID, "data set from arrays: %s is NULL, expected %s",
                        !info ? "info" : (!x ? "x" : "y"),
                        !info ? "a description" : "an array of info.samples entries");
    const lks_dataset_ops ops = {.info = *info};
    return lki_dataset_in_memory(out, context, "arrays", &ops, NULL, x, y);
}

lks_status lks_dataset_slice(lks_dataset **out, lks_dataset *base, int64_t first, int64_t count)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    void *memory = NULL;
    *out = NULL;
    if (base == NULL) return LKI_FAIL_NULL(base);
    if (first < 0 || count < 1 || first > base->info.samples - count)
        return LKI_FAIL(
            LKS_E_INVALID,
            "data set '%s': a slice of %" PRId64 " sample%s from %" PRId64
            " was asked for, expected at least 1 and to stay within its %" PRId64 " sample%s",
            base->name, count, LKI_S(count), first, base->info.samples, LKI_S(base->info.samples));
    LKI_TRY(lki_alloc(base->context, &memory, sizeof(lks_dataset), "a slice of a data set"));
    lks_dataset *set = memory;
    *set = *base;
    set->info.samples = count;
    set->first += first;
    set->close = NULL;
    set->positions = 0;
    const size_t length = strlen(set->name);
    snprintf(set->name + length, sizeof set->name - length, "[%" PRId64 ":%" PRId64 "]", first,
             first + count);
    *out = set;
    return LKS_OK;
}

/* Sample `index` in the numbering of the data set that was opened. */
static int64_t position_of(const lks_dataset *set, int64_t index)
{
    const int64_t at = set->first + index;
    return set->position ? set->position[at] : at;
}

int64_t lks_dataset_position(const lks_dataset *dataset, int64_t index)
{
    const bool there = dataset != NULL && index >= 0 && index < dataset->info.samples;
    if (!there) return -1;
    const int64_t at = position_of(dataset, index);
    return dataset->stride > 0 ? dataset->row + at * dataset->stride : at;
}

/* A part of a split with room for its positions. */
static lks_status create_part(lks_dataset **out, int64_t **position, const lks_dataset *base,
                              int64_t count, const char *name)
{
    void *memory = NULL, *list = NULL;
    const size_t bytes = (size_t)count * sizeof **position;
    LKI_TRY(lki_alloc(base->context, &memory, sizeof(lks_dataset), "a part of a data set"));
    const lks_status status = lki_alloc(base->context, &list, bytes, "the samples of a part");
    if (status != LKS_OK) {
        lki_free(base->context, memory, sizeof(lks_dataset));
        return status;
    }
    lks_dataset *set = memory;
    *set = *base;
    *position = list;
    set->info.samples = set->positions = count;
    set->position = list;
    set->first = 0;
    set->close = NULL;
    const size_t length = strlen(set->name);
    snprintf(set->name + length, sizeof set->name - length, "[%s]", name);
    *out = set;
    return LKS_OK;
}

/* The samples of the permutation's last `count` positions go to `held`; both parts keep the order of
 * the base, which is that of the file. */
static lks_status deal(lks_dataset *base, int64_t count, int64_t *kept, int64_t *held)
{
    const int64_t samples = base->info.samples;
    void *memory = NULL;
    LKI_TRY(lki_alloc(base->context, &memory, (size_t)samples, "marks of samples"));
    uint8_t *is_held = memory;
    memset(is_held, 0, (size_t)samples);
    const lki_permutation order = lki_permutation_make(lks_context_seed(base->context), -1,
                                                       samples);
    for (int64_t i = samples - count; i < samples; i++) is_held[lki_permutation_at(&order, i)] = 1;
    for (int64_t i = 0; i < samples; i++) {
        if (is_held[i])
            *held++ = position_of(base, i);
        else
            *kept++ = position_of(base, i);
    }
    lki_free(base->context, memory, (size_t)samples);
    return LKS_OK;
}

lks_status lks_dataset_split(lks_dataset **rest, lks_dataset **held, lks_dataset *base,
                             int64_t count)
{
    lks_status status;
    int64_t *rest_position, *held_position;
    if (rest == NULL) return LKI_FAIL_NULL(rest);
    if (held == NULL) return LKI_FAIL_NULL(held);
    *rest = *held = NULL;
    if (base == NULL) return LKI_FAIL_NULL(base);
    if (count < 1 || count >= base->info.samples)
        return LKI_FAIL(LKS_E_INVALID,
                        "data set '%s': a split of %" PRId64
                        " sample%s was asked for, expected at least 1 and fewer than its %" PRId64,
                        base->name, count, LKI_S(count), base->info.samples);
    LKI_TRY(create_part(rest, &rest_position, base, base->info.samples - count, "rest"));
    LKI_TRY_OR(status, fail, create_part(held, &held_position, base, count, "held"));
    LKI_TRY_OR(status, fail, deal(base, count, rest_position, held_position));
    return LKS_OK;
fail:
    lks_dataset_destroy(*rest);
    lks_dataset_destroy(*held);
    *rest = *held = NULL;
    return status;
}

void lks_dataset_destroy(lks_dataset *dataset)
{
    if (!dataset) return;
    if (dataset->close) dataset->close(dataset->user);
    if (dataset->positions > 0)
        lki_free(dataset->context, (void *)dataset->position,
                 (size_t)dataset->positions * sizeof *dataset->position);
    lki_free(dataset->context, dataset, sizeof *dataset);
}

lks_dataset_info lks_dataset_get_info(const lks_dataset *dataset)
{
    return dataset != NULL ? dataset->info : (lks_dataset_info){0};
}

void lki_dataset_name_classes(lks_dataset *dataset, const char *const *names, int64_t count)
{
    dataset->class_name = names;
    dataset->classes_named = count;
}

const char *lks_dataset_class(const lks_dataset *dataset, int64_t number)
{
    const bool named = dataset != NULL && number >= 0 && number < dataset->classes_named;
    return named ? dataset->class_name[number] : NULL;
}

const lks_unit *lks_dataset_units(const lks_dataset *dataset)
{
    return dataset != NULL ? dataset->unit : NULL;
}

void lki_dataset_name_samples(lks_dataset *dataset, const char *const *names)
{
    dataset->sample_name = names;
}

const char *lks_dataset_sample(const lks_dataset *dataset, int64_t index)
{
    const int64_t position = lks_dataset_position(dataset, index);
    return position >= 0 && dataset->sample_name != NULL ? dataset->sample_name[position] : NULL;
}

const char *lks_dataset_name(const lks_dataset *dataset)
{
    return dataset != NULL ? dataset->name : "";
}

/* By the function of whoever has made the data set. */
static lks_status read_by_caller(const lks_dataset *set, int64_t epoch, int64_t index, void *x,
                                 void *y)
{
    const int64_t at = position_of(set, index);
    const lks_status had = lki_error_enter();
    const lks_status status = set->read_epoch != NULL ? set->read_epoch(set->user, epoch, at, x, y)
                                                      : set->read(set->user, at, x, y);
    const bool said = lki_error_leave(had, status);
    if (status == LKS_OK) return LKS_OK;
    if (said)
        return LKI_FAIL(status, "data set '%s': sample %" PRId64 " could not be read: %s",
                        set->name, index, lks_last_error()->message);
    return LKI_FAIL(status,
                    "data set '%s': sample %" PRId64 " could not be read: its %s() returned %s "
                    "(%d), %s, without a sentence by lks_fail()",
                    set->name, index, set->read_epoch != NULL ? "read_epoch" : "read",
                    lks_status_name(status), (int)status, lks_status_text(status));
}

lks_status lki_dataset_fetch(const lks_dataset *dataset, int64_t epoch, int64_t index, void *x,
                             void *y)
{
    if (dataset->x) {
        const size_t at = (size_t)position_of(dataset, index);
        memcpy(x, dataset->x + at * dataset->x_bytes, dataset->x_bytes);
        memcpy(y, dataset->y + at * dataset->y_bytes, dataset->y_bytes);
    } else {
        LKI_TRY(read_by_caller(dataset, epoch, index, x, y));
    }
    return check_sample(dataset, index, x, y);
}

int64_t lki_dataset_counted(const lks_dataset *dataset, int64_t index)
{
    const int64_t at = position_of(dataset, index), all = classes_of(dataset);
    int64_t count = 0;
    if (all == 0 || dataset->info.target_shape.ndim == 0) return 1;
    if (!dataset->x && !dataset->counted) return all;
    if (!dataset->x) return dataset->counted(dataset->user, at);
    const uint8_t *y = dataset->y + (size_t)at * dataset->y_bytes;
    for (int64_t i = 0; i < all; i++) {
        int32_t label;
        memcpy(&label, y + (size_t)i * sizeof label, sizeof label);
        count += label != LKS_NO_CLASS;
    }
    return count;
}

lks_status lks_dataset_read(lks_dataset *dataset, int64_t index, void *x, void *y)
{
    if (dataset == NULL) return LKI_FAIL_NULL(dataset);
    if (x == NULL) return LKI_FAIL_NULL(x);
    if (y == NULL) return LKI_FAIL_NULL(y);
    if (index < 0 || index >= dataset->info.samples)
        return LKI_FAIL(LKS_E_INVALID,
                        "data set '%s': sample %" PRId64 " was asked for, expected 0 to %" PRId64,
                        dataset->name, index, dataset->info.samples - 1);
    return lki_dataset_fetch(dataset, LKI_NO_EPOCH, index, x, y);
}

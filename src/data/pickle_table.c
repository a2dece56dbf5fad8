/* What the dictionary of a pickle has. */
#include "data/pickle_value.h"

#include <inttypes.h>
#include <string.h>

#include "base/check.h"

/* The last one counts, as in Python. */
static const lki_pickle_value *pickle_find(const lki_pickle *pickle, const char *key)
{
    const lki_pickle_list *items = &pickle->root->items;
    for (size_t i = items->count; i >= 2; i -= 2)
        if (lki_pickle_is(items->at[i - 2], key)) return items->at[i - 1];
    return NULL;
}

bool lki_pickle_has(const lki_pickle *pickle, const char *key)
{
    return pickle_find(pickle, key) != NULL;
}

lks_status lki_pickle_array(const lki_pickle *pickle, const char *key, int64_t columns,
                            const uint8_t **out, int64_t *rows)
{
    const lki_pickle_value *array = pickle_find(pickle, key);
    if (array == NULL || array->kind != LKI_PICKLE_ARRAY || array->bytes == NULL)
        return LKI_FAIL(
            LKS_E_FORMAT,
            "'%s' has no array '%s' in its dictionary, expected one of images; is it a batch of "
            "CIFAR's Python version?",
            pickle->path, key);
    const lki_pickle_list *shape = &array->shape->items;
    const lki_pickle_value *type = array->type;
    const bool is_bytes = type->size >= 2 && memcmp(type->bytes + type->size - 2, "u1", 2) == 0;
    const bool fits = is_bytes && array->number == 0 && shape->count == 2 &&
                      shape->at[0]->kind == LKI_PICKLE_INTEGER &&
                      shape->at[1]->kind == LKI_PICKLE_INTEGER && shape->at[1]->number == columns &&
                      shape->at[0]->number >= 1 && (uint64_t)shape->at[0]->number <= array->size &&
                      (uint64_t)shape->at[0]->number * (uint64_t)columns == array->size;
    if (!fits)
        return LKI_FAIL(
            LKS_E_FORMAT,
            "'%s': the array '%s' is of another kind, expected unsigned bytes in rows of %" PRId64
            " in C's order; is it a batch of CIFAR's Python version?",
            pickle->path, key, columns);
    *out = array->bytes;
    *rows = shape->at[0]->number;
    return LKS_OK;
}

lks_status lki_pickle_integers(const lki_pickle *pickle, const char *key, int64_t count,
                               int32_t *out)
{
    const lki_pickle_value *value = pickle_find(pickle, key);
    if (value == NULL || value->kind != LKI_PICKLE_LIST)
        return LKI_FAIL(
            LKS_E_FORMAT,
            "'%s' has no list '%s' in its dictionary, expected one of labels; is it a batch of "
            "CIFAR's Python version?",
            pickle->path, key);
    if (value->items.count != (size_t)count)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' has %zu label%s in '%s', but %" PRId64
                        " image%s, expected as many; copy or download it again",
                        pickle->path, value->items.count, LKI_S(value->items.count), key, count,
                        LKI_S(count));
    for (int64_t i = 0; i < count; i++) {
        const lki_pickle_value *label = value->items.at[i];
        if (label->kind != LKI_PICKLE_INTEGER || label->number < 0 || label->number > INT32_MAX)
            return LKI_FAIL(LKS_E_FORMAT,
                            "'%s': label number %" PRId64
                            " in '%s' is no class, expected an integer from 0; "
                            "copy or download it again",
                            pickle->path, i, key);
        out[i] = (int32_t)label->number;
    }
    return LKS_OK;
}

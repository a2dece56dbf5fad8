#include "core/attribute.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/shape.h"
#include "base/text.h"
#include "core/attribute_init.h"
#include "core/range.h"

static const void *member(const lki_attribute *a, const void *values)
{
    return (const char *)values + a->offset;
}

const lki_attribute *lki_attribute_find(const lki_attributes *table, const char *name)
{
    for (int i = 0; i < table->count; i++)
        if (strcmp(table->list[i].name, name) == 0) return &table->list[i];
    return NULL;
}

static const char *noun_of(const lki_attribute *a)
{
    switch (a->type) {
    case LKI_INT:
    case LKI_SHORT:
        return "an integer";
    case LKI_FLOAT:
    case LKI_DOUBLE:
        return "a number";
    case LKI_BOOL:
    case LKI_NOT:
        return "true or false";
    case LKI_PAIR:
        return "an integer, or [height, width],";
    case LKI_FLOATS:
        return "a number, or a list of numbers,";
    case LKI_INTS:
        return "an integer, or a list of integers,";
    case LKI_SHAPE:
        return "sizes, such as 28x28x1";
    case LKI_DTYPE:
        return "F32 or U8";
    case LKI_TEXT:
        return "a text";
    case LKI_WORD:
    case LKI_INIT:
        break;
    }
    return "";
}

void lki_attribute_describe(const lki_attribute *attribute, char *text, size_t size)
{
    if (attribute->type == LKI_WORD || attribute->type == LKI_INIT)
        lki_words_describe(attribute->range, text, size);
    else
        lki_range_describe(attribute->range, noun_of(attribute), text, size);
}

/* Defaults. */

/* Of a struct what says what it is: between its members there is padding, of no value. */
static bool is_zero(const lki_attribute *a, const void *value)
{
    const unsigned char *bytes = value;
    if (a->type == LKI_INIT) return ((const lks_init *)value)->kind == LKS_INIT_DEFAULT;
    if (a->type == LKI_SHAPE) return ((const lks_shape *)value)->ndim == 0;
    for (size_t i = 0; i < a->size; i++)
        if (bytes[i] != 0) return false;
    return true;
}

/* The default, as the member has it. */
static void set_default(const lki_attributes *table, const lki_attribute *a, const void *values,
                        void *to)
{
    const lki_attribute *other = lki_attribute_find(table, a->fallback);
    if (other != NULL) {
        memcpy(to, member(other, values), a->size);
        return;
    }
    const lki_text_caller had = lki_text_enter();
    switch (a->type) {
    case LKI_INT:
        *(int64_t *)to = strtoll(a->fallback, NULL, 10);
        break;
    case LKI_SHORT:
        *(int *)to = (int)strtol(a->fallback, NULL, 10);
        break;
    case LKI_FLOAT:
        *(float *)to = strtof(a->fallback, NULL);
        break;
    case LKI_DOUBLE:
        *(double *)to = strtod(a->fallback, NULL);
        break;
    case LKI_PAIR:
        for (int i = 0; i < 2; i++) ((int64_t *)to)[i] = strtoll(a->fallback, NULL, 10);
        break;
    case LKI_BOOL:
    case LKI_NOT:
    case LKI_WORD:
    case LKI_INIT:
    case LKI_FLOATS:
    case LKI_INTS:
    case LKI_SHAPE:
    case LKI_DTYPE:
    case LKI_TEXT:
        break; /* theirs is zero */
    }
    lki_text_leave(had);
}

/* Each of a pair by itself. */
static void fill_pair(int64_t *pair, const int64_t standard[2])
{
    for (int i = 0; i < 2; i++)
        if (pair[i] == 0) pair[i] = standard[i];
}

void lki_attributes_fill(const lki_attributes *table, void *values)
{
    for (int i = 0; i < table->count; i++) {
        const lki_attribute *a = &table->list[i];
        void *to = (char *)values + a->offset;
        int64_t standard[2];
        if (a->fallback == NULL || a->required || a->part) continue;
        if (a->type == LKI_PAIR) {
            set_default(table, a, values, standard);
            fill_pair(to, standard);
        } else if (is_zero(a, to)) {
            set_default(table, a, values, to);
        }
    }
}

/* Checks. */

static lks_status check_integer(const lki_attribute *a, int64_t value, const char *who)
{
    const int64_t most = a->most != 0 ? a->most : LKI_ATTRIBUTE_MOST;
    const lki_range range = lki_range_of(a->range);
    char expected[120];
    if (value > most)
        return LKI_FAIL(LKS_E_INVALID, "%s: %s is %lld, expected at most %lld", who, a->name,
                        (long long)value, (long long)most);
    if (lki_range_has(&range, (double)value)) return LKS_OK;
    lki_range_describe(a->range, "an integer", expected, sizeof expected);
    return LKI_FAIL(LKS_E_INVALID, "%s: %s is %lld, expected %s", who, a->name, (long long)value,
                    expected);
}

/* `number`: of a list, from 0; -1: it is no list. */
static lks_status check_number(const lki_attribute *a, double value, int number, const char *who)
{
    const lki_range range = lki_range_of(a->range);
    char expected[120], place[16] = "";
    if (isfinite(value) && lki_range_has(&range, value)) return LKS_OK;
    lki_range_describe(a->range, a->range == NULL ? "a finite number" : "a number", expected,
                       sizeof expected);
    if (number >= 0) snprintf(place, sizeof place, "[%d]", number);
    return LKI_FAIL(LKS_E_INVALID, "%s: %s%s is %g, expected %s", who, a->name, place, value,
                    expected);
}

static lks_status check_word(const lki_attribute *a, int value, const char *who)
{
    char words[160];
    int length, last = 0;
    while (lki_word_at(a->range, last + 1, &length) != NULL) last++;
    if (value >= 0 && value <= last) return LKS_OK;
    lki_words_describe(a->range, words, sizeof words);
    return LKI_FAIL(LKS_E_INVALID, "%s: %s is %d, expected %s, which are 0 to %d", who, a->name,
                    value, words, last);
}

static lks_status check_one(const lki_attribute *a, const void *value, const char *who)
{
    switch (a->type) {
    case LKI_INT:
        return check_integer(a, *(const int64_t *)value, who);
    case LKI_SHORT:
        return check_integer(a, *(const int *)value, who);
    case LKI_PAIR:
        LKI_TRY(check_integer(a, ((const int64_t *)value)[0], who));
        return check_integer(a, ((const int64_t *)value)[1], who);
    case LKI_FLOAT:
        return check_number(a, (double)*(const float *)value, -1, who);
    case LKI_DOUBLE:
        return check_number(a, *(const double *)value, -1, who);
    case LKI_WORD:
        return check_word(a, *(const int *)value, who);
    case LKI_INIT:
        return lki_init_check(a, value, who);
    case LKI_BOOL:
    case LKI_NOT:
    case LKI_FLOATS:
    case LKI_INTS:
    case LKI_SHAPE:
    case LKI_DTYPE:
    case LKI_TEXT:
        break;
    }
    return LKS_OK;
}

lks_status lki_attributes_check(const lki_attributes *table, const void *values, const char *who)
{
    for (int i = 0; i < table->count; i++) {
        const lki_attribute *a = &table->list[i];
        if (!a->part) LKI_TRY(check_one(a, member(a, values), who));
    }
    return LKS_OK;
}

static int count_of(const lki_attribute *a, const void *values)
{
    return *(const int *)(const void *)((const char *)values + a->count);
}

lks_status lki_attributes_check_lists(const lki_attributes *table, const void *values,
                                      const char *who)
{
    for (int i = 0; i < table->count; i++) {
        const lki_attribute *a = &table->list[i];
        if (a->type != LKI_FLOATS) continue;
        const float *list = *(const float *const *)member(a, values);
        for (int k = 0; k < count_of(a, values); k++)
            LKI_TRY(check_number(a, list != NULL ? (double)list[k] : 0.0, k, who));
    }
    return LKS_OK;
}

/* Printing. */

typedef struct printer {
    char *to;
    size_t size, used; /* used counts what finds no room too */
    int most;          /* values of a list */
} printer;

static void attribute_put(printer *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void attribute_put(printer *p, const char *format, ...)
{
    const size_t at = p->used < p->size ? p->used : p->size - 1;
    va_list arguments;
    va_start(arguments, format);
    p->used += (size_t)lki_text_list(p->to + at, p->size - at, format, arguments);
    va_end(arguments);
}

static void put_float(printer *p, float value)
{
    char text[LKI_NUMBER_SIZE];
    attribute_put(p, "%s", lki_text_float(text, value));
}

static void put_pair(printer *p, const int64_t pair[2], bool both)
{
    attribute_put(p, "%lld", (long long)pair[0]);
    if (both || pair[0] != pair[1]) attribute_put(p, "x%lld", (long long)pair[1]);
}

static void put_list(printer *p, const float *list, int count)
{
    for (int i = 0; i < count && i < p->most; i++) {
        if (i > 0) attribute_put(p, ",");
        put_float(p, list != NULL ? list[i] : 0.0f);
    }
    if (count > p->most) attribute_put(p, ",... (%d more)", count - p->most);
}

static void put_integers(printer *p, const int64_t *list, int count)
{
    for (int i = 0; i < count; i++)
        attribute_put(p, "%s%lld", i > 0 ? "," : "", (long long)list[i]);
}

static void put_value(printer *p, const lki_attribute *a, const void *values)
{
    const void *value = member(a, values);
    char text[128];
    int length = 0;
    switch (a->type) {
    case LKI_INT:
        attribute_put(p, "%lld", (long long)*(const int64_t *)value);
        return;
    case LKI_SHORT:
        attribute_put(p, "%d", *(const int *)value);
        return;
    case LKI_FLOAT:
        put_float(p, *(const float *)value);
        return;
    case LKI_DOUBLE:
        attribute_put(p, "%.15g", *(const double *)value);
        return;
    case LKI_PAIR:
        put_pair(p, value, a->required);
        return;
    case LKI_WORD: {
        const char *word = lki_word_at(a->range, *(const int *)value, &length);
        attribute_put(p, "%.*s", length, word != NULL ? word : "");
        return;
    }
    case LKI_INIT:
        attribute_put(p, "%s", lki_init_print(a, value, text, sizeof text));
        return;
    case LKI_FLOATS:
        put_list(p, *(const float *const *)value, count_of(a, values));
        return;
    case LKI_INTS:
        put_integers(p, value, count_of(a, values));
        return;
    case LKI_SHAPE:
        attribute_put(p, "%s", lki_shape_print(value, text, sizeof text));
        return;
    case LKI_DTYPE:
        attribute_put(p, "%s", lks_dtype_name(*(const lks_dtype *)value));
        return;
    case LKI_TEXT:
        attribute_put(p, "%s", *(const char *const *)value);
        return;
    case LKI_BOOL:
    case LKI_NOT:
        return;
    }
}

/* Whether it need not be said. */
static bool is_default(const lki_attributes *table, const lki_attribute *a, const void *values)
{
    const void *value = member(a, values);
    union { /* room for each type that has a default but zero */
        int64_t i[2];
        double d;
        float f;
    } standard = {{0, 0}};
    if (a->required) return false;
    if (a->type == LKI_INTS) return count_of(a, values) == 0;
    if (a->type == LKI_INIT || a->type == LKI_SHAPE) return is_zero(a, value);
    if (a->fallback != NULL) set_default(table, a, values, &standard);
    if (a->type == LKI_FLOAT) return *(const float *)value == standard.f;
    return memcmp(value, &standard, a->size) == 0;
}

static size_t attributes_print(const lki_attributes *table, const void *values, int most,
                               char *buffer, size_t size)
{
    printer p = {.to = buffer, .size = size, .most = most};
    buffer[0] = '\0';
    for (int i = 0; i < table->count; i++) {
        const lki_attribute *a = &table->list[i];
        if (a->part || is_default(table, a, values)) continue;
        attribute_put(&p, "%s%s%s", p.used > 0 ? " " : "", a->type == LKI_NOT ? "no_" : "",
                      a->name);
        if (a->type == LKI_BOOL || a->type == LKI_NOT) continue;
        attribute_put(&p, "=");
        put_value(&p, a, values);
    }
    return p.used;
}

size_t lki_attributes_print(const lki_attributes *table, const void *values, char *buffer,
                            size_t size)
{
    const size_t used = attributes_print(table, values, INT_MAX, buffer, size);
    return used < size ? used : attributes_print(table, values, LKI_LIST_PRINTED, buffer, size);
}

#include "cli/verbs/compare.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/out/say.h"
#include "cli/out/text.h"
#include <lockstep/tools.h>

/* Floats that lie between two of them, and one: 1 for neighbours. */
static int64_t float_steps(float a, float b)
{
    int32_t x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    const int64_t p = x < 0 ? (int64_t)INT32_MIN - x : x, q = y < 0 ? (int64_t)INT32_MIN - y : y;
    return p > q ? p - q : q - p;
}

static double element(const lks_tensor_entry *entry, int64_t index)
{
    const size_t i = (size_t)index;
    switch (entry->dtype) {
    case LKS_F32:
        return (double)((const float *)entry->data)[i];
    case LKS_U8:
        return (double)((const uint8_t *)entry->data)[i];
    case LKS_I32:
        return (double)((const int32_t *)entry->data)[i];
    case LKS_I64:
        return (double)((const int64_t *)entry->data)[i];
    }
    return 0;
}

/* "[3][0][1]" */
static void print_index(char *text, size_t size, const lks_shape *shape, int64_t index)
{
    int64_t at[LKS_MAX_DIMS] = {0};
    for (int d = shape->ndim - 1; d >= 0; d--) {
        at[d] = index % shape->dim[d];
        index /= shape->dim[d];
    }
    size_t used = 0;
    text[0] = '\0';
    for (int d = 0; d < shape->ndim && used < size; d++)
        used += (size_t)snprintf(text + used, size - used, "[%" PRId64 "]", at[d]);
}

typedef struct tally {
    int tensors, different;
    double largest;    /* difference, and */
    const char *where; /* its tensor; NULL: none differs */
    cli_pool pool;
} tally;

/* A name out of a file, for a terminal. */
static const char *shown(tally *t, const char *name)
{
    return text_clean(&t->pool, name);
}

static void say_element(tally *t, const lks_tensor_entry *a, const lks_tensor_entry *b,
                        int64_t index)
{
    char at[LKS_MAX_DIMS * 24], x[TEXT_NUMBER_SIZE], y[TEXT_NUMBER_SIZE], steps[48] = "";
    const double p = element(a, index), q = element(b, index);
    print_index(at, sizeof at, &a->shape, index);
    if (a->dtype == LKS_F32) {
        const int64_t apart = float_steps((float)p, (float)q);
        snprintf(x, sizeof x, "%.9g", p);
        snprintf(y, sizeof y, "%.9g", q);
        snprintf(steps, sizeof steps, ", %" PRId64 " float%s apart", apart, TEXT_S(apart));
    } else {
        snprintf(x, sizeof x, "%.0f", p);
        snprintf(y, sizeof y, "%.0f", q);
    }
    say("tensor %s, element %s: %s and %s (difference %.3g%s)", shown(t, a->name), at, x, y,
        fabs(p - q), steps);
}

static void compare_entry(tally *t, const lks_tensor_entry *a, const lks_tensor_entry *b)
{
    const int64_t count = lks_shape_elements(&a->shape);
    const size_t size = lks_dtype_size(a->dtype);
    bool same = true;
    if (memcmp(a->data, b->data, a->bytes) == 0) return;
    for (int64_t i = 0; i < count; i++) {
        const size_t offset = (size_t)i * size;
        if (memcmp((const char *)a->data + offset, (const char *)b->data + offset, size) == 0)
            continue;
        if (same && t->different == 0) say_element(t, a, b, i);
        same = false;
        const double difference = fabs(element(a, i) - element(b, i));
        if (t->where != NULL && !(difference > t->largest)) continue;
        t->largest = difference;
        t->where = a->name;
    }
    t->different++;
}

static bool same_form(const lks_tensor_entry *a, const lks_tensor_entry *b)
{
    return a->dtype == b->dtype && a->bytes == b->bytes && lks_shape_equal(&a->shape, &b->shape);
}

static bool compare_tensors_compare_files(const lks_tensor_file *a, const lks_tensor_file *b,
                                          const char *path_a, const char *path_b)
{
    tally t = {0};
    int missing = 0;
    for (int i = 0; i < lks_tensor_file_count(a); i++) {
        const lks_tensor_entry x = lks_tensor_file_entry(a, i);
        const int j = lks_tensor_file_find(b, x.name);
        if (j < 0) {
            if (missing++ == 0) say("tensor %s is only in %s", shown(&t, x.name), path_a);
            continue;
        }
        const lks_tensor_entry y = lks_tensor_file_entry(b, j);
        t.tensors++;
        if (same_form(&x, &y)) {
            compare_entry(&t, &x, &y);
        } else {
            if (t.different == 0)
                say("tensor %s has other dimensions or another type", shown(&t, x.name));
            t.different++;
        }
    }
    for (int i = 0; i < lks_tensor_file_count(b); i++) {
        const lks_tensor_entry y = lks_tensor_file_entry(b, i);
        if (lks_tensor_file_find(a, y.name) >= 0) continue;
        if (missing++ == 0) say("tensor %s is only in %s", shown(&t, y.name), path_b);
    }
    if (missing > 0)
        say("%d tensor%s only in one of them", missing, missing == 1 ? " is" : "s are");
    if (t.where != NULL)
        say("%d of %d tensor%s differ%s; the largest difference is %.3g, in %s", t.different,
            t.tensors, TEXT_S(t.tensors), t.different == 1 ? "s" : "", t.largest,
            shown(&t, t.where));
    pool_clear(&t.pool);
    return t.different == 0 && missing == 0;
}

lks_status compare_tensors(bool *equal, lks_context *context, const char *path_a,
                           const char *path_b)
{
    lks_tensor_file *a, *b = NULL;
    lks_status status = lks_tensor_file_open(&a, context, path_a);
    if (status == LKS_OK) status = lks_tensor_file_open(&b, context, path_b);
    if (status == LKS_OK) *equal = compare_tensors_compare_files(a, b, path_a, path_b);
    lks_tensor_file_close(a);
    lks_tensor_file_close(b);
    return status;
}

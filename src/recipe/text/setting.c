#include "recipe/text/setting.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "core/range.h"
#include "base/text.h"

bool lki_text_is_int(const char *text, int64_t *out)
{
    const char *digits = text + (*text == '-' || *text == '+');
    if (*digits == '\0' || digits[strspn(digits, "0123456789")] != '\0') return false;
    errno = 0;
    *out = strtoll(text, NULL, 10);
    return errno == 0;
}

bool lki_text_is_float(const char *text, double *out)
{
    if (*text == '\0' || text[strspn(text, "0123456789+-.eE")] != '\0') return false;
    char *end;
    const lki_text_caller had = lki_text_enter();
    *out = strtod(text, &end);
    lki_text_leave(had);
    return *end == '\0' && isfinite(*out);
}

bool lki_text_is_bool(const char *text, bool *out)
{
    static const struct word {
        const char *text;
        bool value;
    } words[] = {
        {"true", true},   {"True", true},   {"TRUE", true},   {"yes", true}, {"on", true},
        {"false", false}, {"False", false}, {"FALSE", false}, {"no", false}, {"off", false},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(text, words[i].text) == 0) {
            *out = words[i].value;
            return true;
        }
    }
    return false;
}

static const char *noun(lki_type type)
{
    switch (type) {
    case LKI_TYPE_INT:
        return "an integer";
    case LKI_TYPE_FLOAT:
        return "a number";
    case LKI_TYPE_BOOL:
        return "true or false";
    case LKI_TYPE_STRING:
        return "a text";
    case LKI_TYPE_PAIR:
        return "an integer, or [height, width],";
    case LKI_TYPE_INTS:
        return "an integer, or a list of integers,";
    case LKI_TYPE_FLOATS:
    case LKI_TYPE_WORD_FLOATS:
        return "a number, or a list of numbers,";
    case LKI_TYPE_MAP:
        return "a map";
    case LKI_TYPE_CHOICE:
    case LKI_TYPE_TREE:
        break;
    }
    return "a list";
}

/* The interval for numbers. */
static const char *interval_of(const lki_spec *spec)
{
    return spec->type == LKI_TYPE_WORD_FLOATS ? strpbrk(spec->range, "([") : spec->range;
}

/* Without the interval. */
static void copy_words(const lki_spec *spec, char words[64])
{
    snprintf(words, 64, "%.*s", (int)(interval_of(spec) - spec->range) - 1, spec->range);
}

void lki_spec_describe(const lki_spec *spec, char *text, size_t size)
{
    char words[64];
    if (spec->type == LKI_TYPE_CHOICE) {
        lki_words_describe(spec->range, text, size);
        return;
    }
    if (spec->type == LKI_TYPE_WORD_FLOATS) {
        copy_words(spec, words);
        for (char *c = words; *c != '\0' && size > 3; c++) {
            const char *next = *c == ' ' ? ", " : (char[]){*c, '\0'};
            const size_t used = strlen(next);
            memcpy(text, next, used);
            text += used;
            size -= used;
        }
        memcpy(text, ", ", 3);
        text += 2;
        size -= 2;
    }
    lki_range_describe(interval_of(spec), noun(spec->type), text, size);
}

/* Every number of a configuration meets 32-bit floats: what they cannot hold as a normal number would
 * be 0 or infinite there. */
static bool has_size(double x)
{
    return x == 0 || (fabs(x) >= (double)FLT_MIN && fabs(x) <= (double)FLT_MAX);
}

static bool has_floats(const lki_spec *spec)
{
    return spec->type == LKI_TYPE_FLOAT || spec->type == LKI_TYPE_FLOATS ||
           spec->type == LKI_TYPE_WORD_FLOATS;
}

static lks_status wrong(const lki_spec *spec, const lki_yaml *found, const char *where)
{
    char expected[160];
    lki_spec_describe(spec, expected, sizeof expected);
    if (found->kind != LKI_YAML_SCALAR)
        return LKI_FAIL(LKS_E_INVALID, "%s: %s is a %s, expected %s", where, spec->name,
                        found->kind == LKI_YAML_LIST ? "list" : "section", expected);
    double x;
    if (has_floats(spec) && found->plain && lki_text_is_float(found->text, &x) && !has_size(x))
        return LKI_FAIL(LKS_E_INVALID,
                        "%s: %s is %.100s, which 32-bit floats cannot hold; expected 0, or a size "
                        "from 1.2e-38 to 3.4e38",
                        where, spec->name, found->text);
    return LKI_FAIL(LKS_E_INVALID, "%s: %s is %s%.100s%s, expected %s", where, spec->name,
                    found->plain ? "'" : "the text \"", found->text, found->plain ? "'" : "\"",
                    expected);
}

static bool value_read_number(const lki_spec *spec, const lki_yaml *node, int64_t *i, double *f)
{
    const lki_range range = lki_range_of(interval_of(spec));
    if (node->kind != LKI_YAML_SCALAR || !node->plain) return false;
    if (has_floats(spec))
        return lki_text_is_float(node->text, f) && lki_range_has(&range, *f) && has_size(*f);
    return lki_text_is_int(node->text, i) && lki_range_has(&range, (double)*i);
}

static lks_status read_pair(lki_setting *out, const lki_spec *spec, const lki_yaml *node,
                            const char *where)
{
    out->count = 2;
    if (node->kind == LKI_YAML_SCALAR) {
        if (!value_read_number(spec, node, &out->i[0], &out->f)) return wrong(spec, node, where);
        out->i[1] = out->i[0];
        return LKS_OK;
    }
    if (node->kind != LKI_YAML_LIST || node->count == 0) return wrong(spec, node, where);
    if (node->count != 2)
        return LKI_FAIL(LKS_E_INVALID, "%s: %s is a list of %d, expected one of 2", where,
                        spec->name, node->count);
    int64_t *to = out->i;
    for (const lki_yaml_entry *e = node->first; e != NULL; e = e->next)
        if (!value_read_number(spec, e->value, to++, &out->f)) return wrong(spec, e->value, where);
    return LKS_OK;
}

static lks_status read_list(lki_setting *out, lki_heap *heap, const lki_spec *spec,
                            const lki_yaml *node, const char *where)
{
    const bool one = node->kind == LKI_YAML_SCALAR;
    if (!one && (node->kind != LKI_YAML_LIST || node->count == 0)) return wrong(spec, node, where);
    const size_t count = one ? 1 : (size_t)node->count;
    int64_t *ints = lki_heap_alloc(heap, count * sizeof *ints);
    double *floats = lki_heap_alloc(heap, count * sizeof *floats);
    if (ints == NULL || floats == NULL) return lki_heap_status(heap, LKS_OK);
    const lki_yaml_entry *e = one ? NULL : node->first;
    for (size_t k = 0; k < count; k++, e = e != NULL ? e->next : NULL) {
        const lki_yaml *number = one ? node : e->value;
        if (!value_read_number(spec, number, &ints[k], &floats[k]))
            return wrong(spec, number, where);
    }
    out->count = (int)count;
    out->ints = ints;
    out->floats = floats;
    return LKS_OK;
}

/* "auto", 3, [3, 1], or "3,1", which a shell takes more easily. */
static lks_status read_word_floats(lki_setting *out, lki_heap *heap, const lki_spec *spec,
                                   const lki_yaml *node, const char *where)
{
    char words[64];
    int64_t none;
    double value;
    copy_words(spec, words);
    if (node->kind != LKI_YAML_SCALAR) return read_list(out, heap, spec, node, where);
    if (lki_word_find(words, node->text) >= 0) return LKS_OK;
    lki_yaml_entry *list = lki_heap_alloc(heap, (strlen(node->text) + 1) * sizeof *list);
    lki_yaml *number = lki_heap_alloc(heap, (strlen(node->text) + 1) * sizeof *number);
    if (list == NULL || number == NULL) return lki_heap_status(heap, LKS_OK);
    lki_yaml all = *node;
    all.kind = LKI_YAML_LIST;
    all.count = 0;
    all.first = list;
    for (const char *at = node->text;; at++) {
        const int length = (int)strcspn(at, ",");
        number[all.count] = *node;
        number[all.count].plain = node->plain || strchr(node->text, ',') != NULL; /* '3,1' */
        number[all.count].text = lki_heap_format(heap, "%.*s", length, at);
        if (number[all.count].text == NULL) return lki_heap_status(heap, LKS_OK);
        if (!value_read_number(spec, &number[all.count], &none, &value))
            return wrong(spec, node, where);
        list[all.count] = (lki_yaml_entry){.value = &number[all.count], .next = NULL};
        if (all.count > 0) list[all.count - 1].next = &list[all.count];
        all.count++;
        at += length;
        if (*at == '\0') break;
    }
    return read_list(out, heap, spec, &all, where);
}

lks_status lki_setting_parse(lki_setting *out, lki_heap *heap, const lki_spec *spec,
                             const lki_yaml *node, const char *where)
{
    *out = (lki_setting){.where = where};
    if (lki_yaml_is_null(node)) return LKS_OK;
    const bool scalar = node->kind == LKI_YAML_SCALAR;
    bool good = false;
    switch (spec->type) {
    case LKI_TYPE_INT:
    case LKI_TYPE_FLOAT:
        good = value_read_number(spec, node, &out->i[0], &out->f);
        break;
    case LKI_TYPE_BOOL:
        good = scalar && node->plain && lki_text_is_bool(node->text, &out->b);
        break;
    case LKI_TYPE_CHOICE:
        good = scalar && lki_word_find(spec->range, node->text) >= 0;
        break;
    case LKI_TYPE_STRING:
        good = scalar && node->text[0] != '\0';
        break;
    case LKI_TYPE_TREE:
        good = node->kind == LKI_YAML_LIST;
        break;
    case LKI_TYPE_MAP:
        good = node->kind == LKI_YAML_MAP;
        break;
    case LKI_TYPE_PAIR:
        LKI_TRY(read_pair(out, spec, node, where));
        good = true;
        break;
    case LKI_TYPE_INTS:
    case LKI_TYPE_FLOATS:
        LKI_TRY(read_list(out, heap, spec, node, where));
        good = true;
        break;
    case LKI_TYPE_WORD_FLOATS:
        LKI_TRY(read_word_floats(out, heap, spec, node, where));
        good = true;
    }
    if (!good) return wrong(spec, node, where);
    out->s = node->text;
    out->tree = node;
    out->set = true;
    return LKS_OK;
}

/* Neither number, nor truth value, nor nothing. */
static bool is_word(const lki_yaml *node)
{
    int64_t i;
    double f;
    bool b;
    return !node->plain || !(lki_yaml_is_null(node) || lki_text_is_int(node->text, &i) ||
                             lki_text_is_float(node->text, &f) || lki_text_is_bool(node->text, &b));
}

static bool same_scalar(const lki_yaml *a, const lki_yaml *b)
{
    int64_t i, j;
    double x, y;
    bool c, d;
    if (is_word(a) || is_word(b)) return is_word(a) && is_word(b) && strcmp(a->text, b->text) == 0;
    if (lki_yaml_is_null(a) || lki_yaml_is_null(b))
        return lki_yaml_is_null(a) && lki_yaml_is_null(b);
    if (lki_text_is_int(a->text, &i) || lki_text_is_int(b->text, &j))
        return lki_text_is_int(a->text, &i) && lki_text_is_int(b->text, &j) && i == j;
    if (lki_text_is_float(a->text, &x) && lki_text_is_float(b->text, &y)) return x == y;
    if (lki_text_is_bool(a->text, &c) && lki_text_is_bool(b->text, &d)) return c == d;
    return strcmp(a->text, b->text) == 0;
}

static bool same_tree(const lki_yaml *a, const lki_yaml *b)
{
    if (a->kind != b->kind || a->count != b->count) return false;
    if (a->kind == LKI_YAML_SCALAR) return same_scalar(a, b);
    const lki_yaml_entry *y = b->first;
    for (const lki_yaml_entry *x = a->first; x != NULL; x = x->next) {
        if (a->kind == LKI_YAML_MAP)
            for (y = b->first; y != NULL && strcmp(x->key->text, y->key->text) != 0;) y = y->next;
        if (y == NULL || !same_tree(x->value, y->value)) return false;
        y = y->next;
    }
    return true;
}

bool lki_setting_same(const lki_setting *a, const lki_setting *b, lki_type type)
{
    if (a->set != b->set || !a->set) return a->set == b->set;
    if (type == LKI_TYPE_TREE || type == LKI_TYPE_MAP) return same_tree(a->tree, b->tree);
    if (type == LKI_TYPE_BOOL) return a->b == b->b;
    if (type == LKI_TYPE_STRING || type == LKI_TYPE_CHOICE) return strcmp(a->s, b->s) == 0;
    if (type == LKI_TYPE_FLOAT) return a->f == b->f;
    if (type == LKI_TYPE_INT) return a->i[0] == b->i[0];
    if (type == LKI_TYPE_PAIR) return a->i[0] == b->i[0] && a->i[1] == b->i[1];
    if (type == LKI_TYPE_WORD_FLOATS && a->count == 0 && b->count == 0)
        return strcmp(a->s, b->s) == 0;
    bool same = a->count == b->count;
    for (int k = 0; k < a->count && same; k++)
        same = type == LKI_TYPE_INTS ? a->ints[k] == b->ints[k] : a->floats[k] == b->floats[k];
    return same;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

int lki_edit_distance(const char *a, const char *b)
{
    enum { MOST = 64 };
    const int m = (int)strlen(a), n = (int)strlen(b);
    if (m > MOST || n > MOST) return MOST;
    int d[MOST + 1][MOST + 1];
    for (int i = 0; i <= m; i++) d[i][0] = i;
    for (int j = 0; j <= n; j++) d[0][j] = j;
    for (int i = 1; i <= m; i++) {
        for (int j = 1; j <= n; j++) {
            const int change = tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]);
            d[i][j] = least(least(d[i - 1][j], d[i][j - 1]) + 1, d[i - 1][j - 1] + change);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    }
    return d[m][n];
}

void lki_nearest_offer(lki_nearest *nearest, const char *candidate)
{
    const int distance = lki_edit_distance(nearest->word, candidate);
    const int longer = (int)(strlen(nearest->word) > strlen(candidate) ? strlen(nearest->word)
                                                                       : strlen(candidate));
    if (distance > longer / 2) return;
    if (nearest->best != NULL && distance >= nearest->distance) return;
    nearest->best = candidate;
    nearest->distance = distance;
}

#include "recipe/network/line.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "recipe/text/setting.h"

/* "3x3" and "0.1,0.2" are lists. */
static const lki_yaml *read_value(lki_heap *heap, const char *text)
{
    const bool sizes = text[strspn(text, "0123456789x")] == '\0';
    const char *gap = sizes ? "x" : ",";
    if (strpbrk(text, gap) == NULL) return lki_yaml_scalar(heap, text, true);
    lki_yaml *list = lki_heap_alloc(heap, sizeof *list);
    if (list == NULL) return lki_yaml_scalar(heap, "", true);
    *list = (lki_yaml){.kind = LKI_YAML_LIST};
    lki_yaml_entry **end = &list->first;
    for (const char *at = text;; at++) {
        const size_t length = strcspn(at, gap);
        lki_yaml_entry *entry = *end = lki_heap_alloc(heap, sizeof *entry);
        if (entry == NULL) return list;
        entry->value = lki_yaml_scalar(heap, lki_heap_copy(heap, at, length), true);
        end = (lki_yaml_entry **)&entry->next;
        list->count++;
        at += length;
        if (*at == '\0') return list;
    }
}

void lki_line_add(lki_heap *heap, lki_line *line, const char *key, const char *value)
{
    lki_yaml_entry *entry = lki_heap_alloc(heap, sizeof *entry);
    if (entry == NULL) return;
    *entry = (lki_yaml_entry){.next = line->options.first,
                              .key = lki_yaml_scalar(heap, key, true),
                              .value = read_value(heap, value)};
    line->options.first = entry;
    line->options.count++;
}

/* "uniform:0.5" and "kaiming_normal:0.2:fan_out": what stands behind the kind is an option of its
 * own. */
static void add_init(lki_heap *heap, lki_line *line, const char *key, const char *text)
{
    static const char *const numbers[][2] = {
        {"constant", "value"}, {"kaiming", "slope"}, {"xavier", "gain"}, {"", "scale"}};
    const int stem = (int)(strlen(key) - strlen("init"));
    const size_t kind = strcspn(text, ":");
    lki_line_add(heap, line, key, lki_heap_copy(heap, text, kind));
    for (const char *at = text + kind; *at == ':'; at += strcspn(at, ":")) {
        double number;
        at++;
        const char *part = lki_heap_copy(heap, at, strcspn(at, ":"));
        const bool is_number = lki_text_is_float(part, &number);
        int n = 0;
        while (strncmp(text, numbers[n][0], strlen(numbers[n][0])) != 0) n++;
        lki_line_add(heap, line,
                     lki_heap_format(heap, "%.*s%s", stem, key, is_number ? numbers[n][1] : part),
                     is_number ? part : "true");
    }
}

static void add_word(lki_heap *heap, lki_line *line, const char *word)
{
    const char *equals = strchr(word, '=');
    if (equals == NULL) {
        const bool no = strncmp(word, "no_", 3) == 0;
        lki_line_add(heap, line, no ? word + 3 : word, no ? "false" : "true");
        return;
    }
    const char *key = lki_heap_copy(heap, word, (size_t)(equals - word));
    if (lki_text_ends(key, "_init"))
        add_init(heap, line, key, equals + 1);
    else
        lki_line_add(heap, line, key, equals + 1);
}

/* "28x28x1": returns what stands behind the sizes. */
static const char *read_sizes(const char *text, int64_t size[], int *count, int most)
{
    *count = 0;
    for (const char *at = text;;) {
        char *end;
        const int64_t number = strtoll(at, &end, 10);
        if (strchr("0123456789", *at) == NULL || *at == '\0' || number < 1 || number > INT32_MAX)
            return *count > 0 ? at - 1 : at;
        size[(*count)++] = number;
        if (*end != 'x' || *count == most) return end;
        at = end + 1;
    }
}

static lks_status check_twice(const lki_line *line, const char *where)
{
    for (const lki_yaml_entry *a = line->options.first; a != NULL; a = a->next)
        for (const lki_yaml_entry *b = a->next; b != NULL; b = b->next)
            if (strcmp(a->key->text, b->key->text) == 0)
                return LKI_FAIL(LKS_E_INVALID, "%s: %.60s is given twice", where, a->key->text);
    return LKS_OK;
}

lks_status lki_line_read(lki_line *out, lki_heap *heap, const char *where, const char *text)
{
    static const char blanks[] = " \t\r\n";
    *out = (lki_line){.options = {.kind = LKI_YAML_MAP}};
    for (const char *at = text + strspn(text, blanks); *at != '\0'; at += strspn(at, blanks)) {
        const size_t length = strcspn(at, blanks);
        const char *word = lki_heap_copy(heap, at, length);
        at += length;
        if (out->name == NULL)
            out->name = word;
        else if (strncmp(word, "in=", 3) == 0)
            out->in = word + 3;
        else if (strncmp(word, "with=", 5) == 0)
            out->with = word + 5;
        else
            add_word(heap, out, word);
    }
    if (out->name == NULL)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s: the line is empty, expected an operation, such as 'dense units=10 "
                        "in=64x784'",
                        where);
    return lki_heap_status(heap, check_twice(out, where));
}

/* "" or, of tokens below 1,000, ":1000": returns what stands behind it. */
static const char *read_words(const char *text, int64_t *words)
{
    int count = 0;
    *words = 0;
    const char *rest = *text == ':' ? read_sizes(text + 1, words, &count, 1) : text;
    return *rest == '\0' && count == 1 ? rest : text;
}

/* "8x28x28x1", "8x28x28x1:u8", or, of tokens, "8x64:1000" */
static lks_status read_in(lki_line *out, const char *where, const char *text)
{
    int64_t size[LKS_MAX_DIMS + 1];
    int count;
    const char *rest = read_sizes(text, size, &count, LKS_MAX_DIMS + 1);
    const bool bytes = strcmp(rest, ":u8") == 0;
    int64_t vocabulary = 0;
    if (!bytes) rest = read_words(rest, &vocabulary);
    if ((*rest != '\0' && !bytes) || count < 2)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s: in is '%.60s', expected the number of samples and the shape of one, "
                        "such as in=8x28x28x1 (of bytes in=8x28x28x1:u8, of tokens below 1,000 "
                        "in=8x64:1000)",
                        where, text);
    if (bytes) out->input.dtype = LKS_U8;
    if (vocabulary > 0) out->input.dtype = LKS_I32;
    out->input.vocabulary = vocabulary;
    out->samples = size[0];
    out->input.shape.ndim = count - 1;
    memcpy(out->input.shape.dim, size + 1, (size_t)(count - 1) * sizeof *size);
    return LKS_OK;
}

static lks_status read_with(lki_line *out, const char *where, const char *text)
{
    const char *rest = read_sizes(text, out->second.dim, &out->second.ndim, LKS_MAX_DIMS);
    rest = read_words(rest, &out->words);
    if (*rest == '\0' && out->second.ndim > 0) return LKS_OK;
    return LKI_FAIL(LKS_E_INVALID,
                    "%s: with is '%.60s', expected the shape of one sample of the second input, "
                    "such as with=28x28x3 (of tokens below 1,000 with=64:1000)",
                    where, text);
}

lks_status lki_line_sizes(lki_line *line, const char *where)
{
    if (line->in == NULL)
        return LKI_FAIL(
            LKS_E_INVALID,
            "%s: %.60s has no in; give the number of samples and the shape of one, such "
            "as in=8x28x28x1",
            where, line->name);
    if (line->with != NULL) LKI_TRY(read_with(line, where, line->with));
    return read_in(line, where, line->in);
}

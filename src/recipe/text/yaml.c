#include "recipe/text/yaml.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/check.h"

typedef struct anchor {
    struct anchor *next;
    const char *name;
    const lki_yaml *node;
} anchor;

typedef struct reader {
    yaml_parser_t parser;
    yaml_event_t event; /* the one being looked at */
    lki_heap *heap;
    const char *name;
    bool has_lines; /* else they mean nothing to who wrote it */
    anchor *anchors;
} reader;

/* "mnist.yaml:7", or the flag that the text comes from. */
static const char *place(const reader *r, int line)
{
    if (!r->has_lines) return r->name;
    return lki_heap_format(r->heap, "%s:%d", r->name, line);
}

static int line_of(yaml_mark_t mark)
{
    return (int)mark.line + 1;
}

static lks_status no_memory(const reader *r)
{
    return LKI_FAIL(LKS_E_NOMEM, "%s: no memory to read YAML", r->name);
}

/* Replaces the event by the next. */
static lks_status advance(reader *r)
{
    yaml_event_delete(&r->event);
    if (yaml_parser_parse(&r->parser, &r->event)) return LKS_OK;
    memset(&r->event, 0, sizeof r->event);
    const yaml_parser_t *p = &r->parser;
    const char *problem = p->problem != NULL ? p->problem : "it cannot be read";
    if (p->error == YAML_MEMORY_ERROR) return no_memory(r);
    if (p->error == YAML_READER_ERROR)
        return LKI_FAIL(LKS_E_INVALID, "%s: not valid YAML: byte %zu: %s", r->name,
                        p->problem_offset, problem);
    return LKI_FAIL(LKS_E_INVALID, "%s: not valid YAML: %s%s%s", place(r, line_of(p->problem_mark)),
                    problem, p->context != NULL ? " " : "", p->context != NULL ? p->context : "");
}

static lks_status too_large(const reader *r, int line)
{
    return LKI_FAIL(LKS_E_INVALID,
                    "%s: more than %d values (aliases counted as what they stand for); a "
                    "configuration has a few dozen",
                    place(r, line), LKI_YAML_MAX_NODES);
}

static lks_status too_deep(const reader *r, int line)
{
    return LKI_FAIL(LKS_E_INVALID,
                    "%s: lists and maps are nested more than %d deep (aliases counted as what they "
                    "stand for); a configuration needs at most 6",
                    place(r, line), LKI_YAML_MAX_DEPTH);
}

/* Bytes of a text with the escapes that it may need, and what stands around it; no number takes more
 * than the least. */
static size_t scalar_bytes(const char *text)
{
    enum { LEAST = 40, WITHIN = 24 };
    size_t bytes = 0;
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++)
        bytes += *c < ' ' || *c == 0x7f ? 6 : *c >= 0x80 ? 3 : *c == '"' || *c == '\\' ? 2 : 1;
    return bytes > WITHIN ? LEAST - WITHIN + bytes : LEAST;
}

enum { BRACKETS = 16 };

static lks_status add_entry(const reader *r, lki_yaml *parent, lki_yaml_entry entry)
{
    const lki_yaml *key = entry.key, *value = entry.value;
    parent->weight += value->weight + (key != NULL);
    if (parent->weight > LKI_YAML_MAX_NODES) return too_large(r, value->line);
    if (parent->height <= value->height) parent->height = value->height + 1;
    if (parent->height > LKI_YAML_MAX_DEPTH) return too_deep(r, value->line);
    parent->bytes += value->bytes + (key != NULL ? key->bytes : 0);
    if (parent->bytes > LKI_YAML_MAX_BYTES)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s: its texts have more than %d bytes (aliases counted as what they stand "
                        "for); a configuration has a few thousand",
                        place(r, value->line), LKI_YAML_MAX_BYTES);
    lki_yaml_entry *added = lki_heap_alloc(r->heap, sizeof *added);
    if (added == NULL) return no_memory(r);
    *added = entry;
    lki_yaml_entry **end = &parent->first;
    while (*end != NULL) end = &(*end)->next;
    *end = added;
    parent->count++;
    return LKS_OK;
}

static lki_yaml_entry *find_entry(const lki_yaml *map, const char *key)
{
    for (lki_yaml_entry *e = map->first; e != NULL; e = e->next)
        if (strcmp(e->key->text, key) == 0) return e;
    return NULL;
}

static lks_status read_node(reader *r, int depth, const lki_yaml **out);

static lks_status read_alias(reader *r, const lki_yaml **out)
{
    const char *name = (const char *)r->event.data.alias.anchor;
    for (const anchor *a = r->anchors; a != NULL; a = a->next) {
        if (strcmp(a->name, name) == 0) {
            *out = a->node;
            return LKS_OK;
        }
    }
    return LKI_FAIL(
        LKS_E_INVALID,
        "%s: alias *%.60s stands for nothing; expected an anchor &%.60s that ends before "
        "this line",
        place(r, line_of(r->event.start_mark)), name, name);
}

static lks_status read_scalar(reader *r, const lki_yaml **out)
{
    const char *tag = (const char *)r->event.data.scalar.tag;
    lki_yaml *n = lki_heap_alloc(r->heap, sizeof *n);
    if (n == NULL) return no_memory(r);
    n->kind = LKI_YAML_SCALAR;
    n->line = line_of(r->event.start_mark);
    n->plain = r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    n->text = lki_heap_copy(r->heap, (const char *)r->event.data.scalar.value,
                            r->event.data.scalar.length);
    n->weight = 1;
    n->bytes = scalar_bytes(n->text);
    *out = n;
    if (strlen(n->text) != r->event.data.scalar.length)
        return LKI_FAIL(LKS_E_INVALID, "%s: a text has a zero byte in it", place(r, n->line));
    if (tag == NULL || strcmp(tag, "!") == 0) return LKS_OK;
    static const char prefix[] = "tag:yaml.org,2002:";
    const char *type = strncmp(tag, prefix, strlen(prefix)) == 0 ? tag + strlen(prefix) : "";
    n->plain = strcmp(type, "str") != 0;
    static const char *const known[] = {"str", "int", "float", "bool", "null"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(type, known[i]) == 0) return LKS_OK;
    return LKI_FAIL(LKS_E_INVALID,
                    "%s: tag %.100s is not known, expected !!str, !!int, !!float, !!bool or !!null",
                    place(r, n->line), tag);
}

/* *level: of what is merged first; becomes that of what is merged next. */
static lks_status merge_from(const reader *r, lki_yaml *map, const lki_yaml *from, int *level)
{
    int deepest = 0;
    if (from->kind != LKI_YAML_MAP)
        return LKI_FAIL(LKS_E_INVALID, "%s: << takes a map, an alias of one, or a list of them",
                        place(r, from->line));
    for (const lki_yaml_entry *e = from->first; e != NULL; e = e->next) {
        if (e->merged > deepest) deepest = e->merged;
        if (find_entry(map, e->key->text) != NULL) continue;
        const lki_yaml_entry entry = {NULL, e->key, e->value, *level + e->merged};
        LKI_TRY(add_entry(r, map, entry));
    }
    *level += deepest + 1;
    return LKS_OK;
}

/* Merging waits for the end of the map, as its own keys win wherever they stand. */
static lks_status merge(const reader *r, lki_yaml *map, const lki_yaml *from)
{
    int level = 1;
    if (from->kind != LKI_YAML_LIST) return merge_from(r, map, from, &level);
    for (const lki_yaml_entry *e = from->first; e != NULL; e = e->next)
        LKI_TRY(merge_from(r, map, e->value, &level));
    return LKS_OK;
}

static lks_status read_pair(reader *r, lki_yaml *map, int depth, const lki_yaml **merged)
{
    const lki_yaml *key, *value;
    lks_status status = read_node(r, depth + 1, &key);
    if (status == LKS_OK) status = advance(r);
    if (status != LKS_OK) return status;
    if (key->kind != LKI_YAML_SCALAR)
        return LKI_FAIL(LKS_E_INVALID, "%s: a key is a list or a map, expected a name",
                        place(r, key->line));
    if (strlen(key->text) > LKI_YAML_MAX_KEY)
        return LKI_FAIL(LKS_E_INVALID, "%s: key '%.40s...' has %zu bytes, expected at most %d",
                        place(r, key->line), key->text, strlen(key->text), LKI_YAML_MAX_KEY);
    status = read_node(r, depth + 1, &value);
    if (status != LKS_OK) return status;
    const bool is_merge = key->plain && strcmp(key->text, "<<") == 0;
    const lki_yaml_entry *twice = find_entry(map, key->text);
    if (twice != NULL || (is_merge && *merged != NULL))
        return LKI_FAIL(LKS_E_INVALID, "%s: key '%.100s' occurs twice in its section%s",
                        place(r, key->line), key->text, is_merge ? "; give << a list" : "");
    if (!is_merge) return add_entry(r, map, (lki_yaml_entry){.key = key, .value = value});
    *merged = value;
    return LKS_OK;
}

/* The event is the start of a list or map; reads to its end. */
static lks_status read_children(reader *r, lki_yaml *parent, int depth)
{
    const yaml_event_type_t end = parent->kind == LKI_YAML_LIST ? YAML_SEQUENCE_END_EVENT
                                                                : YAML_MAPPING_END_EVENT;
    const lki_yaml *merged = NULL;
    for (;;) {
        lks_status status = advance(r);
        if (status != LKS_OK) return status;
        if (r->event.type == end) break;
        if (parent->kind == LKI_YAML_MAP) {
            status = read_pair(r, parent, depth, &merged);
        } else {
            const lki_yaml *value;
            status = read_node(r, depth + 1, &value);
            if (status == LKS_OK) status = add_entry(r, parent, (lki_yaml_entry){.value = value});
        }
        if (status != LKS_OK) return status;
    }
    return merged != NULL ? merge(r, parent, merged) : LKS_OK;
}

/* Reads the node that begins with the event; ends on its last event. */
static lks_status read_node(reader *r, int depth, const lki_yaml **out)
{
    const yaml_event_t *event = &r->event;
    const char *name = NULL;
    lks_status status;
    if (event->type == YAML_ALIAS_EVENT) return read_alias(r, out);
    if (event->type == YAML_SCALAR_EVENT) {
        if (event->data.scalar.anchor != NULL)
            name = lki_heap_format(r->heap, "%s", (const char *)event->data.scalar.anchor);
        status = read_scalar(r, out);
    } else {
        const bool is_list = event->type == YAML_SEQUENCE_START_EVENT;
        const yaml_char_t *given = is_list ? event->data.sequence_start.anchor
                                           : event->data.mapping_start.anchor;
        if (given != NULL) name = lki_heap_format(r->heap, "%s", (const char *)given);
        lki_yaml *n = lki_heap_alloc(r->heap, sizeof *n);
        if (n == NULL) return no_memory(r);
        n->kind = is_list ? LKI_YAML_LIST : LKI_YAML_MAP;
        n->line = line_of(event->start_mark);
        n->weight = n->height = 1;
        n->bytes = BRACKETS;
        *out = n;
        if (depth >= LKI_YAML_MAX_DEPTH) return too_deep(r, n->line);
        status = read_children(r, n, depth);
    }
    if (status != LKS_OK || name == NULL) return status;
    anchor *a = lki_heap_alloc(r->heap, sizeof *a);
    if (a == NULL) return no_memory(r);
    *a = (anchor){r->anchors, name, *out};
    r->anchors = a;
    return LKS_OK;
}

static lks_status read_document(reader *r, const lki_yaml **out)
{
    lks_status status = advance(r); /* start of the stream */
    if (status == LKS_OK) status = advance(r);
    if (status != LKS_OK) return status;
    if (r->event.type == YAML_STREAM_END_EVENT) {
        *out = lki_yaml_scalar(r->heap, "", true);
        return LKS_OK;
    }
    status = advance(r);
    if (status == LKS_OK) status = read_node(r, 0, out);
    if (status == LKS_OK) status = advance(r); /* end of the document */
    if (status == LKS_OK) status = advance(r);
    if (status == LKS_OK && r->event.type != YAML_STREAM_END_EVENT)
        return LKI_FAIL(LKS_E_INVALID, "%s: a second document begins here, expected one",
                        place(r, line_of(r->event.start_mark)));
    return status;
}

static lks_status read_bytes(const lki_yaml **out, reader r, const char *text, size_t bytes)
{
    *out = NULL;
    if (!yaml_parser_initialize(&r.parser)) return no_memory(&r);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, bytes);
    const lks_status status = lki_heap_status(r.heap, read_document(&r, out));
    yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    return status;
}

lks_status lki_yaml_read_text(const lki_yaml **out, lki_heap *heap, const char *name,
                              const char *text)
{
    return read_bytes(out, (reader){.heap = heap, .name = name}, text, strlen(text));
}

lks_status lki_yaml_read_lines(const lki_yaml **out, lki_heap *heap, const char *name,
                               const char *text)
{
    return read_bytes(out, (reader){.heap = heap, .name = name, .has_lines = true}, text,
                      strlen(text));
}

lks_status lki_yaml_read_file(const lki_yaml **out, lki_heap *heap, const char *path)
{
    *out = NULL;
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return LKI_FAIL(LKS_E_IO, "configuration %s cannot be opened: %s", path, strerror(errno));
    char *text = lki_heap_alloc(heap, LKI_YAML_MAX_BYTES + 1);
    if (text == NULL) {
        fclose(file);
        return lki_heap_status(heap, LKS_OK);
    }
    errno = 0;
    const size_t bytes = fread(text, 1, LKI_YAML_MAX_BYTES + 1, file);
    const int failed = ferror(file) ? errno : 0;
    fclose(file);
    if (failed)
        return LKI_FAIL(LKS_E_IO, "configuration %s cannot be read: %s%s", path, strerror(failed),
                        failed == EISDIR ? "; expected a YAML file, which says data.path where "
                                           "that is the data"
                                         : "");
    if (bytes > LKI_YAML_MAX_BYTES)
        return LKI_FAIL(LKS_E_INVALID, "%s: larger than %d bytes, so it is no configuration", path,
                        LKI_YAML_MAX_BYTES);
    return read_bytes(out, (reader){.heap = heap, .name = path, .has_lines = true}, text, bytes);
}

const lki_yaml *lki_yaml_scalar(lki_heap *heap, const char *text, bool plain)
{
    static const lki_yaml nothing = {.plain = true, .text = "", .weight = 1};
    lki_yaml *n = lki_heap_alloc(heap, sizeof *n);
    if (n == NULL) return &nothing;
    n->kind = LKI_YAML_SCALAR;
    n->plain = plain;
    n->text = lki_heap_format(heap, "%s", text);
    n->weight = 1;
    n->bytes = scalar_bytes(n->text);
    return n;
}

const lki_yaml *lki_yaml_find(const lki_yaml *node, const char *key)
{
    if (node == NULL || node->kind != LKI_YAML_MAP) return NULL;
    for (const lki_yaml_entry *e = node->first; e != NULL; e = e->next)
        if (strcmp(e->key->text, key) == 0) return e->value;
    return NULL;
}

bool lki_yaml_is_null(const lki_yaml *node)
{
    static const char *const words[] = {"", "~", "null", "Null", "NULL", "None"};
    if (node->kind != LKI_YAML_SCALAR || !node->plain) return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(node->text, words[i]) == 0) return true;
    return false;
}

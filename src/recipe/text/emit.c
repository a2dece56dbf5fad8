#include "recipe/text/emit.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

void lki_emit_raw(lki_emit *e, const char *text, size_t bytes)
{
    if (e->failed) return;
    if (e->room - e->used <= bytes) {
        const size_t room = 2 * (e->used + bytes) + 256;
        char *larger = realloc(e->text, room);
        if (larger == NULL) {
            e->failed = true;
            return;
        }
        e->text = larger;
        e->room = room;
    }
    memcpy(e->text + e->used, text, bytes);
    e->used += bytes;
    e->text[e->used] = '\0';
}

static void emit_put(lki_emit *e, const char *text)
{
    lki_emit_raw(e, text, strlen(text));
}

static void new_line(lki_emit *e)
{
    static const char blanks[] = "                                                                ";
    if (e->indent == 0) return;
    emit_put(e, "\n");
    for (size_t left = (size_t)(e->indent * e->depth), some; left > 0; left -= some) {
        some = left < sizeof blanks - 1 ? left : sizeof blanks - 1;
        lki_emit_raw(e, blanks, some);
    }
}

/* What stands before a value or a key. */
static void separate(lki_emit *e)
{
    if (e->depth == 0) return;
    if (e->level[e->depth].after_key) {
        e->level[e->depth].after_key = false;
        return;
    }
    const bool flat = e->level[e->depth].flat;
    if (e->level[e->depth].count++ > 0) emit_put(e, flat || e->indent == 0 ? ", " : ",");
    if (!flat) new_line(e);
}

void lki_emit_open(lki_emit *e, char bracket, bool flat)
{
    separate(e);
    lki_emit_raw(e, &bracket, 1);
    if (e->depth + 1 >= LKI_EMIT_DEPTH) {
        e->failed = true;
        return;
    }
    e->level[++e->depth].flat = flat;
    e->level[e->depth].after_key = false;
    e->level[e->depth].count = 0;
}

void lki_emit_close(lki_emit *e, char bracket)
{
    if (e->depth == 0) return;
    const bool lines = e->level[e->depth].count > 0 && !e->level[e->depth].flat;
    e->depth--;
    if (lines) new_line(e);
    lki_emit_raw(e, &bracket, 1);
}

/* A text that YAML reads as itself without quotes. */
static bool is_plain(const char *text)
{
    int64_t i;
    double f;
    bool b;
    const lki_yaml node = {.kind = LKI_YAML_SCALAR, .plain = true, .text = text};
    if (!isalnum((unsigned char)*text) && *text != '/' && *text != '_') return false;
    for (const char *c = text; *c != '\0'; c++)
        if (!isalnum((unsigned char)*c) && strchr("_-./", *c) == NULL) return false;
    return !lki_yaml_is_null(&node) && !lki_text_is_int(text, &i) && !lki_text_is_float(text, &f) &&
           !lki_text_is_bool(text, &b);
}

/* The code of the character at *text, behind which *text then stands; -1: that is no UTF-8. */
static long code_point(const char **text)
{
    const unsigned char *c = (const unsigned char *)*text;
    static const long least[] = {0, 0x80, 0x800, 0x10000};
    const int more = *c < 0x80   ? 0
                     : *c < 0xc2 ? -1
                     : *c < 0xe0 ? 1
                     : *c < 0xf0 ? 2
                     : *c < 0xf5 ? 3
                                 : -1;
    if (more < 0) return -1;
    long code = more == 0 ? *c : *c & (0x3f >> more);
    for (int i = 1; i <= more; i++) {
        if ((c[i] & 0xc0) != 0x80) return -1;
        code = code << 6 | (c[i] & 0x3f);
    }
    *text += more + 1;
    return code < least[more] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff) ? -1 : code;
}

static bool is_utf8(const char *text)
{
    while (*text != '\0')
        if (code_point(&text) < 0) return false;
    return true;
}

/* Characters that JSON has as they are, but that YAML does not take, or takes for line breaks. */
static bool is_special(long code)
{
    return (code >= 0x7f && code <= 0x9f) || code == 0x2028 || code == 0x2029 || code == 0xfeff ||
           code == 0xfffe || code == 0xffff;
}

static void put_quoted(lki_emit *e, const char *text)
{
    static const char escaped[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    emit_put(e, "\"");
    while (*text != '\0') {
        const char *begin = text, *found = strchr(escaped, *text);
        const long code = code_point(&text);
        char escape[8];
        if (found != NULL)
            snprintf(escape, sizeof escape, "\\%c", letters[found - escaped]);
        else if (code < ' ' || (e->yaml && is_special(code)))
            snprintf(escape, sizeof escape, code < ' ' ? "\\u%04lX" : "\\u%04lx", code);
        else
            escape[0] = '\0';
        if (escape[0] != '\0')
            emit_put(e, escape);
        else
            lki_emit_raw(e, begin, (size_t)(text - begin));
    }
    emit_put(e, "\"");
}

static void put_string(lki_emit *e, const char *text)
{
    if (text == NULL || !is_utf8(text))
        emit_put(e, "null");
    else if (e->yaml && is_plain(text))
        emit_put(e, text);
    else
        put_quoted(e, text);
}

void lki_emit_key(lki_emit *e, const char *key)
{
    separate(e);
    put_string(e, key);
    emit_put(e, ": ");
    e->level[e->depth].after_key = true;
}

void lki_emit_string(lki_emit *e, const char *text)
{
    separate(e);
    put_string(e, text);
}

void lki_emit_int(lki_emit *e, int64_t number)
{
    char text[LKI_NUMBER_SIZE];
    separate(e);
    snprintf(text, sizeof text, "%" PRId64, number);
    emit_put(e, text);
}

void lki_emit_real(lki_emit *e, double number)
{
    char text[LKI_NUMBER_SIZE];
    separate(e);
    emit_put(e, isfinite(number) ? lki_text_double(text, number) : "null");
}

void lki_emit_bool(lki_emit *e, bool value)
{
    separate(e);
    emit_put(e, value ? "true" : "false");
}

void lki_emit_null(lki_emit *e)
{
    separate(e);
    emit_put(e, "null");
}

void lki_emit_hex(lki_emit *e, uint64_t number)
{
    char text[20];
    snprintf(text, sizeof text, "%016" PRIx64, number);
    lki_emit_string(e, text);
}

static void emit_scalar(lki_emit *e, const lki_yaml *node)
{
    int64_t i;
    double f;
    bool b;
    if (!node->plain)
        lki_emit_string(e, node->text);
    else if (lki_yaml_is_null(node))
        lki_emit_null(e);
    else if (lki_text_is_int(node->text, &i))
        lki_emit_int(e, i);
    else if (lki_text_is_float(node->text, &f))
        lki_emit_real(e, f);
    else if (lki_text_is_bool(node->text, &b))
        lki_emit_bool(e, b);
    else
        lki_emit_string(e, node->text);
}

void lki_emit_tree(lki_emit *e, const lki_yaml *node)
{
    if (node->kind == LKI_YAML_SCALAR) {
        emit_scalar(e, node);
        return;
    }
    const bool is_list = node->kind == LKI_YAML_LIST; /* numbers share a line */
    const bool flat = is_list && (node->first == NULL || node->first->value->kind != LKI_YAML_MAP);
    lki_emit_open(e, is_list ? '[' : '{', flat);
    for (const lki_yaml_entry *i = node->first; i != NULL; i = i->next) {
        if (!is_list) lki_emit_key(e, i->key->text);
        lki_emit_tree(e, i->value);
    }
    lki_emit_close(e, is_list ? ']' : '}');
}

void lki_emit_setting(lki_emit *e, const lki_setting *setting, lki_type type)
{
    if (!setting->set) {
        lki_emit_null(e);
        return;
    }
    switch (type) {
    case LKI_TYPE_INT:
        lki_emit_int(e, setting->i[0]);
        break;
    case LKI_TYPE_FLOAT:
        lki_emit_real(e, setting->f);
        break;
    case LKI_TYPE_BOOL:
        lki_emit_bool(e, setting->b);
        break;
    case LKI_TYPE_STRING:
    case LKI_TYPE_CHOICE:
        lki_emit_string(e, setting->s);
        break;
    case LKI_TYPE_TREE:
    case LKI_TYPE_MAP:
        lki_emit_tree(e, setting->tree);
        break;
    case LKI_TYPE_WORD_FLOATS:
        if (setting->count == 0) {
            lki_emit_string(e, setting->s);
            break;
        }
        /* fall through */
    case LKI_TYPE_PAIR:
    case LKI_TYPE_INTS:
    case LKI_TYPE_FLOATS:
        lki_emit_open(e, '[', true);
        for (int i = 0; i < setting->count; i++) {
            if (type == LKI_TYPE_FLOATS || type == LKI_TYPE_WORD_FLOATS)
                lki_emit_real(e, setting->floats[i]);
            else
                lki_emit_int(e, type == LKI_TYPE_INTS ? setting->ints[i] : setting->i[i]);
        }
        lki_emit_close(e, ']');
    }
}

char *lki_emit_take(lki_emit *e, const char *what, lks_status *status)
{
    char *text = e->text;
    if (e->failed || text == NULL) {
        free(text);
        text = NULL;
        if (*status == LKS_OK) *status = LKI_FAIL(LKS_E_NOMEM, "no memory for %s", what);
    }
    *e = (lki_emit){.yaml = e->yaml, .indent = e->indent};
    return text;
}

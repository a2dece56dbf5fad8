/*
 * Reading tokenizer.json. It may come from anyone: nothing in it is believed, and what would give other tokens than ours
 * is refused.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/check.h"
#include "base/json.h"
#include "data/text/bpe/bpe.h"
#include "data/text/utf8.h"
#include "data/text/words.h"

enum { MOST_BYTES = 1 << 28, SHOWN = 60 };

typedef struct reading {
    const char *path;
    lks_tokenizer *tokenizer;
    lki_bpe *bpe;
    json_t *model, *vocabulary, *merges, *added;
    lki_words names; /* of tokens in the vocabulary or added, by their ids */
} reading;

static lks_status bad(const reading *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static lks_status bad(const reading *r, const char *format, ...)
{
    char what[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return LKI_FAIL(LKS_E_FORMAT, "'%.300s' is no tokenizer that is known here: %s", r->path, what);
}

/* The beginning of a name from the file, as a message may have it. */
static const char *shown_part(char out[SHOWN], const char *text, size_t length)
{
    snprintf(out, SHOWN, "%.*s", length < SHOWN ? (int)length : SHOWN, text);
    const size_t bytes = lki_utf8_valid(out, strlen(out)); /* without half a character */
    out[bytes] = '\0';
    for (size_t i = 0; i < bytes; i++)
        if ((uint8_t)out[i] < ' ' || out[i] == 0x7F) out[i] = '?';
    return out;
}

static const char *shown(char out[SHOWN], const char *text)
{
    return shown_part(out, text, strlen(text));
}

/* ---------------------------------------------------------------- what kind it is */

/* An option that has to be null or one other value, if it is there: false, or "". */
static lks_status check_unused(const reading *r, const json_t *object, const char *in,
                               const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (value == NULL || json_is_null(value) || json_is_false(value)) return LKS_OK;
    if (json_is_string(value) && json_string_length(value) == 0) return LKS_OK;
    return bad(r, "%s%s is set, which gives other tokens; expected null", in, key);
}

/* A part that is null or {"type": "ByteLevel"}. */
static lks_status check_byte_level(const reading *r, const json_t *root, const char *key,
                                   bool needed)
{
    char name[SHOWN];
    const json_t *part = json_object_get(root, key);
    const char *type = json_string_value(json_object_get(part, "type"));
    if ((part == NULL || json_is_null(part)) && !needed) return LKS_OK;
    if (type != NULL && strcmp(type, "ByteLevel") == 0) return LKS_OK;
    return bad(r, "%s is %s, expected ByteLevel as GPT-2 has it", key,
               type != NULL ? shown(name, type) : "of no type");
}

/* A template that puts nothing beside a text, as transformers writes for GPT-2's tokenizer. */
static bool adds_nothing(const json_t *processor)
{
    const char *type = json_string_value(json_object_get(processor, "type"));
    const json_t *parts = json_object_get(processor, "single");
    const json_t *text = json_object_get(json_array_get(parts, 0), "Sequence");
    const char *id = json_string_value(json_object_get(text, "id"));
    return type != NULL && strcmp(type, "TemplateProcessing") == 0 && json_array_size(parts) == 1 &&
           id != NULL && strcmp(id, "A") == 0;
}

static lks_status check_form(reading *r, const json_t *root)
{
    static const char *const unused[] = {"dropout", "continuing_subword_prefix", "byte_fallback",
                                         "end_of_word_suffix", "ignore_merges"};
    char name[SHOWN];
    const json_t *before = json_object_get(root, "pre_tokenizer");
    r->model = json_object_get(root, "model");
    if (!json_is_object(r->model)) return bad(r, "it has no model");
    const json_t *type = json_object_get(r->model, "type");
    if (type != NULL && (!json_is_string(type) || strcmp(json_string_value(type), "BPE") != 0))
        return bad(r, "model.type is %s, expected BPE",
                   json_is_string(type) ? shown(name, json_string_value(type)) : "no text");
    for (size_t i = 0; i < sizeof unused / sizeof *unused; i++)
        LKI_TRY(check_unused(r, r->model, "model.", unused[i]));
    LKI_TRY(check_unused(r, root, "", "normalizer"));
    LKI_TRY(check_byte_level(r, root, "pre_tokenizer", true));
    if (!adds_nothing(json_object_get(root, "post_processor")))
        LKI_TRY(check_byte_level(r, root, "post_processor", false));
    LKI_TRY(check_byte_level(r, root, "decoder", false));
    if (json_is_false(json_object_get(before, "use_regex")))
        return bad(r, "pre_tokenizer.use_regex is false, expected GPT-2's expression");
    r->bpe->prefix = json_is_true(json_object_get(before, "add_prefix_space"));
    r->vocabulary = json_object_get(r->model, "vocab");
    r->merges = json_object_get(r->model, "merges");
    r->added = json_object_get(root, "added_tokens");
    if (!json_is_object(r->vocabulary)) return bad(r, "it has no model.vocab");
    if (!json_is_array(r->merges)) return bad(r, "it has no model.merges");
    if (r->added != NULL && !json_is_null(r->added) && !json_is_array(r->added))
        return bad(r, "added_tokens is no list");
    return LKS_OK;
}

/* ---------------------------------------------------------------- tokens */

static lks_status check_added(const reading *r, const json_t *one, size_t i)
{
    static const char *const unused[] = {"single_word", "lstrip", "rstrip"};
    char in[40];
    snprintf(in, sizeof in, "added_tokens[%zu].", i);
    const json_t *content = json_object_get(one, "content");
    if (json_string_length(content) == 0) return bad(r, "%scontent is missing or empty", in);
    for (size_t k = 0; k < sizeof unused / sizeof *unused; k++)
        LKI_TRY(check_unused(r, one, in, unused[k]));
    return LKS_OK;
}

/* Puts a name in the place of its id. */
static lks_status place_name(const reading *r, const char **names, int64_t size, const char *name,
                             const json_t *id)
{
    char text[SHOWN];
    const int64_t number = json_integer_value(id);
    if (name[0] == '\0') return bad(r, "a token without a character");
    if (!json_is_integer(id) || number < 0 || number >= size)
        return bad(r, "token '%s' has no number from 0 to %" PRId64 ", one for each token",
                   shown(text, name), size - 1);
    if (names[number] != NULL) {
        char other[SHOWN];
        return bad(r, "tokens '%s' and '%s' both have the number %" PRId64,
                   shown(other, names[number]), shown(text, name), number);
    }
    names[number] = name;
    return LKS_OK;
}

/* Names of all tokens by their numbers: each of [0, size) is there once. */
static lks_status place_all(reading *r, const char **names, int64_t size)
{
    const char *name;
    json_t *value;
    size_t i;
    char text[SHOWN];
    int64_t number;
    json_object_foreach(r->vocabulary, name, value)
        LKI_TRY(place_name(r, names, size, name, value));
    json_array_foreach(r->added, i, value)
    {
        const json_t *id = json_object_get(value, "id");
        const char *content = json_string_value(json_object_get(value, "content"));
        const json_t *known = json_object_get(r->vocabulary, content);
        if (known == NULL)
            LKI_TRY(place_name(r, names, size, content, id));
        else if (json_integer_value(known) != json_integer_value(id) || !json_is_integer(id))
            return bad(r, "added token '%s' has another number in the vocabulary",
                       shown(text, content));
    }
    for (int64_t id = 0; id < size; id++) {
        LKI_TRY(lki_words_add(&r->names, names[id], strlen(names[id]), 1, &number));
        if (number != id)
            return bad(r, "added token '%s' stands there twice", shown(text, names[id]));
    }
    return LKS_OK;
}

/* The bytes that the characters of a name stand for; how many, or -1: they do not. */
static int64_t bytes_of(char *out, const char *name, size_t bytes)
{
    const uint8_t *at = (const uint8_t *)name, *const end = at + bytes;
    int64_t count = 0;
    while (at < end) {
        uint32_t code;
        at += lki_utf8_read(&code, at, end); /* it is valid, as JSON is */
        const int byte = lki_bpe_byte_of(code);
        if (byte < 0) return -1;
        out[count++] = (char)byte;
    }
    return count;
}

static lks_status fill_tokens(const reading *r)
{
    lki_bpe *bpe = r->bpe;
    char text[SHOWN];
    size_t used = 0;
    for (int i = 0; i < LKI_BPE_BYTES; i++) bpe->byte[i] = -1;
    for (int64_t id = 0; id < bpe->size; id++) {
        const lki_word_entry *name = &r->names.entry[id];
        const bool known = json_object_get(r->vocabulary, name->text) != NULL;
        int64_t bytes = known ? bytes_of(bpe->text + used, name->text, name->bytes) : -1;
        if (bytes == 1) bpe->byte[(uint8_t)bpe->text[used]] = (int32_t)id;
        if (bytes < 0) { /* an added one; others are looked at when those are filled in */
            memcpy(bpe->text + used, name->text, name->bytes);
            bytes = (int64_t)name->bytes;
            if (known && name->count == 1)
                return bad(r, "token '%s' has a character that stands for no byte",
                           shown(text, name->text));
        }
        used += (size_t)bytes;
        bpe->at[id + 1] = used;
    }
    return LKS_OK;
}

static int by_id(const void *a, const void *b)
{
    const lki_bpe_added *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static lks_status fill_added(reading *r)
{
    size_t i;
    json_t *value;
    char text[SHOWN];
    json_array_foreach(r->added, i, value)
    {
        const char *content, *own;
        int64_t number;
        const json_t *normalized = json_object_get(value, "normalized");
        const bool special = json_is_true(json_object_get(value, "special"));
        content = json_string_value(json_object_get(value, "content"));
        LKI_TRY(lki_arena_string(&r->tokenizer->arena, &own, content));
        LKI_TRY(lki_words_add(&r->names, content, strlen(content), 1, &number));
        if (r->names.entry[number].count > 2)
            return bad(r, "added token '%s' stands there twice", shown(text, content));
        r->bpe->added[i] = (lki_bpe_added){
            .id = (int32_t)number,
            .text = own,
            .bytes = strlen(own),
            .second = normalized != NULL ? json_is_true(normalized) : !special,
            .special = special,
            .known = json_object_get(r->vocabulary, content) != NULL};
    }
    qsort(r->bpe->added, (size_t)r->bpe->adds, sizeof *r->bpe->added, by_id);
    return LKS_OK;
}

static lks_status read_tokens(reading *r)
{
    size_t i, bytes = 0;
    json_t *value;
    void *memory;
    const char *name;
    int64_t size = (int64_t)json_object_size(r->vocabulary);
    json_array_foreach(r->added, i, value)
    {
        LKI_TRY(check_added(r, value, i));
        const char *content = json_string_value(json_object_get(value, "content"));
        size += json_object_get(r->vocabulary, content) == NULL;
        bytes += strlen(content);
    }
    json_object_foreach(r->vocabulary, name, value) bytes += strlen(name);
    if (size == 0) return bad(r, "it has no token");
    LKI_TRY(lki_bpe_reserve(r->tokenizer, size, bytes, (int64_t)json_array_size(r->merges),
                            (int)json_array_size(r->added)));
    const size_t room = (size_t)size * sizeof(char *);
    LKI_TRY(lki_alloc(r->tokenizer->context, &memory, room, "names of tokens"));
    const lks_status status = place_all(r, memory, size);
    lki_free(r->tokenizer->context, memory, room);
    LKI_TRY(status);
    LKI_TRY(fill_added(r));
    return fill_tokens(r);
}

static lks_status read_unknown(const reading *r)
{
    char text[SHOWN];
    const json_t *value = json_object_get(r->model, "unk_token");
    if (value == NULL || json_is_null(value)) return LKS_OK;
    const char *name = json_string_value(value);
    if (name != NULL && json_object_get(r->vocabulary, name) != NULL)
        r->tokenizer->unknown = (int32_t)lki_words_find(&r->names, name, strlen(name));
    if (r->tokenizer->unknown < 0)
        return bad(r, "model.unk_token '%s' is not in the vocabulary",
                   shown(text, name != NULL ? name : ""));
    for (int i = 0; i < LKI_BPE_BYTES; i++)
        if (r->bpe->byte[i] < 0 && json_is_true(json_object_get(r->model, "fuse_unk")))
            return bad(r, "model.fuse_unk is set, which gives other tokens; expected false");
    return LKS_OK;
}

/* ---------------------------------------------------------------- merges */

/* The two names of a merge, "a b" or ["a", "b"]. */
static bool names_of(const char *name[2], size_t bytes[2], const json_t *merge)
{
    const char *text = json_string_value(merge), *space = text != NULL ? strchr(text, ' ') : NULL;
    if (space != NULL) {
        name[0] = text;
        bytes[0] = (size_t)(space - text);
        name[1] = space + 1;
        bytes[1] = strlen(name[1]);
        return true;
    }
    for (size_t i = 0; i < 2; i++) {
        const json_t *part = json_array_get(merge, i);
        if (!json_is_string(part) || json_array_size(merge) != 2) return false;
        name[i] = json_string_value(part);
        bytes[i] = json_string_length(part);
    }
    return true;
}

/* The number of what two tokens become, or -1; `room` is for its name. */
static int32_t joined(const reading *r, lki_pair pair, char *room)
{
    const lki_word_entry *left = &r->names.entry[pair.left], *right = &r->names.entry[pair.right];
    memcpy(room, left->text, left->bytes);
    memcpy(room + left->bytes, right->text, right->bytes);
    room[left->bytes + right->bytes] = '\0';
    if (json_object_get(r->vocabulary, room) == NULL) return -1;
    return (int32_t)lki_words_find(&r->names, room, left->bytes + right->bytes);
}

static lks_status read_merge(const reading *r, size_t i, const json_t *merge, char *room)
{
    const char *name[2];
    size_t bytes[2];
    char text[SHOWN];
    int64_t id[2];
    int32_t rank;
    if (!names_of(name, bytes, merge))
        return bad(r, "model.merges[%zu] is neither \"a b\" nor [\"a\", \"b\"]", i);
    for (int k = 0; k < 2; k++) {
        id[k] = lki_words_find(&r->names, name[k], bytes[k]);
        if (id[k] < 0 || json_object_get(r->vocabulary, r->names.entry[id[k]].text) == NULL)
            return bad(r, "model.merges[%zu] joins '%s', which is not in the vocabulary", i,
                       shown_part(text, name[k], bytes[k]));
    }
    const lki_pair pair = {(int32_t)id[0], (int32_t)id[1]};
    const int32_t made = joined(r, pair, room);
    if (made < 0)
        return bad(r, "model.merges[%zu] makes '%s', which is not in the vocabulary", i,
                   shown(text, room));
    LKI_TRY(lki_pairs_add(&r->bpe->merges, pair, &rank));
    if (rank != r->bpe->merges.size - 1 || r->bpe->made[rank] != 0)
        return bad(r, "model.merges[%zu] stands there twice", i);
    r->bpe->made[rank] = made + 1;
    return LKS_OK;
}

static lks_status read_merges(const reading *r)
{
    size_t i, longest = 0;
    json_t *value;
    void *room;
    for (int64_t id = 0; id < r->names.size; id++)
        if (r->names.entry[id].bytes > longest) longest = r->names.entry[id].bytes;
    LKI_TRY(lki_alloc(r->tokenizer->context, &room, 2 * longest + 1, "names of tokens"));
    lks_status status = LKS_OK;
    json_array_foreach(r->merges, i, value)
    {
        const char *text = json_string_value(value);
        if (i == 0 && text != NULL && strncmp(text, "#version", 8) == 0) continue;
        status = read_merge(r, i, value, room);
        if (status != LKS_OK) break;
    }
    lki_free(r->tokenizer->context, room, 2 * longest + 1);
    for (int32_t rank = 0; rank < r->bpe->merges.size; rank++) r->bpe->made[rank]--;
    return status;
}

static lks_status read_all(reading *r, const json_t *root)
{
    LKI_TRY(check_form(r, root));
    LKI_TRY(read_tokens(r));
    LKI_TRY(read_unknown(r));
    LKI_TRY(read_merges(r));
    return lki_bpe_settle(r->tokenizer);
}

lks_status lki_bpe_read(lks_tokenizer *tokenizer, const char *path, const uint8_t *data,
                        size_t bytes)
{
    reading r = {.path = path, .tokenizer = tokenizer, .names.context = tokenizer->context};
    json_error_t error;
    char text[SHOWN];
    LKI_TRY(lki_bpe_create(&r.bpe, tokenizer));
    if (bytes > MOST_BYTES)
        return bad(&r, "it has %zu bytes, expected at most %d", bytes, MOST_BYTES);
    bool no_memory;
    json_t *root = lki_json_load(data, bytes, &error, &no_memory);
    if (no_memory) {
        json_decref(root);
        return LKI_FAIL(LKS_E_NOMEM, "no memory to read '%.300s'", path);
    }
    if (root == NULL)
        return bad(&r, "line %d is no JSON (%s)", error.line, shown(text, error.text));
    const lks_status status = read_all(&r, root);
    lki_words_release(&r.names);
    json_decref(root);
    return status;
}

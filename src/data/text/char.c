/* Code points as tokens, numbered in their order (as A. Karpathy's char-rnn and nanoGPT do). */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "data/text/utf8.h"
#include "data/text/vocabulary.h"

enum { PAGE = 256, PAGES = LKI_CODE_POINTS / PAGE, ASCII = 128 };

typedef struct characters {
    lki_vocabulary vocabulary;
    int32_t ascii[ASCII]; /* -1: none */
    int32_t *page[PAGES]; /* of others; NULL: none */
} characters;

static bool char_is(const uint8_t *data, size_t bytes)
{
    return lki_vocabulary_is(data, bytes, "char");
}

static int32_t number_of(const characters *all, uint32_t code)
{
    if (code < ASCII) return all->ascii[code];
    const int32_t *page = all->page[code / PAGE];
    return page != NULL ? page[code % PAGE] : -1;
}

static lks_status set_number(lki_arena *arena, characters *all, uint32_t code, int32_t id)
{
    void *memory;
    if (code < ASCII) {
        all->ascii[code] = id;
        return LKS_OK;
    }
    int32_t **page = &all->page[code / PAGE];
    if (*page == NULL) {
        LKI_TRY(lki_arena_alloc(arena, &memory, PAGE * sizeof **page, "a vocabulary"));
        *page = memory;
        memset(*page, -1, PAGE * sizeof **page);
    }
    (*page)[code % PAGE] = id;
    return LKS_OK;
}

static lks_status make_own(characters **out, lks_tokenizer *tokenizer)
{
    void *memory;
    LKI_TRY(lki_arena_alloc(&tokenizer->arena, &memory, sizeof **out, "a vocabulary"));
    tokenizer->own = *out = memory;
    memset((*out)->ascii, -1, sizeof(*out)->ascii);
    return LKS_OK;
}

static lks_status settle(lks_tokenizer *tokenizer, const characters *all)
{
    tokenizer->size = all->vocabulary.size;
    return lki_vocabulary_hash(&tokenizer->hash, &all->vocabulary, tokenizer->context);
}

static lks_status char_read(lks_tokenizer *tokenizer, const char *path, const uint8_t *data,
                            size_t bytes)
{
    characters *all;
    LKI_TRY(make_own(&all, tokenizer));
    LKI_TRY(
        lki_vocabulary_read(&all->vocabulary, &tokenizer->arena, path, data, bytes, "char", false));
    for (int64_t i = 0; i < all->vocabulary.size; i++) {
        size_t length;
        uint32_t code;
        const char *token = lki_vocabulary_at(&all->vocabulary, i, &length);
        const uint8_t *at = (const uint8_t *)token;
        if ((size_t)lki_utf8_read(&code, at, at + length) != length)
            return lki_vocabulary_fail(path, i, "more than one character in a token");
        if (number_of(all, code) >= 0)
            return lki_vocabulary_fail(path, i, "a character that stands there twice");
        LKI_TRY(set_number(&tokenizer->arena, all, code, (int32_t)i));
    }
    return settle(tokenizer, all);
}

/* Marks the code points of a text. */
static lks_status look_at(uint8_t *seen, const lki_passage *text)
{
    const uint8_t *const begin = (const uint8_t *)text->text, *const end = begin + text->bytes;
    for (const uint8_t *at = begin; at < end;) {
        uint32_t code = *at;
        const int length = code < ASCII ? 1 : lki_utf8_read(&code, at, end);
        if (length == 0) return lki_utf8_fail(text, (size_t)(at - begin));
        seen[code] = 1;
        at += length;
    }
    return LKS_OK;
}

static lks_status number_all(lks_tokenizer *tokenizer, const uint8_t *seen)
{
    characters *all;
    int64_t count = 0, id = 0;
    size_t bytes = 0;
    char token[LKI_UTF8_BYTES];
    for (uint32_t code = 0; code < LKI_CODE_POINTS; code++) {
        if (seen[code] == 0) continue;
        bytes += (size_t)lki_utf8_write(code, token);
        count++;
    }
    if (count == 0) return LKI_FAIL(LKS_E_INVALID, "a vocabulary of characters: the text is empty");
    LKI_TRY(make_own(&all, tokenizer));
    LKI_TRY(lki_vocabulary_make(&all->vocabulary, &tokenizer->arena, "char", false, count, bytes));
    for (uint32_t code = 0; code < LKI_CODE_POINTS; code++) {
        if (seen[code] == 0) continue;
        LKI_TRY(set_number(&tokenizer->arena, all, code, (int32_t)id));
        lki_vocabulary_add(&all->vocabulary, id++, token, (size_t)lki_utf8_write(code, token));
    }
    return settle(tokenizer, all);
}

static lks_status char_build(lks_tokenizer *tokenizer, const lks_vocabulary_opts *opts,
                             const lki_passage *texts, int count)
{
    void *seen;
    (void)opts;
    LKI_TRY(lki_alloc(tokenizer->context, &seen, LKI_CODE_POINTS, "marks of characters"));
    lks_status status = LKS_OK;
    for (int i = 0; i < count && status == LKS_OK; i++) status = look_at(seen, &texts[i]);
    if (status == LKS_OK) status = number_all(tokenizer, seen);
    lki_free(tokenizer->context, seen, LKI_CODE_POINTS);
    return status;
}

static lks_status char_write(const lks_tokenizer *tokenizer, lki_writer *writer)
{
    const characters *all = tokenizer->own;
    return lki_vocabulary_write(&all->vocabulary, writer);
}

static lks_status fail_unknown(const lki_passage *passage, size_t at, uint32_t code)
{
    char name[LKI_PASSAGE_NAME];
    size_t byte;
    lki_passage_place(passage, at, &byte, name);
    return LKI_FAIL(LKS_E_FORMAT,
                    "%s: the character U+%04X at byte %zu is not in the vocabulary; make the "
                    "vocabulary from all texts, or take bytes as tokens",
                    name, (unsigned)code, byte);
}

static lks_status char_encode(const lks_tokenizer *tokenizer, const lki_passage *passage,
                              int32_t *ids, int64_t room, int64_t *count)
{
    const characters *all = tokenizer->own;
    const uint8_t *const begin = (const uint8_t *)passage->text, *const end = begin +
                                                                              passage->bytes;
    int64_t n = 0;
    for (const uint8_t *at = begin; at < end; n++) {
        uint32_t code = *at;
        const int length = code < ASCII ? 1 : lki_utf8_read(&code, at, end);
        if (length == 0) return lki_utf8_fail(passage, (size_t)(at - begin));
        const int32_t id = number_of(all, code);
        if (id < 0) return fail_unknown(passage, (size_t)(at - begin), code);
        if (n < room) ids[n] = id;
        at += length;
    }
    *count = n;
    return LKS_OK;
}

static const char *char_token(const lks_tokenizer *tokenizer, int32_t id, size_t *bytes)
{
    const characters *all = tokenizer->own;
    return lki_vocabulary_at(&all->vocabulary, id, bytes);
}

/* In front of a byte that does not continue a character. */
static size_t char_cut(const lks_tokenizer *tokenizer, const char *text, size_t bytes, size_t at)
{
    (void)tokenizer;
    while (at < bytes && ((uint8_t)text[at] & 0xC0) == 0x80) at++;
    return at;
}

const lki_tokenizer_kind lki_char_tokenizer = {
    .name = "char",
    .file = "vocabulary.txt",
    .is = char_is,
    .read = char_read,
    .build = char_build,
    .write = char_write,
    .encode = char_encode,
    .token = char_token,
    .cut = char_cut,
};

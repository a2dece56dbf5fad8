/* Vocabulary files, read and written. */
#include "data/text/vocabulary.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "data/text/sink.h"
#include "data/text/utf8.h"

static const char mark[] = "lockstep vocabulary 1 ";
enum { MARK = sizeof mark - 1, HEAD = 80, ESCAPED = 4 };

bool lki_vocabulary_is(const uint8_t *data, size_t bytes, const char *level)
{
    const size_t length = strlen(level);
    return bytes > MARK + length && memcmp(data, mark, MARK) == 0 &&
           memcmp(data + MARK, level, length) == 0 && data[MARK + length] == ' ';
}

lks_status lki_vocabulary_fail(const char *path, int64_t id, const char *why)
{
    return LKI_FAIL(LKS_E_FORMAT, "'%s', line %" PRId64 ": %s", path, id + 2, why);
}

/* ---------------------------------------------------------------- reading */

lks_status lki_vocabulary_head(int64_t *size, size_t *end, const char *path, const uint8_t *data,
                               size_t bytes, const char *level)
{
    const uint8_t *at = data + MARK + strlen(level) + 1, *const stop = data + bytes;
    const uint8_t *const first = at;
    int64_t count = 0;
    for (; at < stop && *at >= '0' && *at <= '9' && count <= INT32_MAX; at++)
        count = count * 10 + (*at - '0');
    if (at == first || at == stop || *at != '\n' || count < 1 || count > INT32_MAX)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s', line 1: expected \"%s%s\" and the number of tokens, 1 to %" PRId32,
                        path, mark, level, INT32_MAX);
    *size = count;
    *end = (size_t)(at + 1 - data);
    return LKS_OK;
}

static int hexadecimal(uint8_t digit)
{
    if (digit >= '0' && digit <= '9') return digit - '0';
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* One character of a line, unescaped; NULL: what begins with \ is nothing that is written. */
static const uint8_t *unescape(char *out, const uint8_t *at, const uint8_t *end)
{
    static const char letter[] = "nrts\\", meaning[] = "\n\r\t \\";
    *out = (char)*at;
    if (*at != '\\') return at + 1;
    if (end - at < 2) return NULL;
    const char *found = at[1] != 0 ? strchr(letter, at[1]) : NULL;
    if (found != NULL) {
        *out = meaning[found - letter];
        return at + 2;
    }
    if (at[1] != 'x' || end - at < ESCAPED) return NULL;
    const int high = hexadecimal(at[2]), low = hexadecimal(at[3]);
    if (high < 0 || high > 7 || low < 0) return NULL;
    *out = (char)(high << 4 | low);
    return at + ESCAPED;
}

static lks_status read_tokens(lki_vocabulary *out, const char *path, const uint8_t *at,
                              const uint8_t *stop)
{
    char *to = (char *)out->text;
    for (int64_t i = 0; i < out->size; i++) {
        const uint8_t *const end = at < stop ? memchr(at, '\n', (size_t)(stop - at)) : NULL;
        if (end == NULL)
            return LKI_FAIL(LKS_E_FORMAT,
                            "'%s' has %" PRId64 " of the %" PRId64
                            " tokens that its first line says; it is cut off",
                            path, i, out->size);
        if (out->spaced) *to++ = ' ';
        if (at == end) return lki_vocabulary_fail(path, i, "a token without a character");
        while (at < end) {
            at = unescape(to++, at, end);
            if (at == NULL)
                return lki_vocabulary_fail(path, i,
                                           "expected \\n, \\r, \\t, \\s, \\\\ or \\x00 to \\x7f "
                                           "behind a \\");
        }
        at = end + 1;
        out->at[i + 1] = (size_t)(to - out->text);
    }
    if (at != stop)
        return lki_vocabulary_fail(path, out->size,
                                   "behind the last token that the first line counts");
    return LKS_OK;
}

lks_status lki_vocabulary_read(lki_vocabulary *out, lki_arena *arena, const char *path,
                               const uint8_t *data, size_t bytes, const char *level, bool spaced)
{
    int64_t size;
    size_t begin;
    const lki_passage all = {.name = path, .text = (const char *)data, .bytes = bytes};
    LKI_TRY(lki_vocabulary_head(&size, &begin, path, data, bytes, level));
    const size_t valid = lki_utf8_valid(all.text, bytes);
    if (valid < bytes) return lki_utf8_fail(&all, valid);
    /* A token has a byte and a line feed: what the file cannot have is not asked of memory. */
    if ((uint64_t)size > (bytes - begin) / 2)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' has less than the %" PRId64
                        " tokens that its first line says; it is cut off",
                        path, size);
    LKI_TRY(lki_vocabulary_make(out, arena, level, spaced, size, bytes - begin - (size_t)size));
    return read_tokens(out, path, data + begin, data + bytes);
}

/* ---------------------------------------------------------------- making */

lks_status lki_vocabulary_make(lki_vocabulary *out, lki_arena *arena, const char *level,
                               bool spaced, int64_t size, size_t bytes)
{
    void *text, *at;
    const size_t spaces = spaced ? (size_t)size : 0;
    *out = (lki_vocabulary){.level = level, .spaced = spaced};
    LKI_TRY(lki_arena_alloc(arena, &text, bytes + spaces, "a vocabulary"));
    LKI_TRY(lki_arena_alloc(arena, &at, ((size_t)size + 1) * sizeof *out->at, "a vocabulary"));
    out->size = size;
    out->text = text;
    out->at = at;
    return LKS_OK;
}

void lki_vocabulary_add(lki_vocabulary *vocabulary, int64_t id, const char *token, size_t bytes)
{
    char *to = (char *)vocabulary->text + vocabulary->at[id];
    if (vocabulary->spaced) *to++ = ' ';
    memcpy(to, token, bytes);
    vocabulary->at[id + 1] = (size_t)(to + bytes - vocabulary->text);
}

/* ---------------------------------------------------------------- writing */

/* A character as it stands in a line. */
static void put_char(lki_sink *to, char character)
{
    static const char letter[] = "nrts\\", meaning[] = "\n\r\t \\", digit[] = "0123456789abcdef";
    const uint8_t byte = (uint8_t)character;
    const char *found = byte != 0 ? strchr(meaning, character) : NULL;
    if (found != NULL)
        lki_sink_put(to, (char[]){'\\', letter[found - meaning]}, 2);
    else if (byte < ' ' || byte == 0x7F)
        lki_sink_put(to, (char[]){'\\', 'x', digit[byte >> 4], digit[byte & 15]}, ESCAPED);
    else
        lki_sink_put(to, &character, 1);
}

static lks_status put_vocabulary(lki_sink *to, const lki_vocabulary *vocabulary)
{
    char head[HEAD];
    const int length = snprintf(head, sizeof head, "%s%s %" PRId64 "\n", mark, vocabulary->level,
                                vocabulary->size);
    lki_sink_put(to, head, (size_t)length);
    for (int64_t i = 0; vocabulary->at != NULL && i < vocabulary->size; i++) {
        size_t bytes;
        const char *token = lki_vocabulary_at(vocabulary, i, &bytes);
        for (size_t k = 0; k < bytes; k++) put_char(to, token[k]);
        lki_sink_put(to, "\n", 1);
    }
    lki_sink_flush(to);
    return to->status;
}

lks_status lki_vocabulary_write(const lki_vocabulary *vocabulary, lki_writer *writer)
{
    lki_sink to = {.writer = writer};
    return put_vocabulary(&to, vocabulary);
}

lks_status lki_vocabulary_hash(uint64_t *out, const lki_vocabulary *vocabulary,
                               lks_context *context)
{
    lki_sink to = {.writer = NULL};
    LKI_TRY(lki_hash_stream_open(&to.stream, context));
    const lks_status status = put_vocabulary(&to, vocabulary);
    *out = lki_hash_stream_close(to.stream);
    return status;
}

#include "data/text/bpe/pieces.h"

#include <string.h>

#include "data/text/bpe/classes.h"
#include "data/text/utf8.h"

enum { ASCII = 128 };

/* The class of the character at `at`, and its bytes. */
static inline lki_class class_at(const uint8_t *at, const uint8_t *end, int *bytes)
{
    uint32_t code = *at;
    *bytes = code < ASCII ? 1 : lki_utf8_read(&code, at, end);
    if (*bytes > 0) return lki_class_of_code(code);
    *bytes = 1;
    return LKI_OTHER;
}

/* Behind the characters of a class that begin at `at`; *last is where the last of them begins. */
static inline const uint8_t *run_of(lki_class class, const uint8_t *at, const uint8_t *end,
                                    const uint8_t **last)
{
    int bytes;
    while (at < end && class_at(at, end, &bytes) == class) {
        *last = at;
        at += bytes;
    }
    return at;
}

/* Bytes of "'s" and its like, or 0. */
static size_t contraction(const uint8_t *at, const uint8_t *end)
{
    static const char *const endings[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t bytes = strlen(endings[i]);
        if ((size_t)(end - at) > bytes && memcmp(at + 1, endings[i], bytes) == 0) return 1 + bytes;
    }
    return 0;
}

size_t lki_piece_behind_space(const uint8_t *at, const uint8_t *end)
{
    int bytes;
    const uint8_t *last = at;
    if (at == end) return 0;
    const lki_class class = class_at(at, end, &bytes);
    const uint8_t *behind = run_of(class, at, end, &last);
    /* The last space belongs to what comes behind it. */
    return (size_t)((class != LKI_SPACE || behind == end ? behind : last) - at);
}

size_t lki_piece(const uint8_t *at, const uint8_t *end)
{
    int bytes, next;
    const uint8_t *last;
    if (*at == ' ') return 1 + lki_piece_behind_space(at + 1, end);
    if (*at == '\'') {
        const size_t found = contraction(at, end);
        if (found > 0) return found;
    }
    const lki_class class = class_at(at, end, &bytes);
    if (class != LKI_SPACE) return (size_t)(run_of(class, at, end, &last) - at);
    if (at + bytes == end || class_at(at + bytes, end, &next) != LKI_SPACE) return (size_t)bytes;
    return (size_t)bytes + lki_piece_behind_space(at + bytes, end);
}

bool lki_piece_space_before(const uint8_t *text, size_t at)
{
    size_t back = 1;
    int bytes;
    while (back < LKI_UTF8_BYTES && back < at && (text[at - back] & 0xC0) == 0x80) back++;
    return class_at(text + at - back, text + at, &bytes) == LKI_SPACE && (size_t)bytes == back;
}

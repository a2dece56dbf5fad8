/* UTF-8, read, written and checked. */
#include "data/text/utf8.h"

#include <stdio.h>

#include "base/check.h"
#include "base/eight.h"

int lki_utf8_read(uint32_t *code, const uint8_t *at, const uint8_t *end)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const uint8_t first = *at;
    *code = first;
    if (first < 0x80) return 1;
    const int bytes = first < 0xC0 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF8 ? 4 : 0;
    if (bytes == 0 || end - at < bytes) return 0;
    uint32_t value = first & (0x7Fu >> bytes);
    for (int i = 1; i < bytes; i++) {
        if ((at[i] & 0xC0) != 0x80) return 0;
        value = value << 6 | (at[i] & 0x3F);
    }
    *code = value;
    const bool surrogate = value >= 0xD800 && value < 0xE000;
    return value < least[bytes] || value >= LKI_CODE_POINTS || surrogate ? 0 : bytes;
}

int lki_utf8_write(uint32_t code, char out[LKI_UTF8_BYTES])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    const int bytes = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int i = bytes - 1; i > 0; i--, code >>= 6) out[i] = (char)(0x80 | (code & 0x3F));
    out[0] = (char)((0xF00u >> bytes & 0xFF) | code);
    return bytes;
}

size_t lki_utf8_valid(const char *text, size_t bytes)
{
    const uint8_t *const begin = (const uint8_t *)text, *at = begin, *const end = at + bytes;
    while (at < end) {
        uint32_t code;
        if (end - at >= 8 && (lki_eight_load(at) & lki_eight_of(0x80)) == 0) {
            at += 8;
            continue;
        }
        const int length = lki_utf8_read(&code, at, end);
        if (length == 0) break;
        at += length;
    }
    return (size_t)(at - begin);
}

const char *lki_passage_place(const lki_passage *passage, size_t at, size_t *byte,
                              char out[LKI_PASSAGE_NAME])
{
    const lki_joined_file *part = passage->part;
    const char *name = passage->name;
    *byte = passage->first + at;
    if (part != NULL) {
        for (int i = 1; i < passage->parts && passage->part[i].first <= *byte; i++) part++;
        *byte -= part->first;
        name = part->name;
    }
    if (name != NULL)
        snprintf(out, LKI_PASSAGE_NAME, "'%.250s'", name);
    else
        snprintf(out, LKI_PASSAGE_NAME, "the text");
    return out;
}

lks_status lki_utf8_fail(const lki_passage *passage, size_t at)
{
    char name[LKI_PASSAGE_NAME];
    size_t byte;
    lki_passage_place(passage, at, &byte, name);
    return LKI_FAIL(LKS_E_FORMAT,
                    "%s: byte %zu, which is 0x%02x, is no part of a character in UTF-8; convert "
                    "the text (iconv -t UTF-8), or take its bytes as tokens",
                    name, byte, (uint8_t)passage->text[at]);
}

/*
 *   member, member, ...    each a header of its own, and its bytes
 *   the list               an entry for each: what it is, how long, where
 *   where the list is      22 bytes and a comment; before them, if a number does not fit, 56 and 20 with
 *                          larger ones (zip64)
 *
 * Headers of members may lack their length, entries of the list have it. Numbers are little-endian. Format:
 * PKWARE, APPNOTE.TXT, https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT.
 */
#include "data/numpy/zip.h"

#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/inflate.h"

enum {
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    ENTRY_BYTES = 46,
    MEMBER_BYTES = 30,
    COMMENT_MOST = 65535,
    EXTRA_ZIP64 = 1,
    STORED = 0,
    DEFLATED = 8,
};
#define MEMBER_MARK  0x04034b50u
#define ENTRY_MARK   0x02014b50u
#define END_MARK     0x06054b50u
#define END64_MARK   0x06064b50u
#define LOCATOR_MARK 0x07064b50u
#define LARGE        0xffffffffu /* stands for a number that zip64 has */

typedef struct entry {
    const char *name; /* without an end */
    size_t name_bytes;
    unsigned flags, method;
    uint32_t crc;
    uint64_t packed, size,
        at; /* bytes in the archive, and unpacked; where the member's header is */
} entry;

static uint64_t number(const uint8_t *from, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value |= (uint64_t)from[i] << 8 * i;
    return value;
}

static uint32_t mark_of(const uint8_t *from)
{
    return (uint32_t)number(from, 4);
}

bool lki_zip_is(const uint8_t *data, size_t bytes)
{
    return bytes >= 4 && (mark_of(data) == MEMBER_MARK || mark_of(data) == END_MARK);
}

/* ---------------------------------------------------------------- the list */

static lks_status fail_list(const lki_zip *zip)
{
    return LKI_FAIL(LKS_E_FORMAT,
                    "'%s': the list of the zip archive is damaged, expected an entry for each "
                    "member; copy or write the file again",
                    zip->path);
}

/* What is larger than its field is in a field behind the name, in this order, each if it is needed. */
static bool read_zip64(entry *out, const uint8_t *extra, size_t bytes)
{
    uint64_t *const wide[] = {&out->size, &out->packed, &out->at};
    if (out->size != LARGE && out->packed != LARGE && out->at != LARGE) return true;
    while (bytes >= 4) {
        const size_t length = (size_t)number(extra + 2, 2);
        if (length > bytes - 4) return false;
        if (number(extra, 2) == EXTRA_ZIP64) {
            size_t used = 0;
            for (int i = 0; i < 3; i++) {
                if (*wide[i] != LARGE) continue;
                if (length - used < 8) return false;
                *wide[i] = number(extra + 4 + used, 8);
                used += 8;
            }
            return true;
        }
        extra += 4 + length;
        bytes -= 4 + length;
    }
    return false;
}

/* The entry at *at, which then is behind it; false where there is none. */
static bool read_entry(const lki_zip *zip, size_t *at, entry *out)
{
    const uint8_t *from = zip->list + *at;
    const size_t left = zip->list_bytes - *at;
    if (left < ENTRY_BYTES || mark_of(from) != ENTRY_MARK) return false;
    const size_t name = (size_t)number(from + 28, 2), extra = (size_t)number(from + 30, 2),
                 comment = (size_t)number(from + 32, 2), all = ENTRY_BYTES + name + extra + comment;
    if (left < all) return false;
    *out = (entry){.name = (const char *)from + ENTRY_BYTES,
                   .name_bytes = name,
                   .flags = (unsigned)number(from + 8, 2),
                   .method = (unsigned)number(from + 10, 2),
                   .crc = (uint32_t)number(from + 16, 4),
                   .packed = number(from + 20, 4),
                   .size = number(from + 24, 4),
                   .at = number(from + 42, 4)};
    *at += all;
    return read_zip64(out, from + ENTRY_BYTES + name, extra);
}

/* The mark of the end, which only a comment may follow; NULL: there is none. */
static const uint8_t *find_end(const uint8_t *data, size_t bytes)
{
    for (size_t comment = 0; comment <= COMMENT_MOST && END_BYTES + comment <= bytes; comment++) {
        const uint8_t *end = data + bytes - END_BYTES - comment;
        if (mark_of(end) == END_MARK && number(end + 20, 2) == comment) return end;
    }
    return NULL;
}

/* Where the list begins and how long it is, of zip64 where that is there. */
static bool find_list(const lki_zip *zip, const uint8_t *end, uint64_t *first, uint64_t *length)
{
    const size_t before = (size_t)(end - zip->data);
    *length = number(end + 12, 4);
    *first = number(end + 16, 4);
    if (before < LOCATOR_BYTES || mark_of(end - LOCATOR_BYTES) != LOCATOR_MARK) return true;
    const uint64_t at = number(end - LOCATOR_BYTES + 8, 8);
    if (before < LOCATOR_BYTES + END64_BYTES || at > before - LOCATOR_BYTES - END64_BYTES)
        return false;
    const uint8_t *wide = zip->data + at;
    *length = number(wide + 40, 8);
    *first = number(wide + 48, 8);
    return mark_of(wide) == END64_MARK;
}

lks_status lki_zip_open(lki_zip *out, const uint8_t *data, size_t bytes, const char *path)
{
    const uint8_t *end = find_end(data, bytes);
    uint64_t first, length;
    entry each;
    *out = (lki_zip){.data = data, .bytes = bytes, .path = path};
    if (end == NULL)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s': the zip archive has no list of its members at its end; it is "
                        "truncated, copy or write it again",
                        path);
    if (!find_list(out, end, &first, &length) || first > (uint64_t)(end - data) ||
        length > (uint64_t)(end - data) - first)
        return fail_list(out);
    out->list = data + first;
    out->list_bytes = (size_t)length;
    for (size_t at = 0; at < out->list_bytes;)
        if (!read_entry(out, &at, &each)) return fail_list(out);
    return LKS_OK;
}

/* The last of several of one name, as Python's zipfile has it. */
static bool find(const lki_zip *zip, const char *name, entry *out)
{
    entry each;
    bool found = false;
    for (size_t at = 0; at < zip->list_bytes && read_entry(zip, &at, &each);) {
        if (each.name_bytes != strlen(name) || memcmp(each.name, name, each.name_bytes) != 0)
            continue;
        *out = each;
        found = true;
    }
    return found;
}

bool lki_zip_has(const lki_zip *zip, const char *name)
{
    entry found;
    return find(zip, name, &found);
}

const char *lki_zip_member(const lki_zip *zip, int64_t member, size_t *bytes)
{
    entry each;
    for (size_t at = 0; at < zip->list_bytes && read_entry(zip, &at, &each);) {
        *bytes = each.name_bytes;
        if (member-- == 0) return each.name;
    }
    return NULL;
}

/* ---------------------------------------------------------------- a member */

/* Its bytes as they are in the archive. */
static lks_status locate(const lki_zip *zip, const entry *e, const char *name, const uint8_t **out)
{
    const uint64_t end = (uint64_t)(zip->list - zip->data); /* members stand before the list */
    *out = NULL;
    if (end >= MEMBER_BYTES && e->at <= end - MEMBER_BYTES &&
        mark_of(zip->data + e->at) == MEMBER_MARK) {
        const uint8_t *header = zip->data + e->at;
        const uint64_t begin = e->at + MEMBER_BYTES + number(header + 26, 2) +
                               number(header + 28, 2);
        if (begin <= end && e->packed <= end - begin) *out = zip->data + begin;
    }
    if (*out != NULL) return LKS_OK;
    return LKI_FAIL(LKS_E_FORMAT,
                    "'%s': the member '%s' is not where the list of the zip archive says; the file "
                    "is damaged, copy or write it again",
                    zip->path, name);
}

static lks_status check_kind(const lki_zip *zip, const entry *e, const char *name)
{
    if ((e->flags & 1) != 0)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s': the member '%s' is encrypted, expected it open; unpack it, and save "
                        "the arrays with numpy.savez()",
                        zip->path, name);
    if (e->method != STORED && e->method != DEFLATED)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s': the member '%s' is packed by method %u, expected stored or deflated "
                        "(0 or 8); save the arrays with numpy.savez_compressed()",
                        zip->path, name, e->method);
    if (e->method == STORED && e->packed != e->size)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s': the member '%s' is stored, but has %" PRIu64 " byte%s in the place "
                        "of %" PRIu64 "; the file is damaged, copy or write it again",
                        zip->path, name, e->packed, LKI_S(e->packed), e->size);
    return LKS_OK;
}

lks_status lki_zip_read(const lki_zip *zip, const char *name, const uint8_t **out, size_t *bytes,
                        lki_file *inflated)
{
    entry e;
    *out = NULL;
    *bytes = 0;
    if (!find(zip, name, &e))
        return LKI_FAIL(LKS_E_FORMAT, "'%s' has no member '%s'", zip->path, name);
    LKI_TRY(check_kind(zip, &e, name));
    LKI_TRY(locate(zip, &e, name, out));
    *bytes = (size_t)e.size;
    if (e.method == DEFLATED) {
        LKI_TRY(lki_deflate_inflate(inflated, *out, (size_t)e.packed, *bytes, zip->path));
        *out = inflated->data;
    }
    if (lki_crc32(*out, *bytes) == e.crc) return LKS_OK;
    return LKI_FAIL(LKS_E_FORMAT,
                    "'%s': the member '%s' has another CRC than the list of the zip archive says; "
                    "the file is damaged, copy or write it again",
                    zip->path, name);
}

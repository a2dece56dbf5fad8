/* Packed data in memory, by zlib. */
#include "base/inflate.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <zlib.h>

#include "base/check.h"
#include "base/memory.h"

/* A first guess at the size that is above this many times the file's own is not believed. */
enum { LIKELY_RATIO = 16, FIRST_ROOM = 64 * 1024 };

typedef struct buffer {
    lks_context *context;
    uint8_t *data;
    size_t size, used;
    const char *kind, *path; /* of what is inflated, for messages */
    size_t most;             /* that may come of it */
} buffer;

bool lki_gzip_is(const uint8_t *data, size_t bytes)
{
    enum { XFL = 8 };
    return bytes >= 2 && data[0] == 0x1f && data[1] == 0x8b && (bytes <= XFL || data[XFL] != '{');
}

/* zlib's own memory comes from the context too. Its release gives no size, so that each block
 * begins with it. */
typedef union prefix {
    size_t bytes;
    uint8_t align[LKI_ALIGN];
} prefix;

static voidpf zlib_alloc(voidpf user, uInt items, uInt size)
{
    const size_t bytes = sizeof(prefix) + (size_t)items * size;
    void *memory;
    if (lki_alloc(user, &memory, bytes, "zlib") != LKS_OK) return Z_NULL;
    ((prefix *)memory)->bytes = bytes;
    return (prefix *)memory + 1;
}

static void zlib_free(voidpf user, voidpf memory)
{
    prefix *start = (prefix *)memory - 1;
    lki_free(user, start, start->bytes);
}

static lks_status resize(buffer *out, size_t size)
{
    void *moved;
    LKI_TRY(lki_alloc(out->context, &moved, size, out->path));
    if (out->used) memcpy(moved, out->data, out->used);
    lki_free(out->context, out->data, out->size);
    out->data = moved;
    out->size = size;
    return LKS_OK;
}

/* A claimed size is taken at its word where it is likely: it saves growing, and nothing depends on it. */
static size_t first_size(size_t claimed, size_t bytes)
{
    return claimed > 0 && claimed / LIKELY_RATIO < bytes ? claimed : FIRST_ROOM;
}

/* The last four bytes of gzip say the size modulo 2^32 if there is one member. */
static size_t gzip_size(const uint8_t *data, size_t bytes)
{
    if (bytes < 18) return 0; /* shorter than the shortest gzip file */
    const uint8_t *end = data + bytes - 4;
    return (size_t)end[0] | (size_t)end[1] << 8 | (size_t)end[2] << 16 | (size_t)end[3] << 24;
}

static lks_status fail_damaged(const buffer *out, const z_stream *stream, size_t at, size_t bytes)
{
    return LKI_FAIL(
        LKS_E_FORMAT, "'%s': the %s data is damaged near byte %zu of %zu (%s); get the file again",
        out->path, out->kind, at, bytes, stream->msg ? stream->msg : "it needs a dictionary");
}

/* Behind a call for which either input or room was missing. */
static lks_status make_room(buffer *out, size_t bytes)
{
    if (out->used < out->size) /* so input is what is missing */
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s': the %s data ends too early, after %zu byte%s; the file is "
                        "truncated, get it again",
                        out->path, out->kind, bytes, LKI_S(bytes));
    if (out->size == out->most)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s': the %s data gives more than the %zu byte%s that the file says; it "
                        "is damaged, get it again",
                        out->path, out->kind, out->most, LKI_S(out->most));
    return resize(out, out->size < out->most / 2 ? out->size * 2 : out->most);
}

/* Inflates one member; the stream's input stays where the member ends. */
static lks_status inflate_member(z_stream *stream, buffer *out, const uint8_t *end, size_t bytes)
{
    for (;;) {
        const size_t input = (size_t)(end - stream->next_in), space = out->size - out->used;
        stream->avail_in = input < UINT_MAX ? (uInt)input : UINT_MAX;
        stream->avail_out = space < UINT_MAX ? (uInt)space : UINT_MAX;
        stream->next_out = out->data + out->used;
        const int code = inflate(stream, Z_NO_FLUSH);
        out->used = (size_t)(stream->next_out - out->data);
        if (code == Z_STREAM_END) return LKS_OK;
        if (code == Z_MEM_ERROR) return LKS_E_NOMEM; /* zlib_alloc made the sentence */
        if (code != Z_OK && code != Z_BUF_ERROR)
            return fail_damaged(out, stream, (size_t)(stream->next_in - (end - bytes)), bytes);
        if (code != Z_OK) LKI_TRY(make_room(out, bytes));
    }
}

static lks_status inflate_all(z_stream *stream, buffer *out, const uint8_t *data, size_t bytes)
{
    const uint8_t *end = data + bytes;
    stream->next_in = (Bytef *)(uintptr_t)data; /* zlib does not write there */
    for (;;) {
        LKI_TRY(inflate_member(stream, out, end, bytes));
        const size_t rest = (size_t)(end - stream->next_in);
        if (rest == 0) return LKS_OK;
        if (!lki_gzip_is(stream->next_in, rest)) {
            return LKI_FAIL(LKS_E_FORMAT,
                            "'%s': %zu byte%s the end of the %s data, expected none; get "
                            "the file again",
                            out->path, rest, rest == 1 ? " follows" : "s follow", out->kind);
        }
        inflateReset(stream);
    }
}

/* `window` says zlib which frame there is; `claimed` how much may come of it. */
static lks_status unpack(lki_file *out, buffer *inflated, int window, size_t claimed,
                         const uint8_t *data, size_t bytes)
{
    z_stream stream = {.zalloc = zlib_alloc, .zfree = zlib_free, .opaque = out->context};
    const int code = inflateInit2(&stream, window);
    if (code == Z_MEM_ERROR) return LKS_E_NOMEM; /* zlib_alloc made the sentence */
    if (code != Z_OK) {
        return LKI_FAIL(LKS_E_BUG, "zlib %s does not fit %s", zlibVersion(), ZLIB_VERSION);
    }
    inflated->context = out->context;
    const size_t first = first_size(claimed, bytes);
    lks_status status = resize(inflated, first < inflated->most ? first : inflated->most);
    if (status == LKS_OK) status = inflate_all(&stream, inflated, data, bytes);
    inflateEnd(&stream);
    if (status == LKS_OK && inflated->used < inflated->size) {
        status = resize(inflated, inflated->used);
    }
    if (status != LKS_OK) {
        lki_free(inflated->context, inflated->data, inflated->size);
        return status;
    }
    out->data = inflated->data;
    out->bytes = inflated->used;
    return LKS_OK;
}

lks_status lki_gzip_inflate(lki_file *out, const uint8_t *data, size_t bytes, const char *path)
{
    buffer inflated = {.kind = "gzip", .path = path, .most = SIZE_MAX};
    return unpack(out, &inflated, 16 + MAX_WBITS, gzip_size(data, bytes), data, bytes);
}

lks_status lki_deflate_inflate(lki_file *out, const uint8_t *data, size_t bytes, size_t size,
                               const char *path)
{
    buffer inflated = {.kind = "deflate", .path = path, .most = size};
    LKI_TRY(unpack(out, &inflated, -MAX_WBITS, size, data, bytes));
    if (out->bytes == size) return LKS_OK;
    const size_t found = out->bytes;
    lki_free(inflated.context, inflated.data, inflated.size);
    *out = (lki_file){.context = out->context};
    return LKI_FAIL(LKS_E_FORMAT,
                    "'%s': the deflate data gives %zu byte%s, fewer than the %zu that the file "
                    "says; it is damaged, get it again",
                    path, found, LKI_S(found), size);
}

uint32_t lki_crc32(const uint8_t *data, size_t bytes)
{
    return (uint32_t)crc32_z(crc32_z(0, Z_NULL, 0), data, bytes);
}

void lki_zlib_version(char *out, size_t size)
{
    snprintf(out, size, "zlib %s", zlibVersion());
}

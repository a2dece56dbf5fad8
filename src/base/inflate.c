/* gzip files in memory, by zlib. */
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

static lks_status resize(buffer *out, size_t size, const char *path)
{
    void *moved;
    LKI_TRY(lki_alloc(out->context, &moved, size, path));
    if (out->used) memcpy(moved, out->data, out->used);
    lki_free(out->context, out->data, out->size);
    out->data = moved;
    out->size = size;
    return LKS_OK;
}

/* The last four bytes say the size modulo 2^32 if there is one member. Where that is likely, it
 * saves growing; nothing depends on it. */
static size_t first_size(const uint8_t *data, size_t bytes)
{
    if (bytes < 18) return FIRST_ROOM; /* shorter than the shortest gzip file */
    const uint8_t *end = data + bytes - 4;
    const size_t claimed = (size_t)end[0] | (size_t)end[1] << 8 | (size_t)end[2] << 16 |
                           (size_t)end[3] << 24;
    return claimed > 0 && claimed / LIKELY_RATIO < bytes ? claimed : FIRST_ROOM;
}

static lks_status fail_damaged(const char *path, const z_stream *stream, size_t at, size_t bytes)
{
    return LKI_FAIL(LKS_E_FORMAT,
                    "'%s': the gzip data is damaged near byte %zu of %zu (%s); get the file again",
                    path, at, bytes, stream->msg ? stream->msg : "it needs a dictionary");
}

/* Inflates one member; the stream's input stays where the member ends. */
static lks_status inflate_member(z_stream *stream, buffer *out, const uint8_t *end,
                                 const char *path, size_t bytes)
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
        if (code != Z_OK && code != Z_BUF_ERROR) {
            return fail_damaged(path, stream, (size_t)(stream->next_in - (end - bytes)), bytes);
        }
        if (code == Z_OK) continue;
        if (out->used < out->size) { /* there was space, so input is what is missing */
            return LKI_FAIL(LKS_E_FORMAT,
                            "'%s': the gzip data ends too early, after %zu byte%s; the file is "
                            "truncated, get it again",
                            path, bytes, LKI_S(bytes));
        }
        LKI_TRY(resize(out, out->size * 2, path));
    }
}

static lks_status inflate_all(z_stream *stream, buffer *out, const uint8_t *data, size_t bytes,
                              const char *path)
{
    const uint8_t *end = data + bytes;
    LKI_TRY(resize(out, first_size(data, bytes), path));
    stream->next_in = (Bytef *)(uintptr_t)data; /* zlib does not write there */
    for (;;) {
        LKI_TRY(inflate_member(stream, out, end, path, bytes));
        const size_t rest = (size_t)(end - stream->next_in);
        if (rest == 0) return LKS_OK;
        if (!lki_gzip_is(stream->next_in, rest)) {
            return LKI_FAIL(LKS_E_FORMAT,
                            "'%s': %zu byte%s the end of the gzip data, expected none; get "
                            "the file again",
                            path, rest, rest == 1 ? " follows" : "s follow");
        }
        inflateReset(stream);
    }
}

lks_status lki_gzip_inflate(lki_file *out, const uint8_t *data, size_t bytes, const char *path)
{
    z_stream stream = {.zalloc = zlib_alloc, .zfree = zlib_free, .opaque = out->context};
    const int code = inflateInit2(&stream, 16 + MAX_WBITS); /* gzip, with its checks */
    if (code == Z_MEM_ERROR) return LKS_E_NOMEM;            /* zlib_alloc made the sentence */
    if (code != Z_OK) {
        return LKI_FAIL(LKS_E_BUG, "zlib %s does not fit %s", zlibVersion(), ZLIB_VERSION);
    }
    buffer inflated = {.context = out->context};
    lks_status status = inflate_all(&stream, &inflated, data, bytes, path);
    inflateEnd(&stream);
    if (status == LKS_OK && inflated.used < inflated.size) {
        status = resize(&inflated, inflated.used, path);
    }
    if (status != LKS_OK) {
        lki_free(inflated.context, inflated.data, inflated.size);
        return status;
    }
    out->data = inflated.data;
    out->bytes = inflated.used;
    return LKS_OK;
}

void lki_zlib_version(char *out, size_t size)
{
    snprintf(out, size, "zlib %s", zlibVersion());
}

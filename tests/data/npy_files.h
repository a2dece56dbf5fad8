/* .npy files and zip archives in memory, byte by byte. */
#ifndef LKT_DATA_NPY_FILES_H
#define LKT_DATA_NPY_FILES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "support/test.h"

enum { MOST = 256 * 1024 };

typedef struct bytes {
    uint8_t data[MOST];
    size_t count;
} bytes;

static inline void put(bytes *to, const void *from, size_t count)
{
    assert_true(to->count + count <= MOST);
    memcpy(to->data + to->count, from, count);
    to->count += count;
}

static inline void put_number(bytes *to, uint64_t value, int count)
{
    for (int i = 0; i < count; i++) {
        const uint8_t byte = (uint8_t)(value >> 8 * i);
        put(to, &byte, 1);
    }
}

static inline void write_bytes(const char *path, const bytes *from)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(from->data, 1, from->count, file), from->count);
    assert_int_equal(fclose(file), 0);
}

/* A file with this header, and nothing behind it. */
static inline void put_header(bytes *to, int version, const char *header)
{
    const uint8_t start[] = {0x93, 'N', 'U', 'M', 'P', 'Y', (uint8_t)version, 0};
    to->count = 0;
    put(to, start, sizeof start);
    put_number(to, strlen(header), version == 1 ? 2 : 4);
    put(to, header, strlen(header));
}

/* The usual header; shape as "(3, 4)". */
static inline void put_npy(bytes *to, const char *type, bool fortran, const char *shape)
{
    char header[200];
    snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }    \n",
             type, fortran ? "True" : "False", shape);
    put_header(to, 1, header);
}

typedef struct member {
    const char *name;
    const bytes *content;
    int method;           /* 0, or 8, or what is no method */
    bool wide, encrypted; /* numbers in the fields of zip64; the mark of encryption alone */
} member;

/* Raw deflate data of `from` in `to`. */
static inline void deflate_into(bytes *to, const bytes *from)
{
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)from->data,
                       .avail_in = (uInt)from->count,
                       .next_out = to->data,
                       .avail_out = MOST};
    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    to->count = MOST - stream.avail_out;
    deflateEnd(&stream);
}

/* An archive as Python's zipfile writes it: lengths of members in zip64's field of their headers. */
static inline void make_zip(bytes *to, const member *members, int count, bool wide_end)
{
    static bytes packed;
    uint64_t at[16], size[16];
    to->count = 0;
    for (int i = 0; i < count; i++) {
        const member *m = &members[i];
        const bytes *stored = m->content;
        if (m->method == 8) {
            deflate_into(&packed, m->content);
            stored = &packed;
        }
        at[i] = to->count;
        size[i] = stored->count;
        put_number(to, 0x04034b50, 4);
        put_number(to, 45, 2);
        put_number(to, m->encrypted, 2);
        put_number(to, (uint64_t)m->method, 2);
        put_number(to, 0, 4);
        put_number(to, crc32(0, m->content->data, (uInt)m->content->count), 4);
        put_number(to, UINT64_MAX, 8);
        put_number(to, strlen(m->name), 2);
        put_number(to, 20, 2);
        put(to, m->name, strlen(m->name));
        put_number(to, 1, 2);
        put_number(to, 16, 2);
        put_number(to, m->content->count, 8);
        put_number(to, size[i], 8);
        put(to, stored->data, stored->count);
    }
    const uint64_t list = to->count;
    for (int i = 0; i < count; i++) {
        const member *m = &members[i];
        put_number(to, 0x02014b50, 4);
        put_number(to, 45, 2);
        put_number(to, 45, 2);
        put_number(to, m->encrypted, 2);
        put_number(to, (uint64_t)m->method, 2);
        put_number(to, 0, 4);
        put_number(to, crc32(0, m->content->data, (uInt)m->content->count), 4);
        put_number(to, m->wide ? UINT32_MAX : size[i], 4);
        put_number(to, m->wide ? UINT32_MAX : m->content->count, 4);
        put_number(to, strlen(m->name), 2);
        put_number(to, m->wide ? 33 : 0, 2);
        put_number(to, 0, 6);
        put_number(to, 0, 4);
        put_number(to, m->wide ? UINT32_MAX : at[i], 4);
        put(to, m->name, strlen(m->name));
        if (!m->wide) continue;
        put_number(to, 0x5455, 2); /* a field of another kind comes first */
        put_number(to, 1, 2);
        put_number(to, 7, 1);
        put_number(to, 1, 2);
        put_number(to, 24, 2);
        put_number(to, m->content->count, 8);
        put_number(to, size[i], 8);
        put_number(to, at[i], 8);
    }
    const uint64_t bytes_of_list = to->count - list;
    if (wide_end) {
        const uint64_t end = to->count;
        put_number(to, 0x06064b50, 4);
        put_number(to, 44, 8);
        put_number(to, 45 << 16 | 45, 4);
        put_number(to, 0, 8);
        put_number(to, (uint64_t)count, 8);
        put_number(to, (uint64_t)count, 8);
        put_number(to, bytes_of_list, 8);
        put_number(to, list, 8);
        put_number(to, 0x07064b50, 4);
        put_number(to, 0, 4);
        put_number(to, end, 8);
        put_number(to, 1, 4);
    }
    put_number(to, 0x06054b50, 8);
    put_number(to, (uint64_t)count, 2);
    put_number(to, (uint64_t)count, 2);
    put_number(to, wide_end ? UINT32_MAX : bytes_of_list, 4);
    put_number(to, wide_end ? UINT32_MAX : list, 4);
    put_number(to, 0, 2);
}

#endif

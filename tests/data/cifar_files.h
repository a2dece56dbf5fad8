/* Files of CIFAR in a folder of a test: samples by formula, in each of the forms they are published in. */
#ifndef LKT_DATA_CIFAR_FILES_H
#define LKT_DATA_CIFAR_FILES_H

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#include "data/folder.h"

enum { PIXELS = 3072, MOST = 64 * 1024 };

typedef struct bytes {
    uint8_t data[MOST];
    size_t count;
} bytes;

static void put(bytes *to, const void *from, size_t count)
{
    assert_true(to->count + count <= MOST);
    memcpy(to->data + to->count, from, count);
    to->count += count;
}

static void put_byte(bytes *to, int value)
{
    const uint8_t byte = (uint8_t)value;
    put(to, &byte, 1);
}

/* Channel c of pixel i of sample `id`. */
static uint8_t pixel(int id, int i, int c)
{
    return (uint8_t)(id * 31 + i * 7 + c * 101);
}

static void put_pixels(bytes *to, int id)
{
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < PIXELS / 3; i++) put_byte(to, pixel(id, i, c));
}

/* Samples [first, first + count); label id % 10, or coarse id % 20 and fine id % 100. */
static void records(bytes *out, int first, int count, bool two_labels)
{
    out->count = 0;
    for (int id = first; id < first + count; id++) {
        if (two_labels) put_byte(out, id % 20);
        put_byte(out, two_labels ? id % 100 : id % 10);
        put_pixels(out, id);
    }
}

static void put_length(bytes *to, char op, size_t length)
{
    const uint8_t b[] = {(uint8_t)op, (uint8_t)length, (uint8_t)(length >> 8), 0, 0};
    put(to, b, 5);
}

static void put_text(bytes *to, const char *text)
{
    put_byte(to, 'U');
    put_byte(to, (int)strlen(text));
    put(to, text, strlen(text));
}

static void put_labels(bytes *to, const char *key, int first, int count, int classes)
{
    put_text(to, key);
    put(to, "]q\004(", 4);
    for (int id = first; id < first + count; id++) {
        put_byte(to, 'K');
        put_byte(to, id % classes);
    }
    put(to, "e", 1);
}

/* A literal, with the zero bytes in it. */
#define PUT(to, literal) put(to, literal, sizeof(literal) - 1)

/* As Python 2 with NumPy has written those of CIFAR, opcode by opcode. */
static void pickled(bytes *out, int first, int count, bool two_labels)
{
    out->count = 0;
    PUT(out, "\x80\002}q\001(");
    put_text(out, "batch_label");
    PUT(out, "q\002");
    put_text(out, "training batch 1 of 5");
    put_labels(out, two_labels ? "fine_labels" : "labels", first, count, two_labels ? 100 : 10);
    put_text(out, "data");
    PUT(out,
        "q\005cnumpy.core.multiarray\n_reconstruct\nq\006cnumpy\nndarray\nq\007K\0\x85q\010U\001b"
        "\x87q\011Rq\012(K\001K");
    put_byte(out, count);
    PUT(out,
        "M\0\014\x86q\013cnumpy\ndtype\nq\014U\002u1K\0K\001\x87q\015Rq\016(K\003U\001|q\017NNN"
        "J\377\377\377\377J\377\377\377\377K\0tb\x89");
    put_length(out, 'T', (size_t)count * PIXELS);
    for (int id = first; id < first + count; id++) put_pixels(out, id);
    PUT(out, "tb");
    if (two_labels) put_labels(out, "coarse_labels", first, count, 20);
    PUT(out, "u.");
}

static const char *in(const char *name)
{
    static char path[4200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const void *data, size_t count)
{
    FILE *file = fopen(in(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static void write_packed(const char *name, const void *data, size_t count)
{
    gzFile file = gzopen(in(name), "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, data, (unsigned)count), (int)count);
    assert_int_equal(gzclose(file), Z_OK);
}

/* A member of a tar archive. */
static void put_member(bytes *to, const char *name, char type, const void *data, size_t count)
{
    char header[512] = "";
    snprintf(header, 100, "%s", name);
    snprintf(header + 124, 12, "%011o", (unsigned)count);
    header[156] = type;
    memset(header + 148, ' ', 8);
    unsigned sum = 0;
    for (int i = 0; i < 512; i++) sum += (uint8_t)header[i];
    snprintf(header + 148, 8, "%06o", sum);
    put(to, header, 512);
    put(to, data, count);
    while (to->count % 512 != 0) put_byte(to, 0);
}

#endif

#include "recipe/board/message.h"

#include <stdlib.h>
#include <string.h>

enum { VARINT = 0, BITS_64 = 1, LENGTH = 2, BITS_32 = 5, VARINT_MOST = 10 };

static uint8_t *more(lki_message *m, size_t bytes)
{
    if (m->failed) return NULL;
    if (bytes > m->room - m->used) {
        const size_t room = 2 * m->room + bytes + 256;
        uint8_t *data = realloc(m->data, room);
        m->failed = data == NULL;
        if (m->failed) return NULL;
        m->data = data;
        m->room = room;
    }
    m->used += bytes;
    return m->data + m->used - bytes;
}

void lki_message_raw(lki_message *m, uint64_t value, int bytes)
{
    uint8_t *at = more(m, (size_t)bytes);
    for (int i = 0; at != NULL && i < bytes; i++) at[i] = (uint8_t)(value >> 8 * i);
}

/* Seven bits a byte, the lowest first; returns how many bytes. */
static int print_varint(uint8_t out[VARINT_MOST], uint64_t value)
{
    int bytes = 0;
    for (; value >= 0x80; value >>= 7) out[bytes++] = (uint8_t)(value | 0x80);
    out[bytes++] = (uint8_t)value;
    return bytes;
}

static void add_varint(lki_message *m, uint64_t value)
{
    uint8_t text[VARINT_MOST];
    const int bytes = print_varint(text, value);
    uint8_t *at = more(m, (size_t)bytes);
    if (at != NULL) memcpy(at, text, (size_t)bytes);
}

static void add_tag(lki_message *m, int field, int type)
{
    add_varint(m, (uint64_t)field << 3 | (uint64_t)type);
}

void lki_message_int(lki_message *m, int field, uint64_t value)
{
    add_tag(m, field, VARINT);
    add_varint(m, value);
}

void lki_message_float(lki_message *m, int field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    add_tag(m, field, BITS_32);
    lki_message_raw(m, bits, sizeof bits);
}

static void add_double(lki_message *m, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    lki_message_raw(m, bits, sizeof bits);
}

void lki_message_double(lki_message *m, int field, double value)
{
    add_tag(m, field, BITS_64);
    add_double(m, value);
}

void lki_message_doubles(lki_message *m, int field, const double *value, int64_t count)
{
    const size_t opened = lki_message_open(m, field);
    for (int64_t i = 0; i < count; i++) add_double(m, value[i]);
    lki_message_close(m, opened);
}

void lki_message_bytes(lki_message *m, int field, const void *data, size_t bytes)
{
    add_tag(m, field, LENGTH);
    add_varint(m, bytes);
    uint8_t *at = more(m, bytes);
    if (at != NULL && bytes > 0) memcpy(at, data, bytes);
}

void lki_message_text(lki_message *m, int field, const char *text)
{
    lki_message_bytes(m, field, text, strlen(text));
}

size_t lki_message_open(lki_message *m, int field)
{
    add_tag(m, field, LENGTH);
    (void)more(m, 1); /* of its length, which is not known yet; mostly it is no more */
    return m->used;
}

void lki_message_close(lki_message *m, size_t opened)
{
    uint8_t text[VARINT_MOST];
    if (m->failed) return;
    const size_t bytes = m->used - opened;
    const int length = print_varint(text, bytes);
    if (more(m, (size_t)length - 1) == NULL) return;
    memmove(m->data + opened + length - 1, m->data + opened, bytes);
    memcpy(m->data + opened - 1, text, (size_t)length);
}

/* A reader of event files, as they are defined: every checksum is looked at. */
#ifndef LKT_RECIPE_EVENTS_H
#define LKT_RECIPE_EVENTS_H

#include <dirent.h>
#include <math.h>

#include "cli/program.h"

enum { MOST_LINES = 400, LINE = 160 };

/* Lines "tag step value" of a folder, as read_events.py prints them. */
static char lines[MOST_LINES][LINE];
static int line_count, file_count;

typedef struct part {
    const uint8_t *at, *end;
} part;

static inline uint64_t varint(part *b)
{
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        assert_true(b->at < b->end && shift < 64);
        value |= (uint64_t)(*b->at & 0x7f) << shift;
        if ((*b->at++ & 0x80) == 0) return value;
    }
}

/* The next field: its number, with its bytes, or its value in *number. */
static inline int field(part *b, part *in, uint64_t *number)
{
    const uint64_t tag = varint(b);
    *in = *b;
    *number = 0;
    if ((tag & 7) == 0) {
        *number = varint(b);
        return (int)(tag >> 3);
    }
    assert_int_not_equal(tag & 7, 3);
    const uint64_t length = (tag & 7) == 1 ? 8 : (tag & 7) == 5 ? 4 : varint(b);
    assert_true(length <= (uint64_t)(b->end - b->at));
    *in = (part){b->at, b->at + length};
    b->at += length;
    return (int)(tag >> 3);
}

static inline double real(part b)
{
    double value = 0;
    float small;
    if (b.end - b.at == 4) {
        memcpy(&small, b.at, sizeof small);
        return (double)small;
    }
    assert_int_equal(b.end - b.at, 8);
    memcpy(&value, b.at, sizeof value);
    return value;
}

static inline void read_histogram(part b, const char *tag, int64_t step)
{
    double head[5] = {0}, count = 0;
    ptrdiff_t limits = 0, buckets = 0;
    uint64_t number;
    while (b.at < b.end) {
        part in;
        const int what = field(&b, &in, &number);
        if (what < 6) head[what - 1] = real(in);
        if (what == 6) limits = (in.end - in.at) / 8;
        if (what == 7) buckets = (in.end - in.at) / 8;
        for (; what == 7 && in.at < in.end; in.at += 8) count += real((part){in.at, in.at + 8});
    }
    assert_true(count == head[2] && limits == buckets && buckets > 0);
    snprintf(lines[line_count++], LINE, "%s %lld %.9g %.9g %.9g", tag, (long long)step, head[2],
             head[0], head[1]);
}

/* The last image that was read, as the file that it is. */
static uint8_t image[1 << 14];
static size_t image_bytes;

static inline void read_image(part b, const char *tag, int64_t step)
{
    uint64_t head[3] = {0}, number;
    unsigned long sum = 0;
    while (b.at < b.end) {
        part in;
        const int what = field(&b, &in, &number);
        if (what < 4) head[what - 1] = number;
        if (what < 4) continue;
        image_bytes = (size_t)(in.end - in.at);
        assert_true(what == 4 && image_bytes <= sizeof image);
        memcpy(image, in.at, image_bytes);
        for (size_t i = 0; i < image_bytes; i++) sum += image[i];
    }
    assert_true(head[2] == 1 || head[2] == 3);
    snprintf(lines[line_count++], LINE, "%s %lld %d %d %lu", tag, (long long)step, (int)head[0],
             (int)head[1], sum);
}

static inline void read_value(part b, int64_t step)
{
    char tag[80] = "";
    uint64_t number;
    assert_true(line_count < MOST_LINES);
    while (b.at < b.end) {
        part in;
        const int what = field(&b, &in, &number);
        if (what == 1) snprintf(tag, sizeof tag, "%.*s", (int)(in.end - in.at), in.at);
        if (what == 2)
            snprintf(lines[line_count++], LINE, "%s %lld %.9g", tag, (long long)step, real(in));
        if (what == 4) read_image(in, tag, step);
        if (what == 5) read_histogram(in, tag, step);
    }
}

static inline void read_event(part b, bool first)
{
    static const char version[] = "brain.Event:2";
    int64_t step = 0;
    uint64_t number;
    bool versioned = false;
    while (b.at < b.end) {
        part in, value;
        const int what = field(&b, &in, &number);
        if (what == 2) step = (int64_t)number;
        if (what == 3) versioned = memcmp(in.at, version, sizeof version - 1) == 0;
        while (what == 5 && in.at < in.end)
            if (field(&in, &value, &number) == 1) read_value(value, step);
    }
    assert_int_equal(versioned, first);
}

static inline uint64_t number_of(const uint8_t *at, int count)
{
    uint64_t value = 0;
    for (int i = count; i-- > 0;) value = value << 8 | at[i];
    return value;
}

/* The definition of the checksum by division, where the library has a loop of shifts to the right. */
static inline uint32_t checksum(const uint8_t *data, size_t count)
{
    uint64_t left = UINT32_MAX;
    uint32_t crc = 0;
    for (size_t i = 0; i < count * 8; i++) {
        const uint64_t bit = data[i / 8] >> i % 8 & 1;
        left ^= bit << 31;
        left <<= 1;
        if ((left >> 32) != 0) left ^= 0x11edc6f41u;
    }
    for (int i = 0; i < 32; i++) crc |= (uint32_t)(left >> i & 1) << (31 - i);
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static inline void read_file(const char *path)
{
    static uint8_t data[1 << 20];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t count = fread(data, 1, sizeof data, file);
    fclose(file);
    assert_true(count > 0 && count < sizeof data);
    for (size_t at = 0, length; at < count; at += 16 + length) {
        assert_true(count - at >= 16);
        length = number_of(data + at, 8);
        assert_true(length <= count - at - 16);
        assert_int_equal(number_of(data + at + 8, 4), checksum(data + at, 8));
        assert_int_equal(number_of(data + at + 12 + length, 4), checksum(data + at + 12, length));
        read_event((part){data + at + 12, data + at + 12 + length}, at == 0);
    }
    file_count++;
}

static inline int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

static inline void read_events(const char *name)
{
    DIR *open = opendir(in_folder(name));
    assert_non_null(open);
    line_count = file_count = 0;
    for (const struct dirent *entry; (entry = readdir(open)) != NULL;) {
        char path[600];
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", name, entry->d_name);
        read_file(in_folder(path));
    }
    closedir(open);
    qsort(lines, (size_t)line_count, LINE, by_text);
}

/* The value of a curve at a step; it has one there, and only one. */
static inline double curve(const char *tag, int64_t step)
{
    char begin[100];
    double value = NAN;
    int found = 0;
    snprintf(begin, sizeof begin, "%s %lld ", tag, (long long)step);
    for (int i = 0; i < line_count; i++) {
        if (strncmp(lines[i], begin, strlen(begin)) != 0) continue;
        value = (double)strtof(lines[i] + strlen(begin), NULL);
        found++;
    }
    if (found != 1) fail_msg("%s has %d values at %lld", tag, found, (long long)step);
    return value;
}

static inline int values_of(const char *tag)
{
    int count = 0;
    for (int i = 0; i < line_count; i++)
        count += strncmp(lines[i], tag, strlen(tag)) == 0 && lines[i][strlen(tag)] == ' ';
    return count;
}

#endif

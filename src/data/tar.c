#include "data/tar.h"

#include <stdbool.h>
#include <string.h>

#include "base/check.h"

/*
 * A member is a header of one block and its bytes, filled up to whole blocks; two blocks of zeros end an
 * archive. Format: POSIX.1-2017, pax, "ustar Interchange Format".
 */
enum {
    BLOCK = 512,
    NAME = 0,
    NAME_BYTES = 100,
    SIZE = 124,
    SIZE_BYTES = 12,
    SUM = 148,
    SUM_BYTES = 8,
    TYPE = 156
};

/* Octal digits between spaces or zero bytes; false where there is anything else. */
static bool octal(const uint8_t *field, int bytes, uint64_t *out)
{
    int i = 0;
    *out = 0;
    while (i < bytes && field[i] == ' ') i++;
    const int first = i;
    for (; i < bytes && field[i] >= '0' && field[i] <= '7'; i++)
        *out = *out * 8 + (uint64_t)(field[i] - '0');
    return i > first && (i == bytes || field[i] == ' ' || field[i] == '\0');
}

/* The sum of a header's bytes, with spaces in its own place. */
static bool sum_is_right(const uint8_t *header)
{
    uint64_t expected, sum = 0;
    for (int i = 0; i < BLOCK; i++) sum += i >= SUM && i < SUM + SUM_BYTES ? ' ' : header[i];
    return octal(header + SUM, SUM_BYTES, &expected) && sum == expected;
}

static bool is_empty(const uint8_t *header)
{
    for (int i = 0; i < BLOCK; i++)
        if (header[i] != 0) return false;
    return true;
}

/* A file, and its last part of the path is the name. */
static bool is_wanted(const uint8_t *header, const char *name)
{
    const char *own = (const char *)header + NAME;
    const size_t length = strnlen(own, NAME_BYTES), wanted = strlen(name);
    if ((header[TYPE] != '0' && header[TYPE] != '\0') || length < wanted) return false;
    const size_t before = length - wanted;
    return memcmp(own + before, name, wanted) == 0 && (before == 0 || own[before - 1] == '/');
}

lks_status lki_tar_find(const uint8_t **out, size_t *size, const uint8_t *data, size_t bytes,
                        const char *path, const char *name)
{
    *out = NULL;
    *size = 0;
    for (size_t at = 0; at < bytes;) {
        const uint8_t *header = data + at;
        uint64_t length;
        if (bytes - at < BLOCK)
            return LKI_FAIL(
                LKS_E_FORMAT,
                "'%s': the tar archive ends within a header, at byte %zu; it is truncated, "
                "copy or download it again",
                path, at);
        if (is_empty(header)) return LKS_OK;
        if (!sum_is_right(header) || !octal(header + SIZE, SIZE_BYTES, &length))
            return LKI_FAIL(
                LKS_E_FORMAT,
                "'%s': byte %zu is no header of a tar archive, expected one; it is damaged or "
                "another kind of file, copy or download it again",
                path, at);
        const size_t rest = bytes - at - BLOCK;
        if (length > rest)
            return LKI_FAIL(
                LKS_E_FORMAT,
                "'%s': the tar archive ends within '%.100s', after %zu of %llu bytes; it is "
                "truncated, copy or download it again",
                path, (const char *)header + NAME, rest, (unsigned long long)length);
        if (is_wanted(header, name)) {
            *out = header + BLOCK;
            *size = (size_t)length;
            return LKS_OK;
        }
        const size_t filled = ((size_t)length + BLOCK - 1) / BLOCK * BLOCK;
        at += BLOCK + (filled < rest ? filled : rest);
    }
    return LKS_OK;
}

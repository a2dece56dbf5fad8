/* Files of a test's folder, and pictures in them. */
#ifndef LKT_DATA_PICTURES_H
#define LKT_DATA_PICTURES_H

#include "data/folder.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "data/pictures/picture.h"
#include "data/png_file.h"

static inline const char *in_folder(const char *name)
{
    static char path[4][4096];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static inline uint8_t *read_bytes(const char *path, size_t *count)
{
    struct stat about;
    FILE *file = fopen(path, "rb");
    if (file == NULL) fail_msg("%s is missing", path);
    assert_int_equal(fstat(fileno(file), &about), 0);
    *count = (size_t)about.st_size;
    uint8_t *bytes = malloc(*count + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *count, file), *count);
    fclose(file);
    return bytes;
}

static inline void write_bytes(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

/* Decodes a file in its own size. */
static inline lks_status decode(uint8_t *out, const char *path, int height, int width)
{
    size_t count;
    uint8_t *bytes = read_bytes(path, &count);
    lki_resize r = {.context = context, .height = height, .width = width};
    const lks_status status = lki_picture_read(out, &r, bytes, count);
    lki_resize_free(&r);
    free(bytes);
    return status;
}

#endif

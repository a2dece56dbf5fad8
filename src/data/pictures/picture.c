#include "data/pictures/picture.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "base/memory.h"

static bool begins(const uint8_t *data, size_t bytes, const char *with, size_t count)
{
    return bytes >= count && memcmp(data, with, count) == 0;
}

/* For sentences: what a file is that is often found beside JPEG and PNG. */
static const char *other_kind(const uint8_t *data, size_t bytes)
{
    static const struct {
        const char *with;
        size_t count;
        const char *name;
    } kinds[] = {{"GIF8", 4, "GIF"},      {"RIFF", 4, "WebP"},
                 {"BM", 2, "BMP"},        {"II*\0", 4, "TIFF"},
                 {"MM\0*", 4, "TIFF"},    {"\0\0\0", 3, "AVIF, HEIC or a film"},
                 {"<", 1, "HTML or SVG"}, {"%PDF", 4, "PDF"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (begins(data, bytes, kinds[i].with, kinds[i].count)) return kinds[i].name;
    return "something else";
}

lks_status lki_picture_read(uint8_t *out, lki_resize *to, const uint8_t *data, size_t bytes)
{
    if (bytes == 0) return LKI_FAIL(LKS_E_FORMAT, "the file is empty");
    if (begins(data, bytes, "\xff\xd8\xff", 3))
        LKI_TRY(lki_jpeg_decode(to, data, bytes));
    else if (begins(data, bytes, "\x89PNG\r\n\x1a\n", 8))
        LKI_TRY(lki_png_decode(to, data, bytes));
    else
        return LKI_FAIL(LKS_E_FORMAT, "it is no JPEG and no PNG, but %s by its first bytes",
                        other_kind(data, bytes));
    lki_resize_end(to, out);
    return LKS_OK;
}

/* ---------------------------------------------------------------- files */

static lks_status fail_reading(int error)
{
    return LKI_FAIL(LKS_E_FORMAT, "the file cannot be read: %s", strerror(error));
}

static lks_status make_room(lki_picture_reader *r, size_t bytes)
{
    void *memory;
    if (bytes <= r->room) return LKS_OK;
    lki_free(r->resize.context, r->file, r->room);
    r->file = NULL;
    r->room = 0;
    LKI_TRY(lki_alloc(r->resize.context, &memory, bytes, "a picture's file"));
    r->file = memory;
    r->room = bytes;
    return LKS_OK;
}

/* Read, not mapped: somebody may cut the file off meanwhile. */
static lks_status read_open(size_t *bytes, lki_picture_reader *r, int descriptor)
{
    struct stat about;
    *bytes = 0;
    if (fstat(descriptor, &about) != 0) return fail_reading(errno);
    if (!S_ISREG(about.st_mode)) return LKI_FAIL(LKS_E_FORMAT, "it is no file");
    if (about.st_size > LKI_PICTURE_FILE)
        return LKI_FAIL(LKS_E_FORMAT, "the file has more than %d MB", LKI_PICTURE_FILE >> 20);
    LKI_TRY(make_room(r, (size_t)about.st_size));
    while (*bytes < (size_t)about.st_size) {
        const ssize_t some = read(descriptor, r->file + *bytes, (size_t)about.st_size - *bytes);
        if (some < 0 && errno == EINTR) continue;
        if (some < 0) return fail_reading(errno);
        if (some == 0) break;
        *bytes += (size_t)some;
    }
    return LKS_OK;
}

lks_status lki_picture_load(uint8_t *out, lki_picture_reader *reader, const char *path)
{
    size_t bytes;
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
        return lki_fail_io("open", path, errno);
    if (descriptor < 0) return fail_reading(errno);
    const lks_status status = read_open(&bytes, reader, descriptor);
    close(descriptor);
    if (status != LKS_OK) return status;
    return lki_picture_read(out, &reader->resize, reader->file, bytes);
}

void lki_picture_reader_free(lki_picture_reader *reader)
{
    lki_resize_free(&reader->resize);
    lki_free(reader->resize.context, reader->file, reader->room);
    reader->file = NULL;
    reader->room = 0;
}

#include "data/pictures/picture.h"

#include <string.h>

#include "base/check.h"

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
    return "nothing that is known";
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

#include "data/pictures/exif.h"

#include <stdbool.h>
#include <string.h>

enum { UPRIGHT = 1, ENTRY = 12, ORIENTATION = 274, SHORT = 3 };

/* TIFF in a marker, in either order of bytes. */
typedef struct tiff {
    const uint8_t *data;
    size_t bytes;
    bool big;
} tiff;

/* `count` bytes from `at` on, at most 4, which are there. */
static uint32_t number(const tiff *t, size_t at, int count)
{
    uint32_t value = 0;
    for (int i = 0; i < count; i++)
        value |= (uint32_t)t->data[at + (size_t)i] << 8 * (t->big ? count - 1 - i : i);
    return value;
}

static bool begin(tiff *t, const uint8_t *marker, size_t bytes)
{
    static const char name[6] = "Exif\0"; /* and one more 0 */
    if (bytes < sizeof name + 8 || memcmp(marker, name, sizeof name) != 0) return false;
    *t = (tiff){.data = marker + sizeof name, .bytes = bytes - sizeof name};
    t->big = t->data[0] == 'M';
    return t->data[0] == t->data[1] && (t->big || t->data[0] == 'I') && number(t, 2, 2) == 42;
}

int lki_exif_orientation(const uint8_t *marker, size_t bytes)
{
    tiff t;
    if (!begin(&t, marker, bytes)) return UPRIGHT;
    size_t at = number(&t, 4, 4);
    if (at > t.bytes || t.bytes - at < 2) return UPRIGHT;
    const size_t entries = number(&t, at, 2), room = (t.bytes - at - 2) / ENTRY;
    at += 2;
    for (size_t i = 0; i < entries && i < room; i++, at += ENTRY) {
        if (number(&t, at, 2) != ORIENTATION) continue;
        const uint32_t value = number(&t, at + 8, 2);
        const bool fits = number(&t, at + 2, 2) == SHORT && number(&t, at + 4, 4) == 1;
        return fits && value >= 1 && value <= 8 ? (int)value : UPRIGHT;
    }
    return UPRIGHT;
}

void lki_exif_row(uint8_t *out, const uint8_t *picture, int height, int width, int orientation,
                  int row)
{
    const bool lies = lki_exif_lies(orientation);
    const bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 ||
                             orientation == 7;
    const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 ||
                            orientation == 8;
    const int columns = lies ? height : width;
    for (int column = 0; column < columns; column++, out += 3) {
        int y = lies ? column : row, x = lies ? row : column;
        if (from_bottom) y = height - 1 - y;
        if (from_right) x = width - 1 - x;
        memcpy(out, picture + ((size_t)y * (size_t)width + (size_t)x) * 3, 3);
    }
}

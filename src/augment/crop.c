/* crop: pads the image and takes one of the places that it then has, with the same chance each. */
#include <inttypes.h>
#include <string.h>

#include "augment/augment.h"
#include "base/check.h"

/* Where position i of a line of n, at most n - 1 beyond its ends, is seen in a mirror. */
static int64_t mirrored(int64_t i, int64_t n)
{
    return i < 0 ? -i : i < n ? i : 2 * (n - 1) - i;
}

/* One row; in NULL: it lies beyond the border. */
static void shift_row(const lki_image *image, const uint8_t *in, uint8_t *out, int64_t right,
                      lks_fill fill)
{
    const int64_t n = image->columns;
    const size_t channels = (size_t)image->channels;
    const int64_t from = right < 0 ? -right : 0, to = right > 0 ? n - right : n;
    if (in == NULL) {
        memset(out, 0, (size_t)n * channels);
        return;
    }
    memcpy(out + (size_t)from * channels, in + (size_t)(from + right) * channels,
           (size_t)(to - from) * channels);
    if (fill == LKS_FILL_ZERO) {
        memset(out, 0, (size_t)from * channels);
        memset(out + (size_t)to * channels, 0, (size_t)(n - to) * channels);
        return;
    }
    for (int64_t c = 0; c < from; c++)
        memcpy(out + (size_t)c * channels, in + (size_t)mirrored(c + right, n) * channels,
               channels);
    for (int64_t c = to; c < n; c++)
        memcpy(out + (size_t)c * channels, in + (size_t)mirrored(c + right, n) * channels,
               channels);
}

void lki_augment_shift(const lki_image *image, int64_t down, int64_t right, lks_fill fill)
{
    const size_t row = (size_t)(image->columns * image->channels);
    for (int64_t r = 0; r < image->rows; r++) {
        const int64_t from = r + down;
        const bool inside = from >= 0 && from < image->rows;
        const uint8_t *in = inside || fill == LKS_FILL_REFLECT
                                ? image->in + (size_t)mirrored(from, image->rows) * row
                                : NULL;
        shift_row(image, in, image->out + (size_t)r * row, right, fill);
    }
}

static lks_status crop_check(const lks_augmentation *opts, const lki_image *image, const char *who)
{
    if (opts->padding < image->rows && opts->padding < image->columns) return LKS_OK;
    return LKI_FAIL(LKS_E_SHAPE,
                    "%s: padding is %" PRId64 ", but images have %" PRId64 " rows and %" PRId64
                    " columns; expected less than both",
                    who, opts->padding, image->rows, image->columns);
}

static void crop(const lks_augmentation *opts, const lki_draw *draw, const lki_image *image)
{
    uint32_t word[LKI_DRAW_WORDS];
    const int64_t places = 2 * opts->padding + 1;
    lki_draw_words(draw, 0, word);
    lki_augment_shift(image, lki_draw_below(word[0], places) - opts->padding,
                      lki_draw_below(word[1], places) - opts->padding, opts->fill);
}

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(INT, lks_augmentation, padding, .range = "[1,)", .fallback = "4",
                  .help = "pixels on every side"),
    LKI_AUGMENT_FILL,
};

const lki_augmentation_rule lki_augmentation_crop = {
    .name = "crop",
    .kind = LKS_AUGMENT_CROP,
    .what = "pads the image and takes a part of its size from a random place",
    .attributes = LKI_ATTRIBUTES(attributes),
    .check = crop_check,
    .apply = crop,
};

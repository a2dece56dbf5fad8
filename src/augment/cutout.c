/* cutout: a square of one value. T. DeVries, G. W. Taylor: "Improved regularization of convolutional neural
 * networks with cutout", 2017. */
#include <inttypes.h>
#include <string.h>

#include "augment/augment.h"
#include "base/check.h"

static lks_status cutout_check(const lks_augmentation *opts, const lki_image *image,
                               const char *who)
{
    if (opts->size <= image->rows && opts->size <= image->columns) return LKS_OK;
    return LKI_FAIL(LKS_E_SHAPE,
                    "%s: size is %" PRId64 ", but images have %" PRId64 " rows and %" PRId64
                    " columns; expected at most that",
                    who, opts->size, image->rows, image->columns);
}

static int64_t within(int64_t at, int64_t size)
{
    return at < 0 ? 0 : at < size ? at : size;
}

static void cutout(const lks_augmentation *opts, const lki_draw *draw, const lki_image *image)
{
    uint32_t word[LKI_DRAW_WORDS];
    const int64_t size = opts->size, channels = image->channels, columns = image->columns;
    lki_draw_words(draw, 0, word);
    const int64_t top = lki_draw_below(word[0], image->rows) - size / 2;
    const int64_t left = lki_draw_below(word[1], columns) - size / 2;
    const int64_t from = within(left, columns), to = within(left + size, columns);
    memcpy(image->out, image->in, (size_t)(image->rows * columns * channels));
    for (int64_t r = within(top, image->rows); r < within(top + size, image->rows); r++)
        memset(image->out + (r * columns + from) * channels, (int)opts->value,
               (size_t)((to - from) * channels));
}

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(INT, lks_augmentation, size, .range = "[1,)", .fallback = "8",
                  .help = "rows and columns of the square"),
    LKI_ATTRIBUTE(INT, lks_augmentation, value, .range = "[0,255]", .help = "of its bytes"),
};

const lki_augmentation_rule lki_augmentation_cutout = {
    .name = "cutout",
    .kind = LKS_AUGMENT_CUTOUT,
    .what = "puts a square of one value at a random place; at a border a part of it",
    .attributes = LKI_ATTRIBUTES(attributes),
    .check = cutout_check,
    .apply = cutout,
};

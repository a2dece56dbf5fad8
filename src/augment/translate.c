/* translate: moves the image by whole pixels. */
#include <inttypes.h>

#include "augment/augment.h"
#include "base/check.h"

static lks_status translate_check(const lks_augmentation *opts, const lki_image *image,
                                  const char *who)
{
    if (opts->pixels[0] < image->rows && opts->pixels[1] < image->columns) return LKS_OK;
    return LKI_FAIL(LKS_E_SHAPE,
                    "%s: pixels is [%" PRId64 ", %" PRId64 "], but images have %" PRId64
                    " rows and %" PRId64 " columns; expected less",
                    who, opts->pixels[0], opts->pixels[1], image->rows, image->columns);
}

static void translate(const lks_augmentation *opts, const lki_draw *draw, const lki_image *image)
{
    uint32_t word[LKI_DRAW_WORDS];
    const int64_t down = opts->pixels[0], right = opts->pixels[1];
    lki_draw_words(draw, 0, word);
    lki_augment_shift(image, lki_draw_below(word[0], 2 * down + 1) - down,
                      lki_draw_below(word[1], 2 * right + 1) - right, opts->fill);
}

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(PAIR, lks_augmentation, pixels, .range = "[0,)", .fallback = "4",
                  .help = "at most, up or down and left or right"),
    LKI_AUGMENT_FILL,
};

const lki_augmentation_rule lki_augmentation_translate = {
    .name = "translate",
    .kind = LKS_AUGMENT_TRANSLATE,
    .what = "moves the image by random numbers of rows and columns",
    .attributes = LKI_ATTRIBUTES(attributes),
    .check = translate_check,
    .apply = translate,
};

/* resized_crop: a random part of the image, enlarged to its size. Drawn as torchvision's RandomResizedCrop. */
#include <math.h>

#include "augment/augment.h"
#include "augment/sample.h"
#include "numeric/real.h"

void lki_augment_resize(const lki_image *image, lki_part part)
{
    const int64_t down = (part.rows << 32) / image->rows;
    const int64_t right = (part.columns << 32) / image->columns;
    const int64_t half = INT64_C(1) << 31;
    uint8_t *out = image->out;
    for (int64_t r = 0; r < image->rows; r++) {
        const lki_between row = lki_between_of(down / 2 - half + r * down, part.top, part.rows);
        for (int64_t c = 0; c < image->columns; c++, out += image->channels)
            lki_sample(image, row,
                       lki_between_of(right / 2 - half + c * right, part.left, part.columns), out);
    }
}

static int64_t rounded(double x)
{
    return (int64_t)floor(x + 0.5);
}

static double unit(uint32_t word)
{
    return (double)word * 0x1p-32;
}

/* Ten tries; then the largest part in the middle whose ratio is within the bounds. */
lki_part lki_augment_part(const lks_augmentation *opts, const lki_draw *draw,
                          const lki_image *image)
{
    enum { TRIES = 10 };
    const double rows = (double)image->rows, columns = (double)image->columns;
    const double most = lki_log(opts->ratio);
    for (uint32_t try = 0; try < TRIES; try++) {
        uint32_t word[LKI_DRAW_WORDS];
        lki_draw_words(draw, try, word);
        const double share = opts->scale + unit(word[0]) * (1.0 - opts->scale);
        const double ratio = lki_exp(most * (2.0 * unit(word[1]) - 1.0));
        const double area = rows * columns * share;
        const lki_part part = {.rows = rounded(sqrt(area / ratio)),
                               .columns = rounded(sqrt(area * ratio))};
        if (part.rows < 1 || part.rows > image->rows || part.columns < 1 ||
            part.columns > image->columns)
            continue;
        return (lki_part){lki_draw_below(word[2], image->rows - part.rows + 1),
                          lki_draw_below(word[3], image->columns - part.columns + 1), part.rows,
                          part.columns};
    }
    lki_part part = {0, 0, image->rows, image->columns};
    if (columns > rows * opts->ratio) part.columns = rounded(rows * opts->ratio);
    if (rows > columns * opts->ratio) part.rows = rounded(columns * opts->ratio);
    part.top = (image->rows - part.rows) / 2;
    part.left = (image->columns - part.columns) / 2;
    return part;
}

static void resized_crop(const lks_augmentation *opts, const lki_draw *draw, const lki_image *image)
{
    lki_augment_resize(image, lki_augment_part(opts, draw, image));
}

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(DOUBLE, lks_augmentation, scale, .range = "(0,1]", .fallback = "0.08",
                  .help = "the least share of the image's area"),
    LKI_ATTRIBUTE(DOUBLE, lks_augmentation, ratio, .range = "[1,10]",
                  .fallback = "1.3333333333333333",
                  .help = "of the longer side to the shorter one, at most"),
};

const lki_augmentation_rule lki_augmentation_resized_crop = {
    .name = "resized_crop",
    .kind = LKS_AUGMENT_RESIZED_CROP,
    .what = "takes a part of random size, ratio and place, and enlarges it to the image (bilinear)",
    .attributes = LKI_ATTRIBUTES(attributes),
    .apply = resized_crop,
};

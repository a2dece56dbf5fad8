/* rotate: about the centre of the image, by an angle that is drawn. */
#include <math.h>
#include <string.h>

#include "augment/augment.h"
#include "augment/sample.h"
#include "numeric/real.h"

/* To 2^-16, halves up. */
static int64_t fixed(double x)
{
    return (int64_t)floor(x * 65536.0 + 0.5);
}

/* Part of a turn in [0, 1). */
static double turns_of(double degrees)
{
    const double turns = degrees / 360.0, part = turns - floor(turns);
    return part < 1.0 ? part : 0.0;
}

/*
 * Pixel (r, c) is that of which the place x = x0 + c * cos - r * sin, y = y0 + c * sin + r * cos is a part,
 * in fixed numbers with 16 bits behind the point; (x0, y0) is where the first pixel's centre comes from.
 */
void lki_augment_rotate(const lki_image *image, double degrees, lks_interpolation interpolation)
{
    const double turns = turns_of(degrees);
    const double cosine = lki_cos_2pi(turns), sine = lki_sin_2pi(turns);
    const double middle_x = (double)image->columns * 0.5, middle_y = (double)image->rows * 0.5;
    const int64_t a = fixed(cosine), b = fixed(sine);
    const int64_t x0 = fixed(middle_x + cosine * (0.5 - middle_x) - sine * (0.5 - middle_y));
    const int64_t y0 = fixed(middle_y + sine * (0.5 - middle_x) + cosine * (0.5 - middle_y));
    const int64_t rows = image->rows, columns = image->columns, channels = image->channels;
    uint8_t *out = image->out;
    for (int64_t r = 0; r < rows; r++) {
        int64_t x = x0 - r * b, y = y0 + r * a;
        for (int64_t c = 0; c < columns; c++, x += a, y += b, out += channels) {
            const int64_t column = x >> 16, row = y >> 16;
            if (column < 0 || column >= columns || row < 0 || row >= rows) {
                memset(out, 0, (size_t)channels);
            } else if (interpolation == LKS_BILINEAR) {
                lki_sample(image, lki_between_of((y - 32768) * 65536, 0, rows),
                           lki_between_of((x - 32768) * 65536, 0, columns), out);
            } else {
                const uint8_t *in = image->in + (row * columns + column) * channels;
                for (int64_t k = 0; k < channels; k++) out[k] = in[k];
            }
        }
    }
}

static void rotate(const lks_augmentation *opts, const lki_draw *draw, const lki_image *image)
{
    uint32_t word[LKI_DRAW_WORDS];
    lki_draw_words(draw, 0, word);
    lki_augment_rotate(image, lki_draw_around(word[0], opts->degrees), opts->interpolation);
}

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(DOUBLE, lks_augmentation, degrees, .range = "(0,180]", .fallback = "15",
                  .help = "at most, to the left or right"),
    LKI_ATTRIBUTE(WORD, lks_augmentation, interpolation, .range = "nearest bilinear",
                  .fallback = "nearest"),
};

const lki_augmentation_rule lki_augmentation_rotate = {
    .name = "rotate",
    .kind = LKS_AUGMENT_ROTATE,
    .what = "turns the image about its centre by a random angle; corners are black",
    .attributes = LKI_ATTRIBUTES(attributes),
    .apply = rotate,
};

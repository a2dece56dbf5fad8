/* jitter: brightness, contrast, saturation and hue, in this order. */
#include <math.h>
#include <string.h>

#include "augment/augment.h"
#include "base/check.h"

enum { ONE = 1 << 16, TURN = 6 * ONE }; /* factors, and hues, in 2^-16; of a hue six sextants */

static int64_t fixed(double x)
{
    return (int64_t)floor(x * ONE + 0.5);
}

/* ITU-R BT.601, in 2^-16, halves up. */
static int luma(const uint8_t *pixel, int64_t channels)
{
    if (channels == 1) return pixel[0];
    return (19595 * pixel[0] + 38470 * pixel[1] + 7471 * pixel[2] + ONE / 2) >> 16;
}

/* base + factor * (value - base), rounded and clipped. */
static uint8_t blend(int base, int value, int64_t factor)
{
    const int64_t mixed = ((int64_t)base * (ONE - factor) + value * factor + ONE / 2) >> 16;
    return (uint8_t)(mixed < 0 ? 0 : mixed < 255 ? mixed : 255);
}

static void brighten(const lki_image *image, int64_t factor)
{
    uint8_t table[256];
    const int64_t bytes = image->rows * image->columns * image->channels;
    for (int value = 0; value < 256; value++) table[value] = blend(0, value, factor);
    for (int64_t i = 0; i < bytes; i++) image->out[i] = table[image->out[i]];
}

static void contrast(const lki_image *image, int64_t factor)
{
    uint8_t table[256];
    const int64_t pixels = image->rows * image->columns, channels = image->channels;
    int64_t sum = 0;
    for (int64_t i = 0; i < pixels; i++) sum += luma(image->out + i * channels, channels);
    const int mean = (int)((2 * sum + pixels) / (2 * pixels));
    for (int value = 0; value < 256; value++) table[value] = blend(mean, value, factor);
    for (int64_t i = 0; i < pixels * channels; i++) image->out[i] = table[image->out[i]];
}

static void saturate(const lki_image *image, int64_t factor)
{
    uint8_t *pixel = image->out;
    for (int64_t i = 0; i < image->rows * image->columns; i++, pixel += 3) {
        const int grey = luma(pixel, 3);
        for (int k = 0; k < 3; k++) pixel[k] = blend(grey, pixel[k], factor);
    }
}

/* The pixel with another hue; the largest and the smallest of its values stay. */
static void turn_hue(uint8_t *pixel, int64_t turn)
{
    const int red = pixel[0], green = pixel[1], blue = pixel[2];
    const int upper = red > green ? red : green, lower = red < green ? red : green;
    const int high = upper > blue ? upper : blue, low = lower < blue ? lower : blue;
    const int chroma = high - low;
    if (chroma == 0) return;
    const int64_t sextant = high == red ? 0 : high == green ? 2 : 4;
    const int64_t across = high == red ? green - blue : high == green ? blue - red : red - green;
    const int64_t hue = (sextant * ONE + (2 * ONE * across + chroma) / (2 * chroma) + turn +
                         2 * TURN) %
                        TURN;
    const int64_t part = hue % ONE;
    const int rise = low + (int)((chroma * part + ONE / 2) >> 16);
    const int fall = high - (int)((chroma * part + ONE / 2) >> 16);
    const int values[6][3] = {{high, rise, low}, {fall, high, low}, {low, high, rise},
                              {low, fall, high}, {rise, low, high}, {high, low, fall}};
    for (int k = 0; k < 3; k++) pixel[k] = (uint8_t)values[hue / ONE][k];
}

static void turn_hues(const lki_image *image, int64_t turn)
{
    for (int64_t i = 0; i < image->rows * image->columns; i++) turn_hue(image->out + 3 * i, turn);
}

void lki_augment_jitter(const lki_image *image, const lki_colours *colours)
{
    memcpy(image->out, image->in, (size_t)(image->rows * image->columns * image->channels));
    if (colours->brightness != 1) brighten(image, fixed(colours->brightness));
    if (colours->contrast != 1) contrast(image, fixed(colours->contrast));
    if (colours->saturation != 1) saturate(image, fixed(colours->saturation));
    if (colours->hue != 0) turn_hues(image, fixed(6 * colours->hue));
}

static void jitter(const lks_augmentation *opts, const lki_draw *draw, const lki_image *image)
{
    uint32_t word[LKI_DRAW_WORDS];
    lki_draw_words(draw, 0, word);
    const lki_colours colours = {.brightness = 1 + lki_draw_around(word[0], opts->brightness),
                                 .contrast = 1 + lki_draw_around(word[1], opts->contrast),
                                 .saturation = 1 + lki_draw_around(word[2], opts->saturation),
                                 .hue = lki_draw_around(word[3], opts->hue)};
    lki_augment_jitter(image, &colours);
}

static lks_status jitter_check(const lks_augmentation *opts, const lki_image *image,
                               const char *who)
{
    const bool coloured = opts->saturation > 0 || opts->hue > 0;
    if (!coloured && !(opts->brightness > 0) && !(opts->contrast > 0))
        return LKI_FAIL(
            LKS_E_INVALID,
            "%s: it changes nothing; give brightness, contrast, saturation or hue, such "
            "as brightness: 0.2",
            who);
    if (image->channels == 3 || (image->channels == 1 && !coloured)) return LKS_OK;
    return LKI_FAIL(LKS_E_SHAPE,
                    "%s: images have %lld channel%s, expected red, green and blue, or one without "
                    "saturation and hue",
                    who, (long long)image->channels, LKI_S(image->channels));
}

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(DOUBLE, lks_augmentation, brightness, .range = "[0,1]", .fallback = "0",
                  .help = "a factor from 1 - this to 1 + this"),
    LKI_ATTRIBUTE(DOUBLE, lks_augmentation, contrast, .range = "[0,1]", .fallback = "0",
                  .help = "the same, of the distance from the image's mean grey"),
    LKI_ATTRIBUTE(DOUBLE, lks_augmentation, saturation, .range = "[0,1]", .fallback = "0",
                  .help = "the same, of the distance from the pixel's grey"),
    LKI_ATTRIBUTE(DOUBLE, lks_augmentation, hue, .range = "[0,0.5]", .fallback = "0",
                  .help = "turns, one way or the other"),
};

const lki_augmentation_rule lki_augmentation_jitter = {
    .name = "jitter",
    .kind = LKS_AUGMENT_JITTER,
    .what = "changes the colours by random factors",
    .attributes = LKI_ATTRIBUTES(attributes),
    .check = jitter_check,
    .apply = jitter,
};

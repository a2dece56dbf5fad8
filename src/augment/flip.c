/* flip: left and right change places. */
#include <string.h>

#include "augment/augment.h"

static void mirror(const lki_image *image)
{
    const size_t channels = (size_t)image->channels, n = (size_t)image->columns;
    for (int64_t r = 0; r < image->rows; r++) {
        const uint8_t *in = image->in + (size_t)r * n * channels;
        uint8_t *out = image->out + (size_t)(r + 1) * n * channels;
        for (size_t c = 0; c < n; c++, in += channels) {
            out -= channels;
            if (channels == 3) {
                out[0] = in[0];
                out[1] = in[1];
                out[2] = in[2];
            } else {
                memcpy(out, in, channels);
            }
        }
    }
}

/* Random: below the nearest multiple of 2^-32 to the probability. Alternating: an image's own bit, which
 * is drawn in epoch 0, says with which epochs it goes. */
static bool is_flipped(const lks_augmentation *opts, const lki_draw *draw)
{
    uint32_t word[LKI_DRAW_WORDS];
    const bool alternating = opts->mode == LKS_FLIP_ALTERNATING;
    const lki_draw own = {draw->key, alternating ? 0 : draw->epoch, draw->sample};
    lki_draw_words(&own, 0, word);
    if (alternating) return ((word[0] ^ (uint64_t)draw->epoch) & 1) == 1;
    return word[0] < (uint64_t)(opts->probability * 0x1p32 + 0.5);
}

static void flip(const lks_augmentation *opts, const lki_draw *draw, const lki_image *image)
{
    if (is_flipped(opts, draw))
        mirror(image);
    else
        memcpy(image->out, image->in, (size_t)(image->rows * image->columns * image->channels));
}

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(
        WORD, lks_augmentation, mode, .range = "random alternating", .fallback = "random",
        .help = "anew every epoch, or every second epoch, each half of the images in turn"),
    LKI_ATTRIBUTE(DOUBLE, lks_augmentation, probability, .range = "(0,1]", .fallback = "0.5",
                  .help = "of random"),
};

const lki_augmentation_rule lki_augmentation_flip = {
    .name = "flip",
    .kind = LKS_AUGMENT_FLIP,
    .what = "mirrors left and right",
    .attributes = LKI_ATTRIBUTES(attributes),
    .apply = flip,
};

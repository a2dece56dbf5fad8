#include "augment/mixup.h"

#include <math.h>

#include "base/check.h"
#include "base/float.h"
#include "base/memory.h"
#include "numeric/random.h"
#include "numeric/real.h"

/*
 * The logarithm of a number drawn from the gamma distribution with this shape: G. Marsaglia, W. W. Tsang, "A Simple
 * Method for Generating Gamma Variables", ACM TOMS 26 (2000), with its way to shapes below 1, which is
 * gamma(shape + 1) times uniform^(1 / shape): in the logarithm, as that is often too small for a double. `which` of
 * two such numbers; a try takes a block.
 */
static double log_gamma_draw(const lki_draw *draw, double shape, uint32_t which)
{
    const double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (uint32_t block = 1 + which;; block += 2) {
        uint32_t word[LKI_DRAW_WORDS];
        lki_draw_words(draw, block, word);
        const double radius = sqrt(-2 * lki_log(((double)word[0] + 1) * 0x1p-32));
        const double normal = radius * lki_cos_2pi((double)word[1] * 0x1p-32);
        const double root = 1 + c * normal, v = root * root * root;
        if (!(v > 0)) continue;
        const double limit = 0.5 * normal * normal + d - d * v + d * lki_log(v);
        if (lki_log(((double)word[2] + 1) * 0x1p-32) >= limit) continue;
        const double value = lki_log(d * v);
        return shape < 1 ? value + lki_log(((double)word[3] + 1) * 0x1p-32) / shape : value;
    }
}

/* x / (x + y) of two gamma variables is Beta(alpha, alpha). */
static double beta_draw(const lki_draw *draw, double alpha)
{
    const double x = log_gamma_draw(draw, alpha, 0), y = log_gamma_draw(draw, alpha, 1);
    return 1 / (1 + lki_exp(y - x));
}

lki_mixup lki_mixup_draw(const lki_draw *draw, double alpha, int64_t index, int64_t samples)
{
    uint32_t word[LKI_DRAW_WORDS];
    lki_draw_words(draw, 0, word);
    const unsigned saved = lki_float_enter();
    const double share = beta_draw(draw, alpha);
    const lki_mixup mixup = {.other = (index + 1 + lki_draw_below(word[0], samples - 1)) % samples,
                             .share = (int32_t)floor(share * LKI_MIX_ONE + 0.5)};
    lki_float_leave(saved);
    return mixup;
}

void lki_mixup_bytes(uint8_t *x, const uint8_t *other, int64_t count, int32_t share)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = (uint8_t)((x[i] * (LKI_MIX_ONE - share) + other[i] * share + LKI_MIX_ONE / 2) >> 16);
}

void lki_mixup_floats(float *x, const float *other, int64_t count, int32_t share)
{
    const double of_other = share * (1.0 / LKI_MIX_ONE), of_own = 1 - of_other;
    const unsigned saved = lki_float_enter();
    for (int64_t i = 0; i < count; i++)
        x[i] = (float)(of_own * (double)x[i] + of_other * (double)other[i]);
    lki_float_leave(saved);
}

/* ---------------------------------------------------------------- of a data set */

struct lki_mixer {
    lks_context *context;
    size_t bytes; /* of this, with its spaces */
    lks_dataset_info info;
    double alpha;
    uint64_t key;
    size_t sample_bytes; /* of a space */
    uint8_t *space;
};

lks_status lki_mixer_create(lki_mixer **out, lks_context *context, double alpha,
                            const lks_dataset_info *info, int spaces)
{
    const size_t head = lki_align(sizeof(lki_mixer));
    const size_t sample = lki_align((size_t)lks_shape_elements(&info->shape) *
                                    lks_dtype_size(info->dtype));
    const size_t bytes = lki_plus(head, lki_times((size_t)spaces, sample));
    void *memory = NULL;
    *out = NULL;
    if (alpha == 0) return LKS_OK;
    LKI_TRY(lki_alloc(context, &memory, bytes, "mixup"));
    lki_mixer *mixer = memory;
    *mixer = (lki_mixer){.context = context,
                         .bytes = bytes,
                         .info = *info,
                         .alpha = alpha,
                         .key = lki_random_key(lks_context_seed(context), "augment", "mixup"),
                         .sample_bytes = sample,
                         .space = (uint8_t *)memory + head};
    *out = mixer;
    return LKS_OK;
}

void lki_mixer_destroy(lki_mixer *mixer)
{
    if (mixer != NULL) lki_free(mixer->context, mixer, mixer->bytes);
}

lki_mixup lki_mixer_draw(const lki_mixer *mixer, int64_t epoch, int64_t position, int64_t index)
{
    const lki_draw draw = {mixer->key, epoch, position};
    return lki_mixup_draw(&draw, mixer->alpha, index, mixer->info.samples);
}

uint8_t *lki_mixer_space(const lki_mixer *mixer, int space)
{
    return mixer->space + (size_t)space * mixer->sample_bytes;
}

lks_mix lki_mixer_mix(const lki_mixer *mixer, int32_t share, void *x, int32_t *y, const void *other,
                      int32_t label)
{
    const int64_t elements = lks_shape_elements(&mixer->info.shape);
    if (mixer->info.dtype == LKS_U8)
        lki_mixup_bytes(x, other, elements, share);
    else
        lki_mixup_floats(x, other, elements, share);
    lks_mix mix = {.label = label, .weight = (float)share / LKI_MIX_ONE};
    if (2 * share > LKI_MIX_ONE) {
        mix = (lks_mix){.label = *y, .weight = 1 - mix.weight};
        *y = label;
    }
    return mix;
}

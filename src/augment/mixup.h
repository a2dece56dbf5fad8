/*
 * Mixup: which other sample an epoch mixes with a sample, in which shares, and that. docs/numerics.md has the
 * draws. Targets follow in the loss (lks_mix).
 */
#ifndef LKI_AUGMENT_MIXUP_H
#define LKI_AUGMENT_MIXUP_H

#include "augment/augment.h"

enum { LKI_MIX_ONE = 1 << 16 }; /* shares are in 2^-16 */

typedef struct lki_mixup {
    int64_t other; /* of [0, samples), never `index` where there are others */
    int32_t share; /* of the other one: Beta(alpha, alpha), rounded */
} lki_mixup;

/* Of sample `index` of `samples`; draw->key is that of ("augment", "mixup"). */
lki_mixup lki_mixup_draw(const lki_draw *draw, double alpha, int64_t index, int64_t samples);

/* x becomes (1 - share) x + share other, rounded to the nearest: bytes, halves up; floats, which are F32, once. */
void lki_mixup_bytes(uint8_t *x, const uint8_t *other, int64_t count, int32_t share);
void lki_mixup_floats(float *x, const float *other, int64_t count, int32_t share);

/* All of that for samples of one shape, with room for those that are mixed in. */
typedef struct lki_mixer lki_mixer;
/* NULL where alpha is 0. Of a data set with classes, with `spaces` for as many threads at a time. */
LKS_MUSTUSE lks_status lki_mixer_create(lki_mixer **out, lks_context *context, double alpha,
                                        const lks_dataset_info *info, int spaces);
void lki_mixer_destroy(lki_mixer *mixer); /* NULL is fine */
/* Of the sample with this number in the data set, and this position where that was opened. */
lki_mixup lki_mixer_draw(const lki_mixer *mixer, int64_t epoch, int64_t position, int64_t index);
/* Room for a sample. */
uint8_t *lki_mixer_space(const lki_mixer *mixer, int space);
/* Mixes `other` into x; y becomes the class with the larger share, and the other one is the answer. */
lks_mix lki_mixer_mix(const lki_mixer *mixer, int32_t share, void *x, int32_t *y, const void *other,
                      int32_t label);

#endif

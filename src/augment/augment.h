/*
 * Augmentation: what a training image becomes in an epoch. One file for each, a line in lockstep/data.h, which
 * has their members. docs/numerics.md says which numbers each draws and how it rounds, so that anybody can
 * write it again.
 *
 * What an augmentation makes of an image depends on its options, the image, and words drawn from (seed, its
 * name, epoch, sample): no state, so any thread may compute any sample of any epoch at any time.
 */
#ifndef LKI_AUGMENT_AUGMENT_H
#define LKI_AUGMENT_AUGMENT_H

#include <lockstep/data.h>

#include "core/attribute.h"

/* An image is [rows][columns][channels]; both of its copies have the same size. */
typedef struct lki_image {
    int64_t rows, columns, channels;
    const uint8_t *in;
    uint8_t *out; /* overlaps in nothing */
} lki_image;

/* Whose random numbers: counter (epoch, low and high half of the sample, block). */
typedef struct lki_draw {
    uint64_t key;
    int64_t epoch, sample;
} lki_draw;

enum { LKI_DRAW_WORDS = 4 };
void lki_draw_words(const lki_draw *draw, uint32_t block, uint32_t out[LKI_DRAW_WORDS]);
/* Of [0, count): word * count / 2^32, rounded down. */
static inline int64_t lki_draw_below(uint32_t word, int64_t count)
{
    return (int64_t)((uint64_t)word * (uint64_t)count >> 32);
}

/* Of [-most, most): most * (word / 2^31 - 1). */
static inline double lki_draw_around(uint32_t word, double most)
{
    return most * ((double)word * 0x1p-31 - 1.0);
}

typedef struct lki_augmentation_rule {
    const char *name; /* in a configuration */
    lks_augmentation_kind kind;
    const char *what; /* a few words for help */
    lki_attributes attributes;
    /* What the table cannot say of options and the shape of images; NULL: nothing. `who` begins a sentence. */
    lks_status (*check)(const lks_augmentation *opts, const lki_image *image, const char *who);
    void (*apply)(const lks_augmentation *opts, const lki_draw *draw, const lki_image *image);
} lki_augmentation_rule;

#define X(KIND, name) extern const lki_augmentation_rule lki_augmentation_##name;
LKS_AUGMENTATIONS(X)
#undef X

/* NULL: there is none of that kind, number (from 0, in the order of the list), or name. */
const lki_augmentation_rule *lki_augmentation_of(lks_augmentation_kind kind);
const lki_augmentation_rule *lki_augmentation_at(int number);
const lki_augmentation_rule *lki_augmentation_find(const char *name);

/* The check of one; `where` stands before the sentence: "c.yaml:3: ", or "". */
LKS_MUSTUSE lks_status lki_augmentation_check(const lks_augmentation *opts,
                                              const lks_dataset_info *info, const char *where);

/* A list of them for images of one size, with `spaces` for as many threads at a time. */
typedef struct lki_augment lki_augment;
LKS_MUSTUSE lks_status lki_augment_create(lki_augment **out, lks_context *context,
                                          const lks_augmentation *list, int count,
                                          const lks_dataset_info *info, int spaces);
void lki_augment_destroy(lki_augment *augment); /* NULL is fine */
/* Changes the image in place; `space` (from 0) is no other thread's meanwhile. */
void lki_augment_run(const lki_augment *augment, int64_t epoch, int64_t sample, uint8_t *image,
                     int space);

/* With numbers that have been drawn, for tests too: */

/* out(r, c) = in(r + down, c + right), and beyond the border as `fill` says; both within +-(size - 1). */
void lki_augment_shift(const lki_image *image, int64_t down, int64_t right, lks_fill fill);
/* Counter-clockwise. */
void lki_augment_rotate(const lki_image *image, double degrees, lks_interpolation interpolation);

/* Which part becomes the whole image, and that. */
typedef struct lki_part {
    int64_t top, left, rows, columns;
} lki_part;
lki_part lki_augment_part(const lks_augmentation *opts, const lki_draw *draw,
                          const lki_image *image);
void lki_augment_resize(const lki_image *image, lki_part part);

/* Factors, of which 1 changes nothing, and turns, of which 0 does not. */
typedef struct lki_colours {
    double brightness, contrast, saturation, hue;
} lki_colours;
void lki_augment_jitter(const lki_image *image, const lki_colours *colours);

/* Lines of tables. */
#define LKI_AUGMENT_FILL                                                                           \
    LKI_ATTRIBUTE(WORD, lks_augmentation, fill, .range = "zero reflect", .fallback = "zero",       \
                  .help = "beyond the border: black, or mirrored")

#endif

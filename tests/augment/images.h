/* Augmented images: a loader's, and the same as docs/numerics.md says it, written once more. */
#ifndef LKT_AUGMENT_IMAGES_H
#define LKT_AUGMENT_IMAGES_H

#include <stdlib.h>
#include <string.h>

#include <lockstep/data.h>

#include "augment/augment.h"
#include "numeric/random.h"
#include "support/test.h"

enum { ROWS = 9, COLUMNS = 7, CHANNELS = 3, IMAGE = ROWS * COLUMNS * CHANNELS };
enum { SEED = 20, SAMPLES = 101, BATCH = 13 };

static lks_context *context;
static uint8_t pixels[SAMPLES][ROWS][COLUMNS][CHANNELS];
static int32_t labels[SAMPLES];
static const lks_dataset_info info = {.samples = SAMPLES,
                                      .shape = {.ndim = 3, .dim = {ROWS, COLUMNS, CHANNELS}},
                                      .dtype = LKS_U8,
                                      .classes = 10};

static int set_up(void **state)
{
    (void)state;
    const lks_context_opts opts = {.seed = SEED};
    lkt_random random = lkt_random_make("augment", 7);
    uint8_t *at = &pixels[0][0][0][0];
    for (size_t i = 0; i < sizeof pixels; i++) at[i] = (uint8_t)lkt_random_below(&random, 256);
    for (int i = 0; i < SAMPLES; i++) labels[i] = i % 10;
    return lks_context_create(&context, &opts) == LKS_OK ? 0 : 1;
}

static int tear_down(void **state)
{
    (void)state;
    lks_context_destroy(context);
    return 0;
}

static inline lks_dataset *open_images(void)
{
    lks_dataset *set;
    LKT_OK(lks_dataset_from_arrays(&set, context, &info, pixels, labels));
    return set;
}

/* The words of block `block` for a sample of an epoch, by the text. */
static inline void words_of(uint32_t out[4], const char *name, int64_t epoch, int64_t sample,
                            uint32_t block)
{
    const uint32_t counter[4] = {(uint32_t)epoch, (uint32_t)sample,
                                 (uint32_t)((uint64_t)sample >> 32), block};
    lki_philox(lki_random_key(SEED, "augment", name), counter, out);
}

/* Every sample in a few epochs, as a loader makes them with these augmentations. */
enum { EPOCHS = 4 };
typedef uint8_t picture[ROWS][COLUMNS][CHANNELS];
static picture seen[EPOCHS][SAMPLES];

static inline void look(const lks_augmentation *list, int count)
{
    lks_dataset *set = open_images();
    lks_loader *loader;
    lks_batch batch;
    LKT_OK(lks_loader_create(
        &loader, context, set,
        &(lks_loader_opts){
            .global_batch = BATCH, .threads = -1, .augment = list, .augmentations = count}));
    for (int64_t b = 0; b < EPOCHS * lks_loader_batches(loader); b++) {
        LKT_OK(lks_loader_next(loader, &batch));
        for (int64_t i = 0; i < batch.count; i++) {
            assert_int_equal(((const int32_t *)batch.y)[i], labels[batch.ids[i]]);
            memcpy(seen[batch.epoch][batch.ids[i]], (const uint8_t *)batch.x + i * IMAGE, IMAGE);
        }
    }
    lks_loader_destroy(loader);
    lks_dataset_destroy(set);
}

#endif

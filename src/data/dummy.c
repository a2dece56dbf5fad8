/*
 * Random images, as torchvision's FakeData: uniform bytes and labels that say nothing of them, for measuring
 * and for trying networks. Byte k of sample i is byte k % 16 (little-endian) of Philox block k / 16 at counter
 * (i, block), its label the top of one word times the number of classes.
 */
#include "data/dummy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "numeric/random.h"

enum { SIDE = 224, CHANNELS = 3, TRAIN_SAMPLES = 100, TEST_SAMPLES = 300, CLASSES = 1000 };

typedef struct dummy {
    lks_context *context;
    uint64_t image_key, label_key;
    int64_t bytes, classes;
} dummy;

static lks_status read_dummy(void *user, int64_t index, void *x, void *y)
{
    const dummy *set = user;
    uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), 0, 0}, word[4];
    uint8_t *out = x;
    lki_philox(set->label_key, counter, word);
    const int32_t label = (int32_t)((uint64_t)word[0] * (uint64_t)set->classes >> 32);
    for (int64_t at = 0; at < set->bytes; at += 16) {
        counter[2] = (uint32_t)(at / 16);
        counter[3] = (uint32_t)(at / 16 >> 32);
        lki_philox(set->image_key, counter, word);
        for (int64_t k = 0; k < 16 && at + k < set->bytes; k++)
            out[at + k] = (uint8_t)(word[k / 4] >> 8 * (k % 4));
    }
    memcpy(y, &label, sizeof label);
    return LKS_OK;
}

static void close_dummy(void *user)
{
    dummy *set = user;
    lki_free(set->context, set, sizeof *set);
}

lks_status lki_dataset_open_dummy(lks_dataset **out, lks_context *context,
                                  const lki_dummy_opts *opts)
{
    const char *split = opts->test ? "test" : "training";
    const int64_t usual = opts->test ? TEST_SAMPLES : TRAIN_SAMPLES;
    const lks_dataset_ops ops = {
        .info = {.samples = opts->samples ? opts->samples : usual,
                 .shape = opts->shape.ndim ? opts->shape : LKS_SHAPE(SIDE, SIDE, CHANNELS),
                 .dtype = LKS_U8,
                 .classes = opts->classes ? opts->classes : CLASSES},
        .read = read_dummy,
        .close = close_dummy};
    char name[64];
    void *memory = NULL;

    *out = NULL;
    LKI_TRY(lki_alloc(context, &memory, sizeof(dummy), "the dummy data set"));
    dummy *set = memory;
    set->context = context;
    set->image_key = lki_random_key(opts->seed, "dummy images", split);
    set->label_key = lki_random_key(opts->seed, "dummy labels", split);
    set->bytes = lks_shape_elements(&ops.info.shape);
    set->classes = ops.info.classes;
    snprintf(name, sizeof name, "dummy (%s, seed %" PRIu64 ")", split, opts->seed);
    const lks_status status = lks_dataset_create(out, context, name, &ops, set);
    if (status != LKS_OK) close_dummy(set);
    return status;
}

typedef struct board {
    lks_context *context;
    lks_shape shape;
    int64_t outputs;
} board;

static lks_status read_board(void *user, int64_t index, void *x, void *y)
{
    const board *b = user;
    const int64_t width = b->shape.dim[1], channels = b->shape.dim[2];
    float *pixel = x, *target = y;
    (void)index;
    for (int64_t i = 0; i < b->shape.dim[0] * width; i++)
        for (int64_t c = 0; c < channels; c++)
            pixel[i * channels + c] = (i / width + i % width) % 2 == 0 ? 1.0f : 0.0f;
    for (int64_t i = 0; i < b->outputs; i++) target[i] = i == 0 ? 1.0f : 0.0f;
    return LKS_OK;
}

static void close_board(void *user)
{
    board *b = user;
    lki_free(b->context, b, sizeof *b);
}

lks_status lki_dataset_open_checkerboard(lks_dataset **out, lks_context *context,
                                         const lks_shape *shape, int64_t outputs, int64_t samples)
{
    const lks_dataset_ops ops = {
        .info = {.samples = samples, .shape = *shape, .target_shape = {1, {outputs}}},
        .read = read_board,
        .close = close_board};
    void *memory;
    *out = NULL;
    LKI_TRY(lki_alloc(context, &memory, sizeof(board), "the checkerboard"));
    board *b = memory;
    *b = (board){.context = context, .shape = *shape, .outputs = outputs};
    const lks_status status = lks_dataset_create(out, context, "checkerboard", &ops, b);
    if (status != LKS_OK) close_board(b);
    return status;
}

/* What augmentations draw, by docs/numerics.md, written once more; what they then do is in augment/pillow. */
#include <math.h>

#include "augment/images.h"
#include "numeric/hash.h"

static uint8_t made[IMAGE];

static lki_image image_of(int i)
{
    return (lki_image){ROWS, COLUMNS, CHANNELS, &pixels[i][0][0][0], made};
}

static double around(uint32_t word, double most)
{
    return most * (word / 2147483648.0 - 1);
}

/* Calls `make`, which writes the image into `made`, for every sample of every epoch. */
static void expect_draws(const lks_augmentation *one, const char *name,
                         void (*make)(const lki_image *image, const uint32_t word[4]))
{
    int changed = 0;
    look(one, 1);
    for (int epoch = 0; epoch < EPOCHS; epoch++)
        for (int i = 0; i < SAMPLES; i++) {
            uint32_t word[4];
            const lki_image image = image_of(i);
            words_of(word, name, epoch, i, 0);
            make(&image, word);
            assert_memory_equal(made, seen[epoch][i], IMAGE);
            changed += memcmp(made, pixels[i], IMAGE) != 0;
        }
    assert_true(changed > SAMPLES * EPOCHS * 8 / 10);
}

static void make_rotated(const lki_image *image, const uint32_t word[4])
{
    lki_augment_rotate(image, around(word[0], 40), LKS_BILINEAR);
}

static void make_translated(const lki_image *image, const uint32_t word[4])
{
    lki_augment_shift(image, (int64_t)(word[0] * UINT64_C(5) >> 32) - 2,
                      (int64_t)(word[1] * UINT64_C(13) >> 32) - 6, LKS_FILL_ZERO);
}

static void make_cut(const lki_image *image, const uint32_t word[4])
{
    const int64_t top = (int64_t)(word[0] * UINT64_C(9) >> 32) - 2;
    const int64_t left = (int64_t)(word[1] * UINT64_C(7) >> 32) - 2;
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t c = 0; c < COLUMNS; c++)
            for (int64_t k = 0; k < CHANNELS; k++) {
                const bool cut = r >= top && r < top + 5 && c >= left && c < left + 5;
                const int64_t at = (r * COLUMNS + c) * CHANNELS + k;
                made[at] = cut ? 77 : image->in[at];
            }
}

static void make_jittered(const lki_image *image, const uint32_t word[4])
{
    const lki_colours colours = {.brightness = 1 + around(word[0], 0.4),
                                 .contrast = 1 + around(word[1], 0.3),
                                 .saturation = 1 + around(word[2], 1),
                                 .hue = around(word[3], 0.1)};
    lki_augment_jitter(image, &colours);
}

static void single_draws(void **state)
{
    (void)state;
    expect_draws(&(lks_augmentation){.kind = LKS_AUGMENT_ROTATE,
                                     .degrees = 40,
                                     .interpolation = LKS_BILINEAR},
                 "rotate", make_rotated);
    expect_draws(&(lks_augmentation){.kind = LKS_AUGMENT_TRANSLATE, .pixels = {2, 6}}, "translate",
                 make_translated);
    expect_draws(&(lks_augmentation){.kind = LKS_AUGMENT_CUTOUT, .size = 5, .value = 77}, "cutout",
                 make_cut);
    expect_draws(&(lks_augmentation){.kind = LKS_AUGMENT_JITTER,
                                     .brightness = 0.4,
                                     .contrast = 0.3,
                                     .saturation = 1,
                                     .hue = 0.1},
                 "jitter", make_jittered);
}

/* With libm, whose last digit decides nothing here: another part would be seen. */
static void parts_are_drawn_as_written(void **state)
{
    (void)state;
    const lks_augmentation one = {.kind = LKS_AUGMENT_RESIZED_CROP, .scale = 0.3, .ratio = 2};
    int later = 0, whole = 0;
    look(&one, 1);
    for (int epoch = 0; epoch < EPOCHS; epoch++)
        for (int i = 0; i < SAMPLES; i++) {
            lki_part part = {1, 0, COLUMNS, COLUMNS};
            uint32_t word[4], block = 0;
            for (; block < 10; block++) {
                words_of(word, "resized_crop", epoch, i, block);
                const double area = ROWS * COLUMNS * (0.3 + word[0] / 4294967296.0 * 0.7);
                const double ratio = pow(2, 2 * (word[1] / 4294967296.0) - 1);
                part.rows = (int64_t)floor(sqrt(area / ratio) + 0.5);
                part.columns = (int64_t)floor(sqrt(area * ratio) + 0.5);
                if (part.rows <= ROWS && part.columns <= COLUMNS) break;
            }
            later += block > 0;
            whole += block == 10;
            if (block < 10) {
                part.top = (int64_t)((uint64_t)word[2] * (uint64_t)(ROWS - part.rows + 1) >> 32);
                part.left = (int64_t)((uint64_t)word[3] * (uint64_t)(COLUMNS - part.columns + 1) >>
                                      32);
            } else {
                part = (lki_part){0, 0, ROWS, COLUMNS};
            }
            const lki_image image = image_of(i);
            lki_augment_resize(&image, part);
            assert_memory_equal(made, seen[epoch][i], IMAGE);
        }
    assert_in_range(later, 20, SAMPLES * EPOCHS / 2);
    assert_in_range(whole, 0, 5);
}

/* Every bit, of every rounding: what docs/numerics.md promises for any machine and compiler. Other hashes are
 * other images, and a new version of the numerics. */
static void the_bits_are_kept(void **state)
{
    (void)state;
    if (getenv("LKT_SEED") != NULL) skip(); /* other images */
    static const struct row {
        lks_augmentation one;
        uint64_t hash;
    } rows[] = {
        {{.kind = LKS_AUGMENT_CROP, .fill = LKS_FILL_REFLECT}, 0xea5d0a70c9efe84a},
        {{.kind = LKS_AUGMENT_FLIP}, 0x540043c8573bb92a},
        {{.kind = LKS_AUGMENT_ROTATE}, 0xd1df33549bc98cbf},
        {{.kind = LKS_AUGMENT_ROTATE, .degrees = 90, .interpolation = LKS_BILINEAR},
         0xeb4a13c1678fe011},
        {{.kind = LKS_AUGMENT_TRANSLATE}, 0xc3c61a08341093eb},
        {{.kind = LKS_AUGMENT_RESIZED_CROP}, 0xd485a175af1a4d88},
        {{.kind = LKS_AUGMENT_CUTOUT, .size = 4}, 0x1b265ad2673b346e},
        {{.kind = LKS_AUGMENT_JITTER, .brightness = 0.5, .contrast = 0.5}, 0x24cd96f5541a5def},
        {{.kind = LKS_AUGMENT_JITTER, .saturation = 0.5, .hue = 0.5}, 0x25d43d1b83f1ade1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        look(&rows[i].one, 1);
        const uint64_t hash = lki_hash(seen, sizeof seen);
        if (hash != rows[i].hash)
            fail_msg("row %zu: the hash is 0x%016llx", i, (unsigned long long)hash);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {TEST(single_draws), TEST(parts_are_drawn_as_written),
                                       TEST(the_bits_are_kept)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

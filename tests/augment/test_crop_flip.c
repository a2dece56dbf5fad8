/* Crops and flips, beside what docs/numerics.md says, written once more. */
#include "augment/images.h"

/* Pixel (r, c) of an image that may lie beyond its border. */
static int padded(const picture *in, int64_t r, int64_t c, int channel, lks_fill fill)
{
    const bool inside = r >= 0 && r < ROWS && c >= 0 && c < COLUMNS;
    if (!inside && fill == LKS_FILL_ZERO) return 0;
    while (r < 0 || r >= ROWS) r = r < 0 ? -r : 2 * ROWS - 2 - r;
    while (c < 0 || c >= COLUMNS) c = c < 0 ? -c : 2 * COLUMNS - 2 - c;
    return (*in)[r][c][channel];
}

static void expect_shifted(const picture *in, const picture *out, int64_t down, int64_t right,
                           lks_fill fill)
{
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++)
            for (int k = 0; k < CHANNELS; k++)
                assert_int_equal((*out)[r][c][k], padded(in, r + down, c + right, k, fill));
}

static void every_shift_is_its_definition(void **state)
{
    (void)state;
    for (int64_t down = 1 - COLUMNS; down < COLUMNS; down++)
        for (int64_t right = 1 - COLUMNS; right < COLUMNS; right++)
            for (int fill = 0; fill < 2; fill++) {
                picture out;
                const lki_image size = {ROWS, COLUMNS, CHANNELS, &pixels[3][0][0][0],
                                        &out[0][0][0]};
                lki_augment_shift(&size, down, right, (lks_fill)fill);
                expect_shifted((const picture *)&pixels[3], (const picture *)&out, down, right,
                               (lks_fill)fill);
            }
}

static void crops_are_drawn_as_written(void **state)
{
    (void)state;
    int64_t counts[5][5] = {{0}};
    const lks_augmentation crop = {
        .kind = LKS_AUGMENT_CROP, .padding = 2, .fill = LKS_FILL_REFLECT};
    look(&crop, 1);
    for (int epoch = 0; epoch < EPOCHS; epoch++)
        for (int i = 0; i < SAMPLES; i++) {
            uint32_t word[4];
            words_of(word, "crop", epoch, i, 0);
            const int64_t down = (int64_t)(word[0] * UINT64_C(5) >> 32) - 2;
            const int64_t right = (int64_t)(word[1] * UINT64_C(5) >> 32) - 2;
            counts[down + 2][right + 2]++;
            expect_shifted((const picture *)&pixels[i], (const picture *)&seen[epoch][i], down,
                           right, LKS_FILL_REFLECT);
        }
    /* 404 draws of 25 places: 16.2 each, with a deviation of 3.9. */
    for (int i = 0; i < 25; i++) assert_in_range(counts[i / 5][i % 5], 3, 32);
}

static bool is_mirrored(const picture *in, const picture *out)
{
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++)
            if (memcmp((*out)[r][c], (*in)[r][COLUMNS - 1 - c], CHANNELS) != 0) return false;
    return true;
}

/* Images are random, so none is its own mirror image. */
static bool was_flipped(int epoch, int i)
{
    const bool mirrored = is_mirrored((const picture *)&pixels[i],
                                      (const picture *)&seen[epoch][i]);
    if (!mirrored) assert_memory_equal(seen[epoch][i], pixels[i], IMAGE);
    return mirrored;
}

static void flips_are_drawn_as_written(void **state)
{
    (void)state;
    static const double chances[] = {0, 0.1, 1};
    for (int k = 0; k < 3; k++) {
        const lks_augmentation flip = {.kind = LKS_AUGMENT_FLIP, .probability = chances[k]};
        const double chance = k == 0 ? 0.5 : chances[k];
        look(&flip, 1);
        for (int epoch = 0; epoch < EPOCHS; epoch++)
            for (int i = 0; i < SAMPLES; i++) {
                uint32_t word[4];
                words_of(word, "flip", epoch, i, 0);
                assert_int_equal(was_flipped(epoch, i), word[0] < chance * 0x1p32);
            }
    }
}

static void flips_alternate(void **state)
{
    (void)state;
    int first = 0;
    const lks_augmentation flip = {.kind = LKS_AUGMENT_FLIP, .mode = LKS_FLIP_ALTERNATING};
    look(&flip, 1);
    for (int i = 0; i < SAMPLES; i++) {
        uint32_t word[4];
        words_of(word, "flip", 0, i, 0);
        first += was_flipped(0, i);
        for (int epoch = 0; epoch < EPOCHS; epoch++)
            assert_int_equal(was_flipped(epoch, i), (word[0] & 1) == (epoch % 2 == 0));
    }
    assert_in_range(first, 30, 71); /* 50.5, with a deviation of 5 */
}

/* In their order; two of a kind draw numbers of their own, and do not move those of others. */
static void a_list_is_done_in_its_order(void **state)
{
    (void)state;
    const lks_augmentation list[] = {{.kind = LKS_AUGMENT_CROP, .padding = 3},
                                     {.kind = LKS_AUGMENT_FLIP, .probability = 1},
                                     {.kind = LKS_AUGMENT_CROP, .padding = 1}};
    look(list, 3);
    for (int i = 0; i < SAMPLES; i++) {
        picture one, two;
        uint32_t a[4], b[4];
        words_of(a, "crop", 2, i, 0);
        words_of(b, "crop 2", 2, i, 0);
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < COLUMNS; c++)
                for (int k = 0; k < CHANNELS; k++)
                    one[r][COLUMNS - 1 - c][k] = (uint8_t)padded(
                        (const picture *)&pixels[i], r + (int64_t)(a[0] * UINT64_C(7) >> 32) - 3,
                        c + (int64_t)(a[1] * UINT64_C(7) >> 32) - 3, k, LKS_FILL_ZERO);
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < COLUMNS; c++)
                for (int k = 0; k < CHANNELS; k++)
                    two[r][c][k] = (uint8_t)padded(
                        (const picture *)&one, r + (int64_t)(b[0] * UINT64_C(3) >> 32) - 1,
                        c + (int64_t)(b[1] * UINT64_C(3) >> 32) - 1, k, LKS_FILL_ZERO);
        assert_memory_equal(seen[2][i], two, IMAGE);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(every_shift_is_its_definition), TEST(crops_are_drawn_as_written),
        TEST(flips_are_drawn_as_written),    TEST(flips_alternate),
        TEST(a_list_is_done_in_its_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Mixup: draws as docs/numerics.md has them, written once more, their distribution, and what loaders make of them. */
#include <math.h>

#include "augment/images.h"
#include "augment/mixup.h"
#include "numeric/hash.h"

static lki_mixup drawn(double alpha, int64_t epoch, int64_t position, int64_t index,
                       int64_t samples)
{
    const lki_draw draw = {lki_random_key(SEED, "augment", "mixup"), epoch, position};
    return lki_mixup_draw(&draw, alpha, index, samples);
}

/* The logarithm of a gamma variable, by the text, with libm. */
static double gamma_of(double alpha, int64_t epoch, int64_t sample, uint32_t block)
{
    const double shape = alpha < 1 ? alpha + 1 : alpha, d = shape - 1.0 / 3;
    for (;; block += 2) {
        uint32_t word[4];
        words_of(word, "mixup", epoch, sample, block);
        const double u = (word[0] + 1.0) / 4294967296.0, angle = word[1] / 4294967296.0;
        const double normal = sqrt(-2 * log(u)) * cos(6.283185307179586 * angle);
        const double v = pow(1 + normal / sqrt(9 * d), 3);
        if (v <= 0) continue;
        if (log((word[2] + 1.0) / 4294967296.0) >= normal * normal / 2 + d - d * v + d * log(v))
            continue;
        return log(d * v) + (alpha < 1 ? log((word[3] + 1.0) / 4294967296.0) / alpha : 0);
    }
}

/* libm's last digits decide nothing here. */
static void shares_are_drawn_as_written(void **state)
{
    (void)state;
    const double alphas[] = {0.001, 0.1, 0.2, 0.5, 0.9, 1, 1.5, 4, 32, 1000};
    int later = 0;
    for (size_t a = 0; a < sizeof alphas / sizeof *alphas; a++)
        for (int64_t sample = 0; sample < 500; sample++) {
            const int64_t epoch = sample % 7;
            const lki_mixup found = drawn(alphas[a], epoch, sample, 40, 90);
            uint32_t word[4];
            words_of(word, "mixup", epoch, sample, 0);
            assert_int_equal(found.other, (41 + (int64_t)(word[0] * UINT64_C(89) >> 32)) % 90);
            const double x = gamma_of(alphas[a], epoch, sample, 1);
            const double y = gamma_of(alphas[a], epoch, sample, 2);
            const double share = 1 / (1 + exp(y - x));
            assert_int_equal(found.share, (int32_t)floor(share * 65536 + 0.5));
            later += found.share > 0 && found.share < 65536;
        }
    assert_true(later > 3000);
}

/* Beta(1/2, 1/2), (1, 1) and (2, 2) in closed form. */
static double arcsine(double x)
{
    return asin(sqrt(x)) / 1.5707963267948966;
}
static double uniform(double x)
{
    return x;
}
static double parabola(double x)
{
    return x * x * (3 - 2 * x);
}

/*
 * The largest distance between the distribution of N draws and the true one is above e with a probability of at most
 * 2 exp(-2 N e^2) (P. Massart, "The Tight Constant in the Dvoretzky-Kiefer-Wolfowitz Inequality", 1990): for 10^-9,
 * e^2 = log(2 * 10^9) / 2 N. Draws are rounded to 2^-16, which the distribution is compared at: half of that is
 * where a draw of the next number began.
 */
enum { DRAWS = 200000 };
static void distribution_is_beta(void **state)
{
    (void)state;
    static int64_t counts[LKI_MIX_ONE + 1];
    const double alphas[] = {0.5, 1, 2};
    double (*const truth[])(double) = {arcsine, uniform, parabola};
    for (int a = 0; a < 3; a++) {
        memset(counts, 0, sizeof counts);
        for (int64_t i = 0; i < DRAWS; i++) counts[drawn(alphas[a], 3, i, 0, 2).share]++;
        double below = 0, worst = 0;
        for (int k = 0; k < LKI_MIX_ONE; k++) {
            below += (double)counts[k];
            worst = fmax(worst, fabs(below / DRAWS - truth[a]((k + 0.5) / LKI_MIX_ONE)));
        }
        assert_true(worst < sqrt(log(2e9) / (2.0 * DRAWS)));
    }
}

/*
 * For others mean and variance: 1/2, and s = 1 / (4 (2 alpha + 1)). With |x - 1/2| <= 1/2 the fourth moment is at most
 * s / 4, so means of N squares scatter by at most sqrt(s / 4 N); six of these. Rounding adds 2^-34 / 12 in all.
 */
static void moments_are_those_of_beta(void **state)
{
    (void)state;
    const double alphas[] = {0.01, 0.2, 0.4, 0.99, 1.01, 8, 100, 1000};
    for (size_t a = 0; a < sizeof alphas / sizeof *alphas; a++) {
        const double s = 1 / (4 * (2 * alphas[a] + 1));
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < DRAWS; i++) {
            const double x = drawn(alphas[a], 0, i, 0, 2).share / 65536.0 - 0.5;
            sum += x / DRAWS;
            squares += x * x / DRAWS;
        }
        assert_true(fabs(sum) < 6 * sqrt(s / DRAWS));
        assert_true(fabs(squares - s) < 6 * sqrt(s / 4 / DRAWS) + 0x1p-34);
    }
}

static void others_are_all_the_others(void **state)
{
    (void)state;
    int64_t counts[5] = {0};
    for (int64_t i = 0; i < 5000; i++) counts[drawn(1, 0, i, 3, 5).other]++;
    assert_int_equal(counts[3], 0);
    for (int k = 0; k < 5; k++) /* 1250 +- six deviations of sqrt(5000 3/16) */
        if (k != 3) assert_in_range(counts[k], 1066, 1434);
    assert_int_equal(drawn(1, 0, 9, 0, 1).other, 0); /* alone */
}

/* Every bit, with any compiler, on any machine: docs/numerics.md. */
static void the_bits_are_kept(void **state)
{
    (void)state;
    const double alphas[] = {0.1, 0.4, 1, 3};
    const uint64_t expected[] = {0x887975f0d0990d1a, 0x989e7efab2fe977f, 0x58397ee4df3f42c2,
                                 0x47ec536dee9b3b05};
    static lki_mixup found[2000];
    for (int a = 0; a < 4; a++) {
        memset(found, 0, sizeof found); /* with what lies between members */
        for (int64_t i = 0; i < 2000; i++) {
            const lki_mixup one = drawn(alphas[a], i % 3, i, i, 2000);
            found[i].other = one.other;
            found[i].share = one.share;
        }
        const uint64_t hash = lki_hash(found, sizeof found);
        if (hash != expected[a])
            fail_msg("alpha %g: the hash is 0x%016llx", alphas[a], (unsigned long long)hash);
    }
}

/* ---------------------------------------------------------------- loaders */

static const double ALPHA = 0.7;
static const lks_augmentation shifted = {.kind = LKS_AUGMENT_CROP, .padding = 2};

/* A batch of a part of the images that begins with number `first` of them, against `seen`. Returns how many samples
 * have the other one's label. */
static int expect_mixed(const lks_batch *batch, const lks_dataset *set)
{
    const int64_t samples = lks_dataset_get_info(set).samples;
    int swapped = 0;
    assert_non_null(batch->mix);
    for (int64_t i = 0; i < batch->count; i++) {
        const int64_t at = lks_dataset_position(set, batch->ids[i]);
        const lki_mixup mixup = drawn(ALPHA, batch->epoch, at, batch->ids[i], samples);
        const int64_t other = lks_dataset_position(set, mixup.other);
        const uint8_t *a = &seen[batch->epoch][at][0][0][0];
        const uint8_t *b = &seen[batch->epoch][other][0][0][0];
        const uint8_t *x = (const uint8_t *)batch->x + i * IMAGE;
        const double share = mixup.share / 65536.0;
        const bool more = mixup.share > 32768;
        for (int p = 0; p < IMAGE; p++)
            assert_int_equal(x[p], (int)floor((1 - share) * a[p] + share * b[p] + 0.5));
        assert_int_equal(((const int32_t *)batch->y)[i], labels[more ? other : at]);
        assert_int_equal(batch->mix[i].label, labels[more ? at : other]);
        assert_true((double)batch->mix[i].weight == (more ? 1 - share : share));
        swapped += more;
    }
    return swapped;
}

static void any_reader_mixes_alike(void **state)
{
    (void)state;
    look(&shifted, 1);
    for (int threads = -1; threads <= 3; threads++) {
        lks_dataset *set = open_images();
        lks_loader *loader;
        lks_batch batch;
        int swapped = 0, all = 0;
        LKT_OK(lks_loader_create(&loader, context, set,
                                 &(lks_loader_opts){.global_batch = BATCH,
                                                    .threads = threads,
                                                    .in_order = threads == 2,
                                                    .augment = &shifted,
                                                    .augmentations = 1,
                                                    .mixup = ALPHA}));
        for (int64_t b = 0; b < EPOCHS * lks_loader_batches(loader); b++) {
            LKT_OK(lks_loader_next(loader, &batch));
            swapped += expect_mixed(&batch, set);
            all += (int)batch.count;
        }
        assert_in_range(swapped, all * 4 / 10, all * 6 / 10);
        LKT_OK(lks_loader_seek(loader, 11));
        LKT_OK(lks_loader_next(loader, &batch));
        assert_int_equal(batch.epoch, 1);
        expect_mixed(&batch, set);
        lks_loader_destroy(loader);
        lks_dataset_destroy(set);
    }
}

/* Parts draw the others among themselves, as the one who trains sees no sample that is held back. */
static void parts_mix_their_own_samples(void **state)
{
    (void)state;
    lks_dataset *set = open_images(), *slice;
    LKT_OK(lks_dataset_slice(&slice, set, 30, 40));
    look(&shifted, 1);
    for (int share = 0; share < 3; share++) {
        lks_loader *loader;
        LKT_OK(lks_loader_create(&loader, context, slice,
                                 &(lks_loader_opts){.global_batch = BATCH,
                                                    .threads = 2,
                                                    .shares = 5,
                                                    .first_share = 2 * share,
                                                    .last_share = share == 2 ? 5 : 2 * share + 2,
                                                    .augment = &shifted,
                                                    .augmentations = 1,
                                                    .mixup = ALPHA}));
        for (int64_t b = 0; b < EPOCHS * lks_loader_batches(loader); b++) {
            lks_batch batch;
            LKT_OK(lks_loader_next(loader, &batch));
            expect_mixed(&batch, slice);
        }
        lks_loader_destroy(loader);
    }
    lks_dataset_destroy(slice);
    lks_dataset_destroy(set);
}

enum { WIDTH = 3, ROWS_OF_FLOATS = 8 };
static const lks_dataset_info floats = {.samples = ROWS_OF_FLOATS,
                                        .shape = {.ndim = 1, .dim = {WIDTH}},
                                        .dtype = LKS_F32,
                                        .classes = ROWS_OF_FLOATS};

static void floats_are_rounded_once(void **state)
{
    (void)state;
    static float x[ROWS_OF_FLOATS][WIDTH];
    static int32_t y[ROWS_OF_FLOATS];
    lks_dataset *set;
    lks_loader *loader;
    for (int i = 0; i < ROWS_OF_FLOATS; i++)
        for (int k = 0; k < WIDTH; k++) x[i][k] = (float)(i * i - 7 * k) / 3, y[i] = i;
    LKT_OK(lks_dataset_from_arrays(&set, context, &floats, x, y));
    LKT_OK(lks_loader_create(
        &loader, context, set,
        &(lks_loader_opts){.global_batch = ROWS_OF_FLOATS, .threads = -1, .mixup = ALPHA}));
    for (int epoch = 0; epoch < 5; epoch++) {
        lks_batch batch;
        LKT_OK(lks_loader_next(loader, &batch));
        for (int64_t i = 0; i < ROWS_OF_FLOATS; i++) {
            const int64_t id = batch.ids[i];
            const lki_mixup mixup = drawn(ALPHA, epoch, id, id, ROWS_OF_FLOATS);
            const double share = mixup.share / 65536.0;
            for (int k = 0; k < WIDTH; k++)
                assert_true(
                    ((const float *)batch.x)[i * WIDTH + k] ==
                    (float)((1 - share) * (double)x[id][k] + share * (double)x[mixup.other][k]));
        }
    }
    lks_loader_destroy(loader);
    lks_dataset_destroy(set);
}

static lks_status read_first_alone(void *user, int64_t index, void *x, void *y)
{
    (void)user;
    if (index != 0) return lks_fail(LKS_E_IO, "sample %d is gone", (int)index);
    memset(x, 0, sizeof(float) * WIDTH);
    memset(y, 0, sizeof(int32_t));
    return LKS_OK;
}

static void what_is_wrong_is_said(void **state)
{
    (void)state;
    lks_dataset *set = open_images(), *numbers, *broken;
    lks_loader *loader;
    lks_batch batch;
    lks_loader_opts opts = {.global_batch = 1, .threads = -1, .in_order = true};
    const double wrong[] = {-0.5, 0.0009, 1000.5, (double)NAN, (double)INFINITY};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        opts.mixup = wrong[i];
        LKT_FAILS(LKS_E_INVALID, ", expected 0.001 to 1000, or 0 for none",
                  lks_loader_create(&loader, context, set, &opts));
    }
    opts.mixup = 0.001;
    LKT_OK(lks_loader_create(&loader, context, set, &opts));
    lks_loader_destroy(loader);
    opts.mixup = 1000;
    lks_dataset_info other = floats;
    other.classes = 0;
    other.target_shape = (lks_shape){.ndim = 1, .dim = {1}};
    static float x[ROWS_OF_FLOATS * WIDTH];
    LKT_OK(lks_dataset_from_arrays(&numbers, context, &other, x, x));
    LKT_FAILS(LKS_E_UNSUPPORTED,
              "loader of 'arrays': mixup is for targets that are classes, and these are floats",
              lks_loader_create(&loader, context, numbers, &opts));
    other = floats;
    other.samples = 2;
    LKT_OK(lks_dataset_create(&broken, context, "broken",
                              &(lks_dataset_ops){.info = other, .read = read_first_alone}, NULL));
    LKT_OK(lks_loader_create(&loader, context, broken, &opts));
    LKT_FAILS(LKS_E_IO, "sample 1 is gone", lks_loader_next(loader, &batch));
    lks_loader_destroy(loader);
    lks_dataset_destroy(broken);
    lks_dataset_destroy(numbers);
    lks_dataset_destroy(set);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(shares_are_drawn_as_written), TEST(distribution_is_beta),
        TEST(moments_are_those_of_beta),   TEST(others_are_all_the_others),
        TEST(the_bits_are_kept),           TEST(any_reader_mixes_alike),
        TEST(parts_mix_their_own_samples), TEST(floats_are_rounded_once),
        TEST(what_is_wrong_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

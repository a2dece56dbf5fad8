/* Loaders that augment: the same bytes whoever reads them, when, and in which part of the data. */
#include "augment/images.h"

/* One of each, with options that change most images. */
static lks_augmentation all[16];
static int count;

static void list_all(void)
{
    const lki_augmentation_rule *rule;
    for (count = 0; (rule = lki_augmentation_at(count)) != NULL; count++)
        all[count] = (lks_augmentation){.kind = rule->kind,
                                        .padding = 2,
                                        .size = 3,
                                        .brightness = 0.5,
                                        .contrast = 0.3,
                                        .saturation = 0.3,
                                        .hue = 0.1};
}

static void expect_seen(lks_loader *loader, const lks_dataset *set)
{
    lks_batch batch;
    LKT_OK(lks_loader_next(loader, &batch));
    for (int64_t i = 0; i < batch.count; i++) {
        const int64_t at = lks_dataset_position(set, batch.ids[i]);
        assert_memory_equal((const uint8_t *)batch.x + i * IMAGE, seen[batch.epoch][at], IMAGE);
    }
}

static void any_threads_and_seeks_same_bytes(void **state)
{
    (void)state;
    list_all();
    look(all, count);
    assert_memory_not_equal(seen[0], pixels, sizeof pixels);
    assert_memory_not_equal(seen[0], seen[1], sizeof pixels);
    for (int threads = -1; threads <= 4; threads++) {
        lkt_random random = lkt_random_make("seeks", 5);
        lks_dataset *set = open_images();
        lks_loader *loader;
        const lks_loader_opts opts = {.global_batch = BATCH,
                                      .threads = threads,
                                      .ahead = 1 + (threads + 1) % 3,
                                      .augment = all,
                                      .augmentations = count};
        LKT_OK(lks_loader_create(&loader, context, set, &opts));
        const int64_t batches = lks_loader_batches(loader);
        for (int64_t b = 0; b < EPOCHS * batches; b++) expect_seen(loader, set);
        for (int i = 0; i < 30; i++) {
            LKT_OK(lks_loader_seek(loader, lkt_random_below(&random, EPOCHS * batches - 3)));
            for (int k = 0; k < 3; k++) expect_seen(loader, set);
        }
        lks_loader_destroy(loader);
        lks_dataset_destroy(set);
    }
}

static void parts_see_what_the_whole_sees(void **state)
{
    (void)state;
    lks_dataset *set = open_images(), *slice, *rest, *held;
    list_all();
    look(all, count);
    LKT_OK(lks_dataset_slice(&slice, set, 20, 60));
    LKT_OK(lks_dataset_split(&rest, &held, slice, 17));
    for (int share = 0; share < 3; share++) { /* as ranks have them */
        lks_dataset *const parts[] = {set, slice, rest};
        for (int p = 0; p < 3; p++) {
            lks_loader *loader;
            const lks_loader_opts opts = {.global_batch = BATCH,
                                          .threads = 2,
                                          .in_order = p == 1,
                                          .shares = 5,
                                          .first_share = 2 * share,
                                          .last_share = share == 2 ? 5 : 2 * share + 2,
                                          .augment = all,
                                          .augmentations = count};
            LKT_OK(lks_loader_create(&loader, context, parts[p], &opts));
            for (int64_t b = 0; b < EPOCHS * lks_loader_batches(loader); b++)
                expect_seen(loader, parts[p]);
            lks_loader_destroy(loader);
        }
    }
    lks_dataset_destroy(held);
    lks_dataset_destroy(rest);
    lks_dataset_destroy(slice);
    lks_dataset_destroy(set);
}

static void what_is_wrong_is_said(void **state)
{
    (void)state;
    static float x[2][4];
    static int32_t y[2];
    static const lks_dataset_info rows = {
        .samples = 2, .shape = {.ndim = 1, .dim = {4}}, .dtype = LKS_F32, .classes = 2};
    static const struct row {
        lks_augmentation one;
        lks_status status;
        const char *part;
    } wrong[] = {
        {{.kind = LKS_AUGMENT_CROP, .padding = COLUMNS},
         LKS_E_SHAPE,
         "crop: padding is 7, but images have 9 rows and 7 columns; expected less than both"},
        {{.kind = LKS_AUGMENT_CROP, .padding = -1}, LKS_E_INVALID, "crop: padding is -1, expected"},
        {{.kind = LKS_AUGMENT_CROP, .fill = (lks_fill)7}, LKS_E_INVALID, "crop: fill is "},
        {{.kind = LKS_AUGMENT_FLIP, .probability = 1.5},
         LKS_E_INVALID,
         "flip: probability is 1.5, expected"},
        {{.kind = LKS_AUGMENT_ROTATE, .degrees = 181},
         LKS_E_INVALID,
         "rotate: degrees is 181, expected"},
        {{.kind = LKS_AUGMENT_TRANSLATE, .pixels = {8, 7}},
         LKS_E_SHAPE,
         "translate: pixels is [8, 7], but images have 9 rows and 7 columns; expected less"},
        {{.kind = LKS_AUGMENT_RESIZED_CROP, .scale = 1.5},
         LKS_E_INVALID,
         "resized_crop: scale is 1.5"},
        {{.kind = LKS_AUGMENT_CUTOUT}, /* 8 */
         LKS_E_SHAPE,
         "cutout: size is 8, but images have 9 rows and 7 columns; expected at most that"},
        {{.kind = LKS_AUGMENT_JITTER},
         LKS_E_INVALID,
         "jitter: it changes nothing; give brightness, "},
        {{.kind = LKS_AUGMENT_JITTER, .hue = 0.6}, LKS_E_INVALID, "jitter: hue is 0.6"},
        {{.kind = (lks_augmentation_kind)99}, LKS_E_INVALID, "kind is 99, expected"},
    };
    lks_dataset *set = open_images(), *floats;
    lks_loader *loader;
    lks_loader_opts opts = {.global_batch = 2, .augmentations = 1};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        opts.augment = &wrong[i].one;
        LKT_FAILS(wrong[i].status, wrong[i].part, lks_loader_create(&loader, context, set, &opts));
        assert_null(loader);
        LKT_FAILS(wrong[i].status, wrong[i].part, lks_augmentation_check(&wrong[i].one, &info));
    }
    opts.augment = NULL;
    LKT_FAILS(LKS_E_INVALID, "loader of 'arrays': augmentations is 1, expected as many as",
              lks_loader_create(&loader, context, set, &opts));
    LKT_OK(lks_dataset_from_arrays(&floats, context, &rows, x, y));
    opts.augment = &(lks_augmentation){.kind = LKS_AUGMENT_FLIP};
    LKT_FAILS(LKS_E_UNSUPPORTED,
              "flip is for images of bytes (rows, columns, channels), but samples are floats of 1 "
              "dimension; drop it",
              lks_loader_create(&loader, context, floats, &opts));
    lks_dataset_destroy(floats);
    lks_dataset_destroy(set);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(any_threads_and_seeks_same_bytes),
        TEST(parts_see_what_the_whole_sees),
        TEST(what_is_wrong_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

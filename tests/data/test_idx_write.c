/* IDX files that are written: what others read, what fails, and what a failure leaves. */
#include "data/idx.h"

static void writes_what_others_read(void **state)
{
    (void)state;
    static const uint8_t x_head[16] = {0, 0, 8, 3, 0, 0, 2, 1, 0, 0, 0, 28, 0, 0, 0, 28};
    static const uint8_t y_head[8] = {0, 0, 8, 1, 0, 0, 2, 1};
    enum { SAMPLES = 513 }; /* two blocks and one */
    static uint8_t file[16 + SAMPLES * 784 + 1];
    const lks_digits_opts opts = {.samples = SAMPLES, .seed = 5};
    lks_dataset *digits, *back;
    uint64_t before, after;

    LKT_OK(lks_dataset_open_digits(&digits, context, &opts));
    LKT_OK(lks_dataset_write_idx(digits, images, labels));
    assert_int_equal(read_bytes(images, file, sizeof file), 16 + SAMPLES * 784);
    assert_memory_equal(file, x_head, sizeof x_head);
    assert_int_equal(read_bytes(labels, file, sizeof file), 8 + SAMPLES);
    assert_memory_equal(file, y_head, sizeof y_head);
    LKT_OK(lks_dataset_open_idx(&back, context, images, labels, 10));
    LKT_OK(lks_dataset_hash(digits, &before));
    LKT_OK(lks_dataset_hash(back, &after));
    assert_true(before == after);
    lks_dataset_destroy(back);
    lks_dataset_destroy(digits);
}

static lks_status read_some(void *user, int64_t index, void *x, void *y)
{
    static const int32_t zero = 0;
    if (index == *(const int64_t *)user) return lks_fail(LKS_E_IO, "the tape broke");
    memset(x, (int)(index & 255), 6);
    memcpy(y, &zero, sizeof zero);
    return LKS_OK;
}

static void leaves_nothing_when_writing_fails(void **state)
{
    (void)state;
    int64_t bad = 300;
    char path[4300];
    lks_dataset *set;
    lks_dataset_ops ops = {.info = {.samples = 400, .shape = LKS_SHAPE(6), .classes = 1},
                           .read = read_some};
    ops.info.dtype = LKS_U8;
    LKT_OK(lks_dataset_create(&set, context, "tape", &ops, &bad));
    LKT_FAILS(LKS_E_IO, "data set 'tape': sample 300 could not be read: the tape broke",
              lks_dataset_write_idx(set, images, labels));
    bad = -1;
    snprintf(path, sizeof path, "%s-missing/labels", labels);
    LKT_FAILS(LKS_E_IO, path, lks_dataset_write_idx(set, images, path));
    LKT_FAILS(LKS_E_INVALID, "two different ones", lks_dataset_write_idx(set, images, images));
    *strrchr(path, '-') = '\0';
    *strrchr(path, '/') = '\0';
    assert_int_equal(rmdir(path), 0); /* it is empty: nothing was left */
    assert_int_equal(mkdir(path, 0777), 0);
    LKT_OK(lks_dataset_write_idx(set, images, labels));
    lks_dataset_destroy(set);
}

static int64_t bytes_of(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 ? about.st_size : -1;
}

/* While the last sample is read, a folder takes the name of the labels. */
static lks_status read_and_block(void *user, int64_t index, void *x, void *y)
{
    static const int64_t nothing_bad = -1;
    if (index == 39) assert_int_equal(mkdir(user, 0777), 0);
    return read_some((void *)(uintptr_t)&nothing_bad, index, x, y);
}

/* New images without their labels would mislead, so they go; older images, which were never replaced,
 * stay. */
static void images_do_not_stay_without_labels(void **state)
{
    (void)state;
    int64_t bad = -1;
    char path[4300];
    lks_dataset *small, *set;
    lks_dataset_ops ops = {.info = {.samples = 40, .shape = LKS_SHAPE(6), .classes = 1},
                           .read = read_some};
    ops.info.dtype = LKS_U8;
    LKT_OK(lks_dataset_create(&set, context, "tape", &ops, &bad));
    ops.info.samples = 2;
    LKT_OK(lks_dataset_create(&small, context, "tape", &ops, &bad));
    LKT_OK(lks_dataset_write_idx(small, images, labels));
    const int64_t before = bytes_of(images);
    snprintf(path, sizeof path, "%s-missing/labels", labels);
    LKT_FAILS(LKS_E_IO, path, lks_dataset_write_idx(set, images, path));
    assert_int_equal(bytes_of(images), before);
    bad = 20; /* while they are written */
    LKT_FAILS(LKS_E_IO, "the tape broke", lks_dataset_write_idx(set, images, labels));
    assert_int_equal(bytes_of(images), before);
    bad = -1;
    /* The images have their name when it turns out that the labels cannot get theirs. */
    lks_dataset_destroy(set);
    snprintf(path, sizeof path, "%s-blocked", labels);
    ops.info.samples = 40;
    ops.read = read_and_block;
    LKT_OK(lks_dataset_create(&set, context, "tape", &ops, path));
    LKT_FAILS(LKS_E_IO, path, lks_dataset_write_idx(set, images, path));
    assert_int_equal(bytes_of(images), -1);
    assert_int_equal(rmdir(path), 0);
    lks_dataset_destroy(small);
    lks_dataset_destroy(set);
}

static void refuses_to_write_what_does_not_fit(void **state)
{
    (void)state;
    static const float x[2] = {0, 0};
    static const int32_t y[2] = {0, 0};
    static const struct {
        lks_dataset_info info;
        const char *part;
    } cases[] = {
        {{.samples = 1, .dtype = LKS_F32, .shape = {1, {1}}, .classes = 2}, "F32 samples and 2"},
        {{.samples = 1, .dtype = LKS_U8, .shape = {1, {1}}}, "U8 samples and 0 classes"},
        {{.samples = 1, .dtype = LKS_U8, .shape = {1, {1}}, .classes = 257}, "257 classes"},
        {{.samples = 1, .dtype = LKS_U8, .shape = {0, {0}}, .classes = 2}, "of 0 dimensions"},
        {{.samples = 1, .dtype = LKS_U8, .shape = {5, {1, 1, 1, 1, 1}}, .classes = 2},
         "of 5 dimensions"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lks_dataset *set;
        LKT_OK(lks_dataset_from_arrays(&set, context, &cases[i].info, x, y));
        LKT_FAILS(LKS_E_INVALID, cases[i].part, lks_dataset_write_idx(set, images, labels));
        lks_dataset_destroy(set);
    }
}

static void survives_every_failed_allocation(void **state)
{
    (void)state;
    lks_status status = LKS_E_NOMEM;
    const idx x = make(3, image_dims, 251), y = make(1, label_dims, 3);
    write_gzip(images, x.data, x.bytes);
    write_gzip(labels, y.data, y.bytes);
    for (int64_t n = 1; status != LKS_OK; n++) {
        lkt_heap heap = {0};
        lks_context *own;
        lks_dataset *set;
        const lks_context_opts opts = {.allocator = lkt_heap_allocator(&heap)};
        LKT_OK(lks_context_create(&own, &opts));
        heap.fail_at = heap.allocations + n;
        status = lks_dataset_open_idx(&set, own, images, labels, 0);
        if (status == LKS_OK)
            status = lks_dataset_write_idx(set, images, labels);
        else
            assert_null(set);
        if (status != LKS_OK) assert_int_equal(status, LKS_E_NOMEM);
        lks_dataset_destroy(set);
        lks_context_destroy(own);
        assert_int_equal(heap.live, 0);
        assert_int_equal(heap.errors, 0);
    }
    check_usual();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_idx, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(writes_what_others_read),           TEST(leaves_nothing_when_writing_fails),
        TEST(images_do_not_stay_without_labels), TEST(refuses_to_write_what_does_not_fit),
        TEST(survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

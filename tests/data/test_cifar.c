/* CIFAR-10 and CIFAR-100: every form they are published in, and what is wrong with files. */
#include "data/cifar_files.h"

/* The split has `count` samples of those by formula, from `first` on. */
static void expect_samples(bool test_split, int64_t classes, int first, int count)
{
    lks_dataset *set;
    LKT_OK(lks_dataset_open_folder(&set, context, folder, test_split, classes));
    const lks_dataset_info info = lks_dataset_get_info(set);
    assert_int_equal(info.samples, count);
    assert_int_equal(info.dtype, LKS_U8);
    assert_int_equal(info.shape.ndim, 3);
    assert_int_equal(info.shape.dim[0], 32);
    assert_int_equal(info.shape.dim[1], 32);
    assert_int_equal(info.shape.dim[2], 3);
    if (classes > 0) assert_int_equal(info.classes, classes);
    for (int k = 0; k < count; k++) {
        uint8_t x[PIXELS];
        int32_t y = -1;
        LKT_OK(lks_dataset_read(set, k, x, &y));
        assert_int_equal(y, (first + k) % info.classes);
        for (int i = 0; i < PIXELS; i++) assert_int_equal(x[i], pixel(first + k, i / 3, i % 3));
    }
    lks_dataset_destroy(set);
}

static void fails(lks_status status, const char *part, bool test_split)
{
    lks_dataset *set = (lks_dataset *)(void *)context; /* must become NULL */
    LKT_FAILS(status, part, lks_dataset_open_folder(&set, context, folder, test_split, 0));
    assert_null(set);
}

static bytes b, archive;

static void reads_binary_files(void **state)
{
    (void)state;
    char name[64];
    for (int i = 1; i <= 5; i++) {
        records(&b, 2 * i, 2, false);
        snprintf(name, sizeof name, "data_batch_%d.bin%s", i, i % 2 ? "" : ".gz");
        (i % 2 ? write_file : write_packed)(name, b.data, b.count);
    }
    expect_samples(false, 0, 2, 10);
    assert_false(lks_dataset_folder_has(folder, true));
    fails(LKS_E_IO, "has no test samples; expected t10k-images", true);
    records(&b, 7, 3, false);
    write_file("test_batch.bin", b.data, b.count);
    expect_samples(true, 10, 7, 3);
    assert_int_equal(unlink(in("data_batch_3.bin")), 0);
    fails(LKS_E_IO,
          "has files of the training split of CIFAR-10 but no data_batch_3.bin[.gz]; put it",
          false);
}

static void reads_both_labels(void **state)
{
    (void)state;
    records(&b, 15, 9, true);
    assert_int_equal(mkdir(in("cifar-100-binary"), 0777), 0);
    write_file("cifar-100-binary/train.bin", b.data, b.count);
    expect_samples(false, 0, 15, 9);
    expect_samples(false, 20, 15, 9);
    expect_samples(false, 100, 15, 9);
    pickled(&b, 30, 4, true);
    assert_int_equal(mkdir(in("cifar-100-python"), 0777), 0);
    write_packed("cifar-100-python/test.gz", b.data, b.count);
    expect_samples(true, 0, 30, 4);
    expect_samples(true, 20, 30, 4);
}

static void make_archive(const char *below, const char *end, bool is_pickled)
{
    char name[64];
    archive.count = 0;
    put_member(&archive, below, '5', "", 0);
    for (int i = 0; i < 6; i++) {
        (is_pickled ? pickled : records)(&b, 1 + 2 * i, 2, false);
        snprintf(name, sizeof name, i < 5 ? "%sdata_batch_%d%s" : "%stest_batch%.0d%s", below,
                 i < 5 ? i + 1 : 0, end);
        put_member(&archive, name, '0', b.data, b.count);
    }
    const uint8_t zeros[1024] = {0};
    put(&archive, zeros, sizeof zeros);
}

static void reads_archives(void **state)
{
    (void)state;
    make_archive("cifar-10-batches-py/", "", true);
    write_packed("cifar-10-python.tar.gz", archive.data, archive.count);
    expect_samples(false, 0, 1, 10);
    expect_samples(true, 0, 11, 2);
    make_archive("cifar-10-batches-bin/", ".bin", false);
    write_packed("cifar-10-binary.tar.gz", archive.data, archive.count); /* comes first */
    expect_samples(false, 0, 1, 10);
    expect_samples(true, 0, 11, 2);
}

/* In the place of a folder, by the name that it is published under. */
static void reads_an_archive_itself(void **state)
{
    (void)state;
    static const char *const names[] = {"cifar-10-python.tar.gz", "cifar-10-python.tar"};
    make_archive("cifar-10-batches-py/", "", true);
    write_packed(names[0], archive.data, archive.count);
    write_file(names[1], archive.data, archive.count);
    for (int i = 0; i < 2; i++) {
        lks_dataset *set;
        assert_true(lks_dataset_folder_has(in(names[i]), false));
        LKT_OK(lks_dataset_open_folder(&set, context, in(names[i]), true, 0));
        assert_int_equal(lks_dataset_get_info(set).samples, 2);
        assert_string_equal(lks_dataset_name(set), in(names[i]));
        lks_dataset_destroy(set);
    }
    write_file("cifar-10-python.tar.xz", archive.data, archive.count);
    assert_false(lks_dataset_folder_has(in("cifar-10-python.tar.xz"), false));
}

static void says_what_is_wrong_with_archives(void **state)
{
    (void)state;
    make_archive("cifar-10-batches-bin/", ".bin", false);
    write_packed("cifar-10-binary.tar.gz", archive.data, 3 * 512);
    fails(LKS_E_FORMAT,
          "the tar archive ends within 'cifar-10-batches-bin/data_batch_1.bin', after 512", false);
    write_packed("cifar-10-binary.tar.gz", archive.data, 700);
    fails(LKS_E_FORMAT, "the tar archive ends within a header, at byte 512; it is truncated",
          false);
    write_packed("cifar-10-binary.tar.gz", archive.data, 512);
    fails(LKS_E_FORMAT, "has no file 'data_batch_1.bin' in it; it is another archive", false);
    archive.data[512] ^= 1;
    write_packed("cifar-10-binary.tar.gz", archive.data, archive.count);
    fails(LKS_E_FORMAT, "byte 512 is no header of a tar archive, expected one; it is damaged",
          true);
    write_file("cifar-10-binary.tar.gz", "not an archive", 14);
    fails(LKS_E_FORMAT, "the tar archive ends within a header, at byte 0", true);
}

static void says_what_is_wrong_with_records(void **state)
{
    (void)state;
    records(&b, 0, 2, false);
    write_file("test_batch.bin", b.data, b.count - 1);
    fails(LKS_E_FORMAT,
          "has 6145 bytes, expected records of 3073 (1 of labels, 3072 of pixels); it is", true);
    write_file("test_batch.bin", b.data, 0);
    fails(LKS_E_FORMAT, "has 0 bytes, expected records of 3073", true);
    b.data[3073] = 10;
    write_file("test_batch.bin", b.data, b.count);
    fails(LKS_E_FORMAT, "label number 1 is 10, expected 0 to 9; the file is damaged", true);
    write_packed("test_batch.bin", b.data, b.count);
    assert_int_equal(truncate(in("test_batch.bin"), 100), 0);
    fails(LKS_E_FORMAT, "the gzip data ends too early, after 100 bytes", true);
}

/* One change to a good pickle each. */
static void says_what_is_wrong_with_pickles(void **state)
{
    (void)state;
    static const struct {
        const char *find, *replace, *says;
    } cases[] = {
        {"U\002u1", "U\002f4", "the array 'data' is of another kind, expected unsigned bytes"},
        {"cnumpy\ndtype", "cposix\nsystm",
         "there is an object that is no array of NumPy, expected"},
        {"U\004data", "U\004dada", "has no array 'data' in its dictionary"},
        {"U\006labels", "U\006levels", "has no list 'labels' in its dictionary"},
        {"K\002e", "Ne.", "there is the end of something else"},
        {"\x89T", "\x81T", "there is the instruction 0x81, expected"},
        {"]q\004(", "]q\004i", "there is the instruction 0x69, expected only a dictionary"},
        {"M\0\014", "M\1\014", "the array 'data' is of another kind"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pickled(&b, 0, 3, false);
        /* Finds a text with zero bytes by the length of what stands for it. */
        const size_t length = i == 7 ? 3 : strlen(cases[i].find);
        uint8_t *at = memmem(b.data, b.count, cases[i].find, length);
        assert_non_null(at);
        memcpy(at, cases[i].replace, i == 7 ? 3 : strlen(cases[i].replace));
        write_file("test_batch", b.data, b.count);
        fails(LKS_E_FORMAT, cases[i].says, true);
    }
    pickled(&b, 0, 3, false);
    for (size_t cut = 0; cut < b.count; cut += cut < 400 ? 1 : 997) {
        write_file("test_batch", b.data, cut);
        fails(LKS_E_FORMAT, "the pickle ends too early, after", true);
    }
    put_byte(&b, '.');
    write_file("test_batch", b.data, b.count);
    fails(LKS_E_FORMAT, "there is more behind the end, expected", true);
}

static bool real(const char *name)
{
    char path[4200];
    const char *data = lkt_data_folder();
    snprintf(path, sizeof path, "%s/%s", data ? data : "", name);
    if (data != NULL && access(path, F_OK) == 0) return true;
    print_message("%s is not there (set LKS_TEST_DATA); skipped\n", name);
    skip();
    return false;
}

static void real_cifar10(void **state)
{
    (void)state;
    static const int32_t first[] = {3, 8, 8, 0, 6, 6, 1, 6, 3, 1};
    if (!real("cifar10/test_batch.bin.gz")) return;
    char path[4200];
    lks_dataset *set;
    int64_t counts[10] = {0};
    uint8_t x[PIXELS];
    int32_t y;
    snprintf(path, sizeof path, "%s/cifar10", lkt_data_folder());
    assert_true(lks_dataset_folder_has(path, false));
    LKT_OK(lks_dataset_open_folder(&set, context, path, true, 0));
    assert_int_equal(lks_dataset_get_info(set).samples, 10000);
    for (int64_t i = 0; i < 10000; i++) {
        LKT_OK(lks_dataset_read(set, i, x, &y));
        if (i < 10) assert_int_equal(y, first[i]);
        counts[y]++;
    }
    for (int k = 0; k < 10; k++) assert_int_equal(counts[k], 1000);
    lks_dataset_destroy(set);
}

static void real_cifar100(void **state)
{
    (void)state;
    static const int32_t pairs[][2] = {{10, 49}, {10, 33}, {0, 72}, {4, 51}, {10, 71}};
    if (!real("cifar100/test_first2000.bin.gz")) return;
    char path[4200];
    uint8_t x[PIXELS];
    int32_t y;
    snprintf(path, sizeof path, "%s/cifar100/test_first2000.bin.gz", lkt_data_folder());
    assert_int_equal(symlink(path, in("test.bin.gz")), 0);
    for (int fine = 0; fine < 2; fine++) {
        lks_dataset *set;
        LKT_OK(lks_dataset_open_folder(&set, context, folder, true, fine ? 100 : 20));
        assert_int_equal(lks_dataset_get_info(set).samples, 2000);
        for (int i = 0; i < 5; i++) {
            LKT_OK(lks_dataset_read(set, i, x, &y));
            assert_int_equal(y, pairs[i][fine]);
        }
        lks_dataset_destroy(set);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(reads_binary_files),
        TEST(reads_both_labels),
        TEST(reads_archives),
        TEST(reads_an_archive_itself),
        TEST(says_what_is_wrong_with_archives),
        TEST(says_what_is_wrong_with_records),
        TEST(says_what_is_wrong_with_pickles),
        TEST(real_cifar10),
        TEST(real_cifar100),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

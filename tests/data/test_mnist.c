/* The folders in which MNIST and its like are found, and MNIST itself where it is. */
#include "data/folder.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Writes `samples` digits into the folder under these two names. */
static void put(int64_t samples, const char *images, const char *labels)
{
    char x[4200], y[4200];
    const lks_digits_opts opts = {.samples = samples};
    lks_dataset *set;
    snprintf(x, sizeof x, "%s/%s", folder, images);
    snprintf(y, sizeof y, "%s/%s", folder, labels);
    LKT_OK(lks_dataset_open_digits(&set, context, &opts));
    LKT_OK(lks_dataset_write_idx(set, x, y));
    lks_dataset_destroy(set);
}

static void make(const char *sub)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", folder, sub);
    assert_int_equal(mkdir(path, 0777), 0);
}

static void drop(const char *name)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(unlink(path), 0);
}

/* Which of several candidates is opened is told by the number of its samples. */
static void finds(int64_t samples, bool test_split)
{
    lks_dataset *set;
    LKT_OK(lks_dataset_open_mnist(&set, context, folder, test_split));
    assert_int_equal(lks_dataset_get_info(set).samples, samples);
    assert_int_equal(lks_dataset_get_info(set).classes, 10);
    lks_dataset_destroy(set);
}

static void fails(lks_status status, const char *part, bool test_split)
{
    lks_dataset *set = (lks_dataset *)(void *)context; /* must become NULL */
    LKT_FAILS(status, part, lks_dataset_open_mnist(&set, context, folder, test_split));
    assert_null(set);
}

static void prefers_names_and_folders_in_order(void **state)
{
    (void)state;
    make("FashionMNIST");
    make("FashionMNIST/raw");
    put(1, "FashionMNIST/raw/train-images-idx3-ubyte", "FashionMNIST/raw/train-labels-idx1-ubyte");
    finds(1, false);
    make("MNIST");
    make("MNIST/raw");
    put(2, "MNIST/raw/train-images-idx3-ubyte", "MNIST/raw/train-labels-idx1-ubyte");
    finds(2, false);
    /* plain files under names of packed ones: which it is, is told by the first two bytes */
    put(3, "train-images.idx3-ubyte.gz", "train-labels.idx1-ubyte.gz");
    finds(3, false);
    put(4, "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz");
    finds(4, false);
    put(5, "train-images.idx3-ubyte", "train-labels.idx1-ubyte");
    finds(5, false);
    put(6, "train-images-idx3-ubyte", "train-labels-idx1-ubyte");
    finds(6, false);
    fails(LKS_E_IO, "has no test samples; expected t10k-images-idx3-ubyte[.gz]", true);
    put(7, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte");
    finds(7, true);
    finds(6, false);
    drop("t10k-labels-idx1-ubyte");
    put(7, "spare", "t10k-labels.idx1-ubyte.gz"); /* images and labels may differ in style */
    finds(7, true);
}

static void says_what_to_do(void **state)
{
    (void)state;
    fails(LKS_E_IO,
          "has no training samples; expected train-images-idx3-ubyte[.gz] and "
          "train-labels-idx1-ubyte[.gz], there or where torchvision puts them below it",
          false);
    fails(LKS_E_IO, folder, false);
    put(2, "train-images-idx3-ubyte", "train-labels-idx1-ubyte");
    drop("train-labels-idx1-ubyte");
    fails(LKS_E_IO, "has the images of the training split but no train-labels-idx1-ubyte[.gz]",
          false);
    put(2, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte");
    drop("t10k-images-idx3-ubyte");
    fails(LKS_E_IO, "has the labels of the test split but no t10k-images-idx3-ubyte[.gz]", true);
    lks_dataset *set;
    LKT_FAILS(LKS_E_IO, "there is no folder '/nowhere/at-all'; expected one with the files of a",
              lks_dataset_open_mnist(&set, context, "/nowhere/at-all", false));
    LKT_FAILS(LKS_E_IO, "there is no folder ''", lks_dataset_open_mnist(&set, context, NULL, true));
    char path[5000]; /* longer than any path may be */
    snprintf(path, sizeof path, "%s/", folder);
    size_t length = strlen(path);
    while (length + 3 < sizeof path) {
        memcpy(path + length, "./", 3);
        length += 2;
    }
    LKT_FAILS(LKS_E_IO, "there is no folder", lks_dataset_open_mnist(&set, context, path, true));
}

static void real_mnist(void **state)
{
    (void)state;
    static const struct {
        int64_t samples;
        int64_t counts[10];
        int32_t first[8];
        double mean; /* of the pixels / 255, to five digits */
    } splits[] = {
        {60000,
         {5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949},
         {5, 0, 4, 1, 9, 2, 1, 3},
         0.13066},
        {10000,
         {980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009},
         {7, 2, 1, 0, 4, 1, 4, 9},
         0.13251},
    };
    char path[4200];
    struct stat about;
    const char *data = lkt_data_folder();
    snprintf(path, sizeof path, "%s/mnist", data ? data : "");
    if (!data || stat(path, &about) != 0) {
        print_message("MNIST is not there (set LKS_TEST_DATA); skipped\n");
        skip();
    }
    for (int split = 0; split < 2; split++) {
        int64_t counts[10] = {0}, sum = 0;
        lks_dataset *set;
        LKT_OK(lks_dataset_open_mnist(&set, context, path, split == 1));
        const lks_dataset_info info = lks_dataset_get_info(set);
        assert_int_equal(info.samples, splits[split].samples);
        assert_int_equal(info.classes, 10);
        assert_int_equal(info.shape.ndim, 3);
        assert_int_equal(lks_shape_elements(&info.shape), 784);
        for (int64_t i = 0; i < info.samples; i++) {
            uint8_t x[784];
            int32_t y;
            LKT_OK(lks_dataset_read(set, i, x, &y));
            if (i < 8) assert_int_equal(y, splits[split].first[i]);
            counts[y]++;
            for (int k = 0; k < 784; k++) sum += x[k];
        }
        for (int k = 0; k < 10; k++) assert_int_equal(counts[k], splits[split].counts[k]);
        const double mean = (double)sum / (double)(info.samples * 784) / 255;
        assert_true(mean > splits[split].mean - 5e-6 && mean < splits[split].mean + 5e-6);
        lks_dataset_destroy(set);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(prefers_names_and_folders_in_order),
        TEST(says_what_to_do),
        TEST(real_mnist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

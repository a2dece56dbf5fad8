/* Finding the IDX files of a data set in the folders that people have. */
#include "data/format.h"

#include <stdio.h>
#include <sys/stat.h>

#include <lockstep/tools.h>

#include "base/check.h"

enum { PATH_BYTES = 4096, MOST_CLASSES = 256 };

/* The folder itself, or where torchvision puts the files below it. */
static const char *const places[] = {"", "/MNIST/raw", "/FashionMNIST/raw", "/KMNIST/raw"};
enum { PLACES = sizeof places / sizeof *places };

const char *lks_idx_place(int number)
{
    return number >= 0 && number < PLACES ? places[number] : NULL;
}

/* A folder of such a name is a mistake that reading it will tell. */
static bool is_there(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && (S_ISREG(about.st_mode) || S_ISDIR(about.st_mode));
}

/* One of the names that a file may have: "train", "images", '-', "idx3", ".gz". */
static bool try_name(char *path, size_t size, const char *folder, const char *const part[2],
                     const char *idx, int style)
{
    const char joint = style % 2 == 0 ? '-' : '.', *end = style < 2 ? "" : ".gz";
    const int length = snprintf(path, size, "%s/%s-%s%c%s-ubyte%s", folder, part[0], part[1], joint,
                                idx, end);
    return length > 0 && (size_t)length < size && is_there(path);
}

bool lks_idx_find(char *path, size_t size, const char *folder, bool test_split, bool labels,
                  int number)
{
    if (path == NULL || folder == NULL) return false;
    static const char *const stems[2][2] = {{"train", NULL}, {"t10k", "test"}};
    /* The number is that of the dimensions, with the count of images; most often it is three. */
    static const char *const image_kinds[] = {"idx3", "idx4", "idx2", "idx5", NULL};
    static const char *const label_kinds[] = {"idx1", NULL};
    for (int stem = 0; stem < 2 && stems[test_split][stem]; stem++) {
        const char *const part[] = {stems[test_split][stem], labels ? "labels" : "images"};
        const char *const *idx = labels ? label_kinds : image_kinds;
        for (; *idx; idx++)
            for (int style = 0; style < 4; style++)
                if (try_name(path, size, folder, part, *idx, style) && number-- == 0) return true;
    }
    return false;
}

typedef struct split_files {
    char images[PATH_BYTES], labels[PATH_BYTES];
    bool has_images, has_labels;
} split_files;

/* In the first place that has either of the two. */
static bool find_split(split_files *out, char place[PATH_BYTES], const char *folder,
                       bool test_split)
{
    *out = (split_files){.has_images = false};
    for (int i = 0; i < PLACES; i++) {
        const int length = snprintf(place, PATH_BYTES, "%s%s", folder, places[i]);
        if (length < 0 || length >= PATH_BYTES) continue;
        out->has_images = lks_idx_find(out->images, PATH_BYTES, place, test_split, false, 0);
        out->has_labels = lks_idx_find(out->labels, PATH_BYTES, place, test_split, true, 0);
        if (out->has_images || out->has_labels) return true;
    }
    return false;
}

static bool has(const char *folder, bool test_split)
{
    split_files files;
    char place[PATH_BYTES];
    return find_split(&files, place, folder, test_split);
}

/* One more than the largest label of a file. */
static lks_status count_classes(int64_t *out, lks_context *context, const char *labels)
{
    lks_idx_info info;
    *out = 0;
    LKI_TRY(lks_idx_check(&info, context, labels, MOST_CLASSES));
    for (int value = 0; value < MOST_CLASSES; value++)
        if (info.values[value] > 0) *out = value + 1;
    return LKS_OK;
}

/* The classes of a test split are those of the training labels, where these are. */
static lks_status idx_folder_settle_classes(int64_t *out, lks_context *context, const char *folder,
                                            const split_files *test)
{
    split_files training;
    char place[PATH_BYTES];
    int64_t found;
    *out = 0;
    if (!find_split(&training, place, folder, false) || !training.has_labels) return LKS_OK;
    LKI_TRY(count_classes(out, context, training.labels));
    LKI_TRY(count_classes(&found, context, test->labels));
    if (found <= *out) return LKS_OK;
    return LKI_FAIL(
        LKS_E_FORMAT,
        "'%s' has labels up to %d, but '%s' only up to %d; if both are of the same data "
        "set, say how many classes it has (data.classes)",
        test->labels, (int)found - 1, training.labels, (int)*out - 1);
}

static lks_status open_split(lks_dataset **out, lks_context *context, const char *folder,
                             bool test_split, int64_t classes)
{
    split_files files;
    char place[PATH_BYTES];
    *out = NULL;
    find_split(&files, place, folder, test_split);
    if (!files.has_images || !files.has_labels)
        return LKI_FAIL(LKS_E_IO,
                        "'%s' has %s of the %s split but no %s-%s-ubyte[.gz]; put that file beside "
                        "it",
                        place, files.has_images ? "the images" : "the labels",
                        test_split ? "test" : "training", test_split ? "t10k" : "train",
                        files.has_images ? "labels-idx1" : "images-idx3");
    /* A label is a byte; a network may have more outputs. */
    if (classes > MOST_CLASSES) classes = MOST_CLASSES;
    if (test_split && classes == 0)
        LKI_TRY(idx_folder_settle_classes(&classes, context, folder, &files));
    return lks_dataset_open_idx(out, context, files.images, files.labels, classes);
}

#define PLACED ", there or where torchvision puts them below it"

const lki_data_format lki_idx_format = {
    .files = {"train-images-idx3-ubyte[.gz] and train-labels-idx1-ubyte[.gz]" PLACED,
              "t10k-images-idx3-ubyte[.gz] and t10k-labels-idx1-ubyte[.gz]" PLACED},
    .has = has,
    .open = open_split,
};

/* Finding the files of MNIST and its like in the folders that people have. */
#include "data/dataset.h"

#include <stdio.h>
#include <sys/stat.h>

#include "base/check.h"

enum { PATH_BYTES = 4096, MNIST_CLASSES = 10 };

#define WHERE_ELSE                                                                                 \
    "point --data at a folder that has them, or use the embedded digits: "                         \
    "lockstep train configs/digits.yaml"

static bool is_file(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

static bool is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* Looks for <stem>-<kind> in the folder: with '-' or '.', and plain before .gz. */
static bool find_file(char path[PATH_BYTES], const char *folder, const char *stem, const char *kind)
{
    static const struct {
        char joint;
        const char *end;
    } names[] = {{'-', ""}, {'.', ""}, {'-', ".gz"}, {'.', ".gz"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const int length = snprintf(path, PATH_BYTES, "%s/%s%c%s%s", folder, stem, names[i].joint,
                                    kind, names[i].end);
        if (length > 0 && length < PATH_BYTES && is_file(path)) return true;
    }
    return false;
}

static bool find_images(char path[PATH_BYTES], const char *folder, const char *split)
{
    char stem[32];
    snprintf(stem, sizeof stem, "%s-images", split);
    return find_file(path, folder, stem, "idx3-ubyte");
}

static bool find_labels(char path[PATH_BYTES], const char *folder, const char *split)
{
    char stem[32];
    snprintf(stem, sizeof stem, "%s-labels", split);
    return find_file(path, folder, stem, "idx1-ubyte");
}

lks_status lks_dataset_open_mnist(lks_dataset **out, lks_context *context, const char *folder,
                                  bool test_split)
{
    static const char *const layouts[] = {"", "/MNIST/raw", "/FashionMNIST/raw"};
    const char *split = test_split ? "t10k" : "train";
    char images[PATH_BYTES], labels[PATH_BYTES], place[PATH_BYTES];

    *out = NULL;
    if (!folder || !is_folder(folder))
        return LKI_FAIL(LKS_E_IO, "there is no folder '%s' with MNIST files; " WHERE_ELSE,
                        folder ? folder : "");
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        const int length = snprintf(place, sizeof place, "%s%s", folder, layouts[i]);
        if (length < 0 || length >= PATH_BYTES) continue;
        const bool has_images = find_images(images, place, split);
        const bool has_labels = find_labels(labels, place, split);
        if (has_images && has_labels)
            return lks_dataset_open_idx(out, context, images, labels, MNIST_CLASSES);
        if (has_images || has_labels)
            return LKI_FAIL(LKS_E_IO,
                            "'%s' has %s of the %s split but no %s-%s-ubyte[.gz]; put that file "
                            "beside it",
                            place, has_images ? "the images" : "the labels",
                            test_split ? "test" : "training", split,
                            has_images ? "labels-idx1" : "images-idx3");
    }
    return LKI_FAIL(LKS_E_IO,
                    "no MNIST files in '%s' (looked for %s-images-idx3-ubyte[.gz] there and in "
                    "MNIST/raw and FashionMNIST/raw); " WHERE_ELSE,
                    folder, split);
}

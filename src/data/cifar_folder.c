/* Finding the files of CIFAR in the folders that people have. */
#include "data/cifar.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const lki_cifar_layout layouts[] = {
    {.name = "CIFAR-10",
     .folder = "cifar-10-batches-bin",
     .archive = "cifar-10-binary.tar",
     .training = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                  "data_batch_5.bin"},
     .test = {"test_batch.bin"},
     .classes = 10},
    {.name = "CIFAR-100",
     .folder = "cifar-100-binary",
     .archive = "cifar-100-binary.tar",
     .training = {"train.bin"},
     .test = {"test.bin"},
     .classes = 100,
     .coarse = 20},
    {.name = "CIFAR-10",
     .folder = "cifar-10-batches-py",
     .archive = "cifar-10-python.tar",
     .training = {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"},
     .test = {"test_batch"},
     .classes = 10,
     .pickled = true},
    {.name = "CIFAR-100",
     .folder = "cifar-100-python",
     .archive = "cifar-100-python.tar",
     .training = {"train"},
     .test = {"test"},
     .classes = 100,
     .coarse = 20,
     .pickled = true},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

/* No folder: one that is called "train" has pictures. */
bool lki_cifar_file(char *path, size_t size, const char *folder, const char *name)
{
    struct stat about;
    for (int packed = 0; packed < 2; packed++) {
        const int length = snprintf(path, size, "%s/%s%s", folder, name, packed ? ".gz" : "");
        if (length > 0 && (size_t)length < size && stat(path, &about) == 0 &&
            S_ISREG(about.st_mode))
            return true;
    }
    return false;
}

/* Loose files of the split, in the folder itself or in the one that its archive unpacks to. */
static bool cifar_has_loose(lki_cifar_place *out, const lki_cifar_layout *layout,
                            const char *folder)
{
    char path[LKI_CIFAR_PATH + 64];
    const char *const *names = out->test_split ? layout->test : layout->training;
    for (int below = 0; below < 2; below++) {
        const int length = snprintf(out->path, sizeof out->path, "%s%s%s", folder, below ? "/" : "",
                                    below ? layout->folder : "");
        if (length < 0 || (size_t)length >= sizeof out->path) continue;
        for (int i = 0; i < LKI_CIFAR_FILES && names[i] != NULL; i++)
            if (lki_cifar_file(path, sizeof path, out->path, names[i])) return true;
    }
    return false;
}

/* Whether the path is that of an archive itself, by its name. */
static bool is_archive(const char *path, const char *archive)
{
    struct stat about;
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    const size_t length = strlen(archive);
    return strlen(path) < LKI_CIFAR_PATH && strncmp(name, archive, length) == 0 &&
           (name[length] == '\0' || strcmp(name + length, ".gz") == 0) && stat(path, &about) == 0 &&
           S_ISREG(about.st_mode);
}

bool lki_cifar_find(lki_cifar_place *out, const char *folder, bool test_split)
{
    for (int i = 0; i < LAYOUTS; i++) {
        *out = (lki_cifar_place){.layout = &layouts[i], .test_split = test_split};
        if (cifar_has_loose(out, &layouts[i], folder)) return true;
    }
    for (int i = 0; i < LAYOUTS; i++) {
        *out = (lki_cifar_place){.layout = &layouts[i], .test_split = test_split, .archived = true};
        if (lki_cifar_file(out->path, sizeof out->path, folder, layouts[i].archive)) return true;
        if (!is_archive(folder, layouts[i].archive)) continue;
        snprintf(out->path, sizeof out->path, "%s", folder);
        return true;
    }
    return false;
}

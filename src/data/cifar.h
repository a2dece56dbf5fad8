/* Where the files of CIFAR are. */
#ifndef LKI_DATA_CIFAR_H
#define LKI_DATA_CIFAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LKI_CIFAR_FILES = 5, LKI_CIFAR_PATH = 4096 };

/* A version of one of the data sets, as it is published. */
typedef struct lki_cifar_layout {
    const char *name; /* for messages */
    const char *folder,
        *archive; /* that the archive unpacks to; of both only the last part of the path */
    const char *training[LKI_CIFAR_FILES], *test[LKI_CIFAR_FILES];
    int64_t classes, coarse; /* coarse 0: there is one label a sample */
    bool pickled;
} lki_cifar_layout;

typedef struct lki_cifar_place {
    const lki_cifar_layout *layout;
    bool test_split, archived;
    char path[LKI_CIFAR_PATH]; /* of the archive, or of the folder of loose files */
} lki_cifar_place;

/* Where the split is, in a folder or in an archive itself: loose files before an archive, the binary version before Python's. False: nowhere. */
bool lki_cifar_find(lki_cifar_place *out, const char *folder, bool test_split);

/* The path of a loose file, plain before .gz; false: it is not there, or the path is too long. */
bool lki_cifar_file(char *path, size_t size, const char *folder, const char *name);

#endif

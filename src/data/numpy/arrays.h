/* Where NumPy arrays of images and labels are: files beside each other, or members of an .npz archive. */
#ifndef LKI_DATA_NUMPY_ARRAYS_H
#define LKI_DATA_NUMPY_ARRAYS_H

#include "base/file.h"
#include "data/numpy/npy.h"

enum { LKI_NUMPY_PATH = 4096, LKI_NUMPY_NAME = LKI_NUMPY_PATH + 64 };

/* An array and the file that it is in. */
typedef struct lki_array {
    lki_npy npy;
    lki_file file, inflated;
    char name[LKI_NUMPY_NAME]; /* of the file, and of the member where it is one; for messages */
} lki_array;
/* `member` NULL: the file is one of .npy. Closed by lki_array_close(), also after a failure. */
lks_status lki_array_open(lki_array *out, lks_context *context, const char *path,
                          const char *member);
void lki_array_close(lki_array *array); /* zeroed is fine */

/* The arrays of a split; lengths are there where samples are frames. */
enum { LKI_NUMPY_SAMPLES, LKI_NUMPY_LABELS, LKI_NUMPY_LENGTHS, LKI_NUMPY_ARRAYS };

/* Where they are. */
typedef struct lki_numpy_place {
    char path[LKI_NUMPY_PATH]; /* of the archive, or of the folder */
    bool archived;
    const char *name[LKI_NUMPY_ARRAYS]; /* of the files, or members; as "x_train.npy" */
    bool has[LKI_NUMPY_ARRAYS];
    int archives; /* in a folder that has no such files: how many .npz, of which one is right */
    bool damaged; /* the archive's list cannot be read */
} lki_numpy_place;

/* In a file, or a folder: files before the one archive in it. False: there is nothing of the split. */
bool lki_numpy_find(lki_numpy_place *out, const char *path, bool test_split);
/* Opens one of them; of samples and labels says what is missing. */
lks_status lki_numpy_open(lki_array *out, lks_context *context, const lki_numpy_place *place,
                          int which);

#endif

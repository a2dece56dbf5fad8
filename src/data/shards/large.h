/* A large array whose first dimension is rows, in a .npy file or as a dataset of an HDF5 file: numbers of any kind, which become
 * floats. */
#ifndef LKI_DATA_SHARDS_LARGE_H
#define LKI_DATA_SHARDS_LARGE_H

#include "base/file.h"
#include "data/hdf5/hdf5.h"
#include "data/shards/shards.h"

typedef struct lki_large {
    lks_context *context;
    const char *name;           /* as it was given, for messages; borrowed */
    char path[LKI_SHARDS_PATH]; /* of the file */
    lki_npy form;               /* what its elements are; with them where it is a .npy file */
    int64_t rows, width;
    lki_file file;  /* of .npy, mapped */
    lki_hdf5 *hdf5; /* NULL: it is a .npy file */
} lki_large;

/* `name`: a file, or "FILE:DATASET" of an HDF5 file; without a dataset it is the only one. */
lks_status lki_large_open(lki_large *out, lks_context *context, const char *name);
/* Rows [first, first + rows) as floats; LKS_E_FORMAT names row and column of one that is not finite. From any thread. */
lks_status lki_large_rows(float *out, const lki_large *array, int64_t first, int64_t rows);
void lki_large_close(lki_large *array); /* zeroed is fine */

#endif

/*
 * Datasets of HDF5 files, as h5py and many simulations write them: an array of integers or floats whose rows are read
 * block by block. libhdf5 does it, which is loaded when such a file is opened, and used by one thread at a time.
 */
#ifndef LKI_DATA_HDF5_HDF5_H
#define LKI_DATA_HDF5_HDF5_H

#include "data/numpy/npy.h"

typedef struct lks_context lks_context;
typedef struct lki_hdf5 lki_hdf5;

/* By its first bytes, whatever the name; false where there is no such file. */
bool lki_hdf5_is(const char *path);

/* Opens a dataset, as "/group/x"; NULL: the only one that the file has. *form gets what its elements are, without any.
 * LKS_E_UNSUPPORTED in a build without HDF5, or where libhdf5 is not to be had. */
lks_status lki_hdf5_open(lki_hdf5 **out, lki_npy *form, lks_context *context, const char *path,
                         const char *dataset);

/* Rows [first, first + rows) as they are in the file, in C's order. From any thread. */
lks_status lki_hdf5_read(lki_hdf5 *array, int64_t first, int64_t rows, void *out);

void lki_hdf5_close(lki_hdf5 *array); /* NULL is fine */

#endif

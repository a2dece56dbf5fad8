/* libhdf5 as it was loaded, and what it says of a failure. For files of this folder, in a build that has hdf5.h. */
#ifndef LKI_DATA_HDF5_LIBRARY_H
#define LKI_DATA_HDF5_LIBRARY_H

#include <hdf5.h>

#include "data/hdf5/hdf5.h"

/* What is called of it. Constants that libhdf5 keeps in variables are not needed: 0 stands for defaults. */
#define LKI_HDF5_CALLS(X)                                                                          \
    X(herr_t, H5open, (void))                                                                      \
    X(herr_t, H5Eget_auto2, (hid_t, H5E_auto2_t *, void **))                                       \
    X(herr_t, H5Eset_auto2, (hid_t, H5E_auto2_t, void *))                                          \
    X(herr_t, H5Ewalk2, (hid_t, H5E_direction_t, H5E_walk2_t, void *))                             \
    X(hid_t, H5Fopen, (const char *, unsigned, hid_t))                                             \
    X(herr_t, H5Fclose, (hid_t))                                                                   \
    X(hid_t, H5Oopen, (hid_t, const char *, hid_t))                                                \
    X(herr_t, H5Oclose, (hid_t))                                                                   \
    X(H5I_type_t, H5Iget_type, (hid_t))                                                            \
    X(herr_t, H5Gget_info, (hid_t, H5G_info_t *))                                                  \
    X(ssize_t, H5Lget_name_by_idx,                                                                 \
      (hid_t, const char *, H5_index_t, H5_iter_order_t, hsize_t, char *, size_t, hid_t))          \
    X(hid_t, H5Dopen2, (hid_t, const char *, hid_t))                                               \
    X(herr_t, H5Dclose, (hid_t))                                                                   \
    X(herr_t, H5Dread, (hid_t, hid_t, hid_t, hid_t, hid_t, void *))                                \
    X(hid_t, H5Dget_type, (hid_t))                                                                 \
    X(hid_t, H5Dget_space, (hid_t))                                                                \
    X(hid_t, H5Dget_create_plist, (hid_t))                                                         \
    X(hid_t, H5Dget_access_plist, (hid_t))                                                         \
    X(H5D_layout_t, H5Pget_layout, (hid_t))                                                        \
    X(int, H5Pget_chunk, (hid_t, int, hsize_t *))                                                  \
    X(herr_t, H5Pset_chunk_cache, (hid_t, size_t, size_t, double))                                 \
    X(herr_t, H5Pclose, (hid_t))                                                                   \
    X(hid_t, H5Screate_simple, (int, const hsize_t *, const hsize_t *))                            \
    X(int, H5Sget_simple_extent_dims, (hid_t, hsize_t *, hsize_t *))                               \
    X(int, H5Sget_simple_extent_ndims, (hid_t))                                                    \
    X(herr_t, H5Sselect_hyperslab,                                                                 \
      (hid_t, H5S_seloper_t, const hsize_t *, const hsize_t *, const hsize_t *, const hsize_t *))  \
    X(herr_t, H5Sclose, (hid_t))                                                                   \
    X(H5T_class_t, H5Tget_class, (hid_t))                                                          \
    X(size_t, H5Tget_size, (hid_t))                                                                \
    X(size_t, H5Tget_precision, (hid_t))                                                           \
    X(H5T_order_t, H5Tget_order, (hid_t))                                                          \
    X(H5T_sign_t, H5Tget_sign, (hid_t))                                                            \
    X(size_t, H5Tget_ebias, (hid_t))                                                               \
    X(herr_t, H5Tget_fields, (hid_t, size_t *, size_t *, size_t *, size_t *, size_t *))            \
    X(herr_t, H5Tclose, (hid_t))

typedef struct lki_hdf5_library {
#define LKI_HDF5_MEMBER(result, name, arguments) result(*name) arguments;
    LKI_HDF5_CALLS(LKI_HDF5_MEMBER)
    /* libhdf5's own printing of errors, which is off between enter and leave. */
    H5E_auto2_t print;
    void *print_to;
} lki_hdf5_library;

/* Loads it where that is not done yet, and keeps other threads away until leave, which goes with every enter that succeeds. */
lks_status lki_hdf5_enter(const lki_hdf5_library **out);
void lki_hdf5_leave(void);

enum { LKI_HDF5_NAMES = 400, LKI_HDF5_NAME = 256 };

/* What libhdf5 says of the call that failed last; and as LKS_E_FORMAT: "'x.h5' <what>: libhdf5 says: <why>". */
void lki_hdf5_why(char why[LKI_HDF5_NAME]);
lks_status lki_hdf5_fail(const char *path, const char *what);

/* The paths of the datasets in a file, each behind ", " but the first, at most MOST of them, and how many there are more;
 * *count: all. `only`: the first. */
void lki_hdf5_list(hid_t file, char names[LKI_HDF5_NAMES], char only[LKI_HDF5_NAME],
                   int64_t *count);

#endif

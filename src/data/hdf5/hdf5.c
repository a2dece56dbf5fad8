#include "data/hdf5/hdf5.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/memory.h"

bool lki_hdf5_is(const char *path)
{
    static const uint8_t signature[] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    uint8_t found[sizeof signature];
    bool is = false;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    /* Behind a block of the user's, of 512 bytes or twice, four times as many. */
    for (off_t at = 0; !is && at < 1 << 20; at = at == 0 ? 512 : 2 * at) {
        if (pread(file, found, sizeof found, at) != (ssize_t)sizeof found) break;
        is = memcmp(found, signature, sizeof signature) == 0;
    }
    close(file);
    return is;
}

#if defined(LKI_HAVE_HDF5)

#include "data/hdf5/library.h"

/* H5F_ACC_RDONLY, whose macro calls libhdf5. */
enum { READ_ONLY = 0 };

/* What chunks are kept in, for rows of one that stand in two shards. */
enum { LEAST_CACHE = 1 << 20, MOST_CACHE = 256 << 20, CACHE_SLOTS = 10007 };

struct lki_hdf5 {
    lks_context *context;
    const char *path; /* borrowed */
    hid_t file, dataset, type;
    int ndim;
    hsize_t dim[LKI_NPY_DIMS];
};

/* ---------------------------------------------------------------- its elements */

/* IEEE 754 of 2, 4 and 8 bytes. */
static bool is_ieee(const lki_hdf5_library *h, hid_t type, size_t size)
{
    static const struct {
        size_t size, exponent, mantissa, bias;
    } forms[] = {{2, 5, 10, 15}, {4, 8, 23, 127}, {8, 11, 52, 1023}};
    size_t sign, exponent_at, exponent, mantissa_at, mantissa;
    if (h->H5Tget_fields(type, &sign, &exponent_at, &exponent, &mantissa_at, &mantissa) < 0)
        return false;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (forms[i].size == size && exponent == forms[i].exponent &&
            mantissa == forms[i].mantissa && h->H5Tget_ebias(type) == forms[i].bias)
            return mantissa_at == 0 && exponent_at == mantissa && sign == mantissa + exponent;
    return false;
}

static const char *class_name(H5T_class_t class)
{
    switch (class) {
    case H5T_COMPOUND:
        return "records of several fields (a compound type, as of tables)";
    case H5T_STRING:
        return "text";
    case H5T_ENUM:
        return "words out of a list (an enumeration, as of truth values)";
    case H5T_INTEGER:
    case H5T_FLOAT:
        return "numbers of an unusual form";
    default:
        return "no numbers";
    }
}

static lks_status read_type(lki_npy *form, const lki_hdf5_library *h, const lki_hdf5 *a,
                            const char *dataset)
{
    const H5T_class_t class = h->H5Tget_class(a->type);
    const H5T_order_t order = h->H5Tget_order(a->type);
    const size_t size = h->H5Tget_size(a->type);
    bool known = order == H5T_ORDER_LE || order == H5T_ORDER_BE;
    if (class == H5T_FLOAT)
        known = known && is_ieee(h, a->type, size);
    else
        known = known && class == H5T_INTEGER && h->H5Tget_precision(a->type) == 8 * size &&
                (size == 1 || size == 2 || size == 4 || size == 8);
    if (!known)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s': the dataset '%s' has %s, expected integers of 1 to 8 bytes or "
                        "floats of 2, 4 or 8",
                        a->path, dataset, class_name(class));
    form->kind = class == H5T_FLOAT                        ? LKI_NPY_FLOAT
                 : h->H5Tget_sign(a->type) == H5T_SGN_NONE ? LKI_NPY_UNSIGNED
                                                           : LKI_NPY_SIGNED;
    form->size = size;
    form->big = order == H5T_ORDER_BE;
    return LKS_OK;
}

static lks_status read_dims(lki_npy *form, const lki_hdf5_library *h, lki_hdf5 *a,
                            const char *dataset)
{
    const hid_t space = h->H5Dget_space(a->dataset);
    a->ndim = h->H5Sget_simple_extent_ndims(space);
    const bool fits = a->ndim >= 1 && a->ndim <= LKI_NPY_DIMS &&
                      h->H5Sget_simple_extent_dims(space, a->dim, NULL) == a->ndim;
    h->H5Sclose(space);
    if (!fits)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s': the dataset '%s' has %d dimensions, expected 1 to %d: rows, and "
                        "what a row has",
                        a->path, dataset, a->ndim, LKI_NPY_DIMS);
    size_t elements = 1;
    for (int d = 0; d < a->ndim; d++) elements = lki_times(elements, (size_t)a->dim[d]);
    if (elements < 1 || elements > INT64_MAX / 8)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s': the dataset '%s' has no rows, or none that can be counted; expected "
                        "an array of rows and columns",
                        a->path, dataset);
    form->ndim = a->ndim;
    form->elements = (int64_t)elements;
    for (int d = 0; d < a->ndim; d++) form->dim[d] = (int64_t)a->dim[d];
    return LKS_OK;
}

/* ---------------------------------------------------------------- the file */

/* Chunks are decompressed whole, and rows of one may be asked for several times: the cache holds two rows of chunks. */
static void open_chunks(const lki_hdf5_library *h, lki_hdf5 *a, const char *dataset, size_t size)
{
    hsize_t chunk[LKI_NPY_DIMS];
    const hid_t created = h->H5Dget_create_plist(a->dataset);
    const bool chunked = h->H5Pget_layout(created) == H5D_CHUNKED &&
                         h->H5Pget_chunk(created, a->ndim, chunk) == a->ndim;
    h->H5Pclose(created);
    if (!chunked) return;
    size_t bytes = lki_times(2 * size, (size_t)chunk[0]);
    for (int d = 1; d < a->ndim; d++)
        bytes = lki_times(bytes, (size_t)((a->dim[d] + chunk[d] - 1) / chunk[d] * chunk[d]));
    if (bytes <= LEAST_CACHE) return; /* as it is */
    const hid_t access = h->H5Dget_access_plist(a->dataset);
    h->H5Pset_chunk_cache(access, CACHE_SLOTS, bytes < MOST_CACHE ? bytes : MOST_CACHE, 1);
    const hid_t again = h->H5Dopen2(a->file, dataset, access);
    h->H5Pclose(access);
    if (again < 0) return;
    h->H5Dclose(a->dataset);
    a->dataset = again;
}

static lks_status open_dataset(const lki_hdf5_library *h, lki_hdf5 *a, const char *dataset,
                               lki_npy *form)
{
    char names[LKI_HDF5_NAMES], only[LKI_HDF5_NAME];
    int64_t count;
    a->file = h->H5Fopen(a->path, READ_ONLY, H5P_DEFAULT);
    if (a->file < 0)
        return lki_hdf5_fail(a->path, "is a damaged HDF5 file, or one that was not closed");
    lki_hdf5_list(a->file, names, only, &count);
    if (dataset == NULL && count != 1)
        return LKI_FAIL(LKS_E_FORMAT, "'%s' has %s%s, expected one, or its name as in '%s:%s'",
                        a->path, count == 0 ? "no datasets" : "several datasets: ", names, a->path,
                        count == 0 ? "/x" : only);
    if (dataset == NULL) dataset = only;
    a->dataset = h->H5Dopen2(a->file, dataset, H5P_DEFAULT);
    if (a->dataset < 0) {
        char why[LKI_HDF5_NAME];
        lki_hdf5_why(why);
        return LKI_FAIL(LKS_E_FORMAT, "'%s' has no dataset '%s'; it has %s (libhdf5 says: %s)",
                        a->path, dataset, count == 0 ? "none" : names, why);
    }
    a->type = h->H5Dget_type(a->dataset);
    LKI_TRY(read_type(form, h, a, dataset));
    LKI_TRY(read_dims(form, h, a, dataset));
    open_chunks(h, a, dataset, form->size);
    return LKS_OK;
}

static void close_all(const lki_hdf5_library *h, lki_hdf5 *a)
{
    if (a->type >= 0) h->H5Tclose(a->type);
    if (a->dataset >= 0) h->H5Dclose(a->dataset);
    if (a->file >= 0) h->H5Fclose(a->file);
    lki_free(a->context, a, sizeof *a);
}

lks_status lki_hdf5_open(lki_hdf5 **out, lki_npy *form, lks_context *context, const char *path,
                         const char *dataset)
{
    const lki_hdf5_library *h;
    void *memory;
    *out = NULL;
    *form = (lki_npy){.data = NULL};
    LKI_TRY(lki_alloc(context, &memory, sizeof **out, "an HDF5 file"));
    lki_hdf5 *a = memory;
    *a = (lki_hdf5){.context = context, .path = path, .file = -1, .dataset = -1, .type = -1};
    lks_status status = lki_hdf5_enter(&h);
    if (status != LKS_OK) {
        lki_free(context, a, sizeof *a);
        return status;
    }
    status = open_dataset(h, a, dataset, form);
    if (status == LKS_OK)
        *out = a;
    else
        close_all(h, a);
    lki_hdf5_leave();
    return status;
}

lks_status lki_hdf5_read(lki_hdf5 *array, int64_t first, int64_t rows, void *out)
{
    const lki_hdf5_library *h;
    hsize_t start[LKI_NPY_DIMS] = {(hsize_t)first}, count[LKI_NPY_DIMS];
    lks_status status = lki_hdf5_enter(&h);
    if (status != LKS_OK) return status;
    memcpy(count, array->dim, sizeof count);
    count[0] = (hsize_t)rows;
    const hid_t from = h->H5Dget_space(array->dataset);
    const hid_t to = h->H5Screate_simple(array->ndim, count, NULL);
    /* The type in memory is that of the file: what numbers become is our own to say, as of .npy files. */
    if (h->H5Sselect_hyperslab(from, H5S_SELECT_SET, start, NULL, count, NULL) < 0 ||
        h->H5Dread(array->dataset, array->type, to, from, H5P_DEFAULT, out) < 0)
        status = lki_hdf5_fail(array->path, "cannot be read");
    h->H5Sclose(from);
    h->H5Sclose(to);
    lki_hdf5_leave();
    return status;
}

void lki_hdf5_close(lki_hdf5 *array)
{
    const lki_hdf5_library *h;
    if (array == NULL || lki_hdf5_enter(&h) != LKS_OK) return;
    close_all(h, array);
    lki_hdf5_leave();
}

#else

lks_status lki_hdf5_open(lki_hdf5 **out, lki_npy *form, lks_context *context, const char *path,
                         const char *dataset)
{
    (void)context;
    (void)dataset;
    *out = NULL;
    *form = (lki_npy){.data = NULL};
    return LKI_FAIL(LKS_E_UNSUPPORTED,
                    "'%s' is an HDF5 file, and this program was built without libhdf5; build it "
                    "where hdf5.h is (on Debian: apt-get install libhdf5-dev), or write the array "
                    "as .npy (numpy.save)",
                    path);
}

lks_status lki_hdf5_read(lki_hdf5 *array, int64_t first, int64_t rows, void *out)
{
    (void)array;
    (void)first;
    (void)rows;
    (void)out;
    return LKI_FAIL(LKS_E_UNSUPPORTED, "no HDF5 file can be open");
}

void lki_hdf5_close(lki_hdf5 *array)
{
    (void)array;
}

#endif

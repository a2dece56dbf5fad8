/*
 * NumPy's arrays. Input: 0, and a file of one array; 1, and a zip archive, in which "x.npy", "y.npy" and
 * "lengths.npy" are looked for, as of a data set.
 */
#include <stdlib.h>

#include <lockstep/data.h>

#include "data/numpy/npy.h"
#include "fuzz/fuzz.h"

/* What was read is written as a head that says the same. */
static void write_head(const lki_npy *npy, int version)
{
    uint8_t head[LKI_NPY_HEAD];
    lki_npy empty = *npy, found;
    if (empty.ndim == 0) return;
    for (int i = 0; i < npy->ndim; i++)
        empty.dim[i] = i > 0 ? npy->dim[i] : 0; /* nothing follows it */
    const size_t bytes = lki_npy_write_head(head, &empty, version);
    FUZZ_CHECK(bytes <= sizeof head && lki_npy_read(&found, head, bytes, "head") == LKS_OK);
    FUZZ_CHECK(found.kind == npy->kind && found.size == npy->size && found.ndim == npy->ndim);
    FUZZ_CHECK(found.fortran == npy->fortran && (npy->size == 1 || found.big == npy->big));
    for (int i = 1; i < npy->ndim; i++) FUZZ_CHECK(found.dim[i] == npy->dim[i]);
}

static void read_array(const uint8_t *data, size_t bytes)
{
    lki_npy npy;
    int64_t stride[LKI_NPY_DIMS], last = 0, sum = 0;
    const lks_status status = lki_npy_read(&npy, data, bytes, "input");
    if (status != LKS_OK) {
        fuzz_check_failure(status);
        return;
    }
    FUZZ_CHECK(npy.data > data && npy.elements >= 0);
    FUZZ_CHECK(npy.data + (size_t)npy.elements * npy.size == data + bytes);
    for (int version = 1; version <= 3; version++) write_head(&npy, version);
    lki_npy_strides(&npy, stride);
    for (int i = 0; i < npy.ndim && npy.elements > 0; i++) last += (npy.dim[i] - 1) * stride[i];
    FUZZ_CHECK(npy.elements == 0 || last == npy.elements - 1);
    for (int64_t i = 0; i < npy.elements; i++) {
        const uint8_t *from = npy.data + (size_t)i * npy.size;
        sum += npy.kind == LKI_NPY_FLOAT ? lki_npy_float(&npy, from) > 0
                                         : lki_npy_integer(&npy, from) > 0;
    }
    FUZZ_CHECK(sum <= npy.elements);
}

static void read_split(const char *path, bool test)
{
    lks_dataset *set;
    const bool has = lks_dataset_folder_has(path, test);
    const lks_status status = lks_dataset_open_folder(&set, NULL, path, test, 0);
    if (status != LKS_OK) {
        FUZZ_CHECK(set == NULL);
        fuzz_check_failure(status);
        return;
    }
    FUZZ_CHECK(has);
    const lks_dataset_info info = lks_dataset_get_info(set);
    uint64_t hash;
    const int64_t labels = lks_shape_elements(&info.target_shape);
    int32_t *label = malloc((size_t)labels * sizeof *label);
    void *x = malloc((size_t)lks_shape_elements(&info.shape) * lks_dtype_size(info.dtype));
    FUZZ_CHECK(x != NULL && label != NULL && info.samples > 0 && info.classes > 0);
    FUZZ_CHECK(lks_dataset_read(set, info.samples - 1, x, label) == LKS_OK);
    for (int64_t i = 0; i < labels; i++)
        FUZZ_CHECK((label[i] >= 0 || (labels > 1 && label[i] == LKS_NO_CLASS)) &&
                   label[i] < info.classes);
    FUZZ_CHECK(lks_dataset_hash(set, &hash) == LKS_OK);
    free(label);
    free(x);
    lks_dataset_destroy(set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0) return 0;
    if (data[0] % 2 == 0) {
        read_array(data + 1, bytes - 1);
        return 0;
    }
    const char *path = fuzz_file(0, data + 1, bytes - 1);
    read_split(path, false);
    read_split(path, true);
    return 0;
}

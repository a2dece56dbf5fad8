#include "data/shards/large.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/text.h"

/* Cuts "x.h5:/group/x" behind the file that is there; *dataset: NULL where `name` is a file, or nothing. */
static bool cut_name(char path[LKI_SHARDS_PATH], const char **dataset, const char *name)
{
    *dataset = NULL;
    if (strlen(name) >= LKI_SHARDS_PATH) return false;
    strcpy(path, name);
    for (char *colon = path; access(path, F_OK) != 0;) {
        colon = strchr(colon, ':');
        if (colon == NULL) break;
        *colon = '\0';
        if (access(path, F_OK) == 0) {
            *dataset = name + (colon - path) + 1;
            return true;
        }
        *colon++ = ':';
    }
    return true;
}

static lks_status open_file(lki_large *a, const char *dataset)
{
    const char *path = a->path;
    if (lki_hdf5_is(path))
        return lki_hdf5_open(&a->hdf5, &a->form, a->context, path,
                             dataset != NULL && *dataset != '\0' ? dataset : NULL);
    if (dataset != NULL)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' is no HDF5 file, or one that was cut off at its begin: it has no "
                        "dataset '%s'",
                        path, dataset);
    if (lki_text_ends(path, ".h5") || lki_text_ends(path, ".hdf5"))
        if (access(path, F_OK) == 0)
            return LKI_FAIL(LKS_E_FORMAT, "'%s' is no HDF5 file: it does not begin as one", path);
    LKI_TRY(lki_file_open(&a->file, a->context, path));
    return lki_npy_read(&a->form, a->file.data, a->file.bytes, path);
}

lks_status lki_large_open(lki_large *out, lks_context *context, const char *name)
{
    const char *dataset;
    *out = (lki_large){.context = context, .name = name};
    if (!cut_name(out->path, &dataset, name)) return lki_fail_io("open", name, ENAMETOOLONG);
    LKI_TRY(open_file(out, dataset));
    if (out->form.ndim < 1 || out->form.elements < 1)
        return LKI_FAIL(LKS_E_FORMAT, "'%s' has no rows, expected an array of rows and columns",
                        name);
    out->rows = out->form.dim[0];
    out->width = out->form.elements / out->rows;
    return LKS_OK;
}

void lki_large_close(lki_large *array)
{
    lki_file_close(&array->file);
    lki_hdf5_close(array->hdf5);
}

/* Where column `column` of a row begins, in elements: the columns are all dimensions but the first. */
static int64_t offset_of(const lki_npy *npy, const int64_t stride[LKI_NPY_DIMS], int64_t column)
{
    int64_t offset = 0;
    for (int d = npy->ndim - 1; d > 0; d--) {
        offset += column % npy->dim[d] * stride[d];
        column /= npy->dim[d];
    }
    return offset;
}

static void copy_rows(float *out, const lki_npy *npy, int64_t width, int64_t first, int64_t rows)
{
    int64_t stride[LKI_NPY_DIMS];
    if (lki_npy_is_own_float(npy) && !npy->fortran) {
        memcpy(out, npy->data + (size_t)(first * width) * sizeof(float),
               (size_t)(rows * width) * sizeof(float));
        return;
    }
    lki_npy_strides(npy, stride);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < width; c++) {
            const int64_t at = (first + r) * stride[0] + offset_of(npy, stride, c);
            *out++ = lki_npy_float(npy, npy->data + (size_t)at * npy->size);
        }
}

/* Its elements as they are in the file first, unless they are floats as we have them. */
static lks_status read_hdf5(float *out, const lki_large *a, int64_t first, int64_t rows)
{
    void *memory;
    lki_npy block = a->form;
    const size_t bytes = lki_times((size_t)(rows * a->width), block.size);
    if (lki_npy_is_own_float(&block)) return lki_hdf5_read(a->hdf5, first, rows, out);
    LKI_TRY(lki_alloc(a->context, &memory, bytes, "rows of an HDF5 file"));
    const lks_status status = lki_hdf5_read(a->hdf5, first, rows, memory);
    block.data = memory;
    block.dim[0] = rows;
    if (status == LKS_OK) copy_rows(out, &block, a->width, 0, rows);
    lki_free(a->context, memory, bytes);
    return status;
}

lks_status lki_large_rows(float *out, const lki_large *array, int64_t first, int64_t rows)
{
    if (array->hdf5 != NULL)
        LKI_TRY(read_hdf5(out, array, first, rows));
    else
        copy_rows(out, &array->form, array->width, first, rows);
    for (int64_t i = 0; i < rows * array->width; i++)
        if (!isfinite(out[i]))
            return LKI_FAIL(LKS_E_FORMAT,
                            "'%s': row %" PRId64 " has %s in column %" PRId64
                            ", expected numbers that 32-bit floats can hold; take such rows out",
                            array->name, first + i / array->width,
                            isnan(out[i]) ? "a NaN" : "an infinite or too large value",
                            i % array->width);
    return LKS_OK;
}

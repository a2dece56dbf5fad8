/* Shards of two large arrays. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "data/shards/write.h"

typedef struct arrays {
    lki_file file[2];
    lki_npy npy[2];
    const char *path[2];
    int64_t width[2];
} arrays;

static lks_status open_array(arrays *a, int k, lks_context *context)
{
    lki_npy *npy = &a->npy[k];
    LKI_TRY(lki_file_open(&a->file[k], context, a->path[k]));
    LKI_TRY(lki_npy_read(npy, a->file[k].data, a->file[k].bytes, a->path[k]));
    if (npy->ndim < 1 || npy->elements < 1)
        return LKI_FAIL(LKS_E_FORMAT, "'%s' has no rows, expected an array of rows and columns",
                        a->path[k]);
    a->width[k] = npy->elements / npy->dim[0];
    return LKS_OK;
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
            const uint8_t *from = npy->data + (size_t)at * npy->size;
            *out++ = npy->kind == LKI_NPY_FLOAT ? lki_npy_float(npy, from)
                                                : (float)lki_npy_integer(npy, from);
        }
}

static lks_status check_rows(const float *values, const arrays *a, int k, int64_t first,
                             int64_t rows)
{
    const int64_t width = a->width[k];
    for (int64_t i = 0; i < rows * width; i++)
        if (!isfinite(values[i]))
            return LKI_FAIL(LKS_E_FORMAT,
                            "'%s': row %" PRId64 " has %s in column %" PRId64
                            ", expected numbers that 32-bit floats can hold; take such rows out",
                            a->path[k], first + i / width,
                            isnan(values[i]) ? "a NaN" : "an infinite or too large value",
                            i % width);
    return LKS_OK;
}

static lks_status fill_cut(void *user, int64_t first, int64_t rows, float *x, float *y)
{
    const arrays *a = user;
    float *const out[] = {x, y};
    for (int k = 0; k < 2; k++) {
        copy_rows(out[k], &a->npy[k], a->width[k], first, rows);
        LKI_TRY(check_rows(out[k], a, k, first, rows));
    }
    return LKS_OK;
}

static lks_status cut(lks_shards_result *out, lks_context *context, arrays *a,
                      const lks_shards_opts *opts)
{
    for (int k = 0; k < 2; k++) LKI_TRY(open_array(a, k, context));
    if (a->npy[0].dim[0] != a->npy[1].dim[0])
        return LKI_FAIL(
            LKS_E_FORMAT,
            "'%s' has %" PRId64 " row%s, but '%s' has %" PRId64 "; every sample has one target",
            a->path[0], a->npy[0].dim[0], LKI_S(a->npy[0].dim[0]), a->path[1], a->npy[1].dim[0]);
    const lki_shards_source source = {
        .rows = a->npy[0].dim[0], .width = {a->width[0], a->width[1]}, .fill = fill_cut, .user = a};
    return lki_shards_write(out, context, &source, opts);
}

lks_status lks_shards_cut(lks_shards_result *out, lks_context *context, const char *samples,
                          const char *targets, const lks_shards_opts *opts)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    *out = (lks_shards_result){.rows = 0};
    if (samples == NULL) return LKI_FAIL_NULL(samples);
    if (targets == NULL) return LKI_FAIL_NULL(targets);
    if (opts == NULL) return LKI_FAIL_NULL(opts);
    if (opts->out == NULL) return LKI_FAIL_NULL(opts->out);
    arrays a = {.path = {samples, targets}};
    const lks_status status = cut(out, context, &a, opts);
    for (int k = 0; k < 2; k++) lki_file_close(&a.file[k]);
    return status;
}

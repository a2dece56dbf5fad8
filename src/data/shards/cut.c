/* Shards of two large arrays. */
#include <inttypes.h>

#include "base/check.h"
#include "data/shards/large.h"
#include "data/shards/write.h"

static lks_status fill_cut(void *user, int64_t first, int64_t rows, float *x, float *y)
{
    const lki_large *array = user;
    LKI_TRY(lki_large_rows(x, &array[0], first, rows));
    return lki_large_rows(y, &array[1], first, rows);
}

static lks_status open_arrays(lki_large array[2], lks_context *context, const char *const name[2])
{
    for (int k = 0; k < 2; k++) LKI_TRY(lki_large_open(&array[k], context, name[k]));
    if (array[0].rows == array[1].rows) return LKS_OK;
    return LKI_FAIL(LKS_E_FORMAT,
                    "'%s' has %" PRId64 " row%s, but '%s' has %" PRId64
                    "; every sample has one target",
                    name[0], array[0].rows, LKI_S(array[0].rows), name[1], array[1].rows);
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
    lki_large array[2] = {{.hdf5 = NULL}, {.hdf5 = NULL}};
    lks_status status = open_arrays(array, context, (const char *const[]){samples, targets});
    const lki_shards_source source = {.rows = array[0].rows,
                                      .width = {array[0].width, array[1].width},
                                      .fill = fill_cut,
                                      .user = array};
    status = lki_shards_write(out, context, &source, opts, status);
    for (int k = 0; k < 2; k++) lki_large_close(&array[k]);
    return status;
}

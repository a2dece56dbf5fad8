/* Shards of drawn columns of air. */
#include <inttypes.h>

#include "base/check.h"
#include "base/float.h"
#include "data/shards/air.h"
#include "data/shards/write.h"

static lks_status fill_air(void *user, int64_t first, int64_t rows, float *x, float *y)
{
    const uint64_t *seed = user;
    const unsigned saved = lki_float_enter();
    for (int64_t r = 0; r < rows; r++)
        lki_air_column(*seed, first + r, x + r * LKI_AIR_INPUTS, y + r * LKI_AIR_OUTPUTS);
    lki_float_leave(saved);
    return LKS_OK;
}

lks_status lks_shards_draw(lks_shards_result *out, lks_context *context, int64_t rows,
                           const lks_shards_opts *opts)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    *out = (lks_shards_result){.rows = 0};
    if (opts == NULL) return LKI_FAIL_NULL(opts);
    if (opts->out == NULL) return LKI_FAIL_NULL(opts->out);
    if (rows < 1)
        return LKI_FAIL(LKS_E_INVALID, "%" PRId64 " rows were asked for, expected at least 1",
                        rows);
    uint64_t seed = opts->seed;
    const lki_shards_source source = {
        .rows = rows, .width = {LKI_AIR_INPUTS, LKI_AIR_OUTPUTS}, .fill = fill_air, .user = &seed};
    return lki_shards_write(out, context, &source, opts, LKS_OK);
}

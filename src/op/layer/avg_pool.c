/* avg_pool: the mean of each window; padded pixels count as zeros, or not at all. */
#include "op/layer/pool.h"

static const lki_attribute attributes[] = {
    LKI_POOL_WINDOW,
    LKI_ATTRIBUTE(BOOL, lks_pool_opts, exclude_padding, .fallback = "false"),
};

const lki_op lki_op_avg_pool = {
    .name = "avg_pool",
    .what = "mean of each window; padding counts as zeros, unless exclude_padding",
    .inputs = 1,
    .takes = LKI_TAKES_IMAGE,
    .attr_size = sizeof(lks_pool_opts),
    .attributes = LKI_ATTRIBUTES(attributes),
    .infer = lki_pool_infer,
};

lks_tensor *lks_avg_pool(lks_graph *graph, lks_tensor *x, const lks_pool_opts *opts)
{
    return lki_graph_add(graph, LKI_OP_AVG_POOL, opts, &x, 1);
}

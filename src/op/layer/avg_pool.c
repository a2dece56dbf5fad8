/* avg_pool: the mean of each window; padded pixels count as zeros, or not at all. */
#include "op/layer/pool.h"

const lki_op lki_op_avg_pool = {
    .name = "avg_pool",
    .attr_size = sizeof(lks_pool_opts),
    .infer = lki_pool_infer,
    .print = lki_pool_print,
};

lks_tensor *lks_avg_pool(lks_graph *graph, lks_tensor *x, const lks_pool_opts *opts)
{
    return lki_graph_add(graph, LKI_OP_AVG_POOL, opts, &x, 1);
}

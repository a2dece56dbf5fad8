/* dense: y[u] = sum over k of x[k] * weight[u][k], + bias[u]. */
#include "core/attribute_init.h"
#include "op/common.h"

static lks_status dense_infer(lki_node *node)
{
    const lks_dense_opts *opts = node->attr;
    const int64_t columns = node->in[0]->shape.dim[0];
    const lks_shape weight = LKS_SHAPE(opts->units, columns);

    LKI_TRY(lki_check_shape(node, "weight", &weight));
    node->out.shape = LKS_SHAPE(opts->units);
    lki_add_weight(node, &weight, &opts->weight_init, columns, opts->units);
    if (!opts->no_bias) lki_add_bias(node, opts->units, &opts->bias_init);
    node->multiply_adds = opts->units * columns;
    return LKS_OK;
}

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(INT, lks_dense_opts, units, .range = "[1,)", .most = INT32_MAX, .required = true),
    LKI_ATTRIBUTE_NOT(lks_dense_opts, bias),
    LKI_WEIGHT_INIT(lks_dense_opts),
    LKI_BIAS_INIT(lks_dense_opts),
};

const lki_op lki_op_dense = {
    .name = "dense",
    .what = "y = W x + b; x has one dimension",
    .inputs = 1,
    .takes = LKI_TAKES_VECTOR,
    .attr_size = sizeof(lks_dense_opts),
    .attributes = LKI_ATTRIBUTES(attributes),
    .infer = dense_infer,
};

lks_tensor *lks_dense(lks_graph *graph, lks_tensor *x, const lks_dense_opts *opts)
{
    return lki_graph_add(graph, LKI_OP_DENSE, opts, &x, 1);
}

/* dense: y[u] = sum over k of x[k] * weight[u][k], + bias[u]. */
#include "op/common.h"

static lks_status dense_infer(lki_node *node)
{
    const lks_dense_opts *opts = node->attr;
    const lks_shape *in = &node->in[0]->shape;
    lks_shape weight;

    LKI_TRY(lki_check_vector(node));
    LKI_TRY(lki_check_range(node, "units", opts->units, 1, INT32_MAX));
    weight = LKS_SHAPE(opts->units, in->dim[0]);
    LKI_TRY(lki_check_shape(node, "weight", &weight));
    LKI_TRY(lki_check_init(node, "weight_init", &opts->weight_init));
    LKI_TRY(lki_check_init(node, "bias_init", &opts->bias_init));
    node->out.shape = LKS_SHAPE(opts->units);
    node->param[0] = (lki_param){.suffix = "weight",
                                 .shape = weight,
                                 .init = opts->weight_init,
                                 .fan_in = in->dim[0],
                                 .fan_out = opts->units};
    node->param[1] = (lki_param){.suffix = "bias",
                                 .shape = LKS_SHAPE(opts->units),
                                 .init = opts->bias_init,
                                 .fan_in = in->dim[0],
                                 .fan_out = opts->units};
    node->param_count = opts->no_bias ? 1 : 2;
    node->multiply_adds = opts->units * in->dim[0];
    return LKS_OK;
}

static void dense_print(const lki_node *node, char *buffer, size_t size)
{
    const lks_dense_opts *opts = node->attr;

    buffer[0] = '\0';
    lki_print(buffer, size, "units=%lld", (long long)opts->units);
    if (opts->no_bias) lki_print(buffer, size, "no_bias");
    lki_print_init(buffer, size, "weight_init", &opts->weight_init);
    lki_print_init(buffer, size, "bias_init", &opts->bias_init);
}

const lki_op lki_op_dense = {
    .name = "dense",
    .attr_size = sizeof(lks_dense_opts),
    .infer = dense_infer,
    .print = dense_print,
};

lks_tensor *lks_dense(lks_graph *graph, lks_tensor *x, const lks_dense_opts *opts)
{
    return lki_graph_add(graph, LKI_OP_DENSE, opts, &x, 1);
}

/* input: the samples of a batch. */
#include "op/common.h"

static lks_status input_infer(lki_node *node)
{
    const lks_input_opts *opts = node->attr;

    LKI_TRY(lki_check_shape(node, "the shape", &opts->shape));
    if (opts->dtype != LKS_F32 && opts->dtype != LKS_U8 && opts->dtype != LKS_I32)
        return LKI_FAIL(LKS_E_INVALID, "%s '%s': dtype is %s, expected F32, U8 or I32",
                        LKI_NODE(node), lks_dtype_name(opts->dtype));
    if ((opts->dtype == LKS_I32) != (opts->vocabulary > 0))
        return LKI_FAIL(LKS_E_INVALID, "%s '%s': vocabulary is %lld, expected %s, as dtype is %s",
                        LKI_NODE(node), (long long)opts->vocabulary,
                        opts->dtype == LKS_I32 ? "how many tokens there are" : "0",
                        lks_dtype_name(opts->dtype));
    node->out.shape = opts->shape;
    node->out.dtype = opts->dtype;
    return LKS_OK;
}

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(SHAPE, lks_input_opts, shape, .required = true),
    LKI_ATTRIBUTE(DTYPE, lks_input_opts, dtype, .fallback = "F32"),
    LKI_ATTRIBUTE(INT, lks_input_opts, vocabulary, .range = "[0,)", .most = INT32_MAX,
                  .fallback = "0"),
};

const lki_op lki_op_input = {
    .name = "input",
    .what = "the samples of a batch",
    .attr_size = sizeof(lks_input_opts),
    .attributes = LKI_ATTRIBUTES(attributes),
    .along = LKI_ALONG_EACH,
    .infer = input_infer,
};

lks_tensor *lks_input(lks_graph *graph, const lks_input_opts *opts)
{
    return lki_graph_add(graph, LKI_OP_INPUT, opts, NULL, 0);
}

/*
 * gelu (D. Hendrycks, K. Gimpel: "Gaussian Error Linear Units", 2016), in one of two forms:
 *
 *     ERF    y = x (1 + erf(x / sqrt(2))) / 2
 *     TANH   y = x (1 + tanh(a(x) / 2)) / 2 = x sigmoid(a(x)),
 *            a(x) = 2 sqrt(2 / pi) (x + 0.044715 x^3), an approximation
 */
#include "op/common.h"

static lks_status gelu_infer(lki_node *node)
{
    const lks_gelu_opts *opts = node->attr;

    if (opts->form != LKS_GELU_ERF && opts->form != LKS_GELU_TANH)
        return LKI_FAIL(LKS_E_INVALID, "%s '%s': form is %d, expected LKS_GELU_ERF or _TANH",
                        LKI_NODE(node), (int)opts->form);
    return lki_infer_same(node);
}

static void gelu_print(const lki_node *node, char *buffer, size_t size)
{
    const lks_gelu_opts *opts = node->attr;

    buffer[0] = '\0';
    if (opts->form == LKS_GELU_TANH) lki_print(buffer, size, "form=tanh");
}

const lki_op lki_op_gelu = {
    .name = "gelu",
    .attr_size = sizeof(lks_gelu_opts),
    .infer = gelu_infer,
    .print = gelu_print,
};

lks_tensor *lks_gelu(lks_graph *graph, lks_tensor *x, const lks_gelu_opts *opts)
{
    return lki_graph_add(graph, LKI_OP_GELU, opts, &x, 1);
}

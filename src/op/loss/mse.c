/* mse: loss = mean over the sample's elements of (x - target)^2. */
#include "op/common.h"

static lks_status mse_infer(lki_node *node)
{
    const lks_tensor *x = node->in[0], *target = node->in[1];

    if (target->dtype != LKS_F32)
        return LKI_FAIL(LKS_E_SHAPE,
                        "%s '%s': target '%s' has classes, expected floats; give it a .shape",
                        LKI_NODE(node), target->node->name);
    if (!lki_shape_equal(&x->shape, &target->shape)) {
        char found[128], expected[128];

        return LKI_FAIL(
            LKS_E_SHAPE, "%s '%s': input '%s' is %s, but target '%s' is %s; shapes must be equal",
            LKI_NODE(node), x->node->name, lki_shape_print(&x->shape, found, sizeof found),
            target->node->name, lki_shape_print(&target->shape, expected, sizeof expected));
    }
    return LKS_OK;
}

const lki_op lki_op_mse = {
    .name = "mse",
    .what = "mean squared error",
    .inputs = 2,
    .is_loss = true,
    .infer = mse_infer,
};

lks_tensor *lks_mse(lks_graph *graph, lks_tensor *x, lks_tensor *target)
{
    return lki_graph_add(graph, LKI_OP_MSE, NULL, (lks_tensor *[]){x, target}, 2);
}

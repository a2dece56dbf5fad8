/* add: y = a + b, of equal shapes. */
#include "op/common.h"

static lks_status infer(lki_node *node)
{
    const lks_tensor *a = node->in[0], *b = node->in[1];

    LKI_TRY(lki_check_floats(node));
    if (!lki_shape_equal(&a->shape, &b->shape)) {
        char first[128], second[128];

        return LKI_FAIL(LKS_E_SHAPE, "%s '%s': '%s' is %s, but '%s' is %s; shapes must be equal",
                        LKI_NODE(node), a->node->name,
                        lki_shape_print(&a->shape, first, sizeof first), b->node->name,
                        lki_shape_print(&b->shape, second, sizeof second));
    }
    node->out.shape = a->shape;
    return LKS_OK;
}

const lki_op lki_op_add = {.name = "add", .infer = infer, .print = lki_print_nothing};

lks_tensor *lks_add(lks_graph *graph, lks_tensor *a, lks_tensor *b)
{
    return lki_graph_add(graph, LKI_OP_ADD, NULL, (lks_tensor *[]){a, b}, 2);
}

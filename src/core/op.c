#include "core/op.h"

#include <string.h>

static const lki_op *const ops[LKI_OP_COUNT] = {
#define X(ID, id) [LKI_OP_##ID] = &lki_op_##id,
    LKI_OP_LIST(X)
#undef X
};

const lki_op *lki_op_get(lki_op_id id)
{
    return ops[id];
}

lki_op_id lki_op_find(const char *name)
{
    int id = 0;
    while (id < LKI_OP_COUNT && strcmp(ops[id]->name, name) != 0) id++;
    return (lki_op_id)id;
}

bool lki_stops_at_zero(const lks_tensor *tensor)
{
    const lki_node *node = tensor->node;
    while (lki_op_get(node->op)->at_zero == LKI_ZERO_AS_INPUT) node = node->in[0]->node;
    return lki_op_get(node->op)->at_zero == LKI_ZERO_STOPS;
}

size_t lki_node_print(const lki_node *node, char *buffer, size_t size)
{
    return lki_attributes_print(&lki_op_get(node->op)->attributes, node->attr, buffer, size);
}

#include "core/op.h"

static const lki_op *const ops[LKI_OP_COUNT] = {
#define X(ID, id) [LKI_OP_##ID] = &lki_op_##id,
    LKI_OP_LIST(X)
#undef X
};

const lki_op *lki_op_get(lki_op_id id)
{
    return ops[id];
}

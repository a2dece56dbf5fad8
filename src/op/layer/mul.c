/* mul: y = a * b, of equal shapes; or b a vector, of which each channel (the last dimension) of
 * the sample's a takes its value. The vector's gradient is a sum over the sample's pixels in row
 * order, one accumulator from +0. */
#include "op/common.h"

const lki_op lki_op_mul = {.name = "mul", .infer = lki_infer_pair, .print = lki_print_nothing};

lks_tensor *lks_mul(lks_graph *graph, lks_tensor *a, lks_tensor *b)
{
    return lki_graph_add_pair(graph, LKI_OP_MUL, a, b);
}

/* Operations as golden files describe them: {"op":"conv2d","in":[6,5,3],"filters":4, ...}. */
#ifndef LKT_OP_JSON_H
#define LKT_OP_JSON_H

#include "support/golden.h"
#include "support/ops.h"

/* Adds an input of the shape "in" and the operation to the graph; returns its output. */
lks_tensor *lkt_json_op(lks_graph *graph, const json_t *test);

#endif

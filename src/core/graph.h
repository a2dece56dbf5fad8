/* The inside of a graph: nodes in the order they were built, which is an order of execution. */
#ifndef LKI_CORE_GRAPH_H
#define LKI_CORE_GRAPH_H

#include "base/memory.h"
#include "base/shape.h"
#include "core/op.h"

/* What names of a model's state begin with beside those of parameters and buffers, "<node>.<suffix>":
 * no node is called so, so that no two entries have one name. */
#define LKI_NAMES_OPTIMIZER "optimizer."
#define LKI_NAMES_GRADIENT  "gradient."
#define LKI_NAMES_AVERAGE   "ema."

struct lks_graph {
    lks_context *context;
    lki_arena arena; /* nodes, attributes, strings */
    lki_node *first, *last;
    int count;
    int named[LKI_OP_COUNT]; /* nodes of each op so far, for default names */
    lks_tensor *input, *target;
    lks_error error; /* the first; status LKS_OK: none */
};

/*
 * What every builder calls. `attr` is the *_opts (its first member is `name`; NULL: all zero) and
 * is copied, `in` are in_count tensors. Returns NULL, and keeps the first error in the graph, when
 * the graph has an error already, an input is NULL or of another graph, the name is taken, or
 * infer fails.
 */
lks_tensor *lki_graph_add(lks_graph *graph, lki_op_id op, const void *attr, lks_tensor *const in[],
                          int in_count);

/* The tokens among which a layer of a list that is masked looks for padding: the graph's input, or what its last masking
 * gives; NULL: there are none. */
lks_tensor *lki_graph_tokens(lks_graph *graph);

/* The first node that looks ahead (lki_op.looks_ahead); NULL: none does. */
const lki_node *lki_graph_looks_ahead(const lks_graph *graph);

/* Keep the thread's last error as the graph's, if it has none yet. */
void lki_graph_keep_error(lks_graph *graph);

#endif

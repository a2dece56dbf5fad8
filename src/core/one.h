/* A network of one position, which is computed behind those before it. */
#ifndef LKI_CORE_ONE_H
#define LKI_CORE_ONE_H

#include "core/graph.h"

/*
 * The nodes of `whole` that `output` needs, of which each position depends on itself and those before it alone (which is
 * the caller's to know, as of a direction), for one of them: its output is `*one`. Nodes have their parameters, attributes
 * and names in common with those of `whole` (lki_node.whole), which outlives it. Where a node knows whole sequences alone,
 * both are NULL, and it is no error.
 */
lks_status lki_graph_one(lks_graph **out, const lks_graph *whole, const lks_tensor *output,
                         const lks_tensor **one);

#endif

/* What nodes of recurrent layers have as attributes: a node is one layer in one direction. */
#ifndef LKI_OP_RECURRENT_H
#define LKI_OP_RECURRENT_H

#include <lockstep/graph.h>

enum { LKI_RECURRENT_LEVELS = 64 };

typedef struct lki_recurrent {
    lks_recurrent_opts opts; /* of this node: layers 1, not bidirectional */
    bool part;        /* of a stack that a builder has made: opts may say more than one node is */
    int level;        /* which layer of the stack, from 0 */
    const char *stem; /* the stack's name, with which those of parameters begin; NULL: the node's */
    char suffix[4][28]; /* of parameters; written by infer */
} lki_recurrent;

/* The layers of `attr`, an lki_recurrent, on x: lki_op.build of all three. */
lks_tensor *lki_recurrent_build(lks_graph *graph, int op, const void *attr, lks_tensor *x);

#endif

/* A layer being built from a list or a line: which options it has, and their values. */
#ifndef LKI_RECIPE_NETWORK_LAYER_H
#define LKI_RECIPE_NETWORK_LAYER_H

#include "core/graph.h"
#include "recipe/options.h"

/* Layers with a name, for `from: name` and `add: {with: name}`. */
typedef struct lki_layer_named {
    const struct lki_layer_named *next;
    const char *name;
    lks_tensor *tensor;
} lki_layer_named;

/* The block whose layers are being built. */
typedef struct lki_layer_scope {
    const struct lki_layer_scope *outer; /* NULL: the list's own */
    const char *block, *prefix;          /* in front of names of layers; "": nothing */
    lks_tensor *input;                   /* what `input` is in it */
} lki_layer_scope;

typedef struct lki_layer {
    lki_heap *heap;
    lks_graph *graph;
    lks_tensor *x;
    const char *where; /* for messages */
    const lki_layer_named *named;
    const lki_layer_scope *scope; /* NULL: outside of blocks */
    bool single;                  /* it is one node, not what a builder makes of it */
    /* Of the one under way: */
    const lki_op *op;
    const char *name, *from, *with, *weight_of; /* NULL: not given */
    int64_t repeat;                             /* one behind the other; 0: not given */
} lki_layer;

/* Option `number` of an operation, from 0, in the order of help: `with` where there is a second operand,
 * its attributes, and but for losses `name` and `from`. The first may be given alone: `dropout: 0.5`.
 * NULL: there are not so many. */
const lki_attribute *lki_layer_option(const lki_op *op, int number);

/* Layer number `number` of those that a list may have, from 0: operations, and behind them what is always several (lki_layer_is_several()).
 * NULL: there are not so many. */
const lki_op *lki_layer_at(int number);
/* A block of a transformer: it is no operation of a graph, and has no `infer`; its `build` adds several. */
bool lki_layer_is_several(const lki_op *op);

/* A layer by name, or a loss; fails with the nearest layer. */
LKS_MUSTUSE lks_status lki_layer_find(const lki_op **out, const char *where, const char *name,
                                      bool losses);

/* What others may refer to by that name from here on. */
LKS_MUSTUSE lks_status lki_layer_add_named(lki_layer *l, const char *name, lks_tensor *tensor);

/* Reads the options in `body` (NULL: none), and puts the layer in x's place. A loss takes the graph's
 * target, which is made where there is none. */
LKS_MUSTUSE lks_status lki_layer_build(lki_layer *l, const lki_op *op, const lki_yaml *body);

#endif

/* What operations share: checks with their sentences, and parameters as most have them. */
#ifndef LKI_OP_COMMON_H
#define LKI_OP_COMMON_H

#include "base/check.h"
#include "core/graph.h"

/* "conv2d 'conv1'", for the start of a sentence: the arguments for "%s '%s'". */
#define LKI_NODE(node) lki_op_get((node)->op)->name, (node)->name

/* An attribute lies in [least, most], where the table cannot say it as that depends on others. */
lks_status lki_check_range(const lki_node *node, const char *attribute, int64_t value,
                           int64_t least, int64_t most);
/* Of attributes of these names: padding is one of the tokens (NULL: there are none), and stands beside masked alone. */
lks_status lki_check_padding(const lki_node *node, const lks_tensor *tokens, bool masked,
                             int64_t padding);
/* The same where tokens are the second input (lki_op.reads_tokens): with masked, and only then, there are some, one for
 * each position of the first. */
lks_status lki_check_masked(const lki_node *node, bool masked, int64_t padding);
/* `what` has 1 to LKS_MAX_DIMS dimensions of at least 1, and at most 2^31 - 1 elements: then
 * products of two such counts fit int64_t. */
lks_status lki_check_shape(const lki_node *node, const char *what, const lks_shape *shape);
/* How many tokens there are of such a tensor: the graph's input, or what a masking gives. */
int64_t lki_vocabulary_of(const lks_tensor *tokens);
/* lki_op.infer of functions of each element: the output has the input's shape. */
lks_status lki_infer_same(lki_node *node);
/* lki_op.infer of two operands: of equal shapes, or one a vector with a value for each channel (the
 * last dimension) of the other, which is made the first; the output has the first one's shape. */
lks_status lki_infer_pair(lki_node *node);
/* lki_op.infer of losses over classes: the target has as many as in[0] has values. */
lks_status lki_infer_classes(lki_node *node);
/* lki_op.infer of losses over numbers: the target has in[0]'s shape. */
lks_status lki_infer_numbers(lki_node *node);

/* lki_op.looks_ahead of what gives one value for all positions. */
bool lki_looks_ahead(const lki_node *node);

/* Parameters. A weight, which decays; behind it its bias; weight (ones) and bias (zeros) of a
 * normalisation, which do not. */
void lki_add_weight(lki_node *node, const lks_shape *shape, const lks_init *init, int64_t fan_in,
                    int64_t fan_out);
void lki_add_bias(lki_node *node, int64_t count, const lks_init *init);
void lki_add_affine(lki_node *node, const lks_shape *shape);
void lki_add_scale(lki_node *node, const lks_shape *shape); /* the former of both alone */

/* A window that slides over rows and columns (conv2d, pools); each member points to 2 values. */
typedef struct lki_window {
    const int64_t *kernel, *stride, *padding, *dilation;
} lki_window;
/* Computes the output's rows and columns: out = (size + 2*padding - dilation*(kernel-1) - 1) / stride
 * + 1, rounded down; fails where the kernel does not fit. */
lks_status lki_window_out(const lki_node *node, lki_window window, int64_t out[2]);

#endif

/* What operations share: checks with their sentences, and printing of attributes. */
#ifndef LKI_OP_COMMON_H
#define LKI_OP_COMMON_H

#include "base/check.h"
#include "core/graph.h"

/* "conv2d 'conv1'", for the start of a sentence: the arguments for "%s '%s'". */
#define LKI_NODE(node) lki_op_get((node)->op)->name, (node)->name

/* Every input (of a loss: the first) is F32. */
lks_status lki_check_floats(const lki_node *node);
/* in[0] is F32 and has dimensions height, width, channels. */
lks_status lki_check_image(const lki_node *node);
/* in[0] is F32 and has one dimension. */
lks_status lki_check_vector(const lki_node *node);
/* An attribute lies in [least, most]. */
lks_status lki_check_range(const lki_node *node, const char *attribute, int64_t value,
                           int64_t least, int64_t most);
/* `what` has 1 to LKS_MAX_DIMS dimensions of at least 1, and at most 2^31 - 1 elements: then
 * products of two such counts fit int64_t. */
lks_status lki_check_shape(const lki_node *node, const char *what, const lks_shape *shape);
lks_status lki_check_init(const lki_node *node, const char *attribute, const lks_init *init);
/* lki_op.infer of functions of each element: a float input, an output of its shape. */
lks_status lki_infer_same(lki_node *node);
/* lki_op.infer of two operands: float inputs of equal shapes, or the second a vector with a value
 * for each channel (the last dimension) of the first; the output has the first one's shape. */
lks_status lki_infer_pair(lki_node *node);
/* The builder of such an operation; a channel vector is made the second operand. */
lks_tensor *lki_graph_add_pair(lks_graph *graph, lki_op_id op, lks_tensor *a, lks_tensor *b);
/* The target has classes, as many as in[0] has values: for losses over classes. */
lks_status lki_check_classes(const lki_node *node);

enum { LKI_ATTRIBUTE_MOST = 1 << 24 }; /* of sizes in attributes */

/* A window that slides over rows and columns (conv2d, pools); each member points to 2 values. */
typedef struct lki_window {
    const int64_t *kernel, *stride, *padding, *dilation;
} lki_window;
/* Checks the window and computes the output's rows and columns: out = (size + 2*padding -
 * dilation*(kernel-1) - 1) / stride + 1, rounded down. */
lks_status lki_window_out(const lki_node *node, lki_window window, int64_t out[2]);

/* Makes a zero the default. */
static inline void lki_default(int64_t *value, int64_t standard)
{
    if (*value == 0) *value = standard;
}

/* Attributes as text: each call appends " name=value" (no blank at the start). */
void lki_print(char *buffer, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* As few digits as give the same float back. */
void lki_print_float(char *buffer, size_t size, const char *name, float value);
/* "padding=1" or "padding=1x2"; nothing where both are `standard`. */
void lki_print_pair(char *buffer, size_t size, const char *name, const int64_t pair[2],
                    int64_t standard);
/* "weight_init=kaiming_normal:0.01:fan_out", "bias_init=uniform:0.1": the kind, its number where it
 * has one (slope, gain and value too) that is not the default; nothing where DEFAULT. */
void lki_print_init(char *buffer, size_t size, const char *name, const lks_init *init);
/* For operations without attributes. */
void lki_print_nothing(const lki_node *node, char *buffer, size_t size);

#endif

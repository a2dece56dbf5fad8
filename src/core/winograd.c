#include "core/winograd.h"

/* Narrow results are summed in double, which Winograd's are not. */
static bool is_possible(const lki_node *node)
{
    const lks_conv2d_opts *opts = node->attr;
    for (int i = 0; i < 2; i++)
        if (opts->kernel[i] != 3 || opts->stride[i] != 1 || opts->dilation[i] != 1) return false;
    return opts->groups == 1 && node->in[0]->shape.dim[2] >= LKI_NARROW &&
           opts->filters >= LKI_NARROW;
}

/* Products of a channel and a filter: (n + 2)^2 of a tile of n x n pixels, where the last along an axis may have fewer. */
static int64_t products_of(const int64_t *out, int64_t side)
{
    int64_t all = 1;
    for (int i = 0; i < 2; i++) {
        const int64_t rest = out[i] % side;
        all *= out[i] / side * (side + 2) + (rest > 0 ? rest + 2 : 0);
    }
    return all;
}

/* By the products. */
static int by_shape(const int64_t *out)
{
    const int64_t large = products_of(out, 4), small = products_of(out, 2);
    if (large < small && 5 * large <= 36 * out[0] * out[1]) return 4;
    return 5 * small <= 36 * out[0] * out[1] ? 2 : 0;
}

int lki_winograd_side(const lki_node *node, const lki_switches *switches)
{
    if (!is_possible(node) || switches->bf16) return 0;
    switch (switches->winograd) {
    case LKS_WINOGRAD_OFF:
        return 0;
    case LKS_WINOGRAD_F2:
        return 2;
    case LKS_WINOGRAD_F4:
        return 4;
    default:
        return by_shape(node->out.shape.dim);
    }
}

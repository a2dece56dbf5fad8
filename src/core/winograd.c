#include "core/winograd.h"

/* Narrow results are summed in double, which Winograd's are not. */
static bool is_possible(const lki_node *node)
{
    const lks_conv2d_opts *opts = node->attr;
    if (opts->kernel[0] != 3 && opts->kernel[0] != 5) return false;
    for (int i = 0; i < 2; i++)
        if (opts->kernel[i] != opts->kernel[0] || opts->stride[i] != 1 || opts->dilation[i] != 1)
            return false;
    return opts->groups == 1 && node->in[0]->shape.dim[2] >= LKI_NARROW &&
           opts->filters >= LKI_NARROW;
}

/* Products of a channel and a filter: (n + kernel - 1)^2 of a tile of n x n pixels, where the last along an axis may have
 * fewer. */
static int64_t products_of(const int64_t *out, int64_t side, int64_t kernel)
{
    int64_t all = 1;
    for (int i = 0; i < 2; i++) {
        const int64_t rest = out[i] % side, more = kernel - 1;
        all *= out[i] / side * (side + more) + (rest > 0 ? rest + more : 0);
    }
    return all;
}

/* By the products: at most four fifths of a direct sum's. */
static int by_shape(const int64_t *out, int64_t kernel)
{
    const int64_t most = 4 * kernel * kernel * out[0] * out[1];
    const int64_t large = products_of(out, 4, kernel), small = products_of(out, 2, kernel);
    if (kernel == 3 && large < small && 5 * large <= most) return 4;
    return 5 * small <= most ? 2 : 0;
}

int lki_winograd_side(const lki_node *node, const lki_switches *switches)
{
    if (!is_possible(node) || switches->bf16) return 0;
    const int64_t kernel = ((const lks_conv2d_opts *)node->attr)->kernel[0];
    switch (switches->winograd) {
    case LKS_WINOGRAD_OFF:
        return 0;
    case LKS_WINOGRAD_F2:
        return 2;
    case LKS_WINOGRAD_F4:
        return kernel == 3 ? 4 : 0; /* six points are all that are known */
    default:
        return by_shape(node->out.shape.dim, kernel);
    }
}

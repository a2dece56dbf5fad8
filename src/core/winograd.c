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

static int64_t tiles_of(const int64_t *out, int64_t side)
{
    return (out[0] + side - 1) / side * ((out[1] + side - 1) / side);
}

/* By the products of a channel and a filter: 36 a tile of side 4, 16 of side 2, 9 a pixel. Few tiles would not pay for
 * reading a large weight, which is larger by 36 / 9. */
static int by_shape(const int64_t *out, int64_t channels, int64_t filters)
{
    const int64_t large = tiles_of(out, 4), small = tiles_of(out, 2), pixels = out[0] * out[1];
    const bool enough = large >= 4 || channels * filters <= 256 * 256;
    if (enough && 36 * large < 16 * small) return 4;
    return 20 * small <= 9 * pixels ? 2 : 0;
}

int lki_winograd_side(const lki_node *node, const lki_switches *switches)
{
    if (!is_possible(node)) return 0;
    switch (switches->winograd) {
    case LKS_WINOGRAD_OFF:
        return 0;
    case LKS_WINOGRAD_F2:
        return 2;
    case LKS_WINOGRAD_F4:
        return 4;
    default:
        return by_shape(node->out.shape.dim, node->in[0]->shape.dim[2], node->out.shape.dim[2]);
    }
}

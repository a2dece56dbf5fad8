/* Which convolutions are computed by Winograd's algorithm: part of the numerics (docs/numerics.md), so of no backend. */
#ifndef LKI_CORE_WINOGRAD_H
#define LKI_CORE_WINOGRAD_H

#include "core/backend.h"
#include "core/graph.h"

/* Pixels of a tile along an axis, 2 for F(2x2,3x3) and F(2x2,5x5) or 4 for F(4x4,3x3), of a conv2d; 0: directly. */
int lki_winograd_side(const lki_node *node, const lki_switches *switches);

/* Whether the weight gradient of such a convolution with kernel x kernel taps is computed by it, too: of 3 x 3 taps where its
 * sums, (side + 2)^2 for each channel and filter, which are read and written once in 64 tiles, are not too many. */
static inline bool lki_winograd_has_weight(int64_t side, int64_t kernel, int64_t channels,
                                           int64_t filters)
{
    return kernel == 3 && (side + 2) * (side + 2) * channels * filters <= INT64_C(1) << 24;
}

#endif

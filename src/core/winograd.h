/* Which convolutions are computed by Winograd's algorithm: part of the numerics (docs/numerics.md), so of no backend. */
#ifndef LKI_CORE_WINOGRAD_H
#define LKI_CORE_WINOGRAD_H

#include "core/backend.h"
#include "core/graph.h"

/* Pixels of a tile along an axis, 2 for F(2x2,3x3) or 4 for F(4x4,3x3), of a conv2d; 0: directly. */
int lki_winograd_side(const lki_node *node, const lki_switches *switches);

/* Whether such a convolution's weight gradient is computed by it, too: sums that are larger by 36 / 9 than the weight
 * are read and written once in 64 tiles. */
static inline bool lki_winograd_has_weight(int64_t channels, int64_t filters)
{
    return channels * filters <= 256 * 256;
}

#endif

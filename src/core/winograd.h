/* Which convolutions are computed by Winograd's algorithm: part of the numerics (docs/numerics.md), so of no backend. */
#ifndef LKI_CORE_WINOGRAD_H
#define LKI_CORE_WINOGRAD_H

#include "core/backend.h"
#include "core/graph.h"

/* Pixels of a tile along an axis, 2 for F(2x2,3x3) or 4 for F(4x4,3x3), of a conv2d; 0: directly. */
int lki_winograd_side(const lki_node *node, const lki_switches *switches);

/* Whether such a convolution's weight gradient is computed by it, too: its sums, (side + 2)^2 for each channel and
 * filter, are read and written once in 64 tiles. */
static inline bool lki_winograd_has_weight(int64_t side, int64_t channels, int64_t filters)
{
    return (side + 2) * (side + 2) * channels * filters <= INT64_C(1) << 24;
}

#endif

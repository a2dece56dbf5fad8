/* Which convolutions are computed by Winograd's algorithm: part of the numerics (docs/numerics.md), so of no backend. */
#ifndef LKI_CORE_WINOGRAD_H
#define LKI_CORE_WINOGRAD_H

#include "core/backend.h"
#include "core/graph.h"

/* Pixels of a tile along an axis, 2 for F(2x2,3x3) or 4 for F(4x4,3x3), of a conv2d; 0: directly. */
int lki_winograd_side(const lki_node *node, const lki_switches *switches);

#endif

/*
 * The device `joined`: ref, and two implementations of several nodes that call ref's kernels, so that a
 * network has the same bits on both. They have all that a cluster may have:
 *
 *   norm   conv2d, batch_norm, perhaps add, perhaps relu: in halves, with an input of the second half,
 *          parameters of two nodes, statistics, values kept between the halves
 *   sum    two dense layers and their sum: a pattern with two heads, gradients of four parameters by rows
 */
#ifndef LKT_JOINED_H
#define LKT_JOINED_H

#include "core/cluster.h"

/* lki_backend_find() knows it from now on. */
const lki_backend *lkt_joined(void);

#endif

/* What the two pools over windows share. */
#ifndef LKI_OP_LAYER_POOL_H
#define LKI_OP_LAYER_POOL_H

#include "op/common.h"

lks_status lki_pool_infer(lki_node *node);

/* Lines of their tables. */
#define LKI_POOL_WINDOW                                                                            \
    LKI_ATTRIBUTE(PAIR, lks_pool_opts, kernel, .range = "[1,)", .required = true),                 \
        LKI_ATTRIBUTE(PAIR, lks_pool_opts, stride, .range = "[1,)", .fallback = "kernel"),         \
        LKI_ATTRIBUTE(PAIR, lks_pool_opts, padding, .range = "[0,)", .fallback = "0")

#endif

/* What the two pools over windows share. */
#ifndef LKI_OP_LAYER_POOL_H
#define LKI_OP_LAYER_POOL_H

#include "op/common.h"

lks_status lki_pool_infer(lki_node *node);
void lki_pool_print(const lki_node *node, char *buffer, size_t size);

#endif

/* A block of a transformer as a layer of a list. */
#ifndef LKI_RECIPE_NETWORK_TRANSFORMER_H
#define LKI_RECIPE_NETWORK_TRANSFORMER_H

#include "core/op.h"

/* Its name, options and `build`; it is no operation that a graph has. */
extern const lki_op lki_layer_transformer;

#endif

/* The list model.layers: one layer after the other. */
#ifndef LKI_RECIPE_NETWORK_LAYERS_H
#define LKI_RECIPE_NETWORK_LAYERS_H

#include "recipe/network/network.h"

/* Adds the layers to x and returns the last tensor in *out. */
LKS_MUSTUSE lks_status lki_layers_build(lks_tensor **out, lki_config *config, lks_graph *graph,
                                        lks_tensor *x);

/*
 * The one operation of a line such as "conv2d filters=32 kernel=3x3 in=8x28x28x1", as
 * lks_tensor_line() prints them: a layer or a loss, its options (no_bias is bias=false), and in, the
 * number of samples and the shape of one (":u8" behind it: bytes). Any white space parts words.
 */
LKS_MUSTUSE lks_status lki_layers_build_line(lks_tensor **out, int64_t *samples, lki_heap *heap,
                                             lks_graph *graph, const char *line);

/* Whether the list begins with what takes bytes, as normalize does. */
bool lki_layers_normalize(const lki_config *config);

#endif

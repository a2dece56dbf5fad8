/* The list model.layers: one layer after the other. */
#ifndef CLI_LAYERS_H
#define CLI_LAYERS_H

#include "network.h"

/* Adds the layers to x and returns the last tensor in *out. `is_log` tells whether the last layer
 * is log_softmax, so that the output is log-probabilities. */
LKS_MUSTUSE lks_status layers_build(lks_tensor **out, bool *is_log, cli_config *config,
                                    lks_graph *graph, lks_tensor *x);

/* Whether the list begins with its own normalize. */
bool layers_normalize(const cli_config *config);

#endif

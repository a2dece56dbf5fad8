/* The network that a configuration describes. */
#ifndef LKI_RECIPE_NETWORK_H
#define LKI_RECIPE_NETWORK_H

#include <lockstep/lockstep.h>

#include "recipe/config.h"

typedef struct lki_network {
    lks_tensor *loss, *output; /* owned by the graph */
} lki_network;

/* Input, normalisation, layers and loss, for data like `info`. Errors in a list of layers begin
 * with file and line. */
LKS_MUSTUSE lks_status lki_network_build(lki_network *out, lki_config *config, lks_graph *graph,
                                         const lks_dataset_info *info);

/* Mean and std, each one number or one for each channel, into opts; not set: 0 and 1. */
LKS_MUSTUSE lks_status lki_network_constants(lks_normalize_opts *opts, lki_heap *heap,
                                             const lki_setting *mean, const lki_setting *std);

#endif

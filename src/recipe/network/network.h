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

#endif

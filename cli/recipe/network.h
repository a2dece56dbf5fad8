/* The network that a configuration describes. */
#ifndef CLI_NETWORK_H
#define CLI_NETWORK_H

#include <lockstep/lockstep.h>

#include "cli/recipe/config.h"

typedef struct cli_network {
    lks_tensor *loss, *output; /* owned by the graph */
} cli_network;

/* Input, normalisation, layers and loss, for data like `info`. Errors in a list of layers begin
 * with file and line. */
LKS_MUSTUSE lks_status network_build(cli_network *out, cli_config *config, lks_graph *graph,
                                     const lks_dataset_info *info);

/* Mean and std, each one number or one for each channel, into opts; not set: 0 and 1. */
LKS_MUSTUSE lks_status network_constants(lks_normalize_opts *opts, const cli_value *mean,
                                         const cli_value *std);

/* The table of layers for the help, and as docs/ops.md. */
void network_layers_print(FILE *out);
void network_layers_markdown(FILE *out);

#endif

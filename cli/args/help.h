/* Tables of the library that help and documents print. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include <stdio.h>

#include "recipe/config.h"

/* The table of keys for the help. */
void config_keys_print(FILE *out);

/* The table of layers for the help, and as docs/ops.md. */
void help_layers_print(FILE *out);
void help_layers_markdown(FILE *out);

#endif

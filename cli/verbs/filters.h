/* The first convolution of saved weights as a picture. */
#ifndef CLI_VERBS_FILTERS_H
#define CLI_VERBS_FILTERS_H

#include "cli/cli.h"

/* Of a safetensors file, into a PNG file. */
LKS_MUSTUSE lks_status filters_write(lks_context *context, const char *tensors, const char *path);

#endif

/* lockstep find: values for a configuration, found by trying them. */
#ifndef CLI_FIND_H
#define CLI_FIND_H

#include "cli/cli.h"

/* A number above 0 behind an option of the command line; `usual` where it is not given. */
LKS_MUSTUSE lks_status find_number(double *out, const cli_args *cli, cli_local local,
                                   const char *name, double usual);

/* cli's only operand is the configuration. */
LKS_MUSTUSE lks_status find_lr(const cli_args *cli, int *code);
LKS_MUSTUSE lks_status find_batch(const cli_args *cli, int *code);

#endif

/* How many processes a training has, where train's own options say it. */
#ifndef CLI_PROCESSES_H
#define CLI_PROCESSES_H

#include "cli/cli.h"

/* With --num-processes, or --gpus and --num-nodes, of more than one: becomes `lockstep launch` with so many ranks and
 * the command line that was typed. Returns where there is nothing to start: for one process, in what a launcher has
 * started, whose number has to be that one, and where only something is printed. */
LKS_MUSTUSE lks_status processes_start(const cli_args *cli);

#endif

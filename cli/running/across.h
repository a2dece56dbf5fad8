/* Ranks of the hosts that --hosts names. */
#ifndef CLI_RUNNING_ACROSS_H
#define CLI_RUNNING_ACROSS_H

#include "cli/running/running.h"

/* Ranks of those hosts, or of this one where none are named; and of this one in any case, where `here` says so. *lost:
 * how many hosts have not answered, each of which was said. */
LKS_MUSTUSE lks_status across_list(running_ranks *list, int *lost, const cli_args *cli, bool here);

/* `lockstep stop` of its run on the host that was asked for it, which does not ask. */
LKS_MUSTUSE lks_status across_stop(const running_rank *rank, double seconds, const cli_args *cli);

#endif

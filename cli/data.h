/* The actions of `lockstep data`, one file each. */
#ifndef CLI_DATA_H
#define CLI_DATA_H

#include "cli.h"
#include "dataset.h"

/* Downloads a known data set into `folder`, which may have some of its files already. */
LKS_MUSTUSE lks_status data_download(const cli_args *cli, cli_pool *pool,
                                     const dataset_known *known, const char *folder);

#endif

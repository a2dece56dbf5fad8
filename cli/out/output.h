/* Files that a command is to write, looked at before it begins its work. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "cli/cli.h"

/* LKS_E_INVALID where srun, mpirun or the like have started several of us: each would do the same
 * work and write the same files. */
LKS_MUSTUSE lks_status output_alone(void);

/* `path` can be written to: its folder is there, it is no folder itself, and it is nothing that this
 * command reads (operands, weights, data, checkpoints), by whatever name or link. `what` is the
 * option's name, for messages; NULL recipe: there is none. With `look_only` nothing is touched, and
 * the folder may still be missing. NULL path: nothing is asked for. */
LKS_MUSTUSE lks_status output_place(const cli_args *cli, lks_recipe *recipe, const char *what,
                                    const char *path, bool look_only);
/* The same of a command that does its work alone. */
LKS_MUSTUSE lks_status output_check(const cli_args *cli, lks_recipe *recipe, const char *what,
                                    const char *path, bool look_only);

/* Two files of one command are not the same; NULL: there is none. */
LKS_MUSTUSE lks_status output_differ(const char *a, const char *b);

/* Waits for the reader of a pipe that is to be written, as opening it would, but not behind a signal
 * (stop.h). `*pipe` keeps it open: to be closed when it has been written; -1: that is no pipe. */
LKS_MUSTUSE lks_status output_await(int *pipe, const char *path);

#endif

/* A session of the library for a verb: its log goes to standard error. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "cli/cli.h"
#include "recipe/session.h"

/* An empty one, which says what the library logs. */
lki_session session_new(void);

/* Loads weights from model.init, or else from a checkpoint in checkpoint.path, the best or the newest
 * by --best, --last and what its run says; *step is its step, or -1. */
LKS_MUSTUSE lks_status session_load(lki_session *session, const cli_args *cli, int64_t *step);
/* Reads the configuration in the first operand, and prints it where that is asked for; else runs
 * `body` with an empty session, and closes it. */
LKS_MUSTUSE lks_status session_run(const cli_args *cli,
                                   lks_status (*body)(const cli_args *cli, lki_config *config,
                                                      lki_session *session));

#endif

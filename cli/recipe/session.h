/* What most verbs need: context, data, network and model of a configuration. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include <lockstep/lockstep.h>

#include "cli/cli.h"
#include "cli/recipe/network.h"

typedef enum session_data {
    SESSION_TRAIN = 1, /* training data, and validation where it is asked for */
    SESSION_TEST = 2,  /* test data; with the training data only where there is a test split */
} session_data;

typedef struct cli_session {
    cli_config *config; /* borrowed */
    lks_context *context;
    lks_dataset *whole[2];             /* of the training and the test split, as opened */
    lks_dataset *limited;              /* the part of whole[0] that train and valid share */
    lks_dataset *slice[3];             /* parts of them: train, valid, test */
    lks_dataset *train, *valid, *test; /* those to use: whole ones or parts; NULL: not opened */
    lks_dataset_info info;             /* of the data, with the number of classes settled */
    lks_graph *graph;
    cli_network network;
    lks_model *model;
} cli_session;

/* The context alone, for what has to be done before the data is opened. Close it also after a
 * failure. */
LKS_MUSTUSE lks_status session_begin(cli_session *out, cli_config *config);
/* Opens context, where there is none yet, and data; `out` is zeroed or begun. Close it also after a
 * failure. */
LKS_MUSTUSE lks_status session_open(cli_session *out, cli_config *config, int data);
/* The same with the test data, or the training data where there is no test split; or without data
 * where it is not there, but its shape is known. */
LKS_MUSTUSE lks_status session_open_shape(cli_session *out, cli_config *config);
/* Builds graph and model; `workers` 0: as configured. A second call replaces the first's. */
LKS_MUSTUSE lks_status session_compile(cli_session *session, int workers);
/* Loads weights from model.init, or else from a checkpoint in checkpoint.path, the best or the newest
 * by --best, --last and what its run says; *step is its step, or -1. */
LKS_MUSTUSE lks_status session_load(cli_session *session, const cli_args *cli, int64_t *step);
void session_close(cli_session *session);

/* Reads the configuration in the first operand, and prints it where that is asked for; else runs
 * `body` with an empty session, and closes it. */
LKS_MUSTUSE lks_status session_run(const cli_args *cli,
                                   lks_status (*body)(const cli_args *cli, cli_config *config,
                                                      cli_session *session));

/* A loader over a part of the data: shuffled as configured, or in order for testing. */
LKS_MUSTUSE lks_status session_loader(lks_loader **out, const cli_session *session,
                                      lks_dataset *dataset, bool training);

/* Fills in the optimizer and all else that concerns the update; lists are in the configuration's
 * pool. */
LKS_MUSTUSE lks_status session_update(lks_model_opts *out, cli_config *config);
/* `epochs` and `steps` are the length of the run (0: not given), for a schedule that ends with it. */
lks_schedule session_schedule(const cli_config *config, int64_t epochs, int64_t steps,
                              int64_t batches);

#endif

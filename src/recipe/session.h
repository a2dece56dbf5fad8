/* What most verbs need: context, data, network and model of a configuration. */
#ifndef LKI_RECIPE_SESSION_H
#define LKI_RECIPE_SESSION_H

#include <lockstep/lockstep.h>

#include "recipe/data/parts.h"
#include "recipe/network/network.h"

typedef enum lki_session_data {
    LKI_SESSION_TRAIN = 1, /* training data, and validation where it is asked for */
    LKI_SESSION_TEST = 2,  /* test data; with the training data only where there is a test split */
} lki_session_data;

typedef struct lki_session {
    lks_log_fn log; /* may be set before anything is opened */
    void *log_user;
    lki_config *config; /* borrowed */
    lks_comm *comm;     /* the processes that train the model together, borrowed; NULL: this one */
    lks_context *context;
    lks_dataset *whole[3];             /* of the training, the test and the validation, as opened */
    lki_parts parts;                   /* of whole[0] */
    lks_dataset *tested;               /* a part of whole[1], or NULL */
    lks_dataset *train, *valid, *test; /* those to use: whole ones or parts; NULL: not opened */
    lks_dataset_info info;             /* of the data, with the number of classes settled */
    uint64_t vocabulary_hash;          /* of its tokens; 0: it has none */
    lks_graph *graph;
    lki_network network;
    lks_model *model;
} lki_session;

/* The context alone, for what has to be done before the data is opened. Close it also after a
 * failure. */
LKS_MUSTUSE lks_status lki_session_begin(lki_session *out, lki_config *config);
/* Opens context, where there is none yet, and data; `out` is zeroed or begun. Close it also after a
 * failure. */
LKS_MUSTUSE lks_status lki_session_open(lki_session *out, lki_config *config, int data);
/* The same with the test data, or the training data where there is no test split; or without data
 * where it is not there, but its shape is known. */
LKS_MUSTUSE lks_status lki_session_open_shape(lki_session *out, lki_config *config);
/* Without data, as if there were some like this. */
LKS_MUSTUSE lks_status lki_session_open_like(lki_session *out, lki_config *config,
                                             const lks_dataset_info *info);
/* Builds graph and model; `workers` 0: as configured. A second call replaces the first's. */
LKS_MUSTUSE lks_status lki_session_compile(lki_session *session, int workers);
/* Closes data, network and model; all, with the context. */
void lki_session_drop(lki_session *session);
void lki_session_close(lki_session *session);

/* A loader over a part of the data: shuffled as configured, in order for testing, or in order to look at.
 * Of a batch of the first two it reads the share of this process's replicas. */
typedef enum lki_purpose { LKI_FOR_TRAINING, LKI_FOR_TESTING, LKI_FOR_LOOKING } lki_purpose;
LKS_MUSTUSE lks_status lki_session_loader(lks_loader **out, const lki_session *session,
                                          lks_dataset *dataset, lki_purpose purpose);

/* The optimizer, with what its keys say. */
lks_optim lki_session_optim(const lki_config *config);
/* Fills in the optimizer and all else that concerns the update; lists are in the configuration's
 * heap. */
LKS_MUSTUSE lks_status lki_session_update(lks_model_opts *out, lki_config *config);
/* `epochs` and `steps` are the length of the run (0: not given), for a schedule that ends with it. */
lks_schedule lki_session_schedule(const lki_config *config, int64_t epochs, int64_t steps,
                                  int64_t batches);

#endif

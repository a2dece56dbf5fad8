/* A network whose recurrent layers carry their state from batch to batch, and windows for it. */
#ifndef LKT_CARRIED_H
#define LKT_CARRIED_H

#include "support/ranks/small.h"

enum {
    CARRIED_COLUMNS = 12,
    CARRIED_POSITIONS = 5,
    CARRIED_WIDTH = 3,
    CARRIED_CLASSES = 4,
    CARRIED_WINDOWS = 6, /* of an epoch */
    CARRIED_LONG = 9,    /* steps: into the second epoch, */
    CARRIED_END = 15,    /* and the third */
};

/* Frames through two lstm with dropout, gru and rnn, a class at each position. Of the options, what is not said is that of
 * a batch of all columns, 5 replicas, one worker, a link every second step, SGD with momentum. */
lks_status lkt_carried_build(lkt_small *m, lks_comm *comm, lks_model_opts opts);
/* The window of this step, which continues unless an epoch begins with it. Called first by one thread. */
lks_batch lkt_carried_batch(int step);
/* Steps first .. last-1; the sums of their losses are added to `sum`, which may be NULL. */
lks_status lkt_carried_train(lkt_small *m, int first, int last, lks_metrics *sum);
/* An epoch's windows, in order. */
lks_status lkt_carried_evaluate(lkt_small *m, lks_metrics *sum);
/* Of all that is carried now. Collective. */
lks_status lkt_carried_hash(lkt_small *m, uint64_t *out);

/* What a training comes to; and of one process, of CARRIED_END steps. Where two differ the test fails. */
typedef struct lkt_carried_outcome {
    uint64_t hash, carried;
    lks_metrics trained, evaluated;
} lkt_carried_outcome;
lkt_carried_outcome lkt_carried_look(lkt_small *m, const lks_metrics *trained);
lkt_carried_outcome lkt_carried_alone(lks_model_opts opts);
void lkt_carried_same(const lkt_carried_outcome *a, const lkt_carried_outcome *b);

#endif

/* A small network with one batch of samples for stories of a few ranks that train it. */
#ifndef LKT_SMALL_H
#define LKT_SMALL_H

#include <string.h>

#include "model/model.h"
#include "support/ranks/fake.h"
#include "support/test.h"

enum { SMALL_WIDTH = 6, SMALL_CLASSES = 3, SMALL_SAMPLES = 24, SMALL_RANKS = 3 };

/* The samples; their numbers begin at 1000. Called first by one thread. */
const lks_batch *lkt_small_batch(void);

typedef struct lkt_small {
    lks_context *context;
    lks_graph *graph;
    lks_tensor *loss;
    lks_model *model;
} lkt_small;

/* Zeroed, then ended whatever became of it. Of the options, what is not said is that of a batch of all
 * samples, 6 replicas, one worker, a link every second step. */
lks_status lkt_small_begin(lkt_small *m, const lks_context_opts *how);
lks_status lkt_small_compile(lkt_small *m, lks_comm *comm, lks_model_opts opts);
lks_status lkt_small_build(lkt_small *m, lks_comm *comm, lks_model_opts opts); /* both */
void lkt_small_end(lkt_small *m);

typedef lks_status (*lkt_small_builder)(lkt_small *m, lks_comm *comm, lks_model_opts opts);

/* On every rank: builds, calls the body, ends. */
typedef struct lkt_story {
    lkt_small_builder build; /* NULL: lkt_small_build() */
    lks_model_opts opts;
    int (*body)(lkt_small *m, int rank, void *user);
    void *user;
    bool apart; /* ranks have no memory in common */
} lkt_story;
void lkt_small_tell(int ranks, const lkt_story *story);
int lkt_small_rank(lks_comm *comm, int rank, void *story); /* on one of them */

/* Two to four ranks, each with a worker, that have memory in common, or none, or none and a spread optimizer: all end
 * `steps` steps of Adam with this batch with this hash. */
typedef struct lkt_small_run {
    lkt_small_builder build;
    const lks_batch *batch;
    int steps, hash_every;
    uint64_t hash;
} lkt_small_run;
void lkt_small_any_ranks(const lkt_small_run *run);

/* Behind joining: so many ranks each, side by side, are on hosts of their own; all are threads of one otherwise. */
void lkt_pretend_hosts(lks_comm *comm, int each);

/* For bodies: rank 1 takes a step with a label that there is not. `batch` and `labels` become that. */
int lkt_small_bad_label(lkt_small *m, int rank, lks_batch *batch, int32_t labels[SMALL_SAMPLES]);

/* An exchange of a run of so many steps fails, as `aim` says in the hub for run n = 1, 2, ..., until none does: all
 * return, with a sentence, and those that have finished a step have the bits of that step (with a spread optimizer where
 * no exchange has failed). */
void lkt_small_endure(lkt_small_builder build, int steps, void (*aim)(lkt_hub_opts *hub, int n));

/* For bodies: this thread's last error has these words. */
#define LKT_SAYS(text)                                                                             \
    do {                                                                                           \
        if (strstr(lks_last_error()->message, (text)) == NULL)                                     \
            print_error("expected \"%s\"\n", (text));                                              \
        LKT_CHECK(strstr(lks_last_error()->message, (text)) != NULL);                              \
    } while (0)

#endif

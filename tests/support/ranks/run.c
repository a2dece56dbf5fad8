/* A thread for each rank of a hub. */
#include <pthread.h>
#include <stdlib.h>

#include "support/ranks/fake.h"
#include "support/test.h"

typedef struct runner {
    lkt_hub *hub;
    const lks_comm_opts *opts;
    lkt_rank_body body;
    void *user;
    int rank, result;
} runner;

static void *run_rank(void *user)
{
    runner *mine = user;
    lks_comm *comm = NULL;
    (void)!lkt_hub_join(mine->hub, mine->rank, mine->opts, &comm);
    mine->result = mine->body(comm, mine->rank, mine->user);
    lks_comm_destroy(comm);
    return NULL;
}

void lkt_ranks_run(const lkt_hub_opts *opts, const lks_comm_opts *comm_opts, lkt_rank_body body,
                   void *user, int *results)
{
    lkt_hub *hub = lkt_hub_make(opts);
    pthread_t threads[LKT_MOST_RANKS];
    runner runners[LKT_MOST_RANKS];
    for (int r = 0; r < opts->size; r++) {
        runners[r] = (runner){hub, comm_opts, body, user, r, 0};
        if (pthread_create(&threads[r], NULL, run_rank, &runners[r]) != 0) abort();
    }
    for (int r = 0; r < opts->size; r++) {
        pthread_join(threads[r], NULL);
        results[r] = runners[r].result;
    }
    lkt_hub_free(hub);
}

void lkt_ranks(const lkt_hub_opts *hub, const lks_comm_opts *opts, lkt_rank_body body, void *user)
{
    int results[LKT_MOST_RANKS];
    lkt_ranks_run(hub, opts, body, user, results);
    for (int r = 0; r < hub->size; r++)
        if (results[r] != 0) fail_msg("rank %d of %d returned %d", r, hub->size, results[r]);
}

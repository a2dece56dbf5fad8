/* A thread for each rank of a hub, or of connections (LKT_TRANSPORT=socket); or, where a launcher has started the
 * test, this process as one rank. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/tools.h>

#include "support/ranks/fake.h"
#include "support/test.h"

typedef struct runner {
    lkt_hub *hub;
    const lks_comm_opts *opts;
    lkt_rank_body body;
    void *user;
    const char *id; /* of connections */
    int rank, size, result;
} runner;

static void *run_rank(void *user)
{
    runner *mine = user;
    lks_comm *comm = NULL;
    lks_comm_opts own = mine->opts != NULL ? *mine->opts : (lks_comm_opts){0};
    own.id = mine->id, own.rank = mine->rank, own.size = mine->size;
    if (mine->id != NULL && lks_comm_create(&comm, &own) != LKS_OK)
        print_error("%s\n", lks_last_error()->message);
    if (mine->id == NULL) (void)!lkt_hub_join(mine->hub, mine->rank, mine->opts, &comm);
    mine->result = mine->body(comm, mine->rank, mine->user);
    lks_comm_destroy(comm);
    return NULL;
}

bool lkt_ranks_are_processes(void)
{
    const char *name = getenv("LKT_TRANSPORT");
    return name != NULL && strcmp(name, "socket") != 0;
}

/* Of the cases that need as many ranks as there are processes, and no failing hub. */
static void run_process(const lkt_hub_opts *opts, const lks_comm_opts *comm_opts,
                        lkt_rank_body body, void *user, int *results)
{
    const lks_launch launch = lks_launch_get();
    lks_comm_opts own = comm_opts != NULL ? *comm_opts : (lks_comm_opts){0};
    lks_comm *comm = NULL;
    if (own.watch_s == 0) own.watch_s = -1; /* as over the fake: it goes by time */
    for (int r = 0; r < opts->size; r++) results[r] = 0;
    if (opts->size != launch.size || opts->fail_at > 0 || opts->die_at > 0 || opts->flip != NULL)
        return;
    own.transport = getenv("LKT_TRANSPORT");
    if (lks_comm_create(&comm, &own) != LKS_OK) print_error("%s\n", lks_last_error()->message);
    const int rank = comm != NULL ? lks_comm_rank(comm) : 0;
    results[rank] = body(comm, rank, user);
    lks_comm_destroy(comm);
    print_message("rank %d of %d ran a case\n", rank, opts->size);
}

void lkt_ranks_run(const lkt_hub_opts *opts, const lks_comm_opts *comm_opts, lkt_rank_body body,
                   void *user, int *results)
{
    if (lkt_ranks_are_processes()) {
        run_process(opts, comm_opts, body, user, results);
        return;
    }
    const bool connected = getenv("LKT_TRANSPORT") != NULL;
    char id[LKS_COMM_ID];
    if (connected && (opts->fail_at > 0 || opts->die_at > 0 || opts->flip != NULL)) {
        memset(results, 0, (size_t)opts->size * sizeof *results);
        return;
    }
    if (connected && lks_comm_make_id(id, NULL) != LKS_OK) abort();
    lkt_hub *hub = lkt_hub_make(opts);
    pthread_t threads[LKT_MOST_RANKS];
    runner runners[LKT_MOST_RANKS];
    for (int r = 0; r < opts->size; r++) {
        runners[r] = (runner){hub, comm_opts, body, user, connected ? id : NULL, r, opts->size, 0};
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

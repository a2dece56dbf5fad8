/*
 * Ranks as threads of the test: a transport whose messages go through a hub in memory, late, out of
 * order or never, as the options say. What a rank sees depends on the seed and on how often it polls,
 * not on time.
 */
#ifndef LKT_FAKE_H
#define LKT_FAKE_H

#include "comm/comm.h"

enum { LKT_MOST_RANKS = 16 };

/* A bit of the rank's message number `at` changes on its way: of exchanges, or of gathers. */
typedef struct lkt_flip {
    int rank, at;
    size_t byte; /* of it, counted round */
    bool gathers;
    int seen, to; /* messages so far; `at` and more: it went to that rank */
} lkt_flip;

typedef struct lkt_hub_opts {
    int size;
    uint64_t seed;
    /* A message arrives, and a flight's own arrays are free, behind 0 to `delay` polls of the rank, by
     * the seed: so messages of different ranks and flights overtake each other. */
    int delay;
    int fail_rank,
        fail_at;          /* the rank's start or gather number `fail_at` fails (from 1; 0: none) */
    int die_rank, die_at; /* before that number the rank is gone, without a word */
    lkt_flip *flip;       /* NULL: none */
    bool share;           /* ranks have memory in common */
} lkt_hub_opts;

typedef struct lkt_hub lkt_hub;

lkt_hub *lkt_hub_make(const lkt_hub_opts *opts);
void lkt_hub_free(lkt_hub *hub);

/* A rank joins; every rank does so from a thread of its own. */
lks_status lkt_hub_join(lkt_hub *hub, int rank, const lks_comm_opts *opts, lks_comm **out);

/*
 * All of it: a thread for each rank joins, runs the body, and leaves. Where joining fails the body is
 * called with NULL, and the error record says why. What the bodies return is in results[size]. Bodies may
 * not use cmocka's asserts: LKT_CHECK returns 1.
 */
typedef int (*lkt_rank_body)(lks_comm *comm, int rank, void *user);
void lkt_ranks_run(const lkt_hub_opts *hub, const lks_comm_opts *opts, lkt_rank_body body,
                   void *user, int *results);
/* Where LKT_TRANSPORT is set the ranks are processes that a launcher has started: this one runs the body of its
 * rank, of the cases with as many ranks and no failing hub. */
bool lkt_ranks_are_processes(void);
/* The same where every body is to return 0. */
void lkt_ranks(const lkt_hub_opts *hub, const lks_comm_opts *opts, lkt_rank_body body, void *user);

#endif

/* Whether the ranks of a host get in each other's way on its cores. */
#ifndef CLI_CROWD_H
#define CLI_CROWD_H

#include <stdbool.h>
#include <stdint.h>

#include <lockstep/comm.h>

#include "cli/pool.h"

enum { CROWD_HOST = 65, CROWD_WORDS = 16, CROWD_CPUS = 64 * CROWD_WORDS };

/* What a rank tells of itself. */
typedef struct crowd_rank {
    char host[CROWD_HOST], boot[40]; /* the machine, and when its kernel has started */
    int32_t workers;
    int32_t online;             /* CPUs of the machine */
    int32_t quota;              /* of the control groups, in whole cores; 0: none */
    uint64_t cpus[CROWD_WORDS]; /* bit c of the whole: it may run on CPU c */
} crowd_rank;

void crowd_read(crowd_rank *out, int workers);
/* Everybody's, in order of ranks, in the pool. Collective. */
LKS_MUSTUSE lks_status crowd_gather(crowd_rank **out, cli_pool *pool, lks_comm *comm, int workers);

typedef struct crowd_finding {
    const char *name;           /* "cores", "CPU quota" or "binding" */
    const char *found, *advice; /* a sentence, and what to do, in the pool */
} crowd_finding;

/* What is wrong: returns how much, of which up to `most` are filled in. */
int crowd_look(crowd_finding *out, int most, cli_pool *pool, const crowd_rank *ranks, int count);
/* Cores that all have together. */
int crowd_cores(const crowd_rank *ranks, int count);

bool crowd_same_machine(const crowd_rank *a, const crowd_rank *b);
/* "0-3,8" */
const char *crowd_list(cli_pool *pool, const uint64_t cpus[CROWD_WORDS]);
int crowd_count(const uint64_t cpus[CROWD_WORDS]);
/* "rank 3", "ranks 0 to 3", "ranks 0, 2 and 5", "ranks 0, 2, 4, 6 and 60 more", of those that are chosen. */
const char *crowd_ranks(cli_pool *pool, const bool *chosen, int count);

#endif

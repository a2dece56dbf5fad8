/* What a rank does in the tests of launchers; each returns 0 or the status with which the rank ends. */
#ifndef LKT_DIST_RANKS_H
#define LKT_DIST_RANKS_H

#include <stdio.h>

#include "comm/flight.h"

#define RANKS_CHECK(condition)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("%s:%d: rank %d: %s does not hold\n", __FILE__, __LINE__, lks_comm_rank(comm),  \
                   #condition);                                                                    \
            fflush(stdout);                                                                        \
            return 99;                                                                             \
        }                                                                                          \
    } while (0)

/* Prints the record's sentence and returns the status. */
int ranks_say(lks_status status);

/* The transport itself. */
int ranks_exchange(lks_comm *comm, int number);
int ranks_flights(lks_comm *comm, int number);
int ranks_gather(lks_comm *comm, int number);
int ranks_sum(lks_comm *comm, int number);
int ranks_share(lks_comm *comm, int number);
int ranks_missing(lks_comm *comm, int number);
int ranks_unequal(lks_comm *comm, int number);

#endif

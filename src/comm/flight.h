/* The inside of a communicator: flights without verification, time-outs and the end of it all. */
#ifndef LKI_COMM_FLIGHT_H
#define LKI_COMM_FLIGHT_H

#include "comm/comm.h"

enum { LKI_HOST_SIZE = 65 };

/* What every rank tells of itself when it joins. */
typedef struct lki_peer {
    char version[32];
    char host[LKI_HOST_SIZE];
    uint64_t machine; /* equal for ranks that run on one machine */
    int64_t pid;
} lki_peer;

typedef enum lki_flight_state {
    LKI_FLIGHT_FREE,
    LKI_FLIGHT_UP,
    LKI_FLIGHT_LANDED
} lki_flight_state;

struct lks_comm {
    const lki_transport *transport;
    void *link;
    int rank, size, local_rank, local_size;
    double timeout_s;
    bool verify;
    lki_peer *peers; /* [size]; NULL before they are known */
    int64_t step;

    uint64_t started; /* flights so far: equal on all ranks, so the next number is, too */
    struct {
        lki_flight_state state;
        const char *what;
    } flights[LKI_MAX_FLIGHTS];

    lks_error failure; /* LKS_OK, or what every call returns from now on */
};

/* The failure that has broken it, again. */
lks_status lki_comm_broken(const lks_comm *comm);
/* Breaks it by what this thread's record says failed here, and tells the others. Returns the status. */
lks_status lki_comm_break(lks_comm *comm, lks_status status);

lks_status lki_flight_start(lks_comm *comm, int *flight, const lki_piece *send, int sends,
                            const lki_piece *receive, int receives, const char *what);
lks_status lki_flight_gather(lks_comm *comm, const void *mine, size_t bytes, void *all,
                             const char *what);

#endif

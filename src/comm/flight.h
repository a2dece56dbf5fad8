/* The inside of a communicator: flights without verification, time-outs and the end of it all. */
#ifndef LKI_COMM_FLIGHT_H
#define LKI_COMM_FLIGHT_H

#include "base/memory.h"
#include "comm/comm.h"
#include "comm/watch.h"
#include "machine/bell.h"

enum { LKI_HOST_SIZE = 65 };

/* What every rank tells of itself when it joins. */
typedef struct lki_peer {
    char version[32];
    bool verify; /* one who wants it is enough */
    char host[LKI_HOST_SIZE];
    uint64_t machine; /* equal for ranks that run on one machine */
    int64_t pid;
    uint64_t cpus; /* lki_cpus_mark() of those it may run on, */
    int64_t cpu_count;
} lki_peer;

typedef enum lki_flight_state {
    LKI_FLIGHT_FREE,
    LKI_FLIGHT_UP,
    LKI_FLIGHT_LANDED
} lki_flight_state;

typedef struct lki_flight {
    lki_flight_state state;
    const char *what;
    uint64_t number;                 /* of all exchanges */
    const lki_piece *send, *receive; /* borrowed; of an exchange alone */
    int sends, receives;
} lki_flight;

/* Checksums of all that went to a rank and came from it. */
typedef struct lki_tally {
    uint64_t sent, received;
} lki_tally;

struct lks_comm {
    const lki_transport *transport;
    void *link;
    int rank, size, local_rank, local_size;
    int sharing; /* ranks of this host that may run on the same CPUs, this one too */
    double timeout_s;
    bool verify;
    lki_peer *peers; /* [size]; NULL before they are known */
    lki_spot spot;   /* where it is */

    lki_watch *watch; /* NULL: this rank is not watched */
    double watch_s;
    void (*on_lost)(void *user, const lks_comm *comm, const char *sentence, bool late);
    void *user;

    unsigned forks;    /* lki_forks() when it was made */
    uint64_t verified; /* collectives compared so far */
    void *scratch;     /* of the collective that is under way */
    size_t scratch_bytes;

    double waited; /* seconds, by the thread that calls, worker 0 in a step */

    uint64_t started; /* exchanges so far: equal on all ranks, so the next number is, too */
    lki_flight flights[LKI_MAX_FLIGHTS];
    lki_tally *tally; /* [size] */

    lki_assembly *meetings; /* that a failure is told to */

    lks_error failure; /* LKS_OK, or what every call returns from now on */
};

/* Breaks it by what this thread's record says failed here, and tells the others. Returns the status. */
lks_status lki_comm_break(lks_comm *comm, lks_status status);

/* The same where the watch has lost a rank: LKS_OK if it has not. */
lks_status lki_comm_lost(lks_comm *comm);
/* "rank 2 (host b, pid 77): its process has ended; it was last seen in step 12, waiting for gradients" */
enum { LKI_LOST_SIZE = 400 };
void lki_comm_loss(const lks_comm *comm, const lki_loss *loss, char out[LKI_LOST_SIZE]);
/* Passes it on to the program; `user` is the communicator. */
void lki_comm_tell(void *user, const lki_loss *loss, bool late);

/* The same by what its transport says. */
lks_status lki_comm_faulty(lks_comm *comm, const lki_fault *fault, const char *what);

/* A wait that somebody is in; begin with last -1. */
typedef struct lki_patience {
    double waited, last; /* seconds */
} lki_patience;
/* Between two looks at what is waited for; false: timeout_s is over. */
bool lki_comm_patient(const lks_comm *comm, lki_patience *patience);
/* The same by a wait that is: for this rank, or -1. */
lks_status lki_comm_late(lks_comm *comm, const char *what, int missing);
/* A rank's seat in the memory in common. */
struct lki_seat {
    _Alignas(LKI_ALIGN) atomic_ullong arrived; /* how often */
    atomic_int left;                           /* it comes no more, because of */
    lki_fault words;
    lki_bell bell; /* seat 0: all have come, or one has left */
};
/* Whether nobody else is there: NULL is one process, too. */
bool lki_comm_alone(const lks_comm *comm);
/* What collectives of comm.h look at first; a public function breaks the communicator by an argument
 * that it cannot take, so that the others do not wait for it. */
lks_status lki_comm_enter(const lks_comm *comm, const char *function);
#define LKI_COMM_ENTER(comm)       LKI_TRY(lki_comm_enter(comm, __func__))
#define LKI_COMM_REFUSE(comm, ...) lki_comm_refuse(comm, LKI_FAIL(LKS_E_INVALID, __VA_ARGS__))
#define LKI_COMM_REFUSE_NULL(comm, argument)                                                       \
    LKI_COMM_REFUSE(comm, "%s() got NULL as %s", __func__, #argument)
lks_status lki_comm_refuse(lks_comm *comm, lks_status status);
/* Scratch of at least so many bytes, until the next call; breaks the communicator if there is none. */
lks_status lki_comm_scratch(lks_comm *comm, size_t bytes, void **out);

/* Whether all ranks are about to do the same: LKS_E_STATE on all of them names the two first that differ.
 * verify.c; called where comm->verify. */
lks_status lki_verify(lks_comm *comm, const char *what, size_t bytes, size_t element);
lks_status lki_verify_exchange(lks_comm *comm, const char *what, const lki_piece *send, int sends,
                               const lki_piece *receive, int receives);

/* tally.c: adds what is on its way, when it starts; and what has come, when it is waited for. */
void lki_tally_sent(lks_comm *comm, const lki_flight *flight);
void lki_tally_received(lks_comm *comm, const lki_flight *flight);
/* The same of a gather: own bytes went to all, all[rank] came from each. */
void lki_tally_gather(lks_comm *comm, const void *mine, size_t bytes, const void *all);
/* out[size]: without flights that nobody has waited for; so it is the same on both sides. */
void lki_tally_copy(const lks_comm *comm, lki_tally *out);

lks_status lki_flight_start(lks_comm *comm, int *flight, const lki_piece *send, int sends,
                            const lki_piece *receive, int receives, const char *what);
lks_status lki_flight_all_reduce(lks_comm *comm, int *flight, float *values, size_t count,
                                 const char *what);
lks_status lki_flight_gather(lks_comm *comm, const void *mine, size_t bytes, void *all,
                             const char *what);

#endif

/*
 * Ranks, as the library uses them: flights that are waited for with a time-out, and phases that end in
 * the same way on all ranks.
 *
 * Whatever fails inside a collective breaks the communicator: the sentence goes to all ranks, and every
 * later call returns it again at once. `what` names what travels, for sentences ("gradients"): a static
 * string.
 */
#ifndef LKI_COMM_COMM_H
#define LKI_COMM_COMM_H

#include <lockstep/comm.h>

#include "comm/list.h"
#include "comm/transport.h"

/* A way to other processes: finds a transport, which a module may have. */
typedef struct lki_way {
    const char *name;       /* lks_comm_opts.transport */
    bool (*launched)(void); /* whether a launcher has prepared it for several processes */
    lks_status (*find)(const lki_transport **out, const void *how);
} lki_way;

#define LKI_WAY_DECLARE(id) extern const lki_way lki_##id##_way;
LKI_WAY_LIST(LKI_WAY_DECLARE)

/* Joins by a given transport; what lks_comm_create() does when it has found one. */
lks_status lki_comm_open(lks_comm **out, const lki_transport *transport, const void *how,
                         const lks_comm_opts *opts);

/* Cores that this rank has for itself, at least 1: of those that it shares with others of its host, its part. */
int lki_comm_cores(const lks_comm *comm);

/* What has broken it, again; LKS_OK: nothing has. */
lks_status lki_comm_failure(const lks_comm *comm);

/* The step that is under way, for sentences; 0: none. */
void lki_comm_step(lks_comm *comm, int64_t step);
/* "rank 2 (host b, pid 77)"; returns `out`. */
enum { LKI_WHO_SIZE = 128 };
const char *lki_comm_who(const lks_comm *comm, int rank, char out[LKI_WHO_SIZE]);

/* Start, and poll or wait as in transport.h; up to LKI_MAX_FLIGHTS - 1 exchanges may be under way. A flight
 * ends with the wait, which returns at once where a poll has said that it landed; every flight is waited
 * for. The lists are borrowed until then, and what they point to stays as it is and as it came. */
lks_status lki_comm_start(lks_comm *comm, int *flight, const lki_piece *send, int sends,
                          const lki_piece *receive, int receives, const char *what);
/* The same without checksums: for what makes ranks differ, if it changes on its way, and is compared. */
lks_status lki_comm_start_bare(lks_comm *comm, int *flight, const lki_piece *send, int sends,
                               const lki_piece *receive, int receives, const char *what);
/* The same for a sum in the library's own order, in place; only where lki_comm_sums(). */
lks_status lki_comm_all_reduce(lks_comm *comm, int *flight, float *values, size_t count,
                               const char *what);
bool lki_comm_sums(const lks_comm *comm);
lks_status lki_comm_poll(lks_comm *comm, int flight, bool *landed);
lks_status lki_comm_wait(lks_comm *comm, int flight);

/* Everybody's bytes, in order of ranks: all[size][bytes]. Waits. */
lks_status lki_comm_gather(lks_comm *comm, const void *mine, size_t bytes, void *all,
                           const char *what);

/*
 * Whether all messages but bare ones came as they went, by checksums that each two ranks have of what went from one
 * to the other: LKS_E_COMM names two between which one has changed, and breaks the communicator. Waits; a
 * rank that has no part in the fault hears of it in the next collective.
 */
lks_status lki_comm_check(lks_comm *comm);
/* The same, where whoever reads a message from that rank sees that it has changed. */
lks_status lki_comm_changed(lks_comm *comm, int from);

/* The first rank of the host that a rank is on. */
int lki_comm_host(const lks_comm *comm, int rank);

/* Memory that ranks of a host have in common: base[r] is rank r's, NULL where there is none. Waits, and
 * so does the end of it; `own` is base[own rank], NULL is fine. */
lks_status lki_comm_share(lks_comm *comm, size_t bytes, void **base);
void lki_comm_unshare(lks_comm *comm, void *own);

/*
 * Where all ranks have memory in common they can meet there, which costs no message: what each wrote before
 * is visible to all behind it. A meeting has memory of lki_comm_meeting_bytes(), the same on all ranks, from
 * LKI_ALIGN on and zeroed before any of them comes there.
 */
typedef struct lki_seat lki_seat;
typedef struct lki_assembly {
    lki_seat *seat; /* [ranks] */
    struct lki_assembly *next;
} lki_assembly;
size_t lki_comm_meeting_bytes(const lks_comm *comm);
void lki_comm_meet_at(lks_comm *comm, lki_assembly *meeting, void *memory);
/* Before that memory goes; also where it never came to meet_at(). */
void lki_comm_meet_no_more(lks_comm *comm, lki_assembly *meeting);
/* Waits, as a collective does. */
lks_status lki_comm_meet(lks_comm *comm, lki_assembly *meeting, const char *what);
/* Waits likewise until a number in the memory in common is this one; whoever makes it that wakes the others. */
lks_status lki_comm_await(lks_comm *comm, lki_assembly *meeting, _Atomic int64_t *number,
                          int64_t wanted, const char *what);
void lki_comm_meet_wake(lki_assembly *meeting);

#endif

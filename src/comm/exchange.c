/* What the library asks of a communicator: exchanges, gathers, sums, memory in common, and whether messages
 * are well. */
#include "comm/flight.h"

#include "base/check.h"
#include "base/context.h"
#include "machine/pause.h"

#include <stdatomic.h>
#include <string.h>

lks_status lki_comm_start_bare(lks_comm *comm, int *flight, const lki_piece *send, int sends,
                               const lki_piece *receive, int receives, const char *what)
{
    *flight = 0;
    if (comm->size == 1) return LKS_OK;
    if (comm->verify) LKI_TRY(lki_verify_exchange(comm, what, send, sends, receive, receives));
    return lki_flight_start(comm, flight, send, sends, receive, receives, what);
}

lks_status lki_comm_start(lks_comm *comm, int *flight, const lki_piece *send, int sends,
                          const lki_piece *receive, int receives, const char *what)
{
    LKI_TRY(lki_comm_start_bare(comm, flight, send, sends, receive, receives, what));
    if (comm->size == 1) return LKS_OK;
    lki_flight *own = &comm->flights[*flight];
    own->send = send;
    own->sends = sends;
    own->receive = receive;
    own->receives = receives;
    lki_tally_sent(comm, own);
    return LKS_OK;
}

bool lki_comm_sums(const lks_comm *comm)
{
    return comm->size == 1 || comm->transport->all_reduce != NULL;
}

lks_status lki_comm_all_reduce(lks_comm *comm, int *flight, float *values, size_t count,
                               const char *what)
{
    *flight = 0;
    if (comm->size == 1) return LKS_OK;
    if (comm->verify) LKI_TRY(lki_verify(comm, what, count * sizeof *values, sizeof *values));
    return lki_flight_all_reduce(comm, flight, values, count, what);
}

lks_status lki_comm_gather(lks_comm *comm, const void *mine, size_t bytes, void *all,
                           const char *what)
{
    if (comm->size == 1) {
        if (bytes > 0) memmove(all, mine, bytes);
        return LKS_OK;
    }
    if (comm->verify) LKI_TRY(lki_verify(comm, what, bytes, 1));
    return lki_flight_gather(comm, mine, bytes, all, what);
}

lks_status lki_comm_share(lks_comm *comm, size_t bytes, void **base)
{
    lki_fault fault = {.rank = -1};
    for (int r = 0; r < comm->size; r++) base[r] = NULL;
    if (comm->size == 1 || comm->transport->share == NULL) return LKS_OK;
    LKI_TRY(lki_comm_enter(comm, __func__));
    if (comm->verify) LKI_TRY(lki_verify(comm, "shared memory", 0, 1)); /* each has its size */
    if (comm->transport->share(comm->link, bytes, base, &fault) == 0) return LKS_OK;
    for (int r = 0; r < comm->size; r++) base[r] = NULL;
    return lki_comm_faulty(comm, &fault, "shared memory");
}

void lki_comm_unshare(lks_comm *comm, void *own)
{
    if (own != NULL) comm->transport->unshare(comm->link, own);
}

static lks_status name_pair(lks_comm *comm, int from, int to)
{
    char sender[LKI_WHO_SIZE], other[LKI_WHO_SIZE];
    return lki_comm_break(
        comm, LKI_FAIL(LKS_E_COMM,
                       "a message from %s to %s did not come as it was sent: the network between "
                       "them, or memory of one of them, may be faulty; go on from the last "
                       "checkpoint, without the host that fails again",
                       lki_comm_who(comm, from, sender), lki_comm_who(comm, to, other)));
}

lks_status lki_comm_changed(lks_comm *comm, int from)
{
    return name_pair(comm, from, comm->rank);
}

/* Twice, as these messages may change, too. */
typedef struct account {
    uint64_t received, inverse;
} account;

/* Each tells each other what it has received from it, and whoever has sent that knows. */
lks_status lki_comm_check(lks_comm *comm)
{
    void *scratch = NULL;
    LKI_COMM_ENTER(comm);
    if (lki_comm_alone(comm)) return LKS_OK;
    const size_t size = (size_t)comm->size, each = 2 * (sizeof(account) + sizeof(lki_piece));
    LKI_TRY(lki_comm_scratch(comm, size * (sizeof(lki_tally) + each), &scratch));
    lki_tally *before = scratch;
    account *mine = (account *)(before + size), *theirs = mine + size;
    lki_piece *send = (lki_piece *)(theirs + size), *receive = send + size;
    int count = 0, flight = 0;
    lki_tally_copy(comm, before);
    for (int r = 0; r < comm->size; r++) {
        if (r == comm->rank) continue;
        mine[r] = (account){before[r].received, ~before[r].received};
        send[count] = (lki_piece){r, &mine[r], sizeof mine[r]};
        receive[count++] = (lki_piece){r, &theirs[r], sizeof theirs[r]};
    }
    LKI_TRY(lki_comm_start(comm, &flight, send, count, receive, count, "checksums of messages"));
    LKI_TRY(lki_comm_wait(comm, flight));
    for (int r = 0; r < comm->size; r++) {
        if (r == comm->rank) continue;
        if (theirs[r].received != ~theirs[r].inverse) return name_pair(comm, r, comm->rank);
        if (theirs[r].received != before[r].sent) return name_pair(comm, comm->rank, r);
    }
    return LKS_OK;
}

size_t lki_comm_meeting_bytes(const lks_comm *comm)
{
    return (size_t)comm->size * sizeof(lki_seat);
}

void lki_comm_meet_at(lks_comm *comm, lki_assembly *meeting, void *memory)
{
    meeting->seat = memory;
    meeting->next = comm->meetings;
    comm->meetings = meeting;
}

void lki_comm_meet_no_more(lks_comm *comm, lki_assembly *meeting)
{
    for (lki_assembly **at = &comm->meetings; *at != NULL; at = &(*at)->next) {
        if (*at != meeting) continue;
        *at = meeting->next;
        return;
    }
}

/* What a rank waits for: all have come so often, or a number is this one. */
typedef struct awaited {
    unsigned long long often;
    _Atomic int64_t *number; /* NULL: the former */
    int64_t wanted;
} awaited;

enum { NOBODY = -1, SOMEBODY = -2 };

/* The first rank that has not come so often; whose part of a number is missing nobody knows. */
static int missing(const lks_comm *comm, const lki_assembly *meeting, const awaited *what)
{
    if (what->number != NULL) return atomic_load(what->number) == what->wanted ? NOBODY : SOMEBODY;
    for (int r = 0; r < comm->size; r++)
        if (atomic_load(&meeting->seat[r].arrived) < what->often) return r;
    return NOBODY;
}

/* A rank that is waited for has left, which `seat` becomes. */
static bool in_vain(const lks_comm *comm, const lki_assembly *meeting, int rank,
                    const lki_seat **seat)
{
    for (int r = 0; r < comm->size; r++) {
        *seat = &meeting->seat[r];
        if ((rank == SOMEBODY || rank == r) &&
            atomic_load_explicit(&(*seat)->left, memory_order_acquire) != 0)
            return true;
    }
    return false;
}

enum { SPINS = 1000 };                   /* then it sleeps, */
static const double LOOK_SECONDS = 0.01; /* and sees as often whether a rank is lost */

/* Until it is so, or cannot be any more. */
static lks_status wait_for(lks_comm *comm, lki_assembly *meeting, const awaited *what,
                           const char *name)
{
    lki_patience patience = {.last = -1};
    lki_bell *bell = &meeting->seat[0].bell;
    const lki_seat *seat;
    int rank;
    for (int spin = 0; spin < SPINS; spin++) {
        if (missing(comm, meeting, what) == NOBODY) return lki_comm_lost(comm);
        lki_pause();
    }
    atomic_store_explicit(&comm->spot.phase, name, memory_order_relaxed);
    uint32_t heard = lki_bell_heard(bell);
    for (; (rank = missing(comm, meeting, what)) != NOBODY; heard = lki_bell_heard(bell)) {
        LKI_TRY(lki_comm_lost(comm));
        if (in_vain(comm, meeting, rank, &seat) && missing(comm, meeting, what) == rank)
            return lki_comm_faulty(comm, &seat->words, name);
        if (!lki_comm_patient(comm, &patience)) return lki_comm_late(comm, name, rank);
        lki_bell_sleep(bell, heard, LOOK_SECONDS);
    }
    atomic_store_explicit(&comm->spot.phase, NULL, memory_order_relaxed);
    return LKS_OK;
}

static lks_status wait(lks_comm *comm, lki_assembly *meeting, const awaited *what, const char *name)
{
    if (missing(comm, meeting, what) == NOBODY) return lki_comm_lost(comm);
    const double begin = lki_seconds();
    const lks_status status = wait_for(comm, meeting, what, name);
    comm->waited += lki_seconds() - begin;
    return status;
}

void lki_comm_meet_wake(lki_assembly *meeting)
{
    lki_bell_ring(&meeting->seat[0].bell);
}

lks_status lki_comm_await(lks_comm *comm, lki_assembly *meeting, _Atomic int64_t *number,
                          int64_t wanted, const char *what)
{
    LKI_TRY(lki_comm_failure(comm));
    return wait(comm, meeting, &(awaited){.number = number, .wanted = wanted}, what);
}

lks_status lki_comm_meet(lks_comm *comm, lki_assembly *meeting, const char *what)
{
    LKI_TRY(lki_comm_failure(comm));
    if (comm->verify) LKI_TRY(lki_verify(comm, what, 0, 1));
    lki_seat *own = &meeting->seat[comm->rank];
    const awaited all = {.often = atomic_load_explicit(&own->arrived, memory_order_relaxed) + 1};
    atomic_store(&own->arrived, all.often);
    if (missing(comm, meeting, &all) == NOBODY) lki_comm_meet_wake(meeting);
    return wait(comm, meeting, &all, what);
}

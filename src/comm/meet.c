/* Meetings of ranks in memory that they have in common: no message travels. */
#include "comm/flight.h"

#include "base/check.h"
#include "base/memory.h"
#include "machine/pause.h"

#include <stdatomic.h>

size_t lki_comm_meeting_bytes(const lks_comm *comm)
{
    return (size_t)comm->size * sizeof(lki_seat);
}

void lki_comm_meet_at(lks_comm *comm, lki_meeting *meeting, void *memory)
{
    meeting->seat = memory;
    meeting->next = comm->meetings;
    comm->meetings = meeting;
}

void lki_comm_meet_no_more(lks_comm *comm, lki_meeting *meeting)
{
    for (lki_meeting **at = &comm->meetings; *at != NULL; at = &(*at)->next) {
        if (*at != meeting) continue;
        *at = meeting->next;
        return;
    }
}

/* The first rank that has not arrived so often; -1: all have. */
static int absent(const lks_comm *comm, const lki_meeting *meeting, unsigned long long often)
{
    for (int r = 0; r < comm->size; r++)
        if (atomic_load_explicit(&meeting->seat[r].arrived, memory_order_acquire) < often) return r;
    return -1;
}

/* Others have not come yet: until they do, or cannot any more. */
static lks_status wait(lks_comm *comm, lki_meeting *meeting, unsigned long long often,
                       const char *what)
{
    lki_patience patience = {.last = -1};
    int rank;
    while ((rank = absent(comm, meeting, often)) >= 0) {
        const lki_seat *seat = &meeting->seat[rank];
        LKI_TRY(lki_comm_lost(comm));
        if (atomic_load_explicit(&seat->left, memory_order_acquire) != 0 &&
            absent(comm, meeting, often) == rank)
            return lki_comm_faulty(comm, &seat->words, what);
        if (!lki_comm_rest(comm, &patience)) return lki_comm_late(comm, what, rank);
    }
    return LKS_OK;
}

lks_status lki_comm_meet(lks_comm *comm, lki_meeting *meeting, const char *what)
{
    enum { SPINS = 1000 };
    if (comm->failure.status != LKS_OK) return lki_comm_broken(comm);
    if (comm->verify) LKI_TRY(lki_verify(comm, what, 0, 1));
    lki_seat *own = &meeting->seat[comm->rank];
    const unsigned long long often = atomic_load_explicit(&own->arrived, memory_order_relaxed) + 1;
    atomic_store_explicit(&own->arrived, often, memory_order_seq_cst);
    for (int spin = 0; spin < SPINS; spin++) {
        if (absent(comm, meeting, often) < 0) return lki_comm_lost(comm);
        lki_pause();
    }
    atomic_store_explicit(&comm->spot.phase, what, memory_order_relaxed);
    LKI_TRY(wait(comm, meeting, often, what));
    atomic_store_explicit(&comm->spot.phase, NULL, memory_order_relaxed);
    return LKS_OK;
}

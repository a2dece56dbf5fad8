/* Collectives of comm.h that move bytes. */
#include "comm/flight.h"

#include "base/check.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

lks_status lks_comm_barrier(lks_comm *comm)
{
    const char mine = 0;
    void *all = NULL;
    LKI_COMM_ENTER(comm);
    if (lki_comm_alone(comm)) return LKS_OK;
    LKI_TRY(lki_comm_scratch(comm, (size_t)comm->size, &all));
    return lki_comm_gather(comm, &mine, 1, all, "barrier");
}

/* What a rank that is alone gets. */
static lks_status copy(void *to, const void *from, size_t bytes)
{
    if (bytes > 0) memmove(to, from, bytes);
    return LKS_OK;
}

lks_status lks_comm_all_gather(lks_comm *comm, const void *mine, size_t bytes, void *all)
{
    LKI_COMM_ENTER(comm);
    if (mine == NULL && bytes > 0) return LKI_COMM_REFUSE_NULL(comm, mine);
    if (all == NULL && bytes > 0) return LKI_COMM_REFUSE_NULL(comm, all);
    if (lki_comm_alone(comm)) return copy(all, mine, bytes);
    return lki_comm_gather(comm, mine, bytes, all, "all_gather");
}

lks_status lks_comm_all_to_all(lks_comm *comm, const void *send, size_t bytes, void *receive)
{
    LKI_COMM_ENTER(comm);
    if (send == NULL && bytes > 0) return LKI_COMM_REFUSE_NULL(comm, send);
    if (receive == NULL && bytes > 0) return LKI_COMM_REFUSE_NULL(comm, receive);
    if (lki_comm_alone(comm)) return copy(receive, send, bytes);
    const size_t size = (size_t)comm->size, own = (size_t)comm->rank * bytes;
    void *scratch = NULL;
    int count = 0, flight = 0;
    LKI_TRY(lki_comm_scratch(comm, 2 * size * sizeof(lki_piece), &scratch));
    lki_piece *sends = scratch, *receives = sends + size;
    for (int r = 0; r < comm->size; r++) {
        if (r == comm->rank) continue;
        const size_t at = (size_t)r * bytes;
        /* A transport only reads what it sends. */
        sends[count] = (lki_piece){r, (char *)(uintptr_t)send + at, bytes};
        receives[count++] = (lki_piece){r, (char *)receive + at, bytes};
    }
    (void)copy((char *)receive + own, (const char *)send + own, bytes);
    LKI_TRY(lki_comm_start(comm, &flight, sends, count, receives, count, "all_to_all"));
    return lki_comm_wait(comm, flight);
}

static lks_status check_broadcast(lks_comm *comm, int root, void *const *arrays,
                                  const size_t *bytes, int count)
{
    const int size = lks_comm_size(comm);
    if (root < 0 || root >= size) {
        return LKI_COMM_REFUSE(comm, "lks_comm_broadcast() got root %d, but there %s %d rank%s",
                               root, size == 1 ? "is" : "are", size, LKI_S(size));
    }
    if (count < 0) return LKI_COMM_REFUSE(comm, "lks_comm_broadcast() got count %d", count);
    if (arrays == NULL && count > 0) return LKI_COMM_REFUSE_NULL(comm, arrays);
    if (bytes == NULL && count > 0) return LKI_COMM_REFUSE_NULL(comm, bytes);
    for (int i = 0; i < count; i++) {
        if (arrays[i] != NULL || bytes[i] == 0) continue;
        return LKI_COMM_REFUSE(comm, "lks_comm_broadcast() got NULL as arrays[%d]", i);
    }
    return LKS_OK;
}

/* The part of the arrays that travels between this rank and another. */
static int list(lki_piece *pieces, int rank, void *const *arrays, const size_t *bytes, int count)
{
    int number = 0;
    for (int i = 0; i < count; i++)
        if (bytes[i] > 0) pieces[number++] = (lki_piece){rank, arrays[i], bytes[i]};
    return number;
}

/*
 * In each round twice as many ranks have the arrays, counted from the root on:
 *
 *   0 -> 1;  0 -> 2, 1 -> 3;  0 -> 4, 1 -> 5, 2 -> 6, 3 -> 7
 *
 * All ranks take part in all rounds, many of them with nothing, so that flights have equal numbers.
 */
lks_status lks_comm_broadcast(lks_comm *comm, int root, void *const *arrays, const size_t *bytes,
                              int count)
{
    size_t total = 0;
    void *scratch = NULL;
    LKI_COMM_ENTER(comm);
    LKI_TRY(check_broadcast(comm, root, arrays, bytes, count));
    if (lki_comm_alone(comm)) return LKS_OK;
    for (int i = 0; i < count; i++) total = lki_plus(total, bytes[i]);
    char what[40];
    snprintf(what, sizeof what, "broadcast from rank %d", root);
    if (comm->verify) LKI_TRY(lki_verify(comm, what, total, 1));
    LKI_TRY(lki_comm_scratch(comm, (size_t)count * sizeof(lki_piece), &scratch));
    const int size = comm->size, place = (comm->rank - root + size) % size;
    for (int have = 1; have<size; have = have> size / 2 ? size : 2 * have) {
        const bool sends = place < have && place + have < size;
        const bool receives = place >= have && place - have < have;
        const int other = ((sends ? place + have : place - have) + root + size) % size;
        const int number = sends || receives ? list(scratch, other, arrays, bytes, count) : 0;
        int flight = 0;
        LKI_TRY(lki_comm_start(comm, &flight, scratch, sends ? number : 0, scratch,
                               receives ? number : 0, "broadcast"));
        LKI_TRY(lki_comm_wait(comm, flight));
    }
    return LKS_OK;
}

/* What the library asks of a communicator: exchanges, gathers, sums and memory in common. */
#include "comm/flight.h"

#include "base/check.h"

#include <string.h>

lks_status lki_comm_start(lks_comm *comm, int *flight, const lki_piece *send, int sends,
                          const lki_piece *receive, int receives, const char *what)
{
    *flight = 0;
    if (comm->size == 1) return LKS_OK;
    if (comm->verify) LKI_TRY(lki_verify_exchange(comm, what, send, sends, receive, receives));
    return lki_flight_start(comm, flight, send, sends, receive, receives, what);
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
    if (comm->verify) LKI_TRY(lki_verify(comm, "shared memory", bytes, 1));
    if (comm->transport->share(comm->link, bytes, base, &fault) == 0) return LKS_OK;
    for (int r = 0; r < comm->size; r++) base[r] = NULL;
    return lki_comm_faulty(comm, &fault, "shared memory");
}

void lki_comm_unshare(lks_comm *comm, void *own)
{
    if (own != NULL) comm->transport->unshare(comm->link, own);
}

/* What travels: exchanges and gathers, and phases that end in the same way on all ranks. */
#include "comm/flight.h"

#include "base/check.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

lks_status lki_comm_start(lks_comm *comm, int *flight, const lki_piece *send, int sends,
                          const lki_piece *receive, int receives, const char *what)
{
    *flight = 0;
    if (comm->size == 1) return LKS_OK;
    return lki_flight_start(comm, flight, send, sends, receive, receives, what);
}

lks_status lki_comm_gather(lks_comm *comm, const void *mine, size_t bytes, void *all,
                           const char *what)
{
    if (comm->size == 1) {
        memmove(all, mine, bytes);
        return LKS_OK;
    }
    return lki_flight_gather(comm, mine, bytes, all, what);
}

/* Everybody gets the first sentence; who failed has put it into its record. */
static lks_status pass_on(lks_comm *comm, int first, lks_status status, const lks_error *mine)
{
    enum { SIZE = sizeof mine->message };
    char who[LKI_WHO_SIZE], sentence[SIZE] = "", *all = NULL;
    const size_t bytes = lki_times((size_t)comm->size, SIZE);
    const lks_status stored = lki_alloc(NULL, (void **)&all, bytes, "the sentences of all ranks");
    if (stored != LKS_OK) return lki_comm_break(comm, stored);
    memcpy(sentence, mine->message, SIZE);
    lks_status result = lki_comm_gather(comm, sentence, SIZE, all, "sentences");
    if (result == LKS_OK) {
        const char *text = all + (size_t)first * SIZE;
        result = LKI_FAIL(status, "%s: %s", lki_comm_who(comm, first, who), text);
    }
    lki_free(NULL, all, bytes);
    return result;
}

lks_status lks_comm_agree(lks_comm *comm, lks_status mine)
{
    if (comm == NULL) return LKI_FAIL_NULL(comm);
    if (comm->failure.status != LKS_OK) return lki_comm_broken(comm);
    lks_error error = *lks_last_error();
    if (error.status != mine)
        snprintf(error.message, sizeof error.message, "%s", lks_status_text(mine));
    if (comm->size == 1) return mine;

    const int32_t own = (int32_t)mine;
    int32_t *all = NULL;
    const size_t bytes = (size_t)comm->size * sizeof *all;
    const lks_status stored = lki_alloc(NULL, (void **)&all, bytes, "the statuses of all ranks");
    if (stored != LKS_OK) return lki_comm_break(comm, stored);
    lks_status result = lki_comm_gather(comm, &own, sizeof own, all, "agreement");
    int first = 0;
    while (result == LKS_OK && first < comm->size && all[first] == LKS_OK) first++;
    if (result == LKS_OK && first < comm->size) {
        result = pass_on(comm, first, (lks_status)all[first], &error);
    }
    lki_free(NULL, all, bytes);
    return result;
}

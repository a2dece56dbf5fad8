/* Ranks in sentences: who one is, and what became of it. */
#include "comm/flight.h"

#include <stdio.h>
#include <string.h>

const char *lki_comm_who(const lks_comm *comm, int rank, char out[LKI_WHO_SIZE])
{
    if (comm->peers != NULL) {
        const lki_peer *peer = &comm->peers[rank];
        snprintf(out, LKI_WHO_SIZE, "rank %d (host %s, pid %lld)", rank, peer->host,
                 (long long)peer->pid);
    } else {
        snprintf(out, LKI_WHO_SIZE, "rank %d", rank);
    }
    return out;
}

void lki_comm_loss(const lks_comm *comm, const lki_loss *loss, char out[LKI_LOST_SIZE])
{
    char who[LKI_WHO_SIZE], how[80] = "its process has ended", where[40] = "before the first step";
    const int rank = loss->rank >= 0 && loss->rank < comm->size ? loss->rank : 0;
    if (loss->how == LKI_END_SILENCE)
        snprintf(how, sizeof how, "it has not been heard of for %.1f s", loss->silent_s);
    if (loss->how == LKI_END_PARENT) strcpy(how, "what had started it has ended");
    if (loss->step > 0) snprintf(where, sizeof where, "in step %lld", (long long)loss->step);
    const bool waits = loss->phase[0] != '\0';
    snprintf(out, LKI_LOST_SIZE, "%s: %s; it was last seen %s, %s%s", lki_comm_who(comm, rank, who),
             how, where, waits ? "waiting for " : "computing", waits ? loss->phase : "");
}

void lki_comm_tell(void *user, const lki_loss *loss, bool late)
{
    const lks_comm *comm = user;
    char sentence[LKI_LOST_SIZE];
    if (comm->on_lost == NULL) return;
    lki_comm_loss(comm, loss, sentence);
    comm->on_lost(comm->user, comm, sentence, late);
}

/*
 * What went from one rank to another, and whether it came like that: each keeps a checksum of all that it has
 * sent to each other and one of all that it has received from it, and now and then they compare them.
 *
 * A total that is wrong because a message changed on its way to who adds it is the same wrong total on all
 * ranks: nothing else would tell.
 */
#include "comm/flight.h"

#include "numeric/hash.h"

#include <string.h>

/*
 * Two sums of 64-bit lanes, the second of all that the first has been: any flip within one lane changes the first,
 * and flips in two changes the second, but where their distance makes it come out at 0 by chance. Of XXH3
 * it would be 1 in 2^64 whatever changed; this is as good for what wires and memory do, and five times as fast
 * where the compiler may take no instructions but SSE2's (docs/ranks.md).
 */
typedef uint64_t lanes __attribute__((vector_size(16)));

static inline lanes load(const char *at)
{
    lanes x;
    memcpy(&x, at, sizeof x);
    return x;
}

static uint64_t checksum(const void *data, size_t bytes)
{
    enum { VECTORS = 4, BLOCK = VECTORS * sizeof(lanes) };
    const char *at = data, *end = at + bytes / BLOCK * BLOCK;
    lanes a = {0}, b = a, c = a, d = a, all_a = a, all_b = a, all_c = a, all_d = a;
    for (; at < end; at += BLOCK) {
        all_a += a += load(at);
        all_b += b += load(at + sizeof a);
        all_c += c += load(at + 2 * sizeof a);
        all_d += d += load(at + 3 * sizeof a);
    }
    lanes all[] = {a, b, c, d, all_a, all_b, all_c, all_d, {0}, {0}, {0}, {0}};
    if (bytes % BLOCK > 0) memcpy(&all[2 * VECTORS], end, bytes % BLOCK);
    return lki_hash(all, sizeof all);
}

/* Messages land in any order, so they are added; with a factor of their own, so that two that took each
 * other's place are seen. */
static uint64_t weighed(uint64_t number, const lki_piece *piece)
{
    return (2 * number + 1) * checksum(piece->data, piece->bytes);
}

/* Between ranks of one machine a copy is like memory in common: a bit that changes there is like one's own. */
static bool tallied(const lks_comm *comm, int rank)
{
    return !comm->transport->copies || comm->peers == NULL ||
           comm->peers[rank].machine != comm->peers[comm->rank].machine;
}

void lki_tally_sent(lks_comm *comm, const lki_flight *flight)
{
    for (int i = 0; i < flight->sends; i++)
        if (tallied(comm, flight->send[i].rank))
            comm->tally[flight->send[i].rank].sent += weighed(flight->number, &flight->send[i]);
}

void lki_tally_received(lks_comm *comm, const lki_flight *flight)
{
    for (int i = 0; i < flight->receives; i++)
        if (tallied(comm, flight->receive[i].rank))
            comm->tally[flight->receive[i].rank].received += weighed(flight->number,
                                                                     &flight->receive[i]);
}

/* What is still under way has not been received, and here it has not been sent. */
void lki_tally_copy(const lks_comm *comm, lki_tally *out)
{
    memcpy(out, comm->tally, (size_t)comm->size * sizeof *out);
    for (int f = 0; f < LKI_MAX_FLIGHTS; f++) {
        const lki_flight *flight = &comm->flights[f];
        if (flight->state == LKI_FLIGHT_FREE) continue;
        for (int i = 0; i < flight->sends; i++)
            if (tallied(comm, flight->send[i].rank))
                out[flight->send[i].rank].sent -= weighed(flight->number, &flight->send[i]);
    }
}

void lki_tally_gather(lks_comm *comm, const void *mine, size_t bytes, const void *all)
{
    const uint64_t own = checksum(mine, bytes);
    for (int r = 0; r < comm->size; r++) {
        if (r == comm->rank) continue;
        comm->tally[r].sent += own;
        comm->tally[r].received += checksum((const char *)all + (size_t)r * bytes, bytes);
    }
}

/* What ranks see of each other, for who looks for what is slow: links, clocks. */
#include "comm/flight.h"

#include "base/check.h"
#include "base/context.h"
#include "base/memory.h"
#include "numeric/median.h"

#include <string.h>
#include <time.h>

#include <lockstep/tools.h>

enum { SMALL = 8, LARGE = 1 << 20, SMALL_TRIPS = 21, LARGE_TRIPS = 5, CLOCK_TRIPS = 12 };

/* One exchange with another rank, one way; -1: with nobody, as all start the same number of them. */
static lks_status pass(lks_comm *comm, int other, bool sends, void *data, size_t bytes)
{
    int flight = 0;
    const lki_piece piece = {other, data, bytes};
    const bool any = other >= 0;
    LKI_TRY(lki_comm_start(comm, &flight, &piece, any && sends, &piece, any && !sends,
                           "measuring links"));
    return lki_comm_wait(comm, flight);
}

/* There and back. */
static lks_status trip(lks_comm *comm, int other, void *data, size_t bytes, double *seconds)
{
    const bool leads = comm->rank < other;
    const double begin = lki_seconds();
    LKI_TRY(pass(comm, other, leads, data, bytes));
    LKI_TRY(pass(comm, other, !leads, data, bytes));
    *seconds = lki_seconds() - begin;
    return LKS_OK;
}

static lks_status measure_link(lks_comm *comm, int other, void *data, lks_link *link)
{
    double seconds[SMALL_TRIPS], best = 0;
    LKI_TRY(trip(comm, other, data, SMALL, &seconds[0])); /* both have come */
    for (int i = 0; i < SMALL_TRIPS; i++) LKI_TRY(trip(comm, other, data, SMALL, &seconds[i]));
    link->latency = lki_median(seconds, SMALL_TRIPS) / 2;
    for (int i = 0; i <= LARGE_TRIPS; i++) { /* the first one warms up */
        LKI_TRY(trip(comm, other, data, LARGE, &seconds[0]));
        if (i > 0 && (best <= 0 || seconds[0] < best)) best = seconds[0];
    }
    link->bandwidth = best > 0 ? 2 * (double)LARGE / best : 0;
    return LKS_OK;
}

/* The circle method: in each of rounds() rounds every rank has one partner at most, and in all of them every
 * other one once. */
static int rounds(int size)
{
    return size % 2 == 0 ? size - 1 : size;
}

static int partner(int rank, int size, int round)
{
    const int ring = rounds(size),
              still = ring; /* who stands still; nobody, where the number is odd */
    int other = (round - rank % ring + ring) % ring;
    if (rank == still) /* with the one that would have itself */
        other = (int)((int64_t)round * (ring + 1) / 2 % ring);
    else if (other == rank)
        other = still;
    return other < size ? other : -1;
}

static lks_status measure_rounds(lks_comm *comm, lks_link *out, int most, int *count, void *data,
                                 void *const *base)
{
    const int all = rounds(comm->size), some = all < most ? all : most;
    for (int i = 0; i < some; i++) {
        lks_link link = {.rank = partner(comm->rank, comm->size, (int)((int64_t)i * all / some))};
        LKI_TRY(measure_link(comm, link.rank, data, &link));
        if (link.rank < 0) continue;
        link.common = base[link.rank] != NULL;
        out[(*count)++] = link;
    }
    return LKS_OK;
}

lks_status lks_comm_measure(lks_comm *comm, lks_link *out, int most, int *count)
{
    void *data = NULL, *memory = NULL;
    LKI_COMM_ENTER(comm);
    if (count == NULL) return LKI_COMM_REFUSE_NULL(comm, count);
    *count = 0;
    if (out == NULL && most > 0) return LKI_COMM_REFUSE_NULL(comm, out);
    if (lki_comm_alone(comm) || most < 1) return LKS_OK;
    const size_t bytes = (size_t)comm->size * sizeof(void *);
    lks_status status = lki_alloc(NULL, &data, LARGE, "messages that are measured");
    if (status == LKS_OK) status = lki_alloc(NULL, &memory, bytes, "memory in common");
    if (status != LKS_OK) status = lki_comm_refuse(comm, status);
    void **base = memory;
    if (status == LKS_OK) status = lki_comm_share(comm, LKS_LINK_MEMORY, base);
    if (status == LKS_OK) {
        memset(data, 1, LARGE);
        status = measure_rounds(comm, out, most, count, data, base);
        lki_comm_unshare(comm, base[comm->rank]);
    }
    if (memory != NULL) lki_free(NULL, memory, bytes);
    if (data != NULL) lki_free(NULL, data, LARGE);
    return status;
}

static int64_t time_of_day(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* As NTP does: the other's time lies between two of one's own; of several trips the shortest says most. */
lks_status lks_comm_clock(lks_comm *comm, double *ahead, double *error)
{
    LKI_COMM_ENTER(comm);
    if (ahead == NULL) return LKI_COMM_REFUSE_NULL(comm, ahead);
    if (error == NULL) return LKI_COMM_REFUSE_NULL(comm, error);
    *ahead = *error = 0;
    const int size = lks_comm_size(comm), rank = lks_comm_rank(comm);
    for (int r = 1; r < size; r++) {
        const int other = rank == 0 ? r : rank == r ? 0 : -1;
        for (int i = 0; i < CLOCK_TRIPS; i++) {
            int64_t theirs = 0;
            const int64_t begin = time_of_day();
            LKI_TRY(pass(comm, other, rank > 0, &theirs, sizeof theirs));
            if (rank == 0) theirs = time_of_day();
            LKI_TRY(pass(comm, other, rank == 0, &theirs, sizeof theirs));
            const double half = 0.5e-9 * (double)(time_of_day() - begin);
            if (rank != r || (i > 0 && half >= *error)) continue;
            *error = half;
            *ahead = 1e-9 * (double)(begin - theirs) + half;
        }
    }
    return LKS_OK;
}

bool lks_comm_watched(const lks_comm *comm)
{
    return comm != NULL && comm->watch != NULL;
}

int lks_comm_cores(const lks_comm *comm)
{
    return lki_comm_cores(comm);
}

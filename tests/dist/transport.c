/* What a transport promises (src/comm/transport.h), looked at from each rank. */
#include "dist/ranks.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

static unsigned char pattern(int from, int to, size_t at)
{
    return (unsigned char)((unsigned)from * 31u + (unsigned)to * 17u + (unsigned)at * 7u +
                           (unsigned)(at >> 8));
}

static int wait_for(lks_comm *comm, int flight)
{
    bool landed = false;
    lki_fault fault = {.rank = -1};
    while (!landed) RANKS_CHECK(comm->transport->poll(comm->link, flight, &landed, &fault) == 0);
    RANKS_CHECK(comm->transport->missing(comm->link, flight) == -1);
    return 0;
}

/* Each sends each two pieces, of `bytes` and of a third of that. */
static int exchange_bytes(lks_comm *comm, int flight, size_t bytes)
{
    const int size = comm->size, rank = comm->rank;
    const size_t lengths[2] = {bytes, bytes / 3};
    lki_piece *pieces = calloc(4 * (size_t)size, sizeof *pieces);
    lki_piece *send = pieces, *receive = pieces + 2 * size;
    int count = 0, wrong = 0;
    lki_fault fault = {.rank = -1};
    for (int i = 1; i < size; i++) {
        const int other = (rank + i) % size;
        for (int k = 0; k < 2; k++) {
            unsigned char *out = malloc(lengths[k] + 1);
            for (size_t at = 0; at < lengths[k]; at++)
                out[at] = pattern(rank, other, at + (size_t)k);
            send[count] = (lki_piece){other, out, lengths[k]};
            receive[count++] = (lki_piece){other, calloc(lengths[k] + 1, 1), lengths[k]};
        }
    }
    RANKS_CHECK(comm->transport->start(comm->link, flight, send, count, receive, count, &fault) ==
                0);
    if (wait_for(comm, flight) != 0) return 99;
    for (int i = 0; i < count; i++) {
        const unsigned char *in = receive[i].data;
        const size_t k = i % 2 == 0 ? 0 : 1;
        for (size_t at = 0; at < receive[i].bytes; at++)
            wrong += in[at] != pattern(receive[i].rank, rank, at + k);
        wrong += in[receive[i].bytes] != 0;
        free(send[i].data);
        free(receive[i].data);
    }
    free(pieces);
    RANKS_CHECK(wrong == 0);
    return 0;
}

/* Of many sizes; `number` is a size of its own, in MiB. */
int ranks_exchange(lks_comm *comm, int number)
{
    const size_t sizes[] = {0, 1, 3, 4095, 4096, 4097, 65536, (1 << 20) + 5};
    if (number > 0) return exchange_bytes(comm, 3, ((size_t)number << 20) + 1);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (exchange_bytes(comm, (int)i, sizes[i]) != 0) return 99;
    return 0;
}

/* As many flights as there can be, landed in another order than they were started in, some numbers again and
 * again. */
int ranks_flights(lks_comm *comm, int number)
{
    enum { ROUNDS = 20 };
    static int64_t sent[LKI_MAX_FLIGHTS][16], got[LKI_MAX_FLIGHTS][16];
    lki_fault fault = {.rank = -1};
    (void)number;
    for (int round = 0; round < ROUNDS; round++) {
        for (int f = 0; f < LKI_MAX_FLIGHTS; f++) {
            lki_piece send[16], receive[16];
            int count = 0;
            for (int r = 0; r < comm->size; r++) {
                sent[f][r] = round * 100000 + f * 1000 + comm->rank * 20 + r;
                if (r == comm->rank) continue;
                send[count] = (lki_piece){r, &sent[f][r], 8};
                receive[count++] = (lki_piece){r, &got[f][r], 8};
            }
            RANKS_CHECK(
                comm->transport->start(comm->link, f, send, count, receive, count, &fault) == 0);
        }
        for (int k = 0; k < LKI_MAX_FLIGHTS; k++) {
            const int f = (k * 37 + comm->rank) % LKI_MAX_FLIGHTS;
            if (wait_for(comm, f) != 0) return 99;
            for (int r = 0; r < comm->size; r++)
                RANKS_CHECK(r == comm->rank ||
                            got[f][r] == round * 100000 + f * 1000 + r * 20 + comm->rank);
        }
    }
    return 0;
}

int ranks_gather(lks_comm *comm, int number)
{
    const size_t sizes[] = {1, 8, 1000, 70000, 1000000};
    const size_t size = (size_t)comm->size;
    lki_fault fault = {.rank = -1};
    (void)number;
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
        const size_t bytes = sizes[i / 2];
        unsigned char *all = calloc(size, bytes), *mine = malloc(bytes);
        memset(mine, comm->rank + 1, bytes);
        if (i % 2 != 0) { /* from its place */
            memcpy(all + (size_t)comm->rank * bytes, mine, bytes);
            free(mine);
            mine = all + (size_t)comm->rank * bytes;
        }
        RANKS_CHECK(comm->transport->gather(comm->link, 63, mine, bytes, all, &fault) == 0);
        if (wait_for(comm, 63) != 0) return 99;
        for (size_t at = 0; at < size * bytes; at++) RANKS_CHECK(all[at] == at / bytes + 1);
        if (i % 2 == 0) free(mine);
        free(all);
    }
    return 0;
}

int ranks_sum(lks_comm *comm, int number)
{
    enum { COUNT = 100003 };
    static float values[COUNT];
    lki_fault fault = {.rank = -1};
    (void)number;
    if (strcmp(comm->transport->name, "socket") == 0) return 0; /* has no sums of its own */
    RANKS_CHECK(comm->transport->all_reduce != NULL);
    for (int i = 0; i < COUNT; i++) values[i] = (float)(i % 1000 * (comm->rank + 1));
    RANKS_CHECK(comm->transport->all_reduce(comm->link, 5, values, COUNT, &fault) == 0);
    if (wait_for(comm, 5) != 0) return 99;
    const int factor = comm->size * (comm->size + 1) / 2;
    for (int i = 0; i < COUNT; i++) RANKS_CHECK(values[i] == (float)(i % 1000 * factor));
    return 0;
}

/* What one writes the others read, and it lies as any allocation does. */
int ranks_share(lks_comm *comm, int number)
{
    void *base[16], *second[16];
    const size_t count = 1 << 16;
    lki_fault fault = {.rank = -1};
    const bool two_hosts = getenv("SLURMD_NODENAME") != NULL; /* for MPI, be they one machine */
    (void)number;
    if (strcmp(comm->transport->name, "socket") == 0) return 0; /* nor memory */
    RANKS_CHECK(comm->transport->share(comm->link, count * sizeof(int), base, &fault) == 0);
    RANKS_CHECK(comm->transport->share(comm->link, 0, second, &fault) == 0);
    RANKS_CHECK(base[comm->rank] != NULL && (uintptr_t)base[comm->rank] % 64 == 0);
    int *mine = base[comm->rank];
    for (size_t i = 0; i < count; i++) mine[i] = comm->rank * 1000 + (int)(i % 1000);
    RANKS_CHECK(lks_comm_agree(comm, LKS_OK) == LKS_OK);
    for (int r = 0; r < comm->size; r++) {
        const int *theirs = base[r];
        for (size_t i = 0; i < count && theirs != NULL; i++)
            RANKS_CHECK(theirs[i] == r * 1000 + (int)(i % 1000));
        RANKS_CHECK(theirs != NULL || two_hosts);
    }
    RANKS_CHECK(lks_comm_agree(comm, LKS_OK) == LKS_OK);
    comm->transport->unshare(comm->link, base[comm->rank]);
    return 0; /* leaving ends the other */
}

/* Who waits knows for whom. */
int ranks_missing(lks_comm *comm, int number)
{
    char word = 1, all[16];
    bool landed = false;
    lki_fault fault = {.rank = -1};
    if (comm->rank != number) {
        RANKS_CHECK(comm->transport->gather(comm->link, 9, &word, 1, all, &fault) == 0);
        for (int i = 0; i < 1000 && !landed; i++)
            RANKS_CHECK(comm->transport->poll(comm->link, 9, &landed, &fault) == 0);
        RANKS_CHECK(!landed);
    }
    /* The others wait in it for the one, which has not begun. */
    lki_piece piece = {.rank = number, .data = &word, .bytes = 1};
    if (comm->rank == number) {
        lki_piece receive[16];
        char said[16];
        int count = 0;
        for (int r = 0; r < comm->size; r++)
            if (r != number) receive[count++] = (lki_piece){r, &said[r], 1};
        RANKS_CHECK(comm->transport->start(comm->link, 10, NULL, 0, receive, count, &fault) == 0);
        if (wait_for(comm, 10) != 0) return 99;
        RANKS_CHECK(comm->transport->gather(comm->link, 9, &word, 1, all, &fault) == 0);
        return wait_for(comm, 9);
    }
    while (comm->transport->missing(comm->link, 9) != number)
        RANKS_CHECK(comm->transport->poll(comm->link, 9, &landed, &fault) == 0 && !landed);
    RANKS_CHECK(comm->transport->start(comm->link, 10, &piece, 1, NULL, 0, &fault) == 0);
    if (wait_for(comm, 10) != 0) return 99;
    return wait_for(comm, 9);
}

/* Pieces that should be equal are not: rank 1 sends rank 0 less, then more, than that expects. */
int ranks_unequal(lks_comm *comm, int number)
{
    char data[200] = "";
    lki_fault fault = {.rank = -1};
    const lki_piece send = {.rank = 0, .data = data, .bytes = (size_t)number};
    const lki_piece receive = {.rank = 1, .data = data, .bytes = 100};
    bool landed = false;
    int failed = 0;
    if (comm->rank > 1) return 0;
    RANKS_CHECK(comm->transport->start(comm->link, 0, &send, comm->rank, &receive, 1 - comm->rank,
                                       &fault) == 0);
    while (!landed && !failed) failed = comm->transport->poll(comm->link, 0, &landed, &fault);
    if (comm->rank == 0) {
        RANKS_CHECK(failed && fault.rank == 1);
        printf("failed: rank %d %s\n", fault.rank, fault.text);
    }
    return 0;
}

/*
 * The strict sum between ranks beside MPI's own, which has an order of its own: mpiexec -n N bench_collective_MPI
 * [ROUNDS]. Both sum arrays of the same size, in turn, round by round; a time is the slowest rank's, and of
 * the rounds the median. A Markdown table goes to stdout. Bind each rank to a core of its own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>

#include "base/memory.h"
#include "core/backend.h"
#include "base/context.h"
#include "reduce/ranks.h"

enum { MOST_ROUNDS = 101, MOST_RANKS = 256 };

typedef struct bench {
    lks_comm *comm;
    int rank, size;
    lki_ranks sum;
    int64_t count; /* floats */
    float *values, *total;
} bench;

static void need(lks_status status)
{
    if (status == LKS_OK) return;
    fprintf(stderr, "%s\n", lks_last_error()->message);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void by_mpi(bench *b)
{
    MPI_Allreduce(b->values, b->total, (int)b->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void by_tree(bench *b)
{
    float *const values[] = {b->values};
    need(lki_ranks_send(&b->sum, 0, values, b->total));
    need(lki_ranks_arrive(&b->sum, 0));
    lki_ranks_combine(&b->sum, 0, 0, 1);
    need(lki_ranks_give(&b->sum, 0));
    need(lki_ranks_finish(&b->sum, 0));
}

static void by_gather(bench *b)
{
    need(
        lki_comm_gather(b->comm, b->values, (size_t)b->count * sizeof(float), b->total, "numbers"));
}

static void by_mpi_gather(bench *b)
{
    MPI_Allgather(b->values, (int)b->count, MPI_FLOAT, b->total, (int)b->count, MPI_FLOAT,
                  MPI_COMM_WORLD);
}

/* Seconds for one of several calls, as the slowest rank has it. */
static double bench_seconds(bench *b, void (*call)(bench *b), int calls)
{
    double slowest = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = lki_seconds();
    for (int i = 0; i < calls; i++) call(b);
    const double mine = (lki_seconds() - begin) / calls;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

static int bench_ascending(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static void bench_pair(bench *b, const char *what, size_t bytes, int rounds,
                       void (*theirs)(bench *), void (*ours)(bench *))
{
    static double times[2][MOST_ROUNDS], ratio[MOST_ROUNDS];
    const int calls = bytes > 1 << 20 ? 2 : bytes > 1 << 16 ? 10 : 50;
    for (int round = -2; round < rounds; round++) { /* two to get warm */
        const double a = bench_seconds(b, theirs, calls), c = bench_seconds(b, ours, calls);
        if (round < 0) continue;
        times[0][round] = a;
        times[1][round] = c;
        ratio[round] = c / a;
    }
    for (int i = 0; i < 2; i++) qsort(times[i], (size_t)rounds, sizeof(double), bench_ascending);
    qsort(ratio, (size_t)rounds, sizeof(double), bench_ascending);
    if (b->rank > 0) return;
    printf("| %s | %zu | %.1f | %.1f | %.2f | %.2f - %.2f |\n", what, bytes,
           1e6 * times[0][rounds / 2], 1e6 * times[1][rounds / 2], ratio[rounds / 2],
           ratio[rounds / 4], ratio[rounds * 3 / 4]);
    fflush(stdout);
}

static void bench_sum(bench *b, size_t bytes, int rounds)
{
    lki_arena arena = {0};
    int64_t border[MOST_RANKS + 1], start[MOST_RANKS + 1];
    void *memory;
    const lki_backend *backend = NULL;
    for (int i = 0; lki_backends[i] != NULL && backend == NULL; i++) backend = lki_backends[i];
    for (int r = 0; r <= b->size; r++) border[r] = start[r] = r;
    b->count = (int64_t)(bytes / sizeof(float));
    need(lki_alloc(NULL, (void **)&b->values, bytes, "numbers"));
    need(lki_alloc(NULL, (void **)&b->total, bytes, "numbers"));
    need(lki_ranks_make(&b->sum, &arena, b->comm, backend, b->size, border, 1, &b->count));
    const size_t room = lki_ranks_bytes(&b->sum);
    need(lki_alloc(NULL, &memory, room, "sums of other ranks"));
    lki_ranks_place(&b->sum, memory);
    lki_ranks_begin(&b->sum, start);
    bench_pair(b, "sum", bytes, rounds, by_mpi, by_tree);
    lki_free(NULL, memory, room);
    lki_free(NULL, b->values, bytes);
    lki_free(NULL, b->total, bytes);
    lki_arena_release(&arena);
}

static void bench_gather(bench *b, size_t bytes, int rounds)
{
    b->count = (int64_t)(bytes / sizeof(float));
    need(lki_alloc(NULL, (void **)&b->values, bytes, "numbers"));
    need(lki_alloc(NULL, (void **)&b->total, bytes * (size_t)b->size, "numbers"));
    bench_pair(b, "gather", bytes, rounds, by_mpi_gather, by_gather);
    lki_free(NULL, b->values, bytes);
    lki_free(NULL, b->total, bytes * (size_t)b->size);
}

int main(int argc, char **argv)
{
    bench b = {0};
    int level, rounds = argc > 1 ? atoi(argv[1]) : 21;
    if (rounds < 1 || rounds > MOST_ROUNDS) rounds = 21;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    need(lks_comm_create(&b.comm, &(lks_comm_opts){.transport = "mpi"}));
    b.rank = lks_comm_rank(b.comm);
    b.size = lks_comm_size(b.comm);
    if (b.size < 2 || b.size > MOST_RANKS) {
        fprintf(stderr, "start 2 to %d of this by mpiexec\n", MOST_RANKS);
        return 2;
    }
    if (b.rank == 0)
        printf("%s, %d ranks\n\n| what | bytes | MPI, us | strict, us | ratio | its quartiles |\n"
               "|---|---|---|---|---|---|\n",
               lks_comm_library(b.comm), b.size);
    bench_gather(&b, 64, rounds);
    for (size_t bytes = 1 << 12; bytes <= 1 << 26; bytes *= 4) bench_sum(&b, bytes, rounds);
    lks_comm_destroy(b.comm);
    MPI_Finalize();
    return 0;
}

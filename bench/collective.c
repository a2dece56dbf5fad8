/*
 * The strict sum between ranks beside MPI's own, which has an order of its own: mpiexec -n N bench_collective_MPI
 * [ROUNDS [BYTES...]], default 21 rounds and 4 KiB to 64 MiB. Three ways sum arrays of the same size, in turn, round by round:
 *
 *   mpi       MPI_Allreduce(), which leaves each rank a copy of the sum
 *   messages  in the tree, of slices that travel; each rank has a copy, too
 *   windows   in the tree, where all ranks see the arrays of all: the sum is where the tree forms it,
 *             which is in memory that all read
 *
 * Strict sums are cut into buckets as a model's are. A time is the slowest rank's. A line of JSON for each size,
 * with microseconds of all rounds, goes to stdout. bench/collective runs it, and draws what comes out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>

#include "base/memory.h"
#include "core/backend.h"
#include "base/context.h"
#include "reduce/ranks.h"

enum { MOST_ROUNDS = 101, MOST_RANKS = 256, MOST_BUCKETS = 24, BUCKET = 1 << 20, WAYS = 3 };
static const double MEASUREMENT = 6e-3; /* seconds, at least */

/* A strict sum with all it needs; `base` is NULL where slices travel. */
typedef struct strict {
    lki_arena arena;
    lki_ranks sum;
    float *values, *total;
    void *received, **base;
    size_t room;
} strict;

typedef struct bench {
    lks_comm *comm;
    int rank, size;
    int64_t count; /* floats */
    int64_t start[MOST_RANKS + 1], cut[MOST_BUCKETS + 1];
    int buckets;
    float *values, *total; /* of MPI */
    strict messages, windows;
    void *base[MOST_RANKS];
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

static void bench_send(bench *b, strict *s, int bucket)
{
    if (bucket == b->buckets) return;
    float *const values[] = {s->values + b->cut[bucket]};
    need(lki_ranks_send(&s->sum, bucket, values, s->total + b->cut[bucket]));
}

/* As a model does it with sums by rows: a bucket travels while the one before is added. */
static void by_tree(bench *b, strict *s)
{
    bench_send(b, s, 0);
    for (int i = 0; i < b->buckets; i++) {
        bench_send(b, s, i + 1);
        need(lki_ranks_arrive(&s->sum, i, 0));
        lki_ranks_combine(&s->sum, i, 0, 0, 1);
        need(lki_ranks_give(&s->sum, i, NULL));
    }
    for (int i = 0; i < b->buckets; i++) need(lki_ranks_finish(&s->sum, i));
    need(lki_ranks_release(&s->sum));
    need(lki_ranks_reuse(&s->sum));
}

static void by_messages(bench *b)
{
    by_tree(b, &b->messages);
}

static void by_windows(bench *b)
{
    by_tree(b, &b->windows);
}

static void (*const ways[WAYS])(bench *) = {by_mpi, by_messages, by_windows};
static const char *const names[WAYS] = {"mpi", "messages", "windows"};

/* Seconds for one of several calls, as the slowest rank has it. */
static double bench_seconds(bench *b, void (*call)(bench *), int calls)
{
    double slowest = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = lki_seconds();
    for (int i = 0; i < calls; i++) call(b);
    const double mine = (lki_seconds() - begin) / calls;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

/* Own numbers, which all sums of at most MOST_RANKS of them have without rounding. */
static void bench_fill(const bench *b, float *values)
{
    for (int64_t i = 0; i < b->count; i++) values[i] = (float)((i + b->rank) % 1000);
}

static void bench_check(const bench *b, const char *name, int64_t first, int64_t count,
                        const float *total)
{
    for (int64_t i = 0; i < count; i++) {
        float sum = 0;
        for (int r = 0; r < b->size; r++) sum += (float)((first + i + r) % 1000);
        if (total[i] == sum) continue;
        fprintf(stderr, "bench_collective: %s: number %lld is %g on rank %d, expected %g\n", name,
                (long long)(first + i), (double)total[i], b->rank, (double)sum);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* Once, for the sums; then everything is 0, so that numbers stay what they are, however often they are added
 * where they stand. */
static void bench_sums(bench *b)
{
    float *const filled[] = {b->values, b->messages.values, b->windows.values};
    for (int i = 0; i < WAYS; i++) {
        if (filled[i] == NULL) continue;
        bench_fill(b, filled[i]);
        ways[i](b);
        const strict *s = i == 1 ? &b->messages : &b->windows;
        for (int k = 0; i > 0 && k < b->buckets; k++)
            bench_check(b, names[i], b->cut[k], b->cut[k + 1] - b->cut[k],
                        lki_ranks_total(&s->sum, k));
        if (i == 0) bench_check(b, names[i], 0, b->count, b->total);
        MPI_Barrier(MPI_COMM_WORLD);
        memset(filled[i], 0, (size_t)b->count * sizeof(float));
    }
}

static void bench_strict(bench *b, strict *s)
{
    int64_t count[MOST_BUCKETS];
    const lki_backend *backend = NULL;
    for (int i = 0; lki_backends[i] != NULL && backend == NULL; i++) backend = lki_backends[i];
    for (int k = 0; k < b->buckets; k++) count[k] = b->cut[k + 1] - b->cut[k];
    const lki_ranks_opts opts = {.comm = b->comm,
                                 .backend = backend,
                                 .replicas = b->size,
                                 .border = b->start,
                                 .buckets = b->buckets,
                                 .count = count};
    need(lki_ranks_make(&s->sum, &s->arena, &opts));
    if (s->base != NULL) lki_ranks_share(&s->sum, s->base);
    s->room = lki_ranks_bytes(&s->sum);
    if (s->room > 0) need(lki_alloc(NULL, &s->received, s->room, "sums of other ranks"));
    lki_ranks_place(&s->sum, s->received);
    lki_ranks_begin(&s->sum, b->start);
}

static void bench_make(bench *b, size_t bytes)
{
    void *memory;
    b->count = (int64_t)(bytes / sizeof(float));
    b->buckets = (int)(bytes / BUCKET);
    b->buckets = b->buckets < 1 ? 1 : b->buckets > MOST_BUCKETS ? MOST_BUCKETS : b->buckets;
    for (int k = 0; k <= b->buckets; k++) b->cut[k] = b->count / 16 * k / b->buckets * 16;
    b->messages = b->windows = (strict){0};
    need(lki_alloc(NULL, &memory, bytes, "numbers"));
    b->values = b->messages.values = memory;
    need(lki_alloc(NULL, &memory, bytes, "numbers"));
    b->total = b->messages.total = memory;
    bench_strict(b, &b->messages);
    need(lki_comm_share(b->comm, bytes, b->base));
    for (int r = 0; r < b->size; r++)
        if (b->base[r] == NULL) return;
    b->windows.base = b->base;
    b->windows.values = b->windows.total = b->base[b->rank];
    bench_strict(b, &b->windows);
}

static void bench_release(bench *b)
{
    const size_t bytes = (size_t)b->count * sizeof(float);
    lki_comm_unshare(b->comm, b->base[b->rank]);
    lki_free(NULL, b->messages.received, b->messages.room);
    lki_free(NULL, b->values, bytes);
    lki_free(NULL, b->total, bytes);
    lki_arena_release(&b->messages.arena);
    lki_arena_release(&b->windows.arena);
}

static void bench_size(bench *b, size_t bytes, int rounds)
{
    static double times[WAYS][MOST_ROUNDS];
    int calls[WAYS];
    bench_make(b, bytes);
    const int count = b->windows.values != NULL ? WAYS : WAYS - 1;
    bench_sums(b);
    for (int i = 0; i < count; i++) { /* the second time it is warm; the same on all ranks */
        bench_seconds(b, ways[i], 2);
        calls[i] = 1 + (int)(MEASUREMENT / bench_seconds(b, ways[i], 2));
        if (calls[i] > 1000) calls[i] = 1000;
    }
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < count; i++) times[i][round] = 1e6 * bench_seconds(b, ways[i], calls[i]);
    bench_release(b);
    if (b->rank > 0) return;
    printf("{\"library\": \"%s\", \"ranks\": %d, \"bytes\": %zu", lks_comm_library(b->comm),
           b->size, bytes);
    for (int i = 0; i < count; i++)
        for (int round = 0; round < rounds; round++) {
            if (round == 0) printf(", \"%s\": [", names[i]);
            printf("%.2f%s", times[i][round], round < rounds - 1 ? ", " : "]");
        }
    printf("}\n");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static bench b;
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
    for (int r = 0; r <= b.size; r++) b.start[r] = r;
    for (int i = 2; i < argc; i++) bench_size(&b, (size_t)atoll(argv[i]) / 64 * 64, rounds);
    for (size_t bytes = 1 << 12; bytes <= 1 << 26 && argc <= 2; bytes *= 4)
        bench_size(&b, bytes, rounds);
    lks_comm_destroy(b.comm);
    MPI_Finalize();
    return 0;
}

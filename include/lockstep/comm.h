/*
 * Ranks: the processes that train one model together, and what a program with a loop of its own needs
 * to make them one.
 *
 * Collective functions (all but the getters, lks_comm_abort and lks_partition) are called by all ranks,
 * in the same order, with the sizes that their comments call equal. What fails on one rank ends on all
 * of them, with one sentence that names it: LKS_E_COMM where a rank is gone, LKS_E_TIMEOUT where one
 * does not come, else the status of the rank that failed, an argument that it should not have given
 * included. From then on the communicator can only be aborted or destroyed; lks_comm_agree() is the way
 * to fail together and go on.
 *
 * One thread of a rank uses a communicator at a time, any thread. With one rank every function returns
 * at once; a NULL communicator is one rank, too. Behind a fork the child's can only be destroyed, which the other ranks do not notice.
 */
#ifndef LOCKSTEP_COMM_H
#define LOCKSTEP_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstep/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lks_comm lks_comm;

typedef struct lks_comm_opts {
    const char *
        transport; /* "self", "mpi" or "socket"; default: as id or mpi_comm say, else "mpi" where mpirun or srun started several */
    const void
        *mpi_comm;    /* an MPI_Comm of a program that has started MPI; default: MPI_COMM_WORLD */
    double timeout_s; /* how long to wait for another rank; default 600 */
    const char *id;   /* joins as `rank` of `size` without a launcher: from lks_comm_make_id() */
    int rank, size;
    bool verify; /* before each collective compares what the ranks are about to do: slow */
    /* A rank whose process has ended, or that has been silent for so long, is lost, whatever the others
     * wait for; rank 0's counts; default 2, below 0: nobody watches. */
    double watch_s;
    /* Called in a thread of the watch when a rank is lost (lks_comm_lost); and again, `late`, where this
     * one has not come to a collective for watch_s, which would have said so: it may never, and a
     * program that is to end whatever holds it ends here. */
    void (*on_lost)(void *user, const lks_comm *comm, const char *sentence, bool late);
    void *user;
} lks_comm_opts;

/*
 * For processes that nobody has started together: made in the one that joins as rank 0, once for each
 * time, and brought to the others by the program, however it likes; whoever knows it can join. All join
 * with (id, rank, size) by TCP, at `address` of this host (NULL: "127.0.0.1", processes of this host).
 * What they send is not encrypted: for a network that is yours. lks_comm_abort() makes the others' calls fail.
 */
enum { LKS_COMM_ID = 128 };
LKS_API LKS_MUSTUSE lks_status lks_comm_make_id(char id[LKS_COMM_ID], const char *address);

/* Joins the other ranks. Collective. */
LKS_API LKS_MUSTUSE lks_status lks_comm_create(lks_comm **out, const lks_comm_opts *opts);
/* Collective, too: a rank that ends alone agrees or aborts before. NULL is fine. */
LKS_API void lks_comm_destroy(lks_comm *comm);

LKS_API int lks_comm_rank(const lks_comm *comm);
LKS_API int lks_comm_size(const lks_comm *comm);
LKS_API int lks_comm_local_rank(const lks_comm *comm); /* among the ranks of this host */
LKS_API int lks_comm_local_size(const lks_comm *comm);
LKS_API const char *lks_comm_host(const lks_comm *comm, int rank);
LKS_API const char *lks_comm_library(const lks_comm *comm); /* "Open MPI 4.1.4"; "" without one */

/* Which rank is lost (watch_s); -1: none. Not collective. */
LKS_API int lks_comm_lost(const lks_comm *comm);

/* Seconds that this rank has waited for others so far, in all that is collective: in messages and in common memory.
 * Not collective. */
LKS_API double lks_comm_waited(const lks_comm *comm);

/* Ends all other processes at once, this one too where its transport cannot do without; a launcher may
 * see `code`. With one rank it does nothing: end the program behind it. Not collective. */
LKS_API void lks_comm_abort(lks_comm *comm, int code);

/* Returns when all ranks have called it. */
LKS_API LKS_MUSTUSE lks_status lks_comm_barrier(lks_comm *comm);

/* Returns LKS_OK if all ranks give LKS_OK, else on all of them the status and the sentence of the first
 * rank that does not; on the others "rank 2 (host b, pid 77): " stands before it, but for rank 0's. */
LKS_API LKS_MUSTUSE lks_status lks_comm_agree(lks_comm *comm, lks_status mine);

/* LKS_E_MISMATCH on all ranks where the text is not the same on all: "lr: rank 2 (host b, pid 77) has
 * '0.1', rank 0 (host a, pid 75) has '0.01'"; of several lines, the first that differs. */
LKS_API LKS_MUSTUSE lks_status lks_comm_same(lks_comm *comm, const char *what, const char *text);

/* What arrays[i][bytes[i]] hold on the rank `root` they hold on all. `root`, `bytes` and `count` are
 * equal on all ranks. */
LKS_API LKS_MUSTUSE lks_status lks_comm_broadcast(lks_comm *comm, int root, void *const *arrays,
                                                  const size_t *bytes, int count);

/*
 * Every number of arrays[i][counts[i]] becomes the weighted mean of the ranks' numbers in its place:
 *
 *   (weight_0 * a_0 + weight_1 * a_1 + ...) / (weight_0 + weight_1 + ...)
 *
 * in double, in order of ranks, rounded once: the same bits on all ranks, and for means of m_k samples
 * with weight m_k the mean over all n, be shares equal or not. The mean of finite numbers is finite;
 * NaN and infinity go on as in any sum. A weight is 0 or more; numbers of a rank with weight 0, which
 * may have no samples, are not looked at. LKS_E_INVALID where all weights are 0, LKS_E_SHAPE where
 * arrays are not equal on all ranks; on all of them, and the communicator goes on.
 */
LKS_API LKS_MUSTUSE lks_status lks_comm_average(lks_comm *comm, float *const *arrays,
                                                const int64_t *counts, int count, double weight);

/* Everybody's `bytes` bytes, in order of ranks: all[size][bytes]. */
LKS_API LKS_MUSTUSE lks_status lks_comm_all_gather(lks_comm *comm, const void *mine, size_t bytes,
                                                   void *all);
/* send[size][bytes] has a part for every rank, receive[size][bytes] gets one from every rank. */
LKS_API LKS_MUSTUSE lks_status lks_comm_all_to_all(lks_comm *comm, const void *send, size_t bytes,
                                                   void *receive);

/*
 * Cuts samples into parts, one for each fraction of their sum, in an order that the seed draws
 * (docs/numerics.md, 2): part k is order[start[k]] .. order[start[k + 1] - 1]. `order` has a place for
 * each sample, `start` one more than there are parts. Every sample is in one part; a part's size is
 * within 1 of its fraction. No communication: the same on every rank that gives the same.
 */
LKS_API LKS_MUSTUSE lks_status lks_partition(int64_t samples, const double *fractions, int parts,
                                             uint64_t seed, int64_t *order, int64_t *start);

#ifdef __cplusplus
}
#endif
#endif

/*
 * Ranks: the processes that train one model together, and what a program with a loop of its own needs
 * to make them one.
 *
 * Collective functions (all but the getters, lks_comm_abort and lks_partition) are called by all ranks,
 * in the same order, with the sizes that their comments call equal. What fails on one rank ends on all
 * of them, with one sentence that names it: LKS_E_COMM where a rank is gone, LKS_E_TIMEOUT where one
 * does not come, else the status of the rank that failed. From then on the communicator can only be
 * aborted or destroyed; lks_comm_agree() is the way to fail together and go on.
 *
 * One thread of a rank uses a communicator at a time. With one rank every function returns at once.
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
    const char
        *transport; /* "self" or "mpi"; default: "mpi" where mpirun or srun started several */
    const void
        *mpi_comm;    /* an MPI_Comm of a program that has started MPI; default: MPI_COMM_WORLD */
    double timeout_s; /* how long to wait for another rank; default 600 */
    bool verify;      /* before each collective compares what the ranks are about to do: slow */
} lks_comm_opts;

/* Joins the other ranks. Collective. */
LKS_API LKS_MUSTUSE lks_status lks_comm_create(lks_comm **out, const lks_comm_opts *opts);
LKS_API void lks_comm_destroy(lks_comm *comm); /* NULL is fine */

LKS_API int lks_comm_rank(const lks_comm *comm);
LKS_API int lks_comm_size(const lks_comm *comm);
LKS_API int lks_comm_local_rank(const lks_comm *comm); /* among the ranks of this host */
LKS_API int lks_comm_local_size(const lks_comm *comm);
LKS_API const char *lks_comm_host(const lks_comm *comm, int rank);
LKS_API const char *lks_comm_library(const lks_comm *comm); /* "Open MPI 4.1.4"; "" without one */

/* Returns LKS_OK if all ranks give LKS_OK, else on all of them the status and the sentence of the first
 * rank that does not. */
LKS_API LKS_MUSTUSE lks_status lks_comm_agree(lks_comm *comm, lks_status mine);

#ifdef __cplusplus
}
#endif
#endif

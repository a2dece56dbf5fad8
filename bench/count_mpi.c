/*
 * Counts what a process sends by MPI: preloaded (LD_PRELOAD) into a program, it writes "messages bytes" to the
 * file MPI_COUNT.RANK, where MPI_COUNT is a variable of the environment, when MPI ends.
 */
#include <stdio.h>
#include <stdlib.h>

#include <mpi.h>

static long long messages, bytes;

/* All that ranks exchange is sent by this (comm/mpi/exchange.c), but for gathers of more than 64 of them. */
int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    int size = 0;
    PMPI_Type_size(type, &size);
    messages++;
    bytes += (long long)size * count;
    return PMPI_Isend(data, count, type, to, tag, comm, request);
}

int MPI_Finalize(void)
{
    char name[4096];
    int rank = 0;
    const char *path = getenv("MPI_COUNT");
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (path != NULL && snprintf(name, sizeof name, "%s.%d", path, rank) < (int)sizeof name) {
        FILE *file = fopen(name, "w");
        if (file != NULL) {
            fprintf(file, "%lld %lld\n", messages, bytes);
            fclose(file);
        }
    }
    return PMPI_Finalize();
}

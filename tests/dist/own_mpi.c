/*
 * A program that has started MPI itself: own_mpi CASE
 *   halves   each half of its ranks joins in a communicator of its own
 *   single   it started MPI for one thread alone, which is refused
 *   late     it has finalized MPI already, which is refused
 */
#include <stdio.h>
#include <string.h>

#include <mpi.h>

#include <lockstep/comm.h>

static int say(int result, const char *what)
{
    printf("%s\n", what);
    MPI_Finalize();
    return result;
}

static int halves(void)
{
    int rank, size, ended = 1, level;
    lks_comm *comm;
    MPI_Comm half;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int first = (size + 1) / 2, color = rank >= first;
    MPI_Comm_split(MPI_COMM_WORLD, color, rank, &half);
    for (int again = 0; again < 2; again++) {
        if (lks_comm_create(&comm, &(lks_comm_opts){.transport = "mpi", .mpi_comm = &half}) !=
            LKS_OK)
            return say(1, lks_last_error()->message);
        if (lks_comm_size(comm) != (color ? size - first : first) ||
            lks_comm_rank(comm) != (color ? rank - first : rank))
            return say(1, "this is not a half");
        const lks_status mine = color ? lks_fail(LKS_E_IO, "this half fails") : LKS_OK;
        if (lks_comm_agree(comm, mine) != mine) return say(1, "the halves do not agree");
        lks_comm_destroy(comm);
    }
    MPI_Comm_free(&half);
    MPI_Finalized(&ended);
    if (ended) return say(1, "MPI was finalized");
    printf("rank %d of %d is well\n", rank, size);
    MPI_Finalize();
    return 0;
}

static int refused(bool late)
{
    lks_comm *comm;
    MPI_Init(NULL, NULL);
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    if (late) MPI_Finalize();
    const lks_status status = lks_comm_create(&comm, &(lks_comm_opts){.transport = "mpi"});
    if (status == LKS_OK) lks_comm_destroy(comm);
    printf("%s: %s\n", level < MPI_THREAD_SERIALIZED || late ? "refused" : "served",
           status != LKS_OK ? lks_last_error()->message : "-");
    if (!late) MPI_Finalize();
    return (status == LKS_OK) == (late || level < MPI_THREAD_SERIALIZED);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "halves") == 0) return halves();
    return refused(strcmp(name, "late") == 0);
}

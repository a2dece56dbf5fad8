/* Joining and leaving, and what the module shows of itself. */
#include "comm/mpi/mpi_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Of this process. Nobody can start MPI a second time, so it is finalized when the process ends. */
static struct {
    bool started;      /* by us */
    int links;         /* that are open */
    mpi_link *broken;  /* that ended so: others may never come */
    bool unheard;      /* and not all know of it */
    bool stuck;        /* one could not be stopped, so that MPI is not called any more */
    MPI_Comm farewell; /* all ranks there are, to wait for each other at the end */
} process = {.farewell = MPI_COMM_NULL};

/* Listens no more. True where somebody has left meanwhile. */
static bool transport_deaf(mpi_link *link)
{
    MPI_Status status;
    int unheard = 1;
    if (link->said == MPI_REQUEST_NULL) return false;
    MPI_Cancel(&link->said);
    if (MPI_Wait(&link->said, &status) == MPI_SUCCESS) MPI_Test_cancelled(&status, &unheard);
    return !unheard;
}

/* Takes what was sent and is not wanted any more, as an MPI may complain of it. */
static void transport_drain(MPI_Comm comm)
{
    MPI_Status status;
    int there = 0, bytes = 0;
    while (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &there, &status) == MPI_SUCCESS && there &&
           MPI_Get_count(&status, MPI_BYTE, &bytes) == MPI_SUCCESS) {
        void *rest = malloc((size_t)bytes + 1);
        if (rest == NULL) return;
        MPI_Recv(rest, bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, comm, &status);
        free(rest);
    }
}

/* Waits for the others; where something has gone wrong not for ever, and not for long where one may be gone. */
static bool transport_part(void)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    const int naps = process.unheard || process.stuck ? 500 : 5000;
    MPI_Request request = MPI_REQUEST_NULL;
    int done = 0;
    if (!process.stuck && MPI_Ibarrier(process.farewell, &request) != MPI_SUCCESS) return false;
    for (int i = 0; !done && (i < naps || process.broken == NULL); i++) {
        if (i > 0) nanosleep(&nap, NULL);
        if (!process.stuck && MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return false;
    }
    return done;
}

/*
 * The process ends. It waits for all ranks, so that each has said what it has to say before the launcher sees
 * one of them end: a launcher may end all when the first does. A rank that has not closed its link ends early,
 * which its launcher is to see.
 */
static void transport_finalize(void)
{
    int finalized = 0, main_thread = 0;
    if (process.links > 0 || MPI_Finalized(&finalized) != MPI_SUCCESS || finalized) return;
    if (MPI_Is_thread_main(&main_thread) != MPI_SUCCESS || !main_thread) return;
    if (!transport_part()) return;
    for (mpi_link *link = process.broken; link != NULL; link = link->next) {
        transport_deaf(link);
        transport_drain(link->comm);
        transport_drain(link->word);
    }
    MPI_Comm_free(&process.farewell);
    MPI_Finalize();
}

static int transport_start_mpi(lki_fault *fault)
{
    int level = MPI_THREAD_SINGLE;
    int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    if (code != MPI_SUCCESS) return mpi_link_fault(NULL, fault, -1, code, "MPI does not start");
    process.started = true;
    /* Nobody else uses MPI here, and some MPIs take failures of a request for failures of these. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    code = MPI_Comm_dup(MPI_COMM_WORLD, &process.farewell);
    if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(process.farewell, MPI_ERRORS_RETURN);
    if (code != MPI_SUCCESS)
        return mpi_link_fault(NULL, fault, -1, code, "MPI's ranks cannot be joined");
    if (atexit(transport_finalize) != 0)
        return mpi_link_fault(NULL, fault, -1, MPI_SUCCESS, "out of memory for ending MPI");
    return 0;
}

static int transport_need_mpi(lki_fault *fault)
{
    int started = 0, ended = 0, level = MPI_THREAD_SINGLE;
    MPI_Initialized(&started);
    MPI_Finalized(&ended);
    if (ended)
        return mpi_link_fault(NULL, fault, -1, MPI_SUCCESS,
                              "this process has finalized MPI; join before that");
    if (!started && transport_start_mpi(fault) != 0) return -1;
    MPI_Query_thread(&level);
    if (level >= MPI_THREAD_SERIALIZED) return 0;
    return mpi_link_fault(
        NULL, fault, -1, MPI_SUCCESS,
        "this process has started MPI for one thread alone, and a worker may call "
        "it; start it with MPI_Init_thread() and MPI_THREAD_SERIALIZED%s",
        process.started ? ", which this MPI does not have" : "");
}

static int transport_join(mpi_link *link, MPI_Comm comm, lki_fault *fault)
{
    int code = MPI_Comm_dup(comm, &link->comm);
    if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(link->comm, MPI_ERRORS_RETURN);
    if (code == MPI_SUCCESS) code = MPI_Comm_dup(link->comm, &link->word);
    if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(link->word, MPI_ERRORS_RETURN);
    if (code == MPI_SUCCESS) code = MPI_Comm_rank(link->comm, &link->rank);
    if (code == MPI_SUCCESS) code = MPI_Comm_size(link->comm, &link->size);
    if (code == MPI_SUCCESS && link->size > 1) code = mpi_link_listen(link);
    if (code != MPI_SUCCESS)
        return mpi_link_fault(link, fault, -1, code, "the communicator cannot be joined");
    link->saying = calloc((size_t)link->size, sizeof *link->saying);
    link->left = calloc((size_t)link->size, sizeof *link->left);
    if (link->saying == NULL || link->left == NULL)
        return mpi_link_fault(link, fault, -1, MPI_SUCCESS, "out of memory");
    return 0;
}

static void transport_close(void *to)
{
    mpi_link *link = to;
    if (link == NULL) return;
    for (int i = 0; i < LKI_MAX_FLIGHTS; i++)
        link->broken |= link->flight[i].landed < link->flight[i].count;
    link->broken |= link->some_left || (!link->broken && transport_deaf(link));
    if (link->broken && !mpi_link_stop(link)) process.stuck = true;
    for (int i = 0; i < LKI_MAX_FLIGHTS; i++) {
        free(link->flight[i].request);
        free(link->flight[i].peer);
        free(link->flight[i].expected);
    }
    for (int i = 0; i < MPI_LINK_WINDOWS; i++) mpi_link_unshare(link, link->window[i].mine);
    process.links--;
    if (link->broken) { /* MPI may still send and receive what is said: it stays until the process ends */
        link->next = process.broken;
        process.broken = link;
        return;
    }
    if (link->host != MPI_COMM_NULL) MPI_Comm_free(&link->host);
    MPI_Comm_free(&link->word);
    MPI_Comm_free(&link->comm);
    free(link->saying);
    free(link->left);
    free(link);
}

static int transport_open(void **out, const void *how, lki_fault *fault)
{
    *out = NULL;
    if (transport_need_mpi(fault) != 0) return -1;
    mpi_link *link = calloc(1, sizeof *link);
    if (link == NULL) return mpi_link_fault(NULL, fault, -1, MPI_SUCCESS, "out of memory");
    link->comm = link->word = link->host = MPI_COMM_NULL;
    link->said = MPI_REQUEST_NULL;
    process.links++;
    if (transport_join(link, how != NULL ? *(const MPI_Comm *)how : MPI_COMM_WORLD, fault) != 0) {
        transport_close(link);
        return -1;
    }
    *out = link;
    return 0;
}

static int transport_rank(const void *link)
{
    return ((const mpi_link *)link)->rank;
}

static int transport_size(const void *link)
{
    return ((const mpi_link *)link)->size;
}

static void transport_give_up(void *to, const lki_fault *fault)
{
    mpi_link *link = to;
    int count = 0, done = 0;
    link->broken = true;
    process.unheard |= fault->rank < 0;
    if (!mpi_link_stop(link)) process.stuck = true;
    link->spoken.code = fault->code;
    snprintf(link->spoken.text, sizeof link->spoken.text, "%s", fault->text);
    for (int i = 1; i < link->size; i++) {
        const int rank = (link->rank + i) % link->size;
        if (MPI_Isend(&link->spoken, sizeof link->spoken, MPI_BYTE, rank, 0, link->word,
                      &link->saying[count]) == MPI_SUCCESS)
            count++;
    }
    for (int i = 0; i < count; i++) /* so that it is on its way */
        MPI_Test(&link->saying[i], &done, MPI_STATUS_IGNORE);
}

static void transport_abort(void *to, int code)
{
    const mpi_link *link = to;
    MPI_Abort(link->comm, code);
}

/* "Open MPI 4.1.4" of what MPI says, which is "Open MPI v4.1.4, package: ..." or "MPICH Version:\t4.0.2\n...". */
static void transport_library(char *out, size_t size)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "MPI", name[32], number[32];
    if (MPI_Get_library_version(text, &(int){0}) == MPI_SUCCESS &&
        (sscanf(text, "%31[^v\n] v%31[0-9.]", name, number) == 2 ||
         sscanf(text, "%31[^ ] Version: %31[^\n \t]", name, number) == 2)) {
        name[strcspn(name, "\t")] = '\0';
        while (strlen(name) > 0 && name[strlen(name) - 1] == ' ') name[strlen(name) - 1] = '\0';
        snprintf(out, size, "%s %s", name, number);
        return;
    }
    text[strcspn(text, "\n,")] = '\0';
    snprintf(out, size, "%s", text);
}

__attribute__((visibility("default"))) const lki_transport *lki_transport_mpi(void);

const lki_transport *lki_transport_mpi(void)
{
    static char library[128];
    static const lki_transport transport = {
        .name = "mpi",
        .abi = LKI_TRANSPORT_ABI,
        .library = library,
        .copies = true,
        .open = transport_open,
        .close = transport_close,
        .rank = transport_rank,
        .size = transport_size,
        .start = mpi_link_start,
        .gather = mpi_link_gather,
        .all_reduce = mpi_link_all_reduce,
        .poll = mpi_link_poll,
        .missing = mpi_link_missing,
        .share = mpi_link_share,
        .unshare = mpi_link_unshare,
        .give_up = transport_give_up,
        .abort = transport_abort,
    };
    if (library[0] == '\0') transport_library(library, sizeof library);
    return &transport;
}

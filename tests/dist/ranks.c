/*
 * What a rank does in the tests of a launcher: ranks CASE [NUMBER]. It prints one line a rank, or the sentence of
 * its failure, and returns 0, or the status. With LKT_SOCKETS=N it starts so many ranks itself, without a launcher,
 * and returns what the last that failed has returned.
 */
#include "dist/ranks.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/tools.h>

int ranks_say(lks_status status)
{
    printf("failed: %s\n", lks_last_error()->message);
    fflush(stdout);
    return (int)status;
}

/* Who is there. */
static int ranks_join(lks_comm *comm, int number)
{
    (void)number;
    printf("rank %d of %d, %d of %d on its host, pid %ld, %s\n", lks_comm_rank(comm),
           lks_comm_size(comm), lks_comm_local_rank(comm), lks_comm_local_size(comm),
           (long)getpid(), lks_comm_library(comm));
    return strstr(lks_comm_library(comm), "MPI") == NULL || lks_mpi_loaded() ? 0 : 1;
}

/* A rank ends without a word. */
static int ranks_exit(lks_comm *comm, int number)
{
    if (lks_comm_rank(comm) == number) exit(7);
    const lks_status status = lks_comm_agree(comm, LKS_OK);
    return status == LKS_OK ? 0 : ranks_say(status);
}

static int ranks_kill(lks_comm *comm, int number)
{
    if (lks_comm_rank(comm) == number) raise(SIGKILL);
    const lks_status status = lks_comm_agree(comm, LKS_OK);
    return status == LKS_OK ? 0 : ranks_say(status);
}

/* One is stopped. */
static int ranks_stop(lks_comm *comm, int number)
{
    lki_comm_step(comm, 12);
    if (lks_comm_agree(comm, LKS_OK) != LKS_OK) return ranks_say(LKS_E_COMM);
    usleep(600000); /* a beat goes */
    if (lks_comm_rank(comm) == number) raise(SIGSTOP);
    const lks_status status = lks_comm_agree(comm, LKS_OK);
    return status == LKS_OK ? 0 : ranks_say(status);
}

/* One is stopped, and the others never come to a collective, which would tell them. */
static int ranks_stuck(lks_comm *comm, int number)
{
    if (lks_comm_agree(comm, LKS_OK) != LKS_OK) return ranks_say(LKS_E_COMM);
    const char *said = getenv("LKT_SAID"); /* a file, as launchers may pass on nothing for long */
    FILE *out = said != NULL ? fopen(said, "a") : stdout;
    if (out == NULL) return 3;
    fprintf(out, "rank %d waits\n", lks_comm_rank(comm));
    fflush(out);
    if (lks_comm_rank(comm) == number) raise(SIGSTOP);
    for (;;) pause();
    return 0;
}

static void on_lost(void *user, const lks_comm *comm, const char *sentence, bool late)
{
    (void)user;
    printf("%s %d: %s\n", late ? "ends without" : "lost", lks_comm_lost(comm), sentence);
    fflush(stdout);
    if (late) _exit(99);
}

/* One fails alone, and all say why. */
static int ranks_fail(lks_comm *comm, int number)
{
    const lks_status mine = lks_comm_rank(comm) == number ? lks_fail(LKS_E_IO, "there is no disk")
                                                          : LKS_OK;
    const lks_status status = lks_comm_agree(comm, mine);
    return status == LKS_OK ? 0 : ranks_say(status);
}

/* One does not come to what the others wait for, and ends when it is told to. */
static int ranks_late(lks_comm *comm, int number)
{
    if (lks_comm_rank(comm) == number) usleep(3500000);
    const lks_status status = lks_comm_agree(comm, LKS_OK);
    return status == LKS_OK ? 0 : ranks_say(status);
}

/* One ends all, at once. */
static int ranks_abort(lks_comm *comm, int number)
{
    if (lks_comm_rank(comm) == number) comm->transport->abort(comm->link, 5);
    const lks_status status = lks_comm_agree(comm, LKS_OK);
    return status == LKS_OK ? 0 : ranks_say(status);
}

/* All that a transport promises. */
static int ranks_transport(lks_comm *comm, int number)
{
    static int (*const bodies[])(lks_comm *, int) = {ranks_exchange, ranks_flights, ranks_gather,
                                                     ranks_sum, ranks_share};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        const int result = bodies[i](comm, number);
        if (result != 0) return result;
    }
    return lks_comm_size(comm) > 1 ? ranks_missing(comm, 1) : 0;
}

static const struct {
    const char *name;
    int (*body)(lks_comm *comm, int number);
} cases[] = {
    {"join", ranks_join},         {"exit", ranks_exit},       {"kill", ranks_kill},
    {"fail", ranks_fail},         {"late", ranks_late},       {"abort", ranks_abort},
    {"stop", ranks_stop},         {"stuck", ranks_stuck},     {"transport", ranks_transport},
    {"exchange", ranks_exchange}, {"unequal", ranks_unequal},
};

static int ranks_run(int argc, char **argv, const lks_comm_opts *given)
{
    const char *name = argc > 1 ? argv[1] : "", *timeout = getenv("LKT_TIMEOUT");
    const char *watch = getenv("LKT_WATCH");
    lks_comm_opts opts = *given;
    opts.transport = getenv("LKT_TRANSPORT");
    opts.timeout_s = timeout != NULL ? atof(timeout) : 0;
    opts.watch_s = watch != NULL ? atof(watch) : 0;
    opts.on_lost = on_lost;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lks_comm *comm;
        if (strcmp(cases[i].name, name) != 0) continue;
        const lks_status status = lks_comm_create(&comm, &opts);
        if (status != LKS_OK) {
            /* Hydra loses processes that end within milliseconds, and then dies of SIGPIPE itself. */
            usleep(200000);
            return ranks_say(status);
        }
        const int result = cases[i].body(comm, argc > 2 ? atoi(argv[2]) : 0);
        lks_comm_destroy(comm);
        return result;
    }
    fprintf(stderr, "there is no case '%s'\n", name);
    return 2;
}

int main(int argc, char **argv)
{
    const char *sockets = getenv("LKT_SOCKETS");
    char id[LKS_COMM_ID];
    lks_comm_opts opts = {.size = sockets != NULL ? atoi(sockets) : 0};
    if (sockets == NULL) return ranks_run(argc, argv, &opts);
    if (lks_comm_make_id(id, NULL) != LKS_OK) return ranks_say(lks_last_error()->status);
    opts.id = id;
    for (opts.rank = 1; opts.rank < opts.size; opts.rank++)
        if (fork() == 0) return ranks_run(argc, argv, &opts);
    opts.rank = 0;
    int result = ranks_run(argc, argv, &opts), status = 0;
    while (wait(&status) > 0)
        if (status != 0) result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return result;
}

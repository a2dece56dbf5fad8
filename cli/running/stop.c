/* lockstep stop: ends one run of this user, as Ctrl-C does. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cli/out/text.h"
#include "cli/process.h"
#include "cli/running/running.h"
#include "recipe/text/setting.h"

/* Saving a large checkpoint takes its time. */
enum { PATIENCE_S = 120 };

/* The run's ranks come one behind the other; NULL where there is none, or *runs are several. */
static const running_rank *find_run(const char *wanted, const running_rank *rank, int count,
                                    int *runs, int *ranks)
{
    char whole[PATH_MAX];
    int64_t number = 0;
    const running_rank *found = NULL;
    if (!lki_text_is_int(wanted, &number)) number = 0;
    const bool is_path = realpath(wanted, whole) != NULL;
    *runs = *ranks = 0;
    for (int i = 0; i < count; i++) {
        const running_note *n = &rank[i].note;
        if (n->run != number && !(is_path && strcmp(n->folder, whole) == 0)) continue;
        const bool same = found != NULL && found->note.run == n->run &&
                          strcmp(found->note.lead, n->lead) == 0;
        *runs += !same;
        if (found == NULL) found = &rank[i];
        *ranks += same || *runs == 1;
    }
    return *runs == 1 ? found : NULL;
}

/* The `lockstep launch` that a rank stands under, which passes the signal on to all of them; else the rank itself. */
static int64_t head_of(int64_t process)
{
    int64_t head = process;
    for (int depth = 0; depth < 16 && process > 1; depth++) {
        process = process_stat(process, PROCESS_PARENT);
        if (process > 1 && running_is_launch(process)) head = process;
    }
    return head;
}

/* A process that has ended cannot be mistaken for one that got its number: the descriptor is of the one that is
 * checked behind it. */
static lks_status send_order(int64_t process, int64_t start)
{
    const int file = (int)syscall(SYS_pidfd_open, (pid_t)process, 0);
    const bool none = file < 0 && errno == ESRCH, old = file < 0 && errno == ENOSYS;
    lks_status status = LKS_OK;
    if (none || process_stat(process, PROCESS_START) != start) {
        if (file >= 0) close(file);
        return LKS_OK; /* it has ended by itself */
    }
    if (!running_is_ours(process))
        status = lks_fail(LKS_E_STATE,
                          "process %" PRId64 " is not this program, or not yours; nothing was sent",
                          process);
    else if ((file >= 0 ? (int)syscall(SYS_pidfd_send_signal, file, SIGTERM, NULL, 0)
              : old     ? kill((pid_t)process, SIGTERM)
                        : -1) != 0 &&
             errno != ESRCH)
        status = lks_fail(LKS_E_IO, "process %" PRId64 " cannot be told to stop: %s", process,
                          strerror(errno));
    if (file >= 0) close(file);
    return status;
}

/* By the first rank that is here, or its launcher: the others learn it from that. */
static lks_status stop_run(const running_rank *rank, int ranks)
{
    const running_note *n = &rank->note;
    const int64_t head = head_of(n->process), start = process_stat(head, PROCESS_START);
    lks_status status = process_stat(n->process, PROCESS_START) == n->start
                            ? send_order(head, start)
                            : LKS_OK;
    if (status != LKS_OK) return status;
    for (int tenth = 0; tenth < 10 * PATIENCE_S; tenth++) {
        int left = 0;
        for (int i = 0; i < ranks; i++)
            left += process_stat(rank[i].note.process, PROCESS_START) == rank[i].note.start;
        if (left == 0) {
            say("run %" PRId64 " has ended", n->run);
            if (n->folder[0] == '\0') say_error("it had no --out: nothing of it is saved");
            return LKS_OK;
        }
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    return lks_fail(LKS_E_TIMEOUT,
                    "run %" PRId64 " has been told to stop, but process %" PRId64
                    " goes on after %d s; lockstep ps shows whether it gets on",
                    n->run, n->process, PATIENCE_S);
}

/* "y" or "yes"; whoever is not asked on a terminal has to have said it before. */
static lks_status ask(bool *yes, const running_rank *rank, int ranks)
{
    const running_note *n = &rank->note;
    char answer[16] = "";
    cli_pool pool = {0};
    *yes = false;
    if (!isatty(STDIN_FILENO))
        return lks_fail(LKS_E_INVALID, "stop asks before it ends a run, and standard input is no "
                                       "terminal; give --yes");
    fprintf(stderr, "Stop run %" PRId64 " (%s, %d rank%s here, step %" PRId64 ")? [y/N] ", n->run,
            text_clean(&pool, n->folder[0] != '\0' ? n->folder : n->config), ranks, TEXT_S(ranks),
            atomic_load_explicit(&n->step, memory_order_relaxed));
    fflush(stderr);
    pool_clear(&pool);
    if (fgets(answer, sizeof answer, stdin) != NULL) {
        answer[strcspn(answer, "\n")] = '\0';
        for (char *c = answer; *c != '\0'; c++) *c = (char)tolower((unsigned char)*c);
        *yes = strcmp(answer, "y") == 0 || strcmp(answer, "yes") == 0;
    }
    if (!*yes) say_error("nothing was stopped");
    return LKS_OK;
}

lks_status verb_stop(const cli_args *cli, int *code)
{
    running_rank *rank;
    int count, runs, ranks;
    bool yes = cli->local[LOCAL_YES] != NULL;
    lks_status status = running_list(&rank, &count, cli->pool);
    if (status != LKS_OK) return status;
    const running_rank *found = find_run(cli->operand[0], rank, count, &runs, &ranks);
    if (runs > 1)
        return lks_fail(LKS_E_INVALID,
                        "'%.300s' names %d runs; give the number of one, as "
                        "lockstep ps shows it",
                        cli->operand[0], runs);
    if (found == NULL)
        return lks_fail(LKS_E_INVALID,
                        "no run '%.300s' of yours is on this host; lockstep ps shows those that "
                        "are, by number and folder",
                        cli->operand[0]);
    if (!yes) status = ask(&yes, found, ranks);
    if (status != LKS_OK) return status;
    if (yes) return stop_run(found, ranks);
    *code = 1;
    return LKS_OK;
}

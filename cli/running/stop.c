/* lockstep stop: ends one run of this user, here or on another host, as Ctrl-C does. */
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
#include "cli/running/across.h"
#include "recipe/text/setting.h"

/* Saving a large checkpoint takes its time. */
enum { PATIENCE_S = 120 };

/* The one run of this name: its ranks come one behind the other. */
static lks_status find_run(running_ranks *out, const running_ranks *all, const cli_args *cli)
{
    char whole[PATH_MAX];
    int64_t number = 0;
    int runs = 0;
    const char *wanted = cli->operand[0], *hosts = cli->local[LOCAL_HOSTS];
    const char *path = realpath(wanted, whole) != NULL ? whole : wanted;
    char *list = pool_format(cli->pool, "%s", "");
    if (!lki_text_is_int(wanted, &number)) number = 0;
    for (int i = 0, next; i < all->count; i = next) {
        const running_note *n = &all->rank[i].note;
        bool is_path = false;
        next = i;
        do is_path |= strcmp(all->rank[next++].note.folder, path) == 0;
        while (next < all->count && running_goes_on(all, next));
        if (n->run != number && !is_path) continue;
        *out = (running_ranks){.rank = all->rank + i, .count = next - i};
        list = pool_format(cli->pool, "%s%srun %" PRId64 " in %.100s on %.60s", list,
                           runs++ > 0 ? ", " : "", n->run, text_clean(cli->pool, running_what(n)),
                           text_clean(cli->pool, n->host));
    }
    if (runs == 1) return LKS_OK;
    if (runs > 1)
        return lks_fail(LKS_E_INVALID,
                        "'%.100s' names %d runs: %.300s; give the number or the folder of one, or "
                        "stop it on its own host",
                        wanted, runs, list);
    return lks_fail(LKS_E_INVALID,
                    "no run '%.200s' of yours is on this host%s%.100s; lockstep ps shows those "
                    "that are, by number and folder, and with --hosts those on others",
                    wanted, hosts != NULL ? ", nor on " : "", hosts != NULL ? hosts : "");
}

/* The `lockstep launch` that a rank stands under, which passes the signal on to all of them; else the rank itself, and
 * not its watcher, which may have another signal for that. */
static int64_t head_of(int64_t process)
{
    int64_t head = process;
    for (int depth = 0; depth < 16 && process > 1; depth++) {
        process = process_stat(process, PROCESS_PARENT);
        if (process > 1 && running_is_launch(process) && !running_is_watcher(process))
            head = process;
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
static lks_status stop_here(const running_rank *rank, const running_ranks *run)
{
    const running_note *n = &rank->note;
    const int64_t head = head_of(n->process), start = process_stat(head, PROCESS_START);
    lks_status status = process_stat(n->process, PROCESS_START) == n->start
                            ? send_order(head, start)
                            : LKS_OK;
    if (status != LKS_OK) return status;
    for (int tenth = 0; tenth < 10 * PATIENCE_S; tenth++) {
        int left = 0;
        for (int i = 0; i < run->count; i++)
            left += run->rank[i].from == NULL &&
                    process_stat(run->rank[i].note.process, PROCESS_START) ==
                        run->rank[i].note.start;
        if (left == 0) return LKS_OK;
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    return lks_fail(LKS_E_TIMEOUT,
                    "run %" PRId64 " has been told to stop, but process %" PRId64
                    " goes on after %d s; lockstep ps shows whether it gets on",
                    n->run, n->process, PATIENCE_S);
}

/* "y" or "yes"; whoever is not asked on a terminal has to have said it before. */
static lks_status ask(bool *yes, const running_rank *rank, int ranks, cli_pool *pool)
{
    const running_note *n = &rank->note;
    char answer[16] = "";
    *yes = false;
    if (!isatty(STDIN_FILENO))
        return lks_fail(LKS_E_INVALID, "stop asks before it ends a run, and standard input is no "
                                       "terminal; give --yes");
    fprintf(stderr, "Stop run %" PRId64 " (%s, %d rank%s %s, step %" PRId64 ")? [y/N] ", n->run,
            text_clean(pool, running_what(n)), ranks, TEXT_S(ranks),
            rank->from != NULL ? pool_format(pool, "on %s", rank->from) : "here",
            atomic_load_explicit(&n->step, memory_order_relaxed));
    fflush(stderr);
    if (fgets(answer, sizeof answer, stdin) != NULL) {
        answer[strcspn(answer, "\n")] = '\0';
        for (char *c = answer; *c != '\0'; c++) *c = (char)tolower((unsigned char)*c);
        *yes = strcmp(answer, "y") == 0 || strcmp(answer, "yes") == 0;
    }
    if (!*yes) say_error("nothing was stopped");
    return LKS_OK;
}

/* The rank by which a run is stopped: the first that is here, else the first; and how many are on its host. */
static const running_rank *first_of(const running_ranks *run, int *ranks)
{
    const running_rank *first = &run->rank[0];
    *ranks = 0;
    for (int i = 0; i < run->count && first->from != NULL; i++)
        if (run->rank[i].from == NULL) first = &run->rank[i];
    for (int i = 0; i < run->count; i++)
        *ranks += strcmp(run->rank[i].note.host, first->note.host) == 0;
    return first;
}

lks_status verb_stop(const cli_args *cli, int *code)
{
    running_ranks all = {0}, run = {0};
    int lost, ranks;
    bool yes = cli->local[LOCAL_YES] != NULL;
    lks_status status = across_list(&all, &lost, cli, true);
    if (status == LKS_OK && lost > 0)
        status = lks_fail(LKS_E_COMM, "nothing was stopped, as another run of that name may be "
                                      "where nobody has answered; leave it out of --hosts");
    if (status == LKS_OK) status = find_run(&run, &all, cli);
    if (status != LKS_OK) return status;
    const running_rank *first = first_of(&run, &ranks);
    if (!yes) status = ask(&yes, first, ranks, cli->pool);
    if (status != LKS_OK) return status;
    if (!yes) {
        *code = 1;
        return LKS_OK;
    }
    status = first->from == NULL ? stop_here(first, &run)
                                 : across_stop(first, PATIENCE_S + 10, cli);
    if (status != LKS_OK) return status;
    say("run %" PRId64 " has ended", first->note.run);
    if (first->note.folder[0] == '\0') say_error("it had no --out: nothing of it is saved");
    return LKS_OK;
}

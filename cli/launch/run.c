/* The launcher: starts the starter, reads what watchers report, passes signals on, leaves nobody behind. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/launch/launch.h"
#include "cli/launch/report.h"
#include "cli/launch/spawn.h"
#include "cli/out/text.h"
#include "cli/process.h"

/* When a rank was killed, those of which that is the cause have this time to report too; when it ended with
 * an exit code, all may have agreed to, and have longer. Then all are ended, and what does not end is
 * killed. */
#define KILLED_S 0.3
#define AGREED_S 1.0
#define END_S    2.0

typedef struct failure {
    launch_report end;
    char *lines[TAIL_LINES];
    int count;
} failure;

typedef struct launcher {
    const launch_plan *plan;
    launch_sorter sorter;
    int output, signals;
    pid_t starter;
    int status;
    bool ended;
    int asked, times;         /* the first signal that asked us to stop, and how often */
    bool lost;                /* a host is */
    bool stopped;             /* a rank has ended as it was asked to */
    int stop;                 /* by what */
    failure *failed;          /* reported so far; lines come before their end */
    int failures, room, ends; /* how many have ended in failure */
    double hard_at, kill_at;  /* when to end and to kill the starter; 0: not */
} launcher;

static failure *of_rank(launcher *l, const launch_report *report)
{
    for (int i = 0; i < l->failures; i++)
        if (l->failed[i].end.rank == report->rank) return &l->failed[i];
    if (l->failures == l->room) {
        const int room = l->room > 0 ? 2 * l->room : 8;
        failure *more = pool_alloc(l->plan->pool, (size_t)room * sizeof *more);
        if (l->failures > 0) memcpy(more, l->failed, (size_t)l->failures * sizeof *more);
        l->failed = more;
        l->room = room;
    }
    failure *added = &l->failed[l->failures++];
    *added = (failure){.end = *report};
    added->end.ended = false;
    return added;
}

static void on_report(void *user, const launch_report *report)
{
    launcher *l = user;
    if (l->kill_at > 0) return; /* it was we who ended it */
    failure *f = of_rank(l, report);
    if (!report->ended) {
        if (f->count < TAIL_LINES)
            f->lines[f->count++] = pool_copy(l->plan->pool, report->text, strlen(report->text));
        return;
    }
    f->end = *report;
    if (report->stop != 0 && (report->code < 0 || report->code > 128)) {
        l->stopped = true;
        l->stop = report->stop;
        f->end.ended = false; /* no failure */
        return;
    }
    const double at = process_clock() + (report->code < 0 ? KILLED_S : AGREED_S);
    if (l->hard_at <= 0 || at < l->hard_at) l->hard_at = at;
    if (++l->ends == l->plan->ranks) l->hard_at = process_clock();
}

static void on_other(void *user, const char *bytes, size_t count)
{
    (void)user;
    while (count > 0) {
        const ssize_t done = write(STDERR_FILENO, bytes, count);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return;
        bytes += done;
        count -= (size_t)done;
    }
}

static void end_hard(launcher *l)
{
    if (!l->ended) kill(l->starter, l->plan->starter->hard);
    l->kill_at = process_clock() + END_S;
}

static void on_signal(launcher *l)
{
    struct signalfd_siginfo info;
    if (read(l->signals, &info, sizeof info) != sizeof info) return;
    const int number = (int)info.ssi_signo;
    const launch_starter *starter = l->plan->starter;
    if (number == SIGCHLD) {
        if (waitpid(l->starter, &l->status, WNOHANG) == l->starter) l->ended = true;
        return;
    }
    if (number == LAUNCH_LOST) {
        l->lost = true;
        end_hard(l);
        return;
    }
    if (l->asked == 0) l->asked = number;
    /* A terminal that goes sends SIGHUP twice, and a scheduler may repeat SIGUSR1. */
    const bool hasty = number == SIGINT || number == SIGTERM || number == SIGQUIT;
    l->times += hasty;
    if (hasty && l->times > 1)
        end_hard(l);
    else if (!l->ended)
        kill(l->starter, number == SIGUSR1 ? starter->user : starter->soft);
}

static bool take(launcher *l)
{
    char bytes[16384];
    const ssize_t count = read(l->output, bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) return true;
    if (count <= 0) return false;
    launch_sort(&l->sorter, bytes, (size_t)count);
    return true;
}

static void supervise(launcher *l)
{
    bool open = true;
    while (!l->ended) {
        const double now = process_clock();
        const double next = l->kill_at > 0 ? l->kill_at : l->hard_at;
        const int timeout = next <= 0 ? -1 : next <= now ? 0 : (int)(1000 * (next - now)) + 1;
        struct pollfd files[] = {{.fd = l->signals, .events = POLLIN},
                                 {.fd = open ? l->output : -1, .events = POLLIN}};
        if (poll(files, 2, timeout) == 0) {
            if (l->kill_at > 0)
                kill(-l->starter, SIGKILL);
            else
                end_hard(l);
            if (process_clock() > l->kill_at) l->kill_at = process_clock() + END_S;
            continue;
        }
        if (files[1].revents != 0) open = take(l);
        if (files[0].revents != 0) on_signal(l);
    }
    struct pollfd file = {.fd = l->output, .events = POLLIN};
    while (open && poll(&file, 1, 200) > 0) open = take(l);
    launch_sort_end(&l->sorter);
}

/* Processes of ranks whose own parents have ended are children of this one. */
static void end_orphans(void)
{
    char path[64], line[4096];
    snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)getpid());
    for (int turn = 0; turn < 100; turn++) {
        FILE *file = fopen(path, "re");
        const bool any = file != NULL && fgets(line, sizeof line, file) != NULL;
        if (file != NULL) fclose(file);
        if (!any) return;
        char *rest = line;
        for (char *end;; rest = end) {
            const long child = strtol(rest, &end, 10);
            if (end == rest || child <= 1) break;
            kill((pid_t)child, SIGKILL);
            waitpid((pid_t)child, NULL, 0);
        }
    }
}

/* Of several failures: whoever was ended by a signal, then whose exit code says something of its own; and
 * of these whose report came first. */
static const failure *first_failure(const launcher *l)
{
    const failure *best = NULL;
    for (int i = 0; i < l->failures; i++) {
        const failure *f = &l->failed[i];
        if (!f->end.ended) continue;
        if (best == NULL || (f->end.code < 0 && best->end.code >= 0)) best = f;
    }
    return best;
}

static const char *signal_text(cli_pool *pool, int number)
{
    static const struct name {
        int number;
        const char *text;
    } names[] = {{SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
                 {SIGHUP, "SIGHUP"},   {SIGILL, "SIGILL"},   {SIGINT, "SIGINT"},
                 {SIGKILL, "SIGKILL"}, {SIGPIPE, "SIGPIPE"}, {SIGQUIT, "SIGQUIT"},
                 {SIGSEGV, "SIGSEGV"}, {SIGTERM, "SIGTERM"}, {SIGXCPU, "SIGXCPU"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].number == number)
            return pool_format(pool, "%s (%s)", names[i].text, strsignal(number));
    return pool_format(pool, "signal %d (%s)", number, strsignal(number));
}

/* The sentence, and the last lines, but those of rank 0, which were to be read already. */
static int say_failure(const launcher *l, const failure *f)
{
    cli_pool *pool = l->plan->pool;
    const launch_report *end = &f->end;
    const bool shown = end->rank == 0;
    const char *how = end->code < 0 ? pool_format(pool, "was ended by %s",
                                                  signal_text(pool, -end->code - 128))
                                    : pool_format(pool, "ended with exit code %d", end->code);
    const char *logs = l->plan->logs != NULL
                           ? pool_format(pool, "; all of it is in %s/rank-%d.log there",
                                         l->plan->logs, end->rank)
                           : "";
    say_error("rank %d (host %s, process %ld) %s%s%s", end->rank, end->host, end->process, how,
              f->count > 0 && !shown ? "; its last lines follow" : "", logs);
    for (int i = 0; i < f->count && !shown; i++) {
        const char *line = f->lines[i];
        if (strncmp(line, "lockstep: ", 10) == 0) line += 10;
        say_error("rank %d: %s", end->rank, line);
    }
    return end->code < 0 ? -end->code : end->code;
}

/* All ranks failed in the same way, and so have agreed on what rank 0 has said. */
static bool all_agree(const launcher *l, const failure *first)
{
    int count = 0;
    for (int i = 0; i < l->failures; i++)
        count += l->failed[i].end.ended && l->failed[i].end.code == first->end.code;
    return first->end.code > 0 && count == l->plan->ranks && count > 1;
}

/* What verify, compare and doctor end with is no failure. */
static bool is_outcome(const launcher *l, const failure *f)
{
    static const int codes[] = {EXIT_DIFFERENT, EXIT_WARNING, EXIT_ERROR};
    bool found = false;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) found |= f->end.code == codes[i];
    return found && f->end.rank == 0 && strcmp(l->plan->rank[0], l->plan->self) == 0;
}

static lks_status judge(const launcher *l, int *code)
{
    const failure *first = first_failure(l);
    const int ended = WIFSIGNALED(l->status) ? 128 + WTERMSIG(l->status) : WEXITSTATUS(l->status);
    *code = 0;
    if (first != NULL && is_outcome(l, first))
        *code = first->end.code;
    else if (first != NULL && all_agree(l, first))
        say_error("all %d ranks ended with exit code %d", l->plan->ranks, *code = first->end.code);
    else if (first != NULL)
        *code = say_failure(l, first);
    else if (l->lost)
        return lks_fail(LKS_E_COMM, "a host is lost, and so all ranks were ended");
    else if (l->asked != 0 && (l->stopped || l->kill_at > 0 || ended != 0))
        *code = 128 + l->asked;
    else if (l->stopped)
        *code = 128 + l->stop;
    else if (ended != 0)
        return lks_fail(LKS_E_IO,
                        "%s ended with code %d before any rank could say why; what it said stands "
                        "above",
                        l->plan->program, ended);
    return LKS_OK;
}

lks_status launch_run(const launch_plan *plan, int *code)
{
    launcher l = {.plan = plan,
                  .sorter = {.token = plan->token, .report = on_report, .other = on_other}};
    l.sorter.user = &l;
    spawn_file output = {STDERR_FILENO, -1};
    /* srun goes on when it is killed, and ends its tasks when it is asked to end. */
    const bool remote = strcmp(plan->starter->name, "srun") == 0;
    fflush(stdout);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    l.signals = spawn_watch_signals();
    if (l.signals < 0)
        return lks_fail(LKS_E_NOMEM, "signals cannot be watched: %s", strerror(errno));
    signal(SIGPIPE, SIG_IGN); /* Hydra would die of one when a proxy ends before it */
    const lks_status status = spawn(&l.starter, launch_command(plan), &output, 1,
                                    remote ? SIGTERM : SIGKILL);
    signal(SIGPIPE, SIG_DFL);
    if (status != LKS_OK) return status;
    l.output = output.read;
    supervise(&l);
    end_orphans();
    return judge(&l, code);
}

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
#include "cli/launch/spawn.h"
#include "cli/launch/watching.h"
#include "cli/process.h"

/* When a rank was killed, those of which that is the cause have this time to report too, unless one that
 * misses it has; when it ended with an exit code, all may have agreed to, and have longer. Then all are ended,
 * and what does not end in the starter's time is killed. */
#define KILLED_S 0.3
#define AGREED_S 1.0
#define LOST_S   0.2
/* Ranks that are asked to stop before all of them have been started have this time to be. When all have stopped, the
 * starter has this time to see it: Open MPI's does not, where they stopped before they had met. */
#define STARTED_S 3.0
#define STOPPED_S 3.0

static launch_failure *of_rank(launch_watching *l, const launch_report *report)
{
    for (int i = 0; i < l->failures; i++)
        if (l->failed[i].end.rank == report->rank) return &l->failed[i];
    if (l->failures == l->room) {
        const int room = l->room > 0 ? 2 * l->room : 8;
        launch_failure *more = pool_alloc(l->plan->pool, (size_t)room * sizeof *more);
        if (l->failures > 0) memcpy(more, l->failed, (size_t)l->failures * sizeof *more);
        l->failed = more;
        l->room = room;
    }
    launch_failure *added = &l->failed[l->failures++];
    *added = (launch_failure){.end = *report};
    added->end.news = LAUNCH_SAYS;
    return added;
}

static void pass_soft(launch_watching *l)
{
    if (l->soft == 0 || l->begun < l->plan->ranks || l->ended) return;
    kill(l->starter, l->soft);
    l->soft = 0;
}

static void end_within(launch_watching *l, double seconds)
{
    const double at = process_clock() + seconds;
    if (l->hard_at <= 0 || at < l->hard_at) l->hard_at = at;
}

/* The end of the rank that is missed: nothing more is to be learned. */
static bool is_known(const launch_watching *l)
{
    bool ended = false;
    for (int i = 0; i < l->failures; i++)
        ended |= l->failed[i].end.news == LAUNCH_ENDS && l->failed[i].end.rank == l->missed;
    return l->named && ended;
}

/* A rank has noticed the loss of another, while the others may still wait for it. */
static void on_missed(launch_watching *l, const launch_report *report)
{
    if (!l->named && l->asked == 0) {
        l->named = true;
        l->missed = report->other;
        say_error("%s", report->text);
    }
    end_within(l, is_known(l) ? 0 : KILLED_S);
}

bool launch_is_stop(const launch_plan *plan, int code)
{
    return strcmp(plan->rank[0], plan->self) == 0 && code > 128;
}

static void on_end(launch_watching *l, const launch_report *report)
{
    launch_failure *f = of_rank(l, report);
    f->end = *report;
    const bool asked = report->stop != 0 && (report->code < 0 || report->code > 128);
    if (asked || launch_is_stop(l->plan, report->code)) {
        l->stopped = true;
        l->stop = asked ? report->stop : report->code - 128;
        f->end.news = LAUNCH_SAYS; /* no failure */
        if (++l->ends == l->plan->ranks) end_within(l, STOPPED_S);
        return;
    }
    const bool all = ++l->ends == l->plan->ranks;
    end_within(l, all || is_known(l) ? 0 : report->code < 0 ? KILLED_S : AGREED_S);
}

static void on_report(void *user, const launch_report *report)
{
    launch_watching *l = user;
    launch_failure *f;
    if (l->kill_at > 0) return; /* it was we who ended it */
    switch (report->news) {
    case LAUNCH_BEGINS:
        l->begun++;
        pass_soft(l);
        break;
    case LAUNCH_MISSES:
        on_missed(l, report);
        break;
    case LAUNCH_ENDS:
        on_end(l, report);
        break;
    case LAUNCH_SAYS:
        f = of_rank(l, report);
        if (f->count < TAIL_LINES)
            f->lines[f->count++] = pool_copy(l->plan->pool, report->text, strlen(report->text));
        break;
    }
}

static void on_other(void *user, const char *bytes, size_t count)
{
    const launch_watching *l = user;
    if (l->kill_at > 0) return; /* how its daemons miss it */
    process_write(STDERR_FILENO, bytes, count);
}

/* At first the starter is asked to end, then it is killed with all that is of its group. */
static void end_hard(launch_watching *l)
{
    if (l->ended) return;
    if (l->kill_at > 0)
        kill(-l->starter, SIGKILL);
    else
        kill(l->starter, l->plan->starter->hard);
    l->kill_at = process_clock() + l->plan->starter->end_s;
}

/* All ranks are to save and end, as if they had got this signal; if that hastes, also those that have not begun. */
static void ask(launch_watching *l, int number, bool hasty)
{
    const launch_starter *starter = l->plan->starter;
    if (l->asked == 0) l->asked = number;
    l->soft = number == SIGUSR1 ? starter->user : starter->soft;
    if (hasty) l->soft_at = process_clock() + STARTED_S;
    pass_soft(l);
}

static void on_signal(launch_watching *l)
{
    struct signalfd_siginfo info;
    if (read(l->signals, &info, sizeof info) != sizeof info) return;
    const int number = (int)info.ssi_signo;
    if (number == SIGCHLD) {
        if (waitpid(l->starter, &l->status, WNOHANG) == l->starter) l->ended = true;
        return;
    }
    /* A terminal that goes sends SIGHUP twice, and a scheduler may repeat SIGUSR1. */
    const bool hasty = number == SIGINT || number == SIGTERM || number == SIGQUIT;
    l->times += hasty;
    if (hasty && l->times > 1) {
        if (l->asked == 0) l->asked = number;
        end_hard(l);
        return;
    }
    ask(l, number, hasty);
}

static void on_order(launch_watching *l)
{
    char order = 0;
    if (read(l->plan->orders, &order, 1) != 1) return;
    if (order == LAUNCH_LOST && !l->lost) {
        l->lost = true;
        end_hard(l);
        l->kill_at = process_clock() + LOST_S; /* its daemons wait for those that are gone */
    }
    if (order == LAUNCH_GROW && l->asked == 0 && l->soft == 0) {
        l->grows = true;
        l->soft = l->plan->starter->user;
        pass_soft(l);
    }
}

static bool take(launch_watching *l)
{
    char bytes[16384];
    const ssize_t count = read(l->output, bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) return true;
    if (count <= 0) return false;
    launch_sort(&l->sorter, bytes, (size_t)count);
    return true;
}

/* What the ranks' standard output has. Where ours takes no more, say_flush() says so in the end; until then ranks go on,
 * unless nobody reads any more. */
static bool take_said(launch_watching *l)
{
    char bytes[16384];
    const ssize_t count = read(l->said, bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) return true;
    if (count <= 0) return false;
    if (l->mute) return true;
    fwrite(bytes, 1, (size_t)count, stdout);
    if (fflush(stdout) == 0) return true;
    l->mute = true;
    if (errno == EPIPE) ask(l, SIGPIPE, true);
    return true;
}

/* Until the starter is to end; below 0: it is not. */
static double seconds_left(const launch_watching *l)
{
    double at = l->kill_at > 0 ? l->kill_at : l->hard_at;
    if (at <= 0 && l->soft != 0) at = l->soft_at; /* it waits for ranks */
    if (at <= 0) return -1;
    const double left = at - process_clock();
    return left > 0 ? left : 0;
}

static void supervise(launch_watching *l)
{
    bool open = true, said = true;
    while (!l->ended) {
        const double left = seconds_left(l);
        const int timeout = left < 0 ? -1 : (int)(1000 * left) + (left > 0);
        struct pollfd files[] = {{.fd = l->signals, .events = POLLIN},
                                 {.fd = open ? l->output : -1, .events = POLLIN},
                                 {.fd = said ? l->said : -1, .events = POLLIN},
                                 {.fd = l->plan->orders, .events = POLLIN}};
        if (poll(files, 4, timeout) > 0) {
            if (files[1].revents != 0) open = take(l);
            if (files[2].revents != 0) said = take_said(l);
            if (files[0].revents != 0) on_signal(l);
            if (files[3].revents != 0) on_order(l);
        }
        if (seconds_left(l) == 0) end_hard(l); /* also where ranks do not stop talking */
    }
    struct pollfd file = {.fd = l->output, .events = POLLIN};
    while (open && poll(&file, 1, 200) > 0) open = take(l);
    file.fd = l->said;
    while (said && poll(&file, 1, 200) > 0) said = take_said(l);
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

lks_status launch_once(const launch_plan *plan, launch_end *end)
{
    launch_watching l = {.plan = plan,
                         .sorter = {.token = plan->token, .report = on_report, .other = on_other}};
    l.sorter.user = &l;
    spawn_file outputs[] = {{STDERR_FILENO, -1, 0}, {STDOUT_FILENO, -1, 0}};
    /* srun goes on when it is killed, and ends its tasks when it is asked to end. */
    const bool remote = strcmp(plan->starter->name, "srun") == 0;
    fflush(stdout);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    l.signals = spawn_watch_signals();
    if (l.signals < 0)
        return lks_fail(LKS_E_NOMEM, "signals cannot be watched: %s", strerror(errno));
    /* Of one Hydra would die when a proxy ends before it, and we when our reader does. */
    signal(SIGPIPE, SIG_IGN);
    const lks_status status = spawn(&l.starter, launch_command(plan), outputs, 2,
                                    remote ? SIGTERM : SIGKILL);
    if (status != LKS_OK) return status;
    l.output = outputs[0].read;
    l.said = outputs[1].read;
    supervise(&l);
    close(l.output);
    close(l.said);
    end_orphans();
    *end = launch_judge(&l);
    return LKS_OK;
}

/* The watcher of one rank: binds it, keeps what it prints, passes signals on, reports its end. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/launch/launch.h"
#include "cli/launch/report.h"
#include "cli/launch/spawn.h"
#include "cli/out/text.h"
#include "cli/process.h"
#include "machine/machine.h"
#include "recipe/text/setting.h"

enum { OUTPUTS = 2, LINGER_MS = 3000, DRAIN_MS = 200 };

typedef struct watcher {
    const launch_plan *plan;
    launch_place place;
    launch_report about; /* of which rank reports are */
    launch_tail *tail;
    launch_sorter errors; /* what the rank writes for the launcher goes to it as it is */
    int output[OUTPUTS];  /* the rank's standard output and error; -1: closed */
    int log;              /* -1: none */
    off_t begun;          /* where in it this rank begins */
    int signals;
    pid_t child;
    int asked;  /* the signal that was passed on; 0: none */
    int status; /* of the child, when it has ended */
    bool ended, alone;
} watcher;

/* Every folder of a path. */
static bool make_folders(const char *path)
{
    char part[PATH_MAX];
    if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part) return false;
    for (char *c = part + 1; *c != '\0'; c++) {
        if (*c != '/') continue;
        *c = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST) return false;
        *c = '/';
    }
    return mkdir(part, 0777) == 0 || errno == EEXIST;
}

static void open_log(watcher *w)
{
    char path[PATH_MAX];
    const char *folder = w->plan->logs;
    w->log = -1;
    if (folder == NULL) return;
    snprintf(path, sizeof path, "%s/rank-%d.log", folder, w->place.rank);
    if (make_folders(folder)) w->log = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (w->log >= 0) w->begun = lseek(w->log, 0, SEEK_END);
    if (w->log < 0)
        say_error("rank %d on %s has no log: '%s' cannot be opened: %s", w->place.rank,
                  w->about.host, path, strerror(errno));
}

/* Its part of the cores that this host's ranks have in common. */
static void choose_cores(const watcher *w)
{
    enum { MOST = 4096 };
    static lki_cpu cpus[MOST];
    const int local = w->place.local_ranks, cores = lks_cores();
    const int workers = w->plan->workers > 0 ? w->plan->workers : 1;
    const bool own = strcmp(w->plan->rank[0], w->plan->self) != 0; /* else it says so itself */
    if (own && w->place.local_rank == 0 && w->plan->hosts > 0 && (int64_t)local * workers > cores)
        say_error("%s: %d rank%s with %d worker%s each share %d core%s, so they wait for each "
                  "other; give fewer",
                  w->about.host, local, TEXT_S(local), workers, TEXT_S(workers), cores,
                  TEXT_S(cores));
    if (!w->plan->bind) return;
    int count = lki_allowed_cpus(cpus, MOST);
    if (count > MOST) return;
    lki_order_cpus(cpus, count);
    /* Slurm may have bound each task, or all of a node together, or none: then there is more than the
     * job has. */
    const char *each = getenv("SLURM_CPUS_PER_TASK");
    int64_t given;
    if (each != NULL && lki_text_is_int(each, &given) && given > 0) {
        if (count <= given) return;
        if (given * local < count) count = (int)(given * local);
    }
    count = lki_share_cpus(cpus, count, w->place.local_rank, local);
    (void)!lki_keep_to_cpus(cpus, count);
}

static void tell(const watcher *w, const launch_report *report)
{
    char line[REPORT_LINE];
    process_write(STDERR_FILENO, line, launch_report_print(line, w->plan->token, report));
}

static void keep(watcher *w, int which, const char *bytes, size_t count)
{
    if (w->log >= 0) process_write(w->log, bytes, count);
    if (w->place.rank == 0) process_write(which == 0 ? STDOUT_FILENO : STDERR_FILENO, bytes, count);
    launch_tail_add(w->tail, bytes, count);
}

static void on_said(void *user, const char *bytes, size_t count)
{
    keep(user, 1, bytes, count);
}

/* The launcher says it, whichever rank this is. */
static void on_missed(void *user, const launch_report *report)
{
    const watcher *w = user;
    char said[REPORT_TEXT_MOST + 16];
    const int length = snprintf(said, sizeof said, "lockstep: %s\n", report->text);
    tell(w, report);
    if (w->log >= 0) process_write(w->log, said, (size_t)length);
    launch_tail_add(w->tail, said, (size_t)length);
}

/* What there is of one output; false at its end. */
static bool take_output(watcher *w, int which)
{
    char bytes[8192];
    const ssize_t count = read(w->output[which], bytes, sizeof bytes);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    if (count <= 0) {
        close(w->output[which]);
        w->output[which] = -1;
        return false;
    }
    if (which == 0)
        keep(w, which, bytes, (size_t)count);
    else
        launch_sort(&w->errors, bytes, (size_t)count);
    return true;
}

static void take_signal(watcher *w)
{
    struct signalfd_siginfo info;
    if (read(w->signals, &info, sizeof info) != sizeof info) return;
    int number = (int)info.ssi_signo;
    if (number == SIGCHLD) {
        w->ended = waitpid(w->child, &w->status, WNOHANG) == w->child;
        return;
    }
    const launch_starter *starter = w->plan->starter;
    if (number == starter->quit)
        number = SIGKILL;
    else if (number == starter->soft && number != starter->user)
        number = SIGTERM;
    if (w->asked == 0 || number == SIGKILL) w->asked = number;
    kill(number == SIGKILL ? -w->child : w->child, number);
}

static void watch_poll(watcher *w, int timeout)
{
    struct pollfd files[2 + OUTPUTS] = {{.fd = w->signals, .events = POLLIN},
                                        {.fd = w->alone ? -1 : STDERR_FILENO}};
    for (int i = 0; i < OUTPUTS; i++)
        files[2 + i] = (struct pollfd){.fd = w->output[i], .events = POLLIN};
    if (poll(files, 2 + OUTPUTS, timeout) <= 0) return;
    for (int i = 0; i < OUTPUTS; i++)
        if (files[2 + i].revents != 0) take_output(w, i);
    if (files[0].revents != 0) take_signal(w);
    if (files[1].revents != 0) { /* nobody reads any more: the starter is gone */
        w->alone = true;
        w->asked = SIGKILL;
        kill(-w->child, SIGKILL);
    }
}

/* What is still in the pipes; a process that the rank has left behind may keep them open. */
static void drain(watcher *w)
{
    for (int i = 0; i < OUTPUTS; i++) {
        struct pollfd file = {.fd = w->output[i], .events = POLLIN};
        while (w->output[i] >= 0 && poll(&file, 1, DRAIN_MS) > 0)
            if (!take_output(w, i)) break;
    }
    launch_sort_end(&w->errors);
}

/* A rank that is not 0 writes most of what it says into its log itself: there are its last lines. */
static void take_log(watcher *w)
{
    enum { MOST = TAIL_LINES * 256 };
    char bytes[MOST];
    const off_t end = w->log >= 0 ? lseek(w->log, 0, SEEK_END) : 0;
    const off_t from = end - w->begun > MOST ? end - MOST : w->begun;
    const ssize_t count = end > from ? pread(w->log, bytes, (size_t)(end - from), from) : 0;
    if (count <= 0) return;
    *w->tail = (launch_tail){.count = 0};
    launch_tail_add(w->tail, bytes, (size_t)count);
}

static void tell_end(const watcher *w, int code)
{
    launch_report report = w->about;
    for (int i = 0; i < w->tail->count; i++) {
        snprintf(report.text, sizeof report.text, "%s", launch_tail_line(w->tail, i));
        tell(w, &report);
    }
    report.news = LAUNCH_ENDS;
    report.code = code;
    report.stop = w->asked;
    tell(w, &report);
}

/* The launcher ends all ranks when it has read the report, and this one: true. If it does not, the starter
 * will, seeing this process fail. */
static bool was_heard(const watcher *w)
{
    struct pollfd file = {.fd = w->signals, .events = POLLIN};
    return poll(&file, 1, LINGER_MS) > 0;
}

lks_status launch_watch(const launch_plan *plan, int *code)
{
    static launch_tail tail;
    watcher w = {.plan = plan, .tail = &tail, .about = {.process = (long)getpid()}};
    w.errors = (launch_sorter){
        .token = plan->token, .report = on_missed, .other = on_said, .user = &w};
    if (!launch_get_place(&w.place))
        return lks_fail(LKS_E_INVALID, "--watch is what lockstep launch starts by mpiexec or srun; "
                                       "give lockstep launch -n N -- train CONFIG");
    if (gethostname(w.about.host, sizeof w.about.host - 1) != 0) w.about.host[0] = '\0';
    w.about.rank = w.place.rank;
    open_log(&w);
    choose_cores(&w);
    setenv("LKS_LAUNCH", plan->token, 1);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_DFL); /* as its rank shall have it */
    w.signals = spawn_watch_signals();
    spawn_file outputs[] = {{STDOUT_FILENO, -1, 0}, {STDERR_FILENO, -1, 0}};
    lks_status status = w.signals < 0 ? lks_fail(LKS_E_NOMEM, "signals cannot be watched: %s",
                                                 strerror(errno))
                                      : spawn(&w.child, plan->rank, outputs, OUTPUTS, SIGKILL);
    if (status != LKS_OK) return status;
    signal(SIGPIPE, SIG_IGN); /* its rank shall save even when nobody reads */
    w.about.process = (long)w.child;
    w.about.news = LAUNCH_BEGINS;
    tell(&w, &w.about);
    w.about.news = LAUNCH_SAYS;
    for (int i = 0; i < OUTPUTS; i++) w.output[i] = outputs[i].read;
    while (!w.ended) watch_poll(&w, -1);
    kill(-w.child, SIGKILL); /* what it has started and left behind */
    drain(&w);
    const bool killed = WIFSIGNALED(w.status);
    *code = killed ? 128 + WTERMSIG(w.status) : WEXITSTATUS(w.status);
    /* A rank that was asked to stop, and did, has not failed: others may still be saving. */
    const bool stopped = w.asked != 0 ? killed || *code > 128
                                      : !killed && launch_is_stop(plan, *code);
    if (*code != 0) take_log(&w);
    if (*code != 0) tell_end(&w, killed ? -*code : *code);
    if (stopped || (*code != 0 && was_heard(&w))) *code = 0;
    return LKS_OK;
}

/* How the ranks have ended, and what of it is said. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/exit_code.h"
#include "cli/launch/watching.h"
#include "cli/out/text.h"

/* A rank that misses another ends with one of these. */
static bool misses(const launch_failure *f)
{
    return f->end.code == exit_code_of(LKS_E_COMM) || f->end.code == exit_code_of(LKS_E_TIMEOUT);
}

/* How much a failure looks like the cause of others. */
static int weight_of(const launch_watching *w, const launch_failure *f)
{
    if (w->named && f->end.rank == w->missed && !misses(f)) return 3;
    return f->end.code < 0 ? 2 : !misses(f);
}

/* Of several failures: whom another rank missed, then who was ended by a signal, then who does not just miss
 * others; and of these whose report came first. */
static const launch_failure *first_failure(const launch_watching *w)
{
    const launch_failure *best = NULL;
    for (int i = 0; i < w->failures; i++) {
        const launch_failure *f = &w->failed[i];
        if (f->end.news != LAUNCH_ENDS) continue;
        if (best == NULL || weight_of(w, f) > weight_of(w, best)) best = f;
    }
    return best;
}

/* What comes from outside need not come again; of a program that is not ours we do not know. */
static bool is_death(const launch_watching *w)
{
    bool any = false;
    for (int i = 0; i < w->failures; i++) {
        const launch_failure *f = &w->failed[i];
        any |= f->end.news == LAUNCH_ENDS && (w->plan->own || f->end.code < 0 || misses(f));
    }
    return any || w->named || w->lost;
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
static int say_failure(const launch_watching *w, const launch_failure *f)
{
    cli_pool *pool = w->plan->pool;
    const launch_report *end = &f->end;
    const bool shown = end->rank == 0;
    const char *how = end->code < 0 ? pool_format(pool, "was ended by %s",
                                                  signal_text(pool, -end->code - 128))
                                    : pool_format(pool, "ended with exit code %d", end->code);
    const char *logs = w->plan->logs != NULL
                           ? pool_format(pool, "; all of it is in %s/rank-%d.log there",
                                         w->plan->logs, end->rank)
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
static bool all_agree(const launch_watching *w, const launch_failure *first)
{
    int count = 0;
    for (int i = 0; i < w->failures; i++)
        count += w->failed[i].end.news == LAUNCH_ENDS && w->failed[i].end.code == first->end.code;
    return first->end.code > 0 && count == w->plan->ranks && count > 1;
}

/* What verify, compare and doctor end with is no failure. */
static bool is_outcome(const launch_watching *w, const launch_failure *f)
{
    static const int codes[] = {EXIT_DIFFERENT, EXIT_WARNING, EXIT_ERROR};
    bool found = false;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) found |= f->end.code == codes[i];
    return found && f->end.rank == 0 && !w->plan->own;
}

/* No rank has said anything: its code, or what ended the starter. */
static launch_end judge_starter(const launch_watching *w)
{
    const bool killed = WIFSIGNALED(w->status);
    const char *how = killed ? pool_format(w->plan->pool, "was ended by %s",
                                           signal_text(w->plan->pool, WTERMSIG(w->status)))
                             : pool_format(w->plan->pool, "ended with code %d",
                                           WEXITSTATUS(w->status));
    say_error("%s %s before any rank could say why; what it said stands above", w->plan->program,
              how);
    return (launch_end){killed || w->begun > 0 ? LAUNCH_DIED : LAUNCH_OVER, exit_code_of(LKS_E_IO)};
}

launch_end launch_judge(const launch_watching *w)
{
    const launch_failure *first = first_failure(w);
    const int ended = WIFSIGNALED(w->status) ? 128 + WTERMSIG(w->status) : WEXITSTATUS(w->status);
    const bool missing = first != NULL ? misses(first) : w->named;
    launch_end end = {is_death(w) ? LAUNCH_DIED : LAUNCH_OVER, 0};
    if (w->asked != 0) end.cause = LAUNCH_ASKED;
    if (missing && w->asked != 0) { /* some ended sooner than others */
        end.code = 128 + w->asked;
    } else if (missing && w->named) {
        end.code = exit_code_of(LKS_E_COMM);
    } else if (first != NULL && is_outcome(w, first)) {
        end.code = first->end.code;
    } else if (first != NULL && all_agree(w, first)) {
        say_error("all %d ranks ended with exit code %d", w->plan->ranks, first->end.code);
        end.code = first->end.code;
    } else if (first != NULL) {
        end.code = say_failure(w, first);
    } else if (w->lost) {
        say_error("a host is lost, and so all ranks were ended");
        end.code = exit_code_of(LKS_E_COMM);
    } else if (w->asked != 0 && (w->stopped || w->kill_at > 0 || ended != 0)) {
        end.code = 128 + w->asked;
    } else if (w->stopped) {
        end.code = 128 + w->stop;
        if (w->grows) end.cause = LAUNCH_GROWS;
    } else if (ended != 0) {
        end = judge_starter(w);
    }
    return end;
}

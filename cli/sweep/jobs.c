/* The trainings of a sweep as processes of their own, several at once. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/tools.h>

#include "cli/launch/spawn.h"
#include "cli/out/text.h"
#include "cli/process.h"
#include "cli/report/runs.h"
#include "cli/sweep/sweep.h"
#include "cli/verbs/record.h"

enum { LOOK_MS = 1000 }; /* how often records are looked at for the progress bar */

/* "lockstep train CONFIG --set ... --out FOLDER --resume": what the sweep was given, then what the run has. */
static char **train_command(const sweep_plan *plan, const sweep_run *run)
{
    const cli_args *cli = plan->cli;
    cli_pool *pool = cli->pool;
    enum { OWN = 16 };
    char **word = pool_alloc(pool,
                             ((size_t)(2 * (cli->settings + plan->axes)) + OWN) * sizeof *word);
    int n = 0;
    word[n++] = cli_program(cli);
    word[n++] = "train";
    word[n++] = cli->operand[0];
    if (cli->local[LOCAL_CONFIG] != NULL)
        word[n++] = pool_format(pool, "--config=%s", cli->local[LOCAL_CONFIG]);
    for (int i = 0; i < cli->settings; i++) {
        const cli_option *option = cli->setting[i].option;
        if (option->local == LOCAL_GRID) continue;
        word[n++] = option->argument == NULL
                        ? pool_format(pool, "--%s", option->name)
                        : pool_format(pool, "--%s=%s", option->name, cli->setting[i].text);
    }
    for (int a = 0; a < plan->axes; a++)
        word[n++] = pool_format(pool, "--set=%s=%s", plan->axis[a].key, run->value[a]);
    if (run->workers > 0) word[n++] = pool_format(pool, "--workers=%d", run->workers);
    word[n++] = pool_format(pool, "--out=%s", run->folder);
    word[n++] = pool_format(pool, "--record=%s", run->record);
    word[n++] = "--resume";
    word[n] = NULL;
    return word;
}

static lks_status start(sweep_plan *plan, sweep_run *run)
{
    lks_status status = lks_folder_make(run->folder);
    if (status != LKS_OK) return status;
    const int log = open(run->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (log < 0)
        return lks_fail(LKS_E_IO, "%.300s cannot be written: %s", run->log, strerror(errno));
    spawn_file files[] = {{STDOUT_FILENO, -1, log}, {STDERR_FILENO, -1, log}};
    status = spawn(&run->process, train_command(plan, run), files, 2, SIGTERM);
    close(log);
    if (status != LKS_OK) return status;
    run->state = SWEEP_RUNS;
    run->began = process_clock();
    return LKS_OK;
}

/* What it said last, into the pool: empty where it said nothing. */
static const char *last_line(cli_pool *pool, const char *path)
{
    enum { TAIL = 1000 };
    char text[TAIL + 1] = "";
    FILE *file = fopen(path, "re");
    if (file == NULL) return "";
    if (fseek(file, -TAIL, SEEK_END) != 0) rewind(file);
    size_t used = fread(text, 1, TAIL, file);
    fclose(file);
    while (used > 0 && text[used - 1] == '\n') used--;
    text[used] = '\0';
    const char *line = strrchr(text, '\n');
    return text_clean(pool, line != NULL ? line + 1 : text);
}

/* Why one more line does not fit into the log; 0: it does. */
static int log_error(const sweep_run *run)
{
    const int log = open(run->log, O_WRONLY | O_APPEND | O_CLOEXEC);
    const int error = log < 0 || write(log, "\n", 1) != 1 ? errno : 0;
    if (log >= 0) close(log);
    return error;
}

/* The sentence that it ended with, or what became of that. */
static const char *failure_of(const sweep_run *run, cli_pool *pool)
{
    const char *line = last_line(pool, run->log);
    if (strncmp(line, "lockstep: ", 10) == 0) return line + 10;
    const int error = log_error(run);
    if (error != 0) return pool_format(pool, "%s cannot be written: %s", run->log, strerror(error));
    return *line != '\0' ? line
                         : pool_format(pool, "it said nothing, and ended with code %d", run->code);
}

static void say_end(const sweep_plan *plan, const sweep_run *run)
{
    cli_pool *pool = plan->cli->pool;
    if (run->state == SWEEP_FAILED)
        say("%s: failed: %s", run->name, failure_of(run, pool));
    else if (run->state != SWEEP_STOPPED)
        say("%s: %s, %s", run->name, run->state == SWEEP_FINISHED ? "finished" : "diverged",
            runs_time(pool, run->seconds));
}

static void on_end(sweep_plan *plan, sweep_run *run, int ended)
{
    run->seconds = process_clock() - run->began;
    run->code = WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);
    run->state = run->code == 0                             ? SWEEP_FINISHED
                 : run->code == exit_code_of(LKS_E_NUMERIC) ? SWEEP_DIVERGED
                 : run->code > 128                          ? SWEEP_STOPPED
                                                            : SWEEP_FAILED;
    say_status(NULL);
    say_end(plan, run);
}

/* How much of its epochs a run that goes on has behind it. */
static double share_of(const sweep_run *run)
{
    json_t *record;
    const json_t *epochs = json_object_get(json_object_get(run->config, "train"), "epochs");
    if (run->state != SWEEP_RUNS) return run->state != SWEEP_WAITS;
    if (record_read(&record, run->record) != LKS_OK) return 0;
    const double done = (double)json_array_size(json_object_get(record, "epochs"));
    json_decref(record);
    return json_number_value(epochs) >= done && done > 0 ? done / json_number_value(epochs) : 0;
}

static void draw(const sweep_plan *plan)
{
    double share = 0;
    int done = 0;
    const char *name = NULL;
    if (say_width() == 0) return;
    for (int r = 0; r < plan->count; r++) {
        const sweep_run *run = &plan->run[r];
        share += share_of(run);
        done += run->state != SWEEP_WAITS && run->state != SWEEP_RUNS;
        if (run->state == SWEEP_RUNS && name == NULL) name = run->name;
    }
    const char *counted = pool_format(plan->cli->pool, "%d of %d", done, plan->count);
    say_bar("sweep", share / plan->count, (const char *const[]){counted, name != NULL ? name : ""},
            2);
}

static void read_signals(sweep_plan *plan, int file, int *signal)
{
    struct signalfd_siginfo info;
    while (read(file, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGCHLD) continue;
        if (*signal == 0) *signal = (int)info.ssi_signo;
        for (int r = 0; r < plan->count; r++)
            if (plan->run[r].state == SWEEP_RUNS) kill(plan->run[r].process, (int)info.ssi_signo);
    }
    for (int r = 0; r < plan->count; r++) {
        int ended;
        sweep_run *run = &plan->run[r];
        if (run->state == SWEEP_RUNS && waitpid(run->process, &ended, WNOHANG) == run->process)
            on_end(plan, run, ended);
    }
}

/* As many as are to run at once; none behind a signal. */
static lks_status start_more(sweep_plan *plan)
{
    for (int r = 0; r < plan->count && sweep_count(plan, SWEEP_RUNS) < plan->jobs; r++) {
        if (plan->run[r].state != SWEEP_WAITS) continue;
        const lks_status status = start(plan, &plan->run[r]);
        if (status != LKS_OK) return status;
    }
    return LKS_OK;
}

lks_status sweep_run_all(sweep_plan *plan, int *signal)
{
    lks_error first = {.status = LKS_OK};
    *signal = 0;
    fflush(stdout);
    const int signals = spawn_watch_signals();
    if (signals < 0) return lks_fail(LKS_E_NOMEM, "signals cannot be watched: %s", strerror(errno));
    for (;;) {
        if (*signal == 0 && first.status == LKS_OK && start_more(plan) != LKS_OK)
            first = *lks_last_error(); /* those that run go on to their ends */
        if (sweep_count(plan, SWEEP_RUNS) == 0) break;
        draw(plan);
        struct pollfd file = {signals, POLLIN, 0};
        poll(&file, 1, LOOK_MS);
        read_signals(plan, signals, signal);
    }
    say_status(NULL);
    return first.status == LKS_OK ? LKS_OK : lks_fail(first.status, "%s", first.message);
}

#include "cli/running/ask.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/launch/report.h"
#include "cli/launch/spawn.h"
#include "cli/out/text.h"
#include "cli/process.h"

/* A rank is some 500 bytes; whoever answers more is not believed. */
enum { ANSWER_MOST = 4 << 20, TICK_MS = 20, STREAMS = 2 };

typedef struct child {
    ask_host *host;
    pid_t process; /* 0: it has ended, and may have left its streams to others that live on */
    spawn_file stream[STREAMS];
    launch_tail errors;
} child;

/* The program lies at the same path there, and what a shell there makes of the line are these words. */
static char *line_of(const cli_args *cli, char *const *words)
{
    const char *runs = getenv("LKS_RUNS");
    char *front[] = {"env", "", cli_program(cli), NULL};
    if (runs != NULL) front[1] = pool_format(cli->pool, "LKS_RUNS=%s", runs);
    return pool_format(cli->pool, "%s %s", cli_words(cli->pool, front + (runs != NULL ? 0 : 2)),
                       cli_words(cli->pool, words));
}

/* ssh asks for no password: nobody could type several at the same time. */
static void begin(child *c, const cli_args *cli, char *line)
{
    const char *agent = cli->local[LOCAL_AGENT];
    char *name = pool_format(cli->pool, "%s", c->host->name);
    char *ssh[] = {"ssh", "-x", "-oBatchMode=yes", name, line, NULL};
    char *own[] = {pool_format(cli->pool, "%s", agent != NULL ? agent : ""), name, line, NULL};
    for (int i = 0; i < STREAMS; i++)
        c->stream[i] = (spawn_file){i == 0 ? STDOUT_FILENO : STDERR_FILENO, -1, 0};
    if (spawn(&c->process, agent != NULL ? own : ssh, c->stream, STREAMS, SIGKILL) != LKS_OK) {
        c->process = 0;
        c->host->failed = pool_format(cli->pool, "%s", lks_last_error()->message);
        return;
    }
    for (int i = 0; i < STREAMS; i++) (void)fcntl(c->stream[i].read, F_SETFL, O_NONBLOCK);
}

static void take_said(child *c, int which)
{
    static char said[1 << 16];
    ask_host *host = c->host;
    const int file = c->stream[which].read;
    if (file < 0) return;
    const ssize_t count = which == 0 ? read(file, host->answer + host->bytes,
                                            ANSWER_MOST + 1 - host->bytes)
                                     : read(file, said, sizeof said);
    if (count > 0 && which == 0) host->bytes += (size_t)count;
    if (count > 0 && which == 1) launch_tail_add(&c->errors, said, (size_t)count);
    if (count != 0) return;
    close(file);
    c->stream[which].read = -1;
}

static const char *reason_of(const child *c, const cli_args *cli, int status)
{
    const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    const char *said = c->errors.count > 0 ? launch_tail_line(&c->errors, c->errors.count - 1) : "";
    if (code == 0) return NULL;
    if (code == 126 || code == 127)
        return pool_format(cli->pool, "there is no %s that it could run", cli_program(cli));
    if (strncmp(said, "lockstep: ", 10) == 0) said += 10;
    if (*said != '\0') return text_clean(cli->pool, said);
    return pool_format(cli->pool, "%s ended with code %d",
                       cli->local[LOCAL_AGENT] != NULL ? cli->local[LOCAL_AGENT] : "ssh", code);
}

/* What has come is taken behind the look whether it has ended: so all of it has, as a pipe holds no more than that. */
static bool goes_on(child *c, const cli_args *cli, double until, double seconds)
{
    ask_host *host = c->host;
    int status = 0;
    if (c->process == 0) return false;
    const bool ended = waitpid(c->process, &status, WNOHANG) != 0;
    for (int i = 0; i < STREAMS; i++) take_said(c, i);
    if (host->bytes > ANSWER_MOST)
        host->failed = "it answers too much";
    else if (ended)
        host->failed = reason_of(c, cli, status);
    else if (process_clock() < until)
        return true;
    else
        host->failed = pool_format(cli->pool, "it has not answered within %g s", seconds);
    if (!ended) {
        kill(-c->process, SIGKILL);
        waitpid(c->process, NULL, 0);
    }
    for (int i = 0; i < STREAMS; i++)
        if (c->stream[i].read >= 0) close(c->stream[i].read);
    c->process = 0;
    return false;
}

void ask_hosts(const cli_args *cli, ask_host *host, int count, char *const *words, double seconds)
{
    child *all = pool_alloc(cli->pool, (size_t)count * sizeof *all);
    struct pollfd *files = pool_alloc(cli->pool, STREAMS * (size_t)count * sizeof *files);
    char *line = line_of(cli, words);
    const double until = process_clock() + seconds;
    signal(SIGCHLD, SIG_DFL); /* whoever started us may have ignored it */
    for (int i = 0; i < count; i++) {
        all[i].host = &host[i];
        host[i].answer = pool_alloc(cli->pool, ANSWER_MOST + 2); /* in use as far as it is full */
        begin(&all[i], cli, line);
    }
    for (bool more = count > 0; more;) {
        for (int i = 0; i < STREAMS * count; i++) {
            const child *c = &all[i / STREAMS];
            files[i] = (struct pollfd){.fd = c->process != 0 ? c->stream[i % STREAMS].read : -1,
                                       .events = POLLIN};
        }
        poll(files, STREAMS * (nfds_t)count, TICK_MS);
        more = false;
        for (int i = 0; i < count; i++) more |= goes_on(&all[i], cli, until, seconds);
    }
}

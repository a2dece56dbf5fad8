/* An agent that joins: it proves itself, says who it is, and starts the daemons that it is told to. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <lockstep/lockstep.h>

#include "cli/launch/spawn.h"
#include "cli/meet/meet.h"
#include "cli/meet/peer.h"
#include "cli/process.h"

enum { DAEMONS = 8, STREAMS = 2 };

typedef struct daemon_child {
    pid_t child; /* 0: the place is free */
    int number;
    int output[STREAMS];
} daemon_child;

typedef struct follower {
    const meet_plan *plan;
    peer *leader;
    uint8_t key[SEAL_KEY];
    daemon_child daemons[DAEMONS];
    int signals, times;
    bool welcome, over;
    int code;
} follower;

static void send_output(follower *f, const daemon_child *d, int stream, const char *bytes,
                        size_t count)
{
    if (count == 0) return;
    peer_send(f->leader, &(wire_message){.type = WIRE_SAID,
                                         .number = d->number,
                                         .stream = (uint8_t)(stream + 1),
                                         .output = (const uint8_t *)bytes,
                                         .output_bytes = count});
}

/* False at its end. */
static bool take_daemon_output(follower *f, daemon_child *d, int stream)
{
    static char bytes[WIRE_OUTPUT];
    const ssize_t count = read(d->output[stream], bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) return true;
    if (count <= 0) {
        close(d->output[stream]);
        d->output[stream] = -1;
        return false;
    }
    send_output(f, d, stream, bytes, (size_t)count);
    return true;
}

static void end_daemon(follower *f, daemon_child *d, int status)
{
    for (int i = 0; i < STREAMS; i++) {
        struct pollfd file = {.fd = d->output[i], .events = POLLIN};
        while (d->output[i] >= 0 && poll(&file, 1, 100) > 0 && take_daemon_output(f, d, i))
            continue;
        if (d->output[i] >= 0) close(d->output[i]);
    }
    kill(-d->child, SIGKILL);
    d->child = 0;
    peer_send(f->leader, &(wire_message){.type = WIRE_ENDED,
                                         .number = d->number,
                                         .code = WIFSIGNALED(status) ? -WTERMSIG(status)
                                                                     : WEXITSTATUS(status)});
}

static void end_all(follower *f)
{
    for (int i = 0; i < DAEMONS; i++)
        if (f->daemons[i].child > 0) {
            kill(-f->daemons[i].child, SIGKILL);
            waitpid(f->daemons[i].child, NULL, 0);
            f->daemons[i].child = 0;
        }
}

/* The MPI's own daemon, which lies beside its mpiexec here. */
static void start_daemon(follower *f, const wire_message *m)
{
    cli_pool *pool = f->plan->launch->pool;
    daemon_child *d = f->daemons;
    while (d < f->daemons + DAEMONS && d->child > 0) d++;
    lks_status status = LKS_OK;
    if (d == f->daemons + DAEMONS || !reach_is_daemon(m->text))
        status = lks_fail(LKS_E_INVALID, "'%.60s' is no daemon that may be started here", m->text);
    if (status == LKS_OK) {
        const char *mpiexec = f->plan->launch->program;
        char **words = pool_alloc(pool, ((size_t)m->words + 2) * sizeof *words);
        words[0] = pool_format(pool, "%.*s/%s", (int)(strrchr(mpiexec, '/') - mpiexec), mpiexec,
                               m->text);
        const char *at = m->list;
        for (int i = 0; i < m->words; i++, at += strlen(at) + 1)
            words[1 + i] = pool_copy(pool, at, strlen(at));
        spawn_file files[] = {{STDOUT_FILENO, -1, 0}, {STDERR_FILENO, -1, 0}};
        d->number = m->number;
        status = spawn(&d->child, words, files, STREAMS, SIGKILL);
        for (int i = 0; i < STREAMS; i++) d->output[i] = files[i].read;
        if (status == LKS_OK) return;
    }
    const daemon_child none = {.number = m->number};
    const char *text = lks_last_error()->message;
    if (d < f->daemons + DAEMONS) d->child = 0;
    send_output(f, &none, 1, text, strlen(text));
    peer_send(f->leader, &(wire_message){.type = WIRE_ENDED, .number = m->number, .code = 127});
}

static void stop_daemon(follower *f, const wire_message *m)
{
    for (int i = 0; i < DAEMONS; i++)
        if (f->daemons[i].child > 0 && f->daemons[i].number == m->number)
            kill(-f->daemons[i].child, m->signal);
}

static void join(follower *f)
{
    const meet_plan *plan = f->plan;
    wire_message m = {.type = WIRE_JOIN,
                      .node = plan->node,
                      .nodes = plan->nodes,
                      .ranks = plan->ranks,
                      .process = (int32_t)getpid()};
    snprintf(m.id, sizeof m.id, "%s", plan->id);
    snprintf(m.version, sizeof m.version, "%s", lks_version());
    snprintf(m.starter, sizeof m.starter, "%s", plan->launch->starter->name);
    if (gethostname(m.host, sizeof m.host - 1) != 0) m.host[0] = '\0';
    peer_send(f->leader, &m);
}

/* Only now is the secret read: the leader has left it before it answered. */
static lks_status on_challenge(follower *f, const wire_message *m)
{
    peer *l = f->leader;
    wire_message proof = {.type = WIRE_PROVE};
    const lks_status status = meet_key(f->key, f->plan);
    if (status == LKS_E_STATE)
        return lks_fail(LKS_E_INVALID,
                        "there is a rendezvous at %.200s:%.20s, but no secret for it here; set "
                        "LKS_RDZV_SECRET to what the first node has printed",
                        f->plan->host, f->plan->port);
    if (status != LKS_OK) return status;
    memcpy(l->draw.leader, m->random, WIRE_RANDOM);
    if (!seal_is_proof(m->proof, f->key, true, &l->draw))
        return lks_fail(LKS_E_COMM, "the rendezvous at %.200s:%.20s has another secret",
                        f->plan->host, f->plan->port);
    seal_prove(proof.proof, f->key, false, &l->draw);
    peer_send(l, &proof);
    seal_open_link(&l->link, f->key, false, &l->draw);
    l->state = PEER_PROVED;
    join(f);
    return LKS_OK;
}

static lks_status on_message(follower *f, const wire_message *m)
{
    switch (m->type) {
    case WIRE_CHALLENGE:
        return on_challenge(f, m);
    case WIRE_REFUSE:
        return lks_fail(LKS_E_COMM, "the rendezvous refuses this agent: %s", m->text);
    case WIRE_WELCOME:
        f->welcome = true;
        return LKS_OK;
    case WIRE_START:
        if (f->welcome) start_daemon(f, m);
        return LKS_OK;
    case WIRE_STOP:
        stop_daemon(f, m);
        return LKS_OK;
    case WIRE_BYE:
        f->over = true;
        f->code = m->code;
        return LKS_OK;
    default:
        return LKS_OK;
    }
}

static lks_status gone(const follower *f, const char *how)
{
    if (f->leader->state < PEER_PROVED)
        return lks_fail(LKS_E_COMM,
                        "what listens at %.200s:%.20s %s: it is no rendezvous, or one of another "
                        "version",
                        f->plan->host, f->plan->port, how);
    return lks_fail(LKS_E_COMM, "the rendezvous at %.200s:%.20s is lost: it %s", f->plan->host,
                    f->plan->port, how);
}

static lks_status hear(follower *f)
{
    static char words[WIRE_BODY];
    wire_message m;
    int found;
    if (!peer_read(f->leader)) return gone(f, "has closed the connection");
    while (!f->over && (found = peer_next(f->leader, &m, words)) != 0) {
        if (found < 0) return gone(f, "said something else");
        const lks_status status = on_message(f, &m);
        if (status != LKS_OK) return status;
    }
    return LKS_OK;
}

static void on_signal(follower *f)
{
    struct signalfd_siginfo info;
    int status;
    pid_t child;
    if (read(f->signals, &info, sizeof info) != sizeof info) return;
    const int number = (int)info.ssi_signo;
    if (number == SIGCHLD) {
        while ((child = waitpid(-1, &status, WNOHANG)) > 0)
            for (int i = 0; i < DAEMONS; i++)
                if (f->daemons[i].child == child) end_daemon(f, &f->daemons[i], status);
        return;
    }
    f->times += number == SIGINT || number == SIGTERM;
    f->code = 128 + number;
    if (!f->welcome || f->times > 1)
        f->over = true;
    else /* the leader tells all ranks */
        peer_send(f->leader, &(wire_message){.type = WIRE_STOP, .number = -1, .signal = number});
}

static lks_status serve_turn(follower *f)
{
    struct pollfd files[2 + DAEMONS * STREAMS] = {{.fd = f->leader->fd, .events = POLLIN},
                                                  {.fd = f->signals, .events = POLLIN}};
    for (int i = 0; i < DAEMONS * STREAMS; i++) {
        const daemon_child *d = &f->daemons[i / STREAMS];
        files[2 + i] = (struct pollfd){.fd = d->child > 0 ? d->output[i % STREAMS] : -1,
                                       .events = POLLIN};
    }
    poll(files, 2 + DAEMONS * STREAMS, 100);
    for (int i = 0; i < DAEMONS * STREAMS; i++)
        if (files[2 + i].revents != 0) take_daemon_output(f, &f->daemons[i / STREAMS], i % STREAMS);
    if (files[1].revents != 0) on_signal(f);
    if (!f->over && files[0].revents != 0) {
        const lks_status status = hear(f);
        if (status != LKS_OK) return status;
    }
    peer_beat(f->leader);
    const double silent = process_clock() - f->leader->heard;
    const double most = f->leader->state < PEER_PROVED ? PEER_PROOF_S : PEER_LOST_S;
    return silent > most && !f->over ? gone(f, "says nothing") : LKS_OK;
}

/* Until somebody listens at the endpoint. */
static lks_status find_leader(follower *f)
{
    const meet_plan *plan = f->plan;
    const double until = process_clock() + plan->timeout;
    char why[256] = "";
    int fd;
    while ((fd = meet_connect(plan, why, sizeof why)) < 0) {
        if (process_clock() > until)
            return lks_fail(LKS_E_TIMEOUT,
                            "nobody has listened at --rdzv-endpoint %.200s:%.20s for %g s (%s)",
                            plan->host, plan->port, plan->timeout, why);
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    f->leader = peer_create(fd, plan->host);
    return f->leader != NULL ? LKS_OK : lks_fail(LKS_E_NOMEM, "out of memory for an agent");
}

lks_status meet_follow(const meet_plan *plan, int *code)
{
    follower f = {.plan = plan};
    lks_status status = find_leader(&f);
    if (status != LKS_OK) return status;
    f.signals = spawn_watch_signals();
    wire_message hello = {.type = WIRE_HELLO};
    seal_random(hello.random, WIRE_RANDOM);
    memcpy(f.leader->draw.member, hello.random, WIRE_RANDOM);
    peer_send(f.leader, &hello);
    const double until = process_clock() + plan->timeout;
    while (status == LKS_OK && !f.over) {
        status = serve_turn(&f);
        if (status == LKS_OK && !f.welcome && !f.over && process_clock() > until + PEER_PROOF_S)
            status = lks_fail(LKS_E_TIMEOUT, "the other nodes have not come in %g s",
                              plan->timeout);
    }
    end_all(&f);
    peer_destroy(f.leader);
    *code = f.code;
    return status;
}

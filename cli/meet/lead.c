/* The agent at the endpoint: others join it, and it starts the ranks of all. */
#include "cli/meet/lead.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/out/text.h"
#include "cli/process.h"

static void drop(leader *l, int i)
{
    peer *p = l->peers[i];
    if (p->state < PEER_PROVED) l->strangers++;
    if (p->state == PEER_JOINED) {
        l->joined--;
        lead_lost(l, p);
    }
    peer_destroy(p);
    l->peers[i] = l->peers[--l->count];
}

/* Whoever does not prove himself has no claim to a place. */
static void make_room(leader *l)
{
    int oldest = -1, strangers = 0;
    for (int i = 0; i < l->count; i++) {
        if (l->peers[i]->state >= PEER_PROVED) continue;
        strangers++;
        if (oldest < 0 || l->peers[i]->since < l->peers[oldest]->since) oldest = i;
    }
    if (strangers >= LEAD_STRANGERS || l->count == LEAD_PEERS) drop(l, oldest >= 0 ? oldest : 0);
}

static void lead_accept(leader *l)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    char from[64] = "?";
    const int fd = accept4(l->listener, (struct sockaddr *)&address, &size, SOCK_CLOEXEC);
    if (fd < 0) return;
    (void)!getnameinfo((struct sockaddr *)&address, size, from, sizeof from, NULL, 0,
                       NI_NUMERICHOST);
    make_room(l);
    peer *p = peer_create(fd, from);
    if (p != NULL) l->peers[l->count++] = p;
}

/* False: this peer is to go. */
static bool lead_message(leader *l, peer *p, const wire_message *m)
{
    if (p->state == PEER_NEW && m->type == WIRE_HELLO) {
        wire_message challenge = {.type = WIRE_CHALLENGE};
        memcpy(p->draw.member, m->random, WIRE_RANDOM);
        seal_random(p->draw.leader, WIRE_RANDOM);
        memcpy(challenge.random, p->draw.leader, WIRE_RANDOM);
        seal_prove(challenge.proof, l->key, true, &p->draw);
        p->state = PEER_CHALLENGED;
        return peer_send(p, &challenge);
    }
    if (p->state == PEER_CHALLENGED && m->type == WIRE_PROVE) {
        if (!seal_is_proof(m->proof, l->key, false, &p->draw)) return false;
        seal_open_link(&p->link, l->key, true, &p->draw);
        p->state = PEER_PROVED;
        return true;
    }
    if (p->state == PEER_PROVED && m->type == WIRE_JOIN) {
        lead_admit(l, p, m);
        return p->fd >= 0;
    }
    if (p->state == PEER_PROVED) return m->type == WIRE_BEAT;
    if (p->state != PEER_JOINED) return false;
    if (m->type == WIRE_SAID || m->type == WIRE_ENDED) lead_said(l, p, m);
    if (m->type == WIRE_STOP) kill(getpid(), m->signal); /* as if typed here */
    return true;
}

static bool lead_hear(leader *l, peer *p)
{
    wire_message m;
    int found;
    if (!peer_read(p)) return false;
    while ((found = peer_next(p, &m, l->words)) > 0)
        if (!lead_message(l, p, &m)) return false;
    return found == 0;
}

/* Why a peer is to go now; NULL: it may stay. */
static const char *too_late(const peer *p)
{
    const double now = process_clock();
    if (p->fd < 0) return "its connection is closed";
    if (p->state < PEER_JOINED) return now - p->since > PEER_PROOF_S ? "it says nothing" : NULL;
    return now - p->heard > PEER_LOST_S ? "nothing has come from it for 2 s" : NULL;
}

static void lead_order(const leader *l, char order)
{
    (void)!write(l->orders, &order, 1);
}

static void look_after(leader *l, int i, bool heard)
{
    peer *p = l->peers[i];
    const char *why = heard ? too_late(p) : "its connection is closed";
    peer_beat(p);
    if (why == NULL) return;
    if (p->state == PEER_JOINED && !atomic_load(&l->stop)) {
        say_error("the agent of host %s (process %ld) is lost: %s", p->host, p->process, why);
        if (l->working && p->working) lead_order(l, LAUNCH_LOST);
    }
    drop(l, i);
}

void lead_turn(leader *l, int timeout)
{
    static struct pollfd files[2 + 2 * LEAD_PEERS];
    const int peers = l->count;
    const int daemons = l->daemon_count < LEAD_PEERS ? l->daemon_count : LEAD_PEERS;
    files[0] = (struct pollfd){.fd = l->listener, .events = POLLIN};
    files[1] = (struct pollfd){.fd = l->asks, .events = POLLIN};
    for (int i = 0; i < peers; i++)
        files[2 + i] = (struct pollfd){.fd = l->peers[i]->fd, .events = POLLIN};
    for (int i = 0; i < daemons; i++) /* which only hang up */
        files[2 + peers + i] = (struct pollfd){.fd = l->daemons[i].fd, .events = POLLIN};
    poll(files, (nfds_t)(2 + peers + daemons), timeout);
    for (int i = 0; i < daemons; i++)
        if (files[2 + peers + i].revents != 0 && l->daemons[i].fd >= 0) lead_hung_up(l, i);
    /* From the last to the first, as one that goes gives its place to the last. */
    for (int i = peers - 1; i >= 0; i--)
        look_after(l, i, files[2 + i].revents == 0 || lead_hear(l, l->peers[i]));
    if (files[1].revents != 0) lead_ask(l);
    if (files[0].revents != 0) lead_accept(l);
}

/* A folder of this user's alone with the socket, and this program under the name of ssh's place. */
static lks_status open_reach(leader *l)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(l->folder, sizeof l->folder, "/tmp/lockstep-XXXXXX");
    l->asks = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = l->asks >= 0 && mkdtemp(l->folder) != NULL;
    if (good) {
        snprintf(at.sun_path, sizeof at.sun_path, "%.60s/socket", l->folder);
        snprintf(l->path, sizeof l->path, "%s/reach", l->folder);
        good = bind(l->asks, (struct sockaddr *)&at, sizeof at) == 0 && listen(l->asks, 128) == 0 &&
               symlink(l->plan->launch->self, l->path) == 0;
    }
    l->plan->launch->agent = l->path;
    return good ? LKS_OK
                : lks_fail(LKS_E_IO, "there is no place for a socket in /tmp: %s", strerror(errno));
}

static void close_reach(leader *l)
{
    char path[128];
    if (l->asks < 0) return;
    close(l->asks);
    snprintf(path, sizeof path, "%s/socket", l->folder);
    unlink(path);
    unlink(l->path);
    rmdir(l->folder);
}

static void *serve(void *user)
{
    leader *l = user;
    while (!atomic_load(&l->stop)) {
        lead_turn(l, 50);
        if (l->growing || !lead_can_grow(l)) continue;
        l->growing = true;
        say_error("more hosts are there: ranks save, and start again with them");
        lead_order(l, LAUNCH_GROW);
    }
    return NULL;
}

/* While ranks run, a thread serves the agents. */
static lks_status begin_serving(leader *l)
{
    sigset_t all, before;
    char old;
    while (read(l->plan->launch->orders, &old, 1) == 1) continue; /* orders to those before */
    lead_number(l);
    l->working = true;
    l->growing = false;
    atomic_store(&l->stop, false);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&l->thread, NULL, serve, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0) return LKS_OK;
    l->working = false;
    return lks_fail(LKS_E_NOMEM, "no thread for the rendezvous: %s", strerror(error));
}

static void end_serving(leader *l)
{
    if (!l->working) return;
    atomic_store(&l->stop, true);
    pthread_join(l->thread, NULL);
    l->working = false;
}

static bool is_smaller(void *user)
{
    leader *l = user;
    end_serving(l);
    return lead_is_smaller(l);
}

static lks_status gather_again(void *user, int *code)
{
    leader *l = user;
    end_serving(l);
    const lks_status status = lead_gather(l, code);
    return status == LKS_OK && *code == 0 ? begin_serving(l) : status;
}

static lks_status work(leader *l, int *code)
{
    int orders[2];
    launch_plan *launch = l->plan->launch;
    const launch_meeting meeting = {l, is_smaller, gather_again};
    if (pipe2(orders, O_CLOEXEC | O_NONBLOCK) != 0)
        return lks_fail(LKS_E_NOMEM, "no pipe for the rendezvous: %s", strerror(errno));
    launch->orders = orders[0];
    l->orders = orders[1];
    launch->meeting = &meeting;
    lks_status status = begin_serving(l);
    if (status == LKS_OK) status = launch_run(launch, code);
    end_serving(l);
    close(orders[0]);
    close(orders[1]);
    return status;
}

lks_status meet_lead(const meet_plan *plan, int listener, int *code)
{
    const char *left = NULL;
    leader *l = calloc(1, sizeof *l);
    if (l == NULL) return lks_fail(LKS_E_NOMEM, "out of memory for a rendezvous");
    l->plan = plan;
    l->listener = listener;
    l->asks = -1;
    lks_status status = meet_make_key(l->key, &left, plan);
    if (status == LKS_OK) status = lead_gather(l, code);
    if (status == LKS_OK) status = open_reach(l);
    if (status == LKS_OK) status = work(l, code);
    const int end = status == LKS_OK ? *code : exit_code_of(status);
    for (int i = 0; i < l->count; i++) {
        if (l->peers[i]->state == PEER_JOINED)
            peer_send(l->peers[i], &(wire_message){.type = WIRE_BYE, .code = end});
        peer_destroy(l->peers[i]);
    }
    if (l->strangers > 0)
        say_error("%d connection%s to the rendezvous had no proof of the secret, and had no answer",
                  l->strangers, TEXT_S(l->strangers));
    close_reach(l);
    if (left != NULL) unlink(left);
    free(l->daemons);
    free(l);
    return status;
}

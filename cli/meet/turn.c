/* What comes to the endpoint: strangers, agents that join, what they say, and their silence. */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/meet/lead.h"
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
    l->count--; /* the others stay in the order in which they have come */
    memmove(&l->peers[i], &l->peers[i + 1], (size_t)(l->count - i) * sizeof *l->peers);
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

void lead_order(const leader *l, char order)
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
    /* From the last to the first, as those behind one that goes move up. */
    for (int i = peers - 1; i >= 0; i--)
        look_after(l, i, files[2 + i].revents == 0 || lead_hear(l, l->peers[i]));
    if (files[1].revents != 0) lead_ask(l);
    if (files[0].revents != 0) lead_accept(l);
}

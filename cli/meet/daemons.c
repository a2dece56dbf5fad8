/* Daemons that mpiexec asks for in ssh's place, and that agents on other nodes run. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "cli/meet/lead.h"

static peer *node_of(const leader *l, const char *host)
{
    for (int i = 0; i < l->count; i++)
        if (l->peers[i]->state == PEER_JOINED && l->peers[i]->fd >= 0 && l->peers[i]->working &&
            strcmp(l->peers[i]->host, host) == 0)
            return l->peers[i];
    return NULL;
}

static int place_of(leader *l)
{
    for (int i = 0; i < l->daemon_count; i++)
        if (l->daemons[i].fd < 0) return i;
    if (l->daemon_count == l->daemon_room) {
        const int room = l->daemon_room > 0 ? 2 * l->daemon_room : 16;
        lead_daemon *more = realloc(l->daemons, (size_t)room * sizeof *more);
        if (more == NULL) return -1;
        l->daemons = more;
        l->daemon_room = room;
    }
    l->daemons[l->daemon_count] = (lead_daemon){.fd = -1};
    return l->daemon_count++;
}

static bool is_ours(int fd)
{
    struct ucred who;
    socklen_t size = sizeof who;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.uid == geteuid();
}

/* "HOST\0LINE\0": what the agent of that host is to start. */
static bool hand_over(leader *l, int fd)
{
    static char asked[WIRE_BODY];
    wire_message m = {.type = WIRE_START, .list = l->words};
    size_t count;
    int type;
    if (!reach_read(fd, &type, asked, sizeof asked - 1, &count) || type != REACH_START)
        return false;
    asked[count] = '\0';
    const size_t host = strlen(asked) + 1;
    peer *p = node_of(l, asked);
    const int place = p != NULL && host < count ? place_of(l) : -1;
    if (place < 0 ||
        !reach_parse(m.text, sizeof m.text, l->words, sizeof l->words, &m.words, asked + host)) {
        say_error("nothing can be started on '%s': no agent of that name has joined, or it is no "
                  "daemon of an MPI",
                  asked);
        return false;
    }
    m.number = l->next_number++;
    l->daemons[place] = (lead_daemon){fd, m.number, p};
    return peer_send(p, &m);
}

void lead_ask(leader *l)
{
    const int fd = accept4(l->asks, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) return;
    const struct timeval wait = {.tv_sec = 2};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
    if (is_ours(fd) && hand_over(l, fd)) return;
    for (int i = 0; i < l->daemon_count; i++)
        if (l->daemons[i].fd == fd) l->daemons[i].fd = -1;
    close(fd);
}

void lead_said(leader *l, peer *p, const wire_message *m)
{
    lead_daemon *d = l->daemons;
    while (d < l->daemons + l->daemon_count && (d->fd < 0 || d->number != m->number)) d++;
    if (d == l->daemons + l->daemon_count || d->node != p) return;
    if (m->type == WIRE_SAID) {
        reach_write(d->fd, m->stream == 1 ? REACH_OUTPUT : REACH_ERROR, m->output, m->output_bytes);
        return;
    }
    reach_write(d->fd, REACH_ENDED, &m->code, sizeof m->code);
    close(d->fd);
    d->fd = -1;
}

/* mpiexec sees that its ssh has ended, and ends the ranks. */
void lead_lost(leader *l, const peer *p)
{
    for (int i = 0; i < l->daemon_count; i++)
        if (l->daemons[i].fd >= 0 && l->daemons[i].node == p) {
            close(l->daemons[i].fd);
            l->daemons[i].fd = -1;
        }
}

void lead_hung_up(leader *l, int daemon)
{
    lead_daemon *d = &l->daemons[daemon];
    peer_send(d->node, &(wire_message){.type = WIRE_STOP, .number = d->number, .signal = 9});
    close(d->fd);
    d->fd = -1;
}

#include "cli/meet/peer.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "cli/process.h"

peer *peer_create(int fd, const char *from)
{
    peer *p = calloc(1, sizeof *p);
    if (p == NULL) {
        close(fd);
        return NULL;
    }
    const int yes = 1;
    const struct timeval wait = {.tv_sec = (time_t)PEER_LOST_S};
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
    p->fd = fd;
    p->node = -1;
    p->since = p->heard = p->beaten = process_clock();
    snprintf(p->from, sizeof p->from, "%s", from);
    return p;
}

void peer_close(peer *p)
{
    if (p->fd >= 0) close(p->fd);
    p->fd = -1;
}

void peer_destroy(peer *p)
{
    if (p == NULL) return;
    peer_close(p);
    free(p);
}

void peer_finish(peer *p, double until)
{
    char rest[4096];
    if (p->fd >= 0) shutdown(p->fd, SHUT_WR);
    while (p->fd >= 0) {
        struct pollfd file = {.fd = p->fd, .events = POLLIN};
        const double left = until - process_clock();
        if (left <= 0 || poll(&file, 1, (int)(1000 * left)) <= 0) break;
        if (recv(p->fd, rest, sizeof rest, MSG_DONTWAIT) <= 0) break;
    }
    peer_close(p);
}

bool peer_send(peer *p, const wire_message *message)
{
    uint8_t frame[WIRE_HEADER + WIRE_BODY + WIRE_TAG];
    bool good;
    if (p->fd < 0) return false;
    const size_t length = wire_write(frame + WIRE_HEADER, WIRE_BODY, message, &good);
    size_t whole = WIRE_HEADER + length;
    if (good && wire_is_sealed(message->type))
        whole = seal_close(&p->link, frame, message->type, length);
    else if (good)
        wire_header_write(frame, message->type, length);
    for (size_t done = 0; good && done < whole;) {
        const ssize_t sent = send(p->fd, frame + done, whole - done, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        good = sent > 0;
        if (good) done += (size_t)sent;
    }
    if (!good) peer_close(p);
    return good;
}

void peer_beat(peer *p)
{
    const double now = process_clock();
    if (p->fd < 0 || p->state < PEER_PROVED || now - p->beaten < PEER_BEAT_S) return;
    p->beaten = now;
    peer_send(p, &(wire_message){.type = WIRE_BEAT});
}

/* What the last message stood in goes, and with it what that points at. */
static void drop_taken(peer *p)
{
    if (p->taken == 0) return;
    p->used -= p->taken;
    memmove(p->in, p->in + p->taken, p->used);
    p->taken = 0;
}

bool peer_read(peer *p)
{
    if (p->fd < 0) return false;
    drop_taken(p);
    const ssize_t got = recv(p->fd, p->in + p->used, sizeof p->in - p->used, MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    if (got <= 0) return false;
    p->used += (size_t)got;
    p->heard = process_clock();
    return true;
}

int peer_next(peer *p, wire_message *out, char *words)
{
    uint8_t *body = p->in + WIRE_HEADER;
    const bool sealed = p->state >= PEER_PROVED;
    wire_type type;
    size_t length;
    drop_taken(p);
    if (p->used < WIRE_HEADER) return 0;
    if (!wire_header_read(&type, &length, p->in, sealed)) return -1;
    if (p->used < WIRE_HEADER + length) return 0;
    if (sealed && !seal_open(&p->link, p->in, body, length)) return -1;
    if (!wire_read(out, type, body, sealed ? length - WIRE_TAG : length, words)) return -1;
    p->taken = WIRE_HEADER + length;
    return 1;
}

/* What travels over TCP: pieces in the order in which they were started, read and written as far as they go. */
#include "comm/socket/socket.h"

#include "base/check.h"
#include "comm/comm.h"
#include "base/context.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static lki_socket_piece *piece_make(lki_socket_link *link, int flight, void *data, size_t bytes)
{
    lki_socket_piece *piece = link->spare;
    if (piece != NULL) link->spare = piece->next;
    if (piece == NULL) piece = malloc(sizeof *piece);
    if (piece != NULL)
        *piece = (lki_socket_piece){.data = data, .header = {(uint64_t)flight, bytes}};
    return piece;
}

static void piece_free(lki_socket_link *link, lki_socket_piece *piece)
{
    piece->next = link->spare;
    piece->into = NULL;
    link->spare = piece;
}

static void queue_add(lki_socket_queue *queue, lki_socket_piece *piece)
{
    if (queue->first == NULL) queue->first = piece;
    if (queue->last != NULL) queue->last->next = piece;
    queue->last = piece;
    piece->next = NULL;
}

static void queue_remove(lki_socket_queue *queue, lki_socket_piece *piece)
{
    lki_socket_piece *before = NULL, *at = queue->first;
    for (; at != piece; at = at->next) before = at;
    if (before != NULL) before->next = piece->next;
    if (queue->first == piece) queue->first = piece->next;
    if (queue->last == piece) queue->last = before;
}

/* The first of a flight that nobody has claimed. */
static lki_socket_piece *queue_find(const lki_socket_queue *queue, uint64_t flight)
{
    lki_socket_piece *at = queue->first;
    while (at != NULL && (at->header.flight != flight || at->into != NULL)) at = at->next;
    return at;
}

static void count(lki_socket_link *link, int rank, uint64_t flight, int change)
{
    link->waiting[flight] += change;
    link->peer[rank].waiting[flight] += change;
}

static bool is_over(ssize_t result)
{
    return result == 0 || (result < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

static void hang_up(int *connection)
{
    close(*connection);
    *connection = -1;
}

/* Fails only by the other side's end, which the reading half sees as well. */
static void progress_out(lki_socket_link *link, int rank)
{
    lki_socket_peer *peer = &link->peer[rank];
    enum { HEADER = sizeof(lki_socket_header) };
    while (peer->out.first != NULL && peer->data >= 0) {
        lki_socket_piece *piece = peer->out.first;
        const size_t header_done = piece->done < HEADER ? piece->done : HEADER;
        const size_t data_done = piece->done - header_done;
        struct iovec parts[2] = {
            {(char *)&piece->header + header_done, HEADER - header_done},
            {piece->data + data_done, (size_t)piece->header.bytes - data_done}};
        const struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        const ssize_t sent = sendmsg(peer->data, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent <= 0) return;
        piece->done += (size_t)sent;
        if (piece->done < HEADER + piece->header.bytes) continue;
        queue_remove(&peer->out, piece);
        count(link, rank, piece->header.flight, -1);
        piece_free(link, piece);
    }
}

/* Somebody expects this piece: it has the size that was sent? */
static int check_size(int rank, const lki_socket_piece *expected, uint64_t sent, lki_fault *fault)
{
    if (expected->header.bytes == sent) return 0;
    return lki_socket_fault(fault, rank, "sent %llu bytes, and %llu were expected",
                            (unsigned long long)sent, (unsigned long long)expected->header.bytes);
}

static void deliver_early(lki_socket_link *link, int rank, lki_socket_piece *early)
{
    lki_socket_piece *into = early->into;
    memcpy(into->data, early->data, (size_t)early->header.bytes);
    count(link, rank, into->header.flight, -1);
    queue_remove(&link->peer[rank].early, early);
    free(early->data);
    piece_free(link, early);
    piece_free(link, into);
}

/* A header is here: the piece goes to its place, or where there is none yet to one of its own. */
static int begin_piece(lki_socket_link *link, int rank, lki_fault *fault)
{
    lki_socket_peer *peer = &link->peer[rank];
    const lki_socket_header header = peer->header;
    peer->header_done = 0;
    if (header.flight >= LKI_MAX_FLIGHTS)
        return lki_socket_fault(fault, rank, "sent what is no message of Lockstep's");
    peer->reading = queue_find(&peer->posted, header.flight);
    peer->reading_early = peer->reading == NULL;
    if (!peer->reading_early) {
        queue_remove(&peer->posted, peer->reading);
        return check_size(rank, peer->reading, header.bytes, fault);
    }
    char *data = malloc((size_t)header.bytes + 1);
    peer->reading = data != NULL ? piece_make(link, (int)header.flight, data, (size_t)header.bytes)
                                 : NULL;
    if (peer->reading == NULL) {
        free(data);
        return lki_socket_fault(fault, link->rank, "has no memory for %llu bytes",
                                (unsigned long long)header.bytes);
    }
    queue_add(&peer->early, peer->reading);
    return 0;
}

static void end_piece(lki_socket_link *link, int rank)
{
    lki_socket_peer *peer = &link->peer[rank];
    lki_socket_piece *piece = peer->reading;
    peer->reading = NULL;
    if (peer->reading_early && piece->into != NULL) deliver_early(link, rank, piece);
    if (peer->reading_early) return;
    count(link, rank, piece->header.flight, -1);
    piece_free(link, piece);
}

static int progress_in(lki_socket_link *link, int rank, lki_fault *fault)
{
    lki_socket_peer *peer = &link->peer[rank];
    while (peer->data >= 0) {
        lki_socket_piece *piece = peer->reading;
        char *to = piece != NULL ? piece->data + piece->done
                                 : (char *)&peer->header + peer->header_done;
        const size_t most = piece != NULL ? (size_t)piece->header.bytes - piece->done
                                          : sizeof peer->header - peer->header_done;
        const ssize_t got = recv(peer->data, to, most, MSG_DONTWAIT);
        if (is_over(got)) hang_up(&peer->data);
        if (got <= 0) return 0;
        if (piece == NULL) {
            peer->header_done += (size_t)got;
            if (peer->header_done == sizeof peer->header && begin_piece(link, rank, fault) != 0)
                return -1;
            continue;
        }
        piece->done += (size_t)got;
        if (piece->done == piece->header.bytes) end_piece(link, rank);
    }
    return 0;
}

static void progress_word(lki_socket_peer *peer)
{
    while (peer->word >= 0) {
        const size_t most = sizeof peer->said - peer->said_done;
        const ssize_t got = most > 0 ? recv(peer->word, (char *)&peer->said + peer->said_done, most,
                                            MSG_DONTWAIT)
                                     : 0;
        if (is_over(got)) hang_up(&peer->word);
        if (got <= 0) return;
        peer->said_done += (size_t)got;
    }
}

static int socket_progress(lki_socket_link *link, lki_fault *fault)
{
    if (link->wrong.rank >= 0) {
        *fault = link->wrong;
        return -1;
    }
    for (int r = 0; r < link->size; r++) {
        const lki_socket_peer *peer = &link->peer[r];
        const short out = peer->out.first != NULL ? POLLOUT : 0;
        link->look[2 * r] = (struct pollfd){.fd = peer->data, .events = (short)(POLLIN | out)};
        link->look[2 * r + 1] = (struct pollfd){.fd = peer->word, .events = POLLIN};
    }
    if (poll(link->look, 2 * (nfds_t)link->size, 0) <= 0) return 0;
    for (int r = 0; r < link->size; r++) {
        if (link->look[2 * r].revents & POLLOUT) progress_out(link, r);
        if (link->look[2 * r].revents != 0 && progress_in(link, r, fault) != 0) return -1;
        if (link->look[2 * r + 1].revents != 0) progress_word(&link->peer[r]);
    }
    return 0;
}

/* What a rank sent before it left still lands; who waits for more is told why none will come. */
static int socket_poll(void *to, int flight, bool *landed, lki_fault *fault)
{
    lki_socket_link *link = to;
    *landed = false;
    if (socket_progress(link, fault) != 0) return -1;
    for (int r = 0; r < link->size; r++) {
        const lki_socket_peer *peer = &link->peer[r];
        if (peer->waiting[flight] == 0 || peer->data >= 0 || peer->word >= 0) continue;
        if (peer->said_done < sizeof peer->said)
            return lki_socket_fault(fault, r, "is gone: its connection has ended");
        *fault = peer->said;
        fault->rank = r;
        fault->text[sizeof fault->text - 1] = '\0';
        return -1;
    }
    *landed = link->waiting[flight] == 0;
    return 0;
}

static int socket_missing(void *to, int flight)
{
    const lki_socket_link *link = to;
    for (int r = 0; r < link->size; r++)
        if (link->peer[r].waiting[flight] > 0) return r;
    return -1;
}

static int start_receive(lki_socket_link *link, int flight, const lki_piece *receive,
                         lki_fault *fault)
{
    lki_socket_peer *peer = &link->peer[receive->rank];
    lki_socket_piece *piece = piece_make(link, flight, receive->data, receive->bytes);
    if (piece == NULL) return lki_socket_fault(fault, link->rank, "has no memory for a message");
    count(link, receive->rank, (uint64_t)flight, 1);
    lki_socket_piece *early = queue_find(&peer->early, (uint64_t)flight);
    if (early == NULL) {
        queue_add(&peer->posted, piece);
        return 0;
    }
    early->into = piece;
    if (check_size(receive->rank, piece, early->header.bytes, &link->wrong) != 0) return 0;
    if (early != peer->reading) deliver_early(link, receive->rank, early);
    return 0;
}

static int start_send(lki_socket_link *link, int flight, int rank, const void *data, size_t bytes,
                      lki_fault *fault)
{
    union { /* is only read */
        const void *given;
        void *kept;
    } from = {data};
    lki_socket_piece *piece = piece_make(link, flight, from.kept, bytes);
    if (piece == NULL) return lki_socket_fault(fault, link->rank, "has no memory for a message");
    count(link, rank, (uint64_t)flight, 1);
    const bool idle = link->peer[rank].out.first == NULL;
    queue_add(&link->peer[rank].out, piece);
    if (idle) progress_out(link, rank);
    return 0;
}

static int socket_start(void *to, int flight, const lki_piece *send, int sends,
                        const lki_piece *receive, int receives, lki_fault *fault)
{
    lki_socket_link *link = to;
    int failed = 0;
    for (int i = 0; i < receives && !failed; i++)
        if (receive[i].bytes > 0) failed = start_receive(link, flight, &receive[i], fault);
    for (int i = 0; i < sends && !failed; i++)
        if (send[i].bytes > 0)
            failed = start_send(link, flight, send[i].rank, send[i].data, send[i].bytes, fault);
    return failed;
}

static int socket_gather(void *to, int flight, const void *mine, size_t bytes, void *all,
                         lki_fault *fault)
{
    lki_socket_link *link = to;
    char *place = (char *)all + (size_t)link->rank * bytes;
    int failed = 0;
    if (place != mine && bytes > 0) memcpy(place, mine, bytes);
    for (int i = 1; i < link->size && !failed && bytes > 0; i++) {
        const int from = (link->rank + link->size - i) % link->size;
        const lki_piece piece = {from, (char *)all + (size_t)from * bytes, bytes};
        failed = start_receive(link, flight, &piece, fault);
    }
    for (int i = 1; i < link->size && !failed && bytes > 0; i++)
        failed = start_send(link, flight, (link->rank + i) % link->size, place, bytes, fault);
    return failed;
}

/* Its last word fits into what the kernel keeps for a connection. Nothing that was lent is looked at again. */
static void socket_give_up(void *to, const lki_fault *fault)
{
    lki_socket_link *link = to;
    lki_fault said = *fault;
    said.rank = link->rank;
    link->broken = true;
    for (int r = 0; r < link->size; r++) {
        lki_socket_peer *peer = &link->peer[r];
        if (peer->word >= 0) {
            (void)!send(peer->word, &said, sizeof said, MSG_DONTWAIT | MSG_NOSIGNAL);
            shutdown(peer->word, SHUT_WR);
        }
        if (peer->data >= 0) shutdown(peer->data, SHUT_WR);
    }
}

/* No launcher is there to end the others: their next calls fail. */
static void socket_abort(void *to, int code)
{
    lki_fault fault = {.code = LKS_E_COMM};
    const lki_socket_link *link = to;
    snprintf(fault.text, sizeof fault.text, "rank %d has called lks_comm_abort() with code %d",
             link->rank, code);
    socket_give_up(to, &fault);
}

static void queue_free(lki_socket_queue *queue, bool own_data)
{
    for (lki_socket_piece *at = queue->first, *next; at != NULL; at = next) {
        next = at->next;
        if (own_data) free(at->data);
        if (at->into != NULL) free(at->into);
        free(at);
    }
}

/* Until all others have come to their end, too: what they have not read would be lost with a connection. */
static void part(lki_socket_link *link)
{
    lki_fault fault = {.rank = -1};
    const double begin = lki_seconds();
    bool some = true;
    for (int r = 0; r < link->size; r++)
        if (link->peer[r].data >= 0) shutdown(link->peer[r].data, SHUT_WR);
    while (some && lki_seconds() - begin < link->timeout_s) {
        if (socket_progress(link, &fault) != 0) return;
        some = false;
        for (int r = 0; r < link->size; r++) some = some || link->peer[r].data >= 0;
        if (some) poll(NULL, 0, 1);
    }
}

static void socket_close(void *to)
{
    lki_socket_link *link = to;
    if (link == NULL) return;
    for (int f = 0; f < LKI_MAX_FLIGHTS; f++) link->broken |= link->waiting[f] > 0;
    if (link->peer != NULL && link->look != NULL && !link->broken) part(link);
    for (int r = 0; r < link->size && link->peer != NULL; r++) {
        lki_socket_peer *peer = &link->peer[r];
        if (peer->data >= 0) close(peer->data);
        if (peer->word >= 0) close(peer->word);
        if (peer->reading != NULL && !peer->reading_early) free(peer->reading);
        queue_free(&peer->out, false);
        queue_free(&peer->posted, false);
        queue_free(&peer->early, true);
    }
    queue_free(&(lki_socket_queue){.first = link->spare}, false);
    free(link->peer);
    free(link->look);
    free(link);
}

static int socket_open(void **out, const void *how, lki_fault *fault)
{
    const lks_comm_opts *opts = how;
    *out = NULL;
    lki_socket_link *link = calloc(1, sizeof *link);
    if (link == NULL) return lki_socket_fault(fault, -1, "out of memory");
    link->wrong.rank = -1;
    link->rank = opts->rank;
    link->size = opts->size;
    link->timeout_s = opts->timeout_s > 0 ? opts->timeout_s : 600;
    link->peer = calloc((size_t)link->size, sizeof *link->peer);
    link->look = calloc(2 * (size_t)link->size, sizeof *link->look);
    for (int r = 0; r < link->size && link->peer != NULL; r++)
        link->peer[r].data = link->peer[r].word = -1;
    if (link->peer == NULL || link->look == NULL)
        lki_socket_fault(fault, -1, "out of memory for %d ranks", link->size);
    else if (lki_socket_join(link, opts, fault) == 0)
        return *out = link, 0;
    link->broken = true;
    socket_close(link);
    return -1;
}

static int socket_rank(const void *link)
{
    return ((const lki_socket_link *)link)->rank;
}
static int socket_size(const void *link)
{
    return ((const lki_socket_link *)link)->size;
}

static lks_status find_socket(const lki_transport **out, const void *how)
{
    static const lki_transport transport = {.name = "socket",
                                            .abi = LKI_TRANSPORT_ABI,
                                            .open = socket_open,
                                            .close = socket_close,
                                            .rank = socket_rank,
                                            .size = socket_size,
                                            .start = socket_start,
                                            .gather = socket_gather,
                                            .poll = socket_poll,
                                            .missing = socket_missing,
                                            .give_up = socket_give_up,
                                            .abort = socket_abort};
    const lks_comm_opts *opts = how;
    *out = &transport;
    if (opts == NULL)
        return LKI_FAIL(LKS_E_INVALID, "transport 'socket' needs an id, a rank and a size; rank 0 "
                                       "makes the id by lks_comm_make_id()");
    if (opts->size < 1 || opts->rank < 0 || opts->rank >= opts->size)
        return LKI_FAIL(LKS_E_INVALID, "rank %d of %d cannot be; ranks are 0 to size - 1",
                        opts->rank, opts->size);
    return LKS_OK;
}

const lki_way lki_socket_way = {.name = "socket", .find = find_socket};

/* How ranks meet that no launcher has started: at the address in an id, which rank 0 has made. */
#include "comm/socket/socket.h"
#include "comm/socket/tcp.h"

#include "base/check.h"
#include "base/context.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SECRET = 32, PATIENCE_S = 2 }; /* hexadecimal digits; for a hello that does not come */
typedef enum kind_of { WORD, DATA } kind_of;

/* What a rank says first of all on each connection. */
typedef struct hello {
    char secret[SECRET];
    int32_t kind, rank, size, port; /* port: where it listens */
} hello;

/* Where each rank listens. */
typedef struct place {
    struct sockaddr_storage address;
    uint32_t length;
} place;

typedef struct meeting {
    char address[LKS_COMM_ID], port[8], secret[SECRET + 1];
    double until;
    int listener;
    place *places; /* [size] */
} meeting;

/* The id that was made here last, and who listens for it. */
static struct {
    pthread_mutex_t mutex;
    int listener;
    char id[LKS_COMM_ID];
} made = {.mutex = PTHREAD_MUTEX_INITIALIZER, .listener = -1};

int lki_socket_fault(lki_fault *fault, int rank, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fault->rank = rank;
    vsnprintf(fault->text, sizeof fault->text, format, arguments);
    va_end(arguments);
    return -1;
}

static int listen_at(const char *address, int family, int *port)
{
    const struct addrinfo hints = {
        .ai_family = family, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct sockaddr_storage own;
    struct addrinfo *found = NULL;
    socklen_t length = sizeof own;
    if (getaddrinfo(address, "0", &hints, &found) != 0) return -1;
    const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool well = fd >= 0 && bind(fd, found->ai_addr, found->ai_addrlen) == 0 &&
                      listen(fd, 1024) == 0 &&
                      getsockname(fd, (struct sockaddr *)&own, &length) == 0;
    freeaddrinfo(found);
    if (!well && fd >= 0) close(fd);
    if (!well) return -1;
    *port = ntohs(own.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&own)->sin6_port
                                            : ((struct sockaddr_in *)&own)->sin_port);
    return fd;
}

lks_status lks_comm_make_id(char id[LKS_COMM_ID], const char *address)
{
    unsigned char random[SECRET / 2];
    char secret[SECRET + 1];
    int port = 0;
    if (id == NULL) return LKI_FAIL_NULL(id);
    if (address == NULL) address = "127.0.0.1";
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return LKI_FAIL(LKS_E_IO, "an id needs random bytes, and the system has none");
    for (int i = 0; i < SECRET / 2; i++) snprintf(secret + 2 * (size_t)i, 3, "%02x", random[i]);
    const int listener = listen_at(address, AF_UNSPEC, &port);
    if (listener < 0)
        return LKI_FAIL(LKS_E_COMM,
                        "this host cannot be reached at '%.100s'; give an address of it", address);
    if (snprintf(id, LKS_COMM_ID, "%s:%d:%s", address, port, secret) >= LKS_COMM_ID) {
        close(listener);
        return LKI_FAIL(LKS_E_INVALID, "the address '%.100s' is too long for an id", address);
    }
    pthread_mutex_lock(&made.mutex);
    if (made.listener >= 0) close(made.listener);
    made.listener = listener;
    snprintf(made.id, sizeof made.id, "%s", id);
    pthread_mutex_unlock(&made.mutex);
    return LKS_OK;
}

/* address:port:secret, where an address may have colons. */
static int read_id(meeting *m, const char *id, lki_fault *fault)
{
    char copy[LKS_COMM_ID];
    snprintf(copy, sizeof copy, "%s", id);
    char *secret = strrchr(copy, ':');
    if (secret != NULL) *secret++ = '\0';
    char *port = secret != NULL ? strrchr(copy, ':') : NULL;
    if (port == NULL || strlen(secret) != SECRET || strlen(id) >= sizeof copy ||
        strlen(port + 1) >= sizeof m->port)
        return lki_socket_fault(fault, -1, "'%.100s' is no id as lks_comm_make_id() makes it", id);
    *port++ = '\0';
    memcpy(m->address, copy, sizeof copy);
    snprintf(m->port, sizeof m->port, "%s", port);
    snprintf(m->secret, sizeof m->secret, "%s", secret);
    return 0;
}

static const char *reason(void)
{
    return errno != 0 ? strerror(errno) : "it has closed the connection";
}

/* Calls a rank, and says who this one is. */
static int call(const lki_socket_link *link, const meeting *m, int rank, kind_of kind, int port,
                int *out, lki_fault *fault)
{
    hello mine = {.kind = (int32_t)kind, .rank = link->rank, .size = link->size, .port = port};
    const place *to = &m->places[rank];
    memcpy(mine.secret, m->secret, SECRET);
    *out = socket(to->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (*out >= 0) lki_tcp_hurry(*out);
    if (*out >= 0 &&
        lki_tcp_connect(*out, (const struct sockaddr *)&to->address, to->length, m->until) &&
        lki_tcp_write(*out, &mine, sizeof mine, m->until))
        return 0;
    if (errno == ETIMEDOUT) fault->code = LKS_E_TIMEOUT;
    return lki_socket_fault(fault, -1, "rank %d cannot be reached: %s", rank, reason());
}

static int *connection_of(lki_socket_link *link, int rank, kind_of kind)
{
    return kind == WORD ? &link->peer[rank].word : &link->peer[rank].data;
}

/* A stranger is hung up on; who knows the secret and is wrong ends it for all. 1: it was one of ours. */
static int answer(lki_socket_link *link, const meeting *m, int fd, lki_fault *fault)
{
    hello theirs;
    const double patience = lki_seconds() + PATIENCE_S;
    const bool ours = lki_tcp_read(fd, &theirs, sizeof theirs,
                                   patience < m->until ? patience : m->until);
    if (!ours || !lki_tcp_same_key(theirs.secret, m->secret, SECRET)) {
        close(fd);
        return 0;
    }
    int *connection = theirs.rank >= 0 && theirs.rank < link->size && theirs.rank != link->rank
                          ? connection_of(link, theirs.rank, theirs.kind == WORD ? WORD : DATA)
                          : NULL;
    if (connection == NULL || *connection >= 0 || theirs.size != link->size) {
        close(fd);
        lki_socket_fault(fault, -1,
                         theirs.size != link->size ? "rank %d joins %d ranks, and here they are %d"
                                                   : "two processes join as rank %d of %d",
                         theirs.rank, theirs.size, link->size);
        return -1;
    }
    *connection = fd;
    lki_tcp_hurry(fd);
    if (theirs.kind != WORD || link->rank != 0) return 1;
    struct sockaddr_storage *address = &m->places[theirs.rank].address;
    socklen_t length = sizeof *address;
    if (getpeername(fd, (struct sockaddr *)address, &length) != 0)
        return lki_socket_fault(fault, -1, "rank %d has no address", theirs.rank);
    m->places[theirs.rank].length = length;
    if (address->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)address)->sin6_port = htons((uint16_t)theirs.port);
    else
        ((struct sockaddr_in *)address)->sin_port = htons((uint16_t)theirs.port);
    return 1;
}

/* Whoever calls would wait at the door, and be heard again at once. */
static bool cannot_open(void)
{
    return errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
}

/* Both connections of all ranks from `first` on. */
static int answer_all(lki_socket_link *link, const meeting *m, int first, lki_fault *fault)
{
    for (int left = 2 * (link->size - first); left > 0;) {
        if (!lki_tcp_ready(m->listener, POLLIN, m->until)) {
            int rank = first;
            while (link->peer[rank].data >= 0 && link->peer[rank].word >= 0) rank++;
            fault->code = LKS_E_TIMEOUT;
            return lki_socket_fault(fault, -1, "rank %d has not come within %g s", rank,
                                    link->timeout_s);
        }
        const int fd = accept4(m->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0 && cannot_open())
            return lki_socket_fault(fault, -1, "no rank can be let in: %s", reason());
        if (fd < 0) continue;
        const int ours = answer(link, m, fd, fault);
        if (ours < 0) return -1;
        left -= ours;
    }
    return 0;
}

/* What has gone wrong, or, without a sentence, where each rank listens. */
static bool tell(const lki_socket_link *link, const meeting *m, int rank, const lki_fault *word)
{
    const int fd = link->peer[rank].word;
    return lki_tcp_write(fd, word, sizeof *word, m->until) &&
           (word->text[0] != '\0' ||
            lki_tcp_write(fd, m->places, (size_t)link->size * sizeof *m->places, m->until));
}

static int join_as_first(lki_socket_link *link, meeting *m, const char *id, lki_fault *fault)
{
    pthread_mutex_lock(&made.mutex);
    const bool ours = made.listener >= 0 && strcmp(made.id, id) == 0;
    if (ours) {
        m->listener = made.listener;
        made.listener = -1;
    }
    pthread_mutex_unlock(&made.mutex);
    if (!ours)
        return lki_socket_fault(fault, -1,
                                "rank 0 has not made this id: lks_comm_make_id() is "
                                "called by the process that joins as rank 0, once for "
                                "each time that it joins");
    const int failed = answer_all(link, m, 1, fault);
    const lki_fault word = *fault;
    for (int r = 1; r < link->size; r++)
        if (link->peer[r].word >= 0 && !tell(link, m, r, &word) && failed == 0)
            return lki_socket_fault(fault, -1, "rank %d is gone: %s", r, reason());
    return failed;
}

/* The word of rank 0, without a sentence where all is well; false: none has come. */
static bool heard(const lki_socket_link *link, double until, lki_fault *fault)
{
    lki_fault word;
    if (!lki_tcp_read(link->peer[0].word, &word, sizeof word, until)) return false;
    word.text[sizeof word.text - 1] = '\0';
    *fault = word;
    return true;
}

/* Whoever has come waits a little longer than rank 0, whose sentence says who has not. */
static int hear(lki_socket_link *link, meeting *m, lki_fault *fault)
{
    const double until = m->until + PATIENCE_S;
    const bool said = heard(link, until, fault);
    if (said && fault->text[0] != '\0') return -1;
    if (said &&
        lki_tcp_read(link->peer[0].word, m->places, (size_t)link->size * sizeof *m->places, until))
        return 0;
    if (errno == ETIMEDOUT) fault->code = LKS_E_TIMEOUT;
    return lki_socket_fault(fault, -1, "rank 0 does not say who is there: %s", reason());
}

/* One that is given up before it has called twice is told why, too. */
static int join_first(lki_socket_link *link, meeting *m, int port, lki_fault *fault)
{
    if (call(link, m, 0, WORD, port, &link->peer[0].word, fault) != 0) return -1;
    if (call(link, m, 0, DATA, port, &link->peer[0].data, fault) == 0) return hear(link, m, fault);
    (void)heard(link, lki_seconds(), fault);
    return -1;
}

static int join_as_other(lki_socket_link *link, meeting *m, lki_fault *fault)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int port = 0;
    const int trouble = getaddrinfo(m->address, m->port, &hints, &found);
    if (trouble != 0)
        return lki_socket_fault(fault, -1, "rank 0 cannot be reached at '%.100s': %s", m->address,
                                gai_strerror(trouble));
    memcpy(&m->places[0].address, found->ai_addr, found->ai_addrlen);
    m->places[0].length = found->ai_addrlen;
    freeaddrinfo(found);
    m->listener = listen_at(NULL, m->places[0].address.ss_family, &port);
    if (m->listener < 0) return lki_socket_fault(fault, -1, "no port is free to listen at");
    const place first = m->places[0];
    if (join_first(link, m, port, fault) != 0) return -1;
    m->places[0] = first;
    for (int r = 1; r < link->rank; r++) {
        if (call(link, m, r, WORD, port, &link->peer[r].word, fault) != 0) return -1;
        if (call(link, m, r, DATA, port, &link->peer[r].data, fault) != 0) return -1;
    }
    return answer_all(link, m, link->rank + 1, fault);
}

int lki_socket_join(lki_socket_link *link, const lks_comm_opts *opts, lki_fault *fault)
{
    meeting m = {.listener = -1, .until = lki_seconds() + link->timeout_s};
    if (read_id(&m, opts->id, fault) != 0) return -1;
    m.places = calloc((size_t)link->size, sizeof *m.places);
    if (m.places == NULL) return lki_socket_fault(fault, -1, "out of memory");
    const int failed = link->rank == 0 ? join_as_first(link, &m, opts->id, fault)
                                       : join_as_other(link, &m, fault);
    if (m.listener >= 0) close(m.listener);
    free(m.places);
    return failed;
}

#include "comm/socket/tcp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/context.h"

bool lki_tcp_ready(int fd, short events, double until)
{
    struct pollfd look = {.fd = fd, .events = events};
    for (;;) {
        const double left = until - lki_seconds();
        const int ready = poll(&look, 1, left > 0 ? (int)(left * 1000) + 1 : 0);
        if (ready == 0) errno = ETIMEDOUT;
        if (ready >= 0 || errno != EINTR) return ready > 0;
    }
}

/* connect() that blocks would end with every signal, and with a time-out as EINPROGRESS. */
bool lki_tcp_connect(int fd, const struct sockaddr *to, socklen_t length, double until)
{
    int error = 0;
    socklen_t size = sizeof error;
    if (connect(fd, to, length) == 0) return true;
    if (errno != EINPROGRESS || !lki_tcp_ready(fd, POLLOUT, until) ||
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        return false;
    errno = error;
    return error == 0;
}

bool lki_tcp_read(int fd, void *out, size_t bytes, double until)
{
    for (size_t done = 0; done < bytes;) {
        if (!lki_tcp_ready(fd, POLLIN, until)) return false;
        const ssize_t got = recv(fd, (char *)out + done, bytes - done, MSG_DONTWAIT);
        if (got == 0) errno = 0;
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return false;
        if (got > 0) done += (size_t)got;
    }
    return true;
}

bool lki_tcp_write(int fd, const void *data, size_t bytes, double until)
{
    for (size_t done = 0; done < bytes;) {
        if (!lki_tcp_ready(fd, POLLOUT, until)) return false;
        const ssize_t sent = send(fd, (const char *)data + done, bytes - done,
                                  MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EINTR) return false;
        if (sent > 0) done += (size_t)sent;
    }
    return true;
}

void lki_tcp_hurry(int fd)
{
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
}

bool lki_tcp_same_key(const void *a, const void *b, size_t bytes)
{
    const unsigned char *x = a, *y = b;
    unsigned differs = 0;
    for (size_t i = 0; i < bytes; i++) differs |= (unsigned)(x[i] ^ y[i]);
    return differs == 0;
}

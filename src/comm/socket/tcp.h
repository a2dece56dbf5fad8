/* What whoever talks to other ranks by TCP needs, with or without blocking sockets. Times are lki_seconds(). */
#ifndef LKI_COMM_TCP_H
#define LKI_COMM_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* Whether something comes, or can be sent (POLLIN, POLLOUT), before `until`; looks once where that is past. False
 * with errno ETIMEDOUT where nothing does. */
bool lki_tcp_ready(int fd, short events, double until);
/* Of a socket that does not block: calls this address; false with errno. */
bool lki_tcp_connect(int fd, const struct sockaddr *to, socklen_t length, double until);
/* All of it, before `until`; false with errno 0 where the other side has closed. */
bool lki_tcp_read(int fd, void *out, size_t bytes, double until);
bool lki_tcp_write(int fd, const void *data, size_t bytes, double until);
/* What is sent leaves at once. */
void lki_tcp_hurry(int fd);
/* Compares all of two keys, so that time tells nothing. */
bool lki_tcp_same_key(const void *a, const void *b, size_t bytes);

#endif

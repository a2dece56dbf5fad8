/* Where agents meet: the address and the secret. */
#include "cli/meet/meet.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

/* One line of a file that nobody else may read. */
static lks_status read_secret(char *out, size_t size, const char *path)
{
    struct stat info;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return lks_fail(errno == ENOENT ? LKS_E_STATE : LKS_E_IO,
                        "the secret of the rendezvous, '%.300s', cannot be read: %s", path,
                        strerror(errno));
    const bool closed = fstat(file, &info) == 0 && (info.st_mode & 077) == 0 &&
                        info.st_uid == geteuid();
    const ssize_t count = closed ? read(file, out, size - 1) : 0;
    close(file);
    if (!closed)
        return lks_fail(LKS_E_INVALID,
                        "the secret of the rendezvous, '%.300s', can be read by others; make it "
                        "yours alone: chmod 600",
                        path);
    out[count > 0 ? count : 0] = '\0';
    out[strcspn(out, "\r\n")] = '\0';
    return LKS_OK;
}

/* Where the leader of an endpoint leaves its secret: in the user's runtime folder, or at home. */
static char *kept_secret(const meet_plan *plan)
{
    cli_pool *pool = plan->launch->pool;
    const char *folder = getenv("XDG_RUNTIME_DIR"), *home = getenv("HOME");
    char *file = pool_format(pool, "lockstep-%s-%s.secret", plan->host, plan->port);
    for (char *c = file; *c != '\0'; c++)
        if (*c == '/') *c = '_';
    if (folder != NULL && *folder == '/') return pool_format(pool, "%s/%s", folder, file);
    return home != NULL && *home == '/' ? pool_format(pool, "%s/.%s", home, file) : NULL;
}

lks_status meet_key(uint8_t key[SEAL_KEY], const meet_plan *plan)
{
    char secret[SEAL_SECRET_MOST + 8];
    const char *given = getenv("LKS_RDZV_SECRET"), *file = plan->secret_file;
    if (given != NULL) return seal_key(key, given);
    if (file == NULL) file = kept_secret(plan);
    if (file == NULL)
        return lks_fail(LKS_E_INVALID, "the rendezvous has no secret; set LKS_RDZV_SECRET, or give "
                                       "--rdzv-secret FILE");
    const lks_status status = read_secret(secret, sizeof secret, file);
    if (status == LKS_E_STATE && plan->secret_file != NULL)
        return lks_fail(LKS_E_IO, "the secret of the rendezvous, '%.300s', is not there", file);
    return status == LKS_OK ? seal_key(key, secret) : status;
}

lks_status meet_make_key(uint8_t key[SEAL_KEY], const char **left, const meet_plan *plan)
{
    enum { BYTES = 16 };
    uint8_t drawn[BYTES];
    char secret[2 * BYTES + 2];
    *left = NULL;
    if (getenv("LKS_RDZV_SECRET") != NULL || plan->secret_file != NULL) return meet_key(key, plan);
    const char *path = kept_secret(plan);
    if (path == NULL) return meet_key(key, plan);
    seal_random(drawn, sizeof drawn);
    for (int i = 0; i < BYTES; i++) snprintf(secret + 2 * i, 3, "%02x", drawn[i]);
    unlink(path); /* of a leader that was killed: this one listens at its endpoint now */
    const int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0 || write(file, secret, 2 * BYTES) != 2 * BYTES) {
        if (file >= 0) close(file);
        return lks_fail(LKS_E_IO, "the secret of the rendezvous cannot be kept in '%.300s': %s",
                        path, strerror(errno));
    }
    close(file);
    *left = path;
    say_error("the secret of this rendezvous is in %s; where that cannot be read, give it by "
              "LKS_RDZV_SECRET: %s",
              path, secret);
    return seal_key(key, secret);
}

static lks_status resolve(struct addrinfo **out, const meet_plan *plan)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    const int error = getaddrinfo(plan->host, plan->port, &hints, out);
    if (error == 0) return LKS_OK;
    return lks_fail(LKS_E_COMM, "--rdzv-endpoint: '%.200s:%.20s' is no address: %s", plan->host,
                    plan->port, gai_strerror(error));
}

lks_status meet_listen(int *out, const meet_plan *plan)
{
    struct addrinfo *addresses;
    int error = 0;
    *out = -1;
    const lks_status status = resolve(&addresses, plan);
    if (status != LKS_OK) return plan->node == 0 ? status : LKS_OK; /* it may be known later */
    for (struct addrinfo *at = addresses; at != NULL && *out < 0; at = at->ai_next) {
        const int yes = 1;
        *out = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (*out < 0) continue;
        setsockopt(*out, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        if (bind(*out, at->ai_addr, at->ai_addrlen) == 0 && listen(*out, 128) == 0) break;
        error = errno;
        close(*out);
        *out = -1;
    }
    freeaddrinfo(addresses);
    if (*out >= 0 || (plan->node != 0 && (error == EADDRNOTAVAIL || error == EADDRINUSE)))
        return LKS_OK;
    return lks_fail(LKS_E_COMM, "nobody can listen at --rdzv-endpoint %.200s:%.20s from here: %s",
                    plan->host, plan->port, strerror(error));
}

int meet_connect(const meet_plan *plan, char *why, size_t size)
{
    struct addrinfo *addresses;
    int fd = -1;
    if (resolve(&addresses, plan) != LKS_OK) {
        snprintf(why, size, "%s", lks_last_error()->message);
        return -1;
    }
    for (struct addrinfo *at = addresses; at != NULL && fd < 0; at = at->ai_next) {
        const struct timeval wait = {.tv_sec = 1};
        fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, 0);
        if (fd < 0) continue;
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait); /* of connect() too */
        if (connect(fd, at->ai_addr, at->ai_addrlen) == 0) break;
        snprintf(why, size, "%s", strerror(errno == EINPROGRESS ? ETIMEDOUT : errno));
        close(fd);
        fd = -1;
    }
    freeaddrinfo(addresses);
    return fd;
}

#include "comm/door.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/context.h"
#include "comm/socket/tcp.h"

/* Whoever answers may have to wait for a core. */
enum { DOOR_BACKLOG = 4096, DOOR_CONNECT_S = 1, DOOR_ANSWER_S = 5 };

/* Of all devices that are up; the loopback one alone where nobody comes from elsewhere. */
static void door_addresses(lki_door *door, bool near)
{
    struct ifaddrs *all = NULL;
    door->count = 0;
    if (near) door->address[door->count++] = htonl(INADDR_LOOPBACK);
    if (near || getifaddrs(&all) != 0) return;
    for (const struct ifaddrs *at = all; at != NULL; at = at->ifa_next) {
        const unsigned flags = at->ifa_flags;
        if (at->ifa_addr == NULL || at->ifa_addr->sa_family != AF_INET) continue;
        if ((flags & IFF_UP) == 0 || (flags & IFF_LOOPBACK) != 0) continue;
        if (door->count == LKI_DOOR_ADDRESSES) break;
        struct sockaddr_in address;
        memcpy(&address, at->ifa_addr, sizeof address);
        door->address[door->count++] = address.sin_addr.s_addr;
    }
    freeifaddrs(all);
}

int lki_door_open(lki_door *door, double period_s, bool near)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    memset(door, 0, sizeof *door);
    address.sin_addr.s_addr = htonl(near ? INADDR_LOOPBACK : INADDR_ANY);
    const int file = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (file < 0) return -1;
    if (bind(file, (const struct sockaddr *)&address, sizeof address) != 0 ||
        listen(file, DOOR_BACKLOG) != 0 ||
        getsockname(file, (struct sockaddr *)&address, &length) != 0 ||
        getrandom(door->hello, sizeof door->hello, 0) != sizeof door->hello ||
        getrandom(door->welcome, sizeof door->welcome, 0) != sizeof door->welcome) {
        close(file);
        return -1;
    }
    door_addresses(door, near);
    door->port = address.sin_port;
    door->period_s = period_s;
    return file;
}

static bool door_connect(int file, uint32_t ip, uint16_t port)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = ip};
    return lki_tcp_connect(file, (const struct sockaddr *)&address, sizeof address,
                           lki_seconds() + DOOR_CONNECT_S);
}

/* Another process may have that port at an address that is not of rank 0's host alone. */
static bool door_greet(int file, const lki_door *door, int rank)
{
    lki_door_hello hello;
    uint8_t answer[LKI_DOOR_KEY];
    memset(&hello, 0, sizeof hello);
    memcpy(hello.key, door->hello, sizeof hello.key);
    hello.rank = rank;
    const double until = lki_seconds() + DOOR_ANSWER_S;
    return lki_tcp_write(file, &hello, sizeof hello, until) &&
           lki_tcp_read(file, answer, sizeof answer, until) &&
           memcmp(answer, door->welcome, sizeof answer) == 0;
}

int lki_door_enter(const lki_door *door, int rank)
{
    for (int i = 0; i < door->count && i < LKI_DOOR_ADDRESSES; i++) {
        const int file = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (file < 0) return -1;
        lki_tcp_hurry(file);
        if (door_connect(file, door->address[i], door->port) && door_greet(file, door, rank)) {
            return file;
        }
        close(file);
    }
    return -1;
}

bool lki_door_knows(const lki_door *door, const lki_door_hello *hello, int size)
{
    return lki_tcp_same_key(hello->key, door->hello, LKI_DOOR_KEY) && hello->rank >= 1 &&
           hello->rank < size;
}

bool lki_door_welcome(const lki_door *door, int socket)
{
    lki_tcp_hurry(socket);
    return lki_tcp_write(socket, door->welcome, sizeof door->welcome, lki_seconds());
}

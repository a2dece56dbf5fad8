/* A leader of a rendezvous without its ranks, and agents that the test speaks for. */
#ifndef LKT_LAUNCH_AGENTS_H
#define LKT_LAUNCH_AGENTS_H

#include "support/test.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <lockstep/lockstep.h>

#include "cli/meet/lead.h"
#include "cli/out/say.h"
#include "cli/process.h"

enum { MOST = 80 };

static const char secret[] = "0123456789abcdef";
static double now, step; /* the clock, and how far it goes on when somebody looks at it */
static bool foreign;     /* this process is somebody else's */
static char said[4096];  /* what the leader has said */

double __wrap_process_clock(void);
uid_t __wrap_geteuid(void);
uid_t __real_geteuid(void);
void __wrap_say_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

double __wrap_process_clock(void)
{
    return now += step;
}

uid_t __wrap_geteuid(void)
{
    return __real_geteuid() + (foreign ? 1 : 0);
}

void __wrap_say_error(const char *format, ...)
{
    va_list arguments;
    const size_t used = strlen(said);
    va_start(arguments, format);
    vsnprintf(said + used, sizeof said - used, format, arguments);
    va_end(arguments);
}

static cli_pool pool;
static launch_starter starter = {.name = "openmpi"};
static launch_plan launch;
static meet_plan plan;
static leader *lead;
static int orders[2], port;
static peer *agents[MOST]; /* which the test speaks for */
static int agent_count;
static char words[WIRE_BODY];

static inline int begin(void **state)
{
    struct sockaddr_in at;
    socklen_t size = sizeof at;
    (void)state;
    now = 1000;
    step = 0;
    foreign = false;
    said[0] = '\0';
    agent_count = 0;
    launch = (launch_plan){.pool = &pool, .starter = &starter, .saves = true};
    plan = (meet_plan){.launch = &launch,
                       .id = "456",
                       .host = "127.0.0.1",
                       .port = "0",
                       .least = 4,
                       .nodes = 4,
                       .ranks = 2,
                       .node = -1,
                       .timeout = 60};
    lead = calloc(1, sizeof *lead);
    if (lead == NULL || seal_begin() != LKS_OK || pipe(orders) != 0) return 1;
    lead->plan = &plan;
    lead->asks = -1;
    lead->orders = orders[1];
    if (seal_key(lead->key, secret) != LKS_OK || meet_listen(&lead->listener, &plan) != LKS_OK)
        return 1;
    getsockname(lead->listener, (struct sockaddr *)&at, &size);
    port = at.sin_port;
    return 0;
}

static inline int end(void **state)
{
    (void)state;
    for (int i = 0; i < lead->count; i++) peer_destroy(lead->peers[i]);
    for (int i = 0; i < agent_count; i++) peer_destroy(agents[i]);
    if (lead->asks >= 0) close(lead->asks);
    close(lead->listener);
    for (int i = 0; i < 2; i++) close(orders[i]);
    free(lead->daemons);
    free(lead);
    pool_clear(&pool);
    return 0;
}

/* The next message of this type for an agent; false: its connection is closed. */
static inline bool heard(peer *p, wire_message *m, wire_type type)
{
    for (int found;;) {
        while ((found = peer_next(p, m, words)) > 0)
            if (m->type == type) return true;
        struct pollfd file = {.fd = p->fd, .events = POLLIN};
        if (found < 0 || poll(&file, 1, 5000) <= 0) fail_msg("message %d has not come", (int)type);
        if (!peer_read(p)) return false;
    }
}

/* Within so many ms. */
static inline bool is_closed(peer *p, int timeout)
{
    struct pollfd file = {.fd = p->fd, .events = POLLIN};
    while (poll(&file, 1, timeout) > 0) {
        p->used = p->taken = 0;
        if (!peer_read(p)) return true;
    }
    return false;
}

static inline void expect_closed(peer *p)
{
    assert_true(is_closed(p, 5000));
}

static inline void send_to(peer *p, wire_message m)
{
    assert_true(peer_send(p, &m));
    lead_turn(lead, 1000);
}

static inline peer *come(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = (in_port_t)port};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    lead_turn(lead, 1000);
    assert_true(agent_count < MOST);
    return agents[agent_count++] = peer_create(fd, "leader");
}

static inline void greet(peer *p)
{
    wire_message m = {.type = WIRE_HELLO};
    seal_random(p->draw.member, WIRE_RANDOM);
    memcpy(m.random, p->draw.member, WIRE_RANDOM);
    send_to(p, m);
    assert_true(heard(p, &m, WIRE_CHALLENGE));
    memcpy(p->draw.leader, m.random, WIRE_RANDOM);
    assert_true(seal_is_proof(m.proof, lead->key, true, &p->draw));
}

static inline void prove(peer *p)
{
    wire_message m = {.type = WIRE_PROVE};
    seal_prove(m.proof, lead->key, false, &p->draw);
    send_to(p, m);
    seal_open_link(&p->link, lead->key, false, &p->draw);
    p->state = PEER_PROVED;
}

static inline peer *come_proved(void)
{
    peer *p = come();
    greet(p);
    prove(p);
    return p;
}

/* `node`: -1: any. */
static inline peer *join(const char *host, int node, int ranks)
{
    wire_message m = {.type = WIRE_JOIN,
                      .id = "456",
                      .starter = "openmpi",
                      .node = node,
                      .nodes = plan.nodes,
                      .ranks = ranks,
                      .process = 77};
    peer *p = come_proved();
    snprintf(m.version, sizeof m.version, "%s", lks_version());
    snprintf(m.host, sizeof m.host, "%s", host);
    send_to(p, m);
    return p;
}

static inline void expect_welcome(peer *p, int node, int nodes, int first, int ranks)
{
    wire_message m;
    assert_true(heard(p, &m, WIRE_WELCOME));
    assert_int_equal(m.node, node);
    assert_int_equal(m.nodes, nodes);
    assert_int_equal(m.first, first);
    assert_int_equal(m.ranks, ranks);
}

static inline void expect_refused(peer *p, wire_reason reason)
{
    wire_message m;
    assert_true(heard(p, &m, WIRE_REFUSE));
    assert_int_equal(m.reason, reason);
    expect_closed(p);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

#endif

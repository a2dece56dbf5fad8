/* An agent that joins a rendezvous, whose leader the test speaks for; and who may read a secret. */
#include "support/test.h"

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/lockstep.h>

#include "cli/meet/meet.h"
#include "cli/meet/peer.h"
#include "cli/process.h"

static const char secret[] = "0123456789abcdef";
static double now = 1000, step; /* the clock, and how far it goes on when somebody looks at it */
static bool foreign;            /* this process is somebody else's */

double __wrap_process_clock(void);
uid_t __wrap_geteuid(void);
uid_t __real_geteuid(void);

double __wrap_process_clock(void)
{
    return now += step;
}

uid_t __wrap_geteuid(void)
{
    return __real_geteuid() + (foreign ? 1 : 0);
}

static cli_pool pool;
static launch_starter starter = {.name = "openmpi"};
static launch_plan launch;
static meet_plan plan;
static const char *folder;
static pid_t member;
static peer *wire; /* to it */
static char words[WIRE_BODY];

static const char *put(const char *name, const char *text)
{
    const char *path = pool_format(&pool, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(chmod(path, 0700), 0);
    return path;
}

static int begin(void **state)
{
    (void)state;
    folder = lkt_make_folder();
    step = 0;
    foreign = false;
    unsetenv("LKS_RDZV_SECRET");
    launch = (launch_plan){.pool = &pool, .starter = &starter};
    launch.program = pool_format(&pool, "%s/mpiexec", folder);
    plan = (meet_plan){.launch = &launch,
                       .id = "456",
                       .host = "127.0.0.1",
                       .nodes = 2,
                       .least = 2,
                       .ranks = 3,
                       .node = 1,
                       .timeout = 60};
    return seal_begin() != LKS_OK;
}

static int end(void **state)
{
    (void)state;
    peer_destroy(wire);
    wire = NULL;
    lkt_remove_folder();
    pool_clear(&pool);
    return 0;
}

/* A member in a process of its own, which connects to this one. */
static void start_member(double clock_step)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t size = sizeof at;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(listener, 1), 0);
    getsockname(listener, (struct sockaddr *)&at, &size);
    plan.port = pool_format(&pool, "%d", ntohs(at.sin_port));
    setenv("LKS_RDZV_SECRET", secret, 1);
    fflush(NULL);
    member = fork();
    assert_true(member >= 0);
    if (member == 0) {
        int code = 0;
        step = clock_step;
        const lks_status status = meet_follow(&plan, &code);
        _exit(status == LKS_OK ? code : 100 + (int)status);
    }
    wire = peer_create(accept(listener, NULL, NULL), "member");
    close(listener);
}

static int end_of_member(void)
{
    int status;
    assert_int_equal(waitpid(member, &status, 0), member);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* The next message but for beats. */
static wire_message next(void)
{
    wire_message m;
    for (int found;;) {
        while ((found = peer_next(wire, &m, words)) > 0)
            if (m.type != WIRE_BEAT) return m;
        struct pollfd file = {.fd = wire->fd, .events = POLLIN};
        if (found < 0 || poll(&file, 1, 10000) <= 0 || !peer_read(wire))
            fail_msg("the member says nothing more");
    }
}

static void send_to(wire_message m)
{
    assert_true(peer_send(wire, &m));
}

/* Until it has joined. */
static void meet(void)
{
    uint8_t key[SEAL_KEY];
    wire_message m = next(), challenge = {.type = WIRE_CHALLENGE};
    assert_int_equal(m.type, WIRE_HELLO);
    LKT_OK(seal_key(key, secret));
    memcpy(wire->draw.member, m.random, WIRE_RANDOM);
    seal_random(wire->draw.leader, WIRE_RANDOM);
    memcpy(challenge.random, wire->draw.leader, WIRE_RANDOM);
    seal_prove(challenge.proof, key, true, &wire->draw);
    send_to(challenge);
    m = next();
    assert_int_equal(m.type, WIRE_PROVE);
    assert_true(seal_is_proof(m.proof, key, false, &wire->draw));
    seal_open_link(&wire->link, key, true, &wire->draw);
    wire->state = PEER_PROVED;
    m = next();
    assert_int_equal(m.type, WIRE_JOIN);
    assert_string_equal(m.id, "456");
    assert_string_equal(m.version, lks_version());
    assert_string_equal(m.starter, "openmpi");
    assert_true(m.node == 1 && m.nodes == 2 && m.ranks == 3 && m.process == member);
}

static void welcome(void)
{
    send_to((wire_message){.type = WIRE_WELCOME, .node = 1, .nodes = 2, .first = 1, .ranks = 4});
}

static void start(int number, const char *name)
{
    wire_message m = {.type = WIRE_START, .number = number, .words = 2, .list = "a b\0c"};
    snprintf(m.text, sizeof m.text, "%s", name);
    send_to(m);
}

static void expect_said(int number, int stream, const char *text)
{
    const wire_message m = next();
    assert_int_equal(m.type, WIRE_SAID);
    assert_int_equal(m.number, number);
    assert_int_equal(m.stream, stream);
    assert_int_equal(m.output_bytes, strlen(text));
    assert_memory_equal(m.output, text, m.output_bytes);
}

static void expect_ended(int number, int code)
{
    const wire_message m = next();
    assert_int_equal(m.type, WIRE_ENDED);
    assert_int_equal(m.number, number);
    assert_int_equal(m.code, code);
}

static void nothing_starts_before_the_welcome(void **state)
{
    (void)state;
    put("orted", "#!/bin/sh\necho \"$1|$2\"\nexit 3\n");
    start_member(0);
    meet();
    start(1, "orted");
    welcome();
    start(2, "orted");
    expect_said(2, 1, "a b|c\n");
    expect_ended(2, 3);
    send_to((wire_message){.type = WIRE_BYE, .code = 5});
    assert_int_equal(end_of_member(), 5);
}

/* However they are called, whatever lies beside mpiexec. */
static void only_daemons_are_started(void **state)
{
    (void)state;
    static const char *const others[] = {"sh", "mpiexec", "orted.sh", "../orted", ""};
    char text[256];
    put("orted", "#!/bin/sh\necho up\n");
    put("sh", "#!/bin/sh\necho up\n");
    put("mpiexec", "#!/bin/sh\necho up\n");
    put("orted.sh", "#!/bin/sh\necho up\n");
    start_member(0);
    meet();
    welcome();
    for (int i = 0; i < 5; i++) {
        start(10 + i, others[i]);
        snprintf(text, sizeof text, "'%s' is no daemon that may be started here", others[i]);
        expect_said(10 + i, 2, text);
        expect_ended(10 + i, 127);
    }
    start(20, "prted"); /* which this MPI has not */
    snprintf(text, sizeof text, "'%s/prted' cannot be started: No such file or directory", folder);
    expect_said(20, 2, text);
    expect_ended(20, 127);
    start(21, "orted");
    expect_said(21, 1, "up\n");
    expect_ended(21, 0);
    send_to((wire_message){.type = WIRE_BYE});
    assert_int_equal(end_of_member(), 0);
}

/* Each has the signal that is for it, and none outlives its agent. */
static void daemons_end_as_they_are_told(void **state)
{
    int pid;
    (void)state;
    put("orted", "#!/bin/sh\necho $$\nexec sleep 60\n");
    start_member(0);
    meet();
    welcome();
    start(1, "orted");
    wire_message m = next();
    assert_true(m.type == WIRE_SAID && m.number == 1);
    start(2, "orted");
    m = next();
    assert_true(m.type == WIRE_SAID && m.number == 2);
    assert_int_equal(sscanf((const char *)m.output, "%d", &pid), 1);
    send_to((wire_message){.type = WIRE_STOP, .number = 3, .signal = SIGKILL});
    send_to((wire_message){.type = WIRE_STOP, .number = 1, .signal = SIGTERM});
    expect_ended(1, -SIGTERM);
    assert_int_equal(kill(pid, 0), 0);
    send_to((wire_message){.type = WIRE_BYE, .code = 7});
    assert_int_equal(end_of_member(), 7);
    assert_int_equal(kill(pid, 0), -1);
}

static void a_silent_leader_is_left(void **state)
{
    (void)state;
    start_member(0.3);
    assert_int_equal(next().type, WIRE_HELLO);
    assert_int_equal(end_of_member(), 100 + LKS_E_COMM);
}

/* One line of a file that is its reader's and nobody else's. */
static void a_secret_is_its_owners(void **state)
{
    (void)state;
    uint8_t key[SEAL_KEY], expected[SEAL_KEY];
    static const mode_t modes[] = {0640, 0620, 0610, 0604, 0602, 0601};
    const char *path = put("secret", "0123456789abcdef\r\nmore\n");
    plan.secret_file = path;
    LKT_OK(seal_key(expected, secret));
    assert_int_equal(chmod(path, 0600), 0);
    LKT_OK(meet_key(key, &plan));
    assert_memory_equal(key, expected, sizeof key);
    foreign = true;
    LKT_FAILS(LKS_E_INVALID, "make it yours alone: chmod 600", meet_key(key, &plan));
    foreign = false;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        assert_int_equal(chmod(path, modes[i]), 0);
        LKT_FAILS(LKS_E_INVALID, "can be read by others", meet_key(key, &plan));
    }
    unlink(path);
    LKT_FAILS(LKS_E_IO, "is not there", meet_key(key, &plan));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nothing_starts_before_the_welcome),
        TEST(only_daemons_are_started),
        TEST(daemons_end_as_they_are_told),
        TEST(a_silent_leader_is_left),
        TEST(a_secret_is_its_owners),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

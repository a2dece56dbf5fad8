/* Daemons that mpiexec asks the leader of a rendezvous for, and what agents say of them. */
#include "launch/agents.h"

#include <sys/un.h>

static void open_asks(struct sockaddr_un *at)
{
    *at = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(at->sun_path, sizeof at->sun_path, "%s/socket", lkt_make_folder());
    lead->asks = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(lead->asks, (struct sockaddr *)at, sizeof *at), 0);
    assert_int_equal(listen(lead->asks, 8), 0);
}

/* As what mpiexec starts in ssh's place. */
static int ask(const struct sockaddr_un *at, const char *host, const char *line)
{
    char asked[256];
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)at, sizeof *at), 0);
    const int length = snprintf(asked, sizeof asked, "%s%c%s", host, 0, line);
    assert_true(reach_write(fd, REACH_START, asked, (size_t)length + 1));
    lead_turn(lead, 1000);
    return fd;
}

static bool is_over(int fd)
{
    char byte;
    struct pollfd file = {.fd = fd, .events = POLLIN};
    return poll(&file, 1, 0) > 0 && recv(fd, &byte, 1, MSG_PEEK) <= 0;
}

static void expect_reach(int fd, int type, const void *bytes, size_t count)
{
    char found[256];
    int what;
    size_t length;
    assert_true(reach_read(fd, &what, found, sizeof found, &length));
    assert_int_equal(what, type);
    assert_int_equal(length, count);
    assert_memory_equal(found, bytes, count);
}

static int start_on(const struct sockaddr_un *at, peer *p, const char *host, int *number)
{
    wire_message m;
    const int fd = ask(at, host, "orted -x");
    assert_true(heard(p, &m, WIRE_START));
    assert_string_equal(m.text, "orted");
    assert_int_equal(m.words, 1);
    assert_string_equal(m.list, "-x");
    *number = m.number;
    return fd;
}

static wire_message output_of(int number, const char *text)
{
    return (wire_message){.type = WIRE_SAID,
                          .number = number,
                          .stream = 1,
                          .output = (const uint8_t *)text,
                          .output_bytes = strlen(text)};
}

/* What an agent says of a daemon that is not its own, or of one that is over, nobody believes. */
static void agents_speak_for_their_own_daemons(void **state)
{
    struct sockaddr_un at;
    int one, two, again;
    wire_message m;
    const int32_t seven = 7, nine = -9;
    (void)state;
    peer *a = join("node1", -1, 1), *b = join("node2", -1, 1);
    lead_number(lead);
    open_asks(&at);
    const int first = start_on(&at, a, "node1", &one), second = start_on(&at, b, "node2", &two);
    assert_int_not_equal(one, two);
    send_to(b, output_of(one, "false"));
    send_to(b, (wire_message){.type = WIRE_ENDED, .number = one, .code = 1});
    send_to(a, output_of(one, "true"));
    expect_reach(first, REACH_OUTPUT, "true", 4);
    send_to(a, (wire_message){.type = WIRE_ENDED, .number = one, .code = 7});
    expect_reach(first, REACH_ENDED, &seven, sizeof seven);
    assert_true(is_over(first));
    const int third = start_on(&at, a, "node1", &again);
    assert_int_not_equal(again, one);
    assert_int_not_equal(again, two);
    send_to(a, (wire_message){.type = WIRE_ENDED, .number = one, .code = 1}); /* late */
    send_to(a, (wire_message){.type = WIRE_ENDED, .number = again, .code = -9});
    expect_reach(third, REACH_ENDED, &nine, sizeof nine);
    close(second); /* mpiexec has ended its ssh */
    lead_turn(lead, 1000);
    assert_true(heard(b, &m, WIRE_STOP));
    assert_int_equal(m.number, two);
    assert_int_equal(m.signal, 9);
    const int last = start_on(&at, b, "node2", &two);
    peer_close(b); /* the node is gone, and its daemons with it */
    lead_turn(lead, 1000);
    assert_true(is_over(last));
    close(first), close(third), close(last);
    lkt_remove_folder();
}

/* Daemons are started for this user, on nodes that take part. */
static void not_all_who_ask_get_a_daemon(void **state)
{
    struct sockaddr_un at;
    int number;
    (void)state;
    peer *a = join("node1", -1, 1);
    lead_number(lead);
    peer *waits = join("node3", -1, 1); /* for the next start */
    open_asks(&at);
    const int refused[] = {ask(&at, "node2", "orted -x"), ask(&at, "node3", "orted -x"),
                           ask(&at, "node1", "sh -x"), ask(&at, "node1", "orted 'x")};
    foreign = true;
    const int other = ask(&at, "node1", "orted -x");
    foreign = false;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_true(is_over(refused[i]));
        close(refused[i]);
    }
    assert_true(is_over(other));
    close(other);
    lead_number(lead);
    expect_welcome(waits, 2, 3, 3, 4);
    close(start_on(&at, waits, "node3", &number));
    close(start_on(&at, a, "node1", &number));
    lkt_remove_folder();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(agents_speak_for_their_own_daemons),
        TEST(not_all_who_ask_get_a_daemon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

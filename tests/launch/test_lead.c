/* The leader of a rendezvous: strangers, silence, numbers of nodes, hosts. */
#include "launch/agents.h"

/* Each step of a stranger has to come within 5 s of his connection, and what is joined beats. */
static void silence_is_given_up(void **state)
{
    (void)state;
    peer *fresh = come(), *greeted = come(), *proved, *joined;
    greet(greeted);
    proved = come_proved();
    joined = join("node1", -1, 2);
    assert_int_equal(lead->count, 4);
    assert_int_equal(lead->joined, 1);
    now += 1.9;
    lead_turn(lead, 0);
    assert_int_equal(lead->count, 4);
    now += 0.2;
    lead_turn(lead, 0);
    expect_closed(joined);
    assert_int_equal(lead->joined, 0);
    assert_non_null(
        strstr(said, "host node1 (process 77) is lost: nothing has come from it for 2 s"));
    now += 2.8;
    send_to(proved, (wire_message){.type = WIRE_BEAT}); /* which is not what is waited for */
    assert_int_equal(lead->count, 3);
    now += 0.2;
    lead_turn(lead, 0);
    assert_int_equal(lead->count, 0);
    expect_closed(fresh);
    expect_closed(greeted);
    expect_closed(proved);
    assert_int_equal(lead->strangers, 2); /* the third has proved himself */
}

/* Nor is there a start with an agent that may be gone: it is waited for until it beats, or is lost. */
static void nobody_starts_with_the_silent(void **state)
{
    int code;
    (void)state;
    plan.nodes = plan.least = 3;
    plan.timeout = 4;
    peer *silent = join("node1", -1, 2), *other = join("node2", -1, 2);
    step = 0.02;
    LKT_OK(lead_gather(lead, &code));
    assert_int_equal(lead->joined, 2);
    now += 1;
    assert_true(peer_send(other, &(wire_message){.type = WIRE_BEAT}));
    LKT_FAILS(LKS_E_TIMEOUT, "of 3 nodes ", lead_gather(lead, &code));
    expect_closed(silent);
}

/* However many do not hang up, the leader is done within a second, and all have heard how it ended. */
static void all_hear_how_it_ended(void **state)
{
    peer *agent[3];
    wire_message m;
    (void)state;
    for (int i = 0; i < 3; i++) {
        char host[8];
        snprintf(host, sizeof host, "node%d", i);
        agent[i] = join(host, -1, 2);
        assert_true(peer_send(agent[i], &(wire_message){.type = WIRE_BEAT}));
    }
    const double begin = now;
    step = 0.5; /* the clock is looked at once for all, and once for each */
    lead_dismiss(lead, 5);
    assert_true(now - begin < 2.1);
    for (int i = 0; i < 3; i++) {
        assert_true(heard(agent[i], &m, WIRE_BYE));
        assert_int_equal(m.code, 5);
    }
}

/* Between two starts the same: whoever has not been heard of lately is lost first. */
static void a_smaller_crowd_is_noticed(void **state)
{
    (void)state;
    plan.nodes = 3;
    plan.least = 2;
    peer *silent = join("node1", -1, 2), *other = join("node2", -1, 2);
    lead_number(lead);
    lead->working = true;
    now += 1.5;
    assert_true(peer_send(other, &(wire_message){.type = WIRE_BEAT}));
    step = 0.01;
    assert_true(lead_is_smaller(lead));
    expect_closed(silent);
    assert_int_equal(lead->joined, 1);
    char order;
    assert_int_equal(read(orders[0], &order, 1), 1);
    assert_int_equal(order, LAUNCH_LOST);
}

/* Node ranks that were asked for are kept, the others go in between as they came. */
static void nodes_have_numbers_of_their_own(void **state)
{
    (void)state;
    plan.nodes = plan.least = 6;
    peer *a = join("a", -1, 1), *three = join("c", 3, 2), *b = join("b", -1, 3);
    peer *one = join("d", 1, 4);
    expect_refused(join("e", 3, 1), WIRE_DUPLICATE);
    expect_refused(join("e", 0, 1), WIRE_DUPLICATE); /* the leader's */
    expect_refused(join("e", 6, 1), WIRE_NO_RANK);
    peer *c = join("e", -1, 5);
    expect_refused(join("f", 5, 1), WIRE_LATE);
    lead_number(lead);
    expect_welcome(one, 1, 6, 2, 17);
    expect_welcome(a, 2, 6, 6, 17);
    expect_welcome(three, 3, 6, 7, 17);
    expect_welcome(b, 4, 6, 9, 17);
    expect_welcome(c, 5, 6, 12, 17);
    assert_int_equal(launch.ranks, 17);
    assert_int_equal(launch.hosts, 6);
    for (int i = 1; i < 6; i++)
        assert_string_equal(launch.host[i].name, &"d\0a\0c\0b\0e"[2 * (i - 1)]);
    /* Without one of them the others move up. */
    peer_close(three);
    lead_turn(lead, 1000);
    lead_number(lead);
    expect_welcome(one, 1, 5, 2, 15);
    expect_welcome(a, 2, 5, 6, 15);
    expect_welcome(b, 3, 5, 7, 15);
    expect_welcome(c, 4, 5, 10, 15);
    assert_int_equal(launch.ranks, 15);
}

/* mpiexec takes a name for a host, however many agents it has. */
static void agents_of_a_host_are_one_host(void **state)
{
    char self[WIRE_TEXT] = "";
    (void)state;
    assert_int_equal(gethostname(self, sizeof self - 1), 0);
    peer *first = join("node1", -1, 1), *own = join(self, -1, 4), *last = join("node1", -1, 3);
    lead_number(lead);
    expect_welcome(first, 1, 4, 2, 10);
    expect_welcome(own, 2, 4, 3, 10);
    expect_welcome(last, 3, 4, 7, 10);
    assert_int_equal(launch.hosts, 2);
    assert_string_equal(launch.host[0].name, self);
    assert_int_equal(launch.host[0].slots, 6);
    assert_string_equal(launch.host[1].name, "node1");
    assert_int_equal(launch.host[1].slots, 4);
}

/* 64 strangers at a time; the oldest gives way, and nobody who has proved himself. */
static void strangers_have_few_places(void **state)
{
    (void)state;
    peer *joined = join("node1", -1, 1), *proved = come_proved(), *stranger[LEAD_STRANGERS];
    for (int i = 0; i < LEAD_STRANGERS; i++) {
        now += 0.001;
        stranger[i] = come();
    }
    assert_int_equal(lead->count, 2 + LEAD_STRANGERS);
    assert_int_equal(lead->strangers, 0);
    greet(stranger[0]); /* which makes it no younger */
    now += 0.001;
    peer *next = come();
    assert_int_equal(lead->count, 2 + LEAD_STRANGERS);
    assert_int_equal(lead->strangers, 1);
    expect_closed(stranger[0]);
    now += 0.001;
    come();
    assert_int_equal(lead->strangers, 2);
    expect_closed(stranger[1]);
    assert_false(is_closed(stranger[2], 0) || is_closed(next, 0));
    assert_false(is_closed(joined, 0) || is_closed(proved, 0));
    greet(next);
    prove(next); /* there is one place more */
    come();
    assert_int_equal(lead->strangers, 2);
    assert_int_equal(lead->count, 3 + LEAD_STRANGERS);
}

/* Before it has joined an agent may join and beat, and nothing else. */
static void who_has_not_joined_says_nothing(void **state)
{
    (void)state;
    peer *p = come_proved();
    assert_true(peer_send(p, &(wire_message){.type = WIRE_STOP, .number = -1, .signal = 9}));
    lead_turn(lead, 1000);
    expect_closed(p);
    assert_int_equal(lead->count, 0);
    p = come();
    greet(p);
    p->draw.leader[0] ^= 1; /* a proof of another connection */
    assert_true(peer_send(p, &(wire_message){.type = WIRE_HELLO}));
    lead_turn(lead, 1000);
    expect_closed(p); /* nobody greets twice */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(silence_is_given_up),
        TEST(nobody_starts_with_the_silent),
        TEST(all_hear_how_it_ended),
        TEST(a_smaller_crowd_is_noticed),
        TEST(nodes_have_numbers_of_their_own),
        TEST(agents_of_a_host_are_one_host),
        TEST(strangers_have_few_places),
        TEST(who_has_not_joined_says_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

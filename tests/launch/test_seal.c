/* Messages between agents, and what of them a stranger can do. */
#include "support/test.h"

#include <string.h>

#include <lockstep/lockstep.h>

#include "cli/meet/seal.h"

static uint8_t body[WIRE_BODY], frame[WIRE_HEADER + WIRE_BODY + WIRE_TAG];
static char words[WIRE_BODY];

/* One of each type, with everything in it that it can have. */
static wire_message sample(wire_type type)
{
    wire_message m = {.type = type,
                      .id = "456",
                      .version = "1.2.3",
                      .host = "node1",
                      .starter = "openmpi",
                      .node = -1,
                      .nodes = 4,
                      .ranks = 2,
                      .process = 77,
                      .number = -5,
                      .code = INT32_MIN,
                      .signal = 15,
                      .reason = WIRE_LATE,
                      .stream = 2,
                      .text = "a sentence",
                      .words = 3,
                      .list = "-mca\0\0ess \"env\"",
                      .output = (const uint8_t *)"\0\1\377",
                      .output_bytes = 3};
    for (int i = 0; i < WIRE_RANDOM; i++) m.random[i] = (uint8_t)(i + 1);
    for (int i = 0; i < WIRE_PROOF; i++) m.proof[i] = (uint8_t)(255 - i);
    if (type == WIRE_WELCOME) {
        m.node = 3;
        m.first = 6;
        m.ranks = 8;
    }
    return m;
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    for (wire_type type = WIRE_HELLO; type < WIRE_TYPES; type++) {
        const wire_message m = sample(type);
        wire_message found;
        bool good;
        const size_t length = wire_write(body, sizeof body, &m, &good);
        assert_true(good);
        assert_true(wire_read(&found, type, body, length, words));
        uint8_t again[WIRE_BODY];
        assert_int_equal(wire_write(again, sizeof again, &found, &good), length);
        assert_true(good);
        assert_memory_equal(again, body, length);
        /* Neither less nor more is a message; what has no fixed end, output and words, may be less. */
        for (size_t less = 0; less < length; less++)
            assert_true(!wire_read(&found, type, body, less, words) || type == WIRE_SAID);
        if (type != WIRE_SAID) assert_false(wire_read(&found, type, body, length + 1, words));
        if (length > 0) {
            wire_write(body, length - 1, &m, &good);
            assert_false(good);
        }
    }
    wire_message found, m = sample(WIRE_START);
    bool good;
    const size_t length = wire_write(body, sizeof body, &m, &good);
    assert_true(wire_read(&found, WIRE_START, body, length, words));
    assert_int_equal(found.words, 3);
    assert_string_equal(found.list, "-mca");
    assert_string_equal(found.list + 5, "");
    assert_string_equal(found.list + 6, "ess \"env\"");
}

static void what_is_not_valid_is_refused(void **state)
{
    (void)state;
    wire_message m, found;
    bool good;
#define REFUSED(kind, change)                                                                      \
    m = sample(kind);                                                                              \
    change;                                                                                        \
    wire_write(body, sizeof body, &m, &good);                                                      \
    assert_false(good)
    REFUSED(WIRE_JOIN, m.nodes = 0);
    REFUSED(WIRE_JOIN, m.node = -2);
    REFUSED(WIRE_JOIN, m.ranks = 0);
    REFUSED(WIRE_JOIN, strcpy(m.host, "a\nb"));
    REFUSED(WIRE_JOIN, memset(m.id, 'x', sizeof m.id));
    REFUSED(WIRE_WELCOME, m.node = 4);
    REFUSED(WIRE_WELCOME, m.first = 8);
    REFUSED(WIRE_REFUSE, m.reason = 0);
    REFUSED(WIRE_REFUSE, m.reason = WIRE_REASONS);
    REFUSED(WIRE_START, m.list = "a\0b\033\0c");
    REFUSED(WIRE_SAID, m.stream = 3);
    REFUSED(WIRE_SAID, m.output_bytes = WIRE_OUTPUT + 1; m.output = frame);
    REFUSED(WIRE_STOP, m.signal = 0);
    REFUSED(WIRE_STOP, m.signal = 65);
    REFUSED(WIRE_TYPES, );
    /* A number of words that no list of this length can have. */
    m = sample(WIRE_START);
    const size_t length = wire_write(body, sizeof body, &m, &good);
    memset(body + 4 + 2 + strlen(m.text), 255, 2);
    assert_false(wire_read(&found, WIRE_START, body, length, words));
}

static void headers_are_of_this_version(void **state)
{
    (void)state;
    wire_type type;
    size_t length;
    uint8_t header[WIRE_HEADER];
    for (int number = 0; number < 256; number++)
        for (int sealed = 0; sealed < 2; sealed++) {
            const bool known = number >= WIRE_HELLO && number < WIRE_TYPES;
            wire_header_write(header, (wire_type)number, number == WIRE_HELLO ? 32 : 4 + WIRE_TAG);
            const bool read = wire_header_read(&type, &length, header, sealed == 1);
            if (!known) assert_false(read);
            if (known && wire_is_sealed((wire_type)number) != (sealed == 1)) assert_false(read);
            if (number == WIRE_HELLO && sealed == 0) assert_true(read);
            if (number == WIRE_BYE && sealed == 1) assert_true(read && length == 20);
            if (number == WIRE_BEAT) assert_false(read); /* it has nothing in it */
        }
    wire_header_write(header, WIRE_BYE, 20);
    for (int byte = 0; byte < 3; byte++) {
        header[byte]++;
        assert_false(wire_header_read(&type, &length, header, true));
        header[byte]--;
    }
    wire_header_write(header, WIRE_SAID, (size_t)UINT32_MAX);
    assert_false(wire_header_read(&type, &length, header, true));
    wire_header_write(header, WIRE_BEAT, WIRE_TAG - 1);
    assert_false(wire_header_read(&type, &length, header, true));
}

#if defined(CLI_HAVE_SODIUM)

static const char secret[] = "0123456789abcdef";

static void make_links(seal_link *leader, seal_link *member)
{
    uint8_t key[SEAL_KEY];
    seal_draw draw;
    assert_int_equal(seal_key(key, secret), LKS_OK);
    seal_random(&draw, sizeof draw);
    seal_open_link(leader, key, true, &draw);
    seal_open_link(member, key, false, &draw);
}

static void both_sides_prove_themselves(void **state)
{
    (void)state;
    uint8_t key[SEAL_KEY], other[SEAL_KEY], proof[WIRE_PROOF];
    seal_draw draw, next, last;
    assert_int_equal(seal_begin(), LKS_OK);
    assert_int_equal(seal_key(key, secret), LKS_OK);
    assert_int_equal(seal_key(other, "0123456789abcdeg"), LKS_OK);
    seal_random(&draw, sizeof draw);
    next = draw;
    last = draw;
    next.member[31] ^= 1;
    last.leader[31] ^= 1;
    for (int leader = 0; leader < 2; leader++) {
        seal_prove(proof, key, leader == 1, &draw);
        assert_true(seal_is_proof(proof, key, leader == 1, &draw));
        assert_false(seal_is_proof(proof, key, leader == 0, &draw)); /* sent back */
        assert_false(seal_is_proof(proof, key, leader == 1, &next)); /* of another connection */
        assert_false(seal_is_proof(proof, key, leader == 1, &last));
        assert_false(seal_is_proof(proof, other, leader == 1, &draw));
        for (int bit = 0; bit < 8 * WIRE_PROOF; bit++) {
            proof[bit / 8] ^= (uint8_t)(1 << bit % 8);
            assert_false(seal_is_proof(proof, key, leader == 1, &draw));
            proof[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
    }
    assert_int_equal(seal_key(key, "short"), LKS_E_INVALID);
    assert_non_null(strstr(lks_last_error()->message, "has 5 bytes, expected 16 to 256"));
}

static void sealed_messages_arrive(void **state)
{
    (void)state;
    seal_link leader, member;
    assert_int_equal(seal_begin(), LKS_OK);
    make_links(&leader, &member);
    for (int turn = 0; turn < 3; turn++)
        for (wire_type type = WIRE_JOIN; type < WIRE_TYPES; type++) {
            const wire_message m = sample(type);
            wire_message found;
            bool good;
            size_t length = wire_write(frame + WIRE_HEADER, WIRE_BODY, &m, &good);
            const size_t whole = seal_close(turn == 1 ? &member : &leader, frame, type, length);
            wire_type read;
            assert_true(wire_header_read(&read, &length, frame, true) && read == type);
            assert_int_equal(whole, WIRE_HEADER + length);
            assert_true(
                seal_open(turn == 1 ? &leader : &member, frame, frame + WIRE_HEADER, length));
            assert_true(wire_read(&found, type, frame + WIRE_HEADER, length - WIRE_TAG, words));
        }
}

/* Changed in any bit, once more, left out, sent back, or of another connection. */
static void nobody_else_is_heard(void **state)
{
    (void)state;
    seal_link leader, member, before, stranger, other;
    uint8_t copy[WIRE_HEADER + 4 + WIRE_TAG];
    assert_int_equal(seal_begin(), LKS_OK);
    make_links(&leader, &member);
    make_links(&stranger, &other);
    memcpy(frame + WIRE_HEADER, "\0\0\0\7", 4);
    const size_t whole = seal_close(&leader, frame, WIRE_BYE, 4);
    const size_t length = whole - WIRE_HEADER;
    assert_int_equal(whole, sizeof copy);
    before = member;
    for (size_t bit = 0; bit < 8 * whole; bit++) {
        memcpy(copy, frame, whole);
        copy[bit / 8] ^= (uint8_t)(1 << bit % 8);
        member = before;
        assert_false(seal_open(&member, copy, copy + WIRE_HEADER, length));
    }
    member = before;
    memcpy(copy, frame, whole);
    assert_false(seal_open(&leader, copy, copy + WIRE_HEADER, length)); /* sent back */
    memcpy(copy, frame, whole);
    assert_false(seal_open(&other, copy, copy + WIRE_HEADER, length));
    memcpy(copy, frame, whole);
    assert_true(seal_open(&member, copy, copy + WIRE_HEADER, length));
    assert_memory_equal(copy + WIRE_HEADER, "\0\0\0\7", 4);
    memcpy(copy, frame, whole);
    assert_false(seal_open(&member, copy, copy + WIRE_HEADER, length)); /* repeated */
    member = before;
    make_links(&leader, &member);
    seal_close(&leader, frame, WIRE_BEAT, 0); /* left out */
    seal_close(&leader, frame, WIRE_BEAT, 0);
    assert_false(seal_open(&member, frame, frame + WIRE_HEADER, WIRE_TAG));
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(what_is_not_valid_is_refused),
        cmocka_unit_test(headers_are_of_this_version),
#if defined(CLI_HAVE_SODIUM)
        cmocka_unit_test(both_sides_prove_themselves),
        cmocka_unit_test(sealed_messages_arrive),
        cmocka_unit_test(nobody_else_is_heard),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

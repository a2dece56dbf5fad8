/* Checksums of what goes from rank to rank: equal while messages come as they are sent, and not when a bit
 * changes on its way. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "comm/flight.h"
#include "support/ranks/fake.h"
#include "support/test.h"

enum { RANKS = 3, FLIGHTS = 4, MOST = 300 };

typedef struct talk {
    lkt_flip flip;
    bool verify;
    char sentence[RANKS][sizeof((lks_error *)NULL)->message];
} talk;

/* Pieces of all sizes to both others, several to one, waited for in another order than started. */
static lks_status exchange_some(lks_comm *comm, int rank)
{
    static const size_t sizes[FLIGHTS] = {1, 63, 64, MOST};
    char out[FLIGHTS][MOST], in[FLIGHTS][RANKS][2][MOST];
    lki_piece send[FLIGHTS][2 * RANKS], receive[FLIGHTS][2 * RANKS];
    int flight[FLIGHTS];
    for (int f = 0; f < FLIGHTS; f++) {
        int count = 0;
        memset(out[f], 16 * rank + f, MOST);
        for (int r = 0; r < RANKS; r++)
            for (int k = 0; k < 2 && r != rank; k++) {
                const size_t bytes = k == 0 ? sizes[f] : 65;
                send[f][count] = (lki_piece){r, out[f] + k, bytes};
                receive[f][count++] = (lki_piece){r, in[f][r][k], bytes};
            }
        LKI_TRY(lki_comm_start(comm, &flight[f], send[f], count, receive[f], count, "pieces"));
    }
    for (int f = 0; f < FLIGHTS; f++) LKI_TRY(lki_comm_wait(comm, flight[f ^ 1]));
    return LKS_OK;
}

static lks_status talk_all(lks_comm *comm, int rank, bool collectives)
{
    int64_t from[RANKS] = {rank}, to[RANKS];
    float values[5] = {1, 2, 3, 4, 5}, *arrays[] = {values};
    void *const pointers[] = {values};
    lkt_random random = {.state = (uint64_t)rank};
    char mine[MOST], everybodys[RANKS][MOST];
    for (int i = 0; i < MOST; i++) mine[i] = (char)lkt_random_bits(&random);
    for (int i = 0; i < 2; i++) {
        LKI_TRY(exchange_some(comm, rank));
        LKI_TRY(lki_comm_check(comm));
        LKI_TRY(lki_comm_gather(comm, mine, i == 0 ? 1 : MOST, everybodys, "words"));
        memcpy(everybodys[rank], mine, MOST);
        LKI_TRY(lki_comm_gather(comm, everybodys[rank], MOST, everybodys, "in place"));
        LKI_TRY(lki_comm_check(comm));
        LKI_TRY(lki_comm_check(comm));
        if (!collectives) continue;
        LKI_TRY(lks_comm_average(comm, arrays, &(int64_t){5}, 1, rank + 1));
        LKI_TRY(lks_comm_broadcast(comm, 2, pointers, &(size_t){sizeof values}, 1));
        LKI_TRY(lks_comm_all_to_all(comm, from, sizeof from[0], to));
        LKI_TRY(lki_comm_check(comm));
    }
    return LKS_OK;
}

static int body(lks_comm *comm, int rank, void *user)
{
    talk *t = user;
    LKT_CHECK(comm != NULL);
    const lks_status status = talk_all(comm, rank, !t->flip.gathers);
    LKT_CHECK(status == LKS_OK || status == LKS_E_COMM);
    strcpy(t->sentence[rank], status == LKS_OK ? "" : lks_last_error()->message);
    if (status == LKS_OK &&
        lks_comm_barrier(comm) != LKS_OK) /* who has no part in it hears of it */
        strcpy(t->sentence[rank], lks_last_error()->message);
    return 0;
}

static void what_came_is_what_went(void **state)
{
    talk t = {.flip = {.rank = -1}};
    (void)state;
    for (int i = 0; i < 6; i++) {
        const lkt_hub_opts hub = {.size = RANKS, .seed = (uint64_t)i, .delay = i, .flip = NULL};
        lkt_ranks(&hub, &(lks_comm_opts){.verify = i == 1}, body, &t);
        for (int r = 0; r < RANKS; r++) assert_string_equal(t.sentence[r], "");
    }
}

/* Message n of rank 2 changes: all name its two ranks. How many such messages there are. */
static int flip_one(bool gathers, int n, size_t byte)
{
    talk t = {.flip = {.rank = 2, .at = n, .byte = byte, .gathers = gathers}};
    char pair[64];
    const lkt_hub_opts hub = {.size = RANKS, .seed = 4, .delay = n % 4, .flip = &t.flip};
    lkt_ranks(&hub, NULL, body, &t);
    snprintf(pair, sizeof pair, " to rank %d (host ", t.flip.to);
    for (int r = 0; r < RANKS && n > 0; r++)
        if (strncmp(t.sentence[r], "a message from rank 2 (host ", 28) != 0 ||
            strstr(t.sentence[r], pair) == NULL)
            fail_msg("message %d: rank %d says '%s'", n, r, t.sentence[r]);
    return t.flip.seen;
}

static void a_message_that_changes_is_named(void **state)
{
    (void)state;
    if (getenv("LKT_TRANSPORT") != NULL) skip(); /* the fake's */
    const int exchanged = flip_one(false, 0, 0), gathered = flip_one(true, 0, 0),
              others = RANKS - 1;
    assert_true(exchanged > 10 && gathered > 10);
    for (int n = 1; n <= exchanged; n++) flip_one(false, n, (size_t)n * 29);
    /* Not those of joining, and of the barrier that comes last. */
    for (int n = 2 * others + 1; n <= gathered - others; n++) flip_one(true, n, (size_t)n * 31);
}

/* Of what goes to a rank of another machine, or of this one, by a transport that copies there. */
static uint64_t sum_by(void *data, size_t bytes, bool copies, bool other)
{
    lki_tally tally[2] = {{0, 0}};
    lki_peer peers[2] = {{.machine = 1}, {.machine = other ? 2 : 1}};
    const lki_transport transport = {.copies = copies};
    lks_comm comm = {.size = 2, .tally = tally, .transport = &transport, .peers = peers};
    const lki_piece piece = {.rank = 1, .data = data, .bytes = bytes};
    const lki_flight flight = {
        .number = 6, .send = &piece, .sends = 1, .receive = &piece, .receives = 1};
    lki_tally_sent(&comm, &flight);
    lki_tally_received(&comm, &flight);
    assert_true(tally[1].sent == tally[1].received);
    return tally[1].sent;
}

static uint64_t sum_of(void *data, size_t bytes)
{
    return sum_by(data, bytes, false, false);
}

/* What memory copies is as safe as memory; what wires carry is not. */
static void copies_of_a_machine_do_not_count(void **state)
{
    char data[65] = "some bytes";
    (void)state;
    assert_true(sum_by(data, sizeof data, true, true) == sum_of(data, sizeof data));
    assert_true(sum_by(data, sizeof data, false, true) == sum_of(data, sizeof data));
    assert_true(sum_of(data, sizeof data) != 0);
    assert_true(sum_by(data, sizeof data, true, false) == 0);
}

/* Of two flights, each of which has what the other should. */
static void one_for_the_other_is_seen(void **state)
{
    char a[65] = "some bytes", b[65] = "other bytes";
    lki_tally tally[2] = {{0, 0}};
    const lki_transport transport = {.copies = false};
    lks_comm comm = {.size = 2, .tally = tally, .transport = &transport};
    const lki_piece pieces[] = {{1, a, sizeof a}, {1, b, sizeof b}};
    (void)state;
    for (uint64_t i = 0; i < 2; i++) {
        lki_tally_sent(&comm, &(lki_flight){.number = 6 + i, .send = &pieces[i], .sends = 1});
        lki_tally_received(
            &comm, &(lki_flight){.number = 6 + i, .receive = &pieces[1 - i], .receives = 1});
    }
    assert_true(tally[1].sent != tally[1].received);
}

/* Each bit changes it, and so do two of one lane of which the second takes back what the first adds. */
static void any_bit_counts(void **state)
{
    unsigned char data[MOST + 1];
    lkt_random random = lkt_random_make("any_bit_counts", 71);
    (void)state;
    for (int i = 0; i <= MOST; i++) data[i] = (unsigned char)lkt_random_bits(&random);
    for (size_t at = 0; at < 2; at++) {
        const uint64_t sum = sum_of(data + at, MOST);
        assert_int_equal(sum, sum_of(data + at, MOST));
        assert_int_not_equal(sum, sum_of(data + at, MOST - 1));
        for (size_t bit = 0; bit < 8 * (MOST - 64); bit++) {
            unsigned char *one = &data[at + bit / 8], *other = one + 64,
                          mask = (unsigned char)(1 << bit % 8);
            *one ^= mask;
            assert_int_not_equal(sum, sum_of(data + at, MOST));
            *other ^= mask;
            assert_int_not_equal(sum, sum_of(data + at, MOST));
            *one ^= mask;
            assert_int_not_equal(sum, sum_of(data + at, MOST));
            *other ^= mask;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_came_is_what_went),
        cmocka_unit_test(a_message_that_changes_is_named),
        cmocka_unit_test(any_bit_counts),
        cmocka_unit_test(one_for_the_other_is_seen),
        cmocka_unit_test(copies_of_a_machine_do_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

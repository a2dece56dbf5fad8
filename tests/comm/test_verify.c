/* Ranks that are about to do different things: the two first that differ are named, on all ranks. */
#include <pthread.h>
#include <string.h>

#include "support/ranks/fake.h"
#include "support/test.h"

static const lks_comm_opts VERIFY = {.verify = true, .timeout_s = 30};

/* Another collective, other bytes, another step, one collective left out: by kind. */
static int differing(lks_comm *comm, int rank, void *user)
{
    const int kind = *(const int *)user;
    const bool bad = rank == 2;
    char bytes[64] = {0}, all[3 * 64];
    void *const arrays[] = {bytes};
    float values[4] = {0}, *const floats[] = {values};
    lks_status status = LKS_OK;
    LKT_CHECK(lks_comm_barrier(comm) == LKS_OK);
    if (kind == 2 && bad) lki_comm_step(comm, 5);
    if (kind == 0 && bad) {
        status = lks_comm_average(comm, floats, &(int64_t){4}, 1, 1);
    } else if (kind == 1) {
        status = lks_comm_all_gather(comm, bytes, bad ? 8 : 16, all);
    } else if (kind == 3) {
        status = lks_comm_broadcast(comm, bad, arrays, &(size_t){8}, 1);
    } else {
        status = lks_comm_broadcast(comm, 0, arrays, &(size_t){8}, 1);
    }
    LKT_CHECK(status == LKS_E_STATE);
    const char *said = lks_last_error()->message;
    const char *const theirs[] = {
        ") comes to 'average' (number 1, step 0, 24 bytes in elements of 1), rank 0 (host ",
        ") comes to 'all_gather' (number 1, step 0, 8 bytes in elements of 1), rank 0 (host ",
        ") comes to 'broadcast from rank 0' (number 1, step 5, 8 bytes in elements of 1), rank 0 ",
        ") comes to 'broadcast from rank 1' (number 1, step 0, 8 bytes in elements of 1), rank 0 "};
    LKT_CHECK(strncmp(said, "rank 2 (host ", 13) == 0);
    LKT_CHECK(strstr(said, theirs[kind]) != NULL);
    LKT_CHECK(kind == 1
                  ? strstr(said, " to 'all_gather' (number 1, step 0, 16 bytes") != NULL
                  : strstr(said, ") to 'broadcast from rank 0' (number 1, step 0, 8") != NULL);
    return lks_comm_agree(comm, LKS_OK) != LKS_OK && kind != 2; /* all know, so it can go on */
}

static void names_who_differs(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        lkt_ranks(&(lkt_hub_opts){.size = 3}, &VERIFY, differing, &kind);
        lkt_ranks(&(lkt_hub_opts){.size = 3, .seed = 4, .delay = 7}, &VERIFY, differing, &kind);
    }
}

/* What a rank sends is what the other expects: as many bytes, cut in the same pieces. */
static int exchanging(lks_comm *comm, int rank, void *user)
{
    static const struct {
        size_t send[2], receive[2];
        const char *expected;
        int from;
    } kinds[] = {
        {{4, 4}, {4, 4}, NULL, 1},
        {{4, 8}, {4, 4}, "sends 12 bytes in 2 pieces to rank 2 (host ", 1},
        {{4, 8}, {8, 4}, "which expects 12 in 2, cut in another way", 1},
        {{4, 0}, {4, 4}, "which expects 8 in 2", 1},
        {{4, 8}, {4, 4}, "gradients: rank 0 (host ", 0},
    };
    const int kind = *(const int *)user;
    char sent[16] = {0}, got[16];
    int flight = 0;
    const lki_piece send[] = {{2, sent, kinds[kind].send[0]}, {2, sent + 8, kinds[kind].send[1]}};
    const int from = kinds[kind].from;
    const lki_piece receive[] = {{from, got, kinds[kind].receive[0]},
                                 {from, got + 8, kinds[kind].receive[1]}};
    const lks_status status = lki_comm_start(comm, &flight, send, rank == from ? 2 : 0, receive,
                                             rank == 2 ? 2 : 0, "gradients");
    if (kind == 0) return status != LKS_OK || lki_comm_wait(comm, flight) != LKS_OK;
    LKT_CHECK(status == LKS_E_STATE);
    LKT_CHECK(strncmp(lks_last_error()->message, "gradients: rank ", 16) == 0);
    LKT_CHECK(lks_last_error()->message[16] == '0' + from);
    LKT_CHECK(strstr(lks_last_error()->message, kinds[kind].expected) != NULL);
    return lks_comm_barrier(comm) != LKS_OK;
}

static void names_exchanges(void **state)
{
    (void)state;
    for (int kind = 0; kind < 5; kind++)
        lkt_ranks(&(lkt_hub_opts){.size = 3}, &VERIFY, exchanging, &kind);
}

/* One rank that wants to verify is enough: else the others would not take part. */
typedef struct seat {
    lkt_hub *hub;
    int rank, wrong;
} seat;

static void *sit(void *user)
{
    seat *mine = user;
    lks_comm *comm = NULL;
    const lks_comm_opts opts = {.verify = mine->rank == 1, .timeout_s = 30};
    float values[4] = {0}, *const floats[] = {values};
    mine->wrong = lkt_hub_join(mine->hub, mine->rank, &opts, &comm) != LKS_OK;
    if (mine->wrong) return NULL;
    mine->wrong += (mine->rank == 1 ? lks_comm_average(comm, floats, &(int64_t){4}, 1, 1)
                                    : lks_comm_barrier(comm)) != LKS_E_STATE;
    lks_comm_destroy(comm);
    return NULL;
}

static void one_is_enough(void **state)
{
    lkt_hub *hub = lkt_hub_make(&(lkt_hub_opts){.size = 2});
    seat seats[2] = {{hub, 0, 0}, {hub, 1, 0}};
    pthread_t other;
    (void)state;
    assert_int_equal(pthread_create(&other, NULL, sit, &seats[1]), 0);
    sit(&seats[0]);
    pthread_join(other, NULL);
    lkt_hub_free(hub);
    assert_int_equal(seats[0].wrong + seats[1].wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_who_differs),
        cmocka_unit_test(names_exchanges),
        cmocka_unit_test(one_is_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Collectives on 1, 2, 3 and 5 ranks, whose messages come at once, late and out of order. */
#include <stdlib.h>
#include <string.h>

#include "support/ranks/fake.h"
#include "support/test.h"

static const int SIZES[] = {1, 2, 3, 5};

/* Every size, as it comes and under three seeds of delays, with and without verification. */
static void everywhere(lkt_rank_body body)
{
    for (int s = 0; s < 4; s++) {
        lkt_ranks(&(lkt_hub_opts){.size = SIZES[s]}, NULL, body, NULL);
        lkt_ranks(&(lkt_hub_opts){.size = SIZES[s]}, &(lks_comm_opts){.verify = true}, body, NULL);
        for (uint64_t seed = 1; seed <= 3; seed++)
            lkt_ranks(&(lkt_hub_opts){.size = SIZES[s], .seed = seed, .delay = 12, .share = true},
                      NULL, body, NULL);
    }
}

/* Nobody is through before everybody has come. */
static int came;

static int barriers(lks_comm *comm, int rank, void *user)
{
    const int size = lkt_ranks_are_processes() ? 1 : lks_comm_size(comm);
    (void)rank, (void)user;
    if (rank == 0 || size == 1) __atomic_store_n(&came, 0, __ATOMIC_SEQ_CST);
    LKT_CHECK(lks_comm_barrier(comm) == LKS_OK);
    for (int round = 1; round <= 20; round++) {
        __atomic_add_fetch(&came, 1, __ATOMIC_SEQ_CST);
        LKT_CHECK(lks_comm_barrier(comm) == LKS_OK);
        LKT_CHECK(__atomic_load_n(&came, __ATOMIC_SEQ_CST) >= round * size);
    }
    return 0;
}

static void barrier(void **state)
{
    (void)state;
    everywhere(barriers);
}

/* Arrays of several sizes, an empty one among them, from each rank in turn. */
static int broadcasts(lks_comm *comm, int rank, void *user)
{
    enum { ARRAYS = 4 };
    static const size_t bytes[ARRAYS] = {1, 0, 5000, 77};
    unsigned char *arrays[ARRAYS] = {malloc(1), NULL, malloc(5000), malloc(77)};
    int wrong = 0;
    (void)user;
    for (int root = 0; root < lks_comm_size(comm); root++) {
        for (int i = 0; i < ARRAYS; i++)
            for (size_t k = 0; k < bytes[i]; k++)
                arrays[i][k] = (unsigned char)(k * 7 + (size_t)rank * 31 + (size_t)i);
        wrong += lks_comm_broadcast(comm, root, (void *const *)arrays, bytes, ARRAYS) != LKS_OK;
        for (int i = 0; i < ARRAYS; i++)
            for (size_t k = 0; k < bytes[i]; k++)
                wrong += arrays[i][k] != (unsigned char)(k * 7 + (size_t)root * 31 + (size_t)i);
    }
    wrong += lks_comm_broadcast(comm, 0, NULL, NULL, 0) != LKS_OK;
    for (int i = 0; i < ARRAYS; i++) free(arrays[i]);
    return wrong;
}

static void broadcast(void **state)
{
    (void)state;
    everywhere(broadcasts);
}

static int gathers(lks_comm *comm, int rank, void *user)
{
    enum { MOST = 700 };
    const int size = lks_comm_size(comm);
    unsigned char *all = malloc((size_t)size * MOST), *mine = malloc(MOST);
    int wrong = 0;
    (void)user;
    for (size_t bytes = 0; bytes <= MOST; bytes = bytes * 3 + 1) {
        for (size_t k = 0; k < bytes; k++) mine[k] = (unsigned char)((size_t)rank * 50 + k);
        wrong += lks_comm_all_gather(comm, mine, bytes, all) != LKS_OK;
        for (int r = 0; r < size; r++)
            for (size_t k = 0; k < bytes; k++)
                wrong += all[(size_t)r * bytes + k] != (unsigned char)((size_t)r * 50 + k);
        /* The own part may lie in its place. */
        unsigned char *place = all + (size_t)rank * bytes;
        for (size_t k = 0; k < bytes; k++) place[k] = (unsigned char)(place[k] + 1);
        wrong += lks_comm_all_gather(comm, place, bytes, all) != LKS_OK;
        for (int r = 0; r < size; r++)
            for (size_t k = 0; k < bytes; k++)
                wrong += all[(size_t)r * bytes + k] != (unsigned char)((size_t)r * 50 + k + 1);
    }
    free(all);
    free(mine);
    return wrong;
}

static void all_gather(void **state)
{
    (void)state;
    everywhere(gathers);
}

static int exchanges(lks_comm *comm, int rank, void *user)
{
    const int size = lks_comm_size(comm);
    int32_t send[5][9], receive[5][9], wrong = 0;
    (void)user;
    for (int round = 0; round < 70; round++) { /* more than there are numbers of flights */
        for (int r = 0; r < size; r++)
            for (int k = 0; k < 9; k++) send[r][k] = round * 1000 + rank * 100 + r * 10 + k;
        wrong += lks_comm_all_to_all(comm, send, sizeof *send, receive) != LKS_OK;
        for (int r = 0; r < size; r++)
            for (int k = 0; k < 9; k++)
                wrong += receive[r][k] != round * 1000 + r * 100 + rank * 10 + k;
    }
    return wrong;
}

static void all_to_all(void **state)
{
    (void)state;
    everywhere(exchanges);
}

enum { FLIGHTS = LKI_MAX_FLIGHTS - 1 };

/* As many flights under way as there may be, waited for in another order than they were started in. */
static int flights(lks_comm *comm, int rank, void *user)
{
    const int size = lks_comm_size(comm), right = (rank + 1) % size,
              left = (rank + size - 1) % size;
    int32_t sent[FLIGHTS][3], got[FLIGHTS][3];
    lki_piece send[FLIGHTS][2], receive[FLIGHTS][2];
    int flight[FLIGHTS];
    bool landed = false;
    (void)user;
    if (size == 1) return 0;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < FLIGHTS; i++) {
            for (int k = 0; k < 3; k++) sent[i][k] = round * 10000 + i * 100 + rank * 10 + k;
            /* Two pieces between the same ranks match in their order. */
            send[i][0] = (lki_piece){right, sent[i], 4};
            send[i][1] = (lki_piece){right, sent[i] + 1, 8};
            receive[i][0] = (lki_piece){left, got[i], 4};
            receive[i][1] = (lki_piece){left, got[i] + 1, 8};
            LKT_CHECK(lki_comm_start(comm, &flight[i], send[i], 2, receive[i], 2, "numbers") ==
                      LKS_OK);
        }
        landed = false;
        LKT_CHECK(lks_comm_barrier(comm) == LKS_OK); /* which comes on top */
        while (!landed) LKT_CHECK(lki_comm_poll(comm, flight[5], &landed) == LKS_OK);
        LKT_CHECK(lki_comm_poll(comm, flight[5], &landed) == LKS_OK && landed);
        for (int i = FLIGHTS - 1; i >= 0; i--) {
            LKT_CHECK(lki_comm_wait(comm, flight[i]) == LKS_OK);
            for (int k = 0; k < 3; k++)
                LKT_CHECK(got[i][k] == round * 10000 + i * 100 + left * 10 + k);
        }
    }
    return 0;
}

static void many_flights(void **state)
{
    (void)state;
    everywhere(flights);
}

/* Who starts one too many has forgotten to wait. */
static int forgetful(lks_comm *comm, int rank, void *user)
{
    int flight;
    (void)rank, (void)user;
    for (int i = 0; i < FLIGHTS; i++)
        LKT_CHECK(lki_comm_start(comm, &flight, NULL, 0, NULL, 0, "nothing") == LKS_OK);
    LKT_CHECK(lki_comm_start(comm, &flight, NULL, 0, NULL, 0, "more") == LKS_E_BUG);
    char said[64];
    snprintf(said, sizeof said, "'nothing', %d exchanges ago, was never waited", FLIGHTS);
    return strstr(lks_last_error()->message, said) == NULL;
}

static void forgotten_flights(void **state)
{
    (void)state;
    lkt_ranks(&(lkt_hub_opts){.size = 2}, NULL, forgetful, NULL);
}

static int sums(lks_comm *comm, int rank, void *user)
{
    const int size = lks_comm_size(comm);
    float values[100];
    int flight = 0;
    (void)user;
    if (getenv("LKT_TRANSPORT") != NULL && !lki_comm_sums(comm)) return 0; /* socket has none */
    LKT_CHECK(lki_comm_sums(comm));
    for (int i = 0; i < 100; i++) values[i] = (float)(i * (rank + 1));
    LKT_CHECK(lki_comm_all_reduce(comm, &flight, values, 100, "sums") == LKS_OK);
    LKT_CHECK(lki_comm_wait(comm, flight) == LKS_OK);
    for (int i = 0; i < 100; i++) LKT_CHECK(values[i] == (float)(i * size * (size + 1) / 2));
    return 0;
}

static void all_reduce(void **state)
{
    (void)state;
    everywhere(sums);
}

/* What one writes behind a barrier the others read, where there is such memory. */
static int shares(lks_comm *comm, int rank, void *user)
{
    const int size = lks_comm_size(comm);
    void *base[5];
    const bool *expected = user;
    LKT_CHECK(lki_comm_share(comm, 64, base) == LKS_OK);
    if (getenv("LKT_TRANSPORT") != NULL && base[rank] == NULL) return 0; /* nor memory in common */
    if (size > 1 && (*expected || lkt_ranks_are_processes())) {
        *(int *)base[rank] = 100 + rank;
        LKT_CHECK(lks_comm_barrier(comm) == LKS_OK);
        for (int r = 0; r < size; r++) LKT_CHECK(*(int *)base[r] == 100 + r);
        LKT_CHECK(lks_comm_barrier(comm) == LKS_OK);
    } else {
        for (int r = 0; r < size; r++) LKT_CHECK(r == rank || base[r] == NULL);
    }
    lki_comm_unshare(comm, base[rank]);
    return 0;
}

static void share(void **state)
{
    (void)state;
    for (int s = 0; s < 4; s++)
        for (int is = 0; is <= 1; is++)
            lkt_ranks(&(lkt_hub_opts){.size = SIZES[s], .share = is != 0}, NULL, shares,
                      &(bool){is != 0});
}

static int same(lks_comm *comm, int rank, void *user)
{
    const int size = lks_comm_size(comm), last = size - 1;
    (void)user;
    LKT_CHECK(lks_comm_same(comm, "lr", "0.1") == LKS_OK);
    LKT_CHECK(lks_comm_same(comm, "empty", "") == LKS_OK);
    if (size == 1) return 0;
    char expected[200];
    LKT_CHECK(lks_comm_same(comm, "lr", rank == last ? "0.1" : "0.01") == LKS_E_MISMATCH);
    const char *said = lks_last_error()->message;
    snprintf(expected, sizeof expected, "lr: rank %d (host ", last);
    LKT_CHECK(strncmp(said, expected, strlen(expected)) == 0);
    LKT_CHECK(strstr(said, ") has '0.1', rank 0 (host ") != NULL);
    LKT_CHECK(strstr(said, ") has '0.01'") != NULL);
    /* Of several lines the first that differs, be it that one has none. */
    LKT_CHECK(lks_comm_same(comm, "configuration",
                            rank == 0 ? "a: 1\nb: 2\nc: 3\n" : "a: 1\nb: 4\nc: 5\nd: 6\n") ==
              LKS_E_MISMATCH);
    LKT_CHECK(strstr(said, ") has 'b: 4', rank 0") != NULL);
    LKT_CHECK(strstr(said, ") has 'b: 2'") != NULL);
    LKT_CHECK(lks_comm_same(comm, "configuration", rank == 0 ? "a: 1" : "a: 1\nb: 4") ==
              LKS_E_MISMATCH);
    LKT_CHECK(strstr(said, ") has 'b: 4', rank 0") != NULL);
    LKT_CHECK(strstr(said, ") has ''") != NULL);
    return lks_comm_barrier(comm) != LKS_OK; /* it goes on */
}

static void sameness(void **state)
{
    (void)state;
    everywhere(same);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(barrier),           cmocka_unit_test(broadcast),
        cmocka_unit_test(all_gather),        cmocka_unit_test(all_to_all),
        cmocka_unit_test(many_flights),      cmocka_unit_test(all_reduce),
        cmocka_unit_test(forgotten_flights), cmocka_unit_test(share),
        cmocka_unit_test(sameness),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

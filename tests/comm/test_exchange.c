/* Ranks meet, exchange, gather and agree. */
#include <string.h>

#include "support/ranks/fake.h"
#include "support/test.h"

#include "base/check.h"

static int exchange(lks_comm *comm, int rank, void *user)
{
    const int size = lks_comm_size(comm);
    (void)user;
    LKT_CHECK(comm != NULL && lks_comm_rank(comm) == rank);
    LKT_CHECK(lks_comm_local_rank(comm) == rank && lks_comm_local_size(comm) == size);
    for (int round = 0; round < 100; round++) {
        int64_t sent[16], got[16];
        lki_piece send[16], receive[16];
        int count = 0, flight = -1;
        for (int r = 0; r < size; r++) {
            sent[r] = round * 1000 + rank * 10 + r;
            if (r == rank) continue;
            send[count] = (lki_piece){r, &sent[r], sizeof sent[r]};
            receive[count++] = (lki_piece){r, &got[r], sizeof got[r]};
        }
        LKT_CHECK(lki_comm_start(comm, &flight, send, count, receive, count, "numbers") == LKS_OK);
        LKT_CHECK(lki_comm_wait(comm, flight) == LKS_OK);
        for (int r = 0; r < size; r++)
            LKT_CHECK(r == rank || got[r] == round * 1000 + r * 10 + rank);
        LKT_CHECK(lki_comm_gather(comm, &sent[0], sizeof *sent, got, "firsts") == LKS_OK);
        for (int r = 0; r < size; r++) LKT_CHECK(got[r] == round * 1000 + r * 10);
    }
    return 0;
}

static void exchanges(void **state)
{
    const int sizes[] = {1, 2, 3, 5};
    (void)state;
    for (int i = 0; i < 4; i++) {
        lkt_ranks(&(lkt_hub_opts){.size = sizes[i]}, NULL, exchange, NULL);
        lkt_ranks(&(lkt_hub_opts){.size = sizes[i], .seed = 7, .delay = 9}, NULL, exchange, NULL);
    }
}

static int agreement(lks_comm *comm, int rank, void *user)
{
    (void)user;
    LKT_CHECK(lks_comm_agree(comm, LKS_OK) == LKS_OK);
    const bool bad = rank == 1 || rank == 2;
    const lks_status mine = bad ? LKI_FAIL(rank == 1 ? LKS_E_IO : LKS_E_FORMAT, "rank %d cannot",
                                           rank)
                                : LKS_OK;
    LKT_CHECK(lks_comm_agree(comm, mine) == LKS_E_IO);
    const char *said = lks_last_error()->message;
    if (rank == 1) LKT_CHECK(strcmp(said, "rank 1 cannot") == 0);
    if (rank != 1) LKT_CHECK(strncmp(said, "rank 1 (host ", 13) == 0);
    if (rank != 1) LKT_CHECK(strstr(said, "): rank 1 cannot") != NULL);
    LKT_CHECK(lks_comm_agree(comm, LKS_OK) == LKS_OK); /* and all go on, with their records */
    LKT_CHECK(lks_last_error()->status == LKS_E_IO && strstr(said, "rank 1 cannot") != NULL);
    /* A sentence that belongs to another failure is not told. */
    (void)LKI_FAIL(LKS_E_FORMAT, "an old story");
    LKT_CHECK(lks_comm_agree(comm, rank == 2 ? LKS_E_IO : LKS_OK) == LKS_E_IO);
    LKT_CHECK(strstr(said, rank == 2 ? "a file could not be read or written"
                                     : "): a file could not be read or written") != NULL);
    const lks_status zero = rank == 0 ? LKI_FAIL(LKS_E_IO, "no such folder") : LKS_OK;
    LKT_CHECK(lks_comm_agree(comm, zero) == LKS_E_IO && strcmp(said, "no such folder") == 0);
    return 0;
}

static void agreements(void **state)
{
    (void)state;
    lkt_ranks(&(lkt_hub_opts){.size = 3, .delay = 3}, NULL, agreement, NULL);
}

static void alone(void **state)
{
    lks_comm *comm = NULL;
    (void)state;
    if (lkt_ranks_are_processes()) skip();
    LKT_OK(lks_comm_create(&comm, NULL));
    assert_int_equal(lks_comm_size(comm), 1);
    assert_int_equal(lks_comm_local_size(comm), 1);
    assert_string_equal(lks_comm_library(comm), "");
    assert_true(strlen(lks_comm_host(comm, 0)) > 0);
    lks_comm_destroy(comm);
    LKT_FAILS(LKS_E_INVALID, "no transport 'pigeon', but these: mpi, self, socket",
              lks_comm_create(&comm, &(lks_comm_opts){.transport = "pigeon"}));
    LKT_FAILS(LKS_E_INVALID, "timeout_s is -1",
              lks_comm_create(&comm, &(lks_comm_opts){.timeout_s = -1}));
}

static int closed_door(void **link, const void *how, lki_fault *fault)
{
    (void)link, (void)how;
    snprintf(fault->text, sizeof fault->text, "nobody is at home");
    return 1;
}

/* What cannot be joined is said; a module of another build is not even asked. */
static void nowhere_to_join(void **state)
{
    lks_comm *comm = NULL;
    lki_transport transport = {.name = "odd", .abi = LKI_TRANSPORT_ABI + 1};
    (void)state;
    LKT_FAILS(LKS_E_COMM, "transport 'odd' belongs to another build of Lockstep (contract ",
              lki_comm_open(&comm, &transport, NULL, NULL));
    transport.abi = LKI_TRANSPORT_ABI;
    transport.open = closed_door;
    LKT_FAILS(LKS_E_COMM, "transport 'odd': nobody is at home",
              lki_comm_open(&comm, &transport, NULL, NULL));
    assert_null(comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exchanges),
        cmocka_unit_test(agreements),
        cmocka_unit_test(alone),
        cmocka_unit_test(nowhere_to_join),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

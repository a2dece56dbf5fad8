/* Ranks that meet in memory in common, or wait there for a number; and the bell at which they sleep. */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "comm/flight.h"
#include "machine/bell.h"
#include "support/ranks/fake.h"
#include "support/test.h"

enum { RANKS = 3, ROUNDS = 200 };

static _Alignas(LKI_ALIGN) struct {
    lki_seat seat[RANKS];
    _Atomic int64_t number;
} common;

static void rest(double seconds)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)(1e9 * seconds)}, NULL);
}

static int begin(lks_comm *comm, lki_assembly *meeting)
{
    LKT_CHECK(comm != NULL && lki_comm_meeting_bytes(comm) == sizeof common.seat);
    lki_comm_meet_at(comm, meeting, common.seat);
    return 0;
}

/* Who is late differs from round to round; nobody goes on before all have done their part. */
static int wait_for_each_other(lks_comm *comm, int rank, void *user)
{
    lki_assembly meeting;
    (void)user;
    LKT_CHECK(begin(comm, &meeting) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 16 == rank) rest(2e-3);
        if (atomic_fetch_add(&common.number, 1) + 1 == (i + 1) * RANKS)
            lki_comm_meet_wake(&meeting);
        LKT_CHECK(lki_comm_await(comm, &meeting, &common.number, (i + 1) * RANKS, "parts") ==
                  LKS_OK);
        if (i % 16 == RANKS + rank) rest(2e-3);
        LKT_CHECK(lki_comm_meet(comm, &meeting, "a round") == LKS_OK);
        LKT_CHECK(atomic_load(&common.number) == (i + 1) * RANKS);
        LKT_CHECK(lki_comm_meet(comm, &meeting, "the next round") == LKS_OK);
    }
    lki_comm_meet_no_more(comm, &meeting);
    return 0;
}

/* Rank 1 has something to say, and comes no more. */
static int lose_one(lks_comm *comm, int rank, void *user)
{
    lki_assembly meeting;
    (void)user;
    LKT_CHECK(begin(comm, &meeting) == 0);
    if (rank == 1) {
        rest(5e-3);
        LKT_CHECK(lki_comm_break(comm, lks_fail(LKS_E_IO, "the disk is full")) == LKS_E_IO);
    } else {
        LKT_CHECK(lki_comm_await(comm, &meeting, &common.number, 1, "parts") == LKS_E_IO);
        LKT_CHECK(strstr(lks_last_error()->message, "the disk is full") != NULL);
        LKT_CHECK(lki_comm_await(comm, &meeting, &common.number, 0, "parts") == LKS_E_IO);
    }
    lki_comm_meet_no_more(comm, &meeting);
    return 0;
}

static int have_no_patience(lks_comm *comm, int rank, void *user)
{
    lki_assembly meeting;
    (void)user;
    LKT_CHECK(begin(comm, &meeting) == 0);
    if (rank == 0) {
        LKT_CHECK(lki_comm_await(comm, &meeting, &common.number, 1, "parts") == LKS_E_TIMEOUT);
        LKT_CHECK(strstr(lks_last_error()->message, "parts") != NULL);
    }
    lki_comm_meet_no_more(comm, &meeting);
    return 0;
}

static void ranks_wait_in_memory(void **state)
{
    static const lks_comm_opts hasty = {.timeout_s = .05};
    const lkt_rank_body bodies[] = {wait_for_each_other, lose_one, have_no_patience};
    (void)state;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        memset(&common, 0, sizeof common);
        lkt_ranks(&(lkt_hub_opts){.size = RANKS, .share = true}, i == 2 ? &hasty : NULL, bodies[i],
                  NULL);
    }
}

typedef struct sleeper {
    lki_bell bell;
    atomic_int woken;
} sleeper;

static void *sleep_at(void *user)
{
    sleeper *s = user;
    lki_bell_sleep(&s->bell, 0, 100);
    atomic_fetch_add(&s->woken, 1);
    return NULL;
}

static void bells_wake(void **state)
{
    sleeper s = {.woken = 0};
    pthread_t thread[2];
    (void)state;
    lki_bell_sleep(&s.bell, 0, 1e-3); /* nobody rings */
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&thread[i], NULL, sleep_at, &s), 0);
    rest(.02);
    assert_int_equal(atomic_load(&s.woken), 0);
    lki_bell_ring(&s.bell); /* who has not gone to sleep yet does not any more */
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    assert_int_equal(lki_bell_heard(&s.bell), 1);
    lki_bell_sleep(&s.bell, 0, 100); /* it has rung since */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_wait_in_memory),
        cmocka_unit_test(bells_wake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

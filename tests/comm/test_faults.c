/* What fails on one rank ends on all of them, soon and with one sentence. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/ranks/fake.h"
#include "support/test.h"

#include "base/check.h"
#include "base/context.h"
#include "comm/flight.h"

enum { MOST = 5 };

/* How the ranks ended. */
typedef struct ends {
    lks_error errors[MOST];
} ends;

/* One of everything. */
static lks_status story(lks_comm *comm, int rank)
{
    const int size = lks_comm_size(comm);
    float values[3] = {1, 2, 3}, *arrays[] = {values};
    int64_t own[MOST] = {rank}, all[MOST], one = 3;
    void *const pointers[] = {own}, *base[MOST];
    int flight = 0;
    LKI_TRY(lks_comm_barrier(comm));
    LKI_TRY(lks_comm_agree(comm, LKS_OK));
    LKI_TRY(lks_comm_same(comm, "step", "7"));
    lki_comm_step(comm, 7);
    LKI_TRY(lks_comm_broadcast(comm, size - 1, pointers, &(size_t){sizeof own[0]}, 1));
    LKI_TRY(lks_comm_average(comm, arrays, &one, 1, rank + 1));
    LKI_TRY(lks_comm_all_gather(comm, own, sizeof own[0], all));
    LKI_TRY(lks_comm_all_to_all(comm, own, sizeof own[0], all));
    LKI_TRY(lki_comm_share(comm, 16, base));
    lki_comm_unshare(comm, base[rank]);
    LKI_TRY(lki_comm_all_reduce(comm, &flight, values, 3, "sums"));
    return lki_comm_wait(comm, flight);
}

static int told(lks_comm *comm, int rank, void *user)
{
    lks_error *error = &((ends *)user)->errors[rank];
    if (comm != NULL && story(comm, rank) == LKS_OK) {
        *error = (lks_error){.status = LKS_OK};
        return 0;
    }
    *error = *lks_last_error();
    if (comm == NULL) return 0;
    /* Whatever comes next ends at once, with the same. */
    int flight = 0;
    bool landed = true;
    void *base[MOST];
    float value = 0;
    LKT_CHECK(lks_comm_barrier(comm) == error->status);
    LKT_CHECK(strcmp(lks_last_error()->message, error->message) == 0);
    LKT_CHECK(lks_comm_agree(comm, LKS_E_IO) == error->status);
    LKT_CHECK(lki_comm_start(comm, &flight, NULL, 0, NULL, 0, "") == error->status);
    LKT_CHECK(lki_comm_all_reduce(comm, &flight, &value, 1, "") == error->status);
    LKT_CHECK(lki_comm_poll(comm, 0, &landed) == error->status && !landed);
    LKT_CHECK(lki_comm_wait(comm, 0) == error->status);
    LKT_CHECK(lki_comm_share(comm, 1, base) == error->status);
    LKT_CHECK(strcmp(lks_last_error()->message, error->message) == 0);
    return 0;
}

/* Starts of a rank in a story that nobody disturbs. */
static int starts_of(int size, bool verify)
{
    ends e;
    int count = 0;
    for (;;) {
        const lkt_hub_opts hub = {.size = size, .fail_rank = 0, .fail_at = ++count};
        lkt_ranks(&hub, &(lks_comm_opts){.verify = verify}, told, &e);
        if (e.errors[0].status == LKS_OK) return count - 1;
    }
}

/* The nth start of one rank fails, for every n: nobody waits, and all say the same. */
static void every_start_fails(void **state)
{
    (void)state;
    for (int size = 2; size <= MOST; size += size < 3 ? 1 : 2) {
        for (int verify = 0; verify <= 1; verify++) {
            const lks_comm_opts opts = {.verify = verify != 0, .timeout_s = 30};
            const int starts = starts_of(size, opts.verify);
            assert_true(starts >= 12);
            for (int n = 1; n <= starts; n++) {
                ends e;
                const int failing = n % size;
                char expected[40];
                const lkt_hub_opts hub = {.size = size,
                                          .seed = (uint64_t)n,
                                          .delay = n % 3 * 3,
                                          .share = n % 2 != 0,
                                          .fail_rank = failing,
                                          .fail_at = n};
                lkt_ranks(&hub, &opts, told, &e);
                snprintf(expected, sizeof expected, "rank %d ", failing);
                for (int r = 0; r < size; r++) {
                    assert_int_equal(e.errors[r].status, LKS_E_COMM);
                    assert_string_equal(e.errors[r].message, e.errors[0].message);
                }
                assert_non_null(strstr(e.errors[0].message, expected));
                assert_non_null(strstr(e.errors[0].message, "failed as it was told to"));
            }
        }
    }
}

/* A rank is gone without a word: the others name it. */
static void every_start_kills(void **state)
{
    (void)state;
    const int size = 3, starts = starts_of(size, false);
    for (int n = 1; n <= starts; n++) {
        ends e;
        const int dying = n % size;
        char expected[40];
        const lkt_hub_opts hub = {
            .size = size, .seed = (uint64_t)n, .delay = n % 2 * 4, .die_rank = dying, .die_at = n};
        lkt_ranks(&hub, &(lks_comm_opts){.timeout_s = 30}, told, &e);
        snprintf(expected, sizeof expected, ": rank %d ", dying);
        for (int r = 0; r < size; r++) {
            assert_int_equal(e.errors[r].status, LKS_E_COMM);
            assert_non_null(strstr(e.errors[r].message, expected));
        }
        assert_non_null(strstr(e.errors[(dying + 1) % size].message, "is gone"));
    }
}

/* A rank that does not come is named, with host, process and step; all others say so, and so does the
 * late one when it comes. */
static int late(lks_comm *comm, int rank, void *user)
{
    int *ended = user;
    lki_comm_step(comm, 12);
    while (rank == 2 && __atomic_load_n(ended, __ATOMIC_SEQ_CST) < 2)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    /* The late one finds what the others have sent before they gave up; then it hears of it. */
    if (rank == 2) LKT_CHECK(lks_comm_barrier(comm) == LKS_OK);
    LKT_CHECK(lks_comm_barrier(comm) == LKS_E_TIMEOUT);
    __atomic_add_fetch(ended, 1, __ATOMIC_SEQ_CST);
    const char *said = lks_last_error()->message;
    char host[80];
    snprintf(host, sizeof host, "(host %s, pid %d)", lks_comm_host(comm, 2), (int)getpid());
    LKT_CHECK(strncmp(said, "barrier of step 12: rank 2 (host ", 33) == 0);
    LKT_CHECK(strstr(said, host) != NULL);
    LKT_CHECK(strstr(said, " has not come within 0.05 s; ") != NULL);
    return 0;
}

static void who_is_late_is_named(void **state)
{
    (void)state;
    lkt_ranks(&(lkt_hub_opts){.size = 3}, &(lks_comm_opts){.timeout_s = 0.05}, late, &(int){0});
}

/* A training that somebody stops and continues has waited for nothing meanwhile. */
static int stopped(lks_comm *comm, int rank, void *user)
{
    (void)user;
    if (rank == 1) {
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL); /* the other one waits */
        kill(getpid(), SIGSTOP);
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    return lks_comm_barrier(comm) != LKS_OK;
}

static int stopped_alone(void *user)
{
    int results[2];
    (void)user;
    lkt_ranks_run(&(lkt_hub_opts){.size = 2}, &(lks_comm_opts){.timeout_s = 0.6}, stopped, NULL,
                  results);
    return results[0] + results[1];
}

static void a_stop_is_no_delay(void **state)
{
    int status = 0;
    (void)state;
    const pid_t child = fork();
    if (child == 0) _exit(stopped_alone(NULL));
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    nanosleep(&(struct timespec){.tv_nsec = 800000000}, NULL);
    kill(child, SIGCONT);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Arguments that one rank should not have given: refused there, and nobody waits for it. */
static int refusing(lks_comm *comm, int rank, void *user)
{
    const int kind = *(const int *)user, bad = rank == 1;
    char bytes[16] = {0}, all[16];
    void *const arrays[] = {bad && kind == 1 ? NULL : bytes};
    float *const floats[] = {NULL};
    const char *expected[] = {"root 7, but there are 3 ranks",
                              "NULL as arrays[0]",
                              "got count -1",
                              "lks_comm_all_gather() got NULL as mine",
                              "lks_comm_same() got NULL as text",
                              "got NULL as receive",
                              "got NULL as arrays[0], with 1 numbers"};
    lks_status status = LKS_OK;
    switch (bad || kind == 1 ? kind : -1) {
    case 0:
        status = lks_comm_broadcast(comm, 7, arrays, &(size_t){4}, 1);
        break;
    case 1:
        status = lks_comm_broadcast(comm, 0, arrays, &(size_t){4}, 1);
        break;
    case 2:
        status = lks_comm_average(comm, NULL, NULL, -1, 1);
        break;
    case 3:
        status = lks_comm_all_gather(comm, NULL, 4, all);
        break;
    case 4:
        status = lks_comm_same(comm, "lr", NULL);
        break;
    case 5:
        status = lks_comm_all_to_all(comm, bytes, 4, NULL);
        break;
    case 6:
        status = lks_comm_average(comm, floats, &(int64_t){1}, 1, 1);
        break;
    }
    if (status == LKS_OK) status = lks_comm_barrier(comm); /* the root waits for nothing */
    LKT_CHECK(status == LKS_E_INVALID);
    LKT_CHECK(strncmp(lks_last_error()->message, "rank 1 (host ", 13) == 0);
    LKT_CHECK(strstr(lks_last_error()->message, expected[kind]) != NULL);
    return 0;
}

static void arguments_of_one_rank(void **state)
{
    (void)state;
    for (int kind = 0; kind < 7; kind++)
        lkt_ranks(&(lkt_hub_opts){.size = 3}, &(lks_comm_opts){.timeout_s = 30}, refusing, &kind);
}

/* A rank that has no memory for its part of a collective tells it, instead of leaving the others alone. */
static int poor(lks_comm *comm, int rank, void *user)
{
    void *scratch = NULL;
    (void)user;
    LKT_CHECK((rank == 1 ? lki_comm_scratch(comm, SIZE_MAX, &scratch) : lks_comm_barrier(comm)) ==
              LKS_E_NOMEM);
    LKT_CHECK(strncmp(lks_last_error()->message, "rank 1 (host ", 13) == 0);
    LKT_CHECK(strstr(lks_last_error()->message, "messages between ranks") != NULL);
    return lks_comm_barrier(comm) != LKS_E_NOMEM;
}

static void memory_of_one_rank(void **state)
{
    (void)state;
    lkt_ranks(&(lkt_hub_opts){.size = 3}, &(lks_comm_opts){.timeout_s = 30}, poor, NULL);
}

static int aborting(lks_comm *comm, int rank, void *user)
{
    (void)user;
    if (rank == 1) lks_comm_abort(comm, 3);
    LKT_CHECK(lks_comm_barrier(comm) == LKS_E_COMM);
    LKT_CHECK(strstr(lks_last_error()->message, "rank 1 has ") != NULL);
    return 0;
}

static void abort_ends_all(void **state)
{
    lks_comm *comm = NULL;
    (void)state;
    lkt_ranks(&(lkt_hub_opts){.size = 3}, &(lks_comm_opts){.timeout_s = 30}, aborting, NULL);
    LKT_OK(lks_comm_create(&comm, NULL));
    lks_comm_abort(comm, 3); /* alone it has nobody to end */
    lks_comm_destroy(comm);
}

/* A rank that leaves before the others are done is said to have left. */
static int leaving(lks_comm *comm, int rank, void *user)
{
    (void)user;
    if (rank == 0) return 0;
    LKT_CHECK(lks_comm_barrier(comm) == LKS_E_COMM);
    LKT_CHECK(strstr(lks_last_error()->message, "barrier: rank 0 (host ") != NULL);
    LKT_CHECK(strstr(lks_last_error()->message, ") has left") != NULL);
    return 0;
}

static void leaving_early(void **state)
{
    (void)state;
    lkt_ranks(&(lkt_hub_opts){.size = 2}, &(lks_comm_opts){.timeout_s = 30}, leaving, NULL);
}

/* In a child of fork() nothing is sent in the parent's name, and its end is none of the parent's. */
static int fork_body(void *user)
{
    lks_comm *comm = user;
    LKT_CHECK(lks_comm_barrier(comm) == LKS_E_STATE);
    LKT_CHECK(strstr(lks_last_error()->message, "lks_comm_barrier() came behind a fork") != NULL);
    lks_comm_abort(comm, 1);
    lks_comm_destroy(comm);
    return 0;
}

static int forking(lks_comm *comm, int rank, void *user)
{
    (void)user;
    if (rank == 0) LKT_CHECK(lkt_in_child(fork_body, comm) == 0);
    return lks_comm_barrier(comm) != LKS_OK;
}

static void behind_a_fork(void **state)
{
    (void)state;
    if (LKT_SANITIZER) skip(); /* a child of one thread of several is nothing for sanitizers */
    lkt_ranks(&(lkt_hub_opts){.size = 2}, &(lks_comm_opts){.timeout_s = 30}, forking, NULL);
}

static int closed;

static int lone_open(void **link, const void *how, lki_fault *fault)
{
    (void)link, (void)how, (void)fault;
    return 0;
}

static void lone_close(void *link)
{
    (void)link;
    closed++;
}

static int lone_rank(const void *link)
{
    (void)link;
    return 0;
}

static int lone_size(const void *link)
{
    (void)link;
    return 1;
}

static int destroy_in_child(void *user)
{
    lks_comm_destroy(user);
    return closed;
}

/* The child leaves the transport alone, which may talk in the parent's name when it is closed. */
static void a_fork_closes_nothing(void **state)
{
    const lki_transport lone = {.name = "lone",
                                .abi = LKI_TRANSPORT_ABI,
                                .open = lone_open,
                                .close = lone_close,
                                .rank = lone_rank,
                                .size = lone_size};
    lks_comm *comm = NULL;
    (void)state;
    LKT_OK(lki_comm_open(&comm, &lone, NULL, NULL));
    assert_int_equal(lkt_in_child(destroy_in_child, comm), 0);
    lks_comm_destroy(comm);
    assert_int_equal(closed, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_start_fails),     cmocka_unit_test(every_start_kills),
        cmocka_unit_test(who_is_late_is_named),  cmocka_unit_test(a_stop_is_no_delay),
        cmocka_unit_test(arguments_of_one_rank), cmocka_unit_test(abort_ends_all),
        cmocka_unit_test(memory_of_one_rank),    cmocka_unit_test(leaving_early),
        cmocka_unit_test(behind_a_fork),         cmocka_unit_test(a_fork_closes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

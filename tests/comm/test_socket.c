/* Ranks that meet without a launcher: who joins, who may not, and what is said. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <lockstep/lockstep.h>

#include "support/test.h"

typedef struct joiner {
    lks_comm_opts opts;
    lks_status status;
    char message[600];
    float mean;
} joiner;

/* Joins, averages its rank, and leaves. */
static void *join(void *user)
{
    joiner *mine = user;
    lks_comm *comm = NULL;
    float *arrays[] = {&mine->mean};
    mine->mean = (float)mine->opts.rank;
    mine->status = lks_comm_create(&comm, &mine->opts);
    if (mine->status == LKS_OK) mine->status = lks_comm_average(comm, arrays, (int64_t[]){1}, 1, 1);
    snprintf(mine->message, sizeof mine->message, "%s", lks_last_error()->message);
    lks_comm_destroy(comm);
    return NULL;
}

static void join_all(joiner *all, int count)
{
    pthread_t thread[8];
    for (int k = 0; k < count; k++)
        assert_int_equal(pthread_create(&thread[k], NULL, join, &all[k]), 0);
    for (int k = 0; k < count; k++) pthread_join(thread[k], NULL);
}

static joiner make(const char *id, int rank, int size)
{
    return (joiner){.opts = {.id = id, .rank = rank, .size = size, .timeout_s = 5}};
}

static void says(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) fail_msg("'%s' does not have '%s'", text, part);
}

static void meet_at(const char *address, int size)
{
    char id[LKS_COMM_ID];
    joiner all[8];
    LKT_OK(lks_comm_make_id(id, address));
    for (int r = 0; r < size; r++) all[r] = make(id, r, size);
    join_all(all, size);
    for (int r = 0; r < size; r++) {
        assert_string_equal(all[r].status == LKS_OK ? "" : all[r].message, "");
        assert_true(all[r].mean == (float)(size - 1) / 2);
    }
}

static void ranks_meet(void **state)
{
    (void)state;
    for (int size = 1; size <= 8; size += size == 1 ? 1 : 2) meet_at(NULL, size);
    meet_at("127.0.0.2", 2);
    meet_at("localhost", 3);
    const int six = socket(AF_INET6, SOCK_STREAM, 0);
    const struct sockaddr_in6 own = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    const bool there = six >= 0 && bind(six, (const struct sockaddr *)&own, sizeof own) == 0;
    if (six >= 0) close(six);
    if (there) meet_at("::1", 3);
}

/* The port of an id. */
static int call(const char *id)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)atoi(strchr(id, ':') + 1)),
                                   .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* One sends noise, one says nothing and stays, one hangs up, one has another secret. */
static void strangers_are_left_out(void **state)
{
    char id[LKS_COMM_ID], wrong[LKS_COMM_ID], noise[4000];
    joiner all[3];
    (void)state;
    LKT_OK(lks_comm_make_id(id, NULL));
    memset(noise, 'x', sizeof noise);
    const int loud = call(id), silent = call(id), short_one = call(id);
    assert_true(send(loud, noise, sizeof noise, 0) > 0);
    assert_true(send(short_one, noise, 3, 0) > 0);
    close(short_one);
    strcpy(wrong, id);
    char *last = &wrong[strlen(wrong) - 1];
    *last = *last == '0' ? '1' : '0';
    all[0] = make(id, 0, 2);
    all[1] = make(id, 1, 2);
    all[2] = make(wrong, 1, 2);
    join_all(all, 3);
    assert_int_equal(all[0].status, LKS_OK);
    assert_int_equal(all[1].status, LKS_OK);
    assert_int_equal(all[2].status, LKS_E_COMM);
    close(loud);
    close(silent);
}

static void mistakes_have_sentences(void **state)
{
    char id[LKS_COMM_ID];
    joiner all[3];
    lks_comm *comm;
    (void)state;
    LKT_OK(lks_comm_make_id(id, NULL));
    all[0] = make(id, 0, 3), all[1] = make(id, 1, 3), all[2] = make(id, 1, 3);
    join_all(all, 3);
    for (int k = 0; k < 3; k++) assert_int_equal(all[k].status, LKS_E_COMM);
    says(all[0].message, "two processes join as rank 1 of 3");
    /* One of the two is hung up on, the other has rank 0's sentence. */
    says(all[strstr(all[1].message, "two") ? 1 : 2].message, "two processes join as rank 1 of 3");
    LKT_OK(lks_comm_make_id(id, NULL));
    all[0] = make(id, 0, 2), all[1] = make(id, 1, 3);
    join_all(all, 2);
    says(all[0].message, "rank 1 joins 3 ranks, and here they are 2");
    LKT_OK(lks_comm_make_id(id, NULL));
    all[0] = make(id, 0, 3), all[1] = make(id, 1, 3);
    all[0].opts.timeout_s = all[1].opts.timeout_s = 0.2;
    join_all(all, 2);
    for (int k = 0; k < 2; k++) {
        says(all[k].message, "rank 2 has not come within 0.2 s");
        assert_int_equal(all[k].status, LKS_E_TIMEOUT);
    }

    const lks_comm_opts used = {.id = id, .rank = 0, .size = 2}, bad = {.id = "a:b", .size = 2};
    const lks_comm_opts outside = {.id = id, .rank = 2, .size = 2}, none = {.transport = "socket"};
    const lks_comm_opts other = {.id = id, .size = 2, .transport = "self"};
    const lks_comm_opts lost = {.rank = 1, .size = 2},
                        mixed = {.id = id, .size = 2, .mpi_comm = &none};
    const lks_comm_opts strange = {.transport = "socket", .mpi_comm = &none};
    LKT_FAILS(LKS_E_COMM, "rank 0 has not made this id", lks_comm_create(&comm, &used));
    LKT_FAILS(LKS_E_COMM, "'a:b' is no id", lks_comm_create(&comm, &bad));
    LKT_FAILS(LKS_E_INVALID, "rank 2 of 2 cannot be", lks_comm_create(&comm, &outside));
    LKT_FAILS(LKS_E_INVALID, "needs an id, a rank and a size", lks_comm_create(&comm, &none));
    LKT_FAILS(LKS_E_INVALID, "an id was given to transport 'self'", lks_comm_create(&comm, &other));
    LKT_FAILS(LKS_E_INVALID, "rank 1 of 2 is to be joined without an id",
              lks_comm_create(&comm, &lost));
    LKT_FAILS(LKS_E_INVALID, "an MPI communicator was given to transport 'socket'",
              lks_comm_create(&comm, &mixed));
    LKT_FAILS(LKS_E_INVALID, "an MPI communicator was given to transport 'socket'",
              lks_comm_create(&comm, &strange));
    LKT_FAILS(LKS_E_COMM, "cannot be reached at '203.0.113.9'",
              lks_comm_make_id(id, "203.0.113.9"));
}

static void heed_nothing(int number)
{
    (void)number;
}

/* Joins as rank 1 where somebody listens, and says nothing; with `full` others wait there already. */
static void wait_for_a_silent_one(bool full)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof own;
    char id[LKS_COMM_ID];
    int others[3];
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (const struct sockaddr *)&own, length), 0);
    assert_int_equal(listen(listener, full ? 0 : 8), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&own, &length), 0);
    for (int i = 0; i < 3; i++) {
        others[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (full) (void)!connect(others[i], (const struct sockaddr *)&own, length);
    }
    snprintf(id, sizeof id, "127.0.0.1:%d:%032d", ntohs(own.sin_port), 7);
    joiner one = make(id, 1, 2);
    one.opts.timeout_s = 0.3;
    join(&one);
    says(one.message, "Connection timed out");
    assert_int_equal(one.status, LKS_E_TIMEOUT);
    for (int i = 0; i < 3; i++) close(others[i]);
    close(listener);
}

/* Of a profiler, or of a language with timers of its own. */
static void signals_end_no_waiting(void **state)
{
    const struct itimerval often = {.it_interval = {.tv_usec = 5000}, .it_value = {.tv_usec = 1}};
    struct sigaction before, action = {.sa_handler = heed_nothing, .sa_flags = SA_RESTART};
    (void)state;
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    wait_for_a_silent_one(false);
    wait_for_a_silent_one(true);
    assert_int_equal(setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL), 0);
    assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
}

/* Nobody can be let in, which does not mend itself. */
static void all_files_may_be_open(void **state)
{
    struct rlimit before;
    char id[LKS_COMM_ID];
    (void)state;
    LKT_OK(lks_comm_make_id(id, NULL));
    const int caller = call(id), next = dup(caller);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit none = {(rlim_t)next, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    joiner first = make(id, 0, 2);
    join(&first);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(first.status, LKS_E_COMM);
    says(first.message, "no rank can be let in: Too many open files");
    close(caller);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_meet), cmocka_unit_test(strangers_are_left_out),
        cmocka_unit_test(mistakes_have_sentences), cmocka_unit_test(signals_end_no_waiting),
        cmocka_unit_test(all_files_may_be_open)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The watch beside the data path: who ends or freezes is named within a period, and nobody else. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/ranks/fake.h"
#include "support/test.h"

#include "base/context.h"
#include "comm/watch.h"

enum { SIZE = 3 };
#define PERIOD 1.0

/* What the processes of a test have in common. */
typedef struct scene {
    lki_door door;
    atomic_int opened, joined, ended;
    lki_loss loss[SIZE];   /* rank -1: none */
    atomic_int told[SIZE]; /* who has one */
    double at[SIZE];       /* when */
    atomic_int late[SIZE];
} scene;

static lki_spot spot;

static void tell(void *user, const lki_loss *loss, bool late)
{
    (void)loss;
    if (late) atomic_fetch_add((atomic_int *)user, 1);
}

static void be(scene *s, int rank)
{
    lki_watch *watch = NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const lki_watch_opts opts = {.rank = rank,
                                 .size = SIZE,
                                 .period_s = PERIOD,
                                 .near = true,
                                 .spot = &spot,
                                 .tell = tell,
                                 .user = &s->late[rank]};
    lki_door door;
    atomic_store(&spot.step, 10 + rank);
    atomic_store(&spot.phase, "gradients");
    if (lki_watch_open(&watch, &door, &opts) != LKS_OK) _exit(1);
    if (rank == 0) s->door = door;
    if (rank == 0) atomic_store(&s->opened, 1);
    while (!atomic_load(&s->opened)) usleep(1000);
    if (rank != 0 && lki_watch_join(&watch, &s->door, &opts) != LKS_OK) _exit(1);
    if (watch == NULL) _exit(1);
    atomic_fetch_add(&s->joined, 1);
    while (!atomic_load(&s->ended)) {
        const lki_loss *loss = lki_watch_ask(watch, 0.01);
        if (loss == NULL || atomic_load(&s->told[rank])) continue;
        s->loss[rank] = *loss;
        s->at[rank] = lki_seconds();
        if (rank == 1) lki_watch_said(watch); /* the others' calls never say it */
        atomic_store(&s->told[rank], 1);
    }
    lki_watch_end(watch, false);
    _exit(0);
}

static scene *begin(pid_t pid[SIZE])
{
    scene *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(s != MAP_FAILED);
    for (int r = 0; r < SIZE; r++) {
        pid[r] = fork();
        if (pid[r] == 0) be(s, r);
    }
    while (atomic_load(&s->joined) < SIZE) usleep(1000);
    return s;
}

/* What the ranks but one (-1: all) return. */
static void end(scene *s, const pid_t pid[SIZE], int but)
{
    atomic_store(&s->ended, 1);
    for (int r = 0; r < SIZE; r++) {
        int status;
        if (r == but) kill(pid[r], SIGKILL);
        assert_int_equal(waitpid(pid[r], &status, 0), pid[r]);
        if (r != but) assert_int_equal(status, 0);
    }
    munmap(s, sizeof *s);
}

static void expect_loss(scene *s, int lost, lki_end how, double from)
{
    for (int r = 0; r < SIZE; r++) {
        if (r == lost) continue;
        for (int i = 0; i < 5000 && !atomic_load(&s->told[r]); i++) usleep(1000);
        assert_true(atomic_load(&s->told[r]));
        assert_int_equal(s->loss[r].rank, lost);
        assert_int_equal(s->loss[r].how, how);
        assert_int_equal(s->loss[r].step, 10 + lost);
        assert_string_equal(s->loss[r].phase, "gradients");
        if (s->at[r] - from > 4 * PERIOD) /* other tests may have the cores */
            fail_msg("named after %g s", s->at[r] - from);
    }
}

/* A heartbeat on a thread of its own finds whoever is dead while the others only hang. */
static void an_end_is_named(void **state)
{
    (void)state;
    for (int lost = 0; lost < SIZE; lost++) {
        pid_t pid[SIZE];
        scene *s = begin(pid);
        const double from = lki_seconds();
        kill(pid[lost], SIGKILL);
        expect_loss(s, lost, LKI_END_PROCESS, from);
        end(s, pid, lost);
    }
}

/* The same for one that is alive and does nothing. Who has not said so after a further period is called. */
static void a_stop_is_named(void **state)
{
    (void)state;
    for (int lost = 0; lost < SIZE; lost += 2) {
        pid_t pid[SIZE];
        scene *s = begin(pid);
        const double from = lki_seconds();
        kill(pid[lost], SIGSTOP);
        expect_loss(s, lost, LKI_END_SILENCE, from);
        for (int r = 0; r < SIZE; r++)
            for (int i = 0; r != lost && r != 1 && i < 5000 && !atomic_load(&s->late[r]); i++)
                usleep(1000);
        assert_int_equal(atomic_load(&s->late[2 - lost]), 1);
        assert_int_equal(atomic_load(&s->late[1]), 0);
        end(s, pid, lost);
    }
}

/* Processes that were all stopped, as by a closed lid, do not accuse each other. */
static void a_pause_accuses_nobody(void **state)
{
    pid_t pid[SIZE];
    scene *s = begin(pid);
    (void)state;
    for (int r = 0; r < SIZE; r++) kill(pid[r], SIGSTOP);
    usleep((useconds_t)(2.5e6 * PERIOD));
    for (int r = 0; r < SIZE; r++) kill(pid[r], SIGCONT);
    usleep((useconds_t)(1e6 * PERIOD));
    for (int r = 0; r < SIZE; r++) assert_int_equal(atomic_load(&s->told[r]), 0);
    end(s, pid, -1);
}

static int call(const lki_door *door)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = door->port};
    const int file = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = door->address[0];
    assert_int_equal(connect(file, (const struct sockaddr *)&address, sizeof address), 0);
    return file;
}

/* Whoever has waited too long for an answer was not there: it is not lost. */
static void who_gives_up_is_not_lost(void **state)
{
    lki_door door;
    lki_watch *watch;
    const lki_watch_opts opts = {.size = 2, .period_s = PERIOD, .near = true, .spot = &spot};
    lki_door_hello hello = {.rank = 1};
    (void)state;
    LKT_OK(lki_watch_open(&watch, &door, &opts));
    const int file = call(&door);
    memcpy(hello.key, door.hello, sizeof hello.key);
    assert_int_equal(send(file, &hello, sizeof hello, MSG_NOSIGNAL), sizeof hello);
    close(file);
    assert_null(lki_watch_ask(watch, 0.4));
    lki_watch_end(watch, false);
}

/* In a process that outlives the one which started it: what it finds. */
static void outlive(scene *s)
{
    lki_watch *watch;
    lki_door door;
    const pid_t parent = getppid();
    const lki_watch_opts opts = {
        .size = 2, .period_s = PERIOD, .near = true, .child = true, .spot = &spot};
    if (lki_watch_open(&watch, &door, &opts) != LKS_OK) _exit(1);
    atomic_store(&s->opened, 1);
    while (getppid() == parent) usleep(1000);
    const lki_loss *loss = lki_watch_ask(watch, 5);
    if (loss != NULL) s->loss[0] = *loss;
    atomic_store(&s->told[0], loss != NULL ? 1 : 2);
    _exit(0);
}

/* Ranks whose launcher was killed hold no machine: they find that it is gone by themselves. */
static void the_launcher_is_missed(void **state)
{
    scene *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    (void)state;
    assert_true(s != MAP_FAILED);
    const pid_t launcher = fork();
    if (launcher == 0) {
        if (fork() == 0) outlive(s);
        for (;;) pause();
    }
    while (!atomic_load(&s->opened)) usleep(1000);
    kill(launcher, SIGKILL);
    assert_int_equal(waitpid(launcher, NULL, 0), launcher);
    for (int i = 0; i < 8000 && !atomic_load(&s->told[0]); i++) usleep(1000);
    assert_int_equal(atomic_load(&s->told[0]), 1);
    assert_int_equal(s->loss[0].how, LKI_END_PARENT);
    munmap(s, sizeof *s);
}

/* Nobody takes a rank's place: not by noise, nor by silence, nor with the key of a rank that is there. */
static void strangers_are_refused(void **state)
{
    pid_t pid[SIZE];
    scene *s = begin(pid);
    char bytes[64];
    int silent[40];
    lki_door_hello hello = {.rank = 1};
    (void)state;
    for (int i = 0; i < 40; i++) silent[i] = call(&s->door);
    for (int i = 0; i < 3; i++) {
        const int file = call(&s->door);
        memset(hello.key, 0x5a, sizeof hello.key);
        if (i > 0) memcpy(hello.key, s->door.hello, sizeof hello.key);
        hello.rank = i == 2 ? SIZE : 1;
        assert_int_equal(send(file, &hello, sizeof hello, MSG_NOSIGNAL), sizeof hello);
        while (recv(file, bytes, sizeof bytes, 0) > 0) { /* until it is closed */
        }
        close(file);
    }
    for (int i = 0; i < 40; i++) close(silent[i]);
    for (int r = 0; r < SIZE; r++) assert_int_equal(atomic_load(&s->told[r]), 0);
    const double from = lki_seconds();
    kill(pid[1], SIGKILL);
    expect_loss(s, 1, LKI_END_PROCESS, from);
    end(s, pid, 1);
}

/* A rank that leaves as it should is not lost, and the others' watch goes on. */
static int leaves(lks_comm *comm, int rank, void *user)
{
    (void)user;
    LKT_CHECK(comm != NULL);
    LKT_CHECK(lks_comm_barrier(comm) == LKS_OK);
    if (rank == 1) return 0;
    usleep(700000);
    LKT_CHECK(lks_comm_lost(comm) == -1);
    return 0;
}

static void a_goodbye_is_no_loss(void **state)
{
    (void)state;
    lkt_ranks(&(lkt_hub_opts){.size = SIZE}, &(lks_comm_opts){.watch_s = 0.5}, leaves, NULL);
}

/* Whoever has said goodbye has left: nobody comes in its name any more. */
static void who_has_left_stays_away(void **state)
{
    (void)state;
    lki_watch *first, *other;
    lki_door door;
    lki_watch_opts opts = {.size = 2, .period_s = PERIOD, .near = true, .spot = &spot};
    LKT_OK(lki_watch_open(&first, &door, &opts));
    opts.rank = 1;
    LKT_OK(lki_watch_join(&other, &door, &opts));
    assert_non_null(other);
    lki_watch_end(other, false);
    assert_int_equal(lki_door_enter(&door, 1), -1);
    assert_null(lki_watch_loss(first));
    lki_watch_end(first, false);
}

static void refused_periods(void **state)
{
    (void)state;
    lks_comm *comm;
    LKT_FAILS(LKS_E_INVALID, "watch_s is inf, not a number of seconds",
              lks_comm_create(&comm, &(lks_comm_opts){.watch_s = 1.0 / 0.0}));
}

static double worked(void)
{
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now), 0);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Somebody calls who cannot be let in: he waits, and the watch does not ask for him all the time. */
static void all_files_may_be_open(void **state)
{
    (void)state;
    const lki_watch_opts opts = {.size = 2, .period_s = PERIOD, .near = true, .spot = &spot};
    struct rlimit before;
    lki_watch *watch;
    lki_door door;
    LKT_OK(lki_watch_open(&watch, &door, &opts));
    const int caller = socket(AF_INET, SOCK_STREAM, 0);
    int most = caller; /* more than the watch looks at: poll() asks for that */
    while (most < 63) most = dup(caller);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)most + 1, before.rlim_max}),
                     0);
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = door.port, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    assert_int_equal(connect(caller, (const struct sockaddr *)&to, sizeof to), 0);
    const double begin = worked();
    usleep(500000);
    const double spent = worked() - begin;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    lki_watch_end(watch, false);
    for (int file = caller; file <= most; file++) close(file);
    if (spent > 0.2) fail_msg("%g s of work in half a second", spent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_end_is_named),         cmocka_unit_test(a_stop_is_named),
        cmocka_unit_test(a_pause_accuses_nobody),  cmocka_unit_test(strangers_are_refused),
        cmocka_unit_test(the_launcher_is_missed),  cmocka_unit_test(who_gives_up_is_not_lost),
        cmocka_unit_test(a_goodbye_is_no_loss),    cmocka_unit_test(refused_periods),
        cmocka_unit_test(who_has_left_stays_away), cmocka_unit_test(all_files_may_be_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

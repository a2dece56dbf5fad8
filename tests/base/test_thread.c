/* The workers: jobs, barriers, floating-point state, and what they must not do. */
#include "support/test.h"

#include <math.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/context.h"
#include "base/float.h"
#include "machine/machine.h"
#include "machine/thread.h"

enum { MOST = 8, JOBS = 10000, ROUNDS = 10000 };

static const int counts[] = {1, 2, 3, 5, 8};

typedef struct jobs {
    lki_workers *workers;
    int count;
    int64_t runs[MOST][16]; /* a cache line each */
    int64_t cells[2][MOST];
    int64_t expected;
    int64_t errors[MOST];
} jobs;

static void count_runs(void *user, int worker)
{
    jobs *all = user;
    all->runs[worker][0]++;
}

/* Each job runs once on each worker, and the caller sees what they wrote. */
static void short_jobs(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        jobs all = {.count = counts[i]};
        LKT_OK(lki_workers_create(&all.workers, NULL, counts[i]));
        assert_int_equal(lki_workers_count(all.workers), counts[i]);
        for (int job = 1; job <= JOBS; job++) {
            lki_workers_run(all.workers, count_runs, &all);
            for (int w = 0; w < counts[i]; w++) assert_int_equal(all.runs[w][0], job);
        }
        lki_workers_destroy(all.workers);
    }
}

/* In every round each worker writes its cell, and after the barrier reads those of all. The cells
 * alternate, so that one barrier a round is enough. */
static void meet(void *user, int worker)
{
    jobs *all = user;
    for (int64_t round = 0; round < ROUNDS; round++) {
        int64_t *cells = all->cells[round % 2];
        cells[worker] = round * MOST + worker;
        lki_workers_barrier(all->workers, worker);
        for (int w = 0; w < all->count; w++) all->errors[worker] += cells[w] != round * MOST + w;
    }
}

static void barriers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        jobs all = {.count = counts[i]};
        LKT_OK(lki_workers_create(&all.workers, NULL, counts[i]));
        for (int job = 0; job < 2; job++) lki_workers_run(all.workers, meet, &all);
        for (int w = 0; w < counts[i]; w++) assert_int_equal(all.errors[w], 0);
        lki_workers_destroy(all.workers);
    }
}

/* The caller takes a place; whoever has none then, or one core too few, misses no later job. */
static void shared_jobs(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        jobs all = {0};
        LKT_OK(lki_workers_create(&all.workers, NULL, counts[i]));
        const int few = lki_workers_few(all.workers);
        assert_true(few >= 1 && few <= counts[i] && few <= lks_cores());
        int64_t expected[MOST] = {0};
        for (int job = 1; job <= JOBS / 4; job++) {
            const bool shared = job % 7 < 5;
            if (job % 500 == 0) usleep(1000); /* all sleep */
            (shared ? lki_workers_share : lki_workers_run)(all.workers, count_runs, &all);
            for (int w = 0; w < counts[i]; w++) {
                expected[w] += !shared || w < few;
                assert_int_equal(all.runs[w][0], expected[w]);
            }
        }
        all.count = few;
        lki_workers_share(all.workers, meet, &all);
        for (int w = 0; w < few; w++) assert_int_equal(all.errors[w], 0);
        lki_workers_destroy(all.workers);
    }
}

/* What each worker finds about itself. */
typedef struct finding {
    cpu_set_t cpus;
    bool signals_blocked, keeps_denormals, rounds_to_nearest;
    unsigned state;
    volatile double tiny; /* denormal; volatile, so that the compiler computes nothing itself */
} finding;

static unsigned float_state(void)
{
#if defined(__x86_64__)
    return _mm_getcsr();
#else
    return 0;
#endif
}

static void look_around(void *user, int worker)
{
    finding *found = (finding *)user + worker;
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    found->signals_blocked = sigismember(&blocked, SIGINT) && sigismember(&blocked, SIGUSR1) &&
                             sigismember(&blocked, SIGTERM) && sigismember(&blocked, SIGALRM) &&
                             !sigismember(&blocked, SIGBUS) && !sigismember(&blocked, SIGSEGV);
    sched_getaffinity(0, sizeof found->cpus, &found->cpus);
    found->state = float_state();
    volatile double one = 1, small = 0x1p-53, smallest = 0x1p-1022;
    found->rounds_to_nearest = one + small == one && -one - small == -one;
    /* Neither a denormal result nor a denormal operand counts as zero. */
    found->keeps_denormals = smallest / 2 == 0x1p-1023 && found->tiny * 0x1p60 == 0x1p-970;
}

static void surroundings(void **state)
{
    (void)state;
    const int cores = lks_cores(), allowed = lki_allowed_cpus(NULL, 0);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        finding found[MOST] = {{.state = 0}};
        for (int w = 0; w < counts[i]; w++) found[w].tiny = 0x1p-1030;
        sigset_t one, after;
        sigemptyset(&one);
        sigaddset(&one, SIGUSR2);
        pthread_sigmask(SIG_SETMASK, &one, NULL);
        const unsigned caller = float_state();
        lki_workers *workers;
        LKT_OK(lki_workers_create(&workers, NULL, counts[i]));
        lki_workers_run(workers, look_around, found);
        lki_workers_destroy(workers);
        assert_int_equal(float_state() & 0xffc0, caller & 0xffc0);
        pthread_sigmask(SIG_BLOCK, NULL, &after);
        assert_true(sigismember(&after, SIGUSR2) && !sigismember(&after, SIGINT) &&
                    !sigismember(&after, SIGUSR1) && !sigismember(&after, SIGTERM));

        const bool pinned = counts[i] <= cores && counts[i] * 2 > cores && cores == allowed;
        cpu_set_t together;
        CPU_ZERO(&together);
        for (int w = 0; w < counts[i]; w++) {
            assert_true(found[w].signals_blocked);
            assert_true(found[w].rounds_to_nearest);
#if defined(__x86_64__)
            assert_int_equal(found[w].state & 0xffc0, 0x1f80); /* the rest are flags */
#endif
            assert_true(found[w].keeps_denormals);
            assert_int_equal(CPU_COUNT(&found[w].cpus), pinned ? 1 : allowed);
            CPU_OR(&together, &together, &found[w].cpus);
        }
        assert_int_equal(CPU_COUNT(&together), pinned ? counts[i] : allowed);
    }
}

static void float_states(void **state)
{
    (void)state;
    /* Volatile: a compiler may move a division, but not a store, past what changes the state. */
    volatile double smallest = 0x1p-1022, inside_half;
    const unsigned before = float_state();
    const unsigned saved = lki_float_enter();
    inside_half = smallest / 2;
    const unsigned inside = float_state();
    lki_float_leave(saved);
    assert_int_equal(float_state() & 0xffc0, before & 0xffc0);
    assert_true(inside_half == 0x1p-1023);
    (void)inside;
#if defined(__x86_64__)
    assert_int_equal(inside & 0xffc0, 0x1f80);
    /* Whatever the caller had is changed for the time, and given back. */
    _mm_setcsr(0xffc0); /* towards zero, flushing both ways */
    const unsigned odd = lki_float_enter();
    inside_half = smallest / 2;
    const unsigned replaced = float_state();
    lki_float_leave(odd);
    const unsigned restored = float_state();
    _mm_setcsr(before);
    assert_true(inside_half == 0x1p-1023);
    assert_int_equal(replaced & 0xffc0, 0x1f80);
    assert_int_equal(restored, 0xffc0);
#endif
}

/* One worker of several meets something, in one job of several. */
typedef struct meeting {
    int job, worker;
    float operand, factor;
} meeting;

static void compute(void *user, int worker)
{
    const meeting *m = user;
    const bool own = m->job == 1 && worker == m->worker;
    volatile float operand = own ? m->operand : 1, factor = own ? m->factor : 1, product;
    product = operand * factor;
    (void)product;
}

static unsigned met(float operand, float factor, bool watch)
{
    lki_workers *workers;
    LKT_OK(lki_workers_create(&workers, NULL, 3));
    lki_workers_watch(workers, watch);
    meeting m = {.worker = 1, .operand = operand, .factor = factor};
    for (; m.job < 3; m.job++) lki_workers_run(workers, compute, &m);
    const unsigned found = lki_workers_met(workers);
    lki_workers_watch(workers, watch);
    assert_int_equal(lki_workers_met(workers), 0);
    lki_workers_destroy(workers);
    return found;
}

/* Workers notice denormals where they are asked to. */
static void denormals_are_noticed(void **state)
{
    (void)state;
    assert_int_equal(met(0x1p-63f, 0x1p-63f, true), 0);
#if defined(__x86_64__) || defined(__aarch64__)
    assert_int_equal(met(0x1.8p-63f, 0x1.234566p-64f, true), LKI_FLOAT_UNDERFLOW);
    assert_int_equal(met(0x1.8p-63f, 0x1.234566p-64f, false), 0);
#endif
#if defined(__x86_64__)
    if (!lkt_emulated()) /* qemu does not set this flag */
        assert_int_equal(met(0x1p-130f, 0x1p60f, true), LKI_FLOAT_OPERAND);
#endif
}

/* Between start and end of a job there is no system call but futex: the kernel ends the program at
 * any other. The job works, waits long enough to sleep, and ends the program itself. */
static void meet_under_guard(void *user, int worker)
{
    jobs *all = user;
    if (!lkt_allow_futex_only()) _exit(77);
    lki_workers_barrier(all->workers, worker);
    meet(user, worker);
    for (int round = 0; round < 20; round++) {
        volatile double x = 1;
        for (int i = 0; worker == 0 && i < 300000; i++) x = x * 1.0000001;
        lki_workers_barrier(all->workers, worker);
    }
    int64_t errors = 0;
    for (int w = 0; w < all->count; w++) errors += all->errors[w];
    if (worker == 0) _exit(errors == 0 ? 0 : 1);
    lki_workers_barrier(all->workers, worker); /* never met: worker 0 ends the program */
}

static int run_under_guard(void *user)
{
    jobs all = {.count = *(const int *)user};
    LKT_CHECK(lki_workers_create(&all.workers, NULL, all.count) == LKS_OK);
    lki_workers_run(all.workers, meet_under_guard, &all);
    return 2;
}

static void futex_only(void **state)
{
    (void)state;
    if (lkt_sanitized()) {
        print_message("sanitizers make system calls of their own\n");
        skip();
    }
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        int count = counts[i];
        const int result = lkt_in_child(run_under_guard, &count);
        if (result == 77) {
            print_message("the kernel lets no process forbid its own calls (seccomp)\n");
            skip();
        }
        assert_int_equal(result, 0);
    }
}

static void wrong_counts(void **state)
{
    lki_workers *workers = (lki_workers *)state;
    LKT_FAILS(LKS_E_INVALID, "0 workers were asked for", lki_workers_create(&workers, NULL, 0));
    assert_null(workers);
    LKT_FAILS(LKS_E_INVALID, "-3 workers", lki_workers_create(&workers, NULL, -3));
    lki_workers_destroy(NULL);
}

static void no_memory(void **state)
{
    (void)state;
    for (int64_t n = 1;; n++) {
        lkt_heap heap = {.fail_at = n};
        lks_context context = {.opts = {.allocator = lkt_heap_allocator(&heap)}};
        assert_int_equal(pthread_mutex_init(&context.lock, NULL), 0);
        lki_workers *workers;
        const lks_status status = lki_workers_create(&workers, &context, 2);
        const bool reached = heap.allocations >= n;
        if (reached) {
            LKT_FAILS(LKS_E_NOMEM, "no memory for", status);
            assert_null(workers);
        } else {
            LKT_OK(status);
        }
        lki_workers_destroy(workers);
        assert_int_equal(heap.live, 0);
        assert_int_equal(heap.errors, 0);
        pthread_mutex_destroy(&context.lock);
        if (!reached) break;
    }
}

/* Where not all threads can be started: none is left, and fewer work. */
static int start_too_many(void *user)
{
    (void)user;
    const struct rlimit limit = {.rlim_cur = 256 << 20, .rlim_max = 256 << 20};
    LKT_CHECK(setrlimit(RLIMIT_AS, &limit) == 0); /* stacks take 8 MB each */
    jobs all = {.count = 2};
    LKT_CHECK(lki_workers_create(&all.workers, NULL, 1000) == LKS_E_NOMEM);
    LKT_CHECK(all.workers == NULL);
    LKT_CHECK(strstr(lks_last_error()->message, "cannot start worker "));
    LKT_CHECK(strstr(lks_last_error()->message, " of 1000: "));
    LKT_CHECK(lki_workers_create(&all.workers, NULL, 2) == LKS_OK);
    lki_workers_run(all.workers, count_runs, &all);
    LKT_CHECK(all.runs[0][0] == 1 && all.runs[1][0] == 1);
    lki_workers_destroy(all.workers);
    return 0;
}

static void too_many(void **state)
{
    (void)state;
    if (lkt_sanitized()) {
        print_message("sanitizers need more address space than this test leaves\n");
        skip();
    }
    assert_int_equal(lkt_in_child(start_too_many, NULL), 0);
}

/* Two pools side by side, used in turn by one thread and then at once by two. */
static void *run_many(void *argument)
{
    jobs *all = argument;
    for (int job = 0; job < 1000; job++) lki_workers_run(all->workers, count_runs, all);
    return NULL;
}

static void two_pools(void **state)
{
    (void)state;
    jobs one = {.count = 2}, two = {.count = 3};
    LKT_OK(lki_workers_create(&one.workers, NULL, 2));
    LKT_OK(lki_workers_create(&two.workers, NULL, 3));
    run_many(&one);
    run_many(&two);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_many, &two), 0);
    run_many(&one);
    pthread_join(thread, NULL);
    lki_workers_destroy(one.workers);
    lki_workers_destroy(two.workers);
    for (int w = 0; w < 2; w++) assert_int_equal(one.runs[w][0], 2000);
    for (int w = 0; w < 3; w++) assert_int_equal(two.runs[w][0], 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_jobs),   cmocka_unit_test(barriers),
        cmocka_unit_test(shared_jobs),  cmocka_unit_test(surroundings),
        cmocka_unit_test(float_states), cmocka_unit_test(denormals_are_noticed),
        cmocka_unit_test(futex_only),   cmocka_unit_test(wrong_counts),
        cmocka_unit_test(no_memory),    cmocka_unit_test(too_many),
        cmocka_unit_test(two_pools),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

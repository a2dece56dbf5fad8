/* The workers: jobs, barriers, floating-point state, and what they must not do. */
#include "support/test.h"

#include <errno.h>
#include <float.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/context.h"
#include "base/machine.h"
#include "base/thread.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_jobs),
        cmocka_unit_test(barriers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

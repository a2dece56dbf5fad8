/* The workers of a model. */
#include "machine/thread.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"
#include "base/context.h"
#include "base/float.h"
#include "base/memory.h"
#include "machine/machine.h"
#include "machine/pause.h"

enum { LINE = 64, SPINS = 1000 };

/*
 * A gate is opened again and again by one thread at a time, while others wait for the next opening.
 * Its word counts openings in steps of two; the lowest bit says that somebody sleeps, so that
 * opening costs a system call only then.
 */
typedef struct gate {
    _Alignas(LINE) _Atomic uint32_t word;
} gate;

typedef struct worker {
    _Alignas(LINE) _Atomic uint32_t wanted; /* jobs that it has been given */
    lki_workers *workers;
    pthread_t thread;
    int number;
    int cpu; /* -1: not pinned */
} worker;

struct lki_workers {
    lks_context *context;
    unsigned forks; /* lki_forks() when it was made */
    worker *members;
    int count;
    int few;      /* workers of a job that a caller shares: as many as there are cores */
    int present;  /* workers of a job; written before they are called */
    int spins;    /* likewise */
    bool watches; /* likewise */
    bool stop;    /* likewise */
    lki_job job;  /* likewise */
    void *user;   /* likewise */
    gate start;   /* opened by the caller for every job; who has none waits on */
    gate done;    /* opened by the last worker of a job */
    gate barrier; /* opened by the last worker to arrive */
    gate told;    /* opened by the last worker to tell */
    _Alignas(LINE) _Atomic int running;
    _Alignas(LINE) _Atomic int arrived;
    _Alignas(LINE) _Atomic int telling;
    _Atomic unsigned met; /* LKI_FLOAT_* */
};

static uint32_t gate_now(gate *at)
{
    return atomic_load_explicit(&at->word, memory_order_relaxed) & ~1u;
}

static void gate_open(gate *at)
{
    const uint32_t next = gate_now(at) + 2;
    const uint32_t old = atomic_exchange_explicit(&at->word, next, memory_order_acq_rel);
    if (old & 1) syscall(SYS_futex, &at->word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Returns when the gate has been opened since gate_now() was `seen`. */
static void gate_wait(gate *at, uint32_t seen, int spins)
{
    uint32_t word = atomic_load_explicit(&at->word, memory_order_acquire);
    for (int spin = 0; spin < spins && (word & ~1u) == seen; spin++) {
        lki_pause();
        word = atomic_load_explicit(&at->word, memory_order_acquire);
    }
    while ((word & ~1u) == seen) {
        if (!(word & 1) &&
            !atomic_compare_exchange_strong_explicit(&at->word, &word, seen | 1,
                                                     memory_order_acquire, memory_order_acquire)) {
            continue; /* `word` is the new one */
        }
        syscall(SYS_futex, &at->word, FUTEX_WAIT_PRIVATE, seen | 1, NULL, NULL, 0);
        word = atomic_load_explicit(&at->word, memory_order_acquire);
    }
}

/* In the futex of `start`, where one job calls all workers and another one some. */
static unsigned bit_of(int number)
{
    return 1u << number % 32;
}

/*
 * Returns when the worker has been given more than `had` jobs. Its own word says so; `start` only changes with it, so
 * that nobody falls asleep who was called a moment before. Some may sleep on while others are called: the lowest bit
 * stays until all are.
 */
static void wait_for_job(worker *self, uint32_t had, int spins)
{
    gate *at = &self->workers->start;
    for (int spin = 0; spin < spins; spin++) {
        if (atomic_load_explicit(&self->wanted, memory_order_acquire) != had) return;
        lki_pause();
    }
    for (;;) {
        uint32_t word = atomic_load_explicit(&at->word, memory_order_acquire);
        if (atomic_load_explicit(&self->wanted, memory_order_acquire) != had) return;
        if (!(word & 1) && !atomic_compare_exchange_strong(&at->word, &word, word | 1)) continue;
        syscall(SYS_futex, &at->word, FUTEX_WAIT_BITSET_PRIVATE, word | 1, NULL, NULL,
                bit_of(self->number));
    }
}

/* Gives the job to the first `present` workers, but not to `self`, whose place the caller takes. */
static void call_workers(lki_workers *workers, int present, int self)
{
    unsigned bits = 0;
    for (int i = 0; i < present; i++) {
        if (i == self) continue;
        atomic_fetch_add_explicit(&workers->members[i].wanted, 1, memory_order_release);
        bits |= bit_of(i);
    }
    const bool all = present == workers->count && self < 0;
    uint32_t old = atomic_load(&workers->start.word);
    while (
        !atomic_compare_exchange_weak(&workers->start.word, &old, all ? (old + 2) & ~1u : old + 2))
        continue;
    if (old & 1)
        syscall(SYS_futex, &workers->start.word, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, NULL, NULL,
                all ? FUTEX_BITSET_MATCH_ANY : bits);
}

/* A thread that cannot be pinned, because its CPU was just taken away, works anyway. */
static void pin(int cpu)
{
    cpu_set_t *set = CPU_ALLOC((size_t)cpu + 1);
    if (!set) return;
    const size_t bytes = CPU_ALLOC_SIZE((size_t)cpu + 1);
    CPU_ZERO_S(bytes, set);
    CPU_SET_S((size_t)cpu, bytes, set);
    pthread_setaffinity_np(pthread_self(), bytes, set);
    CPU_FREE(set);
}

static void do_job(lki_workers *workers, int number)
{
    if (workers->watches) lki_float_enter(); /* forgets what was met before */
    workers->job(workers->user, number);
    if (workers->watches) atomic_fetch_or(&workers->met, lki_float_met());
    if (atomic_fetch_sub_explicit(&workers->running, 1, memory_order_acq_rel) == 1)
        gate_open(&workers->done);
}

static void *thread_work(void *argument)
{
    worker *self = argument;
    lki_workers *workers = self->workers;
    const int spins = workers->count <= workers->few ? SPINS : 0;
    char name[16];
    snprintf(name, sizeof name, "lks-worker-%d", self->number % 1000);
    pthread_setname_np(pthread_self(), name);
    if (self->cpu >= 0) pin(self->cpu);
    lki_float_enter();
    for (uint32_t had = 0;; had++) {
        wait_for_job(self, had, spins);
        if (workers->stop) return NULL;
        do_job(workers, self->number);
    }
}

/* Which CPU each worker gets, and whether waiting may spin: see lki_workers_create. */
static lks_status choose_cpus(lki_workers *workers)
{
    const int cores = lks_cores(), allowed = lki_allowed_cpus(NULL, 0);
    workers->few = workers->count < cores ? workers->count : cores;
    for (int i = 0; i < workers->count; i++) workers->members[i].cpu = -1;
    if (workers->count > cores || workers->count * 2 <= cores || cores < allowed) return LKS_OK;
    void *memory;
    const size_t bytes = (size_t)allowed * sizeof(lki_cpu);
    LKI_TRY(lki_alloc(workers->context, &memory, bytes, "the order of cores"));
    lki_cpu *cpus = memory;
    const int found = lki_allowed_cpus(cpus, allowed);
    if (found == allowed) {
        lki_order_cpus(cpus, found);
        for (int i = 0; i < workers->count; i++) workers->members[i].cpu = cpus[i].number;
    }
    lki_free(workers->context, cpus, bytes);
    return LKS_OK;
}

static void stop_and_join(lki_workers *workers, int started)
{
    workers->stop = true;
    call_workers(workers, workers->count, -1);
    for (int i = 0; i < started; i++) pthread_join(workers->members[i].thread, NULL);
}

static void release(lki_workers *workers)
{
    lki_free(workers->context, workers->members, (size_t)workers->count * sizeof(worker));
    lki_free(workers->context, workers, sizeof *workers);
}

int lki_thread_start(pthread_t *thread, void *(*start)(void *), void *user)
{
    static const int faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL};
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&blocked, faults[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    const int error = pthread_create(thread, NULL, start, user);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static _Atomic unsigned forks;

static void count_fork(void)
{
    atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, count_fork);
}

unsigned lki_forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    return atomic_load_explicit(&forks, memory_order_relaxed);
}

/*
 * The first job. Who has done it is named, pinned and awake: without it a worker whose place the caller takes in the first
 * jobs (lki_workers_share) could make these system calls in the middle of a step.
 */
static void greet(void *user, int worker_number)
{
    (void)user;
    (void)worker_number;
}

static lks_status thread_start_threads(lki_workers *workers)
{
    int started = 0, error = 0;
    for (; started < workers->count && error == 0; started++) {
        worker *member = &workers->members[started];
        error = lki_thread_start(&member->thread, thread_work, member);
        if (error != 0) break;
    }
    if (error == 0) return LKS_OK;
    stop_and_join(workers, started);
    return LKI_FAIL(LKS_E_NOMEM, "cannot start worker %d of %d: %s; use fewer workers", started + 1,
                    workers->count, strerror(error));
}

lks_status lki_workers_create(lki_workers **out, lks_context *context, int count)
{
    *out = NULL;
    if (count < 1) {
        return LKI_FAIL(LKS_E_INVALID, "%d workers were asked for, expected at least 1", count);
    }
    void *memory;
    LKI_TRY(lki_alloc(context, &memory, sizeof(lki_workers), "the workers"));
    lki_workers *workers = memory;
    workers->context = context;
    workers->count = count;
    workers->forks = lki_forks();
    lks_status status = lki_alloc(context, &memory, (size_t)count * sizeof(worker), "the workers");
    workers->members = memory;
    if (status == LKS_OK) status = choose_cpus(workers);
    if (status == LKS_OK) {
        for (int i = 0; i < count; i++) {
            workers->members[i].workers = workers;
            workers->members[i].number = i;
        }
        status = thread_start_threads(workers);
    }
    if (status != LKS_OK) {
        release(workers);
        return status;
    }
    lki_workers_run(workers, greet, NULL);
    *out = workers;
    return LKS_OK;
}

void lki_workers_destroy(lki_workers *workers)
{
    if (!workers) return;
    if (workers->forks == lki_forks()) stop_and_join(workers, workers->count);
    release(workers);
}

int lki_workers_count(const lki_workers *workers)
{
    return workers->count;
}

void lki_workers_watch(lki_workers *workers, bool watch)
{
    workers->watches = watch;
    atomic_store(&workers->met, 0);
}

unsigned lki_workers_met(const lki_workers *workers)
{
    return atomic_load(&workers->met);
}

static void give_job(lki_workers *workers, lki_job job, void *user, int present, int self)
{
    workers->job = job;
    workers->user = user;
    workers->present = present;
    workers->spins = present <= workers->few ? SPINS : 0;
    atomic_store_explicit(&workers->running, present, memory_order_relaxed);
    call_workers(workers, present, self);
}

void lki_workers_run(lki_workers *workers, lki_job job, void *user)
{
    const uint32_t seen = gate_now(&workers->done);
    give_job(workers, job, user, workers->count, -1);
    gate_wait(&workers->done, seen, 0); /* the cores belong to the workers */
}

int lki_workers_few(const lki_workers *workers)
{
    return workers->few;
}

/* The worker that has the core of the calling thread; of those without a core of their own the first. */
static int neighbour(const lki_workers *workers)
{
    const int cpu = workers->members[0].cpu >= 0 ? sched_getcpu() : -1;
    for (int i = 0; i < workers->count && cpu >= 0; i++)
        if (workers->members[i].cpu == cpu) return i;
    return 0;
}

void lki_workers_share(lki_workers *workers, lki_job job, void *user)
{
    const uint32_t seen = gate_now(&workers->done);
    const int self = neighbour(workers);
    give_job(workers, job, user, workers->few, self);
    do_job(workers, self);
    gate_wait(&workers->done, seen, workers->spins);
}

void lki_workers_barrier(lki_workers *workers, int worker_number)
{
    (void)worker_number;
    const uint32_t seen = gate_now(&workers->barrier);
    if (atomic_fetch_add_explicit(&workers->arrived, 1, memory_order_acq_rel) ==
        workers->present - 1) {
        atomic_store_explicit(&workers->arrived, 0, memory_order_relaxed);
        gate_open(&workers->barrier);
    } else {
        gate_wait(&workers->barrier, seen, workers->spins);
    }
}

uint32_t lki_workers_tell(lki_workers *workers)
{
    const uint32_t seen = gate_now(&workers->told);
    if (atomic_fetch_add_explicit(&workers->telling, 1, memory_order_acq_rel) ==
        workers->present - 1) {
        atomic_store_explicit(&workers->telling, 0, memory_order_relaxed);
        gate_open(&workers->told);
    }
    return seen;
}

void lki_workers_hear(lki_workers *workers, uint32_t told)
{
    gate_wait(&workers->told, told, workers->spins);
}

/*
 * The workers of a model: pinned threads that run one job together.
 *
 *   caller   run() ---- wakes ----------------------------- waits (futex) ---- returns
 *   worker 0        [job .... barrier ... job ... barrier ...]
 *   worker 1        [job .... barrier ... job ... barrier ...]
 *
 * Between start and end of a job a worker makes no system call but futex. Waiting spins for a few
 * microseconds, then sleeps in the kernel, so more workers than cores work too.
 *
 * A worker computes with its whole MXCSR set as IEEE 754 has it (round to nearest, exceptions masked,
 * no flushing of denormals: processors do that in different ways); on AArch64 FPCR likewise. The
 * caller's is never touched.
 */
#ifndef LKI_MACHINE_THREAD_H
#define LKI_MACHINE_THREAD_H

#include <pthread.h>
#include <stdint.h>

#include <lockstep/context.h>

/* pthread_create(), for a thread that takes no signals: those are for the program's own. Only faults
 * of what it does itself reach it, so that the program may handle them (SIGBUS: a mapped file that
 * somebody truncated). Returns 0 or an errno. */
int lki_thread_start(pthread_t *thread, void *(*start)(void *), void *user);

/*
 * How often this process or one before it was forked, counted from the first call on. A fork takes
 * only the calling thread along: what has threads remembers this number, and is of no use where it is
 * another one, because nobody would answer.
 */
unsigned lki_forks(void);

typedef struct lki_workers lki_workers;

/* Runs on every worker; a worker's number is 0 .. count-1. */
typedef void (*lki_job)(void *user, int worker);

/*
 * Starts `count` threads. Where they need more than half of the cores that this process may use,
 * each is pinned to its own, one per physical core first. Fewer are left to the kernel, so that
 * programs that share a machine do not meet on its first cores; so are more workers than cores, and
 * workers under a CPU quota. LKS_E_INVALID for a count below 1, LKS_E_NOMEM where the system starts
 * no more threads.
 */
lks_status lki_workers_create(lki_workers **out, lks_context *context, int count);
/* NULL is fine. Behind a fork it frees memory alone. */
void lki_workers_destroy(lki_workers *workers);
int lki_workers_count(const lki_workers *workers);

/* Runs the job on all workers and returns when all are done. One caller at a time. */
void lki_workers_run(lki_workers *workers, lki_job job, void *user);

/* The same with the calling thread in the place of one worker, and with no more workers than this process has cores:
 * the first lki_workers_few(). For jobs so short that to wake a worker and then the caller would take a good part of
 * them. */
void lki_workers_share(lki_workers *workers, lki_job job, void *user);
int lki_workers_few(const lki_workers *workers);

/* Inside a job: all workers of it meet here; what each wrote before is visible to all after. */
void lki_workers_barrier(lki_workers *workers, int worker);

/* Inside a job, once: a barrier in two halves. Each worker tells that it has come to a point, goes on, and hears later
 * that all have told; what each wrote before it told is visible then. The first returns what the second takes. */
uint32_t lki_workers_tell(lki_workers *workers);
void lki_workers_hear(lki_workers *workers, uint32_t told);

/* Whether workers notice denormals, and what they met in the jobs since they were told to (LKI_FLOAT_*
 * of base/float.h). Not in a job. */
void lki_workers_watch(lki_workers *workers, bool watch);
unsigned lki_workers_met(const lki_workers *workers);

#endif

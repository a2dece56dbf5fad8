/* Loaders of a data set of numbers. */
#ifndef LKT_DATA_LOADERS_H
#define LKT_DATA_LOADERS_H

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <lockstep/data.h>

#include "numeric/permutation.h"
#include "support/test.h"

enum { SAMPLES = 9973, BATCH = 61, WIDTH = 3 }; /* primes: nothing divides anything */
static const int64_t batches = (SAMPLES + BATCH - 1) / BATCH;

static lks_context *context;
static const int thread_counts[] = {-1, 1, 2, 3};
enum { THREAD_COUNTS = sizeof thread_counts / sizeof *thread_counts };

/* A data set whose samples are known; it can fail, and tells where and how often it was read. */
typedef struct source {
    _Atomic int64_t bad, bad_too; /* samples that fail; -1: none */
    _Atomic int64_t reads;
    _Atomic int signals_open; /* reads in a thread that takes signals */
    pthread_t caller;
    _Atomic int foreign; /* reads in another thread */
} source;

static void fill(int64_t index, uint8_t x[WIDTH], int32_t *y)
{
    for (int k = 0; k < WIDTH; k++) x[k] = (uint8_t)(index >> 8 * k);
    *y = (int32_t)(index % 10);
}

static lks_status read_source(void *user, int64_t index, void *x, void *y)
{
    source *from = user;
    int32_t label;
    sigset_t blocked;
    atomic_fetch_add(&from->reads, 1);
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    if (!sigismember(&blocked, SIGINT) || !sigismember(&blocked, SIGTERM))
        atomic_fetch_add(&from->signals_open, 1);
    if (!pthread_equal(from->caller, pthread_self())) atomic_fetch_add(&from->foreign, 1);
    if (index == from->bad || index == from->bad_too)
        return lks_fail(LKS_E_IO, "page %d is torn", (int)index);
    fill(index, x, &label);
    memcpy(y, &label, sizeof label);
    return LKS_OK;
}

static lks_dataset *open_source(source *from, int64_t samples)
{
    lks_dataset *set;
    lks_dataset_ops ops = {.info = {.samples = samples, .shape = LKS_SHAPE(WIDTH), .classes = 10},
                           .read = read_source};
    ops.info.dtype = LKS_U8;
    *from = (source){.bad = -1, .bad_too = -1, .caller = pthread_self()};
    LKT_OK(lks_dataset_create(&set, context, "book", &ops, from));
    return set;
}

static lks_loader *open_loader(lks_dataset *set, lks_loader_opts opts)
{
    lks_loader *loader;
    LKT_OK(lks_loader_create(&loader, context, set, &opts));
    return loader;
}

/* The next batch is number `number`; its samples are those of the order, with their targets. */
static void check_next(lks_loader *loader, int64_t number, int64_t samples, bool in_order)
{
    lks_batch got;
    LKT_OK(lks_loader_next(loader, &got));
    const int64_t an_epoch = lks_loader_batches(loader);
    const int64_t first = number % an_epoch * BATCH;
    const lki_permutation order = lki_permutation_make(lks_context_seed(context), number / an_epoch,
                                                       samples);
    assert_int_equal(got.epoch, number / an_epoch);
    assert_int_equal(got.index, number % an_epoch);
    assert_int_equal(got.count, samples - first < BATCH ? samples - first : BATCH);
    assert_int_equal((uintptr_t)got.x % 64, 0);
    assert_int_equal((uintptr_t)got.y % 64, 0);
    assert_int_equal((uintptr_t)got.ids % 64, 0);
    for (int64_t i = 0; i < got.count; i++) {
        uint8_t x[WIDTH];
        int32_t y;
        const int64_t id = in_order ? first + i : lki_permutation_at(&order, first + i);
        assert_int_equal(got.ids[i], id);
        fill(id, x, &y);
        assert_memory_equal((const uint8_t *)got.x + i * WIDTH, x, WIDTH);
        assert_int_equal(((const int32_t *)got.y)[i], y);
    }
}

static int set_up(void **state)
{
    (void)state;
    const lks_context_opts opts = {.seed = 20};
    return lks_context_create(&context, &opts) == LKS_OK ? 0 : 1;
}

static int tear_down(void **state)
{
    (void)state;
    lks_context_destroy(context);
    return 0;
}

#endif

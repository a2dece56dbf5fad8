/* Seeking while threads are in the middle of a batch, and behind a sample that could not be read. */
#include "support/test.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <lockstep/data.h>

enum { SAMPLES = 40, BATCHES = 8 };

static lks_context *context;
static _Atomic int64_t reads;
static _Atomic int failures; /* so many reads fail from here on */

/* Samples 1 and 2 take long. */
static lks_status read_sample(void *user, int64_t index, void *x, void *y)
{
    const float value = (float)index;
    const int32_t label = (int32_t)index;
    (void)user;
    atomic_fetch_add(&reads, 1);
    if (index == 1 || index == 2) nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    if (atomic_load(&failures) > 0) {
        atomic_fetch_sub(&failures, 1);
        return lks_fail(LKS_E_IO, "sample %d is away", (int)index);
    }
    memcpy(x, &value, sizeof value);
    memcpy(y, &label, sizeof label);
    return LKS_OK;
}

static lks_loader *open_loader(lks_dataset **set, int64_t batch, int threads)
{
    lks_loader *loader;
    const lks_dataset_ops ops = {
        .info = {.samples = SAMPLES, .shape = LKS_SHAPE(1), .dtype = LKS_F32, .classes = SAMPLES},
        .read = read_sample};
    atomic_store(&reads, 0);
    LKT_OK(lks_dataset_create(set, context, "slow", &ops, NULL));
    LKT_OK(lks_loader_create(
        &loader, context, *set,
        &(lks_loader_opts){.global_batch = batch, .in_order = true, .threads = threads}));
    return loader;
}

static void expect(lks_loader *loader, int64_t batch, int64_t count)
{
    lks_batch got;
    LKT_OK(lks_loader_next(loader, &got));
    assert_int_equal(got.index, batch);
    assert_int_equal(got.count, count);
    for (int64_t i = 0; i < count; i++) {
        assert_int_equal(got.ids[i], batch * count + i);
        assert_int_equal((int64_t)((const float *)got.x)[i], batch * count + i);
    }
}

/* Two threads take one sample each: one is at the second of batch 0, the other at the first of batch 1, of which
 * nobody has the second. The next part that is taken is the first of batch 5. */
static void in_the_middle_of_a_batch(void **state)
{
    lks_dataset *set;
    lks_loader *loader = open_loader(&set, 2, 2);
    (void)state;
    alarm(30); /* rather than wait for a part that nobody reads */
    while (atomic_load(&reads) < 3) usleep(100);
    LKT_OK(lks_loader_seek(loader, 5));
    for (int64_t b = 5; b < 9; b++) expect(loader, b, 2);
    alarm(0);
    lks_loader_destroy(loader);
    lks_dataset_destroy(set);
}

/* What failed is read again, in whichever slot it was. */
static void behind_a_failure(void **state)
{
    (void)state;
    for (int threads = -1; threads < 2; threads += 2)
        for (int64_t batch = 0; batch < 4; batch++) {
            lks_dataset *set;
            lks_batch got;
            atomic_store(&failures, 4 * SAMPLES);
            lks_loader *loader = open_loader(&set, SAMPLES / BATCHES, threads);
            LKT_OK(lks_loader_seek(loader, batch));
            LKT_FAILS(LKS_E_IO, "is away", lks_loader_next(loader, &got));
            LKT_FAILS(LKS_E_IO, "is away", lks_loader_next(loader, &got));
            atomic_store(&failures, 0);
            LKT_OK(lks_loader_seek(loader, batch));
            for (int64_t b = batch; b < BATCHES; b++) expect(loader, b, SAMPLES / BATCHES);
            lks_loader_destroy(loader);
            lks_dataset_destroy(set);
        }
}

static int set_up(void **state)
{
    (void)state;
    return lks_context_create(&context, NULL) == LKS_OK ? 0 : 1;
}

static int tear_down(void **state)
{
    (void)state;
    lks_context_destroy(context);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_the_middle_of_a_batch),
        cmocka_unit_test(behind_a_failure),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

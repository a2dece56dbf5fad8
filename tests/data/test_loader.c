/* The loader: order, the same bytes with any number of threads, seeking, errors, allocations. */
#include "data/loaders.h"

/* ---------------------------------------------------------------- order and bytes */

static void any_number_of_threads_same_bytes(void **state)
{
    (void)state;
    for (int t = 0; t < THREAD_COUNTS; t++) {
        source from;
        lks_dataset *set = open_source(&from, SAMPLES);
        lks_loader *loader = open_loader(
            set, (lks_loader_opts){.global_batch = BATCH, .threads = thread_counts[t]});
        assert_int_equal(lks_loader_batches(loader), batches);
        for (int64_t b = 0; b < 2 * batches + 3; b++) check_next(loader, b, SAMPLES, false);
        lks_loader_destroy(loader);
        lks_dataset_destroy(set);
        if (thread_counts[t] < 0) {
            assert_int_equal(from.foreign, 0);
        } else {
            assert_int_equal(from.foreign, from.reads);
            assert_int_equal(from.signals_open, 0);
        }
    }
}

static void every_sample_once_an_epoch(void **state)
{
    (void)state;
    static int seen[SAMPLES];
    source from;
    lks_batch got;
    int64_t moved = 0;
    lks_dataset *set = open_source(&from, SAMPLES);
    lks_loader *loader = open_loader(set, (lks_loader_opts){.global_batch = BATCH, .threads = 2});
    memset(seen, 0, sizeof seen);
    for (int epoch = 1; epoch <= 3; epoch++) {
        for (int64_t b = 0; b < batches; b++) {
            LKT_OK(lks_loader_next(loader, &got));
            assert_int_equal(got.epoch, epoch - 1);
            for (int64_t i = 0; i < got.count; i++) {
                seen[got.ids[i]]++;
                moved += got.ids[i] != got.index * BATCH + i;
            }
        }
        assert_int_equal(got.count, SAMPLES % BATCH); /* the last one is short */
        for (int i = 0; i < SAMPLES; i++) assert_int_equal(seen[i], epoch);
    }
    assert_true(moved > 3 * SAMPLES * 99 / 100);
    lks_loader_destroy(loader);
    lks_dataset_destroy(set);
}

static void in_order_and_drop_last(void **state)
{
    (void)state;
    for (int t = 0; t < THREAD_COUNTS; t++) {
        source from;
        lks_dataset *set = open_source(&from, 200); /* 3 batches and 17 samples */
        lks_loader_opts opts = {
            .global_batch = BATCH, .in_order = true, .threads = thread_counts[t]};
        lks_loader *loader = open_loader(set, opts);
        assert_int_equal(lks_loader_batches(loader), 4);
        for (int64_t b = 0; b < 9; b++) check_next(loader, b, 200, true);
        lks_loader_destroy(loader);
        opts.drop_last = true;
        loader = open_loader(set, opts);
        assert_int_equal(lks_loader_batches(loader), 3);
        for (int64_t b = 0; b < 9; b++) check_next(loader, b, 200, true);
        lks_loader_destroy(loader);
        lks_dataset_destroy(set);
    }
}

/* Fewer samples than the batch: one short batch an epoch; exactly as many: one full one. */
static void one_batch_an_epoch(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 2, BATCH - 1, BATCH};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (int t = 0; t < THREAD_COUNTS; t++) {
            source from;
            lks_dataset *set = open_source(&from, sizes[s]);
            lks_loader *loader = open_loader(
                set, (lks_loader_opts){.global_batch = BATCH, .threads = thread_counts[t]});
            assert_int_equal(lks_loader_batches(loader), 1);
            for (int64_t b = 0; b < 7; b++) check_next(loader, b, sizes[s], false);
            lks_loader_destroy(loader);
            lks_dataset_destroy(set);
        }
    }
}

static void the_order_follows_the_seed(void **state)
{
    (void)state;
    int64_t ids[2][BATCH], same = 0;
    for (uint64_t seed = 0; seed < 2; seed++) {
        const lks_context_opts opts = {.seed = seed};
        lks_context *own;
        lks_loader *loader;
        lks_batch got;
        source from;
        lks_dataset *set = open_source(&from, SAMPLES);
        LKT_OK(lks_context_create(&own, &opts));
        const lks_loader_opts sixty_one = {.global_batch = BATCH};
        LKT_OK(lks_loader_create(&loader, own, set, &sixty_one));
        LKT_OK(lks_loader_next(loader, &got));
        memcpy(ids[seed], got.ids, sizeof ids[seed]);
        lks_loader_destroy(loader);
        lks_context_destroy(own);
        lks_dataset_destroy(set);
    }
    for (int i = 0; i < BATCH; i++) same += ids[0][i] == ids[1][i];
    assert_in_range(same, 0, 3); /* expected: 61 / 9,973 */
}

/* ---------------------------------------------------------------- seeking */

static void seeking_equals_walking(void **state)
{
    (void)state;
    lkt_random random = lkt_random_make("loader", 61);
    for (int t = 0; t < THREAD_COUNTS; t++) {
        source from;
        lks_dataset *set = open_source(&from, SAMPLES);
        lks_loader *loader = open_loader(
            set,
            (lks_loader_opts){.global_batch = BATCH, .threads = thread_counts[t], .ahead = 1 + t});
        for (int i = 0; i < 100; i++) {
            int64_t at = lkt_random_below(&random, 5 * batches);
            LKT_OK(lks_loader_seek(loader, at));
            const int64_t steps = lkt_random_below(&random, 6); /* also none */
            for (int64_t k = 0; k < steps; k++) check_next(loader, at++, SAMPLES, false);
        }
        const int64_t far = (INT64_C(1) << 62) - 5;
        LKT_OK(lks_loader_seek(loader, far));
        for (int64_t k = 0; k < 9; k++) check_next(loader, far + k, SAMPLES, false);
        LKT_FAILS(LKS_E_INVALID, "loader of 'book': a seek to batch -1, expected 0 to",
                  lks_loader_seek(loader, -1));
        LKT_FAILS(LKS_E_INVALID, "a seek to batch 9223372036854775807",
                  lks_loader_seek(loader, INT64_MAX));
        check_next(loader, far + 9, SAMPLES, false); /* which changed nothing */
        lks_loader_destroy(loader);
        lks_dataset_destroy(set);
    }
}

/* ---------------------------------------------------------------- reading ahead */

static void wait_for_reads(source *from, int64_t reads)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    for (int i = 0; i < 20000 && atomic_load(&from->reads) < reads; i++) nanosleep(&moment, NULL);
}

/* Batches are read ahead, as many as were asked for and not one more; a lent one stays whole. */
static void reads_ahead_and_keeps_what_is_lent(void **state)
{
    (void)state;
    const struct timespec while_idle = {.tv_nsec = 20000000};
    for (int ahead = 1; ahead <= 4; ahead++) {
        source from;
        lks_batch got;
        uint8_t before[BATCH * WIDTH];
        lks_dataset *set = open_source(&from, SAMPLES);
        lks_loader *loader = open_loader(
            set, (lks_loader_opts){.global_batch = BATCH, .threads = 2, .ahead = ahead});
        LKT_OK(lks_loader_next(loader, &got));
        memcpy(before, got.x, sizeof before);
        wait_for_reads(&from, (1 + ahead) * BATCH);
        nanosleep(&while_idle, NULL);
        assert_int_equal(atomic_load(&from.reads), (1 + ahead) * BATCH);
        assert_memory_equal(before, got.x, sizeof before);
        LKT_OK(lks_loader_next(loader, &got));
        memcpy(before, got.x, sizeof before);
        wait_for_reads(&from, (2 + ahead) * BATCH);
        nanosleep(&while_idle, NULL);
        assert_int_equal(atomic_load(&from.reads), (2 + ahead) * BATCH);
        assert_memory_equal(before, got.x, sizeof before);
        lks_loader_destroy(loader);
        lks_dataset_destroy(set);
    }
}

/* ---------------------------------------------------------------- errors */

/* ---------------------------------------------------------------- memory */

static void allocates_at_the_start_only(void **state)
{
    (void)state;
    lks_status status = LKS_E_NOMEM;
    for (int64_t n = 1; status != LKS_OK; n++) {
        lkt_heap heap = {0};
        lks_context *own;
        lks_loader *loader;
        lks_batch got;
        source from;
        lks_dataset *set = open_source(&from, SAMPLES);
        const lks_context_opts opts = {.allocator = lkt_heap_allocator(&heap)};
        const lks_loader_opts loading = {.global_batch = BATCH, .threads = 2};
        LKT_OK(lks_context_create(&own, &opts));
        heap.fail_at = heap.allocations + n;
        status = lks_loader_create(&loader, own, set, &loading);
        if (status == LKS_OK) {
            const int64_t before = heap.allocations;
            for (int b = 0; b < 20; b++) LKT_OK(lks_loader_next(loader, &got));
            LKT_OK(lks_loader_seek(loader, 7));
            LKT_OK(lks_loader_next(loader, &got));
            assert_int_equal(heap.allocations, before);
        } else {
            assert_int_equal(status, LKS_E_NOMEM);
            assert_null(loader);
        }
        lks_loader_destroy(loader);
        lks_context_destroy(own);
        assert_int_equal(heap.live, 0);
        assert_int_equal(heap.errors, 0);
        lks_dataset_destroy(set);
    }
}

/* Float samples with float targets, in memory; and a loader that is destroyed at work. */
static void floats_in_memory(void **state)
{
    (void)state;
    static float x[101][2], y[101][3];
    const lks_dataset_info info = {
        .samples = 101, .shape = LKS_SHAPE(2), .dtype = LKS_F32, .target_shape = LKS_SHAPE(3, 1)};
    lks_dataset *all, *set;
    lks_batch got;
    for (int i = 0; i < 101; i++) {
        for (int k = 0; k < 2; k++) x[i][k] = (float)(2 * i + k);
        for (int k = 0; k < 3; k++) y[i][k] = (float)(-3 * i - k);
    }
    LKT_OK(lks_dataset_from_arrays(&all, context, &info, x, y));
    LKT_OK(lks_dataset_slice(&set, all, 20, 81));
    for (int t = 0; t < THREAD_COUNTS; t++) {
        lks_loader *loader = open_loader(
            set, (lks_loader_opts){.global_batch = 7, .threads = thread_counts[t]});
        for (int b = 0; b < 30; b++) {
            LKT_OK(lks_loader_next(loader, &got));
            for (int64_t i = 0; i < got.count; i++) {
                const int64_t id = got.ids[i];
                assert_in_range(id, 0, 80);
                assert_memory_equal((const float *)got.x + 2 * i, x[20 + id], sizeof x[0]);
                assert_memory_equal((const float *)got.y + 3 * i, y[20 + id], sizeof y[0]);
            }
        }
        lks_loader_destroy(loader);
    }
    for (int i = 0; i < 50; i++) {
        lks_loader *loader = open_loader(set, (lks_loader_opts){.global_batch = 64, .threads = 3});
        if (i % 2 == 0) LKT_OK(lks_loader_seek(loader, i));
        lks_loader_destroy(loader);
    }
    lks_loader_destroy(NULL);
    lks_dataset_destroy(set);
    lks_dataset_destroy(all);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(any_number_of_threads_same_bytes),
        TEST(every_sample_once_an_epoch),
        TEST(in_order_and_drop_last),
        TEST(one_batch_an_epoch),
        TEST(the_order_follows_the_seed),
        TEST(seeking_equals_walking),
        TEST(reads_ahead_and_keeps_what_is_lent),
        TEST(allocates_at_the_start_only),
        TEST(floats_in_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

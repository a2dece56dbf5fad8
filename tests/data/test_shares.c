/* Loaders that deliver a part of every batch, and samples that change from epoch to epoch. */
#include "support/test.h"

#include <stdatomic.h>
#include <string.h>

#include <lockstep/data.h>

#include "numeric/tree.h"

enum { SAMPLES = 397, BATCH = 61, MOST = 7, WIDTH = 4 }; /* primes; the last batch has 31 samples */
static const int64_t batches = (SAMPLES + BATCH - 1) / BATCH;

static lks_context *context;

static _Atomic int64_t reads;

/* A sample that tells its epoch and its number. */
static lks_status read_epoch(void *user, int64_t epoch, int64_t index, void *x, void *y)
{
    const float values[WIDTH] = {(float)epoch, (float)index, 1, 2};
    const int32_t label = (int32_t)(index % 10);
    (void)user;
    atomic_fetch_add(&reads, 1);
    memcpy(x, values, sizeof values);
    memcpy(y, &label, sizeof label);
    return LKS_OK;
}

static lks_dataset *open_epochs(void)
{
    lks_dataset *set;
    const lks_dataset_ops ops = {
        .info = {.samples = SAMPLES, .shape = LKS_SHAPE(WIDTH), .dtype = LKS_F32, .classes = 10},
        .read_epoch = read_epoch};
    LKT_OK(lks_dataset_create(&set, context, "epochs", &ops, NULL));
    return set;
}

static lks_loader *open_loader(lks_dataset *set, lks_loader_opts opts)
{
    lks_loader *loader;
    opts.global_batch = BATCH;
    LKT_OK(lks_loader_create(&loader, context, set, &opts));
    return loader;
}

static int set_up(void **state)
{
    (void)state;
    const lks_context_opts opts = {.seed = 21};
    return lks_context_create(&context, &opts) == LKS_OK ? 0 : 1;
}

static int tear_down(void **state)
{
    (void)state;
    lks_context_destroy(context);
    return 0;
}

/* ---------------------------------------------------------------- parts of batches */

/* The same batch from all loaders: their parts, one behind the other, are the whole one. */
static void check_union(lks_loader *all, lks_loader *const part[], int parts, int64_t shares,
                        const int64_t *border)
{
    lks_batch whole;
    int64_t at = 0;
    LKT_OK(lks_loader_next(all, &whole));
    assert_int_equal(whole.first, 0);
    assert_int_equal(whole.whole, whole.count);
    for (int i = 0; i < parts; i++) {
        lks_batch got;
        LKT_OK(lks_loader_next(part[i], &got));
        assert_int_equal(got.epoch, whole.epoch);
        assert_int_equal(got.index, whole.index);
        assert_int_equal(got.whole, whole.count);
        assert_int_equal(got.first, at);
        assert_int_equal(got.first, lki_share(border[i], shares, whole.count));
        assert_int_equal(got.first + got.count, lki_share(border[i + 1], shares, whole.count));
        if (got.count > 0) {
            const size_t count = (size_t)got.count;
            assert_memory_equal(got.ids, whole.ids + at, count * sizeof *got.ids);
            assert_memory_equal(got.x, (const float *)whole.x + at * WIDTH,
                                count * WIDTH * sizeof(float));
            assert_memory_equal(got.y, (const int32_t *)whole.y + at, count * sizeof(int32_t));
        }
        at += got.count;
    }
    assert_int_equal(at, whole.count);
}

/* Any number of shares, also more than the last batch has samples; any cut of them, also with nothing in
 * it; walking through two epochs, and seeking. */
static void parts_are_the_whole(void **state)
{
    static const int64_t several[] = {1, 2, 3, 8, 40, BATCH, 64, 1000};
    lkt_random random = lkt_random_make("parts_are_the_whole", 62);
    (void)state;
    for (int k = 0; k < 48; k++) {
        const int64_t shares = several[k % 8];
        const int parts = (int)lkt_random_from(&random, 1, MOST);
        const lks_loader_opts opts = {.in_order = k % 5 == 0, .threads = k % 3 == 0 ? -1 : k % 3};
        int64_t border[MOST + 1] = {0};
        lks_loader *part[MOST];
        lks_dataset *set = open_epochs();
        lks_loader *all = open_loader(set, opts);
        for (int i = 1; i <= parts; i++)
            border[i] = i == parts ? shares : lkt_random_from(&random, border[i - 1], shares);
        for (int i = 0; i < parts; i++) {
            lks_loader_opts own = opts;
            own.shares = shares;
            own.first_share = border[i];
            own.last_share = border[i + 1];
            part[i] = open_loader(set, own);
            assert_int_equal(lks_loader_batches(part[i]), batches);
        }
        for (int64_t b = 0; b < 2 * batches; b++) check_union(all, part, parts, shares, border);
        for (int s = 0; s < 8; s++) {
            const int64_t to = lkt_random_below(&random, 5 * batches);
            LKT_OK(lks_loader_seek(all, to));
            for (int i = 0; i < parts; i++) LKT_OK(lks_loader_seek(part[i], to));
            for (int b = 0; b < 2; b++) check_union(all, part, parts, shares, border);
        }
        for (int i = 0; i < parts; i++) lks_loader_destroy(part[i]);
        lks_loader_destroy(all);
        lks_dataset_destroy(set);
    }
}

/* The border between two loaders moves between any two batches, in the middle of epochs, while their threads
 * read ahead: nothing is left out and nothing comes twice. */
static void shares_change_on_the_way(void **state)
{
    enum { SHARES = 8 };
    lkt_random random = lkt_random_make("shares_change_on_the_way", 63);
    lks_dataset *set = open_epochs();
    (void)state;
    for (int threads = -1; threads <= 3; threads += threads < 0 ? 2 : 1) {
        const lks_loader_opts opts = {.threads = threads, .shares = SHARES};
        lks_loader_opts own[2] = {opts, opts};
        int64_t border[] = {0, 4, SHARES};
        lks_loader *part[2], *all = open_loader(set, (lks_loader_opts){.threads = -1});
        for (int i = 0; i < 2; i++) {
            own[i].first_share = border[i];
            own[i].last_share = border[i + 1];
            part[i] = open_loader(set, own[i]);
        }
        for (int64_t b = 0; b < 5 * batches; b++) {
            border[1] = b % 3 == 0 ? lkt_random_from(&random, 0, SHARES) : border[1];
            for (int i = 0; i < 2; i++)
                LKT_OK(lks_loader_share(part[i], SHARES, border[i], border[i + 1]));
            check_union(all, part, 2, SHARES, border);
        }
        for (int i = 0; i < 2; i++) lks_loader_destroy(part[i]);
        lks_loader_destroy(all);
    }
    lks_dataset_destroy(set);
}

/* Loaders that were cut in another way, or not at all, are left alone; so is one that cannot have what is
 * asked for. */
static void shares_that_stay(void **state)
{
    lkt_heap heap = {.fail_at = 0};
    lks_context *own;
    lks_dataset *set = open_epochs();
    lks_loader *loader;
    lks_batch batch;
    const lks_loader_opts opts = {
        .global_batch = BATCH, .shares = 8, .first_share = 2, .last_share = 4};
    (void)state;
    LKT_OK(lks_context_create(&own, &(lks_context_opts){.allocator = lkt_heap_allocator(&heap)}));
    LKT_OK(lks_loader_create(&loader, own, set, &opts));
    LKT_OK(lks_loader_share(loader, 4, 0, 4));
    LKT_OK(lks_loader_share(loader, 8, 2, 4));
    LKT_FAILS(LKS_E_INVALID, "shares 3 to 2 of 8", lks_loader_share(loader, 8, 3, 2));
    LKT_OK(lks_loader_next(loader, &batch));
    heap.fail_at = heap.allocations + 1;
    LKT_FAILS(LKS_E_NOMEM, "the loader's batches", lks_loader_share(loader, 8, 0, 8));
    heap.fail_at = 0;
    for (int64_t index = 1; index < 3; index++) {
        LKT_OK(lks_loader_next(loader, &batch));
        assert_int_equal(batch.index, index);
        assert_int_equal(batch.first, BATCH * 2 / 8);
        assert_int_equal(batch.first + batch.count, BATCH * 4 / 8);
    }
    LKT_OK(lks_loader_share(loader, 8, 0, 8));
    LKT_OK(lks_loader_next(loader, &batch));
    assert_int_equal(batch.count, BATCH);
    assert_int_equal(batch.index, 3);
    lks_loader_destroy(loader);
    LKT_OK(lks_loader_create(&loader, own, set, &(lks_loader_opts){.global_batch = BATCH}));
    LKT_OK(lks_loader_share(loader, 8, 0, 3));
    LKT_OK(lks_loader_next(loader, &batch));
    assert_int_equal(batch.count, BATCH);
    lks_loader_destroy(loader);
    lks_context_destroy(own);
    assert_int_equal(heap.live, 0);
    assert_int_equal(heap.errors, 0);
    lks_dataset_destroy(set);
}

/* What others take is not read. */
static void reads_its_part_alone(void **state)
{
    lks_dataset *set = open_epochs();
    lks_loader *loader = open_loader(
        set, (lks_loader_opts){.threads = -1, .shares = 8, .first_share = 3, .last_share = 5});
    int64_t expected = 0;
    (void)state;
    atomic_store(&reads, 0);
    for (int64_t b = 0; b < batches; b++) {
        lks_batch got;
        LKT_OK(lks_loader_next(loader, &got));
        expected += got.count;
    }
    assert_int_equal(atomic_load(&reads), expected);
    assert_in_range(expected, SAMPLES / 4 - batches, SAMPLES / 4 + batches);
    lks_loader_destroy(loader);
    lks_dataset_destroy(set);
}

/* Room for the part, not for the batch: of 2^45 samples nobody has it. Full parts are filled to the last byte,
 * which the sanitizers watch. */
static void memory_is_that_of_the_part(void **state)
{
    const int64_t many = INT64_C(1) << 45;
    const lks_dataset_ops ops = {
        .info = {.samples = many, .shape = LKS_SHAPE(WIDTH), .dtype = LKS_F32, .classes = 10},
        .read_epoch = read_epoch};
    lks_dataset *set;
    (void)state;
    LKT_OK(lks_dataset_create(&set, context, "large", &ops, NULL));
    for (int64_t part = 0; part < 9; part++) {
        const lks_loader_opts opts = {.global_batch = many - part,
                                      .in_order = true,
                                      .threads = -1,
                                      .shares = INT64_C(1) << 30,
                                      .first_share = part << 26,
                                      .last_share = (part << 26) + 1};
        lks_loader *loader;
        lks_batch got;
        LKT_OK(lks_loader_create(&loader, context, set, &opts));
        LKT_OK(lks_loader_next(loader, &got));
        assert_in_range(got.count, (1 << 15) - 1, 1 << 15);
        assert_int_equal(got.whole, many - part);
        assert_int_equal(got.first,
                         (int64_t)((__extension__(__int128)(part << 26) * (many - part)) >> 30));
        assert_int_equal(got.ids[got.count - 1], got.first + got.count - 1);
        lks_loader_destroy(loader);
    }
    lks_dataset_destroy(set);
    /* Nor is there room for samples that no batch has. */
    lks_loader *loader;
    set = open_epochs();
    LKT_OK(lks_loader_create(&loader, context, set, &(lks_loader_opts){.global_batch = many}));
    lks_loader_destroy(loader);
    lks_dataset_destroy(set);
}

static void refuses_no_range(void **state)
{
    static const struct {
        int64_t shares, first, last;
        const char *part;
    } cases[] = {
        {-1, 0, 0, "loader of 'epochs': shares 0 to 0 of -1 were asked for, expected at most"},
        {0, 0, 1, "shares 0 to 1 of 0 were asked for"},
        {4, -1, 2, "shares -1 to 2 of 4"},
        {4, 3, 2, "shares 3 to 2 of 4"},
        {4, 3, 5, "shares 3 to 5 of 4"},
        {INT64_C(1) << 31, 3, 5, "expected at most 2147483647 shares and a range of them"},
        {INT64_MAX, 3, 5, "expected at most 2147483647 shares and a range of them"},
    };
    lks_dataset *set = open_epochs();
    lks_loader *loader;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const lks_loader_opts opts = {.global_batch = BATCH,
                                      .shares = cases[i].shares,
                                      .first_share = cases[i].first,
                                      .last_share = cases[i].last};
        LKT_FAILS(LKS_E_INVALID, cases[i].part, lks_loader_create(&loader, context, set, &opts));
        assert_null(loader);
    }
    lks_dataset_destroy(set);
}

/* ---------------------------------------------------------------- epochs */

/* The next batch's samples are of its epoch, and are those of the base with these numbers. */
static void check_epoch(lks_loader *loader, int64_t base)
{
    lks_batch got;
    LKT_OK(lks_loader_next(loader, &got));
    for (int64_t i = 0; i < got.count; i++) {
        const float *x = (const float *)got.x + i * WIDTH;
        assert_int_equal((int64_t)x[0], got.epoch);
        assert_int_equal((int64_t)x[1], base + got.ids[i]);
    }
}

static void samples_know_their_epoch(void **state)
{
    static const int threads[] = {-1, 1, 3};
    lks_dataset *all = open_epochs(), *set;
    (void)state;
    LKT_OK(lks_dataset_slice(&set, all, 13, SAMPLES - 20));
    for (int t = 0; t < 3; t++) {
        lks_loader *loader = open_loader(set, (lks_loader_opts){.threads = threads[t]});
        for (int64_t b = 0; b < 3 * batches; b++) check_epoch(loader, 13);
        LKT_OK(lks_loader_seek(loader, 40 * batches + 3));
        for (int64_t b = 0; b < batches; b++) check_epoch(loader, 13);
        lks_loader_destroy(loader);
    }
    lks_dataset_destroy(set);
    lks_dataset_destroy(all);
}

/* What a data set is, no epoch changes. */
static void identity_has_no_epoch(void **state)
{
    lks_dataset *set = open_epochs(), *fixed;
    static float x[SAMPLES][WIDTH];
    static int32_t y[SAMPLES];
    uint64_t found, expected;
    (void)state;
    for (int64_t i = 0; i < SAMPLES; i++) {
        LKT_OK(lks_dataset_read(set, i, x[i], &y[i]));
        assert_int_equal((int64_t)x[i][0], -1);
        assert_int_equal((int64_t)x[i][1], i);
    }
    const lks_dataset_info info = lks_dataset_get_info(set);
    LKT_OK(lks_dataset_from_arrays(&fixed, context, &info, x, y));
    LKT_OK(lks_dataset_hash(set, &found));
    LKT_OK(lks_dataset_hash(fixed, &expected));
    assert_int_equal(found, expected);
    lks_dataset_destroy(fixed);
    lks_dataset_destroy(set);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(parts_are_the_whole),      TEST(shares_change_on_the_way),   TEST(shares_that_stay),
        TEST(reads_its_part_alone),     TEST(memory_is_that_of_the_part), TEST(refuses_no_range),
        TEST(samples_know_their_epoch), TEST(identity_has_no_epoch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What a loader refuses, and which sample it names. */
#include "data/loaders.h"

static void errors_name_the_first_sample(void **state)
{
    (void)state;
    for (int t = 0; t < THREAD_COUNTS; t++) {
        source from;
        lks_batch got;
        lks_dataset *set = open_source(&from, SAMPLES);
        lks_loader_opts opts = {
            .global_batch = BATCH, .in_order = true, .threads = thread_counts[t]};
        from.bad = 2 * BATCH + 7;
        from.bad_too = 2 * BATCH + 60;
        lks_loader *loader = open_loader(set, opts);
        check_next(loader, 0, SAMPLES, true);
        check_next(loader, 1, SAMPLES, true);
        for (int again = 0; again < 2; again++) { /* it stays at that batch */
            LKT_FAILS(LKS_E_IO, "data set 'book': sample 129 could not be read: page 129 is torn",
                      lks_loader_next(loader, &got));
            assert_null(got.x);
            assert_int_equal(got.count, 0);
        }
        LKT_OK(lks_loader_seek(loader, 3)); /* past it */
        check_next(loader, 3, SAMPLES, true);
        atomic_store(&from.bad, -1);
        atomic_store(&from.bad_too, -1);
        LKT_OK(lks_loader_seek(loader, 1)); /* repaired: a seek reads again */
        check_next(loader, 1, SAMPLES, true);
        LKT_OK(lks_loader_seek(loader, 2));
        check_next(loader, 2, SAMPLES, true);
        lks_loader_destroy(loader);
        lks_dataset_destroy(set);
    }
}

static void refuses_bad_options(void **state)
{
    (void)state;
    static const struct {
        lks_loader_opts opts;
        const char *part;
    } cases[] = {
        {{0}, "loader of 'book': global_batch is 0, expected at least 1"},
        {{.global_batch = -3}, "global_batch is -3"},
        {{.global_batch = 1, .threads = -2}, "threads is -2, expected 1 to 1024, or -1"},
        {{.global_batch = 1, .threads = 1025}, "threads is 1025"},
        {{.global_batch = 1, .ahead = -1}, "ahead is -1 batches, expected 1 to 1024"},
        {{.global_batch = 1, .ahead = 1025}, "ahead is 1025 batches"},
        {{.global_batch = 201, .drop_last = true},
         "drop_last leaves no batch, for a batch of 201 is more than the 200 samples"},
    };
    source from;
    lks_loader *loader;
    lks_dataset *set = open_source(&from, 200);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        LKT_FAILS(LKS_E_INVALID, cases[i].part,
                  lks_loader_create(&loader, context, set, &cases[i].opts));
        assert_null(loader);
    }
    LKT_FAILS(LKS_E_INVALID, "global_batch is 0", lks_loader_create(&loader, context, set, NULL));
    lks_dataset_destroy(set);
    set = open_source(&from, INT64_MAX);
    const lks_loader_opts huge = {.global_batch = INT64_MAX / 4};
    LKT_FAILS(LKS_E_NOMEM, "do not fit in memory; read smaller batches, or fewer ahead",
              lks_loader_create(&loader, context, set, &huge));
    assert_null(loader);
    lks_dataset_destroy(set);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(errors_name_the_first_sample),
        TEST(refuses_bad_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

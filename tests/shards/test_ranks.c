/* Shards and their statistics by several ranks: the same bytes as by one, each makes its part, what fails on one ends on all, and
 * the next call goes on. */
#include "shards/shards.h"

#include <fcntl.h>
#include <math.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <unistd.h>

#include <lockstep/tools.h>

#include "support/ranks/fake.h"

enum { SAMPLES = 150, INPUTS = 3, MOST_RANKS = 6, HURT = 4 };

/* 150 rows of 3 numbers and a target; `hurt`: a NaN in row 4. */
static void write_arrays(bool hurt)
{
    static bytes file;
    put_npy(&file, "<f4", false, "(150, 3)");
    for (int i = 0; i < SAMPLES * INPUTS; i++)
        put(&file, &(float){hurt && i == HURT * INPUTS ? NAN : (float)(i * 7 % 113)}, 4);
    write_bytes(in_folder("x.npy"), &file);
    put_npy(&file, "<f4", false, "(150,)");
    for (int i = 0; i < SAMPLES; i++) put(&file, &(float){(float)i}, 4);
    write_bytes(in_folder("y.npy"), &file);
}

typedef struct work {
    const char *out;
    int64_t rows; /* of a shard */
    bool measures, differs;
    lks_shards_result made[MOST_RANKS];
    lks_error error[MOST_RANKS];
    atomic_int cut[MOST_RANKS]; /* shards that the rank has made */
} work;

static bool count_shard(void *user, int64_t done, int64_t all)
{
    (void)done;
    (void)all;
    atomic_fetch_add((atomic_int *)user, 1);
    return true;
}

static lks_status cut_arrays(work *w, lks_comm *comm, int rank)
{
    char x[4200], y[4200], out[4200];
    lks_context *context;
    snprintf(x, sizeof x, "%s/x.npy", folder);
    snprintf(y, sizeof y, "%s/y.npy", folder);
    snprintf(out, sizeof out, "%s/%s", folder, w->out);
    const lks_shards_opts opts = {.out = out,
                                  .rows = w->rows + (w->differs && rank == 1),
                                  .threads = 1,
                                  .comm = comm,
                                  .progress = count_shard,
                                  .user = &w->cut[rank]};
    lks_status status = lks_context_create(&context, NULL);
    if (status == LKS_OK) status = lks_shards_cut(&w->made[rank], context, x, y, &opts);
    lks_context_destroy(context);
    return status;
}

static lks_status measure_shards(const work *w, lks_comm *comm, int rank)
{
    char text[4400];
    lks_shards_stats stats;
    lks_recipe *recipe = NULL;
    lks_context *context = NULL;
    snprintf(text, sizeof text, "data: {shards: %s/%s, test_fraction: 0.2}\nmodel: {name: mlp}\n",
             folder, w->out);
    lks_status status = lks_context_create(&context, NULL);
    if (status == LKS_OK) status = lks_recipe_open_text(&recipe, "r", text);
    if (status == LKS_OK) {
        lks_recipe_comm(recipe, comm);
        status = lks_recipe_measure_shards(&stats, recipe, context, 1 + rank % 3);
    }
    lks_recipe_close(recipe);
    lks_context_destroy(context);
    return status;
}

static int do_work(lks_comm *comm, int rank, void *user)
{
    work *w = user;
    w->error[rank] = *lks_last_error();
    if (comm == NULL) return 0; /* it did not come to join */
    const lks_status status = w->measures ? measure_shards(w, comm, rank)
                                          : cut_arrays(w, comm, rank);
    w->error[rank] = *lks_last_error();
    if (status == LKS_OK) w->error[rank].status = LKS_OK;
    return 0;
}

/* One for each set of options of a hub. */
static void together(work *w, const lkt_hub_opts *hub)
{
    int results[LKT_MOST_RANKS];
    for (int r = 0; r < MOST_RANKS; r++) atomic_store(&w->cut[r], 0);
    lkt_ranks_run(hub, &(lks_comm_opts){.timeout_s = 30}, do_work, w, results);
}

static void expect_all(const work *w, int ranks)
{
    for (int r = 0; r < ranks; r++)
        if (w->error[r].status != LKS_OK) fail_msg("rank %d: %s", r, w->error[r].message);
}

static void alone(work *w)
{
    LKT_OK(w->measures ? measure_shards(w, NULL, 0) : cut_arrays(w, NULL, 0));
}

static void any_ranks_make_the_same_files(void **state)
{
    (void)state;
    write_arrays(false);
    for (int rows = 1; rows <= 64;
         rows *= 8) { /* 150, 19, 3 shards: several rounds, one, and ranks without any */
        const int shards = (SAMPLES - 1) / rows + 1;
        work one = {.out = "one", .rows = rows};
        alone(&one);
        for (int ranks = 1; ranks <= MOST_RANKS; ranks += 1 + ranks / 3) {
            work w = {.out = "o", .rows = rows};
            int sum = 0;
            together(&w,
                     &(lkt_hub_opts){.size = ranks, .seed = (uint64_t)ranks, .delay = ranks % 3});
            expect_all(&w, ranks);
            assert_int_equal(shell("diff -r one o"), 0);
            for (int r = 0; r < ranks; r++) {
                sum += atomic_load(&w.cut[r]);
                /* Of two rounds one may be of ranks that have no more than others in it. */
                assert_true(atomic_load(&w.cut[r]) <= (shards - 1) / ranks + 2);
                assert_int_equal(w.made[r].kept, 0);
                assert_int_equal(w.made[r].shards, shards);
                assert_int_equal(w.made[r].bytes, SAMPLES * 4 * 4);
            }
            assert_int_equal(sum, shards);
            assert_int_equal(shell("rm o/metadata.json o/data/processed/flattened-1000/y/0.npy"),
                             0);
            together(&w, &(lkt_hub_opts){.size = ranks % MOST_RANKS + 1, .seed = 1});
            expect_all(&w, ranks % MOST_RANKS + 1);
            assert_int_equal(w.made[0].kept, shards - 1);
            assert_int_equal(shell("diff -r one o && rm -r o"), 0);
        }
        assert_int_equal(shell("rm -r one"), 0);
    }
}

static void any_ranks_measure_the_same(void **state)
{
    (void)state;
    write_arrays(false);
    for (int rows = 1; rows <= 64; rows *= 8) {
        work one = {.out = "one", .rows = rows};
        alone(&one);
        one.measures = true;
        alone(&one);
        assert_int_equal(shell("cp -r one o && cp one/stats*.npy kept.npy"), 0);
        for (int ranks = 1; ranks <= MOST_RANKS; ranks += 1 + ranks / 3) {
            work w = {.out = "o", .measures = true};
            assert_int_equal(shell("rm o/stats*.npy"), 0);
            together(&w,
                     &(lkt_hub_opts){.size = ranks, .seed = (uint64_t)ranks, .delay = ranks % 3});
            expect_all(&w, ranks);
            assert_int_equal(shell("cmp o/stats*.npy kept.npy"), 0);
        }
        assert_int_equal(shell("rm -r one o"), 0);
    }
}

/* All say the same, and whose it is. */
static void expect_failures(const work *w, int ranks, int failed, const char *says)
{
    char who[40];
    snprintf(who, sizeof who, "rank %d (host ", failed);
    for (int r = 0; r < ranks; r++) {
        if (w->error[r].status == LKS_OK || strstr(w->error[r].message, says) == NULL)
            fail_msg("rank %d: '%s', expected '%s'", r, w->error[r].message, says);
        if (r != failed && failed > 0) assert_non_null(strstr(w->error[r].message, who));
    }
}

static void what_fails_on_one_ends_on_all(void **state)
{
    (void)state;
    work w = {.out = "o", .rows = 1};
    const lkt_hub_opts three = {.size = 3, .seed = 3};
    write_arrays(true);
    together(&w, &three);
    expect_failures(&w, 3, 0, "row 4 has a NaN in column 0");
    assert_int_equal(shell("test $(ls o/data/processed/flattened-1000/x | wc -l) -lt 140"), 0);
    assert_false(there("o/metadata.json"));
    write_arrays(false);
    w.rows = 3;
    w.differs = true;
    together(&w, &three);
    expect_failures(&w, 3, 0, "what the shards are of: rank 1 (host ");
    w.differs = false;
    const int other = open(in_folder("o"), O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(other, LOCK_EX | LOCK_NB), 0);
    together(&w, &three);
    expect_failures(&w, 3, 0, "is being written by another process that makes shards");
    close(other);
    together(&w, &three);
    expect_all(&w, 3);
    w.measures = true;
    assert_int_equal(
        shell("printf '\\377\\377\\377\\377' | dd of=o/data/processed/flattened-1000/x/20.npy bs=1 "
              "seek=136 conv=notrunc 2>/dev/null"),
        0);
    together(&w, &three);
    expect_failures(&w, 3, 1, "20.npy");
    assert_int_equal(shell("rm o/data/processed/flattened-1000/x/7.npy"), 0);
    together(&w, &three);
    expect_failures(&w, 3, 0, "7.npy");
}

/* At any time: the others say which, and the next call goes on and ends with the same files. */
static void a_rank_that_dies_is_named(void **state)
{
    (void)state;
    write_arrays(false);
    work one = {.out = "one", .rows = 2};
    alone(&one);
    int died = 0;
    for (int measures = 0; measures < 2; measures++)
        for (int at = 1;; at++) {
            work w = {.out = "o", .rows = 2};
            if (measures) alone(&w);
            w.measures = measures;
            together(&w,
                     &(lkt_hub_opts){.size = 3, .seed = (uint64_t)at, .die_rank = 1, .die_at = at});
            if (w.error[0].status == LKS_OK) break;
            died++;
            if (strstr(w.error[0].message, ": rank 1 ") == NULL)
                fail_msg("death %d: '%s'", at, w.error[0].message);
            if (w.error[2].status != LKS_OK) /* else it has had the last message already */
                assert_non_null(strstr(w.error[2].message, "rank 1 "));
            w.measures = false;
            together(&w, &(lkt_hub_opts){.size = 2, .seed = 1});
            expect_all(&w, 2);
            assert_int_equal(shell("rm -f o/stats*; diff -r one o && rm -r o"), 0);
        }
    if (getenv("LKT_TRANSPORT") == NULL && died < 10) fail_msg("%d deaths", died);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_ranks_make_the_same_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(any_ranks_measure_the_same, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_fails_on_one_ends_on_all, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_rank_that_dies_is_named, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("ranks", tests, NULL, NULL);
}

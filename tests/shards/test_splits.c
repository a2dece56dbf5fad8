/* Statistics of shards that a training opens: measured once, by all of its ranks, for all splits, with the bits of one. */
#include "shards/shards.h"

#include <math.h>
#include <stdatomic.h>

#include <lockstep/tools.h>

#include "data/shards/shards.h"
#include "support/ranks/fake.h"

enum { MOST_RANKS = 4 };

static atomic_int opened; /* files that were opened to be measured, by all ranks */
lks_status __real_lki_shard_open(lki_shard *out, const lki_shards *shards, int array,
                                 int64_t index);
lks_status __wrap_lki_shard_open(lki_shard *out, const lki_shards *shards, int array,
                                 int64_t index);
lks_status __wrap_lki_shard_open(lki_shard *out, const lki_shards *shards, int array, int64_t index)
{
    atomic_fetch_add(&opened, 1);
    return __real_lki_shard_open(out, shards, array, index);
}

/* What a rank opens, and what it got. */
typedef struct part {
    const char *shards, *device, *keys;
    int data, valid;
    uint64_t hash[3];           /* of training, validation, test; 0: there is none */
    lks_unit units[2][TARGETS]; /* of the first and the last of these */
    lks_error error;
} part;

typedef struct work {
    part of[MOST_RANKS];
} work;

static lks_status hash_split(uint64_t *out, lks_unit *units, lks_dataset *data)
{
    if (data == NULL) return LKS_OK;
    for (int t = 0; t < TARGETS && units != NULL && lks_dataset_units(data) != NULL; t++)
        units[t] = lks_dataset_units(data)[t];
    return lks_dataset_hash(data, out);
}

static lks_status open_part(part *p, lks_comm *comm)
{
    char text[4600];
    lks_recipe *recipe = NULL;
    snprintf(text, sizeof text,
             "data: {shards: %s/%s, test_fraction: 0.2%s}\nvalidation: {samples: %d}\n"
             "model: {name: mlp}\ntrain: {device: %s}\n",
             folder, p->shards, p->keys, p->valid, p->device);
    lks_status status = lks_recipe_open_text(&recipe, "r", text);
    lks_recipe_comm(recipe, comm);
    if (status == LKS_OK) status = lks_recipe_open_data(recipe, p->data);
    const lks_recipe_parts parts = lks_recipe_get_parts(recipe);
    if (status == LKS_OK) status = hash_split(&p->hash[0], p->units[0], parts.train);
    if (status == LKS_OK) status = hash_split(&p->hash[1], NULL, parts.valid);
    if (status == LKS_OK) status = hash_split(&p->hash[2], p->units[1], parts.test);
    p->error = (lks_error){.status = status};
    if (status != LKS_OK) p->error = *lks_last_error();
    for (int i = 0; i < 2 * TARGETS; i++) p->units[i / TARGETS][i % TARGETS].name = NULL;
    lks_recipe_close(recipe);
    return status;
}

static int do_part(lks_comm *comm, int rank, void *user)
{
    if (comm == NULL) return 1;
    (void)open_part(&((work *)user)->of[rank], comm);
    return 0;
}

static const part all_splits = {.shards = "s",
                                .device = "cpu",
                                .keys = "",
                                .data = LKS_RECIPE_TRAIN | LKS_RECIPE_TEST,
                                .valid = 5};

/* `ranks` like `like`; those of `other` in the place of one of them. */
static void together(work *w, int ranks, const part *like, int one, const part *other)
{
    int results[LKT_MOST_RANKS];
    for (int r = 0; r < ranks; r++) w->of[r] = r == one ? *other : *like;
    atomic_store(&opened, 0);
    lkt_ranks_run(&(lkt_hub_opts){.size = ranks, .seed = (uint64_t)ranks, .delay = ranks % 3},
                  &(lks_comm_opts){.timeout_s = 30}, do_part, w, results);
}

/* Nothing of it is left mapped. */
static part alone(const part *like)
{
    part p = *like;
    atomic_store(&opened, 0);
    LKT_OK(open_part(&p, NULL));
    assert_int_equal(shell("! grep -q '\\.npy' /proc/%d/maps", (int)getpid()), 0);
    return p;
}

/* As one process has it, after so many files were opened to be measured. */
static void expect_as(const part *one, const work *w, int ranks, int files)
{
    for (int r = 0; r < ranks; r++) {
        if (w->of[r].error.status != LKS_OK) fail_msg("rank %d: %s", r, w->of[r].error.message);
        assert_memory_equal(w->of[r].hash, one->hash, sizeof one->hash);
        assert_memory_equal(w->of[r].units, one->units, sizeof one->units);
    }
    assert_int_equal(atomic_load(&opened), files);
}

static void all_ranks_measure_once(void **state)
{
    (void)state;
    work w;
    write_shards();
    for (int mode = 0; mode < 2; mode++) { /* mapped, and read */
        const part one = alone(&all_splits);
        assert_int_equal(atomic_load(&opened), 2 * SHARDS);
        assert_true(one.hash[0] != 0 && one.hash[1] != 0 && one.hash[2] != 0);
        assert_true(one.units[0][0].standardised && one.units[0][0].deviation > 0);
        assert_memory_equal(one.units[0], one.units[1], sizeof one.units[0]);
        for (int ranks = 1; ranks <= MOST_RANKS; ranks++) {
            together(&w, ranks, &all_splits, -1, NULL);
            expect_as(&one, &w, ranks, 2 * SHARDS);
        }
        /* Each split by itself has the same numbers. */
        const int splits[] = {LKS_RECIPE_TRAIN, LKS_RECIPE_TEST};
        for (int i = 0; i < 2; i++) {
            part own = all_splits;
            own.data = splits[i];
            const part p = alone(&own);
            assert_true(p.hash[2 * i] == one.hash[2 * i]);
            assert_memory_equal(p.units[i], one.units[i], sizeof one.units[i]);
            together(&w, 3, &own, -1, NULL);
            expect_as(&p, &w, 3, 2 * SHARDS);
        }
        write_text("s/config.yaml", "{timestep: 1000, loading_mode: controlled}");
    }
    part plain = all_splits;
    plain.keys = ", standardize: false";
    const part one = alone(&plain);
    together(&w, 2, &plain, -1, NULL);
    expect_as(&one, &w, 2, 0);
}

/* Of kept statistics those that the first rank finds are everybody's. */
static void what_is_kept_is_of_the_first_rank(void **state)
{
    (void)state;
    part other = all_splits;
    work w;
    other.shards = "t";
    write_shards();
    const part one = alone(&all_splits);
    assert_int_equal(shell("cp -rp s t"), 0);
    write_text("c.yaml", "data: {shards: s, test_fraction: 0.2}\nvalidation: {samples: 5}\n"
                         "model: {name: mlp}\n");
    run("data stats c.yaml");
    expect_ok();
    together(&w, 3, &all_splits, -1, NULL);
    expect_as(&one, &w, 3, 0);
    together(&w, 3, &all_splits, 1, &other); /* rank 1 has none */
    expect_as(&one, &w, 3, 0);
    together(&w, 3, &all_splits, 0, &other); /* the others have some */
    expect_as(&one, &w, 3, 2 * SHARDS);
    /* A number of them is another one. */
    assert_int_equal(
        shell("cp s/stats*.npy t && printf '\\301' | dd of=$(ls t/stats*.npy) bs=1 "
              "seek=135 conv=notrunc 2>/dev/null && ! cmp -s s/stats*.npy t/stats*.npy"),
        0);
    together(&w, 3, &all_splits, 1, &other);
    expect_as(&one, &w, 3, 0);
    assert_true(alone(&other).hash[0] != one.hash[0]);
}

/* All say the same, and whose it is. */
static void expect_failure(const work *w, int ranks, int failed, const char *says)
{
    char who[40];
    snprintf(who, sizeof who, "rank %d (host ", failed);
    for (int r = 0; r < ranks; r++) {
        const char *message = w->of[r].error.message;
        if (w->of[r].error.status == LKS_OK || strstr(message, says) == NULL)
            fail_msg("rank %d: '%s', expected '%s'", r, message, says);
        if (failed > 0 && r == 0 && strstr(message, who) == NULL)
            fail_msg("rank %d: '%s', expected '%s'", r, message, who);
    }
}

/* Wherever it fails, and nobody waits for a rank that has left. */
static void what_fails_on_one_ends_on_all(void **state)
{
    (void)state;
    part other = all_splits;
    work w;
    write_shards();
    assert_int_equal(shell("cp -rp s t && rm t/data/processed/flattened-1000/y/3.npy"), 0);
    other.shards = "t";
    for (int one = 0; one < 3; one++) {
        together(&w, 3, &all_splits, one, &other);
        expect_failure(&w, 3, one, "y/3.npy");
        assert_int_equal(atomic_load(&opened), 0); /* nobody has begun to measure */
    }
    other = all_splits;
    other.device = "abacus";
    for (int one = 0; one < 3; one++) {
        together(&w, 3, &all_splits, one, &other);
        expect_failure(&w, 3, one, "abacus");
    }
    other = all_splits;
    other.valid = ROWS; /* more than there are */
    for (int one = 0; one < 3; one++) {
        together(&w, 3, &all_splits, one, &other);
        expect_failure(&w, 3, one, "validation.samples");
        assert_int_equal(atomic_load(&opened), 0);
    }
    write_shard(0, 3, "<f4", rows_of(3), WIDTH, false, NAN);
    together(&w, 3, &all_splits, -1, NULL); /* rank 1 measures shards 3 to 5 */
    expect_failure(&w, 3, 1, "3.npy");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(all_ranks_measure_once),
        TEST(what_is_kept_is_of_the_first_rank),
        TEST(what_fails_on_one_ends_on_all),
    };
    return cmocka_run_group_tests_name("splits", tests, NULL, NULL);
}

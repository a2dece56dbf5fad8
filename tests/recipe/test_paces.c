/* What processes do, as records and lines have it: each its own speed and share of waiting, the same on all. */
#include "recipe/recipes.h"

#include <time.h>

#include <lockstep/tools.h>

#include "support/ranks/fake.h"

enum { MOST = 3, STEPS = 6, SLOW = 1 /* a rank */ };

static const char network[] =
    "data: {name: digits, samples: 300, test_samples: 70}\n"
    "model: {name: net, layers: [flatten, {dense: 12}, relu, {dense: 10}]}\n"
    "train: {epochs: 2, batch_size: 50, hash_every: 4, replicas: 6, workers: 1}\n";

typedef struct seen {
    lks_pace pace[MOST], at_link[MOST];
    int count;
    int64_t step, link_step, samples;
    uint64_t hash;
    double seconds, waited; /* since the epoch began, */
    int64_t done;           /* and samples */
    lks_recipe *recipe;
    int rank;
} seen;

/* Once in an epoch all wait for one rank in the step behind this, far longer than any step takes; where there is one alone
 * nothing is gathered. */
static lks_status slow_step(void *user, const lks_step_event *event)
{
    seen *s = user;
    int count;
    int64_t step;
    const lks_pace *pace = lks_recipe_paces(s->recipe, &count, &step);
    s->samples += event->samples;
    if (event->batch == 0) s->seconds = s->waited = 0, s->done = 0;
    s->seconds += event->seconds;
    s->waited += event->waited;
    s->done += event->samples;
    if (event->step == 4 && pace != NULL) {
        memcpy(s->at_link, pace, (size_t)count * sizeof *pace);
        s->link_step = step;
    }
    if (s->rank == SLOW && event->batch == 1)
        nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    return LKS_OK;
}

static lks_status train(seen *s, lks_comm *comm)
{
    const lks_run *run = NULL;
    const lks_train_events events = {.on_step = slow_step, .user = s};
    char key[4200];
    s->rank = lks_comm_rank(comm);
    lks_status status = lks_recipe_open_text(&s->recipe, "net.yaml", network);
    snprintf(key, sizeof key, "log.record=%s/r.json", folder);
    if (status == LKS_OK) status = lks_recipe_set(s->recipe, key);
    lks_recipe_comm(s->recipe, comm);
    if (status == LKS_OK) status = lks_recipe_train(s->recipe, &events, &run);
    const lks_pace *pace = lks_recipe_paces(s->recipe, &s->count, &s->step);
    if (pace != NULL) memcpy(s->pace, pace, (size_t)s->count * sizeof *pace);
    if (run != NULL) s->hash = run->hash;
    lks_recipe_close(s->recipe);
    return status;
}

static int rank_body(lks_comm *comm, int rank, void *user)
{
    return comm == NULL || train((seen *)user + rank, comm) != LKS_OK;
}

static void assert_paces(const lks_pace *pace, int ranks)
{
    for (int r = 0; r < ranks; r++) {
        assert_true(pace[r].samples_per_second > 0 && pace[r].samples_per_second < 1e9);
        assert_true(pace[r].waited >= 0 && pace[r].waited <= 1);
        assert_true(pace[r].peak_rss_bytes > 1 << 20);
        if (r != SLOW) assert_true(pace[r].waited > 0);
    }
}

static void each_has_its_own(void **state)
{
    static seen one, all[MOST];
    (void)state;
    LKT_OK(train(&one, NULL));
    assert_int_equal(one.count, 0);
    assert_int_equal(one.samples, 600);
    json_t *record = read_json_file("r.json");
    assert_null(json_object_get(record, "ranks"));
    json_decref(record);
    for (int ranks = 2; ranks <= MOST; ranks++)
        for (int share = 0; share < 2; share++) {
            memset(all, 0, sizeof all);
            lkt_ranks(&(lkt_hub_opts){.size = ranks, .seed = 3, .delay = 2, .share = share == 1},
                      NULL, rank_body, all);
            int64_t samples = 0;
            for (int r = 0; r < ranks; r++) {
                samples += all[r].samples;
                assert_int_equal(all[r].hash, one.hash);
                assert_int_equal(all[r].count, ranks);
                assert_int_equal(all[r].step, 2 * STEPS);
                assert_int_equal(all[r].link_step, 4);
                assert_true(all[r].pace[r].samples_per_second ==
                            (double)all[r].done / all[r].seconds);
                assert_true(all[r].pace[r].waited == all[r].waited / all[r].seconds);
                if (r != SLOW) assert_true(all[r].waited > 0.1);
                assert_memory_equal(all[r].pace, all[0].pace, sizeof all[r].pace);
                assert_memory_equal(all[r].at_link, all[0].at_link, sizeof all[r].at_link);
            }
            assert_int_equal(samples, 600);
            assert_paces(all[0].pace, ranks);
            assert_paces(all[0].at_link, ranks);
            record = read_json_file("r.json");
            const json_t *told = json_object_get(record, "ranks");
            assert_int_equal(json_array_size(told), ranks);
            for (int r = 0; r < ranks; r++) {
                const json_t *of = json_array_get(told, (size_t)r);
                assert_true(json_number_value(json_object_get(of, "waited")) ==
                            all[0].pace[r].waited);
                assert_true(json_number_value(json_object_get(of, "samples_per_second")) ==
                            all[0].pace[r].samples_per_second);
                assert_null(json_object_get(of, "tokens_per_second"));
            }
            json_decref(record);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_has_its_own),
    };
    return cmocka_run_group_tests_name("paces", tests, set_up, tear_down);
}

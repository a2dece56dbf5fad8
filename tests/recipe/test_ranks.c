/* Recipes of several processes: the bits, files and sentences of one. Ranks are threads here. */
#include "recipe/recipes.h"

#include <string.h>

#include <lockstep/comm.h>
#include <lockstep/tools.h>

#include "recipe/recipe.h"
#include "support/ranks/cuts.h"
#include "support/ranks/fake.h"

static const char NETWORK[] =
    "data: {name: digits, samples: 300, test_samples: 70}\n"
    "model:\n"
    "  layers:\n"
    "    - flatten\n"
    "    - dense: {units: 12}\n"
    "    - batch_norm\n"
    "    - relu\n"
    "    - dropout: 0.3\n"
    "    - dense: 10\n"
    "train: {epochs: 2, batch_size: 47, hash_every: 4, replicas: 6, device: ref,\n"
    "        test_batch_size: 16}\n"
    "optimizer: {name: adam, lr: 0.002}\n"
    "validation: {samples: 31, shuffle: true}\n"
    "log: {quiet: true}\n";

enum { MOST = 4, KEYS = 4, EPOCHS = 2 };

/* What ranks are started with, and what becomes of each. */
typedef struct group {
    int ranks;
    const char *all[KEYS];       /* assignments of every rank */
    const char *own[MOST][KEYS]; /* and of one */
    int stop_rank;               /* its event stops the run */
    int64_t stop_step;           /* after this step; 0: none does */
    bool cuts;                   /* at every link other ranges */

    lks_status status[MOST];
    char sentence[MOST][600];
    uint64_t hash[MOST];
    int64_t step[MOST];
    lks_metrics seen[MOST][EPOCHS][3];
    char *record[MOST]; /* where ranges changed; free() it */
} group;

typedef struct rank_of {
    const group *of;
    int rank;
} rank_of;

static lks_status on_step(void *user, const lks_step_event *event)
{
    const rank_of *mine = user;
    const group *g = mine->of;
    return mine->rank == g->stop_rank && event->step == g->stop_step
               ? lks_fail(LKS_E_STOPPED, "a test stops it")
               : LKS_OK;
}

static lks_status start_to_cut(lks_recipe *recipe)
{
    const lks_status status = lks_recipe_start(recipe);
    if (status == LKS_OK) lkt_cut_often(recipe->session.model);
    return status;
}

static lks_status train(group *g, lks_comm *comm, int rank)
{
    lks_recipe *recipe;
    rank_of mine = {g, rank};
    const lks_train_events events = {.on_step = on_step, .user = &mine};
    const lks_run *run = NULL;
    lks_status status = lks_recipe_open_text(&recipe, "net.yaml", NETWORK);
    for (int i = 0; i < KEYS && status == LKS_OK; i++)
        if (g->all[i] != NULL) status = lks_recipe_set(recipe, g->all[i]);
    for (int i = 0; i < KEYS && status == LKS_OK; i++)
        if (g->own[rank][i] != NULL) status = lks_recipe_set(recipe, g->own[rank][i]);
    lks_recipe_comm(recipe, comm);
    if (status == LKS_OK && g->cuts) status = start_to_cut(recipe);
    if (status == LKS_OK) status = lks_recipe_train(recipe, &events, &run);
    if (status == LKS_OK && g->cuts) status = lks_recipe_record(recipe, &g->record[rank]);
    g->status[rank] = status;
    snprintf(g->sentence[rank], sizeof g->sentence[rank], "%s",
             status != LKS_OK ? lks_last_error()->message : "");
    if (run != NULL) {
        g->hash[rank] = run->hash;
        g->step[rank] = run->progress.step;
        for (int64_t e = 0; e < run->epochs && e < EPOCHS; e++) {
            g->seen[rank][e][0] = run->history[e].train;
            g->seen[rank][e][1] = run->history[e].valid;
            g->seen[rank][e][2] = run->history[e].test;
        }
    }
    lks_recipe_close(recipe);
    return status;
}

static int body(lks_comm *comm, int rank, void *user)
{
    if (comm == NULL) return 1;
    (void)train(user, comm, rank);
    return 0;
}

/* Every rank ends with `expected`. */
static void run_group(group *g, lks_status expected)
{
    if (g->ranks == 1)
        (void)train(g, NULL, 0);
    else
        lkt_ranks(&(lkt_hub_opts){.size = g->ranks, .seed = 3, .delay = 2}, NULL, body, g);
    for (int r = 0; r < g->ranks; r++)
        if (g->status[r] != expected)
            fail_msg("rank %d of %d: %s, expected %s: %s", r, g->ranks,
                     lks_status_name(g->status[r]), lks_status_name(expected), g->sentence[r]);
}

static void assert_same(const group *one, const group *many)
{
    for (int r = 0; r < many->ranks; r++) {
        assert_int_equal(many->hash[r], one->hash[0]);
        assert_int_equal(many->step[r], one->step[0]);
        assert_memory_equal(many->seen[r], one->seen[0], sizeof many->seen[r]);
    }
}

static void any_ranks_end_with_the_hash_of_one(void **state)
{
    group one = {.ranks = 1};
    (void)state;
    run_group(&one, LKS_OK);
    for (int ranks = 2; ranks <= MOST; ranks++) {
        group many = {.ranks = ranks, .all = {"train.workers=1"}};
        if (ranks == 2) many.own[1][0] = "train.workers=3";
        run_group(&many, LKS_OK);
        assert_same(&one, &many);
    }
}

static void best_weights_come_back_on_every_rank(void **state)
{
    static const char *const early[] = {"validation.patience=1", "train.epochs=2",
                                        "optimizer.lr=0.3"};
    group one = {.ranks = 1}, two = {.ranks = 2};
    (void)state;
    for (int i = 0; i < 3; i++) one.all[i] = two.all[i] = early[i];
    run_group(&one, LKS_OK);
    run_group(&two, LKS_OK);
    assert_same(&one, &two);
}

/* A stop that one rank asks for is everybody's, behind one step; and so is what goes on from there. */
static void stopped_by_one_rank_and_resumed_with_others(void **state)
{
    char path[4200];
    group whole = {.ranks = 1}, two = {.ranks = 2, .stop_rank = 1, .stop_step = 5};
    group three = {.ranks = 3}, none = {.ranks = 2};
    (void)state;
    snprintf(path, sizeof path, "checkpoint.path=%s", in_folder("run"));
    run_group(&whole, LKS_OK);
    two.all[0] = three.all[0] = none.all[0] = path;
    run_group(&two, LKS_E_STOPPED);
    assert_int_equal(two.step[0], 6); /* it told it with the next step */
    assert_int_equal(two.step[1], 6);
    run_group(&none, LKS_E_INVALID); /* there is a run, and nobody said that it goes on */
    three.all[1] = "checkpoint.resume=true";
    run_group(&three, LKS_OK);
    assert_same(&whole, &three);
}

/* How gradients travel is a key and no bit; that they do not is other bits, and no hang. */
static void how_gradients_travel(void **state)
{
    group one = {.ranks = 1}, buckets = {.ranks = 3, .all = {"train.bucket_bytes=64"}};
    group after = {.ranks = 2, .all = {"train.overlap=off", "train.bucket_bytes=4096"}};
    group weights = {.ranks = 3, .all = {"train.balance=[3,0.5,1]"}};
    group few = {.ranks = 3, .all = {"train.balance=[3,1]"}};
    group none = {.ranks = 2, .all = {"train.comm=none"}};
    (void)state;
    run_group(&one, LKS_OK);
    run_group(&buckets, LKS_OK);
    run_group(&after, LKS_OK);
    assert_same(&one, &buckets);
    assert_same(&one, &after);
    run_group(&weights, LKS_OK);
    assert_same(&one, &weights);
    run_group(&few, LKS_E_INVALID);
    assert_non_null(strstr(few.sentence[2], "train.balance has 2 weights, but there are 3"));
    run_group(&none, LKS_OK);
    assert_int_equal(none.step[0], one.step[0]);
    assert_int_not_equal(none.hash[0], one.hash[0]);
    assert_int_not_equal(none.hash[0], none.hash[1]);
}

/* Ranges that change on the way, with loaders that read ahead: the same run, and each process says in its record
 * when and how. */
static void ranges_that_follow_speed(void **state)
{
    static const char *const lines[] = {
        "\"balance\": [",       "\"step\": 4",  "\"replicas\": [1, 5]", "\"step\": 8",
        "\"replicas\": [5, 1]", "\"step\": 12", "\"replicas\": [1, 5]", "\"hash\""};
    group one = {.ranks = 1}, two = {.ranks = 2, .all = {"train.balance=auto"}, .cuts = true};
    group alone = {.ranks = 1,
                   .all = {"train.balance=auto", "train.workers=4", "data.threads=0"},
                   .cuts = true};
    group three = {
        .ranks = 3, .all = {"train.balance=auto", "data.threads=2", "data.ahead=5"}, .cuts = true};
    two.own[0][0] = two.own[1][0] = three.own[0][0] = three.own[1][0] = three.own[2][0] =
        "train.workers=1";
    (void)state;
    run_group(&one, LKS_OK);
    run_group(&two, LKS_OK);
    run_group(&three, LKS_OK);
    run_group(&alone, LKS_OK);
    assert_same(&one, &two);
    assert_same(&one, &three);
    assert_same(&one, &alone);
    for (int r = 0; r < 2; r++) {
        const char *at = two.record[r];
        for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
            at = strstr(at, lines[i]);
            if (at == NULL) fail_msg("rank %d: no %s in %s", r, lines[i], two.record[r]);
        }
    }
    for (int r = 0; r < 2; r++) free(two.record[r]);
    for (int r = 0; r < 3; r++) free(three.record[r]);
    free(alone.record[0]);
}

static void refused(group *g, lks_status status, const char *const words[], int count)
{
    run_group(g, status);
    for (int r = 0; r < g->ranks; r++)
        for (int i = 0; i < count; i++)
            if (strstr(g->sentence[r], words[i]) == NULL)
                fail_msg("rank %d: \"%s\" lacks \"%s\"", r, g->sentence[r], words[i]);
}

/* Processes that step alone have one model after steps 4, 6 (an epoch), 8 and 12. */
static const char ALONE[] = "train.average_every=4", LINKS[] = "train.hash_every=12";

static void processes_that_step_alone(void **state)
{
    group one = {.ranks = 1, .all = {LINKS}}, same = {.ranks = 1, .all = {LINKS, ALONE}};
    group two = {.ranks = 2, .all = {LINKS, ALONE}}, other = two;
    (void)state;
    two.own[0][0] = two.own[1][0] = "train.workers=1";
    other.own[0][0] = other.own[1][0] = "train.workers=3";
    run_group(&one, LKS_OK);
    run_group(&same, LKS_OK);
    run_group(&two, LKS_OK);
    run_group(&other, LKS_OK);
    assert_same(&one, &same);
    assert_same(&two, &other);
    assert_int_not_equal(one.hash[0], two.hash[0]);
    for (int e = 0; e < EPOCHS; e++)
        for (int i = 0; i < 3; i++)
            assert_int_equal(one.seen[0][e][i].samples, two.seen[0][e][i].samples);
}

static bool is_there(const char *name)
{
    FILE *file = fopen(in_folder(name), "r");
    const bool there = file != NULL;
    if (there) fclose(file);
    return there;
}

/* They stop and save where they have one model, so that what goes on is the run that was not stopped: with the
 * same processes alone. */
static void what_steps_alone_stops_together(void **state)
{
    char path[4200];
    const char *const all[] = {LINKS, ALONE, "train.ema=0.9"};
    group whole = {.ranks = 2}, two = {.ranks = 2, .stop_rank = 1, .stop_step = 1}, again = two;
    group three = {.ranks = 3}, one = {.ranks = 1}, goes_on = {.ranks = 2};
    group *const groups[] = {&whole, &two, &again, &three, &one, &goes_on};
    (void)state;
    snprintf(path, sizeof path, "checkpoint.path=%s", in_folder("run"));
    for (int g = 0; g < 6; g++)
        for (int i = 0; i < 3; i++) groups[g]->all[i] = all[i];
    run_group(&whole, LKS_OK);
    for (int g = 1; g < 6; g++) groups[g]->own[0][0] = groups[g]->own[1][0] = path;
    three.own[2][0] = path;
    for (int g = 2; g < 6; g++)
        for (int r = 0; r < groups[g]->ranks; r++) groups[g]->own[r][1] = "checkpoint.resume=true";
    run_group(&two, LKS_E_STOPPED);
    for (int r = 0; r < 2; r++) assert_int_equal(two.step[r], 4); /* all heard of it in step 2 */
    assert_true(is_there("run/step-00000004.json"));
    refused(&three, LKS_E_MISMATCH,
            (const char *[]){"has bits of average_every 4, replicas 3 + 3, this run has "
                             "average_every 4, replicas 2 + 2 + 2: start the same processes"},
            1);
    refused(&one, LKS_E_MISMATCH, (const char *[]){"replicas 3 + 3, this run has", "replicas 6:"},
            2);
    again.stop_step = 7; /* behind the epoch: its evaluation was not lost */
    run_group(&again, LKS_E_STOPPED);
    for (int r = 0; r < 2; r++) assert_int_equal(again.step[r], 8);
    for (int r = 0; r < 2; r++) goes_on.own[r][2] = "train.workers=2";
    run_group(&goes_on, LKS_OK);
    assert_same(&whole, &goes_on);
    three.own[0][2] = three.own[1][2] = three.own[2][2] = "checkpoint.accept_changes=true";
    three.all[3] = "train.epochs=3";
    run_group(&three, LKS_OK);
}

/* What would be saved between is saved behind, once; a run does not end between where it could go on. */
static void what_steps_alone_saves_together(void **state)
{
    static const char *const there[] = {"04", "06", "12"}, *const missing[] = {"03", "08", "09"};
    char path[4200], name[64];
    group two = {.ranks = 2, .all = {LINKS, ALONE, path, "checkpoint.keep=100"}}, ends = two;
    group nowhere = {.ranks = 2, .all = {LINKS, ALONE, "train.steps=5"}};
    (void)state;
    snprintf(path, sizeof path, "checkpoint.path=%s", in_folder("run"));
    for (int r = 0; r < 2; r++) {
        two.own[r][0] = "checkpoint.every_steps=3";
        two.own[r][1] = "checkpoint.every_epochs=0";
        ends.own[r][0] = "train.steps=5";
    }
    refused(&ends, LKS_E_INVALID,
            (const char *[]){"ends after step 5", "after steps 4 and 6, which it can go on from"},
            2);
    run_group(&nowhere, LKS_OK);
    for (int r = 0; r < 2; r++) assert_int_equal(nowhere.step[r], 5);
    assert_int_equal(nowhere.hash[0], nowhere.hash[1]);
    run_group(&two, LKS_OK);
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "run/step-000000%s.json", there[i]);
        assert_true(is_there(name));
        snprintf(name, sizeof name, "run/step-000000%s.json", missing[i]);
        assert_false(is_there(name));
    }
}

/* Early stopping, the best weights and a plateau are of all. */
static void what_steps_alone_is_judged_together(void **state)
{
    group two = {.ranks = 2,
                 .all = {ALONE, "validation.patience=1", "optimizer.lr=0.3",
                         "schedule.name=reduce_on_plateau"}};
    group other = two;
    (void)state;
    two.own[0][0] = two.own[1][0] = "train.workers=1";
    other.own[0][0] = other.own[1][0] = "train.workers=2";
    run_group(&two, LKS_OK);
    run_group(&other, LKS_OK);
    assert_same(&two, &other);
    assert_int_equal(two.step[0], 12);
}

static void keys_that_differ_are_named(void **state)
{
    group g = {.ranks = 3};
    (void)state;
    g.own[2][0] = "optimizer.lr=0.25";
    refused(&g, LKS_E_MISMATCH, (const char *[]){"rank 2", "optimizer.lr", "0.25", "0.002"}, 4);
}

/* A data set of 400 samples in the test's folder; returns "data.path=<its folder>". */
static const char *write_data(char text[9000], const char *name, uint64_t seed)
{
    char images[8900], labels[8900];
    lks_context *context;
    lks_dataset *digits;
    LKT_OK(lks_context_create(&context, NULL));
    LKT_OK(lks_folder_make(in_folder(name)));
    snprintf(images, sizeof images, "%s/train-images-idx3-ubyte", in_folder(name));
    snprintf(labels, sizeof labels, "%s/train-labels-idx1-ubyte", in_folder(name));
    LKT_OK(lks_dataset_open_digits(&digits, context,
                                   &(lks_digits_opts){.samples = 400, .seed = seed}));
    LKT_OK(lks_dataset_write_idx(digits, images, labels));
    lks_dataset_destroy(digits);
    lks_context_destroy(context);
    snprintf(text, 9000, "data.path=%s", in_folder(name));
    return text;
}

static void data_that_differs_is_named(void **state)
{
    char here[9000], there[9000];
    group g = {.ranks = 2, .all = {"data.name=mine", "data.test_samples=null"}};
    (void)state;
    g.own[0][0] = write_data(here, "a", 1);
    g.own[1][0] = write_data(there, "b", 2);
    refused(&g, LKS_E_MISMATCH, (const char *[]){"rank 1", "training data", "hash"}, 3);
}

static void what_one_rank_fails_at_all_say(void **state)
{
    char here[9000];
    group g = {.ranks = 3, .all = {"data.name=mine", "data.test_samples=null"}};
    (void)state;
    g.own[0][0] = g.own[2][0] = write_data(here, "a", 1);
    g.own[1][0] = "data.path=/nowhere";
    refused(&g, LKS_E_IO, (const char *[]){"/nowhere"}, 1);
}

static void a_record_that_rank_0_cannot_write(void **state)
{
    group g = {.ranks = 2, .all = {"log.record=/nowhere/r.json"}};
    (void)state;
    refused(&g, LKS_E_IO, (const char *[]){"/nowhere"}, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_ranks_end_with_the_hash_of_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(best_weights_come_back_on_every_rank, set_up, tear_down),
        cmocka_unit_test_setup_teardown(stopped_by_one_rank_and_resumed_with_others, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(how_gradients_travel, set_up, tear_down),
        cmocka_unit_test_setup_teardown(processes_that_step_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_steps_alone_stops_together, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_steps_alone_saves_together, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_steps_alone_is_judged_together, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ranges_that_follow_speed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keys_that_differ_are_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(data_that_differs_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_one_rank_fails_at_all_say, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_record_that_rank_0_cannot_write, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

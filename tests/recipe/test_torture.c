/* What one rank starts fails, or it is gone, in a training with checkpoints, for every number: all others end with
 * a sentence, what stands in the folder is whole, and goes on to the hash of one process. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <lockstep/recipe.h>

#include "support/ranks/fake.h"
#include "support/test.h"

static const char NETWORK[] =
    "data: {name: digits, samples: 64, test_samples: 10}\n"
    "model: {layers: [flatten, {dense: 6}, batch_norm, relu, {dense: 10}]}\n"
    "train: {epochs: 1, batch_size: 16, hash_every: 2, replicas: 3, device: ref, workers: 1}\n"
    "optimizer: {name: adam, lr: 0.01}\n"
    "checkpoint: {every_steps: 2}\n"
    "log: {quiet: true}\n";

enum { RANKS = 3 };

typedef struct ending {
    lks_status status[RANKS];
    char sentence[RANKS][600];
    uint64_t hash;
    const char *folder, *key; /* NULL: the run that any processes go on with */
    bool resume;
} ending;

static lks_status train(ending *e, lks_comm *comm, int rank)
{
    lks_recipe *recipe;
    const lks_run *run = NULL;
    char path[4300];
    snprintf(path, sizeof path, "checkpoint.path=%s", e->folder != NULL ? e->folder : "");
    lks_status status = lks_recipe_open_text(&recipe, "net.yaml", NETWORK);
    if (status == LKS_OK && e->folder == NULL)
        status = lks_recipe_set(recipe, "train.hash_every=50"); /* further than it runs */
    if (status == LKS_OK && e->folder != NULL) status = lks_recipe_set(recipe, path);
    if (status == LKS_OK && e->key != NULL) status = lks_recipe_set(recipe, e->key);
    if (status == LKS_OK && e->resume) status = lks_recipe_set(recipe, "checkpoint.resume=true");
    lks_recipe_comm(recipe, comm);
    if (status == LKS_OK) status = lks_recipe_train(recipe, NULL, &run);
    e->status[rank] = status;
    snprintf(e->sentence[rank], sizeof e->sentence[rank], "%s",
             status != LKS_OK ? lks_last_error()->message : "");
    if (status == LKS_OK && rank == 0) e->hash = run->hash;
    lks_recipe_close(recipe);
    return status;
}

static int body(lks_comm *comm, int rank, void *user)
{
    ending *e = user;
    e->status[rank] = lks_last_error()->status;
    snprintf(e->sentence[rank], sizeof e->sentence[rank], "%s", lks_last_error()->message);
    if (comm != NULL) (void)train(e, comm, rank);
    return 0;
}

/* Of each record its tensors, and nothing unfinished. */
static void look_into(const char *folder, int n)
{
    char tensors[4400];
    const struct dirent *entry;
    DIR *open = opendir(folder);
    while (open != NULL && (entry = readdir(open)) != NULL) {
        const char *dot = strrchr(entry->d_name, '.');
        if (strstr(entry->d_name, ".tmp") != NULL)
            fail_msg("number %d leaves '%s'", n, entry->d_name);
        if (strncmp(entry->d_name, "step-", 5) != 0 || strcmp(dot, ".json") != 0) continue;
        snprintf(tensors, sizeof tensors, "%s/%.*s.safetensors", folder, (int)(dot - entry->d_name),
                 entry->d_name);
        if (access(tensors, F_OK) != 0) fail_msg("number %d: '%s' is alone", n, entry->d_name);
    }
    if (open != NULL) closedir(open);
}

/* By one process, or where a key makes bits depend on them by as many as before. */
static void finish(ending *e)
{
    if (e->key == NULL || strncmp(e->key, "train.shard_optimizer", 21) == 0)
        (void)train(e, NULL, 0);
    else
        lkt_ranks(&(lkt_hub_opts){.size = RANKS}, NULL, body, e);
}

/* Whether number n was reached. */
static bool endures(const lkt_hub_opts *hub, int rank, int n, const char *key, uint64_t hash)
{
    ending e = {.folder = lkt_make_folder(), .key = key},
           alone = {.folder = e.folder, .key = key, .resume = true};
    char culprit[32];
    int well = 0;
    lkt_ranks(hub, NULL, body, &e);
    snprintf(culprit, sizeof culprit, "rank %d (host ", rank);
    for (int r = 0; r < RANKS; r++) {
        well += e.status[r] == LKS_OK;
        if (e.status[r] == LKS_OK) continue;
        if (e.status[r] != LKS_E_COMM || (strstr(e.sentence[r], culprit) == NULL && n > 1))
            fail_msg("number %d: rank %d says '%s'", n, r, e.sentence[r]);
    }
    if (well != 0 && well != RANKS) fail_msg("number %d: %d ranks end well", n, well);
    look_into(e.folder, n);
    finish(&alone);
    if (alone.status[0] != LKS_OK || alone.hash != hash)
        fail_msg("number %d: does not go on: '%s'", n, alone.sentence[0]);
    lkt_remove_folder();
    return well == 0;
}

static uint64_t undisturbed(const char *key)
{
    ending e = {.folder = lkt_make_folder(), .key = key};
    finish(&e);
    if (e.status[0] != LKS_OK) fail_msg("%s", e.sentence[0]);
    lkt_remove_folder();
    return e.hash;
}

static void any_start_may_fail(void **state)
{
    const uint64_t hash = undisturbed(NULL);
    const int step = lkt_in_part() ? 7 : 1;
    (void)state;
    for (int rank = 0; rank < 2; rank++) {
        int n = 1, missed = 0; /* with memory in common, every second time, there are fewer */
        for (; missed < 2; n += step) {
            const lkt_hub_opts hub = {.size = RANKS,
                                      .seed = (uint64_t)n,
                                      .delay = n % 3,
                                      .fail_rank = rank,
                                      .fail_at = n,
                                      .share = n % 2 == 0};
            missed = endures(&hub, rank, n, NULL, hash) ? 0 : missed + 1;
        }
        assert_true(n > 60);
    }
}

static void any_rank_may_be_gone(void **state)
{
    const uint64_t hash = undisturbed(NULL);
    (void)state;
    bool reached = true;
    for (int n = 1; reached; n += lkt_in_part() ? 9 : 2) {
        const lkt_hub_opts hub = {
            .size = RANKS, .seed = (uint64_t)n, .die_rank = 2, .die_at = n, .share = n % 4 == 1};
        reached = endures(&hub, 2, n, NULL, hash);
    }
}

/* Where processes step alone, leave sums to what joins them, or update a part each, too. */
static void any_start_of_other_algorithms_may_fail(void **state)
{
    static const char *const keys[] = {"train.average_every=3", "train.reduction=library",
                                       "train.shard_optimizer=true"};
    (void)state;
    for (int k = 0; k < 3; k++) {
        const uint64_t hash = undisturbed(keys[k]);
        bool reached = true;
        for (int n = 1 + k; reached; n += lkt_in_part() ? 13 : 3 + 2 * k) {
            const lkt_hub_opts hub = {
                .size = RANKS, .seed = (uint64_t)n, .delay = n % 3, .fail_rank = 1, .fail_at = n};
            reached = endures(&hub, 1, n, keys[k], hash);
        }
    }
}

/* No link, no checkpoint: then it is found at the end. */
static void a_message_that_changed_is_found_at_the_end(void **state)
{
    (void)state;
    for (int n = 0, messages = 100; n <= messages; n += messages / 3) {
        ending e = {.folder = NULL};
        lkt_flip flip = {.rank = 1, .at = n, .byte = 2};
        lkt_ranks(&(lkt_hub_opts){.size = RANKS, .flip = &flip}, NULL, body, &e);
        messages = flip.seen;
        for (int r = 0; r < RANKS; r++)
            if (e.status[r] != (n > 0 ? LKS_E_COMM : LKS_OK))
                fail_msg("message %d: rank %d says '%s'", n, r, e.sentence[r]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_start_may_fail),
        cmocka_unit_test(any_rank_may_be_gone),
        cmocka_unit_test(a_message_that_changed_is_found_at_the_end),
        cmocka_unit_test(any_start_of_other_algorithms_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

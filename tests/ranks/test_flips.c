/* A bit that flips on one rank, in memory or in a message, is found before anything is saved. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lockstep/checkpoint.h>

#include "base/check.h"
#include "support/ranks/carried.h"

/* A short run that ends with a checkpoint. */
typedef struct short_run {
    lkt_flip flip;
    const char *folder;
    lks_shard shard;
    bool carries; /* a network whose layers do */
    int64_t step; /* behind which rank 0 heard of it */
    char sentence[LKT_MOST_RANKS][sizeof((lks_error *)NULL)->message];
} short_run;

static lks_status save(const lkt_small *m, const char *folder)
{
    const lks_model_info info = lks_model_get_info(m->model);
    const lks_run run = {.progress = lks_model_progress(m->model),
                         .seed = 3,
                         .global_batch = info.global_batch,
                         .replicas = info.replicas,
                         .hash_every = info.hash_every,
                         .best_step = -1};
    return lks_checkpoint_save(m->model, &run, folder, 1);
}

static lks_status train(lks_comm *comm, lkt_small *m, const short_run *r)
{
    const lks_model_opts opts = {.optim = lks_adam(), .bucket_bytes = 64, .shard = r->shard};
    if (r->carries) {
        LKI_TRY(lkt_carried_build(m, comm, opts));
        LKI_TRY(lkt_carried_train(m, 0, 3, NULL));
        return save(m, r->folder);
    }
    LKI_TRY(lkt_small_build(m, comm, opts));
    for (int i = 0; i < 3; i++) LKI_TRY(lks_model_step(m->model, lkt_small_batch(), .1, NULL));
    return save(m, r->folder);
}

static int body(lks_comm *comm, int rank, void *user)
{
    short_run *r = user;
    lkt_small m = {.model = NULL};
    const lks_status status = comm != NULL ? train(comm, &m, r) : LKS_E_COMM;
    strcpy(r->sentence[rank], status == LKS_OK ? "" : lks_last_error()->message);
    if (rank == 0) r->step = lks_model_progress(m.model).step;
    lkt_small_end(&m);
    return status == LKS_OK ? 0 : 2;
}

static bool is_saved(const char *folder)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/step-00000003.json", folder);
    return access(path, F_OK) == 0;
}

/* A node's sums name the two ranks; a total makes that differ to which it went. */
static bool is_named(const char *sentence, int to)
{
    char pair[64], odd[64];
    snprintf(pair, sizeof pair, " to rank %d (host ", to);
    snprintf(odd, sizeof odd, " the parameters of rank %d (host ", to);
    if (strstr(sentence, odd) != NULL) return strstr(sentence, "not those of the other 2") != NULL;
    return strstr(sentence, "a message from rank 1 (host ") != NULL &&
           strstr(sentence, pair) != NULL &&
           strstr(sentence, "did not come as it was sent: the network") != NULL;
}

/* Message number n of a rank, for every n, in a bit that is not rounded away: nobody saves, and all say which rank or which two. */
static void change_any(lks_shard shard, bool carries, int *others)
{
    int pairs = 0, early = 0;
    *others = 0;
    for (int n = 0, messages = 0; n <= messages; n += n > 0 && lkt_in_part() ? 5 : 1) {
        short_run r = {.flip = {.rank = 1, .at = n, .byte = 2},
                       .folder = lkt_make_folder(),
                       .shard = shard,
                       .carries = carries};
        int results[LKT_MOST_RANKS];
        const lkt_hub_opts hub = {.size = SMALL_RANKS, .seed = 3, .delay = n % 3, .flip = &r.flip};
        lkt_ranks_run(&hub, NULL, body, &r, results);
        if (n == 0) messages = r.flip.seen;
        for (int k = 0; k < SMALL_RANKS; k++) {
            assert_int_equal(results[k], n > 0 ? 2 : 0);
            if (n > 0 && !is_named(r.sentence[k], r.flip.to))
                fail_msg("message %d: rank %d says '%s'", n, k, r.sentence[k]);
        }
        const bool pair = strstr(r.sentence[0], "a message") != NULL;
        *(pair ? &pairs : others) += 1;
        early += pair && r.step == 2; /* a link */
        assert_int_equal(is_saved(r.folder), n == 0);
        lkt_remove_folder();
    }
    print_message("%d times two ranks were named\n", pairs);
    assert_true(pairs > early && early > 0);
}

/* New parameters that are given back, and what the optimizer keeps that goes to who saves it, are looked at by nobody
 * else: they have checksums. */
static void any_message_may_change(void **state)
{
    int others;
    (void)state, (void)lkt_small_batch();
    change_any(LKS_SHARD_OFF, false, &others);
    assert_true(others > (lkt_in_part() ? 0 : 3));
    change_any(LKS_SHARD_ON, false, &others);
    assert_int_equal(others, 1); /* none but the undisturbed */
}

/* So has what ranks carry of their samples. */
static void any_message_of_what_is_carried_may_change(void **state)
{
    int others;
    (void)state, (void)lkt_carried_batch(0);
    change_any(LKS_SHARD_OFF, true, &others);
}

/* A bit in memory, behind a link: it is not saved. */
static int saves(lkt_small *m, int rank, void *user)
{
    const char *const *names = user;
    float values[SMALL_WIDTH * 8];
    char what[64];
    const int at = lks_model_state_find(m->model, names[0]);
    for (int i = 0; i < 2; i++)
        LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), .1, NULL) == LKS_OK);
    LKT_CHECK(lks_model_check_ranks(m->model) == LKS_OK);
    LKT_CHECK(lks_model_state_read(m->model, at, values, sizeof values) == LKS_OK);
    ((unsigned char *)values)[9] ^= rank == 2 ? 4 : 0;
    LKT_CHECK(lks_model_state_write(m->model, at, values, sizeof values) == LKS_OK);
    LKT_CHECK(save(m, names[2]) == LKS_E_COMM);
    snprintf(what, sizeof what, "after step 2 the %s of rank 2 (host ", names[1]);
    LKT_SAYS(what);
    LKT_SAYS("not those of the other 2 ranks");
    return 0;
}

static void memory_that_changes_is_not_saved(void **state)
{
    const char *names[][3] = {{"fc1.weight", "parameters", NULL},
                              {"optimizer.exp_avg_sq.fc1.weight", "optimizer's state", NULL}};
    (void)state;
    for (int i = 0; i < 2; i++) {
        names[i][2] = lkt_make_folder();
        const lkt_story story = {
            .opts = {.optim = lks_adam(), .shard = LKS_SHARD_OFF}, .body = saves, .user = names[i]};
        lkt_small_tell(SMALL_RANKS, &story);
        lkt_remove_folder();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_message_may_change),
                                       cmocka_unit_test(any_message_of_what_is_carried_may_change),
                                       cmocka_unit_test(memory_that_changes_is_not_saved)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

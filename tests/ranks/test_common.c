/* Ranks that have parameters in common: what is there once, and what each may do alone. */
#include <stdlib.h>

#include <lockstep/checkpoint.h>

#include "comm/flight.h"
#include "support/ranks/small.h"

enum { WEIGHTS = SMALL_WIDTH * 8 };

/* Where there is memory in common, and where it is not used. */
typedef struct place {
    lks_shard shard;
    lks_exchange exchange;
    bool shared, expected;
} place;

static int has_common(lks_comm *comm, int rank, void *user)
{
    const place *p = user;
    lkt_small m = {.model = NULL}, off = {.model = NULL};
    const lks_model_opts opts = {
        .optim = lks_adam(), .ema_decay = .9, .shard = p->shard, .exchange = p->exchange};
    lks_model_opts whole = opts;
    (void)rank;
    whole.shard = LKS_SHARD_OFF;
    LKT_CHECK(lkt_small_build(&m, comm, opts) == LKS_OK);
    LKT_CHECK(lkt_small_build(&off, comm, whole) == LKS_OK);
    LKT_CHECK((m.model->common != NULL) == p->expected);
    LKT_CHECK(off.model->common == NULL);
    const size_t bytes = lks_model_get_info(m.model).memory_bytes;
    const size_t most = lks_model_get_info(off.model).memory_bytes;
    LKT_CHECK(p->expected ? bytes < most : bytes == most);
    void *values = m.model->weight[0].value, *state = m.model->weight[0].state[1];
    void *all[2][SMALL_RANKS];
    LKT_CHECK(lks_comm_all_gather(comm, &values, sizeof values, all[0]) == LKS_OK);
    LKT_CHECK(lks_comm_all_gather(comm, &state, sizeof state, all[1]) == LKS_OK);
    for (int r = 1; r < SMALL_RANKS && !lkt_ranks_are_processes(); r++)
        for (int i = 0; i < 2; i++) LKT_CHECK((all[i][r] == all[i][0]) == p->expected);
    lkt_small_end(&off);
    lkt_small_end(&m);
    return 0;
}

static void parameters_are_there_once(void **state)
{
    static const place places[] = {{LKS_SHARD_AUTO, LKS_EXCHANGE_OVERLAPPED, true, true},
                                   {LKS_SHARD_ON, LKS_EXCHANGE_AFTER, true, true},
                                   {LKS_SHARD_AUTO, LKS_EXCHANGE_OVERLAPPED, false, false},
                                   {LKS_SHARD_AUTO, LKS_EXCHANGE_NONE, true, false}};
    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        lkt_ranks(&(lkt_hub_opts){.size = SMALL_RANKS, .share = places[i].shared}, NULL, has_common,
                  (void *)(uintptr_t)&places[i]);
}

/* What a story of writes, steps and predictions comes to; the same as for one process. */
typedef struct found {
    float of[6][SMALL_SAMPLES][SMALL_CLASSES];
    float weight[WEIGHTS];
    uint64_t hash[3];
    bool known;
} found;

static int predict(const lkt_small *m, bool averages, float out[SMALL_SAMPLES][SMALL_CLASSES])
{
    LKT_CHECK(lks_model_use_averages(m->model, averages) == LKS_OK);
    LKT_CHECK(lks_model_predict(m->model, lkt_small_batch()->x, SMALL_SAMPLES, out[0]) == LKS_OK);
    return 0;
}

static int writes_and_predicts(lkt_small *m, int rank, void *user)
{
    found *expected = user, *own = calloc(1, sizeof *own);
    const int at = lks_model_state_find(m->model, "fc1.weight");
    float values[WEIGHTS];
    LKT_CHECK(own != NULL);
    LKT_CHECK(predict(m, false, own->of[0]) == 0); /* before anything was packed */
    for (int i = 0; i < WEIGHTS; i++) values[i] = .01f * (float)(i % 7);
    if (rank != 0) values[3] = 9; /* who reads it on rank 0 decides */
    LKT_CHECK(lks_model_state_write(m->model, at, values, sizeof values) == LKS_OK);
    LKT_CHECK(predict(m, false, own->of[1]) == 0); /* by a rank alone */
    LKT_CHECK(lks_model_hash(m->model, &own->hash[0]) == LKS_OK);
    for (int i = 0; i < 3; i++) {
        LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), .1, NULL) == LKS_OK);
        for (int again = 0; again < (i == 1 ? rank + 1 : 0);
             again++) { /* not on all equally often */
            LKT_CHECK(predict(m, true, own->of[2]) == 0);
            LKT_CHECK(predict(m, false, own->of[3]) == 0);
        }
    }
    LKT_CHECK(lks_model_hash(m->model, &own->hash[1]) == LKS_OK);
    LKT_CHECK(predict(m, true, own->of[4]) == 0);
    LKT_CHECK(lks_model_state_read(m->model, at, own->weight, sizeof own->weight) == LKS_OK);
    LKT_CHECK(lks_model_state_write(m->model, at, values, sizeof values) == LKS_OK);
    LKT_CHECK(predict(m, false, own->of[5]) == 0);
    LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), .1, NULL) == LKS_OK);
    LKT_CHECK(lks_model_hash(m->model, &own->hash[2]) == LKS_OK);
    own->known = true;
    if (!expected->known) *expected = *own;
    const bool same = memcmp(expected, own, sizeof *own) == 0;
    free(own);
    LKT_CHECK(same);
    return 0;
}

static void what_is_written_is_rank_0s(void **state)
{
    static found expected;
    lkt_story s = {.opts = {.optim = lks_adam(), .ema_decay = .9},
                   .body = writes_and_predicts,
                   .user = &expected};
    (void)state;
    lkt_small_tell(1, &s);
    lkt_small_tell(SMALL_RANKS, &s);
    s.opts.workers = 2;
    lkt_small_tell(SMALL_RANKS, &s);
}

/* One rank cannot write: nobody does, and all have its sentence. */
static int one_writes_amiss(lkt_small *m, int rank, void *user)
{
    const int at = lks_model_state_find(m->model, "fc1.weight");
    float values[WEIGHTS] = {1}, after[WEIGHTS];
    (void)user;
    LKT_CHECK(lks_model_state_write(m->model, rank == 1 ? -1 : at, values, sizeof values) ==
              LKS_E_INVALID);
    LKT_SAYS("has no state entry -1");
    LKT_CHECK(lks_model_state_read(m->model, at, after, sizeof after) == LKS_OK);
    LKT_CHECK(memcmp(values, after, sizeof values) != 0);
    return 0;
}

static void all_write_or_none(void **state)
{
    (void)state;
    lkt_small_tell(SMALL_RANKS, &(lkt_story){.body = one_writes_amiss});
}

/* A rank fails outside of a step, while the others wait for it in one. */
static int one_breaks(lkt_small *m, int rank, void *user)
{
    const int *steps = user;
    for (int i = 0; i < *steps; i++)
        LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), .1, NULL) == LKS_OK);
    lks_comm *comm = lks_model_comm(m->model);
    if (rank == 2)
        LKT_CHECK(lki_comm_break(comm, lks_fail(LKS_E_IO, "the disk of rank 2 is gone")) ==
                  LKS_E_IO);
    for (int i = 0; i < 2; i++) {
        LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), .1, NULL) == LKS_E_IO);
        LKT_SAYS("the disk of rank 2 is gone");
    }
    return 0;
}

static void a_rank_that_leaves_is_heard(void **state)
{
    (void)state;
    for (int steps = 0; steps < 3; steps++)
        lkt_small_tell(SMALL_RANKS, &(lkt_story){.body = one_breaks, .user = &steps});
}

static int one_does_not_come(lks_comm *comm, int rank, void *user)
{
    lkt_small m = {.model = NULL};
    (void)user;
    LKT_CHECK(lkt_small_build(&m, comm, (lks_model_opts){.workers = 1}) == LKS_OK);
    LKT_CHECK(lks_model_step(m.model, lkt_small_batch(), .1, NULL) == LKS_OK);
    if (rank != 1) {
        LKT_CHECK(lks_model_step(m.model, lkt_small_batch(), .1, NULL) == LKS_E_TIMEOUT);
        LKT_SAYS("words of a step of step 2: rank 1 (host ");
        LKT_SAYS("has not come within 0.2 s");
    } else {
        struct timespec second = {.tv_sec = 1};
        nanosleep(&second, NULL);
        LKT_CHECK(lks_model_step(m.model, lkt_small_batch(), .1, NULL) == LKS_E_TIMEOUT);
    }
    lkt_small_end(&m);
    return 0;
}

static void who_does_not_come_is_named(void **state)
{
    (void)state;
    lkt_ranks(&(lkt_hub_opts){.size = SMALL_RANKS, .share = true},
              &(lks_comm_opts){.timeout_s = .2}, one_does_not_come, NULL);
}

/* In the order of the list: the words of all meetings are compared, too. */
static int verified(lks_comm *comm, int rank, void *user)
{
    lkt_small m = {.model = NULL};
    (void)rank, (void)user;
    LKT_CHECK(lkt_small_build(&m, comm, (lks_model_opts){.workers = 2}) == LKS_OK);
    LKT_CHECK(m.model->common != NULL);
    LKT_CHECK(lks_model_step(m.model, lkt_small_batch(), .1, NULL) == LKS_OK);
    if (rank == 1)
        LKT_CHECK(lks_comm_barrier(comm) == LKS_E_STATE);
    else
        LKT_CHECK(lks_model_step(m.model, lkt_small_batch(), .1, NULL) == LKS_E_STATE);
    LKT_SAYS("words of a step");
    lkt_small_end(&m);
    return 0;
}

static void meetings_are_verified(void **state)
{
    (void)state;
    lkt_ranks(&(lkt_hub_opts){.size = SMALL_RANKS, .share = true}, &(lks_comm_opts){.verify = true},
              verified, NULL);
}

/* A checkpoint of three steps in a folder, which is saved again after it has been loaded. */
static int steps_and_saves(lkt_small *m, int rank, void *user)
{
    const char *const *folders = user;
    lks_run run = {
        .seed = 3, .global_batch = SMALL_SAMPLES, .replicas = 6, .hash_every = 2, .best_step = -1};
    (void)rank;
    for (int i = 0; i < 3; i++)
        LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), .1, NULL) == LKS_OK);
    run.progress = lks_model_progress(m->model);
    LKT_CHECK(lks_checkpoint_save(m->model, &run, folders[0], 1) == LKS_OK);
    LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), .1, NULL) == LKS_OK);
    LKT_CHECK(lks_checkpoint_load(m->context, m->model, &run, folders[0], 3) == LKS_OK);
    LKT_CHECK(lks_checkpoint_save(m->model, &run, folders[1], 1) == LKS_OK);
    lks_run_clear(&run);
    return 0;
}

static size_t read_tensors(const char *folder, char *out, size_t size)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/step-00000003.safetensors", folder);
    FILE *file = fopen(path, "rb");
    if (file == NULL) fail_msg("%s cannot be read", path);
    const size_t count = fread(out, 1, size, file);
    fclose(file);
    return count;
}

/* Whatever ranks have in common, and how many they are: before and behind loading the files are the same. */
static void a_checkpoint_has_the_same_bytes(void **state)
{
    enum { MOST = 1 << 16 };
    static char expected[MOST], now[MOST];
    static const struct {
        int ranks;
        lks_shard shard;
    } ways[] = {{1, LKS_SHARD_AUTO}, {SMALL_RANKS, LKS_SHARD_AUTO}, {SMALL_RANKS, LKS_SHARD_OFF}};
    size_t bytes = 0;
    (void)state;
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
        char first[4096], second[4200];
        snprintf(first, sizeof first, "%s", lkt_make_folder());
        snprintf(second, sizeof second, "%s/again", first);
        const char *folders[] = {first, second};
        lkt_small_tell(
            ways[w].ranks,
            &(lkt_story){.opts = {.optim = lks_adam(), .ema_decay = .9, .shard = ways[w].shard},
                         .body = steps_and_saves,
                         .user = folders});
        if (w == 0) bytes = read_tensors(first, expected, MOST);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(read_tensors(folders[i], now, MOST), bytes);
            assert_memory_equal(now, expected, bytes);
        }
        lkt_remove_folder();
    }
    assert_true(bytes > WEIGHTS * sizeof(float) && bytes < MOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_there_once),
        cmocka_unit_test(what_is_written_is_rank_0s),
        cmocka_unit_test(all_write_or_none),
        cmocka_unit_test(a_rank_that_leaves_is_heard),
        cmocka_unit_test(who_does_not_come_is_named),
        cmocka_unit_test(meetings_are_verified),
        cmocka_unit_test(a_checkpoint_has_the_same_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Ranks whose replicas meet in the middle of a pass (batch norm over the whole batch), and something is wrong on
 * one of them, before a meeting, between two or behind the last: all are told the same, nobody waits for ever.
 */
#include <math.h>
#include <time.h>

#include "base/check.h"
#include "support/ranks/small.h"

/* Three meetings in forward and in backward. */
static lks_status build_norms(lkt_small *m, lks_comm *comm, bool sync, lks_model_opts opts)
{
    const lks_batch_norm_opts synced = {.sync = sync};
    lks_status status = lks_context_create(&m->context, &(lks_context_opts){.seed = 3});
    if (status == LKS_OK) status = lks_graph_create(&m->graph, m->context);
    if (status != LKS_OK) return status;
    lks_graph *g = m->graph;
    lks_tensor *x = lks_input(g, &(lks_input_opts){.shape = {1, {SMALL_WIDTH}}});
    lks_tensor *y = lks_target(g, &(lks_target_opts){.classes = SMALL_CLASSES});
    x = lks_batch_norm(g, x, &synced);
    for (int i = 0; i < 2; i++) {
        x = lks_batch_norm(g, lks_dense(g, x, &(lks_dense_opts){.units = 5}), &synced);
        x = i == 0 ? lks_tanh(g, x) : lks_gelu(g, x, NULL); /* one kernel with the norm, or two */
    }
    x = lks_dense(g, x, &(lks_dense_opts){.units = SMALL_CLASSES});
    m->loss = lks_cross_entropy(g, x, y, NULL);
    return lkt_small_compile(m, comm, opts);
}

static lks_status build(lkt_small *m, lks_comm *comm, lks_model_opts opts)
{
    return build_norms(m, comm, true, opts);
}

/* Also with a check of what all are about to do. */
static void run(const lkt_story *story)
{
    (void)lkt_small_batch();
    for (int verify = 0; verify < 2; verify++)
        lkt_ranks(&(lkt_hub_opts){.size = SMALL_RANKS, .seed = 5, .delay = 2, .share = verify},
                  &(lks_comm_opts){.verify = verify}, lkt_small_rank, (void *)(uintptr_t)story);
}

static int goes_on(lkt_small *m)
{
    for (int i = 0; i < 2; i++)
        LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), .1, NULL) == LKS_OK);
    return 0;
}

static int bad_label(lkt_small *m, int rank, void *user)
{
    int32_t labels[SMALL_SAMPLES];
    lks_batch batch;
    (void)user;
    LKT_CHECK(lkt_small_bad_label(m, rank, &batch, labels) == 0);
    LKT_CHECK(lks_model_gradient(m->model, &batch, NULL) == LKS_E_INVALID);
    LKT_SAYS("the label of sample 1013 is 3");
    return goes_on(m);
}

static int no_batch(lkt_small *m, int rank, void *user)
{
    (void)user;
    LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), .1, NULL) == LKS_OK);
    const lks_status status = rank == 2 ? lks_model_fail(m->model, LKS_E_IO)
                                        : lks_model_step(m->model, lkt_small_batch(), .1, NULL);
    LKT_CHECK(status == LKS_E_IO);
    LKT_CHECK(lks_model_progress(m->model).step == 1);
    return goes_on(m);
}

static int other_count(lkt_small *m, int rank, void *user)
{
    lks_batch batch = *lkt_small_batch();
    (void)user;
    if (rank == 2) batch.count = 20;
    LKT_CHECK(lks_model_step(m->model, &batch, .1, NULL) == LKS_E_INVALID);
    LKT_SAYS("takes step 1 with a batch of 20 samples, rank 0 step 1 with 24");
    return 0;
}

static void one_cannot_begin(void **state)
{
    (void)state;
    run(&(lkt_story){.build = build, .body = bad_label});
    run(&(lkt_story){.build = build, .body = bad_label, .opts = {.workers = 2}});
    run(&(lkt_story){.build = build, .body = no_batch});
    run(&(lkt_story){.build = build, .body = other_count});
}

/* Stage number `left` of those that a worker runs forward fails. */
typedef struct breaks {
    int left;
} breaks;

static lks_status broken(void *user, const lki_program *program, const lki_stage *stage,
                         const lki_args *args)
{
    breaks *b = user;
    (void)program, (void)stage, (void)args;
    if (b->left-- != 0) return LKS_OK;
    return LKI_FAIL(LKS_E_UNSUPPORTED, "a stage is broken");
}

static int breaks_in_the_middle(lkt_small *m, int rank, void *user)
{
    const int *at = user;
    breaks b = {.left = *at};
    lki_local *local = &m->model->worker[m->model->workers - 1].local;
    uint64_t before, after;
    LKT_CHECK(lks_model_hash(m->model, &before) == LKS_OK);
    if (rank == 1) {
        local->trace = broken;
        local->trace_user = &b;
    }
    const lks_status status = lks_model_step(m->model, lkt_small_batch(), .1, NULL);
    local->trace = NULL;
    if (status == LKS_OK) return 2; /* there are not so many */
    LKT_CHECK(status == LKS_E_UNSUPPORTED);
    if (rank != 1) LKT_SAYS("rank 1 (host ");
    LKT_SAYS("a stage is broken");
    LKT_CHECK(lks_model_hash(m->model, &after) == LKS_OK && before == after);
    return goes_on(m);
}

/* Any number of legs may lie before the stage, and other replicas and workers beside it. */
static void one_breaks_in_the_middle(void **state)
{
    (void)state;
    (void)lkt_small_batch();
    for (int workers = 1; workers <= 2; workers++) {
        int results[LKT_MOST_RANKS] = {0}, at = 0;
        for (; results[0] == 0; at++) {
            lkt_story s = {.build = build,
                           .opts = {.workers = workers},
                           .body = breaks_in_the_middle,
                           .user = &at};
            lkt_ranks_run(&(lkt_hub_opts){.size = SMALL_RANKS, .delay = 1, .share = at % 2 == 0},
                          NULL, lkt_small_rank, &s, results);
            for (int r = 0; r < SMALL_RANKS; r++)
                if (results[r] != results[0] || results[r] == 1)
                    fail_msg("stage %d: rank %d has %d, rank 0 %d", at, r, results[r], results[0]);
        }
        assert_int_equal(results[0], 2);
        assert_true(at > 8);
    }
}

/* Likewise in one process, where the other worker waits at a meeting. */
static void one_worker_breaks(void **state)
{
    int at = 0;
    lks_status status = LKS_E_UNSUPPORTED;
    (void)state;
    (void)lkt_small_batch();
    for (; status != LKS_OK; at++) {
        breaks b = {.left = at};
        lkt_small m = {.model = NULL};
        LKT_OK(build(&m, NULL, (lks_model_opts){.workers = 2}));
        lki_local *local = &m.model->worker[1].local;
        local->trace = broken;
        local->trace_user = &b;
        status = lks_model_step(m.model, lkt_small_batch(), .1, NULL);
        local->trace = NULL;
        if (status != LKS_OK) assert_string_equal(lks_last_error()->message, "a stage is broken");
        LKT_OK(lks_model_step(m.model, lkt_small_batch(), .1, NULL));
        lkt_small_end(&m);
    }
    assert_true(at > 8);
}

static int others(lks_comm *comm, int rank, void *user)
{
    lkt_small m = {.model = NULL};
    (void)user;
    LKT_CHECK(build_norms(&m, comm, rank != 1, (lks_model_opts){0}) == LKS_E_MISMATCH);
    LKT_SAYS("rank 1 (host ");
    LKT_SAYS("compiles another layer 3 than rank 0"); /* the first batch norm */
    lkt_small_end(&m);
    return 0;
}

static void all_must_meet(void **state)
{
    (void)state;
    lkt_ranks(&(lkt_hub_opts){.size = SMALL_RANKS}, NULL, others, NULL);
}

static void of_each_rank(lkt_hub_opts *hub, int n)
{
    hub->fail_rank = n % SMALL_RANKS;
    hub->fail_at = n;
}

static void any_exchange_may_fail(void **state)
{
    (void)state;
    lkt_small_endure(build, 2, of_each_rank);
}

/* A sample whose loss is not finite makes all losses so: all are named as one process names them, and a model
 * that skips such steps keeps its running statistics. */
typedef struct told {
    float x[SMALL_SAMPLES * SMALL_WIDTH];
    lks_batch batch;
    char message[sizeof((lks_error *)NULL)->message];
} told;

static void spoil(told *t)
{
    memcpy(t->x, lkt_small_batch()->x, sizeof t->x);
    t->x[9 * SMALL_WIDTH + 2] = (float)NAN;
    t->batch = *lkt_small_batch();
    t->batch.x = t->x;
}

static int same_sentence(lkt_small *m, int rank, void *user)
{
    const told *t = user;
    (void)rank;
    LKT_CHECK(lks_model_step(m->model, &t->batch, .1, NULL) == LKS_E_NUMERIC);
    LKT_SAYS("first bad tensor: output of input 'input_1', element 2 of sample 1009");
    return goes_on(m);
}

static int skips(lkt_small *m, int rank, void *user)
{
    const told *t = user;
    uint64_t before, after;
    (void)rank;
    LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), .1, NULL) == LKS_OK);
    LKT_CHECK(lks_model_hash(m->model, &before) == LKS_OK);
    LKT_CHECK(lks_model_step(m->model, &t->batch, .1, NULL) == LKS_OK);
    LKT_CHECK(lks_model_last_step(m->model).skipped);
    const int count = lks_model_state_find(m->model, "batch_norm_1.num_batches_tracked");
    int64_t batches;
    LKT_CHECK(lks_model_state_read(m->model, count, &batches, sizeof batches) == LKS_OK);
    LKT_CHECK(batches == 1);
    LKT_CHECK(lks_model_hash(m->model, &after) == LKS_OK);
    return goes_on(m);
}

static void a_loss_that_is_not_finite(void **state)
{
    told t;
    lkt_small m = {.model = NULL};
    (void)state;
    spoil(&t);
    LKT_OK(build(&m, NULL, (lks_model_opts){.workers = 3}));
    LKT_FAILS(LKS_E_NUMERIC, "first bad tensor: output of input 'input_1', element 2 of sample",
              lks_model_step(m.model, &t.batch, .1, NULL));
    lkt_small_end(&m);
    run(&(lkt_story){.build = build, .body = same_sentence, .user = &t});
    run(&(lkt_story){.build = build, .opts = {.skip_not_finite = true}, .body = skips, .user = &t});
}

/* A replay of one replica has what came of all: the tensor that is named is what goes wrong in the step. */
static void a_replay_has_the_statistics(void **state)
{
    lkt_small m = {.model = NULL};
    float weight[SMALL_CLASSES * 5];
    (void)state;
    (void)lkt_small_batch();
    LKT_OK(build(&m, NULL, (lks_model_opts){.workers = 2}));
    for (int i = 0; i < SMALL_CLASSES * 5; i++) weight[i] = i % 2 == 0 ? 3e38f : -3e38f;
    LKT_OK(lks_model_state_write(m.model, lks_model_state_find(m.model, "dense_3.weight"), weight,
                                 sizeof weight));
    LKT_FAILS(LKS_E_NUMERIC, "first bad tensor: output of dense 'dense_3'",
              lks_model_step(m.model, lkt_small_batch(), .1, NULL));
    lkt_small_end(&m);
}

/* Ranks that exchange nothing, or average models: batches of one sample, so that all but one have none. */
static int alone(lkt_small *m, int rank, void *user)
{
    lks_batch batch = *lkt_small_batch();
    int64_t batches;
    (void)user;
    batch.count = 1;
    LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), .1, NULL) == LKS_OK);
    LKT_CHECK(lks_model_step(m->model, &batch, .1, NULL) == LKS_OK);
    const int count = lks_model_state_find(m->model, "batch_norm_1.num_batches_tracked");
    LKT_CHECK(lks_model_state_read(m->model, count, &batches, sizeof batches) == LKS_OK);
    LKT_CHECK(batches == (rank == SMALL_RANKS - 1 ? 2 : 1));
    return 0;
}

static int own_sentence(lkt_small *m, int rank, void *user)
{
    const told *t = user;
    (void)rank;
    LKT_CHECK(lks_model_step(m->model, &t->batch, .1, NULL) == LKS_E_NUMERIC);
    LKT_SAYS("the loss is not finite for sample 1008, 1009, 1010, 1011, ...");
    LKT_SAYS("first bad tensor: output of input 'input_1', element 2 of sample 1009");
    return goes_on(m);
}

static void ranks_that_are_alone(void **state)
{
    told t;
    (void)state;
    spoil(&t);
    run(&(lkt_story){
        .build = build, .opts = {.average_every = 2}, .body = own_sentence, .user = &t});
    run(&(lkt_story){
        .build = build, .opts = {.exchange = LKS_EXCHANGE_NONE, .hash_every = 50}, .body = alone});
    run(&(lkt_story){.build = build,
                     .opts = {.average_every = 40, .hash_every = 50, .workers = 2},
                     .body = alone});
}

/* A worker that waits for another at meetings is not as slow as that. */
static lks_status sleeps(void *user, const lki_program *program, const lki_stage *stage,
                         const lki_args *args)
{
    (void)user, (void)program, (void)stage, (void)args;
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    return LKS_OK;
}

static void waiting_is_no_work(void **state)
{
    lkt_small m = {.model = NULL};
    int64_t spent[2] = {0};
    (void)state;
    (void)lkt_small_batch();
    LKT_OK(build(&m, NULL,
                 (lks_model_opts){.workers = 2, .balance = LKS_BALANCE_AUTO, .hash_every = 50}));
    m.model->worker[1].local.trace = sleeps;
    for (int i = 0; i < 2; i++) LKT_OK(lks_model_step(m.model, lkt_small_batch(), .1, NULL));
    for (int i = 0; i < 2 * LKI_BALANCE_PARTS; i++)
        spent[i / LKI_BALANCE_PARTS] += m.model->balance->spent[i];
    assert_true(spent[1] >= 5 * 3 * 10000000); /* of the second step: stages, replicas */
    assert_true(spent[0] < spent[1] / 2);
    lkt_small_end(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_cannot_begin),
        cmocka_unit_test(one_breaks_in_the_middle),
        cmocka_unit_test(one_worker_breaks),
        cmocka_unit_test(all_must_meet),
        cmocka_unit_test(any_exchange_may_fail),
        cmocka_unit_test(a_loss_that_is_not_finite),
        cmocka_unit_test(a_replay_has_the_statistics),
        cmocka_unit_test(ranks_that_are_alone),
        cmocka_unit_test(waiting_is_no_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Several ranks that train one model: what each of them sees of the others. */
#include <lockstep/tools.h>

#include "support/ranks/small.h"

/* One bit of a parameter, of what the optimizer keeps, or of an average, on one rank. */
typedef struct flip {
    const char *state;
    int rank, ranks;
} flip;

static int a_bit_flips(lkt_small *m, int rank, void *user)
{
    const flip *f = user;
    float values[SMALL_WIDTH * 8];
    const int at = lks_model_state_find(m->model, f->state);
    const size_t bytes = sizeof values;
    uint32_t bits;
    for (int i = 0; i < 2; i++)
        LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), .1, NULL) == LKS_OK);
    LKT_CHECK(lks_model_state_read(m->model, at, values, bytes) == LKS_OK);
    memcpy(&bits, &values[7], sizeof bits);
    if (rank == f->rank) bits ^= 1u << 20;
    memcpy(&values[7], &bits, sizeof bits);
    LKT_CHECK(lks_model_state_write(m->model, at, values, bytes) == LKS_OK);
    LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), .1, NULL) == LKS_OK);
    LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), .1, NULL) == LKS_E_COMM); /* a link */
    LKT_SAYS("after step 4 the parameters of rank ");
    if (f->ranks == 2) {
        LKT_SAYS("neither has a majority");
        return 0;
    }
    LKT_SAYS(f->rank == 0 ? "of rank 0 (" : "of rank 2 (");
    LKT_SAYS("are not those of the other 2 ranks");
    return 0;
}

static void a_flipped_bit_is_found(void **state)
{
    static const flip flips[] = {{"fc1.weight", 2, 3},
                                 {"fc1.weight", 0, 3},
                                 {"fc1.weight", 1, 2},
                                 {"optimizer.exp_avg.fc1.weight", 2, 3},
                                 {"ema.fc1.weight", 0, 3}};
    (void)state;
    for (size_t i = 0; i < sizeof flips / sizeof flips[0]; i++) {
        lkt_story s = {.opts = {.optim = lks_adam(), .ema_decay = .9, .shard = LKS_SHARD_OFF},
                       .body = a_bit_flips,
                       .user = (void *)(uintptr_t)&flips[i]};
        lkt_small_tell(flips[i].ranks, &s);
    }
}

static int raises(lkt_small *m, int rank, void *user)
{
    const int *who = user;
    LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), .1, NULL) == LKS_OK);
    LKT_CHECK(lks_model_raised(m->model) == LKS_OK);
    if (rank == *who) lks_model_raise(m->model, LKS_E_STOPPED);
    LKT_CHECK(lks_model_raised(m->model) == LKS_OK);
    LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), .1, NULL) == LKS_OK);
    LKT_CHECK(lks_model_raised(m->model) == LKS_E_STOPPED);
    LKT_CHECK(lks_model_progress(m->model).step == 2);
    LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), .1, NULL) == LKS_OK);
    LKT_CHECK(lks_model_raised(m->model) == LKS_OK);
    return 0;
}

static void what_one_raises_all_hear(void **state)
{
    int who = 0;
    (void)state;
    lkt_small_tell(1, &(lkt_story){.body = raises, .user = &who});
    for (; who < SMALL_RANKS; who++)
        lkt_small_tell(SMALL_RANKS, &(lkt_story){.body = raises, .user = &who});
}

typedef struct gradients {
    float fc1[SMALL_WIDTH * 8];
    lks_metrics metrics;
    bool known;
} gradients;

static int forms_gradient(lkt_small *m, int rank, void *user)
{
    gradients *g = user, own = {.known = true};
    (void)rank;
    LKT_CHECK(lks_model_gradient(m->model, lkt_small_batch(), &own.metrics) == LKS_OK);
    LKT_CHECK(lks_model_state_read(m->model, lks_model_state_find(m->model, "gradient.fc1.weight"),
                                   own.fc1, sizeof own.fc1) == LKS_OK);
    if (!g->known) *g = own;
    LKT_CHECK(memcmp(g->fc1, own.fc1, sizeof own.fc1) == 0);
    LKT_CHECK(memcmp(&g->metrics, &own.metrics, sizeof own.metrics) == 0);
    LKT_CHECK(lks_model_progress(m->model).step == 0);
    return 0;
}

static void a_gradient_is_that_of_one_process(void **state)
{
    gradients g = {.known = false};
    (void)state;
    lkt_small_tell(1, &(lkt_story){.body = forms_gradient, .user = &g});
    assert_true(g.known);
    lkt_small_tell(SMALL_RANKS, &(lkt_story){.body = forms_gradient, .user = &g});
    lkt_small_tell(SMALL_RANKS, &(lkt_story){.opts = {.by_replica = true, .workers = 2},
                                             .body = forms_gradient,
                                             .user = &g});
}

static int asks_where_time_goes(lkt_small *m, int rank, void *user)
{
    double bytes = -1;
    int64_t calls = 0;
    (void)rank, (void)user;
    LKT_CHECK(lks_profile_start(m->model) == LKS_OK);
    LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), .1, NULL) == LKS_OK);
    LKT_CHECK(lks_profile_total(m->model).samples == SMALL_SAMPLES / SMALL_RANKS);
    for (int r = 0; r < lks_profile_total(m->model).rows; r++) {
        const lks_profile_row row = lks_profile_get(m->model, r);
        if (strcmp(row.pass, "wait processes") != 0) continue;
        bytes = row.bytes;
        calls = row.calls;
    }
    /* 75 and 8 parameters; two thirds of a node go to others, and a third of the total, twice. */
    LKT_CHECK(calls > 0 && (m->model->common != NULL ? bytes == 0 : bytes > 0));
    return 0;
}

static void a_profile_has_what_travels(void **state)
{
    (void)state;
    lkt_small_tell(SMALL_RANKS, &(lkt_story){.body = asks_where_time_goes});
    lkt_small_tell(SMALL_RANKS,
                   &(lkt_story){.opts = {.shard = LKS_SHARD_OFF}, .body = asks_where_time_goes});
}

/* Each for itself: nothing is sent, and what is wrong on one is no other's. */
static int without_exchange(lkt_small *m, int rank, void *user)
{
    lks_batch batch = *lkt_small_batch();
    int32_t labels[SMALL_SAMPLES];
    uint64_t hash, *hashes = user;
    lks_metrics metrics;
    LKT_CHECK(lks_profile_start(m->model) == LKS_OK);
    for (int i = 0; i < 2; i++) /* with a link */
        LKT_CHECK(lks_model_step(m->model, &batch, .1, &metrics) == LKS_OK);
    LKT_CHECK(metrics.samples == SMALL_SAMPLES / SMALL_RANKS);
    LKT_CHECK(m->model->across->sums.bytes == 0);
    LKT_CHECK(lks_model_hash(m->model, &hash) == LKS_OK);
    hashes[rank] = hash;
    memcpy(labels, batch.y, sizeof labels);
    if (rank == 1) labels[0] = -1;
    batch.y = labels;
    LKT_CHECK(lks_model_step(m->model, &batch, .1, NULL) == (rank == 1 ? LKS_E_INVALID : LKS_OK));
    return 0;
}

static void ranks_without_exchange(void **state)
{
    uint64_t hashes[SMALL_RANKS] = {0};
    (void)state;
    lkt_small_tell(SMALL_RANKS, &(lkt_story){.opts = {.exchange = LKS_EXCHANGE_NONE},
                                             .body = without_exchange,
                                             .user = hashes});
    assert_int_not_equal(hashes[0], hashes[1]);
    assert_int_not_equal(hashes[1], hashes[2]);
}

/* Predictions of any number of samples, with a batch that is smaller than V. */
typedef struct outputs {
    float of[SMALL_SAMPLES][SMALL_CLASSES];
    bool known;
} outputs;

static int predicts(lkt_small *m, int rank, void *user)
{
    outputs *all = user, own;
    lks_predictor *predictor;
    const float *x = lkt_small_batch()->x;
    LKT_CHECK(lks_predictor_create(&predictor, m->model) == LKS_OK);
    for (int64_t count = SMALL_SAMPLES; count > 0; count -= rank + 1) { /* nobody waits */
        memset(own.of, 0, sizeof own.of);
        LKT_CHECK(lks_model_predict(m->model, x, count, own.of[0]) == LKS_OK);
        if (!all->known) { /* one rank, with all samples */
            memcpy(all->of, own.of, sizeof own.of);
            all->known = true;
        }
        LKT_CHECK(memcmp(all->of, own.of, (size_t)count * sizeof own.of[0]) == 0);
        memset(own.of, 0, sizeof own.of);
        LKT_CHECK(lks_predictor_predict(predictor, x, count, own.of[0]) == LKS_OK);
        LKT_CHECK(memcmp(all->of, own.of, (size_t)count * sizeof own.of[0]) == 0);
    }
    lks_predictor_destroy(predictor);
    return 0;
}

static void predictions_are_a_ranks_own(void **state)
{
    (void)state;
    outputs all = {.known = false};
    for (int64_t batch = 1; batch <= 13; batch += 3)
        for (int workers = 1; workers <= 2; workers++) {
            lkt_story s = {.opts = {.global_batch = batch, .workers = workers},
                           .body = predicts,
                           .user = &all};
            if (!all.known) lkt_small_tell(1, &s);
            lkt_small_tell(SMALL_RANKS, &s);
        }
}

/* The sum is exact, whatever the ranks have. */
static int sums_metrics(lks_comm *comm, int rank, void *user)
{
    lks_metrics sum = {.samples = rank + 1, .loss_high = rank, .loss_low = UINT64_MAX};
    (void)user;
    LKT_CHECK(lks_comm_metrics(comm, &sum) == LKS_OK);
    LKT_CHECK(sum.samples == 6 && sum.loss_high == 0 + 1 + 2 + 2);
    LKT_CHECK(sum.loss_low == UINT64_MAX - 2);
    return 0;
}

static void metrics_are_summed(void **state)
{
    (void)state;
    lkt_ranks(&(lkt_hub_opts){.size = SMALL_RANKS}, NULL, sums_metrics, NULL);
}

/* A communicator of one rank is none: the same memory, nothing started. */
static int alone(lks_comm *comm, int rank, void *user)
{
    lkt_small with = {.model = NULL}, without = {.model = NULL};
    (void)rank, (void)user;
    LKT_CHECK(lkt_small_build(&with, comm, (lks_model_opts){.workers = 2}) == LKS_OK);
    LKT_CHECK(lkt_small_build(&without, NULL, (lks_model_opts){.workers = 2}) == LKS_OK);
    LKT_CHECK(lks_model_get_info(with.model).memory_bytes ==
              lks_model_get_info(without.model).memory_bytes);
    LKT_CHECK(with.model->across == NULL);
    lkt_small_end(&with);
    lkt_small_end(&without);
    return 0;
}

static void one_rank_is_none(void **state)
{
    (void)state;
    lkt_ranks(&(lkt_hub_opts){.size = 1}, NULL, alone, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flipped_bit_is_found),
        cmocka_unit_test(what_one_raises_all_hear),
        cmocka_unit_test(a_gradient_is_that_of_one_process),
        cmocka_unit_test(a_profile_has_what_travels),
        cmocka_unit_test(ranks_without_exchange),
        cmocka_unit_test(predictions_are_a_ranks_own),
        cmocka_unit_test(metrics_are_summed),
        cmocka_unit_test(one_rank_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

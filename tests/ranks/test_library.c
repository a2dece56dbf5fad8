/* reduction: library. What joins the ranks adds their sums, in an order of its own: the gradient is that of the
 * tree up to rounding, and all else is as with the tree. */
#include <math.h>

#include "comm/flight.h"
#include "support/ranks/small.h"

enum {
    REPLICAS = 6,
    FC1 = SMALL_WIDTH * 8,
    PARAMETERS = FC1 + 8 + 8 * SMALL_CLASSES + SMALL_CLASSES,
    MOST_RANKS = 4
};

/* The gradients of all parameters. */
static lks_status gradient_of(lkt_small *m, const lks_batch *batch, float out[PARAMETERS])
{
    lks_status status = lks_model_gradient(m->model, batch, NULL);
    int at = 0;
    for (int i = 0; i < lks_model_state_count(m->model) && status == LKS_OK; i++) {
        const lks_state_info info = lks_model_state_info(m->model, i);
        if (info.kind != LKS_GRADIENT) continue;
        status = lks_model_state_read(m->model, i, out + at, info.bytes);
        at += (int)(info.bytes / sizeof *out);
    }
    return status;
}

typedef struct question {
    int64_t samples;
    int ranks, workers[MOST_RANKS];
    double weight[MOST_RANKS];
    size_t bucket_bytes;
    bool by_replica;
    float expected[PARAMETERS];
    double bound[PARAMETERS];
} question;

/*
 * Of one process: the mean by the tree, and how far another order of summation may lead. A sum of V terms
 * in any order is within (V - 1) u sum|s_v| of the exact one (to first order; u = 2^-24), so two orders are within
 * twice that, and both means are rounded once more. A replica alone has its samples in the same order; its
 * mean times the number of samples is its sum to two roundings.
 */
static int find_expected(question *q)
{
    const double u = 0x1p-24;
    lkt_small m = {.model = NULL}, one = {.model = NULL};
    lks_batch batch = *lkt_small_batch();
    float own[PARAMETERS];
    batch.count = q->samples;
    LKT_CHECK(lkt_small_build(&m, NULL, (lks_model_opts){0}) == LKS_OK);
    LKT_CHECK(gradient_of(&m, &batch, q->expected) == LKS_OK);
    lkt_small_end(&m);
    LKT_CHECK(lkt_small_build(&one, NULL, (lks_model_opts){.replicas = 1}) == LKS_OK);
    for (int i = 0; i < PARAMETERS; i++) q->bound[i] = 2 * u * fabs((double)q->expected[i]);
    for (int64_t v = 0; v < REPLICAS; v++) {
        const int64_t first = v * q->samples / REPLICAS;
        lks_batch share = {.count = (v + 1) * q->samples / REPLICAS - first,
                           .x = (const float *)batch.x + first * SMALL_WIDTH,
                           .y = (const int32_t *)batch.y + first};
        if (share.count == 0) continue;
        LKT_CHECK(gradient_of(&one, &share, own) == LKS_OK);
        for (int i = 0; i < PARAMETERS; i++)
            q->bound[i] += 2.01 * (REPLICAS - 1) * u * fabs((double)own[i]) * (double)share.count /
                           (double)q->samples;
    }
    lkt_small_end(&one);
    return 0;
}

static int within_bound(lks_comm *comm, int rank, void *user)
{
    const question *q = user;
    lkt_small m = {.model = NULL};
    lks_batch batch = *lkt_small_batch();
    float found[PARAMETERS];
    batch.count = q->samples;
    LKT_CHECK(lkt_small_build(&m, comm,
                              (lks_model_opts){.workers = q->workers[rank],
                                               .weight = q->weight[rank],
                                               .bucket_bytes = q->bucket_bytes,
                                               .by_replica = q->by_replica,
                                               .reduction = LKS_REDUCTION_LIBRARY}) == LKS_OK);
    LKT_CHECK(lks_model_get_info(m.model).own_bits);
    for (int again = 0; again < 2; again++) { /* the second finds sums of the first */
        LKT_CHECK(gradient_of(&m, &batch, found) == LKS_OK);
        for (int i = 0; i < PARAMETERS; i++)
            LKT_CHECK(fabs((double)found[i] - (double)q->expected[i]) <= q->bound[i]);
    }
    lkt_small_end(&m);
    return 0;
}

static void gradients_are_those_of_the_tree_up_to_rounding(void **state)
{
    static const question list[] = {
        {.samples = 24, .ranks = 2, .workers = {1, 1}},
        {.samples = 24, .ranks = 2, .workers = {2, 1}, .bucket_bytes = 64},
        {.samples = 24, .ranks = 3, .workers = {1, 1, 1}, .by_replica = true, .bucket_bytes = 64},
        {.samples = 24, .ranks = 3, .workers = {1, 2, 2}, .by_replica = true},
        {.samples = 24, .ranks = 4, .workers = {1, 1, 1, 1}, .weight = {1, 3, 1, 1}},
        {.samples = 5, .ranks = 3, .workers = {1, 2, 1}, .by_replica = true}, /* one is absent */
        {.samples = 2, .ranks = 4, .workers = {1, 1, 2, 1}}, /* and whole ranks are */
        {.samples = 2, .ranks = 4, .workers = {1, 1, 1, 1}, .by_replica = true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        question q = list[i];
        assert_int_equal(find_expected(&q), 0);
        lkt_ranks(&(lkt_hub_opts){.size = q.ranks, .seed = i, .delay = 2, .share = i % 2 == 0},
                  NULL, within_bound, &q);
    }
}

/* Several steps, with links that all ranks compare; then one cannot take one, and a loss is not finite. */
static int trains(lkt_small *m, int rank, void *user)
{
    float wild[SMALL_SAMPLES * SMALL_WIDTH];
    lks_batch batch = *lkt_small_batch();
    lks_metrics metrics;
    uint64_t hash, hashes[SMALL_RANKS];
    (void)user;
    for (int i = 0; i < 4; i++) {
        batch.count = i % 2 == 0 ? SMALL_SAMPLES : 1;
        LKT_CHECK(lks_model_step(m->model, &batch, .1, &metrics) == LKS_OK);
        LKT_CHECK(metrics.samples == batch.count);
    }
    memcpy(wild, batch.x, sizeof wild);
    wild[0] = NAN;
    batch.x = wild;
    batch.count = SMALL_SAMPLES;
    LKT_CHECK(lks_model_step(m->model, &batch, .1, NULL) == LKS_E_NUMERIC);
    LKT_SAYS("sample 1000");
    if (rank == 1) {
        LKT_CHECK(lks_model_fail(m->model, LKS_E_IO) == LKS_E_IO);
    } else {
        LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), .1, NULL) == LKS_E_IO);
    }
    LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), .1, NULL) == LKS_OK);
    LKT_CHECK(lks_model_hash(m->model, &hash) == LKS_OK);
    LKT_CHECK(lks_comm_all_gather(lks_model_comm(m->model), &hash, sizeof hash, hashes) == LKS_OK);
    for (int r = 0; r < SMALL_RANKS; r++) LKT_CHECK(hashes[r] == hash);
    return 0;
}

static void failures_are_those_of_the_tree(void **state)
{
    (void)state;
    for (int by_replica = 0; by_replica < 2; by_replica++)
        for (int after = 0; after < 2; after++)
            lkt_small_tell(SMALL_RANKS,
                           &(lkt_story){.opts = {.reduction = LKS_REDUCTION_LIBRARY,
                                                 .by_replica = by_replica == 1,
                                                 .exchange = after == 1 ? LKS_EXCHANGE_AFTER
                                                                        : LKS_EXCHANGE_OVERLAPPED,
                                                 .bucket_bytes = 64,
                                                 .workers = 1 + after},
                                        .body = trains});
}

/* Ranks that differ may differ by the library's sum: that is said beside memory and processors. */
static int a_bit_flips(lkt_small *m, int rank, void *user)
{
    float values[FC1];
    const int at = lks_model_state_find(m->model, "fc1.weight");
    (void)user;
    LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), .1, NULL) == LKS_OK);
    LKT_CHECK(lks_model_state_read(m->model, at, values, sizeof values) == LKS_OK);
    if (rank == 2) values[3] *= 1.5f;
    LKT_CHECK(lks_model_state_write(m->model, at, values, sizeof values) == LKS_OK);
    LKT_CHECK(lks_model_step(m->model, lkt_small_batch(), .1, NULL) == LKS_E_COMM);
    LKT_SAYS("of rank 2 (");
    LKT_SAYS("or with reduction: library sums are not the same on all");
    return 0;
}

static void links_are_compared(void **state)
{
    (void)state;
    lkt_small_tell(SMALL_RANKS,
                   &(lkt_story){.opts = {.reduction = LKS_REDUCTION_LIBRARY}, .body = a_bit_flips});
}

static int refused(lks_comm *comm, int rank, void *user)
{
    lkt_small m = {.model = NULL};
    (void)user;
    LKT_CHECK(lkt_small_build(&m, comm,
                              (lks_model_opts){.reduction = rank == 1 ? LKS_REDUCTION_LIBRARY
                                                                      : LKS_REDUCTION_STRICT}) ==
              LKS_E_MISMATCH);
    LKT_SAYS("compiles a model with reduction 1, rank 0 with 0");
    lkt_small_end(&m);
    if (lkt_ranks_are_processes()) return 0;
    const lki_transport *whole = comm->transport;
    lki_transport lacks = *whole;
    lacks.all_reduce = NULL;
    comm->transport = &lacks;
    m = (lkt_small){.model = NULL};
    LKT_CHECK(lkt_small_build(&m, comm, (lks_model_opts){.reduction = LKS_REDUCTION_LIBRARY}) ==
              LKS_E_UNSUPPORTED);
    LKT_SAYS("which here has none");
    lkt_small_end(&m);
    comm->transport = whole;
    return 0;
}

static void refusals(void **state)
{
    (void)state;
    (void)lkt_small_batch();
    lkt_ranks(&(lkt_hub_opts){.size = SMALL_RANKS}, NULL, refused, NULL);
}

/* With one process there is nothing to add, and no law but one. */
static int alone(void)
{
    lkt_small m = {.model = NULL};
    uint64_t hash[2];
    for (int i = 0; i < 2; i++) {
        m = (lkt_small){.model = NULL};
        LKT_CHECK(lkt_small_build(&m, NULL,
                                  (lks_model_opts){.reduction = i == 0 ? LKS_REDUCTION_STRICT
                                                                       : LKS_REDUCTION_LIBRARY}) ==
                  LKS_OK);
        LKT_CHECK(lks_model_step(m.model, lkt_small_batch(), .1, NULL) == LKS_OK);
        LKT_CHECK(lks_model_hash(m.model, &hash[i]) == LKS_OK);
        LKT_CHECK(!lks_model_get_info(m.model).own_bits);
        lkt_small_end(&m);
    }
    LKT_CHECK(hash[0] == hash[1]);
    return 0;
}

static void one_process_has_the_bits_of_the_tree(void **state)
{
    (void)state;
    assert_int_equal(alone(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_the_tree_up_to_rounding),
        cmocka_unit_test(failures_are_those_of_the_tree),
        cmocka_unit_test(links_are_compared),
        cmocka_unit_test(refusals),
        cmocka_unit_test(one_process_has_the_bits_of_the_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

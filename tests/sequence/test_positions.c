/*
 * Samples of tokens, with a class for each position or none: a mean over the positions that have one, on any number of
 * workers and ranks, and what is refused.
 */
#include <math.h>

#include <lockstep/lockstep.h>

#include "base/check.h"
#include "support/backends.h"
#include "support/ranks/small.h"
#include "support/test.h"

enum { SAMPLES = 23, POSITIONS = 7, WORDS = 11, CLASSES = 5, BATCH = 9, UNITS = 6, STEPS = 7 };

static int32_t token[SAMPLES][POSITIONS], wanted[SAMPLES][POSITIONS];

/* The first two samples have no class at all, others at most positions. */
static int fill(void **state)
{
    (void)state;
    for (int i = 0; i < SAMPLES; i++)
        for (int t = 0; t < POSITIONS; t++) {
            token[i][t] = (i * 5 + t * t * 3) % WORDS;
            wanted[i][t] = i < 2 || (i + t) % 4 == 0 ? LKS_NO_CLASS : (token[i][t] + t) % CLASSES;
        }
    return 0;
}

static int64_t count_of(int first, int count)
{
    int64_t sum = 0;
    for (int i = first; i < first + count; i++)
        for (int t = 0; t < POSITIONS; t++) sum += wanted[i][t] != LKS_NO_CLASS;
    return sum;
}

static lks_tensor *build(lks_graph *g)
{
    lks_tensor *x = lks_input(
        g, &(lks_input_opts){.shape = LKS_SHAPE(POSITIONS), .dtype = LKS_I32, .vocabulary = WORDS});
    lks_tensor *y = lks_target(
        g, &(lks_target_opts){.classes = CLASSES, .shape = LKS_SHAPE(POSITIONS)});
    x = lks_embedding(g, x, &(lks_embedding_opts){.name = "words", .units = UNITS});
    x = lks_tanh(g, lks_position(g, x, NULL));
    x = lks_dense(g, x, &(lks_dense_opts){.name = "head", .units = CLASSES});
    return lks_cross_entropy(g, x, y, NULL);
}

/* With four replicas. */
static lks_status build_on(lkt_small *m, const char *device, lks_model_opts opts)
{
    LKI_TRY(lks_context_create(&m->context, &(lks_context_opts){.device = device, .seed = 3}));
    LKI_TRY(lks_graph_create(&m->graph, m->context));
    opts.loss = build(m->graph);
    opts.global_batch = BATCH;
    opts.replicas = 4;
    return lks_model_compile(&m->model, m->graph, &opts);
}

static lkt_small open_net(const char *device, lks_model_opts opts)
{
    lkt_small n = {.model = NULL};
    LKT_OK(build_on(&n, device, opts));
    return n;
}

/* With softmax p of the outputs, the gradient of the last bias is the mean of p - 1 at the class, over positions that
 * have one. */
static void means_are_over_positions_that_have_a_class(void **state)
{
    (void)state;
    for (int d = 0; lkt_backends()[d] != NULL; d++) {
        lkt_small n = open_net(lkt_backends()[d]->name, (lks_model_opts){0});
        const lks_model_info model = lks_model_get_info(n.model);
        const lks_batch batch = {.x = token, .y = wanted, .count = BATCH};
        float out[BATCH][POSITIONS][CLASSES], found[CLASSES];
        double mean[CLASSES] = {0}, loss = 0;
        int64_t correct = 0;
        lks_metrics sum, seen = {0};
        assert_int_equal(model.inputs, POSITIONS);
        assert_int_equal(model.targets, POSITIONS);
        assert_int_equal(model.outputs, POSITIONS * CLASSES);
        LKT_OK(lks_model_predict(n.model, token, BATCH, &out[0][0][0]));
        for (int i = 0; i < BATCH; i++)
            for (int t = 0; t < POSITIONS; t++) {
                const float *x = out[i][t];
                double all = 0;
                int best = 0;
                if (wanted[i][t] == LKS_NO_CLASS) continue;
                for (int k = 0; k < CLASSES; k++) all += exp((double)x[k]);
                for (int k = 1; k < CLASSES; k++) best = x[k] > x[best] ? k : best;
                for (int k = 0; k < CLASSES; k++)
                    mean[k] += (exp((double)x[k]) / all - (k == wanted[i][t])) /
                               (double)count_of(0, BATCH);
                loss += (log(all) - (double)x[wanted[i][t]]) / (double)count_of(0, BATCH);
                correct += best == wanted[i][t];
            }
        LKT_OK(lks_model_gradient(n.model, &batch, &sum));
        LKT_OK(lks_model_state_read(n.model, lks_model_state_find(n.model, "gradient.head.bias"),
                                    found, sizeof found));
        for (int k = 0; k < CLASSES; k++) assert_true(fabs((double)found[k] - mean[k]) < 1e-6);
        LKT_OK(lks_model_evaluate(n.model, &batch, &seen));
        for (int k = 0; k < 2; k++) {
            const lks_metrics *m = k ? &seen : &sum;
            assert_int_equal(m->samples, BATCH);
            assert_int_equal(m->counted, count_of(0, BATCH));
            assert_int_equal(m->correct, correct);
            assert_int_equal(m->top5, m->counted); /* of five classes */
            assert_true(fabs(lks_metrics_loss(m) - loss) < 1e-6);
        }
        lkt_small_end(&n);
    }
}

static const lks_dataset_info info = {.samples = SAMPLES,
                                      .shape = {1, {POSITIONS}},
                                      .dtype = LKS_I32,
                                      .vocabulary = WORDS,
                                      .classes = CLASSES,
                                      .target_shape = {1, {POSITIONS}}};

/* What follows from a loader, whose batches say how many positions are counted. */
static uint64_t train(const char *device, int workers, bool by_replica)
{
    lkt_small n = open_net(device, (lks_model_opts){.workers = workers,
                                                    .by_replica = by_replica,
                                                    .optim = lks_adam(),
                                                    .hash_every = 2});
    lks_dataset *set;
    lks_loader *loader;
    uint64_t hash;
    LKT_OK(lks_dataset_from_arrays(&set, n.context, &info, token, wanted));
    LKT_OK(lks_model_check_data(n.model, set));
    LKT_OK(lks_loader_create(&loader, n.context, set, &(lks_loader_opts){.global_batch = BATCH}));
    for (int i = 0; i < STEPS; i++) {
        lks_batch batch;
        lks_metrics sum;
        LKT_OK(lks_loader_next(loader, &batch));
        LKT_OK(lks_model_step(n.model, &batch, .05, &sum));
        assert_int_equal(sum.counted, batch.counted);
    }
    LKT_OK(lks_model_hash(n.model, &hash));
    lks_loader_destroy(loader);
    lks_dataset_destroy(set);
    lkt_small_end(&n);
    return hash;
}

static void any_workers_have_the_same_bits(void **state)
{
    (void)state;
    for (int d = 0; lkt_backends()[d] != NULL; d++) {
        const uint64_t hash = train(lkt_backends()[d]->name, 1, false);
        for (int p = 2; p <= 4; p++) assert_true(train(lkt_backends()[d]->name, p, p == 3) == hash);
    }
}

static lks_status build_rank(lkt_small *m, lks_comm *comm, lks_model_opts opts)
{
    opts.comm = comm;
    return build_on(m, NULL, opts);
}

/* Each rank reads its part of a batch, and knows of all of it how many positions are counted. */
static int trains(lkt_small *m, int rank, void *user)
{
    const uint64_t *expected = user;
    const lks_model_info model = lks_model_get_info(m->model);
    lks_dataset *set = NULL;
    lks_loader *loader = NULL;
    lks_batch batch;
    lks_metrics sum;
    uint64_t hash = 0;
    int64_t counted = 0;
    (void)rank;
    LKT_CHECK(lks_dataset_from_arrays(&set, m->context, &info, token, wanted) == LKS_OK);
    LKT_CHECK(lks_loader_create(&loader, m->context, set,
                                &(lks_loader_opts){.global_batch = BATCH,
                                                   .shares = model.shares,
                                                   .first_share = model.first_share,
                                                   .last_share = model.last_share}) == LKS_OK);
    for (int i = 0; i < STEPS; i++) {
        LKT_CHECK(lks_loader_next(loader, &batch) == LKS_OK);
        LKT_CHECK(batch.count < batch.whole);
        LKT_CHECK(lks_model_step(m->model, &batch, .05, &sum) == LKS_OK);
        LKT_CHECK(sum.counted == batch.counted);
        counted += sum.counted;
    }
    LKT_CHECK(counted > 0 && lks_model_hash(m->model, &hash) == LKS_OK && hash == *expected);
    batch.counted = 0;
    LKT_CHECK(lks_model_step(m->model, &batch, .05, &sum) == LKS_E_INVALID);
    LKT_SAYS("the batch is a part, and does not say how many positions");
    lks_loader_destroy(loader);
    lks_dataset_destroy(set);
    return 0;
}

static void any_ranks_have_the_same_bits(void **state)
{
    uint64_t hash = train(NULL, 1, false);
    (void)state;
    for (int ranks = 2; ranks <= 4; ranks++)
        for (int apart = 0; apart < 2; apart++)
            lkt_small_tell(
                ranks, &(lkt_story){.build = build_rank,
                                    .opts = {.workers = 1, .optim = lks_adam(), .hash_every = 2},
                                    .body = trains,
                                    .user = &hash,
                                    .apart = apart});
}

/* Where nothing is wanted, what a network answers matters nothing, NaN included. */
static void other_positions_have_no_part(void **state)
{
    (void)state;
    for (int d = 0; lkt_backends()[d] != NULL; d++) {
        lkt_small n = open_net(lkt_backends()[d]->name, (lks_model_opts){0});
        float words[WORDS][UNITS], gradient[WORDS][UNITS];
        int32_t own[2][POSITIONS] = {{0}}, answer[2][POSITIONS];
        const lks_batch batch = {.x = own, .y = answer, .count = 2};
        lks_metrics sum = {0};
        for (int i = 0; i < 2 * POSITIONS; i++) {
            const int k = i / POSITIONS, t = i % POSITIONS;
            own[k][t] = i == 3 ? 10 : i % 4; /* word 10 stands where no class is, */
            answer[k][t] = i == 3 ? LKS_NO_CLASS : i % CLASSES;
        }
        const int at = lks_model_state_find(n.model, "words.weight");
        LKT_OK(lks_model_state_read(n.model, at, words, sizeof words));
        for (int u = 0; u < UNITS; u++) words[10][u] = NAN; /* and is no number */
        LKT_OK(lks_model_state_write(n.model, at, words, sizeof words));
        LKT_OK(lks_model_evaluate(n.model, &batch, &sum));
        assert_int_equal(sum.counted, 2 * POSITIONS - 1);
        assert_int_equal(sum.not_finite, 0);
        own[1][2] = own[1][4] = 10; /* where a class is, too */
        LKT_FAILS(LKS_E_NUMERIC, "sample 1", lks_model_step(n.model, &batch, .1, &sum));
        assert_int_equal(sum.not_finite, 2);
        own[1][2] = own[1][4] = 1;
        for (int u = 0; u < UNITS; u++) words[10][u] = 1;
        LKT_OK(lks_model_state_write(n.model, at, words, sizeof words));
        LKT_OK(lks_model_gradient(n.model, &batch, NULL));
        LKT_OK(lks_model_state_read(n.model, lks_model_state_find(n.model, "gradient.words.weight"),
                                    gradient, sizeof gradient));
        for (int u = 0; u < UNITS; u++) {
            assert_true(gradient[10][u] == 0 && gradient[7][u] == 0);
            assert_true(gradient[1][u] != 0);
        }
        lkt_small_end(&n);
    }
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    lkt_small n = open_net("ref", (lks_model_opts){0});
    lks_predictor *predictor;
    float out[BATCH * POSITIONS * CLASSES];
    int32_t x[2][POSITIONS] = {{0}}, y[2][POSITIONS] = {{0}};
    lks_batch batch = {.x = x, .y = y, .count = 2};
    lks_metrics sum = {0};
    LKT_OK(lks_predictor_create(&predictor, n.model));
    x[1][2] = WORDS;
    const char *bad = "token 2 of sample 1 is 11, expected 0 to 10: the vocabulary of 'input_1' "
                      "has 11";
    LKT_FAILS(LKS_E_INVALID, bad, lks_model_step(n.model, &batch, .1, NULL));
    LKT_FAILS(LKS_E_INVALID, bad, lks_model_evaluate(n.model, &batch, &sum));
    LKT_FAILS(LKS_E_INVALID, bad, lks_model_predict(n.model, x, 2, out));
    LKT_FAILS(LKS_E_INVALID, bad, lks_predictor_predict(predictor, x, 2, out));
    x[1][2] = -1;
    LKT_FAILS(LKS_E_INVALID, "is -1", lks_model_predict(n.model, x, 2, out));
    x[1][2] = 0;
    y[1][6] = CLASSES;
    LKT_FAILS(LKS_E_INVALID, "the label of sample 1 is 5, expected 0 to 4",
              lks_model_step(n.model, &batch, .1, NULL));
    y[1][6] = -2;
    LKT_FAILS(LKS_E_INVALID, "the label of sample 1 is -2",
              lks_model_step(n.model, &batch, .1, NULL));
    y[1][6] = LKS_NO_CLASS;
    batch.counted = 14;
    LKT_FAILS(LKS_E_INVALID, "13 positions of the batch have a class, and its counted is 14",
              lks_model_step(n.model, &batch, .1, NULL));
    batch.counted = 13;
    const lks_mix mix[2] = {{0}};
    batch.mix = mix;
    LKT_FAILS(LKS_E_INVALID, "these have a class for each of 7 positions",
              lks_model_step(n.model, &batch, .1, NULL));
    batch.mix = NULL;
    LKT_OK(lks_model_step(n.model, &batch, .1, NULL));
    batch.counted = 0;
    for (int i = 0; i < 2 * POSITIONS; i++) y[i / POSITIONS][i % POSITIONS] = LKS_NO_CLASS;
    LKT_FAILS(LKS_E_INVALID, "no position of the batch has a class",
              lks_model_step(n.model, &batch, .1, NULL));
    lks_predictor_destroy(predictor);
    lkt_small_end(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(means_are_over_positions_that_have_a_class),
        cmocka_unit_test(any_workers_have_the_same_bits),
        cmocka_unit_test(any_ranks_have_the_same_bits),
        cmocka_unit_test(other_positions_have_no_part),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}

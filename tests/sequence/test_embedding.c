/*
 * The gradient of an embedding by rows: no array of the weight's size in a replica, and the bits of one. Words that occur in
 * one replica, in several, in none; replicas without samples; parts of the rows, of workers and of ranks.
 */
#include <lockstep/lockstep.h>

#include "base/check.h"
#include "support/backends.h"
#include "support/ranks/small.h"
#include "support/runs.h"
#include "support/test.h"

/* Set where the padding's row is left out: the token that all samples have. */
static bool masked;
enum { PADDING = 7 };

/* Rows that are given together are 4,096 / 9: three lots. */
enum { SAMPLES = 23, POSITIONS = 5, WORDS = 1000, UNITS = 9, STEPS = 3 };
enum { WEIGHT = WORDS * UNITS };

static int32_t token[SAMPLES][POSITIONS], wanted[SAMPLES];

static int fill(void **state)
{
    (void)state;
    for (int i = 0; i < SAMPLES; i++) {
        wanted[i] = i % 3;
        for (int t = 0; t < POSITIONS; t++) token[i][t] = (i * 131 + t * t * 17) % WORDS;
        token[i][1] = PADDING; /* in all samples */
        if (i % 4 == 0) token[i][2] = token[i][3] = WORDS - 1;
        if (i == SAMPLES - 1) token[i][4] = 0;
    }
    return 0;
}

static lks_tensor *build(lks_graph *g)
{
    lks_tensor *x = lks_input(
        g, &(lks_input_opts){.shape = LKS_SHAPE(POSITIONS), .dtype = LKS_I32, .vocabulary = WORDS});
    x = lks_embedding(
        g, x,
        &(lks_embedding_opts){
            .name = "words", .units = UNITS, .masked = masked, .padding = masked ? PADDING : 0});
    x = lks_dense(g, lks_flatten(g, lks_tanh(g, x)), &(lks_dense_opts){.units = 3});
    return lks_cross_entropy(g, x, lks_target(g, &(lks_target_opts){.classes = 3}), NULL);
}

static lkt_model open_net(const char *device, lks_model_opts opts)
{
    lkt_model m = lkt_begin(&(lks_context_opts){.device = device, .seed = 3});
    opts.loss = build(m.graph);
    opts.global_batch = SAMPLES;
    lkt_compile(&m, &opts);
    return m;
}

/* Of the first samples of the batch. */
static void gradient_of(lks_model *model, int64_t count, float *out)
{
    const lks_batch batch = {.x = token, .y = wanted, .count = count};
    LKT_OK(lks_model_gradient(model, &batch, NULL));
    LKT_OK(lks_model_state_read(model, lks_model_state_find(model, "gradient.words.weight"), out,
                                WEIGHT * sizeof *out));
}

static void rows_have_the_bits_of_replicas(void **state)
{
    static float rows[WEIGHT], replica[WEIGHT];
    (void)state;
    for (int d = 0; lkt_backends()[d] != NULL; d++)
        for (int replicas = 1; replicas <= 9; replicas++)
            for (int workers = 1; workers <= 3 && workers <= replicas; workers++) {
                lks_model_opts opts = {.replicas = replicas, .workers = workers};
                lkt_model by_rows = open_net(lkt_backends()[d]->name, opts);
                opts.by_replica = true;
                lkt_model by_replica = open_net(lkt_backends()[d]->name, opts);
                for (int64_t count = SAMPLES; count > 0; count -= 5) {
                    gradient_of(by_rows.model, count, rows);
                    gradient_of(by_replica.model, count, replica);
                    assert_memory_equal(rows, replica, sizeof rows);
                    assert_true(rows[7 * UNITS] != 0);
                }
                lkt_end(&by_rows);
                lkt_end(&by_replica);
            }
}

/* As PyTorch's padding_idx: zeros that stay, and other rows as they would be. */
static void padding_has_no_gradient(void **state)
{
    static const float zeros[UNITS];
    static float before[WEIGHT], after[WEIGHT], rows[WEIGHT], replica[WEIGHT];
    (void)state;
    for (int d = 0; lkt_backends()[d] != NULL; d++) {
        const char *device = lkt_backends()[d]->name;
        const lks_model_opts opts = {.replicas = 4, .workers = 2, .optim = lks_adam()};
        lkt_model usual = open_net(device, opts);
        const int at = lks_model_state_find(usual.model, "words.weight");
        LKT_OK(lks_model_state_read(usual.model, at, before, sizeof before));
        masked = true;
        lkt_model m = open_net(device, opts);
        lkt_model other = open_net(device, (lks_model_opts){.replicas = 4, .by_replica = true});
        masked = false;
        LKT_OK(lks_model_state_read(m.model, at, after, sizeof after));
        assert_memory_equal(after + PADDING * UNITS, zeros, sizeof zeros);
        memcpy(before + PADDING * UNITS, zeros, sizeof zeros);
        assert_memory_equal(after, before, sizeof before);
        /* With such weights all else is what the usual network has. */
        LKT_OK(lks_model_state_write(usual.model, at, before, sizeof before));
        gradient_of(usual.model, SAMPLES, before);
        gradient_of(m.model, SAMPLES, rows);
        gradient_of(other.model, SAMPLES, replica);
        assert_true(before[PADDING * UNITS] != 0);
        memcpy(before + PADDING * UNITS, zeros, sizeof zeros);
        assert_memory_equal(rows, before, sizeof rows);
        assert_memory_equal(replica, before, sizeof rows);
        const lks_batch batch = {.x = token, .y = wanted, .count = SAMPLES};
        LKT_OK(lks_model_step(m.model, &batch, .1, NULL));
        LKT_OK(lks_model_state_read(m.model, at, rows, sizeof rows));
        assert_memory_equal(rows + PADDING * UNITS, zeros, sizeof zeros);
        assert_true(memcmp(rows, after, sizeof rows) != 0);
        lkt_end(&usual);
        lkt_end(&m);
        lkt_end(&other);
    }
}

static void rows_take_no_array(void **state)
{
    (void)state;
    for (int by_replica = 0; by_replica < 2; by_replica++) {
        lkt_model m = open_net("cpu", (lks_model_opts){.replicas = 8, .by_replica = by_replica});
        assert_true((m.model->gradient_count >= WEIGHT) == (by_replica == 1));
        lkt_end(&m);
    }
}

static const lks_batch whole = {.x = token, .y = wanted, .count = SAMPLES};

static uint64_t train(lks_model_opts opts)
{
    uint64_t hash;
    opts.replicas = 6;
    opts.optim = lks_adam();
    opts.hash_every = 1;
    lkt_model m = open_net("cpu", opts);
    for (int i = 0; i < STEPS; i++) LKT_OK(lks_model_step(m.model, &whole, .05, NULL));
    LKT_OK(lks_model_hash(m.model, &hash));
    lkt_end(&m);
    return hash;
}

static lks_status build_rank(lkt_small *m, lks_comm *comm, lks_model_opts opts)
{
    LKI_TRY(lks_context_create(&m->context, &(lks_context_opts){.device = "cpu", .seed = 3}));
    LKI_TRY(lks_graph_create(&m->graph, m->context));
    opts.loss = build(m->graph);
    opts.global_batch = SAMPLES;
    opts.replicas = 6;
    opts.comm = comm;
    return lks_model_compile(&m->model, m->graph, &opts);
}

/* Of four ranks some have two replicas, which are no node of the tree. */
static void any_ranks_have_the_same_bits(void **state)
{
    const uint64_t hash = train((lks_model_opts){.workers = 1, .by_replica = true});
    (void)state;
    assert_true(train((lks_model_opts){.workers = 3, .clip_norm = 1e9}) == hash);
    lkt_small_any_ranks(&(lkt_small_run){
        .build = build_rank, .batch = &whole, .steps = STEPS, .hash_every = 1, .hash = hash});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_have_the_bits_of_replicas),
        cmocka_unit_test(padding_has_no_gradient),
        cmocka_unit_test(rows_take_no_array),
        cmocka_unit_test(any_ranks_have_the_same_bits),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}

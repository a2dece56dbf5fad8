/*
 * Gradients of recurrent layers, and of dense layers of positions, that are formed by rows have the bits of those that are
 * formed by replica: masked layers, in both directions, several, with carried state, in short batches, whatever forms or keeps
 * gradients, with any workers, ranks and instructions.
 */
#include "base/check.h"
#include "cpu/vectors.h"
#include "support/ranks/small.h"
#include "support/runs.h"

enum { BATCH = 11, SHORT = 7, CONTEXT = 4, WORDS = 130, CLASSES = 3, STEPS = 4 };

static int32_t token[2 * BATCH][CONTEXT], next[2 * BATCH][CONTEXT], label[2 * BATCH];

/* Some samples end before their last position: what follows is padding. */
static int fill(void **state)
{
    lkt_random random = {.state = 17};
    (void)state;
    for (int i = 0; i < 2 * BATCH; i++) {
        for (int t = 0; t < CONTEXT; t++) {
            token[i][t] = t > i % 5 ? 0 : (int32_t)lkt_random_below(&random, WORDS);
            next[i][t] = t > i % 5 ? LKS_NO_CLASS : (int32_t)lkt_random_below(&random, WORDS);
        }
        label[i] = (int32_t)lkt_random_below(&random, CLASSES);
    }
    return 0;
}

/* ---------------------------------------------------------------- what is trained */

typedef enum kind {
    MASKED,
    CARRIED,
    FROZEN,
    LANGUAGE,
    TIED,
    NETS
} kind; /* classes of positions from LANGUAGE on */
static kind now;

/* Each with fewer numbers of a batch than two gradients of its weights. */
static lks_tensor *layers(lks_graph *g, lks_tensor *x)
{
    const lks_recurrent_opts on = {.hidden = 40, .layers = 2, .carry_state = now == CARRIED};
    if (now != MASKED) return lks_gru(g, lks_lstm(g, x, &on), &on);
    x = lks_lstm(g, x, &(lks_recurrent_opts){.hidden = 32, .bidirectional = true, .masked = true});
    x = lks_gru(g, x, &(lks_recurrent_opts){.hidden = 40, .reverse = true, .masked = true});
    return lks_rnn(g, x, &(lks_recurrent_opts){.hidden = 50, .masked = true});
}

static lks_status build(lkt_small *m, lks_comm *comm, lks_model_opts opts)
{
    static const char *const frozen[] = {"lstm_1.weight_hh_l0", "gru_1.bias_ih_l1"};
    LKI_TRY(lks_context_create(&m->context, &(lks_context_opts){.seed = 3}));
    LKI_TRY(lks_graph_create(&m->graph, m->context));
    lks_tensor *x = lks_input(
        m->graph,
        &(lks_input_opts){.shape = LKS_SHAPE(CONTEXT), .dtype = LKS_I32, .vocabulary = WORDS});
    lks_tensor *words = lks_embedding(
        m->graph, x, &(lks_embedding_opts){.units = now == TIED ? 40 : 30, .masked = true});
    x = layers(m->graph, words);
    if (now < LANGUAGE) x = lks_select(m->graph, x, &(lks_select_opts){.position = -1});
    x = lks_dense(m->graph, x,
                  &(lks_dense_opts){.units = now >= LANGUAGE ? WORDS : CLASSES,
                                    .weight_of = now == TIED ? words : NULL});
    lks_target_opts wanted = {.classes = CLASSES};
    if (now >= LANGUAGE) wanted = (lks_target_opts){.classes = WORDS, .shape = LKS_SHAPE(CONTEXT)};
    m->loss = lks_cross_entropy(m->graph, x, lks_target(m->graph, &wanted), NULL);
    LKI_TRY(lks_graph_status(m->graph));
    opts.global_batch = BATCH;
    opts.replicas = 5;
    if (now == FROZEN) {
        opts.freeze = frozen;
        opts.freeze_count = 2;
    }
    return lkt_small_compile(m, comm, opts);
}

/* Every second batch is short, unless states go on from one to the next. */
static lks_status train(lkt_small *m, uint64_t *hash)
{
    for (int i = 0; i < STEPS; i++) {
        const lks_batch batch = {.x = token[i % 2 * BATCH],
                                 .y = now >= LANGUAGE ? next[i % 2 * BATCH] : &label[i % 2 * BATCH],
                                 .count = i % 2 == 1 && now != CARRIED ? SHORT : BATCH,
                                 .continues = i % 2 == 1 && now == CARRIED};
        LKI_TRY(lks_model_step(m->model, &batch, .05, NULL));
    }
    return lks_model_hash(m->model, hash);
}

/* Layers of positions whose gradients are formed by rows, or by replica. */
static int layers_formed(const lks_model *model, bool by_rows)
{
    int count = 0;
    for (int s = 0; s < model->program.stages; s++) {
        const lki_plan *plan = model->program.stage[s].plan;
        const lki_op_id op = lki_cluster_head(&plan->cluster)->op;
        const bool positions = op == LKI_OP_DENSE && plan->cluster.in[0]->shape.ndim > 1;
        count += (op == LKI_OP_RNN || op == LKI_OP_LSTM || op == LKI_OP_GRU || positions) &&
                 plan->by_rows == by_rows;
    }
    return count;
}

static uint64_t alone(lks_model_opts opts, bool by_rows)
{
    lkt_small m = {.model = NULL};
    uint64_t hash;
    LKT_OK(build(&m, NULL, opts));
    assert_int_equal(layers_formed(m.model, !by_rows), 0);
    LKT_OK(train(&m, &hash));
    lkt_small_end(&m);
    return hash;
}

/* ---------------------------------------------------------------- one process */

static const struct {
    const char *name;
    lks_model_opts opts;
    bool by_replica;
} ways[] = {
    {"adam", {.optim = {.kind = LKS_ADAM}}, false},
    {"averages", {.optim = {.kind = LKS_ADAM}, .ema_decay = .9}, false},
    {"clipped", {.optim = {.kind = LKS_SGD, .momentum = .9f}, .clip_norm = .1}, false},
    {"lars", {.optim = {.kind = LKS_LARS}}, false},
    {"lamb", {.optim = {.kind = LKS_LAMB}}, false},
    {"rounded activations", {.kernels = {.bf16_storage = true}}, true},
    {"recomputed", {.recompute = true}, false},
};

static lks_optim optim_of(lks_optim_kind which)
{
    return which == LKS_ADAM   ? lks_adam()
           : which == LKS_LARS ? lks_lars()
           : which == LKS_LAMB ? lks_lamb()
                               : lks_sgd(.9f);
}

static void by_rows_has_the_bits_of_by_replica(void **state)
{
    (void)state;
    for (now = 0; now < NETS; now++)
        for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
            lks_model_opts opts = ways[i].opts;
            opts.optim = optim_of(ways[i].opts.optim.kind);
            opts.workers = 1;
            opts.by_replica = true;
            const uint64_t expected = alone(opts, false);
            opts.by_replica = false;
            for (opts.workers = 1; opts.workers <= 5; opts.workers += 2)
                if (alone(opts, !ways[i].by_replica) != expected)
                    fail_msg("network %d, %s, %d workers: other bits", now, ways[i].name,
                             opts.workers);
        }
}

#ifdef LKT_HAVE_CPU
static void any_instruction_set_has_the_same_bits(void **state)
{
    const lki_vector *usual = lki_cpu_vector();
    (void)state;
    for (now = 0; now < NETS; now++) {
        const uint64_t expected = alone((lks_model_opts){.workers = 1, .by_replica = true}, false);
        LKT_FOR_UNITS(v)
        {
            lki_cpu_vector_use(v);
            assert_true(alone((lks_model_opts){.workers = 2}, true) == expected);
        }
        lki_cpu_vector_use(usual);
    }
}
#endif

/* ---------------------------------------------------------------- several */

static int ends_with(lkt_small *m, int rank, void *user)
{
    const uint64_t *expected = user;
    uint64_t hash;
    (void)rank;
    LKT_CHECK(train(m, &hash) == LKS_OK);
    LKT_CHECK(hash == *expected);
    return 0;
}

static void any_ranks_have_the_same_bits(void **state)
{
    static const struct {
        int ranks;
        bool apart;
        lks_model_opts opts;
    } layouts[] = {
        {2, true, {.workers = 1}},
        {2, false, {.workers = 2}},
        {3, true, {.workers = 1, .bucket_bytes = 256, .exchange = LKS_EXCHANGE_AFTER}},
        {3, false, {.workers = 1, .recompute = true}},
        {3, true, {.workers = 1, .shard = LKS_SHARD_ON}},
    };
    (void)state;
    for (now = 0; now < NETS; now++)
        for (int clipped = 0; clipped < 2; clipped++)
            for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
                lks_model_opts opts = {.workers = 1, .by_replica = true, .optim = lks_adamw()};
                opts.clip_norm = clipped * .1;
                uint64_t expected = alone(opts, false);
                lkt_story story = {.build = build,
                                   .opts = layouts[i].opts,
                                   .body = ends_with,
                                   .user = &expected,
                                   .apart = layouts[i].apart};
                story.opts.optim = opts.optim;
                story.opts.clip_norm = opts.clip_norm;
                lkt_small_tell(layouts[i].ranks, &story);
            }
}

/* ---------------------------------------------------------------- the rule */

static int formed_by_rows(int64_t batch, int64_t hidden)
{
    lkt_model m = lkt_begin(NULL);
    lks_tensor *x = lks_input(m.graph, &(lks_input_opts){.shape = LKS_SHAPE(6, 20)});
    x = lks_lstm(m.graph, x, &(lks_recurrent_opts){.hidden = hidden});
    x = lks_dense(m.graph, lks_flatten(m.graph, x), &(lks_dense_opts){.units = CLASSES});
    lkt_compile(
        &m, &(lks_model_opts){
                .loss = lks_cross_entropy(
                    m.graph, x, lks_target(m.graph, &(lks_target_opts){.classes = CLASSES}), NULL),
                .global_batch = batch,
                .replicas = 2});
    const int count = layers_formed(m.model, true);
    lkt_end(&m);
    return count;
}

/* Of 30 units and 20 inputs: 170 numbers of each of 6 positions, and 6,000 of a gradient. */
static void few_positions_are_formed_by_rows(void **state)
{
    (void)state;
    assert_int_equal(formed_by_rows(11, 30), 1);
    assert_int_equal(formed_by_rows(12, 30), 0);
    assert_int_equal(formed_by_rows(12, 40), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_rows_has_the_bits_of_by_replica),
#ifdef LKT_HAVE_CPU
        cmocka_unit_test(any_instruction_set_has_the_same_bits),
#endif
        cmocka_unit_test(any_ranks_have_the_same_bits),
        cmocka_unit_test(few_positions_are_formed_by_rows),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}

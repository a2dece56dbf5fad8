/*
 * Transformers and language models of the zoo as one would train them: AdamW whose decay is of matrices alone, a norm that
 * is clipped, warmup and cosine by the step, averages, dropout, lengths that end early, a short last batch. Bits, losses and all that a
 * checkpoint has are those of one process for any ranks and workers, on any instruction set, and where a run
 * goes on in the middle of an epoch with others than it was begun with; in f32 and with factors of bfloat16.
 */
#include <string.h>

#include <lockstep/checkpoint.h>

#include "base/check.h"
#include "cpu/vectors.h"
#include "support/ranks/cuts.h"
#include "support/ranks/small.h"
#include "support/runs.h"

enum { BATCH = 13, LAST = 10, CONTEXT = 9, WORDS = 23, CLASSES = 5, SIDE = 8, FEATURES = 4 };
enum {
    SAMPLES = BATCH + LAST,
    PIXELS = SIDE * SIDE * 3,
    STEPS = 7,
    STOP = 3 /* in the second epoch */
};

static int32_t token[SAMPLES][CONTEXT], next[SAMPLES][CONTEXT], label[SAMPLES];
static float image[SAMPLES][PIXELS], frame[SAMPLES][CONTEXT][FEATURES];

/* Every third sample ends before its last position: what follows is padding, and has no class. */
static int fill(void **state)
{
    lkt_random random = {.state = 71};
    (void)state;
    for (int i = 0; i < SAMPLES; i++) {
        const int length = i % 3 == 1 ? 1 + i % CONTEXT : CONTEXT;
        for (int t = 0; t < CONTEXT; t++) {
            token[i][t] = t < length ? (int32_t)lkt_random_below(&random, WORDS) : 0;
            next[i][t] = t < length ? (int32_t)lkt_random_below(&random, WORDS) : LKS_NO_CLASS;
            for (int f = 0; f < FEATURES && t < length; f++)
                frame[i][t][f] = (float)((i * 31 + t * 7 + f * 13) % 61 + 1) / 64;
        }
        for (int p = 0; p < PIXELS; p++) image[i][p] = (float)lkt_random_real(&random, -1, 1);
        label[i] = (int32_t)lkt_random_below(&random, CLASSES);
    }
    return 0;
}

/* ---------------------------------------------------------------- what is trained */

/* Those from FRAMES on are of frames. */
typedef enum kind { GPT, LLAMA, ENCODER, VIT, LSTM, HELD, SENTENCES, FRAMES, RECORDINGS } kind;
typedef struct net {
    const char *name;
    kind kind;
    bool bf16;
} net;
static const net nets[] = {{"gpt", GPT, false},
                           {"llama", LLAMA, false},
                           {"encoder", ENCODER, false},
                           {"frames", FRAMES, false},
                           {"vit", VIT, false},
                           {"lstm_lm", LSTM, false},
                           {"gpt, bf16", GPT, true},
                           {"lstm_lm, bf16", LSTM, true},
                           {"windows with padding", HELD, false},
                           {"sentences", SENTENCES, false},
                           {"recordings", RECORDINGS, false}};
enum { NETS = sizeof nets / sizeof nets[0] };
static net now; /* set before ranks begin */

/* Whether windows go on where the ones before them ended. */
static bool carries(void)
{
    return now.kind == LSTM || now.kind == HELD;
}

static bool by_position(void)
{
    return now.kind < ENCODER || carries();
}

/* Recurrent layers that pass over padding, and a class for what is left at the end. */
static lks_tensor *read_all(lks_graph *g, lks_tensor *x)
{
    lks_recurrent_opts both = {.hidden = 7, .layers = 2, .bidirectional = true, .masked = true};
    both.dropout = .1f;
    x = lks_lstm(g, x, &both);
    x = lks_rnn(g, x, &(lks_recurrent_opts){.hidden = 9, .reverse = true, .masked = true});
    x = lks_gru(g, x, &(lks_recurrent_opts){.hidden = 11, .masked = true});
    return lks_dense(g, lks_select(g, x, &(lks_select_opts){.position = -1}),
                     &(lks_dense_opts){.units = CLASSES});
}

static lks_tensor *of_all_frames(lks_graph *g)
{
    const lks_transformer_opts masked = {
        .depth = 1, .heads = 2, .width = 12, .outputs = CLASSES, .dropout = .1f, .masked = true};
    lks_tensor *x = lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(CONTEXT, FEATURES)});
    if (now.kind == FRAMES) return lks_encoder(g, x, &masked);
    return lks_masking(g, x, NULL) != NULL ? read_all(g, x) : NULL;
}

static lks_tensor *network(lks_graph *g)
{
    const lks_transformer_opts usual = {.outputs = by_position() ? WORDS : CLASSES,
                                        .depth = 2,
                                        .heads = 4,
                                        .width = 24,
                                        .patch = 4,
                                        .dropout = .1f};
    lks_transformer_opts llama = usual;
    llama.kv_heads = 2;
    llama.norm = LKS_NORM_RMS;
    llama.activation = LKS_MLP_SWIGLU;
    llama.rotary = 10000;
    llama.no_bias = true;
    if (now.kind == VIT)
        return lks_vit(g, lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(SIDE, SIDE, 3)}),
                       &usual);
    if (now.kind >= FRAMES) return of_all_frames(g);
    lks_tensor *x = lks_input(
        g, &(lks_input_opts){.shape = LKS_SHAPE(CONTEXT), .dtype = LKS_I32, .vocabulary = WORDS});
    if (now.kind == LSTM)
        return lks_language_model(g, x, "lstm_lm",
                                  &(lks_language_model_opts){.outputs = WORDS,
                                                             .embedding_size = 18,
                                                             .hidden_size = 20,
                                                             .dropout = .1f,
                                                             .carry_state = true});
    if (now.kind == HELD) {
        const lks_recurrent_opts on = {
            .hidden = 8, .layers = 2, .carry_state = true, .masked = true};
        x = lks_lstm(g, lks_embedding(g, x, &(lks_embedding_opts){.units = 10}), &on);
        return lks_dense(g, lks_gru(g, x, &on), &(lks_dense_opts){.units = WORDS});
    }
    if (now.kind == SENTENCES)
        return read_all(g, lks_embedding(g, x, &(lks_embedding_opts){.units = 10, .masked = true}));
    if (now.kind == ENCODER) return lks_encoder(g, x, &usual);
    return lks_gpt(g, x, now.kind == LLAMA ? &llama : &usual);
}

static lks_status build(lkt_small *m, lks_comm *comm, lks_model_opts opts)
{
    LKI_TRY(lks_context_create(&m->context, &(lks_context_opts){.seed = 3}));
    LKI_TRY(lks_graph_create(&m->graph, m->context));
    lks_group position = lks_group_of("*pe.weight");
    lks_tensor *x = network(m->graph);
    lks_target_opts wanted = {.classes = CLASSES};
    if (by_position()) wanted = (lks_target_opts){.classes = WORDS, .shape = LKS_SHAPE(CONTEXT)};
    m->loss = lks_cross_entropy(m->graph, x, lks_target(m->graph, &wanted), NULL);
    LKI_TRY(lks_graph_status(m->graph));
    position.weight_decay = .01;
    opts.groups = &position;
    opts.group_count = now.kind == GPT ? 1 : 0;
    opts.global_batch = BATCH;
    opts.replicas = 5;
    opts.optim = lks_adamw();
    opts.optim.weight_decay = .1;
    opts.decay_of = LKS_DECAY_WEIGHTS;
    opts.clip_norm = .5;
    opts.ema_decay = .9;
    opts.kernels.bf16 = now.bf16;
    return lkt_small_compile(m, comm, opts);
}

/* Of an epoch's two the second one is short, but where windows go on. */
static lks_batch batch_of(int step)
{
    const bool second = step % 2 == 1;
    const int first = !second ? 0 : carries() ? LAST : BATCH;
    return (lks_batch){.x = now.kind == VIT      ? (const void *)image[first]
                            : now.kind >= FRAMES ? (const void *)frame[first]
                                                 : token[first],
                       .y = by_position() ? (const void *)next[first] : &label[first],
                       .count = second && !carries() ? LAST : BATCH,
                       .continues = second && carries()};
}

static lks_status train(lkt_small *m, int first, int last, lks_metrics *sum)
{
    const lks_schedule schedule = {.kind = LKS_COSINE,
                                   .lr = .02,
                                   .final_lr = .002,
                                   .per_step = true,
                                   .warmup_steps = 2,
                                   .length = STEPS};
    for (int i = first; i < last; i++) {
        const lks_batch batch = batch_of(i);
        lks_metrics metrics;
        LKI_TRY(lks_model_step(m->model, &batch, lks_schedule_at(&schedule, i, i / 2), &metrics));
        lks_metrics_add(sum, &metrics);
    }
    return LKS_OK;
}

/* ---------------------------------------------------------------- what comes of it */

typedef struct outcome {
    uint64_t hash;
    lks_metrics trained, evaluated;
} outcome;

/* The averages are part of the hash, and are what is evaluated. */
static lks_status look(lkt_small *m, outcome *o)
{
    LKI_TRY(lks_model_hash(m->model, &o->hash));
    LKI_TRY(lks_model_use_averages(m->model, true));
    for (int i = 0; i < 2; i++) {
        const lks_batch batch = batch_of(i);
        LKI_TRY(lks_model_evaluate(m->model, &batch, &o->evaluated));
    }
    return LKS_OK;
}

static lks_status run(lkt_small *m, outcome *o)
{
    LKI_TRY(train(m, 0, STEPS, &o->trained));
    return look(m, o);
}

static bool same(const outcome *a, const outcome *b)
{
    return a->hash == b->hash && memcmp(&a->trained, &b->trained, sizeof a->trained) == 0 &&
           memcmp(&a->evaluated, &b->evaluated, sizeof a->evaluated) == 0;
}

static outcome alone(lks_model_opts opts)
{
    lkt_small m = {.model = NULL};
    outcome o = {.hash = 0};
    LKT_OK(build(&m, NULL, opts));
    LKT_OK(run(&m, &o));
    lkt_small_end(&m);
    return o;
}

static void expect(const outcome *found, const outcome *expected, const char *how, int number)
{
    if (!same(found, expected)) fail_msg("%s, %s %d: other bits", now.name, how, number);
}

/* ---------------------------------------------------------------- the matrix */

static void any_workers_have_the_same_bits(void **state)
{
    outcome all[NETS];
    (void)state;
    for (int n = 0; n < NETS; n++) {
        now = nets[n];
        all[n] = alone((lks_model_opts){.workers = 1});
        for (int p = 2; p <= 5; p++) {
            const outcome found = alone(
                (lks_model_opts){.workers = p, .by_replica = p == 3, .recompute = p == 4});
            expect(&found, &all[n], "workers", p);
        }
        /* With bfloat16 others. */
        assert_int_equal(all[n].trained.not_finite, 0);
        const outcome *f32 = now.bf16 ? &all[now.kind == GPT ? 0 : 5] : NULL;
        if (f32 == NULL) continue;
        assert_true(f32->hash != all[n].hash);
        assert_true(lks_metrics_loss(&all[n].trained) != lks_metrics_loss(&f32->trained));
    }
}

#ifdef LKT_HAVE_CPU
static void any_instruction_set_has_the_same_bits(void **state)
{
    const lki_vector *usual = lki_cpu_vector();
    (void)state;
    for (int n = 0; n < NETS; n++) {
        now = nets[n];
        const outcome expected = alone((lks_model_opts){.workers = 1});
        LKT_FOR_UNITS(v)
        {
            lki_cpu_vector_use(v);
            const outcome found = alone((lks_model_opts){.workers = 2});
            expect(&found, &expected, v->name, 0);
        }
        lki_cpu_vector_use(usual);
    }
}
#endif

#ifdef LKT_HAVE_CPU
typedef struct rounded {
    int dense, all; /* lines of a plan: dense layers of positions, and all */
} rounded;

static void count_rounded(void *user, const char *line)
{
    rounded *count = user;
    if (strstr(line, ", bf16") == NULL) return;
    count->all++;
    count->dense += strstr(line, " positions (") != NULL;
}

/* Dense layers, of positions too, and nothing else: what attention and recurrent layers multiply is f32. */
static void dense_layers_alone_are_rounded(void **state)
{
    (void)state;
    for (int n = 0; n < NETS; n++) {
        rounded count = {0};
        lkt_small m = {.model = NULL};
        if (!nets[n].bf16) continue;
        now = nets[n];
        LKT_OK(build(&m, NULL, (lks_model_opts){.workers = 1}));
        LKT_OK(lks_model_describe(m.model, LKS_DESCRIBE_PLAN, count_rounded, &count));
        assert_int_equal(count.dense, now.kind == GPT ? 2 * 4 + 1 : 1);
        assert_int_equal(count.all, count.dense);
        lkt_small_end(&m);
    }
}
#endif

typedef struct layout {
    int ranks;
    bool apart; /* without memory in common */
    bool cuts;
    lks_model_opts opts;
} layout;
static const layout layouts[] = {
    {2, true, false, {.workers = 1}},
    {2, false, false, {.workers = 2}},
    {3, true, false, {.workers = 1, .bucket_bytes = 256, .exchange = LKS_EXCHANGE_AFTER}},
    {3, false, false, {.workers = 1, .recompute = true}},
    {3, true, false, {.workers = 1, .shard = LKS_SHARD_ON}},
    {5, true, false, {.workers = 1, .by_replica = true}},
    {2, true, true, {.workers = 2, .balance = LKS_BALANCE_AUTO}},
    {3, false, true, {.workers = 1, .balance = LKS_BALANCE_AUTO}},
};

typedef struct expectation {
    const layout *layout;
    outcome at_end;
} expectation;

static int runs(lkt_small *m, int rank, void *user)
{
    const expectation *e = user;
    outcome o = {.hash = 0};
    (void)rank;
    if (e->layout->cuts) lkt_cut_often(m->model);
    LKT_CHECK(run(m, &o) == LKS_OK);
    LKT_CHECK((lks_model_get_info(m->model).cuts > 0) == e->layout->cuts);
    LKT_CHECK(same(&o, &e->at_end));
    LKT_CHECK(lks_model_check_ranks(m->model) == LKS_OK);
    return 0;
}

static void any_ranks_have_the_same_bits(void **state)
{
    (void)state;
    for (int n = 0; n < NETS; n++) {
        now = nets[n];
        const outcome expected = alone((lks_model_opts){.workers = 1});
        for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
            const layout *how = &layouts[i];
            expectation e = {.layout = how, .at_end = expected};
            lkt_small_tell(how->ranks, &(lkt_story){.build = build,
                                                    .opts = how->opts,
                                                    .body = runs,
                                                    .user = &e,
                                                    .apart = how->apart});
        }
    }
}

/* ---------------------------------------------------------------- a run that goes on */

typedef struct stopped {
    const char *folder;
    lks_metrics sum; /* of the steps that were taken */
    outcome at_end;
} stopped;

static lks_status stop(lkt_small *m, stopped *s, lks_metrics *sum)
{
    LKI_TRY(train(m, 0, STOP, sum));
    const lks_model_info info = lks_model_get_info(m->model);
    const lks_run run = {.best_step = -1,
                         .progress = lks_model_progress(m->model),
                         .seed = 3,
                         .global_batch = info.global_batch,
                         .replicas = info.replicas,
                         .hash_every = info.hash_every};
    return lks_checkpoint_save(m->model, &run, s->folder, 1);
}

static int begins(lkt_small *m, int rank, void *user)
{
    stopped *s = user;
    lks_metrics sum = {0};
    LKT_CHECK(stop(m, s, &sum) == LKS_OK);
    if (rank == 0) s->sum = sum;
    return 0;
}

static int goes_on(lkt_small *m, int rank, void *user)
{
    stopped *s = user;
    outcome o = {.trained = s->sum};
    lks_run run;
    (void)rank;
    LKT_CHECK(lks_checkpoint_load(m->context, m->model, &run, s->folder, STOP) == LKS_OK);
    lks_run_clear(&run);
    LKT_CHECK(train(m, STOP, STEPS, &o.trained) == LKS_OK && look(m, &o) == LKS_OK);
    LKT_CHECK(same(&o, &s->at_end));
    return 0;
}

static void others_go_on_in_the_middle_of_an_epoch(void **state)
{
    (void)state;
    for (int n = 0; n < NETS; n++) {
        now = nets[n];
        stopped s = {.folder = lkt_make_folder(), .at_end = alone((lks_model_opts){.workers = 1})};
        lkt_story story = {.build = build,
                           .opts = {.workers = 1},
                           .body = begins,
                           .user = &s,
                           .apart = n % 2 == 0};
        lkt_small_tell(3, &story);
        story.body = goes_on;
        story.apart = !story.apart;
        lkt_small_tell(2, &story);
        story.opts.shard = LKS_SHARD_ON;
        lkt_small_tell(4, &story);
        lkt_small m = {.model = NULL};
        LKT_OK(build(&m, NULL, (lks_model_opts){.workers = 4}));
        assert_int_equal(goes_on(&m, 0, &s), 0);
        lkt_small_end(&m);
        lkt_remove_folder();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_workers_have_the_same_bits),
#ifdef LKT_HAVE_CPU
        cmocka_unit_test(any_instruction_set_has_the_same_bits),
        cmocka_unit_test(dense_layers_alone_are_rounded),
#endif
        cmocka_unit_test(any_ranks_have_the_same_bits),
        cmocka_unit_test(others_go_on_in_the_middle_of_an_epoch),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}

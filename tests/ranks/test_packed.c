/*
 * Behind every step the packed form of parameters is what kernels would make of them now, whoever has updated and packed
 * which rows: with one process, ranks that have their parameters in common, send each other sums, or have a spread optimizer,
 * and step alone; where a step updates at once, clips by norm, or knows whole rows first. Bits of trainings would show it
 * one step later, if the wrong rows mattered.
 */
#include <stdlib.h>

#include "base/check.h"
#include "support/ranks/small.h"

enum { WORDS = 70, POSITIONS = 4, SIDE = 6, STEPS = 3, MOST_RANKS = 3 };
enum { OTHERS = 2 }; /* ways to update that are tried with other packings, too */

/* Rows that are no multiple of what is packed together, and more than a worker takes. */
typedef enum kind { DENSE, SEQUENCES, IMAGES, KINDS } kind;
static struct {
    kind kind;
    const char *device;
    bool bf16;
} now; /* set before ranks begin */

static int32_t token[SMALL_SAMPLES][POSITIONS], next[SMALL_SAMPLES][POSITIONS];
static int32_t label[SMALL_SAMPLES];
static float image[SMALL_SAMPLES][SIDE * SIDE * 2];

static int fill(void **state)
{
    lkt_random random = {.state = 17};
    (void)state;
    for (int i = 0; i < SMALL_SAMPLES; i++) {
        for (int t = 0; t < POSITIONS; t++) {
            token[i][t] = (int32_t)lkt_random_below(&random, WORDS);
            next[i][t] = (int32_t)lkt_random_below(&random, WORDS);
        }
        for (int p = 0; p < SIDE * SIDE * 2; p++)
            image[i][p] = (float)lkt_random_real(&random, -1, 1);
        label[i] = (int32_t)lkt_random_below(&random, SMALL_CLASSES);
    }
    return 0;
}

static lks_tensor *dense(lks_graph *g, lks_tensor *x, int64_t units)
{
    return lks_dense(g, x, &(lks_dense_opts){.units = units});
}

static lks_tensor *conv(lks_graph *g, lks_tensor *x, int64_t filters)
{
    return lks_conv2d(g, x, &(lks_conv2d_opts){.filters = filters, .kernel = {3, 3}});
}

/* dense_active takes the second layer, whose columns are shared, dense the others. */
static lks_tensor *of_numbers(lks_graph *g)
{
    lks_tensor *x = lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(SIDE * SIDE * 2)});
    x = lks_relu(g, dense(g, x, 1030));
    x = lks_tanh(g, dense(g, x, 70));
    x = lks_tanh(g, dense(g, x, 300));
    return dense(g, x, SMALL_CLASSES);
}

/* A weight that is packed for another layer than the one whose it is, two of one layer. */
static lks_tensor *of_tokens(lks_graph *g)
{
    lks_tensor *x = lks_input(
        g, &(lks_input_opts){.shape = LKS_SHAPE(POSITIONS), .dtype = LKS_I32, .vocabulary = WORDS});
    lks_tensor *words = lks_embedding(g, x, &(lks_embedding_opts){.units = 20});
    x = lks_lstm(g, words, &(lks_recurrent_opts){.hidden = 25});
    x = lks_tanh(g, dense(g, x, 200));
    return lks_dense(g, dense(g, x, 20), &(lks_dense_opts){.units = WORDS, .weight_of = words});
}

static lks_tensor *of_images(lks_graph *g)
{
    lks_tensor *x = lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(SIDE, SIDE, 2)});
    x = lks_tanh(g, conv(g, x, 35));
    x = lks_tanh(g, conv(g, x, 70));
    return dense(g, lks_flatten(g, x), SMALL_CLASSES);
}

static lks_status build(lkt_small *m, lks_comm *comm, lks_model_opts opts)
{
    const lks_context_opts how = {.seed = 3, .device = now.device};
    lks_target_opts wanted = {.classes = SMALL_CLASSES};
    if (now.kind == SEQUENCES)
        wanted = (lks_target_opts){.classes = WORDS, .shape = LKS_SHAPE(POSITIONS)};
    LKI_TRY(lks_context_create(&m->context, &how));
    LKI_TRY(lks_graph_create(&m->graph, m->context));
    lks_tensor *x = now.kind == DENSE       ? of_numbers(m->graph)
                    : now.kind == SEQUENCES ? of_tokens(m->graph)
                                            : of_images(m->graph);
    m->loss = lks_cross_entropy(m->graph, x, lks_target(m->graph, &wanted), NULL);
    LKI_TRY(lks_graph_status(m->graph));
    return lkt_small_compile(m, comm, opts);
}

/* Nothing but packed rows has been written there. */
static bool is_fresh(const lks_model *model)
{
    const lki_program *program = &model->program;
    char *expected = calloc(1, program->packed_bytes + LKI_ALIGN);
    char *at = expected + (LKI_ALIGN - (uintptr_t)expected % LKI_ALIGN) % LKI_ALIGN;
    for (int s = 0; s < program->stages; s++) {
        const lki_stage *stage = &program->stage[s];
        lki_plan_pack(stage->plan, (const float *const *)stage->param, at + stage->packed_offset, 0,
                      1);
    }
    const bool same = memcmp(program->packed, at, program->packed_bytes) == 0;
    free(expected);
    return same;
}

static int trains(lkt_small *m, int rank, void *user)
{
    const lks_batch batch = {.x = now.kind == SEQUENCES ? (const void *)token : image,
                             .y = now.kind == SEQUENCES ? (const void *)next : label,
                             .count = SMALL_SAMPLES};
    (void)rank, (void)user;
    for (int i = 0; i < STEPS; i++) {
        LKT_CHECK(lks_model_step(m->model, &batch, .1, NULL) == LKS_OK);
        LKT_CHECK(m->model->prepared || lki_averages(m->model)); /* then with the next step */
        LKT_CHECK(!m->model->prepared || is_fresh(m->model));
    }
    return 0;
}

static void train(lks_model_opts opts)
{
    opts.kernels.bf16 = now.bf16;
    for (int workers = 1; workers <= 2; workers++) {
        opts.workers = workers;
        lkt_small alone = {.model = NULL};
        LKT_OK(build(&alone, NULL, opts));
        assert_int_equal(trains(&alone, 0, NULL), 0);
        lkt_small_end(&alone);
        for (int ranks = 2; ranks <= (workers == 1 ? MOST_RANKS : 2); ranks++) {
            lkt_story story = {.build = build, .opts = opts, .body = trains};
            lkt_small_tell(ranks, &story);
            story.apart = true;
            lkt_small_tell(ranks, &story);
            story.opts.shard = LKS_SHARD_ON;
            lkt_small_tell(ranks, &story);
            story.opts.shard = LKS_SHARD_AUTO;
            story.opts.average_every = 2;
            lkt_small_tell(ranks, &story);
        }
    }
}

static void behind_every_step(void **state)
{
    static const char *const frozen[] = {"*_2.weight"};
    static const lks_model_opts how[] = {
        {.optim = {.momentum = .9}},
        {.optim = {.momentum = .9}, .clip_norm = .1},
        {.optim = {.momentum = .9}, .clip_value = .01, .ema_decay = .9},
        {.optim = {.momentum = .9}, .clip_norm = .1, .freeze = frozen, .freeze_count = 1},
        {.optim = {.kind = LKS_ADAMP, .beta1 = .9, .beta2 = .99, .epsilon = 1e-8, .delta = .1}},
        {.optim = {.kind = LKS_LARS, .momentum = .9, .trust = .01, .epsilon = 1e-8}},
        {.optim = {.momentum = .9}, .by_replica = true}};
    (void)state;
    for (now.kind = DENSE; now.kind < KINDS; now.kind++)
        for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
            train(how[i]);
            if (i >= OTHERS) continue;
            now.bf16 = true;
            train(how[i]);
            now.bf16 = false;
            now.device = "ref";
            if (now.kind == IMAGES) train(how[i]); /* of others it packs nothing */
            now.device = NULL;
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup(behind_every_step, fill)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Ranks that would train different models are told so before the first step, by the layer or option. */
#include "support/ranks/small.h"

#include "base/check.h"

enum { LAYERS = 10, CHANNELS = 900 }; /* more than a line has */

/* A network whose layer number `other` (from 1, 0: none) is another on rank 1, or that ends elsewhere. */
typedef struct net {
    int other;
    bool shorter, first_output;
    lks_model_opts opts; /* of rank 1 */
    const char *device;  /* likewise */
    int64_t seed;
    const char *says; /* NULL: nothing is wrong */
} net;

static lks_status build(lkt_small *m, lks_comm *comm, const net *n, bool odd)
{
    const int other = odd ? n->other : 0;
    float mean[CHANNELS] = {0}, deviation[CHANNELS];
    for (int i = 0; i < CHANNELS; i++) deviation[i] = 1;
    if (other == 2) mean[CHANNELS - 1] = 1e-3F;
    const lks_context_opts how = {.device = odd ? n->device : NULL,
                                  .seed = 3 + (uint64_t)(odd ? n->seed : 0)};
    LKI_TRY(lks_context_create(&m->context, &how));
    LKI_TRY(lks_graph_create(&m->graph, m->context));
    lks_graph *g = m->graph;
    lks_tensor *in = lks_input(
        g, &(lks_input_opts){.name = other == 1 ? "pixels" : "x", .shape = {1, {CHANNELS}}});
    lks_tensor *h = lks_normalize(
        g, in, &(lks_normalize_opts){.mean = mean, .std = deviation, .count = CHANNELS});
    lks_tensor *a = lks_dense(g, h, &(lks_dense_opts){.units = 8});
    lks_tensor *b = lks_dense(g, h, &(lks_dense_opts){.units = 8, .no_bias = other == 4});
    h = lks_add(g, other == 5 ? b : a, other == 5 ? a : b);
    h = other == 6 ? lks_relu(g, h) : lks_tanh(g, h);
    h = lks_dropout(g, h, &(lks_dropout_opts){.probability = other == 7 ? .3F : .2F});
    if (!(odd && n->shorter)) h = lks_dense(g, h, &(lks_dense_opts){.units = 8});
    lks_tensor *y = lks_target(g, &(lks_target_opts){.classes = 8});
    m->loss = lks_cross_entropy(
        g, h, y, &(lks_cross_entropy_opts){.label_smoothing = other == LAYERS ? .1F : 0});
    LKI_TRY(lks_graph_status(g));
    lks_model_opts opts = odd ? n->opts : (lks_model_opts){0};
    if (odd && n->first_output) opts.output = a;
    return lkt_small_compile(m, comm, opts);
}

static int compiles(lks_comm *comm, int rank, void *user)
{
    const net *n = user;
    lkt_small m = {.model = NULL};
    const lks_status status = build(&m, comm, n, rank == 1);
    LKT_CHECK(status == (n->says != NULL ? LKS_E_MISMATCH : LKS_OK));
    if (n->says != NULL) {
        LKT_SAYS("rank 1 (host ");
        LKT_SAYS(n->says);
    }
    lkt_small_end(&m);
    return 0;
}

static void run(const net *n)
{
    lkt_ranks(&(lkt_hub_opts){.size = SMALL_RANKS}, NULL, compiles, (void *)(uintptr_t)n);
}

static void the_layer_is_named(void **state)
{
    (void)state;
    for (int other = 1; other <= LAYERS; other++) {
        char says[64];
        if (other == 3 || other == 8 || other == 9) continue;
        snprintf(says, sizeof says, "compiles another layer %d than rank 0", other);
        run(&(net){.other = other, .says = says});
    }
    run(&(net){.other = 7, .says = " it is 'dropout_1': dropout probability=0."});
    run(&(net){.shorter = true, .says = "with layers: 9, rank 0 with 10;"});
    run(&(net){.first_output = true, .says = "with the output at layer 2, rank 0 with 7"});
}

static void seeds_and_devices(void **state)
{
    (void)state;
    run(&(net){.says = NULL});
    run(&(net){.seed = 1, .says = "with seed 4, rank 0 with 3"});
    run(&(net){.device = "ref", .says = "with another device than rank 0"});
}

static void updates(void **state)
{
    static const lks_group slow[] = {{.match = "dense_2.*", .weight_decay = 0, .lr_factor = .5}};
    static const lks_group same[] = {{.match = "*", .weight_decay = 0, .lr_factor = 1}};
    static const lks_model_opts other[] = {
        {.optim = {.kind = LKS_ADAM, .beta1 = .9, .beta2 = .99, .epsilon = 1e-8}},
        {.optim = {.momentum = .9}},
        {.optim = {.weight_decay = 1e-4}},
        {.clip_value = 1},
        {.clip_norm = 1},
        {.ema_decay = .99},
        {.skip_not_finite = true},
        {.groups = slow, .group_count = 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        run(&(net){.opts = other[i], .says = "compiles a model with "});
    for (size_t i = 1; i < 3; i++)
        run(&(net){.opts = other[i], .says = "with another update (optimizer"});
    run(&(net){.opts = {.groups = same, .group_count = 1},
               .says = NULL}); /* what it comes to counts */
    run(&(net){.opts = {.weight = 2}, .says = NULL});
}

/* Of a step: the others have not stepped either, and all go on. */
static int learning_rates(lks_comm *comm, int rank, void *user)
{
    lkt_small m = {.model = NULL};
    lks_metrics sum = {0};
    (void)user;
    LKT_CHECK(lkt_small_build(&m, comm, (lks_model_opts){0}) == LKS_OK);
    const lks_batch *batch = lkt_small_batch();
    LKT_CHECK(lks_model_step(m.model, batch, .1, NULL) == LKS_OK);
    LKT_CHECK(lks_model_step(m.model, batch, rank == 2 ? .25 : .1, NULL) == LKS_E_INVALID);
    LKT_SAYS("rank 2 (host ");
    LKT_SAYS("takes step 2 at the learning rate 0.25, rank 0 at 0.1; all ranks");
    LKT_CHECK(lks_model_gradient(m.model, batch, &sum) == LKS_OK); /* which has none */
    LKT_CHECK(lks_model_progress(m.model).step == 1);
    LKT_CHECK(lks_model_step(m.model, batch, .1, NULL) == LKS_OK);
    lkt_small_end(&m);
    return 0;
}

/* Each rank has samples of its own, as programs for other trainers have. */
static int other_samples(lks_comm *comm, int rank, void *user)
{
    lkt_small m = {.model = NULL};
    (void)user;
    LKT_CHECK(lkt_small_build(&m, comm, (lks_model_opts){0}) == LKS_OK);
    const lks_batch *batch = lkt_small_batch();
    float x[SMALL_SAMPLES * SMALL_WIDTH];
    for (int end = 0; end < 2; end++) {
        memcpy(x, batch->x, sizeof x);
        if (rank == 1) x[end == 0 ? 1 : SMALL_SAMPLES * SMALL_WIDTH - 1] += .5F;
        lks_batch own = *batch;
        own.x = x;
        LKT_CHECK(lks_model_step(m.model, &own, .1, NULL) == LKS_E_INVALID);
        LKT_SAYS("rank 1 (host ");
        LKT_SAYS("takes step 1 with other samples than rank 0; give all ranks the same");
    }
    LKT_CHECK(lks_model_progress(m.model).step == 0);
    LKT_CHECK(lks_model_step(m.model, batch, .1, NULL) == LKS_OK);
    lks_batch own = *batch;
    own.x = x;
    LKT_CHECK(lks_model_step(m.model, &own, .1, NULL) == LKS_OK); /* the first batch tells */
    lkt_small_end(&m);
    return 0;
}

static void what_a_step_gets(void **state)
{
    (void)state;
    (void)lkt_small_batch();
    lkt_ranks(&(lkt_hub_opts){.size = SMALL_RANKS}, NULL, other_samples, NULL);
    lkt_ranks(&(lkt_hub_opts){.size = SMALL_RANKS, .share = true}, NULL, other_samples, NULL);
    lkt_ranks(&(lkt_hub_opts){.size = SMALL_RANKS}, NULL, learning_rates, NULL);
    lkt_ranks(&(lkt_hub_opts){.size = SMALL_RANKS, .share = true}, NULL, learning_rates, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_layer_is_named),
        cmocka_unit_test(seeds_and_devices),
        cmocka_unit_test(updates),
        cmocka_unit_test(what_a_step_gets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

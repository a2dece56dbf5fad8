#include "support/ranks/small.h"

#include "base/check.h"

static float x[SMALL_SAMPLES * SMALL_WIDTH];
static int32_t y[SMALL_SAMPLES];
static int64_t ids[SMALL_SAMPLES];

const lks_batch *lkt_small_batch(void)
{
    static const lks_batch all = {.x = x, .y = y, .ids = ids, .count = SMALL_SAMPLES};
    lkt_random random = {.state = 61};
    if (ids[0] != 0) return &all;
    for (int i = 0; i < SMALL_SAMPLES * SMALL_WIDTH; i++)
        x[i] = (float)lkt_random_real(&random, -1, 1);
    for (int i = SMALL_SAMPLES - 1; i >= 0; i--) {
        y[i] = (int32_t)lkt_random_below(&random, SMALL_CLASSES);
        ids[i] = 1000 + i;
    }
    return &all;
}

lks_status lkt_small_begin(lkt_small *m, const lks_context_opts *how)
{
    const lks_context_opts usual = {.seed = 3};
    LKI_TRY(lks_context_create(&m->context, how != NULL ? how : &usual));
    LKI_TRY(lks_graph_create(&m->graph, m->context));
    lks_tensor *in = lks_input(m->graph, &(lks_input_opts){.shape = {1, {SMALL_WIDTH}}});
    lks_tensor *h = lks_dense(m->graph, in, &(lks_dense_opts){.name = "fc1", .units = 8});
    h = lks_tanh(m->graph, h); /* relu would hide a NaN */
    lks_tensor *out = lks_dense(m->graph, h,
                                &(lks_dense_opts){.name = "fc2", .units = SMALL_CLASSES});
    lks_tensor *target = lks_target(m->graph, &(lks_target_opts){.classes = SMALL_CLASSES});
    m->loss = lks_cross_entropy(m->graph, out, target, NULL);
    return lks_graph_status(m->graph);
}

lks_status lkt_small_compile(lkt_small *m, lks_comm *comm, lks_model_opts opts)
{
    opts.loss = m->loss;
    if (opts.global_batch == 0) opts.global_batch = SMALL_SAMPLES;
    if (opts.replicas == 0) opts.replicas = 6;
    if (opts.workers == 0) opts.workers = 1;
    if (opts.hash_every == 0) opts.hash_every = 2;
    opts.comm = comm;
    return lks_model_compile(&m->model, m->graph, &opts);
}

lks_status lkt_small_build(lkt_small *m, lks_comm *comm, lks_model_opts opts)
{
    LKI_TRY(lkt_small_begin(m, NULL));
    return lkt_small_compile(m, comm, opts);
}

void lkt_small_end(lkt_small *m)
{
    lks_model_destroy(m->model);
    lks_graph_destroy(m->graph);
    lks_context_destroy(m->context);
}

static int tell(lks_comm *comm, int rank, void *user)
{
    const lkt_story *story = user;
    lkt_small m = {.context = NULL};
    LKT_CHECK(comm != NULL);
    LKT_CHECK(lkt_small_build(&m, comm, story->opts) == LKS_OK);
    const int result = story->body(&m, rank, story->user);
    lkt_small_end(&m);
    return result;
}

void lkt_small_tell(int ranks, const lkt_story *story)
{
    (void)lkt_small_batch();
    lkt_ranks(&(lkt_hub_opts){.size = ranks, .seed = 5, .delay = 2, .share = true}, NULL, tell,
              (void *)(uintptr_t)story);
}

#include "support/ranks/small.h"

#include "base/check.h"
#include "comm/flight.h"

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

int lkt_small_rank(lks_comm *comm, int rank, void *user)
{
    const lkt_story *story = user;
    const lkt_small_builder build = story->build != NULL ? story->build : lkt_small_build;
    lkt_small m = {.context = NULL};
    LKT_CHECK(comm != NULL);
    LKT_CHECK(build(&m, comm, story->opts) == LKS_OK);
    const int result = story->body(&m, rank, story->user);
    lkt_small_end(&m);
    return result;
}

void lkt_small_tell(int ranks, const lkt_story *story)
{
    (void)lkt_small_batch();
    lkt_ranks(&(lkt_hub_opts){.size = ranks, .seed = 5, .delay = 2, .share = !story->apart}, NULL,
              lkt_small_rank, (void *)(uintptr_t)story);
}

int lkt_small_bad_label(lkt_small *m, int rank, lks_batch *batch, int32_t labels[SMALL_SAMPLES])
{
    *batch = *lkt_small_batch();
    memcpy(labels, batch->y, SMALL_SAMPLES * sizeof *labels);
    if (rank == 1) labels[13] = SMALL_CLASSES;
    batch->y = labels;
    LKT_CHECK(lks_model_step(m->model, batch, .1, NULL) == LKS_E_INVALID);
    if (rank != 1) LKT_SAYS("rank 1 (host ");
    LKT_SAYS("the label of sample 1013 is 3");
    return 0;
}

typedef struct endurance {
    lkt_small_builder build;
    int steps;
    uint64_t hash[8]; /* after so many */
} endurance;

static int endures(lks_comm *comm, int rank, void *user)
{
    const endurance *e = user;
    lkt_small m = {.model = NULL};
    lks_status status = comm == NULL ? LKS_E_COMM : LKS_OK;
    (void)rank;
    if (status == LKS_OK) status = e->build(&m, comm, (lks_model_opts){.workers = 2});
    for (int i = 0; i < e->steps && status == LKS_OK; i++)
        status = lks_model_step(m.model, lkt_small_batch(), .1, NULL);
    LKT_CHECK(status == LKS_OK || lks_last_error()->message[0] != '\0');
    if (m.model != NULL && (status == LKS_OK || !lki_spreads(m.model))) {
        uint64_t hash;
        LKT_CHECK(lks_model_hash(m.model, &hash) == LKS_OK);
        LKT_CHECK(hash == e->hash[lks_model_progress(m.model).step]);
    }
    lkt_small_end(&m);
    return status == LKS_OK ? 0 : 2;
}

void lkt_small_endure(lkt_small_builder build, int steps, void (*aim)(lkt_hub_opts *hub, int n))
{
    endurance e = {.build = build, .steps = steps};
    lkt_small m = {.model = NULL};
    (void)lkt_small_batch();
    LKT_OK(build(&m, NULL, (lks_model_opts){.workers = 1}));
    for (int i = 0; i <= steps; i++) {
        LKT_OK(lks_model_hash(m.model, &e.hash[i]));
        LKT_OK(lks_model_step(m.model, lkt_small_batch(), .1, NULL));
    }
    lkt_small_end(&m);
    for (int n = 1, failed = 1; failed > 0; n++) {
        int results[LKT_MOST_RANKS];
        lkt_hub_opts hub = {.size = SMALL_RANKS, .seed = 9, .share = n % 2 == 0};
        aim(&hub, n);
        lkt_ranks_run(&hub, NULL, endures, &e, results);
        failed = 0;
        for (int r = 0; r < SMALL_RANKS; r++) failed += results[r] == 2;
        for (int r = 0; r < SMALL_RANKS; r++) assert_true(results[r] == 0 || results[r] == 2);
        assert_true(n < 400);
    }
}

static int trains(lkt_small *m, int rank, void *user)
{
    const lkt_small_run *run = user;
    uint64_t hash = 0;
    (void)rank;
    for (int i = 0; i < run->steps; i++)
        LKT_CHECK(lks_model_step(m->model, run->batch, .05, NULL) == LKS_OK);
    LKT_CHECK(lks_model_hash(m->model, &hash) == LKS_OK && hash == run->hash);
    return 0;
}

void lkt_small_any_ranks(const lkt_small_run *run)
{
    lkt_small_run own = *run;
    for (int ranks = 2; ranks <= 4; ranks++)
        for (int apart = 0; apart < 3; apart++) /* 2: and the optimizer is spread */
            lkt_small_tell(ranks, &(lkt_story){.build = run->build,
                                               .opts = {.workers = 1,
                                                        .optim = lks_adam(),
                                                        .hash_every = run->hash_every,
                                                        .shard = apart == 2},
                                               .body = trains,
                                               .user = &own,
                                               .apart = apart > 0});
}

void lkt_pretend_hosts(lks_comm *comm, int each)
{
    for (int r = 0; r < comm->size; r++) comm->peers[r].machine = 1 + (uint64_t)(r / each);
    comm->local_size = each;
    comm->local_rank = comm->rank % each;
}

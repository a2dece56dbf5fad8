/* A small network with every kind of state (parameters, running statistics, a counter, what an
 * optimizer keeps), and data for it from an integer formula. */
#ifndef LKT_TRAIN_TINY_H
#define LKT_TRAIN_TINY_H

#include "support/backends.h"
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include <lockstep/lockstep.h>

enum { TINY_FEATURES = 6, TINY_CLASSES = 3, TINY_SAMPLES = 53, TINY_BATCH = 8 };

typedef struct tiny_opts { /* zero: the default */
    const char *device;    /* default ref */
    uint64_t seed;
    int64_t batch;    /* default TINY_BATCH */
    int replicas;     /* default 4 */
    int workers;      /* default 1 */
    int hash_every;   /* default 10 */
    int64_t hidden;   /* units; default 5 */
    const char *name; /* of the first layer; default "fc1" */
    bool shallow;     /* no hidden layer */
    lks_optim optim;
    lks_model_opts model; /* further options: those that no field above sets */
    lks_allocator allocator;
    lks_log_fn log;
} tiny_opts;

typedef struct tiny {
    lks_context *context;
    lks_graph *graph;
    lks_model *model;
} tiny;

static inline tiny tiny_open(const tiny_opts *opts)
{
    tiny t;
    const char *device = opts->device ? opts->device : lkt_device("ref");
    LKT_OK(lks_context_create(&t.context, &(lks_context_opts){.device = device,
                                                              .seed = opts->seed,
                                                              .allocator = opts->allocator,
                                                              .log = opts->log}));
    LKT_OK(lks_graph_create(&t.graph, t.context));
    lks_tensor *x = lks_input(t.graph, &(lks_input_opts){.shape = LKS_SHAPE(TINY_FEATURES)});
    lks_tensor *y = lks_target(t.graph, &(lks_target_opts){.classes = TINY_CLASSES});
    if (!opts->shallow) {
        const lks_dense_opts first = {.name = opts->name ? opts->name : "fc1",
                                      .units = opts->hidden ? opts->hidden : 5};
        x = lks_dense(t.graph, x, &first);
        x = lks_batch_norm(t.graph, x, &(lks_batch_norm_opts){.name = "bn"});
        x = lks_relu(t.graph, x);
        x = lks_dropout(t.graph, x, &(lks_dropout_opts){.probability = 0.25f});
    }
    x = lks_dense(t.graph, x, &(lks_dense_opts){.name = "head", .units = TINY_CLASSES});
    lks_model_opts model = opts->model;
    model.loss = lks_cross_entropy(t.graph, x, y, NULL);
    model.global_batch = opts->batch ? opts->batch : TINY_BATCH;
    model.replicas = opts->replicas ? opts->replicas : 4;
    model.workers = opts->workers ? opts->workers : 1;
    model.hash_every = opts->hash_every ? opts->hash_every : 10;
    model.optim = opts->optim;
    LKT_OK(lks_model_compile(&t.model, t.graph, &model));
    return t;
}

static inline void tiny_close(tiny *t)
{
    lks_model_destroy(t->model);
    lks_graph_destroy(t->graph);
    lks_context_destroy(t->context);
}

static inline void tiny_sample(int64_t id, float x[TINY_FEATURES], int32_t *y)
{
    for (int64_t k = 0; k < TINY_FEATURES; k++) {
        x[k] = (float)((id * 31 + k * 17 + id * k) % 23 - 11) / 8.0f;
    }
    *y = (int32_t)(id % TINY_CLASSES);
}

/* `count` more steps, on batches that follow from the step's number. */
static inline void tiny_steps(tiny *t, int64_t count)
{
    enum { MOST = 64 };
    float x[MOST][TINY_FEATURES];
    int32_t y[MOST];
    int64_t ids[MOST];
    const int64_t batch = lks_model_get_info(t->model).global_batch;
    for (; count > 0; count--) {
        const int64_t step = lks_model_progress(t->model).step;
        for (int64_t i = 0; i < batch; i++) {
            ids[i] = (step * batch + i) % TINY_SAMPLES;
            tiny_sample(ids[i], x[i], &y[i]);
        }
        LKT_OK(lks_model_step(t->model, &(lks_batch){.x = x, .y = y, .ids = ids, .count = batch},
                              0.1, NULL));
    }
}

static inline uint64_t tiny_hash(tiny *t)
{
    uint64_t hash;
    LKT_OK(lks_model_hash(t->model, &hash));
    return hash;
}

/* All that a checkpoint must bring back: the state's bytes, and where the run is. */
typedef struct tiny_state {
    lks_progress progress;
    size_t bytes;
    uint8_t data[4096];
} tiny_state;

static inline tiny_state tiny_read(tiny *t)
{
    tiny_state all = {.progress = lks_model_progress(t->model)};
    for (int i = 0; i < lks_model_state_count(t->model); i++) {
        const lks_state_info info = lks_model_state_info(t->model, i);
        if (info.kind == LKS_GRADIENT) continue;
        assert_true(all.bytes + info.bytes <= sizeof all.data);
        LKT_OK(lks_model_state_read(t->model, i, all.data + all.bytes, info.bytes));
        all.bytes += info.bytes;
    }
    return all;
}

static inline void tiny_assert_same(const tiny_state *a, const tiny_state *b)
{
    assert_int_equal(a->progress.step, b->progress.step);
    assert_int_equal(a->progress.link, b->progress.link);
    assert_int_equal(a->bytes, b->bytes);
    assert_memory_equal(a->data, b->data, a->bytes);
}

/* The record of a run that has only stepped. */
static inline lks_run tiny_run(tiny *t)
{
    const lks_model_info info = lks_model_get_info(t->model);
    return (lks_run){.progress = lks_model_progress(t->model),
                     .seed = lks_context_seed(t->context),
                     .global_batch = info.global_batch,
                     .replicas = info.replicas,
                     .hash_every = info.hash_every,
                     .fingerprint = lks_context_fingerprint(t->context),
                     .best_step = -1};
}

#endif

/*
 * Replicas without an array of gradients, which are joined to their neighbours' stage by stage: the bits of workers that have
 * a replica each, where nothing is joined; and what memory that leaves. Stages that differ in size, in halves, of one
 * segment and of many, formed again, with a weight of two stages, replicas without samples.
 */
#include <string.h>

#include "model/model.h"
#include "numeric/hash.h"
#include "support/runs.h"
#include "support/test.h"

enum { MOST = 9, MOST_WORKERS = 4, SAMPLES = 23, FEW = 5, POSITIONS = 7, WORDS = 11, UNITS = 6 };

static lkt_images images;
static int32_t token[SAMPLES][POSITIONS], next[SAMPLES][POSITIONS];

/* A network, what it is fed with, and what its stages' gradients come to, in floats rounded up to cache lines. */
typedef struct network {
    const char *name;
    lks_tensor *(*build)(lks_graph *graph);
    const void *x, *y;
    int64_t scratch, array; /* 0: is not looked at */
    int step;               /* so many replicas, and its multiples; 0: 1 */
    lks_model_opts opts;
} network;

/* The third convolution has most: 1,080 and 20. */
static lks_tensor *unlike(lks_graph *g)
{
    lks_tensor *x = lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(12, 10, 3), .dtype = LKS_U8});
    x = lks_normalize(
        g, x, &(lks_normalize_opts){.count = 1, .mean = (float[]){.4f}, .std = (float[]){.3f}});
    x = lks_relu(g, lks_conv2d(g, x, &(lks_conv2d_opts){.filters = 24, .kernel = {3, 3}}));
    x = lks_conv2d(g, x, &(lks_conv2d_opts){.filters = 6, .kernel = {1, 1}, .no_bias = true});
    x = lks_relu(g, lks_batch_norm(g, x, NULL));
    x = lks_tanh(g, lks_conv2d(g, x, &(lks_conv2d_opts){.filters = 20, .kernel = {3, 3}}));
    x = lks_dense(g, lks_global_avg_pool(g, x), &(lks_dense_opts){.units = 5});
    return lks_cross_entropy(g, x, lks_target(g, &(lks_target_opts){.classes = 5}), NULL);
}

/* The weight of 66 is formed by the last stage and by the first; the position has 42, and a bias 11. */
static lks_tensor *tied(lks_graph *g)
{
    lks_tensor *x = lks_input(
        g, &(lks_input_opts){.shape = LKS_SHAPE(POSITIONS), .dtype = LKS_I32, .vocabulary = WORDS});
    lks_tensor *words = lks_embedding(g, x, &(lks_embedding_opts){.units = UNITS});
    x = lks_tanh(g, lks_position(g, words, NULL));
    x = lks_dense(g, x, &(lks_dense_opts){.units = WORDS, .weight_of = words});
    lks_tensor *y = lks_target(g,
                               &(lks_target_opts){.classes = WORDS, .shape = LKS_SHAPE(POSITIONS)});
    return lks_cross_entropy(g, x, y, NULL);
}

static int fill(void **state)
{
    (void)state;
    images = lkt_images_make(SAMPLES);
    for (int i = 0; i < SAMPLES; i++)
        for (int t = 0; t < POSITIONS; t++) {
            token[i][t] = (i * 5 + t * t * 3) % WORDS;
            next[i][t] = (token[i][t] + t) % WORDS;
        }
    return 0;
}

static int empty(void **state)
{
    (void)state;
    lkt_images_free(&images);
    return 0;
}

/* As few arrays as there can be, and a scratch only where that saves one. */
static void check_memory(const network *net, const lks_model *model)
{
    const int64_t scratch = model->program.joined_count;
    if (net->scratch > 0) assert_int_equal(scratch, net->scratch);
    if (net->array > 0) assert_int_equal(model->gradient_count, net->array);
    assert_in_range(scratch, 1, model->gradient_count);
    for (int w = 0; w < model->workers; w++) {
        const lki_worker *worker = &model->worker[w];
        const lki_holder *holder = &model->reduce.holder[w];
        const int64_t v = model->program.replicas;
        const bool together = model->program.meetings > 0;
        const int apart = together ? (int)(worker->last - worker->first)
                                   : lki_tree_slots(v, worker->first, worker->last);
        const int joined = together ? apart : lki_tree_slots_joined(v, worker->first, worker->last);
        assert_int_equal(holder->arrays, joined);
        assert_int_equal(holder->joins, joined < apart);
        assert_int_equal(holder->scratch != NULL, joined < apart);
        assert_int_equal(lki_worker_gradient_bytes(model, w),
                         (joined * model->gradient_count + (joined < apart ? scratch : 0)) * 4);
    }
}

/* Of a step, of one in which most replicas have no sample, and of the gradient behind them. */
static uint64_t hash_of(const network *net, const char *device, int replicas, int workers)
{
    uint64_t hash = 0;
    lks_batch batch = {.x = net->x, .y = net->y, .count = SAMPLES};
    lkt_model m = lkt_begin(&(lks_context_opts){.device = device, .seed = 5});
    lks_model_opts opts = net->opts;
    opts.loss = net->build(m.graph);
    opts.global_batch = SAMPLES;
    opts.replicas = replicas;
    opts.workers = workers;
    lkt_compile(&m, &opts);
    check_memory(net, m.model);
    LKT_OK(lks_model_step(m.model, &batch, .1, NULL));
    batch.count = FEW;
    LKT_OK(lks_model_step(m.model, &batch, .1, NULL));
    LKT_OK(lks_model_gradient(m.model, &batch, NULL));
    for (int i = 0; i < lks_model_state_count(m.model); i++) {
        const lks_state_info info = lks_model_state_info(m.model, i);
        char values[1 << 17];
        assert_true(info.bytes + sizeof hash <= sizeof values);
        LKT_OK(lks_model_state_read(m.model, i, values, info.bytes));
        memcpy(values + info.bytes, &hash, sizeof hash);
        hash = lki_hash(values, info.bytes + sizeof hash);
    }
    lkt_end(&m);
    return hash;
}

static void check_workers(const network *net, const char *device)
{
    const int step = net->step > 0 ? net->step : 1;
    for (int v = step; v <= MOST; v += lkt_in_part() ? 3 * step : step) {
        const uint64_t expected = hash_of(net, device, v, v);
        for (int w = 1; w <= MOST_WORKERS && w < v; w++) {
            const uint64_t found = hash_of(net, device, v, w);
            if (found != expected)
                fail_msg("%s on %s, %d replicas, %d workers: hash %016llx, expected %016llx",
                         net->name, device, v, w, (unsigned long long)found,
                         (unsigned long long)expected);
        }
    }
}

static void stages_that_differ(void **state)
{
    (void)state;
    const network net = {.name = "unlike",
                         .build = unlike,
                         .x = images.x,
                         .y = images.y,
                         .scratch = 1088 + 32,
                         .opts = {.by_replica = true, .optim = lks_sgd(.9f)}};
    check_workers(&net, "cpu");
    check_workers(&net, "ref");
}

static void clipped(void **state)
{
    (void)state;
    const network net = {.name = "clipped",
                         .build = unlike,
                         .x = images.x,
                         .y = images.y,
                         .opts = {.clip_norm = .1, .optim = lks_adamw()}};
    check_workers(&net, "cpu");
}

static void formed_again(void **state)
{
    (void)state;
    const network net = {.name = "deep",
                         .build = lkt_net_deep,
                         .x = images.x,
                         .y = images.y,
                         .step = 3,
                         .opts = {.recompute = true, .optim = lks_lamb()}};
    check_workers(&net, "cpu");
}

/* Nothing is joined where all replicas of a worker are formed together. */
static void replicas_that_meet(void **state)
{
    (void)state;
    const network net = {.name = "synced",
                         .build = lkt_net_synced,
                         .x = images.x,
                         .y = images.y,
                         .step = 5,
                         .opts = {.optim = lks_sgd(.9f)}};
    check_workers(&net, "cpu");
}

static void a_weight_of_two_stages(void **state)
{
    (void)state;
    const network net = {.name = "tied",
                         .build = tied,
                         .x = token,
                         .y = next,
                         .scratch = 48 + 80,
                         .array = 80 + 48 + 16,
                         .opts = {.optim = lks_adam()}};
    check_workers(&net, "cpu");
    check_workers(&net, "ref");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_that_differ),     cmocka_unit_test(clipped),
        cmocka_unit_test(formed_again),           cmocka_unit_test(replicas_that_meet),
        cmocka_unit_test(a_weight_of_two_stages),
    };
    return cmocka_run_group_tests(tests, fill, empty);
}

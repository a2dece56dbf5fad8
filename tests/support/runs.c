#include "support/runs.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "numeric/hash.h"
#include "support/backends.h"
#include "support/test.h"

enum { HEIGHT = 12, WIDTH = 10, CHANNELS = 3, CLASSES = 5, PIXELS = HEIGHT * WIDTH * CHANNELS };

static lks_tensor *image(lks_graph *graph)
{
    lks_tensor *x = lks_input(graph, &(lks_input_opts){.name = "x",
                                                       .shape = LKS_SHAPE(HEIGHT, WIDTH, CHANNELS),
                                                       .dtype = LKS_U8});
    return lks_normalize(
        graph, x,
        &(lks_normalize_opts){.count = 1, .mean = (float[]){.5f}, .std = (float[]){.25f}});
}

static lks_tensor *loss(lks_graph *graph, lks_tensor *logits)
{
    lks_tensor *y = lks_target(graph, &(lks_target_opts){.name = "y", .classes = CLASSES});
    return lks_cross_entropy(graph, logits, y, &(lks_cross_entropy_opts){.label_smoothing = .1f});
}

lks_tensor *lkt_net_mlp(lks_graph *graph)
{
    lks_tensor *x = lks_flatten(graph, image(graph));
    x = lks_relu(graph, lks_dense(graph, x, &(lks_dense_opts){.units = 37}));
    x = lks_dropout(graph, x, &(lks_dropout_opts){.probability = .3f});
    return loss(graph, lks_dense(graph, x, &(lks_dense_opts){.units = CLASSES}));
}

lks_tensor *lkt_net_conv(lks_graph *graph)
{
    lks_tensor *x = image(graph);
    x = lks_conv2d(graph, x, &(lks_conv2d_opts){.filters = 8, .kernel = {3, 3}});
    x = lks_relu(graph, x);
    x = lks_conv2d(graph, x, &(lks_conv2d_opts){.filters = 16, .kernel = {3, 3}});
    x = lks_relu(graph, x);
    x = lks_max_pool(graph, x, &(lks_pool_opts){.kernel = {2, 2}});
    x = lks_dropout(graph, x, &(lks_dropout_opts){.probability = .25f});
    x = lks_flatten(graph, x);
    x = lks_relu(graph, lks_dense(graph, x, &(lks_dense_opts){.units = 19}));
    x = lks_dropout(graph, x, &(lks_dropout_opts){.probability = .5f});
    x = lks_log_softmax(graph, lks_dense(graph, x, &(lks_dense_opts){.units = CLASSES}));
    lks_tensor *y = lks_target(graph, &(lks_target_opts){.classes = CLASSES});
    return lks_nll(graph, x, y);
}

static lks_tensor *block(lks_graph *graph, lks_tensor *x, int64_t filters, int64_t stride)
{
    lks_tensor *y = lks_conv2d(graph, x,
                               &(lks_conv2d_opts){.filters = filters,
                                                  .kernel = {3, 3},
                                                  .padding = {1, 1},
                                                  .stride = {stride, stride},
                                                  .no_bias = true});
    y = lks_relu(graph, lks_batch_norm(graph, y, NULL));
    y = lks_conv2d(graph, y,
                   &(lks_conv2d_opts){
                       .filters = filters, .kernel = {3, 3}, .padding = {1, 1}, .no_bias = true});
    y = lks_batch_norm(graph, y, NULL);
    if (stride != 1)
        x = lks_conv2d(
            graph, x,
            &(lks_conv2d_opts){
                .filters = filters, .kernel = {1, 1}, .stride = {stride, stride}, .no_bias = true});
    return lks_relu(graph, lks_add(graph, x, y));
}

lks_tensor *lkt_net_residual(lks_graph *graph)
{
    lks_tensor *x = image(graph);
    x = lks_conv2d(graph, x, &(lks_conv2d_opts){.filters = 6, .kernel = {3, 3}});
    x = block(graph, x, 6, 1);
    x = block(graph, x, 8, 2);
    x = lks_avg_pool(graph, x,
                     &(lks_pool_opts){.kernel = {2, 2}, .stride = {1, 1}, .padding = {1, 1}});
    x = lks_global_avg_pool(graph, x);
    return loss(graph, lks_dense(graph, x, &(lks_dense_opts){.units = CLASSES}));
}

/* Replicas meet six times, at last in the middle of dense layers; one batch norm is a replica's own. */
lks_tensor *lkt_net_synced(lks_graph *graph)
{
    const lks_batch_norm_opts sync = {.sync = true, .momentum = .3f, .epsilon = 1e-3f};
    lks_tensor *x = image(graph);
    x = lks_conv2d(graph, x, &(lks_conv2d_opts){.filters = 6, .kernel = {3, 3}});
    x = block(graph, x, 6, 1);
    x = lks_dropout(graph, x, &(lks_dropout_opts){.probability = .25f, .by_sample = true});
    x = lks_batch_norm(graph, block(graph, x, 8, 2), NULL);
    LKT_OK(lks_graph_sync_batch_norm(graph, NULL));
    x = lks_batch_norm(graph, lks_flatten(graph, x), NULL);
    x = lks_dropout(graph, x, &(lks_dropout_opts){.probability = .3f});
    x = lks_batch_norm(graph, lks_dense(graph, x, &(lks_dense_opts){.units = 17}), &sync);
    x = lks_dense(graph, lks_relu(graph, x), &(lks_dense_opts){.units = 9});
    return loss(graph, lks_dense(graph, x, &(lks_dense_opts){.units = CLASSES}));
}

/* Squeeze-and-excitation: x times a gate for each channel. */
static lks_tensor *gated(lks_graph *graph, lks_tensor *x, int64_t channels)
{
    lks_tensor *y = lks_global_avg_pool(graph, x);
    y = lks_silu(graph, lks_dense(graph, y, &(lks_dense_opts){.units = 3}));
    y = lks_sigmoid(graph, lks_dense(graph, y, &(lks_dense_opts){.units = channels}));
    return lks_mul(graph, x, y);
}

lks_tensor *lkt_net_gated(lks_graph *graph)
{
    const lks_conv2d_opts wide = {.filters = 6, .kernel = {3, 3}, .padding = {1, 1}};
    lks_tensor *x = image(graph);
    x = lks_gelu(graph, lks_conv2d(graph, x, &wide), NULL);
    lks_tensor *y = lks_conv2d(graph, x, &wide);
    y = lks_gelu(graph, y, &(lks_gelu_opts){.form = LKS_GELU_TANH});
    y = lks_scale(graph, gated(graph, y, 6), &(lks_scale_opts){.factor = .3f});
    x = lks_add(graph, x, y);
    y = lks_tanh(graph, lks_conv2d(graph, x, &wide));
    x = lks_mul(graph, y, lks_leaky_relu(graph, x, NULL));
    x = lks_add(graph, lks_mul(graph, x, x), lks_global_avg_pool(graph, x));
    x = lks_global_avg_pool(graph, lks_silu(graph, x));
    return loss(graph, lks_dense(graph, x, &(lks_dense_opts){.units = CLASSES}));
}

lks_tensor *lkt_net_joined(lks_graph *graph)
{
    const lks_pool_opts average = {
        .kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}, .exclude_padding = true};
    lks_tensor *x = image(graph);
    x = lks_conv2d(graph, x, &(lks_conv2d_opts){.filters = 6, .kernel = {3, 3}});
    lks_tensor *a = lks_relu(graph, lks_layer_norm(graph, x, NULL));
    lks_tensor *b = lks_layer_norm(graph, x, &(lks_layer_norm_opts){.dims = 3});
    x = lks_concat(graph, a, lks_avg_pool(graph, b, &average));
    x = lks_conv2d(graph, x, &(lks_conv2d_opts){.filters = 8, .kernel = {3, 3}, .stride = {2, 2}});
    x = lks_layer_norm(graph, x, &(lks_layer_norm_opts){.dims = 2, .no_affine = true});
    x = lks_relu(graph, lks_layer_norm(graph, x, &(lks_layer_norm_opts){.dims = 2}));
    x = lks_global_avg_pool(graph, lks_concat(graph, x, x));
    x = lks_layer_norm(graph, x, NULL);
    return loss(graph, lks_dense(graph, x, &(lks_dense_opts){.units = CLASSES}));
}

/* Four blocks of which each has what backward reads in another way: batch norm with what is added to it; draws of
 * dropout; places of maxima; a joint segment behind them. One tensor is read by two later blocks. */
lks_tensor *lkt_net_deep(lks_graph *g)
{
    const lks_conv2d_opts wide = {.filters = 16, .kernel = {3, 3}, .padding = {1, 1}};
    lks_tensor *x = lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(12, 10, 3), .dtype = LKS_U8});
    x = lks_normalize(
        g, x, &(lks_normalize_opts){.count = 1, .mean = (float[]){.4f}, .std = (float[]){.3f}});
    x = lks_relu(g, lks_conv2d(g, x, &wide));
    lks_tensor *early = x;
    for (int i = 0; i < 3; i++) {
        lks_tensor *y = lks_relu(g, lks_batch_norm(g, lks_conv2d(g, x, &wide), NULL));
        y = lks_batch_norm(g, lks_conv2d(g, y, &wide), NULL);
        x = lks_relu(g, lks_add(g, x, y));
        x = lks_dropout(g, x, &(lks_dropout_opts){.probability = .2f});
    }
    x = lks_gelu(g, lks_conv2d(g, lks_add(g, x, early), &wide), NULL);
    x = lks_max_pool(g, lks_tanh(g, lks_conv2d(g, x, &wide)), &(lks_pool_opts){.kernel = {2, 2}});
    x = lks_layer_norm(g, lks_silu(g, lks_conv2d(g, x, &wide)), NULL);
    x = lks_relu(g, lks_dense(g, lks_flatten(g, x), &(lks_dense_opts){.units = 33}));
    x = lks_dense(g, lks_dropout(g, x, NULL), &(lks_dense_opts){.units = 5});
    return lks_cross_entropy(g, x, lks_target(g, &(lks_target_opts){.classes = 5}), NULL);
}

lkt_images lkt_images_make(int64_t samples)
{
    lkt_images images = {.x = malloc((size_t)(samples * PIXELS)),
                         .y = malloc((size_t)samples * sizeof(int32_t)),
                         .samples = samples};
    assert_non_null(images.x);
    assert_non_null(images.y);
    for (int64_t i = 0; i < samples * PIXELS; i++)
        images.x[i] = (uint8_t)(((uint64_t)i * 2654435761u + 12345u) >> 13);
    for (int64_t i = 0; i < samples; i++)
        images.y[i] = (int32_t)(((uint64_t)i * 2246822519u >> 7) % CLASSES);
    return images;
}

void lkt_images_free(lkt_images *images)
{
    free(images->x);
    free(images->y);
}

lkt_model lkt_begin(const lks_context_opts *opts)
{
    lkt_model m = {.model = NULL};
    LKT_OK(lks_context_create(&m.context, opts));
    LKT_OK(lks_graph_create(&m.graph, m.context));
    return m;
}

void lkt_compile(lkt_model *m, const lks_model_opts *opts)
{
    LKT_OK(lks_model_compile(&m->model, m->graph, opts));
}

void lkt_end(lkt_model *m)
{
    lks_model_destroy(m->model);
    lks_graph_destroy(m->graph);
    lks_context_destroy(m->context);
}

/* What a run is made of; zeroed, then freed whatever became of it. */
typedef struct parts {
    lkt_model m;
    lks_dataset *data;
    lks_loader *loader;
    lkt_images images;
} parts;

static lks_status make(const lkt_run *run, parts *it)
{
    it->images = lkt_images_make(run->samples);
    LKI_TRY(lks_context_create(
        &it->m.context,
        &(lks_context_opts){.device = run->device != NULL ? run->device : lkt_device(NULL),
                            .seed = 7}));
    LKI_TRY(lks_dataset_from_arrays(&it->data, it->m.context,
                                    &(lks_dataset_info){.samples = run->samples,
                                                        .shape = LKS_SHAPE(HEIGHT, WIDTH, CHANNELS),
                                                        .dtype = LKS_U8,
                                                        .classes = CLASSES},
                                    it->images.x, it->images.y));
    LKI_TRY(lks_graph_create(&it->m.graph, it->m.context));
    lks_model_opts opts = run->opts;
    opts.loss = run->net(it->m.graph);
    opts.global_batch = run->batch;
    LKI_TRY(lks_model_compile(&it->m.model, it->m.graph, &opts));
    if (run->compiled != NULL) run->compiled(it->m.model, run->user);
    const lks_model_info info = lks_model_get_info(it->m.model);
    lks_loader_opts reads = {.global_batch = run->batch, .threads = -1, .mixup = run->mixup};
    if (!run->whole_batches) {
        reads.shares = info.shares;
        reads.first_share = info.first_share;
        reads.last_share = info.last_share;
    }
    return lks_loader_create(&it->loader, it->m.context, it->data, &reads);
}

/* Of all samples; a rank looks at those of its shares. */
static lks_status evaluate(const lkt_run *run, const parts *it, lks_metrics *sum)
{
    const lks_model_info info = lks_model_get_info(it->m.model);
    const int64_t first = info.first_share * run->samples / info.shares;
    const int64_t last = info.last_share * run->samples / info.shares;
    const lks_batch batch = {
        .x = it->images.x + first * PIXELS, .y = it->images.y + first, .count = last - first};
    LKI_TRY(lks_model_evaluate(it->m.model, &batch, sum));
    return run->opts.comm != NULL ? lks_comm_metrics(run->opts.comm, sum) : LKS_OK;
}

static lks_status work(const lkt_run *run, parts *it, uint64_t *hash, lks_metrics metrics[2])
{
    lks_metrics sums[2] = {{0}, {0}};
    LKI_TRY(make(run, it));
    for (int i = 0; i < run->steps; i++) {
        lks_batch batch;
        lks_metrics part;
        const lks_model_info info = lks_model_get_info(it->m.model);
        LKI_TRY(lks_loader_share(it->loader, info.shares, info.first_share, info.last_share));
        LKI_TRY(lks_loader_next(it->loader, &batch));
        LKI_TRY(lks_model_step(it->m.model, &batch, 0.05, &part));
        lks_metrics_add(&sums[0], &part);
    }
    LKI_TRY(evaluate(run, it, &sums[1]));
    if (metrics != NULL) metrics[0] = sums[0], metrics[1] = sums[1];
    if (run->cuts != NULL) *run->cuts = lks_model_get_info(it->m.model).cuts;
    return lks_model_hash(it->m.model, hash);
}

lks_status lkt_run_try(const lkt_run *run, uint64_t *hash, lks_metrics metrics[2])
{
    parts it = {0};
    const lks_status status = work(run, &it, hash, metrics);
    const lks_error error = *lks_last_error();
    lks_loader_destroy(it.loader);
    lks_dataset_destroy(it.data);
    lkt_end(&it.m);
    lkt_images_free(&it.images);
    if (status != LKS_OK) lki_error_restore(&error);
    return status;
}

uint64_t lkt_state_hash(lks_model *model)
{
    uint64_t hash = 0;
    for (int i = 0; i < lks_model_state_count(model); i++) {
        const lks_state_info info = lks_model_state_info(model, i);
        if (info.kind == LKS_GRADIENT) continue;
        void *values = malloc(info.bytes + sizeof hash);
        if (values == NULL || lks_model_state_read(model, i, values, info.bytes) != LKS_OK) abort();
        memcpy((char *)values + info.bytes, &hash, sizeof hash);
        hash = lki_hash(values, info.bytes + sizeof hash);
        free(values);
    }
    return hash;
}

uint64_t lkt_run_hash(const lkt_run *run, lks_metrics metrics[2])
{
    uint64_t hash = 0;
    LKT_OK(lkt_run_try(run, &hash, metrics));
    return hash;
}

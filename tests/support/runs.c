#include "support/runs.h"

#include <stdlib.h>

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
    lkt_model m = {NULL};
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

uint64_t lkt_run_hash(const lkt_run *run, lks_metrics metrics[2])
{
    lks_dataset *data;
    lks_loader *loader;
    lkt_images images = lkt_images_make(run->samples);
    lks_metrics sums[2] = {{0}, {0}};
    lks_batch batch;
    uint64_t hash;

    lkt_model m = lkt_begin(&(lks_context_opts){
        .device = run->device != NULL ? run->device : lkt_device(NULL), .seed = 7});
    LKT_OK(lks_dataset_from_arrays(&data, m.context,
                                   &(lks_dataset_info){.samples = run->samples,
                                                       .shape = LKS_SHAPE(HEIGHT, WIDTH, CHANNELS),
                                                       .dtype = LKS_U8,
                                                       .classes = CLASSES},
                                   images.x, images.y));
    LKT_OK(lks_loader_create(&loader, m.context, data,
                             &(lks_loader_opts){.global_batch = run->batch, .threads = -1}));
    lks_model_opts opts = run->opts;
    opts.loss = run->net(m.graph);
    opts.global_batch = run->batch;
    lkt_compile(&m, &opts);
    for (int i = 0; i < run->steps; i++) {
        lks_metrics part;
        LKT_OK(lks_loader_next(loader, &batch));
        LKT_OK(lks_model_step(m.model, &batch, 0.05, &part));
        lks_metrics_add(&sums[0], &part);
    }
    batch = (lks_batch){.x = images.x, .y = images.y, .count = images.samples};
    LKT_OK(lks_model_evaluate(m.model, &batch, &sums[1]));
    LKT_OK(lks_model_hash(m.model, &hash));
    if (metrics != NULL) metrics[0] = sums[0], metrics[1] = sums[1];
    lks_loader_destroy(loader);
    lks_dataset_destroy(data);
    lkt_end(&m);
    lkt_images_free(&images);
    return hash;
}

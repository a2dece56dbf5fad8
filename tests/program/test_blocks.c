/*
 * Blocks of convolution, batch norm, sum and activation, which cpu computes by fused kernels: of a ResNet-18
 * for CIFAR, of a ResNet-50, of a MobileNetV2, and what else may stand in such a cluster. A run's bits,
 * with its evaluations, are those of the single operations' kernels, whatever the replicas and workers
 * are; where nothing is fused (ref) this holds too.
 */
#include <string.h>

#include <lockstep/tools.h>

#include "support/backends.h"
#include "support/runs.h"
#include "support/test.h"

enum { CLASSES = 5 };

static lks_tensor *image(lks_graph *g)
{
    lks_tensor *x = lks_input(
        g, &(lks_input_opts){.name = "x", .shape = LKS_SHAPE(12, 10, 3), .dtype = LKS_U8});
    return lks_normalize(
        g, x, &(lks_normalize_opts){.count = 1, .mean = (float[]){.5f}, .std = (float[]){.25f}});
}

static lks_tensor *loss(lks_graph *g, lks_tensor *x)
{
    lks_tensor *y = lks_target(g, &(lks_target_opts){.name = "y", .classes = CLASSES});
    x = lks_dense(g, lks_global_avg_pool(g, x), &(lks_dense_opts){.units = CLASSES});
    return lks_cross_entropy(g, x, y, NULL);
}

/* Convolution and batch norm. */
static lks_tensor *conv(lks_graph *g, lks_tensor *x, int64_t filters, int64_t kernel,
                        int64_t stride)
{
    x = lks_conv2d(g, x,
                   &(lks_conv2d_opts){.filters = filters,
                                      .kernel = {kernel, kernel},
                                      .stride = {stride, stride},
                                      .padding = {kernel / 2, kernel / 2},
                                      .no_bias = true});
    return lks_batch_norm(g, x, NULL);
}

/* A residual block; a projection where the shape changes, built before or behind the main path. */
static lks_tensor *basic(lks_graph *g, lks_tensor *x, int64_t filters, int64_t stride, bool first)
{
    const bool project = stride != 1 || lks_tensor_shape(x).dim[2] != filters;
    lks_tensor *side = project && first ? conv(g, x, filters, 1, stride) : x;
    lks_tensor *y = lks_relu(g, conv(g, x, filters, 3, stride));
    y = conv(g, y, filters, 3, 1);
    if (project && !first) side = conv(g, x, filters, 1, stride);
    return lks_relu(g, first ? lks_add(g, side, y) : lks_add(g, y, side));
}

static lks_tensor *bottleneck(lks_graph *g, lks_tensor *x, int64_t width, int64_t stride)
{
    const bool project = stride != 1 || lks_tensor_shape(x).dim[2] != 4 * width;
    lks_tensor *y = lks_relu(g, conv(g, x, width, 1, 1));
    y = lks_relu(g, conv(g, y, width, 3, stride));
    y = conv(g, y, 4 * width, 1, 1);
    return lks_relu(g, lks_add(g, y, project ? conv(g, x, 4 * width, 1, stride) : x));
}

/* An inverted residual: depthwise in the middle, nothing behind the last batch norm. */
static lks_tensor *inverted(lks_graph *g, lks_tensor *x, int64_t filters, int64_t stride)
{
    const int64_t channels = lks_tensor_shape(x).dim[2], wide = 3 * channels;
    lks_tensor *y = lks_silu(g, conv(g, x, wide, 1, 1));
    y = lks_conv2d(g, y,
                   &(lks_conv2d_opts){.filters = wide,
                                      .kernel = {3, 3},
                                      .stride = {stride, stride},
                                      .padding = {1, 1},
                                      .groups = wide});
    y = conv(g, lks_relu(g, lks_batch_norm(g, y, NULL)), filters, 1, 1);
    return stride == 1 && channels == filters ? lks_add(g, x, y) : y;
}

static lks_tensor *resnet18(lks_graph *g)
{
    lks_tensor *x = lks_relu(g, conv(g, image(g), 16, 3, 1));
    x = basic(g, x, 16, 1, false);
    x = basic(g, x, 35, 2, false);
    x = basic(g, x, 35, 1, true);
    return loss(g, basic(g, x, 48, 2, true));
}

static lks_tensor *resnet50(lks_graph *g)
{
    lks_tensor *x = lks_relu(g, conv(g, image(g), 20, 7, 2));
    x = bottleneck(g, x, 9, 1);
    x = bottleneck(g, x, 9, 1);
    return loss(g, bottleneck(g, x, 17, 2));
}

static lks_tensor *mobilenet(lks_graph *g)
{
    lks_tensor *x = lks_silu(g, conv(g, image(g), 11, 3, 1));
    x = inverted(g, x, 11, 1);
    return loss(g, inverted(g, x, 18, 2));
}

/* Every activation, with and without a sum in front of it; groups, biases. */
static lks_tensor *activations(lks_graph *g)
{
    const lks_conv2d_opts grouped = {
        .filters = 18, .kernel = {3, 1}, .padding = {1, 0}, .groups = 2};
    const lks_leaky_relu_opts slope = {.slope = 0.2f};
    lks_tensor *x = lks_gelu(g, conv(g, image(g), 18, 3, 1), NULL);
    x = lks_softplus(g, lks_batch_norm(g, lks_conv2d(g, x, &grouped), NULL));
    x = lks_leaky_relu(g, conv(g, x, 18, 1, 1), &slope);
    x = lks_tanh(g, lks_add(g, x, conv(g, x, 18, 1, 1)));
    x = lks_sigmoid(g, lks_add(g, conv(g, x, 18, 1, 1), x));
    x = lks_leaky_relu(g, lks_add(g, conv(g, x, 18, 3, 1), x), &slope);
    x = lks_gelu(g, conv(g, x, 18, 1, 1), &(lks_gelu_opts){.form = LKS_GELU_TANH});
    x = lks_tanh(g, conv(g, x, 18, 1, 1));
    x = lks_sigmoid(g, conv(g, x, 18, 1, 1));
    return loss(g, lks_silu(g, lks_add(g, conv(g, x, 18, 1, 1), x)));
}

/* What a cluster may not take: outputs with other readers, sums with a value for each channel; and sums
 * of two clusters, of a cluster with itself or with what its convolution reads. */
static lks_tensor *borders(lks_graph *g)
{
    lks_tensor *x = lks_relu(g, conv(g, image(g), 18, 3, 1));
    lks_tensor *both = conv(g, x, 18, 3, 1);
    x = lks_relu(g, lks_add(g, lks_relu(g, both), both));
    lks_tensor *y = lks_conv2d(g, x, &(lks_conv2d_opts){.filters = 18, .kernel = {1, 1}});
    x = lks_add(g, lks_relu(g, lks_batch_norm(g, y, NULL)), y);
    y = conv(g, x, 18, 1, 1);
    x = lks_relu(g, lks_add(g, y, y));
    x = lks_relu(g, lks_add(g, conv(g, x, 18, 1, 1), conv(g, x, 18, 3, 1)));
    x = lks_relu(g, lks_add(g, conv(g, x, 18, 3, 1), lks_global_avg_pool(g, x)));
    x = lks_add(g, x, lks_relu(g, lks_add(g, x, conv(g, x, 18, 3, 1))));
    return loss(g, x);
}

static const struct {
    const char *name;
    lkt_net build;
    int fused; /* batch norms in one stage with a convolution, on cpu */
} NETS[] = {
    {"resnet18", resnet18, 11},       {"resnet50", resnet50, 12}, {"mobilenet", mobilenet, 7},
    {"activations", activations, 10}, {"borders", borders, 7},
};
enum { NET_COUNT = sizeof NETS / sizeof NETS[0] };

/* Batch 23 of 37 samples: shares differ, and the second batch of an epoch is short. */
static void same_bits_as_single_operations(void **state)
{
    static const struct {
        int replicas, workers;
    } ways[] = {{1, 1}, {3, 1}, {3, 2}, {5, 3}};
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int n = 0; n < NET_COUNT; n++)
            for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
                lks_metrics expected[2], found[2];
                lkt_run run = {.device = lkt_backends()[b]->name,
                               .net = NETS[n].build,
                               .samples = 37,
                               .batch = 23,
                               .steps = lkt_in_part() ? 2 : 3,
                               .opts = {.replicas = ways[w].replicas,
                                        .workers = ways[w].workers,
                                        .hash_every = 2,
                                        .optim = lks_adadelta()}};
                const bool slow = strcmp(run.device, "cpu") != 0;
                if ((slow || lkt_in_part()) && w != 2) continue;
                if (slow && lkt_in_part() && n > 0) continue;
                const uint64_t fused = lkt_run_hash(&run, found);
                run.opts.kernels.single = true;
                run.opts.workers = 1;
                const uint64_t single = lkt_run_hash(&run, expected);
                if (fused != single)
                    fail_msg("%s on %s, %d replicas, %d workers: hash %016llx, of single "
                             "operations %016llx",
                             NETS[n].name, run.device, ways[w].replicas, ways[w].workers,
                             (unsigned long long)fused, (unsigned long long)single);
                assert_memory_equal(found, expected, sizeof found);
            }
}

/* Batch norms that stand in one stage with a convolution. */
static int fused_norms(const lks_model *model)
{
    int count = 0;
    for (int s = 0; s < lks_model_stages(model); s++) {
        const lks_tensor *layer;
        bool conv2d = false;
        for (int i = 0; (layer = lks_model_stage_layer(model, s, i)) != NULL; i++) {
            conv2d |= strncmp(lks_tensor_name(layer), "conv2d", 6) == 0;
            count += conv2d && strncmp(lks_tensor_name(layer), "batch_norm", 10) == 0;
        }
    }
    return count;
}

static void clusters(void **state)
{
    (void)state;
    if (lki_backend_find("cpu") == NULL) skip();
    for (int n = 0; n < NET_COUNT; n++) {
        lkt_model m = lkt_begin(&(lks_context_opts){.device = "cpu"});
        lkt_compile(&m, &(lks_model_opts){.loss = NETS[n].build(m.graph), .global_batch = 4});
        if (fused_norms(m.model) != NETS[n].fused)
            fail_msg("%s: %d batch norms are fused, expected %d", NETS[n].name,
                     fused_norms(m.model), NETS[n].fused);
        lkt_end(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_as_single_operations),
        cmocka_unit_test(clusters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

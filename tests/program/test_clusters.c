/*
 * Networks whose nodes are computed in clusters, on the device `joined` (support/joined.h): the bits of
 * single nodes on ref, whatever a cluster reads beside, where its parameters are, and how many replicas,
 * workers and samples there are.
 */
#include <lockstep/tools.h>

#include <string.h>

#include "model/model.h"
#include "support/joined.h"
#include "support/runs.h"
#include "support/test.h"

enum { CLASSES = 5 };

/* What is added behind a batch norm, where x is read by its convolution and needs a gradient. */
typedef enum side {
    NOTHING,
    X,              /* what the convolution reads */
    BUILT_BEFORE,   /* made of x before the convolution, */
    BUILT_BEHIND,   /* or behind the batch norm: its reader of x would be overtaken */
    NOT_OF_X,       /* behind it, but of the image, which needs no gradient */
    READ_BY_THREE,  /* x, which one before the convolution reads too */
    THREE_OVERTAKEN /* x, which one between the batch norm and the sum reads too */
} side;

static const struct variant {
    side side;
    bool swapped, relu, no_bias;
    const char *stage; /* the layers of the one with the convolution 'c' */
} variants[] = {
    {NOTHING, false, false, false, "c n"},
    {NOTHING, false, true, true, "c n relu_2"},
    {X, false, true, true, "c n add_1 relu_2"},
    {X, true, false, false, "c n add_1"},
    {BUILT_BEFORE, false, true, false, "c n add_1 relu_2"},
    {BUILT_BEFORE, true, true, true, "c n add_1 relu_2"},
    {BUILT_BEHIND, false, true, false, "c n"},
    {BUILT_BEHIND, true, false, true, "c n"},
    {NOT_OF_X, false, true, false, "c n add_1 relu_2"},
    {NOT_OF_X, true, true, true, "c n add_1 relu_2"},
    {READ_BY_THREE, false, true, false, "c n add_1 relu_3"},
    {READ_BY_THREE, true, true, true, "c n add_1 relu_3"},
    {THREE_OVERTAKEN, false, true, false, "c n"},
    {THREE_OVERTAKEN, true, true, true, "c n"},
};
static const struct variant *variant;

static lks_tensor *one_by_one(lks_graph *graph, lks_tensor *x, const char *name)
{
    return lks_conv2d(graph, x, &(lks_conv2d_opts){.name = name, .filters = 5, .kernel = {1, 1}});
}

static lks_tensor *block_net(lks_graph *graph)
{
    lks_tensor *image = lks_input(
        graph, &(lks_input_opts){.shape = LKS_SHAPE(12, 10, 3), .dtype = LKS_U8});
    lks_tensor *y = lks_target(graph, &(lks_target_opts){.classes = CLASSES});
    image = lks_normalize(
        graph, image,
        &(lks_normalize_opts){.count = 1, .mean = (float[]){.4f}, .std = (float[]){.3f}});
    lks_tensor *x = lks_relu(graph, one_by_one(graph, image, "stem"));
    lks_tensor *other = NULL, *third = NULL;
    if (variant->side == BUILT_BEFORE) other = one_by_one(graph, x, "side");
    if (variant->side == READ_BY_THREE) third = lks_relu(graph, x);
    lks_tensor *main = lks_conv2d(graph, x,
                                  &(lks_conv2d_opts){.name = "c",
                                                     .filters = 5,
                                                     .kernel = {3, 3},
                                                     .padding = {1, 1},
                                                     .no_bias = variant->no_bias});
    main = lks_batch_norm(graph, main, &(lks_batch_norm_opts){.name = "n"});
    if (variant->side == THREE_OVERTAKEN) third = lks_sigmoid(graph, x);
    if (variant->side == BUILT_BEHIND) other = one_by_one(graph, x, "side");
    if (variant->side == NOT_OF_X) other = one_by_one(graph, image, "side");
    if (variant->side == X || third != NULL) other = x;
    if (other != NULL)
        main = variant->swapped ? lks_add(graph, other, main) : lks_add(graph, main, other);
    if (variant->relu) main = lks_relu(graph, main);
    if (third != NULL) main = lks_add(graph, main, third);
    main = lks_batch_norm(graph, main, NULL);
    main = lks_flatten(graph, lks_max_pool(graph, main, &(lks_pool_opts){.kernel = {3, 2}}));
    main = lks_dense(graph, main, &(lks_dense_opts){.units = CLASSES});
    return lks_cross_entropy(graph, main, y, NULL);
}

/* Two dense layers of one input and their sum, twice: between batch norms, and at the end. */
static lks_tensor *sum_net(lks_graph *graph)
{
    lks_tensor *x = lks_input(graph,
                              &(lks_input_opts){.shape = LKS_SHAPE(12, 10, 3), .dtype = LKS_U8});
    lks_tensor *y = lks_target(graph, &(lks_target_opts){.classes = CLASSES});
    x = lks_normalize(
        graph, x, &(lks_normalize_opts){.count = 1, .mean = (float[]){.4f}, .std = (float[]){.3f}});
    x = lks_flatten(graph, lks_max_pool(graph, x, &(lks_pool_opts){.kernel = {3, 2}}));
    for (int i = 0; i < 3; i++) {
        const int64_t units = i < 2 ? 11 : CLASSES;
        lks_tensor *a = lks_dense(graph, x, &(lks_dense_opts){.units = units, .no_bias = i == 1});
        lks_tensor *b = lks_dense(graph, x, &(lks_dense_opts){.units = units, .no_bias = i == 1});
        x = lks_add(graph, a, b);
        if (i == 0) x = lks_batch_norm(graph, x, NULL);
    }
    return lks_cross_entropy(graph, x, y, NULL);
}

/* The layers of the stage that begins with the one of this name. */
static void layers_of(const char *name, lkt_net net, char *out, size_t size)
{
    const lks_tensor *layer;
    out[0] = '\0';
    lkt_model m = lkt_begin(&(lks_context_opts){.device = "joined"});
    lkt_compile(&m, &(lks_model_opts){.loss = net(m.graph), .global_batch = 4});
    for (int s = 0; s < lks_model_stages(m.model); s++) {
        if (strcmp(lks_tensor_name(lks_model_stage_layer(m.model, s, 0)), name) != 0) continue;
        for (int i = 0; (layer = lks_model_stage_layer(m.model, s, i)) != NULL; i++)
            snprintf(out + strlen(out), size - strlen(out), "%s%s", i > 0 ? " " : "",
                     lks_tensor_name(layer));
    }
    lkt_end(&m);
}

/* Equal hashes, losses and predictions with any number of workers; the last batch has less samples than
 * there are replicas. */
static void same_bits(lkt_net net, const char *what)
{
    static const int replicas[] = {1, 3, 7};
    for (int k = 0; k < 6; k++) {
        if (lkt_in_part() && k / 2 != 1) continue;
        lkt_run run = {.device = "ref",
                       .net = net,
                       .samples = 25,
                       .batch = 11,
                       .steps = 5,
                       .opts = {.replicas = replicas[k / 2],
                                .workers = 1,
                                .by_replica = k % 2 == 1,
                                .kernels.single = true,
                                .optim = lks_adam()}};
        lks_metrics expected[2], found[2];
        const uint64_t hash = lkt_run_hash(&run, expected);
        run.device = "joined";
        run.opts.kernels.single = false;
        for (int workers = 1; workers <= 3 && workers <= run.opts.replicas; workers += 2) {
            run.opts.workers = workers;
            if (lkt_run_hash(&run, found) != hash)
                fail_msg("%s, %d replicas, %d workers, %s: other bits than single nodes", what,
                         run.opts.replicas, workers,
                         run.opts.by_replica ? "by replica" : "by rows");
            assert_memory_equal(found, expected, sizeof expected);
        }
    }
}

static void clusters_have_the_bits_of_their_nodes(void **state)
{
    (void)state;
    for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
        char layers[128], what[160];
        variant = &variants[v];
        layers_of("c", block_net, layers, sizeof layers);
        snprintf(what, sizeof what, "variant %zu", v);
        if (strcmp(layers, variant->stage) != 0)
            fail_msg("%s: the stage is '%s', expected '%s'", what, layers, variant->stage);
        same_bits(block_net, what);
    }
}

static void four_parameters_are_formed_by_rows(void **state)
{
    char layers[128];
    (void)state;
    layers_of("dense_1", sum_net, layers, sizeof layers);
    assert_string_equal(layers, "dense_1 dense_2 add_1");
    same_bits(sum_net, "sums of dense layers");
}

static int lend(void **state)
{
    (void)state;
    (void)lkt_joined();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clusters_have_the_bits_of_their_nodes),
        cmocka_unit_test(four_parameters_are_formed_by_rows),
    };
    return cmocka_run_group_tests(tests, lend, NULL);
}

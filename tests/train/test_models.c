/* The model zoo: names and shapes of PyTorch's networks, and arguments that are not valid. */
#include "support/backends.h"
#include "support/test.h"

#include <string.h>

#include <lockstep/lockstep.h>

static lks_context *context;
static lks_graph *graph;

static int set_up(void **state)
{
    (void)state;
    LKT_OK(lks_context_create(&context, &(lks_context_opts){.device = lkt_device("ref")}));
    LKT_OK(lks_graph_create(&graph, context));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lks_graph_destroy(graph);
    lks_context_destroy(context);
    return 0;
}

typedef struct parameter {
    const char *name;
    lks_shape shape;
} parameter;

static void assert_parameters(lks_tensor *output, const parameter *expected, int count)
{
    lks_model *model;
    LKT_OK(lks_graph_status(graph));
    LKT_OK(lks_model_compile(
        &model, graph, &(lks_model_opts){.output = output, .global_batch = 1, .replicas = 1}));
    int found = 0;
    for (int i = 0; i < lks_model_state_count(model); i++) {
        const lks_state_info info = lks_model_state_info(model, i);
        if (info.kind != LKS_PARAMETER) continue;
        assert_true(found < count);
        assert_string_equal(info.name, expected[found].name);
        assert_int_equal(info.shape.ndim, expected[found].shape.ndim);
        for (int d = 0; d < info.shape.ndim; d++) {
            assert_int_equal(info.shape.dim[d], expected[found].shape.dim[d]);
        }
        found++;
    }
    assert_int_equal(found, count);
    lks_model_destroy(model);
}

/* The names and shapes of Net().state_dict() in PyTorch's MNIST example. */
static void mnist_cnn(void **state)
{
    (void)state;
    const parameter expected[] = {
        {"conv1.weight", LKS_SHAPE(32, 1, 3, 3)},  {"conv1.bias", LKS_SHAPE(32)},
        {"conv2.weight", LKS_SHAPE(64, 32, 3, 3)}, {"conv2.bias", LKS_SHAPE(64)},
        {"fc1.weight", LKS_SHAPE(128, 9216)},      {"fc1.bias", LKS_SHAPE(128)},
        {"fc2.weight", LKS_SHAPE(10, 128)},        {"fc2.bias", LKS_SHAPE(10)}};
    lks_tensor *x = lks_input(graph, &(lks_input_opts){.shape = LKS_SHAPE(28, 28, 1)});
    assert_parameters(lks_mnist_cnn(graph, x, NULL), expected, 8);
}

static void mnist_cnn_of_other_images(void **state)
{
    (void)state;
    const parameter expected[] = {
        {"conv1.weight", LKS_SHAPE(32, 3, 3, 3)},  {"conv1.bias", LKS_SHAPE(32)},
        {"conv2.weight", LKS_SHAPE(64, 32, 3, 3)}, {"conv2.bias", LKS_SHAPE(64)},
        {"fc1.weight", LKS_SHAPE(128, 576)},       {"fc1.bias", LKS_SHAPE(128)},
        {"fc2.weight", LKS_SHAPE(4, 128)},         {"fc2.bias", LKS_SHAPE(4)}};
    const lks_mnist_cnn_opts opts = {.classes = 4, .no_dropout = true};
    lks_tensor *x = lks_input(graph, &(lks_input_opts){.shape = LKS_SHAPE(10, 10, 3)});
    assert_parameters(lks_mnist_cnn(graph, x, &opts), expected, 8);
}

static void mlp(void **state)
{
    (void)state;
    const parameter expected[] = {{"fc1.weight", LKS_SHAPE(20, 12)}, {"fc1.bias", LKS_SHAPE(20)},
                                  {"fc2.weight", LKS_SHAPE(7, 20)},  {"fc2.bias", LKS_SHAPE(7)},
                                  {"fc3.weight", LKS_SHAPE(10, 7)},  {"fc3.bias", LKS_SHAPE(10)}};
    const lks_mlp_opts opts = {.hidden_count = 2, .hidden = {20, 7}, .dropout = 0.5f};
    lks_tensor *x = lks_input(graph, &(lks_input_opts){.shape = LKS_SHAPE(2, 2, 3)});
    assert_parameters(lks_mlp(graph, x, &opts), expected, 6);
}

static void mlp_without_hidden_layers(void **state)
{
    (void)state;
    const parameter expected[] = {{"fc1.weight", LKS_SHAPE(10, 4)}, {"fc1.bias", LKS_SHAPE(10)}};
    lks_tensor *x = lks_input(graph, &(lks_input_opts){.shape = LKS_SHAPE(4)});
    assert_parameters(lks_mlp(graph, x, NULL), expected, 2);
}

static void bad_arguments_stay_in_the_graph(void **state)
{
    (void)state;
    lks_tensor *x = lks_input(graph, &(lks_input_opts){.shape = LKS_SHAPE(4)});
    assert_null(lks_mlp(graph, x, &(lks_mlp_opts){.hidden_count = 17}));
    LKT_FAILS(LKS_E_INVALID, "mlp: hidden_count is 17, expected 0 to 16", lks_graph_status(graph));
    assert_null(lks_mnist_cnn(graph, x, NULL));
    assert_null(lks_mlp(graph, NULL, NULL));
    LKT_FAILS(LKS_E_INVALID, "hidden_count is 17", lks_graph_status(graph));
}

static void too_small_images(void **state)
{
    (void)state;
    lks_tensor *x = lks_input(graph, &(lks_input_opts){.shape = LKS_SHAPE(5, 5, 1)});
    assert_null(lks_mnist_cnn(graph, x, NULL));
    LKT_FAILS(LKS_E_SHAPE, "max_pool", lks_graph_status(graph));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(mnist_cnn),
        TEST(mnist_cnn_of_other_images),
        TEST(mlp),
        TEST(mlp_without_hidden_layers),
        TEST(bad_arguments_stay_in_the_graph),
        TEST(too_small_images),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

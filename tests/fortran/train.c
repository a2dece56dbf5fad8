/* What tests/fortran/train.F90 trains, in C: prints the same hashes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <lockstep/lockstep.h>

enum { WIDTH = 4, HEIGHT = 3, SAMPLES = 120, BATCH = 40, CLASSES = 5 };

static float x[SAMPLES][HEIGHT][WIDTH], numbers[SAMPLES][2];
static int32_t classes[SAMPLES];

static void must(lks_status status)
{
    if (status == LKS_OK) return;
    puts(lks_last_error()->message);
    exit(1);
}

static void make_samples(void)
{
    for (int k = 0; k < SAMPLES; k++) {
        for (int j = 0; j < HEIGHT; j++)
            for (int i = 0; i < WIDTH; i++)
                x[k][j][i] = (float)((k * (4 * j + i + 1) + 3 * j) % 17) / 16;
        classes[k] = k % CLASSES;
        numbers[k][0] = x[k][0][0];
        numbers[k][1] = x[k][2][3] - x[k][0][1];
    }
}

static lks_tensor *make_classes(lks_graph *graph)
{
    lks_tensor *input = lks_input(graph, &(lks_input_opts){.shape = LKS_SHAPE(WIDTH * HEIGHT)});
    lks_tensor *target = lks_target(graph, &(lks_target_opts){.classes = CLASSES});
    input = lks_relu(graph, lks_dense(graph, input, &(lks_dense_opts){.units = 16}));
    input = lks_dense(graph, input, &(lks_dense_opts){.units = CLASSES});
    return lks_cross_entropy(graph, input, target, NULL);
}

static lks_tensor *make_numbers(lks_graph *graph)
{
    lks_tensor *input = lks_input(graph, &(lks_input_opts){.shape = LKS_SHAPE(HEIGHT, WIDTH, 1)});
    lks_tensor *target = lks_target(graph, &(lks_target_opts){.shape = LKS_SHAPE(2)});
    const lks_conv2d_opts conv = {.filters = 3, .kernel = {3, 3}, .padding = {1, 1}};
    input = lks_flatten(graph, lks_tanh(graph, lks_conv2d(graph, input, &conv)));
    return lks_mse(graph, lks_dense(graph, input, &(lks_dense_opts){.units = 2}), target);
}

static void train(const char *what, bool of_classes, int epochs, double lr)
{
    lks_context *context;
    lks_graph *graph;
    lks_model *model;
    uint64_t hash;
    must(lks_context_create(&context, &(lks_context_opts){.seed = 3}));
    must(lks_graph_create(&graph, context));
    lks_model_opts opts = {.loss = of_classes ? make_classes(graph) : make_numbers(graph),
                           .global_batch = BATCH,
                           .replicas = of_classes ? 4 : 0,
                           .optim = of_classes ? lks_adam() : lks_sgd(0.9)};
    if (of_classes) opts.optim.weight_decay = 0.001;
    must(lks_model_compile(&model, graph, &opts));
    for (int k = 0; k < epochs * SAMPLES; k += BATCH) {
        const void *y = of_classes ? (void *)&classes[k % SAMPLES] : (void *)numbers[k % SAMPLES];
        const lks_batch batch = {.x = x[k % SAMPLES], .y = y, .count = BATCH};
        must(lks_model_step(model, &batch, lr, NULL));
    }
    must(lks_model_hash(model, &hash));
    printf("%s %016" PRIX64 "\n", what, hash);
    lks_model_destroy(model);
    lks_graph_destroy(graph);
    lks_context_destroy(context);
}

int main(void)
{
    make_samples();
    train("arrays", true, 10, 0.01);
    train("numbers", false, 1, 0.1);
    return 0;
}

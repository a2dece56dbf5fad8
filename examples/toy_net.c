/*
 * A small network trained by hand, on the public headers alone:
 *
 *     cc toy_net.c -llockstep -o toy_net && ./toy_net
 *
 * Three convolutions and three dense layers learn that a checkerboard is of the first of three classes. Each step is
 * written out: forward, gradients of activations, gradients of parameters, update; between them any number can be
 * read. `lockstep train network_config.txt` does the same from a file.
 */
#include <math.h>
#include <stdio.h>
#include <time.h>

#include <lockstep/lockstep.h>

enum { SIDE = 3, CLASSES = 3, ITERATIONS = 300, TIMED = 200 };

#define TRY(call) /* passes a failure on; main() prints the sentence */                            \
    do {                                                                                           \
        lks_status status_ = (call);                                                               \
        if (status_ != LKS_OK) return status_;                                                     \
    } while (0)

static const float board[SIDE * SIDE] = {1, 0, 1, 0, 1, 0, 1, 0, 1};
static const float target[CLASSES] = {1, 0, 0}; /* one-hot */
static const lks_batch batch = {.x = board, .y = target, .count = 1};

/* The network, and its loss: the mean square of output minus target. */
static lks_tensor *describe(lks_graph *graph)
{
    static const char *const layers[] = {
        "conv2d name=conv1 filters=16 kernel=3 padding=1 no_bias weight_init=kaiming_normal",
        "relu",
        "conv2d name=conv2 filters=32 kernel=3 padding=1 no_bias weight_init=kaiming_normal",
        "relu",
        "conv2d name=conv3 filters=64 kernel=3 padding=1 no_bias weight_init=kaiming_normal",
        "relu",
        "flatten",
        "dense units=512 no_bias weight_init=kaiming_normal",
        "dense units=128 no_bias weight_init=kaiming_normal",
        "dense units=3 no_bias weight_init=kaiming_normal"};
    lks_tensor *x = lks_input(graph, &(lks_input_opts){.shape = LKS_SHAPE(SIDE, SIDE, 1)});
    lks_tensor *y = lks_target(graph, &(lks_target_opts){.shape = LKS_SHAPE(CLASSES)});
    for (int i = 0; i < 10; i++) x = lks_graph_line(graph, x, layers[i]);
    return lks_mse(graph, x, y);
}

static lks_status train(lks_model *model)
{
    for (int i = 0; i < ITERATIONS; i++) {
        lks_metrics metrics;
        TRY(lks_model_zero_gradients(model));
        TRY(lks_model_forward(model, &batch, true, &metrics));
        TRY(lks_model_backward_input(model, NULL)); /* from the loss */
        TRY(lks_model_backward_params(model));
        TRY(lks_model_update(model, 0.001));
        if (i % 30 == 0) printf("Iteration %d, Loss: %f\n", i, lks_metrics_loss(&metrics));
    }
    return LKS_OK;
}

/* The mean time of the processor for each of the three passes, from a gradient of ones at the output. */
static lks_status measure(lks_model *model)
{
    static const char *const names[] = {"forward", "backward input", "backward params"};
    static const float ones[CLASSES] = {1, 1, 1};
    double total = 0;
    for (int pass = 0; pass < 3; pass++) {
        const clock_t begin = clock();
        for (int i = 0; i < TIMED; i++) {
            TRY(lks_model_zero_gradients(model));
            TRY(pass == 0   ? lks_model_forward(model, &batch, true, NULL)
                : pass == 1 ? lks_model_backward_input(model, ones)
                            : lks_model_backward_params(model));
        }
        const double each = 1e3 * (double)(clock() - begin) / CLOCKS_PER_SEC / TIMED;
        total += each;
        printf("Average %s pass time: %f ms\n", names[pass], each);
    }
    printf("Total time: %f ms\n", total);
    return LKS_OK;
}

static void print_line(void *user, const char *line)
{
    (void)user;
    printf("%s\n", line);
}

static lks_status run(lks_context **context, lks_graph **graph, lks_model **model)
{
    TRY(lks_context_create(context, &(lks_context_opts){.seed = 1}));
    TRY(lks_graph_create(graph, *context));
    const lks_model_opts opts = {.loss = describe(*graph), .global_batch = 1, .layers = true};
    TRY(lks_model_compile(model, *graph, &opts));
    TRY(lks_dump(*model, "conv1.weight", print_line, NULL)); /* a sum, to see it change */
    TRY(train(*model));
    TRY(lks_dump(*model, "conv1.weight", print_line, NULL));
    float output[CLASSES];
    TRY(lks_model_predict(*model, board, 1, output));
    printf("output %.4f %.4f %.4f\n", (double)output[0], (double)output[1], (double)output[2]);
    TRY(measure(*model));
    return fabsf(output[0] - 1) < 0.1f ? LKS_OK : lks_fail(LKS_E_BUG, "it has not learned");
}

int main(void)
{
    lks_context *context = NULL;
    lks_graph *graph = NULL;
    lks_model *model = NULL;
    const lks_status status = run(&context, &graph, &model);
    if (status != LKS_OK) fprintf(stderr, "toy_net: %s\n", lks_last_error()->message);
    lks_model_destroy(model);
    lks_graph_destroy(graph);
    lks_context_destroy(context);
    return status == LKS_OK ? 0 : 1;
}

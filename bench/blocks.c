/*
 * Training steps of residual blocks, which fused kernels of convolution, batch norm, sum and relu are for:
 *
 *     blocks [--single] NAME [STEPS]      basic: 64 channels at 32 x 32, as in a ResNet-18 for CIFAR
 *                                         wide: 256 -> 64 -> 256 at 32 x 32, as in a ResNet-50
 *                                         deep: 512 -> 128 -> 512 at 16 x 16
 *
 * Two blocks behind a small convolution, so that all gradients are formed; 32 samples, one replica, one
 * worker. --single: every operation by its own kernel. Prints milliseconds a step and multiply-adds; to
 * compare two builds or both ways, run them pinned to one core and by turns, under
 * `perf stat -e cycles:u`. On the public API alone, so that it can be built against other versions.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <lockstep/lockstep.h>

enum { SAMPLES = 32, WARM = 2 };

#define TRY(expression)                                                                            \
    do {                                                                                           \
        if ((expression) != LKS_OK) {                                                              \
            fprintf(stderr, "%s\n", lks_last_error()->message);                                    \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

typedef struct block {
    const char *name;
    int64_t side, channels, width; /* width 0: two convolutions of 3 x 3 */
} block;

static const block BLOCKS[] = {{"basic", 32, 64, 0}, {"wide", 32, 256, 64}, {"deep", 16, 512, 128}};

static lks_tensor *conv(lks_graph *g, lks_tensor *x, int64_t filters, int64_t kernel)
{
    x = lks_conv2d(g, x,
                   &(lks_conv2d_opts){.filters = filters,
                                      .kernel = {kernel, kernel},
                                      .padding = {kernel / 2, kernel / 2},
                                      .no_bias = true});
    return lks_batch_norm(g, x, NULL);
}

static lks_tensor *add_block(lks_graph *g, lks_tensor *x, const block *b)
{
    lks_tensor *y;
    if (b->width == 0) {
        y = conv(g, lks_relu(g, conv(g, x, b->channels, 3)), b->channels, 3);
    } else {
        y = lks_relu(g, conv(g, x, b->width, 1));
        y = conv(g, lks_relu(g, conv(g, y, b->width, 3)), b->channels, 1);
    }
    return lks_relu(g, lks_add(g, y, x));
}

/* Multiply-adds of a step: forward, and twice that backward, but for the input's gradient. */
static double work(const block *b)
{
    const double pixels = (double)(SAMPLES * b->side * b->side), c = (double)b->channels;
    const double w = (double)b->width;
    const double of_block = b->width == 0 ? 2 * 9 * c * c : 2 * c * w + 9 * w * w;
    return pixels * (2 * 3 * of_block + 2 * 3 * c);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void run(const block *b, bool single, int steps)
{
    const int64_t values = SAMPLES * b->side * b->side * 3;
    lks_context *context;
    lks_graph *g;
    lks_model *model;
    lks_metrics sums = {0};
    int32_t y[SAMPLES];
    float *x = malloc((size_t)values * sizeof *x);
    if (x == NULL) exit(1);
    for (int64_t i = 0; i < values; i++)
        x[i] = (float)((uint32_t)(i * 2654435761u) >> 8) / 8388608.0f - 1.0f;
    for (int i = 0; i < SAMPLES; i++) y[i] = i % 10;
    TRY(lks_context_create(&context, &(lks_context_opts){.device = "cpu"}));
    TRY(lks_graph_create(&g, context));
    lks_tensor *t = lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(b->side, b->side, 3)});
    t = lks_relu(g, conv(g, t, b->channels, 1));
    for (int i = 0; i < 2; i++) t = add_block(g, t, b);
    t = lks_dense(g, lks_global_avg_pool(g, t), &(lks_dense_opts){.units = 10});
    t = lks_cross_entropy(g, t, lks_target(g, &(lks_target_opts){.classes = 10}), NULL);
    TRY(lks_model_compile(&model, g,
                          &(lks_model_opts){.loss = t,
                                            .global_batch = SAMPLES,
                                            .replicas = 1,
                                            .workers = 1,
                                            .kernels.single = single,
                                            .optim = lks_sgd(0.9)}));
    const lks_batch batch = {.x = x, .y = y, .count = SAMPLES};
    double start = now();
    for (int i = 0; i < WARM + steps; i++) {
        if (i == WARM) start = now();
        TRY(lks_model_step(model, &batch, 0.01, &sums));
    }
    printf("%s%s: %.2f ms a step, %.3f G multiply-adds\n", b->name, single ? ", single" : "",
           (now() - start) / steps, work(b) * 1e-9);
    lks_model_destroy(model);
    lks_graph_destroy(g);
    lks_context_destroy(context);
    free(x);
}

int main(int count, char **arguments)
{
    const bool single = count > 1 && strcmp(arguments[1], "--single") == 0;
    const char *name = count > 1 + single ? arguments[1 + single] : "";
    const int steps = count > 2 + single ? atoi(arguments[2 + single]) : 10;
    for (size_t i = 0; i < sizeof BLOCKS / sizeof BLOCKS[0]; i++)
        if (strcmp(name, BLOCKS[i].name) == 0 && steps > 0) {
            run(&BLOCKS[i], single, steps);
            return 0;
        }
    fprintf(stderr, "blocks [--single] basic|wide|deep [STEPS]\n");
    return 2;
}

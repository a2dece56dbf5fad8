/*
 * Predictions of networks whose samples are in memory: latency of a call and samples a second, as JSON, one line for
 * each batch. bench/inference runs it beside others.
 *
 *   bench_inference mnist|resnet9|resnet18 predict|evaluate|predict_f2 SECONDS BATCH...
 *
 * Two workers, or as LOCKSTEP_WORKERS says; parameters are initial ones, which are as fast as any. On the public API
 * alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <lockstep/lockstep.h>

enum { WORKERS = 2, MOST_CALLS = 1 << 18, CLASSES = 10 };

#define TRY(expression)                                                                            \
    do {                                                                                           \
        if ((expression) != LKS_OK) {                                                              \
            fprintf(stderr, "bench_inference: %s\n", lks_last_error()->message);                   \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static lks_model *compile(lks_context *context, const char *network, const char *mode,
                          int64_t *width)
{
    const bool mnist = strcmp(network, "mnist") == 0;
    lks_graph *g;
    TRY(lks_graph_create(&g, context));
    const int64_t side = mnist ? 28 : 32, channels = mnist ? 1 : 3;
    *width = side * side * channels;
    lks_tensor *x = lks_input(
        g, &(lks_input_opts){.shape = {.ndim = 3, .dim = {side, side, channels}}});
    x = mnist ? lks_mnist_cnn(g, x, NULL)
              : lks_network(g, x, network, &(lks_network_opts){.outputs = CLASSES});
    lks_model_opts opts = {.output = x, .global_batch = 256, .replicas = WORKERS};
    const char *workers = getenv("LOCKSTEP_WORKERS");
    if (workers != NULL) opts.workers = atoi(workers);
    lks_tensor *y = lks_target(g, &(lks_target_opts){.classes = CLASSES});
    if (strcmp(mode, "predict_f2") == 0) opts.kernels.winograd = LKS_WINOGRAD_F2;
    if (strcmp(mode, "evaluate") == 0)
        opts.loss = mnist ? lks_nll(g, x, y) : lks_cross_entropy(g, x, y, NULL);
    lks_model *model;
    TRY(lks_model_compile(&model, g, &opts));
    return model;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Calls for so many seconds: the median of their time, and all they did. */
static void measure(lks_model *model, bool evaluates, double seconds, int64_t batch, int64_t width)
{
    static double took[MOST_CALLS];
    float *x = malloc(sizeof(float) * (size_t)(batch * width));
    float *out = malloc(sizeof(float) * (size_t)(batch * CLASSES));
    int32_t *y = calloc((size_t)batch, sizeof(int32_t));
    lks_metrics sum = {0};
    if (x == NULL || out == NULL || y == NULL) exit(1);
    for (int64_t i = 0; i < batch * width; i++)
        x[i] = (float)((i * 2654435761u >> 7) % 1000) * 2e-3f - 1;
    const double warm = seconds_now() + seconds / 5;
    double start = 0;
    int calls = 0;
    bool measures = false;
    for (;;) {
        const double begin = seconds_now();
        if (!measures && begin >= warm) {
            measures = true;
            start = begin;
        }
        if (evaluates)
            TRY(lks_model_evaluate(model, &(lks_batch){.x = x, .y = y, .count = batch}, &sum));
        else
            TRY(lks_model_predict(model, x, batch, out));
        const double end = seconds_now();
        if (!measures) continue;
        took[calls++] = end - begin;
        if (end - start >= seconds || calls == MOST_CALLS) break;
    }
    const double all = seconds_now() - start;
    qsort(took, (size_t)calls, sizeof took[0], by_size);
    printf("{\"batch\": %lld, \"samples_per_second\": %.1f, \"milliseconds\": %.4f}\n",
           (long long)batch, (double)(calls * batch) / all, 1e3 * took[calls / 2]);
    fflush(stdout);
    free(x);
    free(y);
    free(out);
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr,
                "bench_inference mnist|resnet9|resnet18 predict|evaluate|predict_f2 SECONDS "
                "BATCH...\n");
        return 2;
    }
    const bool evaluates = strcmp(argv[2], "evaluate") == 0;
    lks_context *context;
    int64_t width;
    TRY(lks_context_create(&context, NULL));
    lks_model *model = compile(context, argv[1], argv[2], &width);
    for (int i = 4; i < argc; i++) measure(model, evaluates, atof(argv[3]), atoll(argv[i]), width);
    lks_model_destroy(model);
    lks_context_destroy(context);
    return 0;
}

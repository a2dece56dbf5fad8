/*
 * Tokens a second of a generator, one text, as JSON: bench/sampling/run has it beside PyTorch.
 *
 *   bench_sample gpt2|char|lstm TOKENS
 *
 * The first token is read and one drawn before the clock starts. Two workers, or as LOCKSTEP_WORKERS says; parameters are
 * initial ones, which are as fast as any. On the public API alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <lockstep/lockstep.h>

enum { WORKERS = 2 };

#define TRY(expression)                                                                            \
    do {                                                                                           \
        if ((expression) != LKS_OK) {                                                              \
            fprintf(stderr, "bench_sample: %s\n", lks_last_error()->message);                      \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static lks_tensor *tokens(lks_graph *g, int64_t context, int64_t vocabulary)
{
    return lks_input(
        g,
        &(lks_input_opts){.shape = LKS_SHAPE(context), .dtype = LKS_I32, .vocabulary = vocabulary});
}

static lks_tensor *network(lks_graph *g, const char *name)
{
    if (strcmp(name, "gpt2") == 0)
        return lks_gpt(g, tokens(g, 1024, 50257),
                       &(lks_transformer_opts){.activation = LKS_MLP_GELU_TANH});
    if (strcmp(name, "char") == 0)
        return lks_gpt(
            g, tokens(g, 256, 65),
            &(lks_transformer_opts){.outputs = 65, .depth = 4, .heads = 4, .width = 128});
    lks_tensor *x = lks_embedding(g, tokens(g, 35, 10000), &(lks_embedding_opts){.units = 650});
    x = lks_lstm(g, x, &(lks_recurrent_opts){.hidden = 650, .layers = 2});
    return lks_dense(g, x, &(lks_dense_opts){.units = 10000});
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: bench_sample gpt2|char|lstm TOKENS\n");
        return 1;
    }
    const char *workers = getenv("LOCKSTEP_WORKERS");
    const int count = atoi(argv[2]);
    lks_context *context;
    lks_graph *g;
    lks_model *model;
    lks_generator *generator;
    int32_t token = 0;
    TRY(lks_context_create(&context, NULL));
    TRY(lks_graph_create(&g, context));
    TRY(lks_model_compile(&model, g,
                          &(lks_model_opts){.output = network(g, argv[1]),
                                            .global_batch = WORKERS,
                                            .replicas = WORKERS,
                                            .workers = workers != NULL ? atoi(workers) : WORKERS}));
    TRY(lks_generator_create(&generator, model, &(lks_generator_opts){.most_probable = true}));
    TRY(lks_generator_feed(generator, &token, 1));
    TRY(lks_generator_next(generator, &token));
    const double begin = seconds_now();
    for (int i = 0; i < count; i++) TRY(lks_generator_next(generator, &token));
    const double seconds = seconds_now() - begin;
    printf("{\"who\": \"lockstep\", \"network\": \"%s\", \"tokens\": %d, \"per_second\": %.1f}\n",
           argv[1], count, count / seconds);
    lks_generator_destroy(generator);
    lks_model_destroy(model);
    lks_graph_destroy(g);
    lks_context_destroy(context);
    return 0;
}

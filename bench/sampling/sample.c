/*
 * Tokens a second of a generator, one text, as JSON: bench/sampling/run has it beside PyTorch.
 *
 *   bench_sample gpt2|char|middle|lstm TOKENS [PROMPT]
 *   bench_sample read TIMES
 *
 * The first token is read and one drawn before the clock starts. With a number of tokens as PROMPT also seconds from that prompt
 * to the token behind it, and of a prediction of the whole window, the least of five. Two workers, or as LOCKSTEP_WORKERS
 * says; parameters are initial ones, which are as fast as any. `read` is what bounds GPT-2: gigabytes a second that two
 * threads read of half a gigabyte. On the public API alone.
 */
#include <pthread.h>
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

static const struct network {
    const char *name;
    int64_t context, vocabulary, depth, heads, width; /* depth 0: no GPT, but an LSTM */
} networks[] = {{"gpt2", 1024, 50257, 12, 12, 768},
                {"char", 256, 65, 4, 4, 128},
                {"middle", 512, 65, 6, 6, 384},
                {"lstm", 35, 10000, 0, 0, 650}};

static const struct network *find(const char *name)
{
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
        if (strcmp(networks[i].name, name) == 0) return &networks[i];
    fprintf(stderr, "bench_sample: there is no network '%s'\n", name);
    exit(1);
}

static lks_tensor *build(lks_graph *g, const struct network *n)
{
    lks_tensor *x = lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(n->context),
                                                   .dtype = LKS_I32,
                                                   .vocabulary = n->vocabulary});
    if (n->depth > 0)
        return lks_gpt(g, x,
                       &(lks_transformer_opts){.outputs = n->vocabulary,
                                               .depth = n->depth,
                                               .heads = n->heads,
                                               .width = n->width,
                                               .activation = LKS_MLP_GELU_TANH});
    x = lks_embedding(g, x, &(lks_embedding_opts){.units = n->width});
    x = lks_lstm(g, x, &(lks_recurrent_opts){.hidden = n->width, .layers = 2});
    return lks_dense(g, x, &(lks_dense_opts){.units = n->vocabulary});
}

static void *zeros(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (memory != NULL) return memory;
    fprintf(stderr, "bench_sample: out of memory\n");
    exit(1);
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

/* The time from a prompt to the token behind it, and that of a whole window. */
static void time_prompt(lks_model *model, const struct network *n, int64_t count)
{
    int32_t *x = zeros((size_t)(count > n->context ? count : n->context) * sizeof *x), token;
    float *out = zeros((size_t)(n->context * n->vocabulary) * sizeof *out);
    double read = 1e9, window = 1e9;
    for (int turn = 0; turn < 5; turn++) {
        lks_generator *generator;
        TRY(lks_generator_create(&generator, model, &(lks_generator_opts){.most_probable = true}));
        double begin = seconds_now();
        TRY(lks_generator_feed(generator, x, count));
        TRY(lks_generator_next(generator, &token));
        read = least(read, seconds_now() - begin);
        lks_generator_destroy(generator);
        begin = seconds_now();
        TRY(lks_model_predict(model, x, 1, out));
        window = least(window, seconds_now() - begin);
    }
    printf("{\"who\": \"lockstep\", \"prompt\": %lld, \"seconds\": %.4f, \"window\": %.4f}\n",
           (long long)count, read, window);
    free(out);
    free(x);
}

/* Every thread reads its half, `times`. */
typedef struct reader {
    const uint64_t *from;
    int64_t count, times;
    uint64_t sum;
} reader;

static void *read_half(void *user)
{
    reader *r = user;
    for (int64_t t = 0; t < r->times; t++) {
        uint64_t a = 0, b = 0, c = 0, d = 0; /* of which none waits for another */
        for (int64_t i = 0; i < r->count; i += 4) {
            a += r->from[i];
            b += r->from[i + 1];
            c += r->from[i + 2];
            d += r->from[i + 3];
        }
        r->sum += a + b + c + d;
    }
    return NULL;
}

static int time_reads(int64_t times)
{
    enum { HALF = 1 << 25 };
    uint64_t *all = zeros(2 * HALF * sizeof *all);
    pthread_t thread[2];
    reader half[2];
    memset(all, 1, 2 * HALF * sizeof *all); /* pages of zeros would be one */
    const double begin = seconds_now();
    for (int i = 0; i < 2; i++) {
        half[i] = (reader){.from = all + i * HALF, .count = HALF, .times = times};
        if (pthread_create(&thread[i], NULL, read_half, &half[i]) != 0) return 1;
    }
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    const double bytes = 2.0 * HALF * sizeof *all * (double)times;
    printf("{\"who\": \"read\", \"gigabytes_per_second\": %.1f, \"sum\": %llu}\n",
           1e-9 * bytes / (seconds_now() - begin), (unsigned long long)(half[0].sum + half[1].sum));
    free(all);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "read") == 0) return time_reads(atoll(argv[2]));
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: bench_sample gpt2|char|middle|lstm|read TOKENS [PROMPT]\n");
        return 1;
    }
    const struct network *n = find(argv[1]);
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
                          &(lks_model_opts){.output = build(g, n),
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
    if (argc == 4) time_prompt(model, n, atoll(argv[3]));
    lks_model_destroy(model);
    lks_graph_destroy(g);
    lks_context_destroy(context);
    return 0;
}

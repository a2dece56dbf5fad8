/*
 * Your own data, network and loop, on the public headers alone:
 *
 *     cc own_program.c -llockstep -lm -o own_program && ./own_program
 *
 * Learns which points of a square lie in a ring, saves the weights, loads them into a second model
 * with another number of workers, and checks that both answer the same, bit for bit.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <lockstep/lockstep.h>

enum { SAMPLES = 4000, BATCH = 50, EPOCHS = 12, ASKED = 1000 };

#define TRY(call) /* passes a failure on; main() prints the sentence */                            \
    do {                                                                                           \
        lks_status status_ = (call);                                                               \
        if (status_ != LKS_OK) return status_;                                                     \
    } while (0)

typedef struct program { /* main() destroys what is made */
    lks_context *context;
    lks_graph *graph[2];
    lks_model *model[2];
    lks_dataset *data;
    lks_loader *loader;
} program;

/* Point number `index`, and whether it lies in the ring. Called from reading threads. */
static lks_status read_point(void *user, int64_t index, void *x, void *y)
{
    (void)user;
    float *point = x;
    point[0] = (float)(2.0 * fmod((double)index * 0.7548776662466927, 1.0) - 1.0);
    point[1] = (float)(2.0 * fmod((double)index * 0.5698402909980532, 1.0) - 1.0);
    const float radius = sqrtf(point[0] * point[0] + point[1] * point[1]);
    *(int32_t *)y = radius > 0.4f && radius < 0.8f;
    return LKS_OK;
}

static lks_status make_model(lks_graph *graph, int workers, lks_model **model)
{
    lks_tensor *x = lks_input(graph, &(lks_input_opts){.shape = LKS_SHAPE(2)});
    lks_tensor *y = lks_target(graph, &(lks_target_opts){.classes = 2});
    x = lks_relu(graph, lks_dense(graph, x, &(lks_dense_opts){.name = "fc1", .units = 32}));
    x = lks_relu(graph, lks_dense(graph, x, &(lks_dense_opts){.name = "fc2", .units = 32}));
    x = lks_dense(graph, x, &(lks_dense_opts){.name = "fc3", .units = 2});
    const lks_model_opts opts = {.loss = lks_cross_entropy(graph, x, y, NULL),
                                 .global_batch = BATCH,
                                 .replicas = 4,
                                 .workers = workers,
                                 .optim = lks_adam()};
    return lks_model_compile(model, graph, &opts);
}

static lks_status train(lks_model *model, lks_loader *loader)
{
    const lks_schedule schedule = {.kind = LKS_COSINE, .lr = 0.01, .length = EPOCHS};
    for (int64_t epoch = 0; epoch < EPOCHS; epoch++) {
        lks_metrics sum = {0}, part;
        for (int64_t i = 0; i < lks_loader_batches(loader); i++) {
            lks_batch batch;
            const int64_t step = lks_model_progress(model).step;
            TRY(lks_loader_next(loader, &batch));
            TRY(lks_model_step(model, &batch, lks_schedule_at(&schedule, step, epoch), &part));
            lks_metrics_add(&sum, &part);
        }
        printf("epoch %2d: loss %.3f, %.1f%% right\n", (int)epoch + 1, lks_metrics_loss(&sum),
               100.0 * (double)sum.correct / (double)sum.samples);
    }
    return LKS_OK;
}

static lks_status run(program *p, const char *path)
{
    static float points[ASKED][2], first[ASKED][2], second[ASKED][2];
    const lks_dataset_info info = {.samples = SAMPLES, .shape = LKS_SHAPE(2), .classes = 2};
    const lks_dataset_ops ops = {.info = info, .read = read_point};
    TRY(lks_context_create(&p->context, &(lks_context_opts){.seed = 1}));
    for (int i = 0; i < 2; i++) {
        TRY(lks_graph_create(&p->graph[i], p->context));
        TRY(make_model(p->graph[i], i + 1, &p->model[i]));
    }
    TRY(lks_dataset_create(&p->data, p->context, "ring", &ops, NULL));
    const lks_loader_opts batches = {.global_batch = BATCH};
    TRY(lks_loader_create(&p->loader, p->context, p->data, &batches));
    TRY(train(p->model[0], p->loader));
    TRY(lks_weights_save(p->model[0], path));
    TRY(lks_weights_load(p->model[1], path));

    int right = 0;
    int32_t expected[ASKED];
    for (int i = 0; i < ASKED; i++) TRY(read_point(NULL, SAMPLES + i, points[i], &expected[i]));
    TRY(lks_model_predict(p->model[0], points, ASKED, first[0]));
    TRY(lks_model_predict(p->model[1], points, ASKED, second[0]));
    for (int i = 0; i < ASKED; i++) right += (second[i][1] > second[i][0]) == expected[i];
    printf("new points: %.1f%% right\n", 100.0 * right / ASKED);
    if (memcmp(first, second, sizeof first) != 0 || right < ASKED * 9 / 10)
        return lks_fail(LKS_E_BUG, "the loaded model does not answer as it should");
    printf("%s: the loaded model gives the same answers\n", path);
    return LKS_OK;
}

int main(int argc, char **argv)
{
    program p = {0};
    const lks_status status = run(&p, argc > 1 ? argv[1] : "ring.safetensors");
    if (status != LKS_OK) fprintf(stderr, "own_program: %s\n", lks_last_error()->message);
    lks_loader_destroy(p.loader);
    lks_dataset_destroy(p.data);
    for (int i = 0; i < 2; i++) lks_model_destroy(p.model[i]);
    for (int i = 0; i < 2; i++) lks_graph_destroy(p.graph[i]);
    lks_context_destroy(p.context);
    return status == LKS_OK ? 0 : 1;
}

/* Runs steps between two markers that strace shows: tests/model/syscalls.sh. Usage: steps DEVICE */
#include <unistd.h>

#include <lockstep/tools.h>

#include "support/runs.h"
#include "support/test.h"

enum { SAMPLES = 64, STEPS = 200 };

int main(int argc, char **argv)
{
    lks_context *context;
    lks_graph *graph;
    lks_model *model;
    lkt_images images = lkt_images_make(SAMPLES);
    const lks_batch batch = {.x = images.x, .y = images.y, .count = SAMPLES};
    LKT_OK(lks_context_create(&context, &(lks_context_opts){.device = argc > 1 ? argv[1] : NULL}));
    LKT_OK(lks_graph_create(&graph, context));
    LKT_OK(lks_model_compile(&model, graph,
                             &(lks_model_opts){.loss = lkt_net_conv(graph),
                                               .global_batch = SAMPLES,
                                               .workers = 2,
                                               .hash_every = 10,
                                               .optim = lks_adadelta()}));
    LKT_OK(lks_model_step(model, &batch, 0.1, NULL));
    if (write(-1, "steps begin", 11) >= 0) return 2; /* fails, and is seen */
    for (int i = 0; i < STEPS; i++) LKT_OK(lks_model_step(model, &batch, 0.1, NULL));
    if (write(-1, "steps end", 9) >= 0) return 2;
    LKT_OK(lks_profile_start(model));
    if (write(-1, "profiled steps begin", 20) >= 0) return 2;
    for (int i = 0; i < STEPS; i++) LKT_OK(lks_model_step(model, &batch, 0.1, NULL));
    if (write(-1, "profiled steps end", 18) >= 0) return 2;
    lks_model_destroy(model);
    lks_graph_destroy(graph);
    lks_context_destroy(context);
    lkt_images_free(&images);
    return 0;
}

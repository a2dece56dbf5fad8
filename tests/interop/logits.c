/*
 * What a network answers, for other programs to compare with.
 *   lkt_logits CONFIG WEIGHTS IMAGES OUT
 *   lkt_logits CONFIG WEIGHTS TOKENS OUT CONTEXT VOCABULARY
 * Builds the network of a configuration, loads a safetensors file, and writes the output for each
 * image of an IDX file, or each CONTEXT tokens of a file of little-endian int32, as little-endian float32.
 */
#include <stdio.h>
#include <stdlib.h>

#include <lockstep/lockstep.h>

#include "cli/out/say.h"
#include "recipe/config.h"
#include "recipe/network/network.h"

#define TRY(call)                                                                                  \
    do {                                                                                           \
        const lks_status status_ = (call);                                                         \
        if (status_ != LKS_OK) return status_;                                                     \
    } while (0)

typedef struct parts { /* main() destroys what is made */
    lki_config *config;
    lks_context *context;
    lks_dataset *images;
    lks_graph *graph;
    lks_model *model;
    void *samples;
    float *output;
} parts;

static lks_status read_images(parts *p, const char *path, lks_dataset_info *info)
{
    int32_t none;
    TRY(lks_dataset_open_idx(&p->images, p->context, path, NULL, 10));
    *info = lks_dataset_get_info(p->images);
    const size_t bytes = (size_t)lks_shape_elements(&info->shape);
    p->samples = malloc((size_t)info->samples * bytes);
    if (p->samples == NULL) return lks_fail(LKS_E_NOMEM, "no memory for the images");
    for (int64_t i = 0; i < info->samples; i++)
        TRY(lks_dataset_read(p->images, i, (char *)p->samples + (size_t)i * bytes, &none));
    return LKS_OK;
}

static lks_status read_tokens(parts *p, char **argv, lks_dataset_info *info)
{
    const int64_t context = atoi(argv[5]), vocabulary = atoi(argv[6]);
    *info = (lks_dataset_info){.shape = LKS_SHAPE(context),
                               .dtype = LKS_I32,
                               .vocabulary = vocabulary,
                               .classes = vocabulary,
                               .target_shape = LKS_SHAPE(context)};
    FILE *file = fopen(argv[3], "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) return lks_fail(LKS_E_IO, "no tokens");
    const size_t count = (size_t)ftell(file) / sizeof(int32_t);
    rewind(file);
    info->samples = (int64_t)count / context;
    p->samples = malloc(count * sizeof(int32_t));
    const bool good = p->samples != NULL &&
                      fread(p->samples, sizeof(int32_t), count, file) == count;
    fclose(file);
    return good ? LKS_OK : lks_fail(LKS_E_IO, "%s cannot be read", argv[3]);
}

static lks_status run(parts *p, int argc, char **argv)
{
    lki_network network;
    lks_dataset_info info;
    TRY(lki_config_create(&p->config));
    TRY(lki_config_read(p->config, argv[1]));
    TRY(lki_config_resolve(p->config));
    TRY(lks_context_create(&p->context, NULL));
    TRY(argc == 7 ? read_tokens(p, argv, &info) : read_images(p, argv[3], &info));
    TRY(lks_graph_create(&p->graph, p->context));
    TRY(lki_network_build(&network, p->config, p->graph, &info));
    TRY(lks_model_compile(&p->model, p->graph,
                          &(lks_model_opts){.loss = network.loss,
                                            .output = network.output,
                                            .global_batch = 16,
                                            .optim = lks_sgd(0)}));
    TRY(lks_weights_load(p->model, argv[2]));
    const lks_shape shape = lks_tensor_shape(network.output);
    const size_t count = (size_t)(info.samples * lks_shape_elements(&shape));
    p->output = malloc(count * sizeof *p->output);
    if (p->output == NULL) return lks_fail(LKS_E_NOMEM, "no memory for the output");
    TRY(lks_model_predict(p->model, p->samples, info.samples, p->output));
    FILE *file = fopen(argv[4], "wb");
    const bool good = file != NULL && fwrite(p->output, sizeof *p->output, count, file) == count;
    if (file == NULL || fclose(file) != 0 || !good)
        return lks_fail(LKS_E_IO, "%s cannot be written", argv[4]);
    return LKS_OK;
}

int main(int argc, char **argv)
{
    parts p = {0};
    const lks_status status = argc == 5 || argc == 7
                                  ? run(&p, argc, argv)
                                  : lks_fail(LKS_E_INVALID, "four or six operands");
    if (status != LKS_OK) say_error("%s", lks_last_error()->message);
    lks_model_destroy(p.model);
    lks_graph_destroy(p.graph);
    lks_dataset_destroy(p.images);
    lks_context_destroy(p.context);
    lki_config_destroy(p.config);
    free(p.samples);
    free(p.output);
    return status == LKS_OK ? 0 : 1;
}

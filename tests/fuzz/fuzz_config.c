/*
 * A configuration: YAML, keys and their values, and the network that it describes. What is read is
 * printed and read again, and must be the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <lockstep/lockstep.h>

#include "recipe/config.h"
#include "recipe/network/network.h"
#include "fuzz/fuzz.h"

/* The defaults are read once; what is set later lies in a pool of its own. */
static lki_config make_config(void)
{
    static lki_config *defaults;
    if (defaults == NULL) FUZZ_CHECK(lki_config_create(&defaults) == LKS_OK);
    lki_config config = *defaults;
    config.heap = (lki_heap){0};
    return config;
}

static lks_status read_config(lki_config *config, const char *path)
{
    *config = make_config();
    const lks_status status = lki_config_read(config, path);
    return status == LKS_OK ? lki_config_resolve(config) : status;
}

static char *printed(const lki_config *config, bool yaml)
{
    lki_emit emit = {.yaml = yaml};
    lks_status status = LKS_OK;
    (yaml ? lki_config_emit_yaml : lki_config_emit)(&emit, config);
    char *text = lki_emit_take(&emit, "a configuration", &status);
    FUZZ_CHECK(text != NULL);
    return text;
}

static void check_printed(const lki_config *config)
{
    lki_config again;
    char *text = printed(config, true);
    const lks_status status = read_config(&again, fuzz_file(1, text, strlen(text)));
    if (status != LKS_OK) fprintf(stderr, "%s", text);
    FUZZ_CHECK(status == LKS_OK);
    char *one = printed(config, false), *other = printed(&again, false);
    if (strcmp(one, other) != 0) fprintf(stderr, "%s", text);
    FUZZ_CHECK(strcmp(one, other) == 0);
    json_t *json = json_loads(one, 0, NULL);
    FUZZ_CHECK(json != NULL);
    json_decref(json);
    free(one);
    free(other);
    free(text);
    lki_heap_clear(&again.heap);
}

static void build(lki_config *config)
{
    static const lks_dataset_info info = {
        .samples = 100, .shape = {3, {28, 28, 1}}, .dtype = LKS_U8, .classes = 10};
    static lks_context *context;
    lks_graph *graph;
    lki_network network;
    if (context == NULL)
        FUZZ_CHECK(lks_context_create(&context, &(lks_context_opts){.device = "ref"}) == LKS_OK);
    FUZZ_CHECK(lks_graph_create(&graph, context) == LKS_OK);
    const lks_status status = lki_network_build(&network, config, graph, &info);
    if (status == LKS_OK) {
        FUZZ_CHECK(network.loss != NULL && network.output != NULL);
    } else {
        fuzz_check_failure(status);
    }
    lks_graph_destroy(graph);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    lki_config config;
    const lks_status status = read_config(&config, fuzz_file(0, data, bytes));
    if (status == LKS_OK) {
        check_printed(&config);
        build(&config);
    } else {
        fuzz_check_failure(status);
    }
    lki_heap_clear(&config.heap);
    return 0;
}

/*
 * A configuration: YAML, keys and their values, and the network that it describes. What is read is
 * printed and read again, and must be the same.
 */
#include <stdio.h>
#include <stdlib.h>

#include <lockstep/lockstep.h>

#include "cli/args/help.h"
#include "recipe/config.h"
#include "recipe/network.h"
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

static void check_printed(const lki_config *config)
{
    char *text = NULL;
    size_t bytes;
    lki_config again;
    FILE *out = open_memstream(&text, &bytes);
    FUZZ_CHECK(out != NULL);
    config_print(config, out);
    FUZZ_CHECK(fclose(out) == 0);
    const lks_status status = read_config(&again, fuzz_file(1, text, bytes));
    if (status != LKS_OK) fprintf(stderr, "%s", text);
    FUZZ_CHECK(status == LKS_OK);
    json_t *one = lki_config_json(config), *other = lki_config_json(&again);
    if (!json_equal(one, other)) fprintf(stderr, "%s", text);
    FUZZ_CHECK(json_equal(one, other));
    json_decref(one);
    json_decref(other);
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

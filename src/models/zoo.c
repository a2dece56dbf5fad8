#include "models/zoo.h"

#include <stdio.h>
#include <string.h>

#include "base/named.h"

static const void *const networks[] = {
#define X(name) &lki_zoo_##name,
    LKS_NETWORKS(X)
#undef X
};
static const lki_named named = LKI_NAMED(networks);

const lki_zoo_network *lki_zoo_at(int number)
{
    return lki_named_at(&named, number);
}

const lki_zoo_network *lki_zoo_find(const char *name)
{
    return lki_named_find(&named, name);
}

const char *lki_zoo_names(char *out, size_t size)
{
    size_t used = 0;
    for (int i = 0; i < named.count && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s",
                                 i == 0                 ? ""
                                 : i == named.count - 1 ? " or "
                                                        : ", ",
                                 lki_zoo_at(i)->name);
    return out;
}

/* The options that a network has, from those that all have; else one that is set and that it has not. */
static const char *options_of(const lki_zoo_network *network, const lks_network_opts *opts,
                              char *out)
{
    const lki_attribute *stem = lki_attribute_find(&network->attributes, "stem");
    const lki_attribute *dropout = lki_attribute_find(&network->attributes, "dropout");
    const lki_attribute *path = lki_attribute_find(&network->attributes, "drop_path");
    memcpy(out + network->outputs, &opts->outputs, sizeof opts->outputs);
    if (stem != NULL) memcpy(out + stem->offset, &opts->stem, sizeof opts->stem);
    if (dropout != NULL && dropout->type == LKI_NOT)
        memcpy(out + dropout->offset, &opts->no_dropout, sizeof opts->no_dropout);
    if (path != NULL) memcpy(out + path->offset, &opts->drop_path, sizeof opts->drop_path);
    if (stem == NULL && opts->stem != LKS_STEM_AUTO) return "has one stem";
    return path == NULL && opts->drop_path != 0 ? "has no drop_path" : NULL;
}

/* Whether the network has that stem: its table has the first words of lks_stem. */
static bool has_stem(const lki_zoo_network *network, lks_stem wanted)
{
    const lki_attribute *stem = lki_attribute_find(&network->attributes, "stem");
    int words = 1;
    for (const char *c = stem != NULL ? stem->range : ""; *c != '\0'; c++) words += *c == ' ';
    return stem == NULL || ((int)wanted >= 0 && (int)wanted < words);
}

lks_tensor *lks_network(lks_graph *graph, lks_tensor *x, const char *name,
                        const lks_network_opts *opts)
{
    union {
        char bytes[1];
        lks_network_opts network;
        lks_mnist_cnn_opts mnist_cnn;
        lks_mlp_opts mlp;
        lks_transformer_opts transformer;
        lks_language_model_opts language_model;
    } own;
    const lks_network_opts defaults = {0};
    const lki_zoo_network *network = lki_zoo_find(name);
    char names[LKI_ZOO_NAMES_SIZE];
    if (opts == NULL) opts = &defaults;
    if (network == NULL)
        return lks_graph_fail(graph, "lks_network: the name is '%.60s', expected %s",
                              name != NULL ? name : "NULL", lki_zoo_names(names, sizeof names));
    memset(&own, 0, sizeof own);
    const char *lacks = options_of(network, opts, own.bytes);
    if (lacks != NULL) return lks_graph_fail(graph, "%s: %s; drop the option", name, lacks);
    if (opts->outputs < 0 || !has_stem(network, opts->stem))
        return lks_graph_fail(graph, "%s: %s is %lld, expected %s", name,
                              opts->outputs < 0 ? "outputs" : "stem",
                              (long long)(opts->outputs < 0 ? opts->outputs : (int)opts->stem),
                              opts->outputs < 0 ? "at least 1" : "one of lks_stem that it has");
    return network->build(network, graph, x, &own);
}

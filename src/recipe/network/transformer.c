#include "recipe/network/transformer.h"

#include <stdio.h>
#include <string.h>

#include <lockstep/models.h>

#include "core/graph.h"

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(INT, lks_transformer_opts, heads, .range = "[1,)", .required = true),
    LKI_ATTRIBUTE(INT, lks_transformer_opts, kv_heads, .range = "[1,)", .fallback = "heads",
                  .help = "of keys and values"),
    LKI_ATTRIBUTE(INT, lks_transformer_opts, inner, .range = "[1,)",
                  .fallback = "4 times the channels, of swiglu 8/3 times",
                  .help = "units between the dense layers"),
    LKI_ATTRIBUTE(WORD, lks_transformer_opts, norm, .range = "layer_norm rms_norm",
                  .fallback = "layer_norm"),
    LKI_ATTRIBUTE(WORD, lks_transformer_opts, activation, .range = "gelu gelu_tanh relu swiglu",
                  .fallback = "gelu"),
    LKI_ATTRIBUTE(BOOL, lks_transformer_opts, post_norm, .fallback = "false",
                  .help = "norms behind the sums, not in front of what is added"),
    LKI_ATTRIBUTE(BOOL, lks_transformer_opts, causal, .fallback = "false",
                  .help = "a position sees those up to it"),
    LKI_ATTRIBUTE(FLOAT, lks_transformer_opts, rotary, .range = "[0,)", .fallback = "0",
                  .help = "base of rotary positions, 10000 say; 0: none"),
    LKI_ATTRIBUTE(FLOAT, lks_transformer_opts, dropout, .range = "[0,1)", .fallback = "0",
                  .help = "of attention's weights, and of what is added"),
    LKI_ATTRIBUTE_NOT(lks_transformer_opts, bias),
    LKI_ATTRIBUTE(BOOL, lks_transformer_opts, masked, .fallback = "false",
                  .help = "keys whose token is the padding take no part"),
    LKI_PADDING(lks_transformer_opts),
    LKI_ATTRIBUTE(INT, lks_transformer_opts, residual_layers, .range = "[1,)", .fallback = "1",
                  .help = "sums of the network, two in a block: weights of what is added start "
                          "smaller by the root of that, as GPT-2's"),
};

static bool is_taken(const lks_graph *graph, const char *name)
{
    const size_t length = strlen(name);
    for (const lki_node *node = graph->first; node != NULL; node = node->next)
        if (strncmp(node->name, name, length) == 0 && node->name[length] == '.') return true;
    return false;
}

/* Without a name: "transformer_1", or the first that no layer's name begins with. */
static lks_tensor *build_transformer(lks_graph *graph, int op, const void *attr, lks_tensor *x)
{
    lks_transformer_opts opts = *(const lks_transformer_opts *)attr;
    char name[LKI_NAME_SIZE];
    int number = 0;

    (void)op;
    if (opts.name == NULL) {
        do snprintf(name, sizeof name, "transformer_%d", ++number);
        while (is_taken(graph, name));
        opts.name = name;
    }
    return lks_transformer_block(graph, x, opts.masked ? lki_graph_tokens(graph) : NULL, &opts);
}

const lki_op lki_layer_transformer = {
    .name = "transformer",
    .what = "a block of a transformer: attention, then two dense layers, each added to its input, "
            "with norms",
    .inputs = 1,
    .takes = LKI_TAKES_SEQUENCE,
    .attr_size = sizeof(lks_transformer_opts),
    .attributes = LKI_ATTRIBUTES(attributes),
    .reads_tokens = true,
    .build = build_transformer,
};

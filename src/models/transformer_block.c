/*
 * A block of a transformer (Vaswani et al., 2017): attention and a small network at each position, each added to what it reads, with a
 * norm before it, as GPT-2 has it, or behind the sum, as in 2017.
 */
#include <math.h>
#include <stdio.h>

#include "models/transformer.h"

const lki_transformer_names lki_transformer_own_names = {.norm = {"norm1", "norm2"},
                                                         .qkv = "attn.qkv",
                                                         .out = "attn.proj",
                                                         .up = "mlp.fc1",
                                                         .gate = "mlp.gate",
                                                         .down = "mlp.fc2"};

enum { INNER_TIMES = 4, INNER_MULTIPLE = 8 };

/* Two thirds of the usual units where there are three matrices: as many parameters as with two. */
static int64_t inner_of(const lks_transformer_opts *opts)
{
    if (opts->inner > 0) return opts->inner;
    if (opts->activation != LKS_MLP_SWIGLU) return INNER_TIMES * opts->width;
    const int64_t units = 2 * INNER_TIMES * opts->width / 3;
    return (units + INNER_MULTIPLE - 1) / INNER_MULTIPLE * INNER_MULTIPLE;
}

void lki_transformer_fill(lks_transformer_opts *opts)
{
    if (opts->heads == 0) opts->heads = 12;
    if (opts->kv_heads == 0) opts->kv_heads = opts->heads;
    if (opts->residual_layers == 0) opts->residual_layers = 1;
    opts->inner = inner_of(opts);
}

lks_tensor *lki_transformer_norm(const lki_transformer *t, lks_tensor *x, const char *name)
{
    if (t->opts.norm == LKS_NORM_RMS)
        return lks_rms_norm(t->graph, x, &(lks_rms_norm_opts){.name = name, .epsilon = 1e-5f});
    return lks_layer_norm(t->graph, x,
                          &(lks_layer_norm_opts){.name = name, .no_bias = t->opts.no_bias});
}

lks_tensor *lki_transformer_dense(const lki_transformer *t, lks_tensor *x, const char *name,
                                  int64_t units, double scale)
{
    return lks_dense(
        t->graph, x,
        &(lks_dense_opts){.name = name,
                          .units = units,
                          .no_bias = t->opts.no_bias,
                          .weight_init = {.kind = LKS_INIT_NORMAL, .scale = (float)scale},
                          .bias_init = {.kind = LKS_INIT_ZEROS}});
}

lks_tensor *lki_transformer_drop(const lki_transformer *t, lks_tensor *x)
{
    if (t->opts.dropout == 0) return x;
    return lks_dropout(t->graph, x, &(lks_dropout_opts){.probability = t->opts.dropout});
}

/* Of a layer of a block; longer than a name of the graph may be, which then refuses it. */
typedef struct layer_name {
    char text[2 * LKI_ZOO_NAME];
} layer_name;

static layer_name of_block(const char *block, const char *layer)
{
    layer_name name;
    snprintf(name.text, sizeof name.text, "%.100s.%s", block, layer);
    return name;
}

/* The last dense layer of a part, whose output is added. */
static lks_tensor *added(const lki_transformer *t, lks_tensor *x, const char *name)
{
    const double scale = LKI_TRANSFORMER_SCALE / sqrt((double)t->opts.residual_layers);
    return lki_transformer_drop(t, lki_transformer_dense(t, x, name, t->opts.width, scale));
}

static lks_tensor *attend(const lki_transformer *t, lks_tensor *x, const char *block)
{
    const lks_transformer_opts *o = &t->opts;
    const int64_t units = o->width / o->heads * (o->heads + 2 * o->kv_heads);
    x = lki_transformer_dense(t, x, of_block(block, t->names->qkv).text, units,
                              LKI_TRANSFORMER_SCALE);
    x = lks_attention(t->graph, x, t->tokens,
                      &(lks_attention_opts){.heads = o->heads,
                                            .kv_heads = o->kv_heads,
                                            .causal = o->causal,
                                            .dropout = o->dropout,
                                            .rotary = o->rotary,
                                            .masked = o->masked,
                                            .padding = o->padding});
    return added(t, x, of_block(block, t->names->out).text);
}

static lks_tensor *activate(const lki_transformer *t, lks_tensor *x)
{
    if (t->opts.activation == LKS_MLP_RELU) return lks_relu(t->graph, x);
    const bool tanh = t->opts.activation == LKS_MLP_GELU_TANH;
    return lks_gelu(t->graph, x, &(lks_gelu_opts){.form = tanh ? LKS_GELU_TANH : LKS_GELU_ERF});
}

static lks_tensor *think(const lki_transformer *t, lks_tensor *x, const char *block)
{
    const int64_t inner = t->opts.inner;
    lks_tensor *y = lki_transformer_dense(t, x, of_block(block, t->names->up).text, inner,
                                          LKI_TRANSFORMER_SCALE);
    if (t->opts.activation == LKS_MLP_SWIGLU) {
        x = lki_transformer_dense(t, x, of_block(block, t->names->gate).text, inner,
                                  LKI_TRANSFORMER_SCALE);
        y = lks_mul(t->graph, lks_silu(t->graph, x), y);
    } else {
        y = activate(t, y);
    }
    return added(t, y, of_block(block, t->names->down).text);
}

lks_tensor *lki_transformer_block(const lki_transformer *t, lks_tensor *x, const char *name)
{
    lks_tensor *(*const part[2])(const lki_transformer *, lks_tensor *, const char *) = {attend,
                                                                                         think};
    for (int k = 0; k < 2; k++) {
        const layer_name own = of_block(name, t->names->norm[k]);
        if (t->opts.post_norm)
            x = lki_transformer_norm(t, lks_add(t->graph, x, part[k](t, x, name)), own.text);
        else
            x = lks_add(t->graph, x, part[k](t, lki_transformer_norm(t, x, own.text), name));
    }
    return x;
}

/* What no layer would refuse in words of these options. */
static bool fits_block(const lki_transformer *t, const lks_tensor *x)
{
    const lks_transformer_opts *o = &t->opts;
    const lks_shape shape = lks_tensor_shape(x);
    if (o->name == NULL)
        (void)lks_graph_fail(t->graph, "a block of a transformer has no name; give it one, which "
                                       "names of its layers begin with");
    else if (shape.ndim != 2 || lks_tensor_dtype(x) != LKS_F32)
        (void)lks_graph_fail(
            t->graph,
            "transformer '%.64s': input '%.64s' has %d dimension%s of %s, expected "
            "positions and channels of F32, as embedding and sequence give them",
            o->name, lks_tensor_name(x), shape.ndim, shape.ndim == 1 ? "" : "s",
            lks_dtype_name(lks_tensor_dtype(x)));
    else if (o->heads < 1 || o->width != shape.dim[1] || o->width % o->heads != 0)
        (void)lks_graph_fail(t->graph,
                             "transformer '%.64s': heads is %lld and width %lld, but the input has "
                             "%lld channels; expected that width, and heads that divide it",
                             o->name, (long long)o->heads, (long long)o->width,
                             (long long)shape.dim[1]);
    else if (o->residual_layers < 1)
        (void)lks_graph_fail(t->graph,
                             "transformer '%.64s': residual_layers is %lld, expected at least 1",
                             o->name, (long long)o->residual_layers);
    else
        return true;
    return false;
}

lks_tensor *lks_transformer_block(lks_graph *graph, lks_tensor *x, lks_tensor *tokens,
                                  const lks_transformer_opts *opts)
{
    lki_transformer t = {.graph = graph, .names = &lki_transformer_own_names, .tokens = tokens};
    if (x == NULL) return NULL;
    if (opts != NULL) t.opts = *opts;
    if (t.opts.width == 0) t.opts.width = lks_tensor_shape(x).dim[1];
    lki_transformer_fill(&t.opts);
    return fits_block(&t, x) ? lki_transformer_block(&t, x, t.opts.name) : NULL;
}

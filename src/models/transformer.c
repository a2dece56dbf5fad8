/*
 * Transformers: GPT-2 (Radford et al., 2019), an encoder that classifies, and a vision transformer (Dosovitskiy et al., 2020;
 * a mean over patches in the place of a class token, which is an option). One block serves all: attention and a small network at each position, each
 * added to what it reads, with a norm before it (or, as Vaswani et al. had it in 2017, behind the sum).
 */
#include <math.h>

#include "models/layers.h"

/* What names of a family's layers are; of a block "%d" is its number. */
typedef struct names {
    const char *tokens, *positions, *block, *norm[2], *qkv, *out, *up, *gate, *down, *last, *head;
} names;

static const names gpt_names = {.tokens = "transformer.wte",
                                .positions = "transformer.wpe",
                                .block = "transformer.h.%d.%s",
                                .norm = {"ln_1", "ln_2"},
                                .qkv = "attn.c_attn",
                                .out = "attn.c_proj",
                                .up = "mlp.c_fc",
                                .gate = "mlp.c_gate",
                                .down = "mlp.c_proj",
                                .last = "transformer.ln_f",
                                .head = "lm_head"};
static const names own_names = {.tokens = "embed",
                                .positions = "pos_embed",
                                .block = "blocks.%d.%s",
                                .norm = {"norm1", "norm2"},
                                .qkv = "attn.qkv",
                                .out = "attn.proj",
                                .up = "mlp.fc1",
                                .gate = "mlp.gate",
                                .down = "mlp.fc2",
                                .last = "norm",
                                .head = "head"};

/* A network under way. */
typedef struct net {
    lks_graph *graph;
    lks_transformer_opts opts; /* with defaults filled in */
    const names *names;
    lks_init init, residual; /* of weights, and of those whose output is added */
    lks_tensor *tokens;      /* among which padding is looked for; NULL: nothing is masked */
    bool causal;
    bool front; /* a vector of the class stands in front of positions */
} net;

enum { INNER_TIMES = 4, INNER_MULTIPLE = 8 };

/* Two thirds of the usual units where there are three matrices: as many parameters as with two. */
static int64_t inner_of(const lks_transformer_opts *opts)
{
    if (opts->inner > 0) return opts->inner;
    if (opts->activation != LKS_MLP_SWIGLU) return INNER_TIMES * opts->width;
    const int64_t units = 2 * INNER_TIMES * opts->width / 3;
    return (units + INNER_MULTIPLE - 1) / INNER_MULTIPLE * INNER_MULTIPLE;
}

/* Of a network that classifies: tokens bring one of the class along. */
static bool wants_front(const net *n, const lks_tensor *x)
{
    return n->opts.class_token && x != NULL && lks_tensor_dtype(x) != LKS_I32;
}

static net begin_net(lks_graph *graph, const lks_transformer_opts *opts, const names *own)
{
    static const lks_transformer_opts none = {0};
    net n = {.graph = graph, .opts = opts != NULL ? *opts : none, .names = own};
    lks_transformer_opts *o = &n.opts;
    if (o->depth == 0) o->depth = 12;
    if (o->heads == 0) o->heads = 12;
    if (o->kv_heads == 0) o->kv_heads = o->heads;
    if (o->width == 0) o->width = 768;
    if (o->patch == 0) o->patch = 16;
    o->inner = inner_of(o);
    n.init = n.residual = (lks_init){.kind = LKS_INIT_NORMAL, .scale = 0.02f};
    return n;
}

/* What no layer would refuse in words of these options. */
static bool fits(const net *n, const char *who)
{
    const lks_transformer_opts *o = &n->opts;
    if (o->depth > 0 && o->heads > 0 && o->width > 0 && o->patch > 0 && o->width % o->heads == 0)
        return true;
    (void)lks_graph_fail(
        n->graph,
        "%s: depth is %lld, heads %lld, width %lld, patch %lld; expected at least 1 "
        "each, and a width that heads divide",
        who, (long long)o->depth, (long long)o->heads, (long long)o->width, (long long)o->patch);
    return false;
}

static lks_tensor *norm(const net *n, lks_tensor *x, const char *name)
{
    if (n->opts.norm == LKS_NORM_RMS)
        return lks_rms_norm(n->graph, x, &(lks_rms_norm_opts){.name = name, .epsilon = 1e-5f});
    return lks_layer_norm(n->graph, x,
                          &(lks_layer_norm_opts){.name = name, .no_bias = n->opts.no_bias});
}

static lks_tensor *dense(const net *n, lks_tensor *x, const char *name, int64_t units,
                         lks_init init)
{
    return lks_dense(n->graph, x,
                     &(lks_dense_opts){.name = name,
                                       .units = units,
                                       .no_bias = n->opts.no_bias,
                                       .weight_init = init,
                                       .bias_init = {.kind = LKS_INIT_ZEROS}});
}

static lks_tensor *drop(const net *n, lks_tensor *x)
{
    if (n->opts.dropout == 0) return x;
    return lks_dropout(n->graph, x, &(lks_dropout_opts){.probability = n->opts.dropout});
}

/* The name of a layer of block `number`. */
static const char *of_block(const net *n, char out[LKI_ZOO_NAME], int64_t number, const char *layer)
{
    return lki_zoo_name(out, n->names->block, (int)number, layer);
}

static lks_tensor *attend(const net *n, lks_tensor *x, int64_t number)
{
    const lks_transformer_opts *o = &n->opts;
    const int64_t parts = o->heads + 2 * o->kv_heads;
    char name[LKI_ZOO_NAME];
    x = dense(n, x, of_block(n, name, number, n->names->qkv), o->width / o->heads * parts, n->init);
    x = lks_attention(n->graph, x, n->tokens,
                      &(lks_attention_opts){.heads = o->heads,
                                            .kv_heads = o->kv_heads,
                                            .causal = n->causal,
                                            .dropout = o->dropout,
                                            .rotary = o->rotary,
                                            .padding = o->padding});
    x = dense(n, x, of_block(n, name, number, n->names->out), o->width, n->residual);
    return drop(n, x);
}

static lks_tensor *activate(const net *n, lks_tensor *x)
{
    if (n->opts.activation == LKS_MLP_RELU) return lks_relu(n->graph, x);
    const bool tanh = n->opts.activation == LKS_MLP_GELU_TANH;
    return lks_gelu(n->graph, x, &(lks_gelu_opts){.form = tanh ? LKS_GELU_TANH : LKS_GELU_ERF});
}

static lks_tensor *think(const net *n, lks_tensor *x, int64_t number)
{
    const int64_t inner = n->opts.inner;
    char name[LKI_ZOO_NAME];
    lks_tensor *y = dense(n, x, of_block(n, name, number, n->names->up), inner, n->init);
    if (n->opts.activation == LKS_MLP_SWIGLU) {
        x = dense(n, x, of_block(n, name, number, n->names->gate), inner, n->init);
        y = lks_mul(n->graph, lks_silu(n->graph, x), y);
    } else {
        y = activate(n, y);
    }
    y = dense(n, y, of_block(n, name, number, n->names->down), n->opts.width, n->residual);
    return drop(n, y);
}

static lks_tensor *add_blocks(const net *n, lks_tensor *x)
{
    lks_tensor *(*const part[2])(const net *, lks_tensor *, int64_t) = {attend, think};
    char name[LKI_ZOO_NAME];
    for (int64_t i = 0; i < n->opts.depth; i++)
        for (int k = 0; k < 2; k++) {
            const char *own = of_block(n, name, i, n->names->norm[k]);
            if (n->opts.post_norm)
                x = norm(n, lks_add(n->graph, x, part[k](n, x, i)), own);
            else
                x = lks_add(n->graph, x, part[k](n, norm(n, x, own), i));
        }
    return n->opts.post_norm ? x : norm(n, x, n->names->last);
}

static lks_tensor *add_position(const net *n, lks_tensor *x)
{
    if (n->opts.rotary == 0)
        x = lks_position(n->graph, x,
                         &(lks_position_opts){.name = n->names->positions,
                                              .weight_init = n->init,
                                              .class_token = n->front});
    return drop(n, x);
}

static lks_tensor *embed(const net *n, lks_tensor *tokens)
{
    return lks_embedding(n->graph, tokens,
                         &(lks_embedding_opts){.name = n->names->tokens,
                                               .units = n->opts.width,
                                               .weight_init = n->init});
}

lks_tensor *lks_gpt(lks_graph *graph, lks_tensor *tokens, const lks_transformer_opts *opts)
{
    net n = begin_net(graph, opts, &gpt_names);
    if (tokens == NULL || !fits(&n, "gpt")) return NULL;
    n.causal = true;
    n.residual.scale = (float)(0.02 / sqrt(2.0 * (double)n.opts.depth));
    lks_tensor *embedded = embed(&n, tokens);
    return lks_dense(graph, add_blocks(&n, add_position(&n, embedded)),
                     &(lks_dense_opts){.name = n.names->head,
                                       .units = n.opts.outputs != 0 ? n.opts.outputs : 50257,
                                       .no_bias = true,
                                       .weight_of = embedded});
}

/* The mean of the positions that are no padding: attention whose queries and keys are zeros sees all of them alike, so that
 * no operation of its own has to count them. */
static lks_tensor *mean_without_padding(const net *n, lks_tensor *x)
{
    lks_tensor *zeros = lks_add(n->graph, x,
                                lks_scale(n->graph, x, &(lks_scale_opts){.factor = -1}));
    x = lks_concat(n->graph, lks_concat(n->graph, zeros, zeros), x);
    x = lks_attention(n->graph, x, n->tokens,
                      &(lks_attention_opts){.heads = 1, .padding = n->opts.padding});
    return lks_select(n->graph, x, &(lks_select_opts){.position = 0});
}

/* What all positions say of a sample. */
static lks_tensor *gather(const net *n, lks_tensor *x)
{
    if (n->opts.class_token) return lks_select(n->graph, x, &(lks_select_opts){.position = 0});
    return n->tokens != NULL ? mean_without_padding(n, x) : lks_global_avg_pool(n->graph, x);
}

static lks_tensor *classify(const net *n, lks_tensor *x)
{
    x = gather(n, add_blocks(n, add_position(n, x)));
    return lks_dense(n->graph, x,
                     &(lks_dense_opts){.name = n->names->head,
                                       .units = n->opts.outputs != 0 ? n->opts.outputs : 10,
                                       .weight_init = n->init,
                                       .bias_init = {.kind = LKS_INIT_ZEROS}});
}

/* Whether options of tokens are given where there are some, padding where it is masked, and a vector in front among others. */
static bool fits_tokens(const net *n, const lks_tensor *x, const char *who)
{
    const lks_transformer_opts *o = &n->opts;
    if (lks_tensor_dtype(x) != LKS_I32 && o->masked)
        (void)lks_graph_fail(n->graph,
                             "%s: masked is true, but samples are no tokens, of which one could be "
                             "the padding; drop the option, or give tokens",
                             who);
    else if (n->front && o->rotary != 0)
        (void)lks_graph_fail(n->graph,
                             "%s: class_token is a learned position in front of others, but rotary "
                             "is %g; drop one of them",
                             who, (double)o->rotary);
    else if (!o->masked && o->padding != 0)
        (void)lks_graph_fail(n->graph,
                             "%s: padding is %lld, but masked is false; set it, or drop padding",
                             who, (long long)o->padding);
    else
        return true;
    return false;
}

lks_tensor *lks_encoder(lks_graph *graph, lks_tensor *x, const lks_transformer_opts *opts)
{
    net n = begin_net(graph, opts, &own_names);
    n.front = wants_front(&n, x);
    if (x == NULL || !fits(&n, "encoder") || !fits_tokens(&n, x, "encoder")) return NULL;
    n.tokens = n.opts.masked ? x : NULL;
    return classify(&n, lks_tensor_dtype(x) == LKS_I32
                            ? embed(&n, x)
                            : dense(&n, x, n.names->tokens, n.opts.width, n.init));
}

lks_tensor *lks_vit(lks_graph *graph, lks_tensor *x, const lks_transformer_opts *opts)
{
    net n = begin_net(graph, opts, &own_names);
    n.front = wants_front(&n, x);
    if (x == NULL || !fits(&n, "vit") || !fits_tokens(&n, x, "vit") ||
        lki_zoo_image(&(lki_zoo_net){.graph = graph, .name = "vit"}, x) == NULL)
        return NULL;
    const lks_shape shape = lks_tensor_shape(x);
    const int64_t side = n.opts.patch;
    if (shape.dim[0] % side != 0 || shape.dim[1] % side != 0)
        return lks_graph_fail(
            graph,
            "vit: images are %lldx%lld, which patches of %lldx%lld do not divide; "
            "choose another patch",
            (long long)shape.dim[0], (long long)shape.dim[1], (long long)side, (long long)side);
    x = lks_conv2d(graph, x,
                   &(lks_conv2d_opts){.name = "patch_embed.proj",
                                      .filters = n.opts.width,
                                      .kernel = {side, side},
                                      .stride = {side, side},
                                      .weight_init = n.init,
                                      .bias_init = {.kind = LKS_INIT_ZEROS}});
    return classify(&n, lks_sequence(graph, x));
}

#define ATTRIBUTES_OF_ALL                                                                          \
    LKI_ATTRIBUTE(INT, lks_transformer_opts, depth, .range = "[1,)"),                              \
        LKI_ATTRIBUTE(INT, lks_transformer_opts, heads, .range = "[1,)"),                          \
        LKI_ATTRIBUTE(INT, lks_transformer_opts, kv_heads, .range = "[1,)"),                       \
        LKI_ATTRIBUTE(INT, lks_transformer_opts, width, .range = "[1,)"),                          \
        LKI_ATTRIBUTE(INT, lks_transformer_opts, inner, .range = "[1,)"),                          \
        LKI_ATTRIBUTE(WORD, lks_transformer_opts, norm, .range = "layer_norm rms_norm"),           \
        LKI_ATTRIBUTE(WORD, lks_transformer_opts, activation,                                      \
                      .range = "gelu gelu_tanh relu swiglu"),                                      \
        LKI_ATTRIBUTE(FLOAT, lks_transformer_opts, rotary, .range = "[0,)"),                       \
        LKI_ATTRIBUTE(FLOAT, lks_transformer_opts, dropout, .range = "[0,1)"),                     \
        LKI_ATTRIBUTE_NOT(lks_transformer_opts, bias)

static const lki_attribute gpt_attributes[] = {ATTRIBUTES_OF_ALL};
static const lki_attribute encoder_attributes[] = {
    ATTRIBUTES_OF_ALL,
    LKI_ATTRIBUTE(BOOL, lks_transformer_opts, post_norm, .fallback = "false"),
    LKI_ATTRIBUTE(BOOL, lks_transformer_opts, class_token, .fallback = "false"),
    LKI_ATTRIBUTE(BOOL, lks_transformer_opts, masked, .fallback = "false"),
};
static const lki_attribute vit_attributes[] = {
    ATTRIBUTES_OF_ALL,
    LKI_ATTRIBUTE(BOOL, lks_transformer_opts, post_norm, .fallback = "false"),
    LKI_ATTRIBUTE(BOOL, lks_transformer_opts, class_token, .fallback = "false"),
    LKI_ATTRIBUTE(INT, lks_transformer_opts, patch, .range = "[1,)"),
};

typedef struct variant {
    lks_tensor *(*build)(lks_graph *, lks_tensor *, const lks_transformer_opts *);
} variant;

static lks_tensor *build(const lki_zoo_network *self, lks_graph *graph, lks_tensor *x,
                         const void *opts)
{
    const variant *own = self->variant;
    return own->build(graph, x, opts);
}

/* The rest of a constant is what differs. */
#define TRANSFORMER(its_name)                                                                      \
    .name = #its_name, .bytes = sizeof(lks_transformer_opts),                                      \
    .outputs = offsetof(lks_transformer_opts, outputs),                                            \
    .attributes = LKI_ATTRIBUTES(its_name##_attributes), .build = build,                           \
    .variant = &(const variant)                                                                    \
    {                                                                                              \
        lks_##its_name                                                                             \
    }

const lki_zoo_network lki_zoo_gpt = {
    TRANSFORMER(gpt),     .what = "GPT-2: a causal transformer of tokens, with tied weights",
    .image = {1, {1024}}, .vocabulary = 50257,
    .classes = 50257,     .by_position = true,
};
const lki_zoo_network lki_zoo_encoder = {
    TRANSFORMER(encoder),
    .what = "a transformer of tokens or frames, and the mean of its positions",
    .image = {1, {128}},
    .vocabulary = 30522,
    .classes = 2,
};
const lki_zoo_network lki_zoo_vit = {
    TRANSFORMER(vit),
    .what = "a transformer of patches of an image, and their mean",
    .image = LKI_ZOO_IMAGENET,
    .classes = 1000,
};

/*
 * Transformers: GPT-2 (Radford et al., 2019), an encoder that classifies, and a vision transformer (Dosovitskiy et al., 2020;
 * a mean over patches in the place of a class token, which is an option). transformer_block.c has the block of all of them.
 */
#include "models/transformer.h"

/* What names of a family's layers are; of a block "%d" is its number. */
typedef struct names {
    const char *tokens, *positions, *block, *last, *head;
    const lki_transformer_names *of_block;
} names;

static const lki_transformer_names gpt_block_names = {.norm = {"ln_1", "ln_2"},
                                                      .qkv = "attn.c_attn",
                                                      .out = "attn.c_proj",
                                                      .up = "mlp.c_fc",
                                                      .gate = "mlp.c_gate",
                                                      .down = "mlp.c_proj"};
static const names gpt_names = {.tokens = "transformer.wte",
                                .positions = "transformer.wpe",
                                .block = "transformer.h.%d",
                                .last = "transformer.ln_f",
                                .head = "lm_head",
                                .of_block = &gpt_block_names};
static const names own_names = {.tokens = "embed",
                                .positions = "pos_embed",
                                .block = "blocks.%d",
                                .last = "norm",
                                .head = "head",
                                .of_block = &lki_transformer_own_names};

/* How embeddings, positions, patches and heads start. */
static const lks_init start = {.kind = LKS_INIT_NORMAL, .scale = (float)LKI_TRANSFORMER_SCALE};

/* A network under way. */
typedef struct net {
    lki_transformer t;
    const names *names;
    bool front; /* a vector of the class stands in front of positions */
} net;

/* Of a network that classifies: tokens bring one of the class along. */
static bool wants_front(const net *n, const lks_tensor *x)
{
    return n->t.opts.class_token && x != NULL && lks_tensor_dtype(x) != LKS_I32;
}

static net begin_net(lks_graph *graph, const lks_transformer_opts *opts, const names *own)
{
    net n = {.t = {.graph = graph, .names = own->of_block}, .names = own};
    lks_transformer_opts *o = &n.t.opts;
    if (opts != NULL) *o = *opts;
    if (o->depth == 0) o->depth = 12;
    if (o->width == 0) o->width = 768;
    if (o->patch == 0) o->patch = 16;
    lki_transformer_fill(o);
    return n;
}

/* What no layer would refuse in words of these options. */
static bool fits(const net *n, const char *who)
{
    const lks_transformer_opts *o = &n->t.opts;
    if (o->depth > 0 && o->heads > 0 && o->width > 0 && o->patch > 0 && o->width % o->heads == 0)
        return true;
    (void)lks_graph_fail(
        n->t.graph,
        "%s: depth is %lld, heads %lld, width %lld, patch %lld; expected at least 1 "
        "each, and a width that heads divide",
        who, (long long)o->depth, (long long)o->heads, (long long)o->width, (long long)o->patch);
    return false;
}

static lks_tensor *add_blocks(const net *n, lks_tensor *x)
{
    char name[LKI_ZOO_NAME];
    for (int64_t i = 0; i < n->t.opts.depth; i++)
        x = lki_transformer_block(&n->t, x, lki_zoo_name(name, n->names->block, (int)i));
    return n->t.opts.post_norm ? x : lki_transformer_norm(&n->t, x, n->names->last);
}

static lks_tensor *add_position(const net *n, lks_tensor *x)
{
    if (n->t.opts.rotary == 0)
        x = lks_position(n->t.graph, x,
                         &(lks_position_opts){.name = n->names->positions,
                                              .weight_init = start,
                                              .class_token = n->front});
    return lki_transformer_drop(&n->t, x);
}

static lks_tensor *embed(const net *n, lks_tensor *tokens)
{
    return lks_embedding(n->t.graph, tokens,
                         &(lks_embedding_opts){.name = n->names->tokens,
                                               .units = n->t.opts.width,
                                               .weight_init = start});
}

lks_tensor *lks_gpt(lks_graph *graph, lks_tensor *tokens, const lks_transformer_opts *opts)
{
    net n = begin_net(graph, opts, &gpt_names);
    if (tokens == NULL || !fits(&n, "gpt")) return NULL;
    n.t.opts.causal = true;
    n.t.opts.residual_layers = 2 * n.t.opts.depth;
    lks_tensor *embedded = embed(&n, tokens);
    return lks_dense(graph, add_blocks(&n, add_position(&n, embedded)),
                     &(lks_dense_opts){.name = n.names->head,
                                       .units = n.t.opts.outputs != 0 ? n.t.opts.outputs : 50257,
                                       .no_bias = true,
                                       .weight_of = embedded});
}

/* The mean of the positions that are no padding: attention whose queries and keys are zeros sees all of them alike, so that
 * no operation of its own has to count them. */
static lks_tensor *mean_without_padding(const net *n, lks_tensor *x)
{
    lks_tensor *zeros = lks_add(n->t.graph, x,
                                lks_scale(n->t.graph, x, &(lks_scale_opts){.factor = -1}));
    x = lks_concat(n->t.graph, lks_concat(n->t.graph, zeros, zeros), x);
    x = lks_attention(n->t.graph, x, n->t.tokens,
                      &(lks_attention_opts){.heads = 1, .padding = n->t.opts.padding});
    return lks_select(n->t.graph, x, &(lks_select_opts){.position = 0});
}

/* What all positions say of a sample. */
static lks_tensor *gather(const net *n, lks_tensor *x)
{
    if (n->t.opts.class_token) return lks_select(n->t.graph, x, &(lks_select_opts){.position = 0});
    return n->t.tokens != NULL ? mean_without_padding(n, x) : lks_global_avg_pool(n->t.graph, x);
}

static lks_tensor *classify(const net *n, lks_tensor *x)
{
    x = gather(n, add_blocks(n, add_position(n, x)));
    return lks_dense(n->t.graph, x,
                     &(lks_dense_opts){.name = n->names->head,
                                       .units = n->t.opts.outputs != 0 ? n->t.opts.outputs : 10,
                                       .weight_init = start,
                                       .bias_init = {.kind = LKS_INIT_ZEROS}});
}

/* Whether options of tokens are given where there are some, padding where it is masked, and a vector in front among others. */
static bool fits_tokens(const net *n, const lks_tensor *x, const char *who)
{
    const lks_transformer_opts *o = &n->t.opts;
    const bool words = lks_tensor_dtype(x) == LKS_I32;
    if (!words && o->masked && lks_tensor_shape(x).ndim != 2)
        (void)lks_graph_fail(
            n->t.graph,
            "%s: masked is true, but samples are neither tokens nor frames, of which "
            "some could be padding; drop the option",
            who);
    else if (!words && o->masked && o->padding != 0)
        (void)lks_graph_fail(n->t.graph,
                             "%s: padding is %lld, but samples are no tokens: frames are padding "
                             "where they are 0; drop it",
                             who, (long long)o->padding);
    else if (n->front && o->masked)
        (void)lks_graph_fail(n->t.graph,
                             "%s: class_token is a position in front of the frames, among which "
                             "masked looks for padding; drop one of them",
                             who);
    else if (n->front && o->rotary != 0)
        (void)lks_graph_fail(n->t.graph,
                             "%s: class_token is a learned position in front of others, but rotary "
                             "is %g; drop one of them",
                             who, (double)o->rotary);
    else if (!o->masked && o->padding != 0)
        (void)lks_graph_fail(n->t.graph,
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
    const bool words = lks_tensor_dtype(x) == LKS_I32;
    if (n.t.opts.masked) n.t.tokens = words ? x : lks_masking(graph, x, NULL);
    return classify(&n, words ? embed(&n, x)
                              : lki_transformer_dense(&n.t, x, n.names->tokens, n.t.opts.width,
                                                      LKI_TRANSFORMER_SCALE));
}

lks_tensor *lks_vit(lks_graph *graph, lks_tensor *x, const lks_transformer_opts *opts)
{
    net n = begin_net(graph, opts, &own_names);
    n.front = wants_front(&n, x);
    if (x == NULL || !fits(&n, "vit") || !fits_tokens(&n, x, "vit") ||
        lki_zoo_image(&(lki_zoo_net){.graph = graph, .name = "vit"}, x) == NULL)
        return NULL;
    const lks_shape shape = lks_tensor_shape(x);
    const int64_t side = n.t.opts.patch;
    if (shape.dim[0] % side != 0 || shape.dim[1] % side != 0)
        return lks_graph_fail(
            graph,
            "vit: images are %lldx%lld, which patches of %lldx%lld do not divide; "
            "choose another patch",
            (long long)shape.dim[0], (long long)shape.dim[1], (long long)side, (long long)side);
    x = lks_conv2d(graph, x,
                   &(lks_conv2d_opts){.name = "patch_embed.proj",
                                      .filters = n.t.opts.width,
                                      .kernel = {side, side},
                                      .stride = {side, side},
                                      .weight_init = start,
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
        LKI_ATTRIBUTE(BOOL, lks_transformer_opts, post_norm, .fallback = "false"),                 \
        LKI_ATTRIBUTE(FLOAT, lks_transformer_opts, rotary, .range = "[0,)"),                       \
        LKI_ATTRIBUTE(FLOAT, lks_transformer_opts, dropout, .range = "[0,1)"),                     \
        LKI_ATTRIBUTE_NOT(lks_transformer_opts, bias)

static const lki_attribute gpt_attributes[] = {ATTRIBUTES_OF_ALL};
static const lki_attribute encoder_attributes[] = {
    ATTRIBUTES_OF_ALL,
    LKI_ATTRIBUTE(BOOL, lks_transformer_opts, class_token, .fallback = "false"),
    LKI_ATTRIBUTE(BOOL, lks_transformer_opts, masked, .fallback = "false"),
};
static const lki_attribute vit_attributes[] = {
    ATTRIBUTES_OF_ALL,
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

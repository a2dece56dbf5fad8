/* Every layer that a configuration may have: its options and its builder. */
#include "recipe/layer.h"

#include <string.h>

#include "recipe/network.h"

const char *lki_layer_own_name(const lki_layer *l)
{
    return l->value[LKI_OPTION_NAME].s;
}

lks_tensor *lki_layer_find_named(const lki_layer *l, const char *name)
{
    const lki_layer_named *n = l->named;
    while (n != NULL && strcmp(n->name, name) != 0) n = n->next;
    return n != NULL ? n->tensor : NULL;
}

lks_tensor *lki_layer_earlier(const lki_layer *l, const char *name)
{
    lks_tensor *tensor = lki_layer_find_named(l, name);
    if (tensor != NULL) return tensor;
    lki_nearest near = {.word = name};
    for (const lki_layer_named *n = l->named; n != NULL; n = n->next)
        lki_nearest_offer(&near, n->name);
    if (near.best == NULL)
        return lks_graph_fail(l->graph, "%s: no layer before it has the name '%.60s'", l->op, name);
    return lks_graph_fail(l->graph,
                          "%s: no layer before it has the name '%.60s'; the nearest is '%.60s'",
                          l->op, name, near.best);
}

/* The second operand: a NULL ends as the builder's NULL. */
static lks_tensor *other(const lki_layer *l)
{
    return lki_layer_earlier(l, l->value[LKI_OPTION_WITH].s);
}

static void layer_ops_pair(int64_t out[2], const lki_setting *value)
{
    if (value->set) memcpy(out, value->i, 2 * sizeof *out);
}

static lks_init_kind init_kind(const lki_setting *kind)
{
    static const struct word {
        const char *name;
        lks_init_kind kind;
    } words[] = {
        {"default", LKS_INIT_DEFAULT},
        {"zeros", LKS_INIT_ZEROS},
        {"ones", LKS_INIT_ONES},
        {"uniform", LKS_INIT_UNIFORM},
        {"normal", LKS_INIT_NORMAL},
        {"kaiming_uniform", LKS_INIT_KAIMING_UNIFORM},
        {"kaiming_normal", LKS_INIT_KAIMING_NORMAL},
        {"xavier_uniform", LKS_INIT_XAVIER_UNIFORM},
        {"xavier_normal", LKS_INIT_XAVIER_NORMAL},
        {"constant", LKS_INIT_CONSTANT},
        {"identity", LKS_INIT_IDENTITY},
    };
    for (size_t i = 0; kind->set && i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i].name, kind->s) == 0) return words[i].kind;
    return LKS_INIT_DEFAULT;
}

static lks_init weight_init(const lki_layer *l)
{
    return (lks_init){.kind = init_kind(&l->value[LKI_OPTION_WEIGHT_INIT]),
                      .scale = (float)l->value[LKI_OPTION_WEIGHT_SCALE].f[0],
                      .value = (float)l->value[LKI_OPTION_WEIGHT_VALUE].f[0],
                      .gain = (float)l->value[LKI_OPTION_WEIGHT_GAIN].f[0],
                      .slope = (float)l->value[LKI_OPTION_WEIGHT_SLOPE].f[0],
                      .fan_out = l->value[LKI_OPTION_WEIGHT_FAN_OUT].b};
}

static lks_init bias_init(const lki_layer *l)
{
    return (lks_init){.kind = init_kind(&l->value[LKI_OPTION_BIAS_INIT]),
                      .scale = (float)l->value[LKI_OPTION_BIAS_SCALE].f[0],
                      .value = (float)l->value[LKI_OPTION_BIAS_VALUE].f[0]};
}

static bool no_bias(const lki_layer *l)
{
    return l->value[LKI_OPTION_BIAS].set && !l->value[LKI_OPTION_BIAS].b;
}

static lks_tensor *build_normalize(const lki_layer *l)
{
    lks_normalize_opts opts = {.name = lki_layer_own_name(l)};
    const lks_status status = lki_network_constants(
        &opts, &l->config->heap, &l->value[LKI_OPTION_MEAN], &l->value[LKI_OPTION_STD]);
    return status == LKS_OK ? lks_normalize(l->graph, l->x, &opts) : NULL;
}

static lks_tensor *build_conv2d(const lki_layer *l)
{
    lks_conv2d_opts opts = {.name = lki_layer_own_name(l),
                            .filters = l->value[LKI_OPTION_FILTERS].i[0],
                            .groups = l->value[LKI_OPTION_GROUPS].i[0],
                            .no_bias = no_bias(l),
                            .weight_init = weight_init(l),
                            .bias_init = bias_init(l)};
    layer_ops_pair(opts.kernel, &l->value[LKI_OPTION_KERNEL]);
    layer_ops_pair(opts.stride, &l->value[LKI_OPTION_STRIDE]);
    layer_ops_pair(opts.padding, &l->value[LKI_OPTION_PADDING]);
    layer_ops_pair(opts.dilation, &l->value[LKI_OPTION_DILATION]);
    return lks_conv2d(l->graph, l->x, &opts);
}

static lks_tensor *build_dense(const lki_layer *l)
{
    const lks_dense_opts opts = {.name = lki_layer_own_name(l),
                                 .units = l->value[LKI_OPTION_UNITS].i[0],
                                 .no_bias = no_bias(l),
                                 .weight_init = weight_init(l),
                                 .bias_init = bias_init(l)};
    return lks_dense(l->graph, l->x, &opts);
}

static lks_tensor *build_batch_norm(const lki_layer *l)
{
    const lks_batch_norm_opts opts = {.name = lki_layer_own_name(l),
                                      .momentum = (float)l->value[LKI_OPTION_MOMENTUM].f[0],
                                      .epsilon = (float)l->value[LKI_OPTION_EPSILON].f[0]};
    return lks_batch_norm(l->graph, l->x, &opts);
}

static lks_tensor *build_layer_norm(const lki_layer *l)
{
    const lki_setting *affine = &l->value[LKI_OPTION_AFFINE];
    const lks_layer_norm_opts opts = {.name = lki_layer_own_name(l),
                                      .dims = (int)l->value[LKI_OPTION_DIMS].i[0],
                                      .epsilon = (float)l->value[LKI_OPTION_EPSILON].f[0],
                                      .no_affine = affine->set && !affine->b};
    return lks_layer_norm(l->graph, l->x, &opts);
}

static lks_pool_opts pool_opts(const lki_layer *l)
{
    lks_pool_opts opts = {.name = lki_layer_own_name(l)};
    layer_ops_pair(opts.kernel, &l->value[LKI_OPTION_KERNEL]);
    layer_ops_pair(opts.stride, &l->value[LKI_OPTION_STRIDE]);
    layer_ops_pair(opts.padding, &l->value[LKI_OPTION_PADDING]);
    return opts;
}

static lks_tensor *build_max_pool(const lki_layer *l)
{
    const lks_pool_opts opts = pool_opts(l);
    return lks_max_pool(l->graph, l->x, &opts);
}

static lks_tensor *build_avg_pool(const lki_layer *l)
{
    lks_pool_opts opts = pool_opts(l);
    opts.exclude_padding = l->value[LKI_OPTION_EXCLUDE_PADDING].b;
    return lks_avg_pool(l->graph, l->x, &opts);
}

static lks_tensor *build_global_avg_pool(const lki_layer *l)
{
    return lks_global_avg_pool(l->graph, l->x);
}

static lks_tensor *build_relu(const lki_layer *l)
{
    return lks_relu(l->graph, l->x);
}

static lks_tensor *build_leaky_relu(const lki_layer *l)
{
    const lks_leaky_relu_opts opts = {.name = lki_layer_own_name(l),
                                      .slope = (float)l->value[LKI_OPTION_SLOPE].f[0]};
    return lks_leaky_relu(l->graph, l->x, &opts);
}

static lks_tensor *build_gelu(const lki_layer *l)
{
    const lki_setting *form = &l->value[LKI_OPTION_FORM];
    const bool tanh_form = form->set && strcmp(form->s, "tanh") == 0;
    const lks_gelu_opts opts = {.name = lki_layer_own_name(l),
                                .form = tanh_form ? LKS_GELU_TANH : LKS_GELU_ERF};
    return lks_gelu(l->graph, l->x, &opts);
}

static lks_tensor *build_silu(const lki_layer *l)
{
    return lks_silu(l->graph, l->x);
}

static lks_tensor *build_tanh(const lki_layer *l)
{
    return lks_tanh(l->graph, l->x);
}

static lks_tensor *build_sigmoid(const lki_layer *l)
{
    return lks_sigmoid(l->graph, l->x);
}

static lks_tensor *build_softplus(const lki_layer *l)
{
    return lks_softplus(l->graph, l->x);
}

static lks_tensor *build_scale(const lki_layer *l)
{
    const lks_scale_opts opts = {.name = lki_layer_own_name(l),
                                 .factor = (float)l->value[LKI_OPTION_FACTOR].f[0]};
    return lks_scale(l->graph, l->x, &opts);
}

static lks_tensor *build_flatten(const lki_layer *l)
{
    return lks_flatten(l->graph, l->x);
}

static lks_tensor *build_log_softmax(const lki_layer *l)
{
    return lks_log_softmax(l->graph, l->x);
}

static lks_tensor *build_dropout(const lki_layer *l)
{
    const lks_dropout_opts opts = {.name = lki_layer_own_name(l),
                                   .probability = (float)l->value[LKI_OPTION_PROBABILITY].f[0]};
    return lks_dropout(l->graph, l->x, &opts);
}

static lks_tensor *build_add(const lki_layer *l)
{
    return lks_add(l->graph, l->x, other(l));
}

static lks_tensor *build_mul(const lki_layer *l)
{
    return lks_mul(l->graph, l->x, other(l));
}

static lks_tensor *build_concat(const lki_layer *l)
{
    return lks_concat(l->graph, l->x, other(l));
}

#define WEIGHTS                                                                                    \
    "bias=true weight_init weight_scale weight_value weight_gain=1 weight_slope=0 "                \
    "weight_fan_out=false bias_init bias_scale bias_value "
#define ANY "name from" /* options of any layer */
const lki_layer_op lki_layer_ops[] = {
    {"conv2d", "convolution of an image; pixels outside are zero",
     "filters! kernel! stride=1 padding=0 dilation=1 groups=1 " WEIGHTS ANY, build_conv2d},
    {"dense", "y = W x + b; x has one dimension", "units! " WEIGHTS ANY, build_dense},
    {"batch_norm", "normalisation per channel over a replica's samples, times weight plus bias",
     "momentum=0.1 epsilon=1e-5 " ANY, build_batch_norm},
    {"layer_norm",
     "normalisation of every sample over its last dims dimensions, times weight plus bias",
     "dims=1 epsilon=1e-5 affine=true " ANY, build_layer_norm},
    {"max_pool", "largest value of each window; ties go to the first in row order",
     "kernel! stride=kernel padding=0 " ANY, build_max_pool},
    {"avg_pool", "mean of each window; padding counts as zeros, unless exclude_padding",
     "kernel! stride=kernel padding=0 exclude_padding=false " ANY, build_avg_pool},
    {"global_avg_pool", "mean over the image, per channel", ANY, build_global_avg_pool},
    {"relu", "max(x, 0)", ANY, build_relu},
    {"leaky_relu", "x where x > 0, else slope * x", "slope=0.01 " ANY, build_leaky_relu},
    {"gelu", "x times the normal distribution function of x; form tanh approximates it",
     "form=erf " ANY, build_gelu},
    {"silu", "x * sigmoid(x)", ANY, build_silu},
    {"tanh", "hyperbolic tangent", ANY, build_tanh},
    {"sigmoid", "1 / (1 + exp(-x))", ANY, build_sigmoid},
    {"softplus", "log(1 + exp(x))", ANY, build_softplus},
    {"scale", "factor * x, a constant", "factor! " ANY, build_scale},
    {"add", "sum with an earlier layer of the same shape, or with a vector of its channels",
     "with! " ANY, build_add},
    {"mul", "product with an earlier layer of the same shape, or with a vector of its channels",
     "with! " ANY, build_mul},
    {"concat", "this layer's channels, then an earlier layer's; of more layers, one after another",
     "with! " ANY, build_concat},
    {"flatten", "one dimension, in PyTorch's order: channel, row, column", ANY, build_flatten},
    {"dropout", "zeroes an element with this probability in training, and scales the others up",
     "probability! " ANY, build_dropout},
    {"normalize", "(x - mean) / std, constants for all channels or one for each", "mean! std! " ANY,
     build_normalize},
    {"log_softmax", "logarithms of probabilities; the loss is then nll", ANY, build_log_softmax},
};
const int lki_layer_op_count = sizeof lki_layer_ops / sizeof *lki_layer_ops;

static lks_tensor *layer_ops_classes_of(const lki_layer *l)
{
    return lks_target(l->graph, &(lks_target_opts){.classes = lks_tensor_shape(l->x).dim[0]});
}

static lks_tensor *build_cross_entropy(const lki_layer *l)
{
    const lks_cross_entropy_opts opts = {
        .label_smoothing = (float)l->value[LKI_OPTION_LABEL_SMOOTHING].f[0]};
    return lks_cross_entropy(l->graph, l->x, layer_ops_classes_of(l), &opts);
}

static lks_tensor *build_nll(const lki_layer *l)
{
    return lks_nll(l->graph, l->x, layer_ops_classes_of(l));
}

static lks_tensor *build_mse(const lki_layer *l)
{
    const lks_target_opts target = {.shape = lks_tensor_shape(l->x)};
    return lks_mse(l->graph, l->x, lks_target(l->graph, &target));
}

const lki_layer_op lki_layer_losses[] = {
    {"cross_entropy", "softmax and cross-entropy, of logits", "label_smoothing=0",
     build_cross_entropy},
    {"nll", "negative log-likelihood, of log-probabilities", "", build_nll},
    {"mse", "mean squared error", "", build_mse},
};
const int lki_layer_loss_count = sizeof lki_layer_losses / sizeof *lki_layer_losses;

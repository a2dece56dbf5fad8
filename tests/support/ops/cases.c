/* Random operations with small sizes that lean to edges. */
#include "support/ops.h"

#include <math.h>
#include <string.h>

#include "core/range.h"

static lks_shape image(lkt_random *random)
{
    const int64_t height = LKT_PICK(random, 1, 2, 5, 7, 8, 11);
    const int64_t width = LKT_PICK(random, 1, 3, 6, 7, 9, 13);

    return LKS_SHAPE(height, width, LKT_PICK(random, 1, 2, 3, 4, 6, 8, 16));
}

static lks_shape any_shape(lkt_random *random)
{
    const int64_t a = LKT_PICK(random, 1, 2, 7), b = LKT_PICK(random, 1, 3, 5);

    switch (lkt_random_below(random, 4)) {
    case 0:
        return LKS_SHAPE(LKT_PICK(random, 1, 2, 17, 64));
    case 1:
        return LKS_SHAPE(a, b);
    case 2:
        return LKS_SHAPE(a, b, LKT_PICK(random, 1, 2, 3), LKT_PICK(random, 1, 4));
    default:
        return image(random);
    }
}

static lks_tensor *target(lks_graph *graph, const lks_tensor *x, lki_op_id op)
{
    const lks_shape shape = lks_tensor_shape(x);

    if (!lki_op_get(op)->of_classes) return lks_target(graph, &(lks_target_opts){.shape = shape});
    lks_target_opts opts = {.classes = shape.dim[shape.ndim - 1], .shape = shape};
    opts.shape.ndim--;
    return lks_target(graph, &opts);
}

lks_tensor *lkt_random_input(lks_graph *graph, lki_op_id op, lkt_random *random)
{
    lks_input_opts opts = {0};

    switch (lki_op_get(op)->takes) {
    case LKI_TAKES_IMAGE:
        opts.shape = image(random);
        break;
    case LKI_TAKES_PLACES:
        opts.shape = lkt_random_chance(random, 4) ? LKS_SHAPE(LKT_PICK(random, 1, 2, 5, 40), 7)
                                                  : image(random);
        break;
    case LKI_TAKES_VECTOR:
        opts.shape = LKS_SHAPE(LKT_PICK(random, 1, 2, 10, 37));
        break;
    case LKI_TAKES_ROWS: {
        const int64_t channels = LKT_PICK(random, 1, 2, 13, 64, 300);

        opts.shape = lkt_random_chance(random, 2)
                         ? LKS_SHAPE(channels)
                         : LKS_SHAPE(LKT_PICK(random, 1, 2, 7, 40), channels);
        break;
    }
    case LKI_TAKES_SEQUENCE:
        return lkt_random_sequence(graph, op, random);
    case LKI_TAKES_TOKENS:
        opts.dtype = LKS_I32;
        opts.vocabulary = LKT_PICK(random, 1, 2, 10, 500);
        opts.shape = lkt_random_chance(random, 4) ? LKS_SHAPE(LKT_PICK(random, 1, 3), 2)
                                                  : LKS_SHAPE(LKT_PICK(random, 1, 2, 17, 64));
        break;
    case LKI_TAKES_PIXELS:
        opts.shape = lkt_random_chance(random, 2) ? image(random)
                                                  : LKS_SHAPE(LKT_PICK(random, 1, 5, 16));
        break;
    case LKI_TAKES_ANY:
        opts.dtype = lkt_random_chance(random, 3) ? LKS_F32 : LKS_U8;
        opts.shape = lkt_random_chance(random, 8) ? LKS_SHAPE(3, 100) : any_shape(random);
        break;
    case LKI_TAKES_FLOATS:
        opts.shape = any_shape(random);
        break;
    }
    return lks_input(graph, &opts);
}

/* Kernel, stride, padding and dilation that fit a size. */
static void random_window(int64_t size, int64_t *kernel, int64_t *stride, int64_t *padding,
                          int64_t *dilation, lkt_random *random)
{
    *dilation = lkt_random_chance(random, 3) ? LKT_PICK(random, 2, 3) : 1;
    *padding = lkt_random_chance(random, 2) ? lkt_random_from(random, 1, 3) : 0;
    *kernel = lkt_random_chance(random, 6) ? size : LKT_PICK(random, 1, 2, 3, 3, 3, 5);
    while (*dilation * (*kernel - 1) + 1 > size + 2 * *padding) {
        if (*dilation > 1)
            *dilation -= 1;
        else
            *kernel -= 1;
    }
    *stride = lkt_random_chance(random, 4) ? *kernel + 1 : LKT_PICK(random, 1, 1, 2, 3);
}

static lks_tensor *random_conv2d(lks_graph *graph, lks_tensor *x, lkt_random *random)
{
    const lks_shape in = lks_tensor_shape(x);
    lks_conv2d_opts opts = {.no_bias = lkt_random_chance(random, 4)};

    if (lkt_random_chance(random, 3) && in.dim[0] > 2 &&
        in.dim[1] > 2) /* as most networks have it */
        return lks_conv2d(graph, x,
                          &(lks_conv2d_opts){.filters = LKT_PICK(random, 8, 16, 32),
                                             .kernel = {3, 3},
                                             .padding = {lkt_random_chance(random, 2), 0}});
    for (int i = 0; i < 2; i++)
        random_window(in.dim[i], &opts.kernel[i], &opts.stride[i], &opts.padding[i],
                      &opts.dilation[i], random);
    opts.groups = 1;
    if (lkt_random_chance(random, 4))
        opts.groups = in.dim[2]; /* depthwise */
    else if (in.dim[2] % 2 == 0 && lkt_random_chance(random, 3))
        opts.groups = 2;
    opts.filters = opts.groups * LKT_PICK(random, 1, 2, 3, 5, 8, 16);
    return lks_conv2d(graph, x, &opts);
}

static lks_tensor *random_pool(lks_graph *graph, lks_tensor *x, lki_op_id op, bool exact,
                               lkt_random *random)
{
    const lks_shape in = lks_tensor_shape(x);
    lks_pool_opts opts = {.kernel = {2, 2}};

    if (lkt_random_chance(random, 3) && in.dim[0] > 1 &&
        in.dim[1] > 1) /* as most networks have it */
        return op == LKI_OP_MAX_POOL ? lks_max_pool(graph, x, &opts)
                                     : lks_avg_pool(graph, x, &opts);
    for (int i = 0; i < 2; i++) {
        opts.kernel[i] = lkt_random_chance(random, 5) ? in.dim[i] : LKT_PICK(random, 1, 2, 2, 3);
        if (exact && op == LKI_OP_AVG_POOL) opts.kernel[i] = LKT_PICK(random, 1, 2, 4);
        opts.padding[i] = lkt_random_chance(random, 2)
                              ? lkt_random_from(random, 0, opts.kernel[i] / 2)
                              : 0;
        if (opts.kernel[i] > in.dim[i] + 2 * opts.padding[i]) opts.kernel[i] = 1;
        opts.padding[i] = opts.padding[i] * 2 > opts.kernel[i] ? 0 : opts.padding[i];
        opts.stride[i] = lkt_random_chance(random, 2) ? 0 : LKT_PICK(random, 1, 2, 4);
    }
    opts.exclude_padding = op == LKI_OP_AVG_POOL && !exact && lkt_random_chance(random, 2);
    return op == LKI_OP_MAX_POOL ? lks_max_pool(graph, x, &opts) : lks_avg_pool(graph, x, &opts);
}

static lks_tensor *random_normalize(lks_graph *graph, lks_tensor *x, bool exact, lkt_random *random)
{
    const lks_shape in = lks_tensor_shape(x);
    const int count = lkt_random_chance(random, 2) ? 1 : (int)in.dim[in.ndim - 1];
    float *values = test_malloc(2 * (size_t)count * sizeof *values);

    for (int i = 0; i < count; i++) {
        values[i] = exact ? 0.5f : (float)lkt_random_real(random, -1.0, 1.0);
        values[count + i] = exact ? 0.5f : (float)lkt_random_real(random, 0.1, 2.0);
    }
    lks_tensor *y = lks_normalize(
        graph, x, &(lks_normalize_opts){.count = count, .mean = values, .std = values + count});
    test_free(values);
    return y;
}

static lks_tensor *random_layer_norm(lks_graph *graph, lks_tensor *x, lkt_random *random)
{
    return lks_layer_norm(
        graph, x,
        &(lks_layer_norm_opts){.dims = (int)lkt_random_from(random, 1, lks_tensor_shape(x).ndim),
                               .epsilon = lkt_random_chance(random, 2) ? 0.0f : 0.125f,
                               .no_affine = lkt_random_chance(random, 4)});
}

/* With a second tensor that has as many channels, or others. */
static lks_tensor *random_concat(lks_graph *graph, lks_tensor *x, lkt_random *random)
{
    const int64_t channels = LKT_PICK(random, 1, 3, 8, 17);

    switch (lks_tensor_shape(x).ndim) {
    case 1:
        return lks_concat(graph, x, lks_dense(graph, x, &(lks_dense_opts){.units = channels}));
    case 3:
        return lks_concat(
            graph, x,
            lks_conv2d(graph, x, &(lks_conv2d_opts){.filters = channels, .kernel = {1, 1}}));
    default:
        return lks_concat(graph, x, lks_relu(graph, x));
    }
}

/* Another tensor for an operation of two: of x's shape, or one of a value for each channel. */
static lks_tensor *second_operand(lks_graph *graph, lks_tensor *x, lkt_random *random)
{
    const lks_shape shape = lks_tensor_shape(x);

    if (shape.ndim == 1 || lkt_random_chance(random, 2)) return lks_relu(graph, x);
    return lks_dense(graph, lks_flatten(graph, x),
                     &(lks_dense_opts){.units = shape.dim[shape.ndim - 1]});
}

/* A constant in [1/64, 2), or a power of two. */
static float constant(bool exact, lkt_random *random)
{
    return exact ? 0.25f : (float)lkt_random_real(random, 0x1p-6, 2.0);
}

/* A number in the range of an attribute, of eighths where it has some: kinks there lie between spaced values; with `exact` a power of two, if one of these lies there. */
static float random_number(const lki_attribute *a, bool exact, lkt_random *random)
{
    static const double nice[] = {0.25, 0.5, 1.0, 0.125, 2.0, 0.0};
    const lki_range range = lki_range_of(a->range);
    const double low = range.low > -2.0 ? range.low : -2.0;
    const double high = range.high < 2.0 ? range.high : 2.0;

    for (size_t i = 0; exact && i < sizeof nice / sizeof nice[0]; i++)
        if (lki_range_has(&range, nice[i])) return (float)nice[i];
    for (int tries = 0;; tries++) {
        const double number = lkt_random_real(random, low, high), eighth = rint(number * 8.0) / 8.0;

        if (lki_range_has(&range, eighth)) return (float)eighth;
        if (tries > 100 && lki_range_has(&range, (double)(float)number)) return (float)number;
    }
}

/* Values for a table: of each attribute with a default that, or another one from its range. */
static void random_attributes(const lki_attributes *table, char *values, bool exact,
                              lkt_random *random)
{
    for (int i = 0; i < table->count; i++) {
        const lki_attribute *a = &table->list[i];
        void *to = values + a->offset;
        int length, words = 0;

        if (a->part || (!a->required && lkt_random_chance(random, 2))) continue;
        if (a->type == LKI_INT) *(int64_t *)to = LKT_PICK(random, 1, 2, 3, 5, 8);
        if (a->type == LKI_SHORT) *(int *)to = (int)LKT_PICK(random, 1, 2, 3);
        if (a->type == LKI_FLOAT) *(float *)to = random_number(a, exact, random);
        if (a->type == LKI_BOOL || a->type == LKI_NOT) *(bool *)to = true;
        for (int k = 0; k < 2 && a->type == LKI_PAIR; k++)
            ((int64_t *)to)[k] = LKT_PICK(random, 1, 2, 3);
        while (a->type == LKI_WORD && lki_word_at(a->range, words, &length) != NULL) words++;
        if (words > 0) *(int *)to = (int)lkt_random_below(random, words);
    }
}

/* From its table alone, drawn until the operation takes it. */
static lks_tensor *random_by_table(lks_graph *graph, lki_op_id id, lks_tensor *x, bool exact,
                                   lkt_random *random)
{
    const lki_op *op = lki_op_get(id);
    lks_tensor *in[LKI_MAX_IN] = {x};
    char *values = test_malloc(op->attr_size + 1);

    if (op->inputs == 2)
        in[1] = op->is_loss ? target(graph, x, id) : second_operand(graph, x, random);
    for (int tries = 0; tries < 1000; tries++) {
        memset(values, 0, op->attr_size + 1);
        random_attributes(&op->attributes, values, exact, random);
        lks_tensor *y = lki_graph_add(graph, id, op->attr_size > 0 ? values : NULL, in, op->inputs);

        if (y != NULL) {
            test_free(values);
            return y;
        }
        graph->error.status = LKS_OK;
    }
    fail_msg("no random %s: %s", op->name, lks_last_error()->message);
    return NULL;
}

/* From the table, but for those whose attributes depend on the input, or where networks have some kind
 * often. */
lks_tensor *lkt_random_op(lks_graph *graph, lki_op_id op, lks_tensor *x, bool exact,
                          lkt_random *random)
{
    switch (op) {
    case LKI_OP_NORMALIZE:
        return random_normalize(graph, x, exact, random);
    case LKI_OP_CONV2D:
        return random_conv2d(graph, x, random);
    case LKI_OP_DENSE:
        return lks_dense(graph, x,
                         &(lks_dense_opts){.units = LKT_PICK(random, 1, 2, 7, 10, 16, 33, 128),
                                           .no_bias = lkt_random_chance(random, 4)});
    case LKI_OP_RNN:
    case LKI_OP_LSTM:
    case LKI_OP_GRU:
        return lkt_random_recurrent(graph, x, op, random);
    case LKI_OP_ATTENTION:
        return lkt_random_attention(graph, x, random);
    case LKI_OP_MAX_POOL:
    case LKI_OP_AVG_POOL:
        return random_pool(graph, x, op, exact, random);
    case LKI_OP_LAYER_NORM:
        return random_layer_norm(graph, x, random);
    case LKI_OP_BATCH_NORM:
        return lks_batch_norm(
            graph, x,
            &(lks_batch_norm_opts){.epsilon = lkt_random_chance(random, 2) ? 0.0f : 0.125f,
                                   .momentum = (float)lkt_random_real(random, 0.01, 1.0)});
    case LKI_OP_LEAKY_RELU:
        return lks_leaky_relu(graph, x, &(lks_leaky_relu_opts){.slope = constant(exact, random)});
    case LKI_OP_GELU:
        return lks_gelu(
            graph, x,
            &(lks_gelu_opts){.form = lkt_random_chance(random, 2) ? LKS_GELU_ERF : LKS_GELU_TANH});
    case LKI_OP_CROSS_ENTROPY:
        return lks_cross_entropy(
            graph, x, target(graph, x, op),
            &(lks_cross_entropy_opts){.label_smoothing = lkt_random_chance(random, 2) ? 0.0f
                                                                                      : 0.125f});
    case LKI_OP_SCALE:
        return lks_scale(graph, x, &(lks_scale_opts){.factor = -constant(exact, random)});
    case LKI_OP_SELECT: {
        const int64_t positions = lks_tensor_shape(x).dim[0];

        return lks_select(
            graph, x,
            &(lks_select_opts){.position = lkt_random_from(random, -positions, positions - 1)});
    }
    case LKI_OP_CONCAT:
        return random_concat(graph, x, random);
    case LKI_OP_DROPOUT: {
        const float probability = (float)lkt_random_real(random, 0.0, 0.95);

        return lks_dropout(graph, x,
                           &(lks_dropout_opts){.by_sample = lkt_random_chance(random, 4),
                                               .probability = exact ? 0.5f
                                                              : lkt_random_chance(random, 2)
                                                                  ? 0.25f
                                                                  : probability});
    }
    default:
        return random_by_table(graph, op, x, exact, random);
    }
}

lki_op_id lkt_random_member(const lki_pattern_node *node, lkt_random *random)
{
    for (;;) {
        const lki_op_id op = (lki_op_id)lkt_random_below(random, LKI_OP_COUNT);
        if ((node->ops >> op & 1u) != 0) return op;
    }
}

/* A sum with what comes from outside of the chain that begins with this convolution: another one. */
static lks_tensor *add_outside(lks_graph *graph, const lks_tensor *first, lks_tensor *x,
                               lkt_random *random)
{
    lks_conv2d_opts opts = *(const lks_conv2d_opts *)first->node->attr;
    opts.name = NULL;
    lks_tensor *side = lks_conv2d(graph, first->node->in[0], &opts);
    return lkt_random_below(random, 2) == 0 ? lks_add(graph, x, side) : lks_add(graph, side, x);
}

bool lkt_random_chain(const lki_impl *impl, bool exact, lkt_random *random, lkt_case *c)
{
    lkt_case_begin(c);
    lks_tensor *x = NULL, *first = NULL;

    for (int i = 0; i < impl->count && lks_graph_status(c->graph) == LKS_OK; i++) {
        const lki_op_id op = lkt_random_member(&impl->pattern[i], random);
        if (impl->pattern[i].optional && lkt_random_below(random, 2) == 0) continue;
        if (x == NULL) x = lkt_random_input(c->graph, op, random);
        if (op == LKI_OP_ADD)
            x = add_outside(c->graph, first, x, random);
        else
            x = lkt_random_op(c->graph, op, x, exact, random);
        if (first == NULL) first = x;
    }
    if (lks_graph_status(c->graph) == LKS_OK) {
        lkt_case_end(c, first, x, lkt_random_from(random, 1, 9), exact ? LKT_EXACT : LKT_RANDOM,
                     random);
        /* F(2x2,3x3) only halves and adds: exact, too. */
        c->switches.winograd = !exact ? (lks_winograd)lkt_random_below(random, 4)
                               : lkt_random_chance(random, 2) ? LKS_WINOGRAD_OFF
                                                              : LKS_WINOGRAD_F2;
        c->switches.bf16 = lkt_random_chance(random, 4);
        if (impl->refuses == NULL || impl->refuses(&c->cluster, &c->switches) == NULL) return true;
    }
    lkt_case_free(c);
    return false;
}

static bool exact_op(lki_op_id op)
{
    return op == LKI_OP_NORMALIZE || op == LKI_OP_CONV2D || op == LKI_OP_DENSE ||
           op == LKI_OP_MAX_POOL || op == LKI_OP_AVG_POOL || op == LKI_OP_RELU ||
           op == LKI_OP_RELU6 || op == LKI_OP_ADD || op == LKI_OP_FLATTEN || op == LKI_OP_DROPOUT ||
           op == LKI_OP_EMBEDDING || op == LKI_OP_POSITION;
}

bool lkt_exact_impl(const lki_impl *impl)
{
    for (int i = 0; i < impl->count; i++)
        for (int op = 0; op < LKI_OP_COUNT; op++)
            if ((impl->pattern[i].ops >> op & 1u) != 0 && !exact_op((lki_op_id)op)) return false;
    return true;
}

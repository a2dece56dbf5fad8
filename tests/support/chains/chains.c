/* Random chains. */
#include "support/chains/chains.h"

#include <math.h>
#include <stdlib.h>

#include "base/context.h"

enum { MOST_SAMPLES = 7 };

/* Bytes or numbers. */
static lks_tensor *first_layers(lkt_chain *c)
{
    lkt_random *r = &c->random;
    const int64_t height = LKT_PICK(r, 1, 2, 3, 5, 6, 7, 8, 9, 12, 13),
                  width = LKT_PICK(r, 1, 2, 4, 5, 6, 7, 8, 10, 11);
    if (lkt_random_chance(r, 3)) {
        const int64_t channels = LKT_PICK(r, 1, 1, 3);
        const float numbers[] = {.3f, .5f, .4f, .25f, .5f, .2f};
        lks_tensor *x = lks_input(
            c->graph, &(lks_input_opts){.shape = LKS_SHAPE(height + 4, width + 3, channels),
                                        .dtype = LKS_U8});
        const int count = lkt_random_chance(r, 2) ? 1 : (int)channels;
        return lks_normalize(
            c->graph, x,
            &(lks_normalize_opts){.count = count, .mean = numbers, .std = numbers + 3});
    }
    lks_tensor *x = lks_input(
        c->graph,
        &(lks_input_opts){
            .shape = LKS_SHAPE(height, width, LKT_PICK(r, 1, 2, 3, 6, 16, 16, 20, 32, 32, 64))});
    /* Its parameters are as many as the image has numbers: their gradients are those of the image, nearly. */
    return lkt_random_chance(r, 2) ? lks_layer_norm(c->graph, x, &(lks_layer_norm_opts){.dims = 3})
                                   : x;
}

static lks_tensor *convolution(lkt_chain *c, lks_tensor *x)
{
    lkt_random *r = &c->random;
    const int64_t channels = lks_tensor_shape(x).dim[2];
    lks_conv2d_opts o = {.groups = 1, .no_bias = lkt_random_chance(r, 3)};
    if (lkt_random_chance(r, 6) && channels > 1)
        o.groups = channels;
    else if (lkt_random_chance(r, 8) && channels % 2 == 0)
        o.groups = 2;
    o.filters = o.groups == channels ? channels : LKT_PICK(r, 2, 6, 16, 16, 18, 32, 32, 32, 48);
    const int64_t kernel = LKT_PICK(r, 1, 2, 3, 3, 3, 3, 5, 7),
                  stride = LKT_PICK(r, 1, 1, 1, 1, 1, 2, 3, 4);
    const bool twisted = lkt_random_chance(r, 8);
    for (int i = 0; i < 2; i++) {
        const int64_t size = lks_tensor_shape(x).dim[i];
        o.kernel[i] = twisted ? LKT_PICK(r, 1, 2, 3) : kernel;
        o.stride[i] = stride;
        o.padding[i] = lkt_random_chance(r, 2) ? o.kernel[i] / 2
                                               : lkt_random_below(r, o.kernel[i] + 1);
        o.dilation[i] = twisted && lkt_random_chance(r, 3) ? 2 : 1;
        while (o.dilation[i] * (o.kernel[i] - 1) + 1 > size + 2 * o.padding[i]) o.padding[i]++;
    }
    return lks_conv2d(c->graph, x, &o);
}

static lks_tensor *activation(lkt_chain *c, lks_tensor *x)
{
    switch (lkt_random_below(&c->random, 15)) {
    case 0:
        return x;
    case 1:
        return lks_gelu(c->graph, x, NULL);
    case 2:
        return lks_gelu(c->graph, x, &(lks_gelu_opts){.form = LKS_GELU_TANH});
    case 3:
        return lks_silu(c->graph, x);
    case 4:
        return lks_tanh(c->graph, x);
    case 5:
        return lks_sigmoid(c->graph, x);
    case 6:
        return lks_softplus(c->graph, x);
    case 7:
        return lks_leaky_relu(c->graph, x, &(lks_leaky_relu_opts){.slope = 0.2f});
    case 8:
        return lks_relu6(c->graph, x);
    default:
        return lks_relu(c->graph, x);
    }
}

static lks_tensor *pooling(lkt_chain *c, lks_tensor *x)
{
    lkt_random *r = &c->random;
    const bool usual = lkt_random_chance(r, 2);
    lks_pool_opts o = {.kernel = {2, 2}};
    if (!usual) {
        const int64_t side = LKT_PICK(r, 1, 2, 3, 3, 4);
        for (int i = 0; i < 2; i++) {
            o.kernel[i] = lkt_random_chance(r, 6) ? LKT_PICK(r, 1, 2, 3) : side;
            o.stride[i] = lkt_random_chance(r, 2) ? 0 : LKT_PICK(r, 1, 2, 3);
            o.padding[i] = lkt_random_chance(r, 3) ? lkt_random_from(r, 0, o.kernel[i] / 2) : 0;
        }
    }
    for (int i = 0; i < 2; i++)
        if (o.kernel[i] > lks_tensor_shape(x).dim[i] + 2 * o.padding[i])
            o.kernel[i] = 1, o.padding[i] = 0;
    if (lkt_random_chance(r, 8)) return lks_avg_pool(c->graph, x, &o);
    return lks_max_pool(c->graph, x, &o);
}

static lks_tensor *norm(lkt_chain *c, lks_tensor *x)
{
    return lks_batch_norm(
        c->graph, x,
        &(lks_batch_norm_opts){.epsilon = lkt_random_chance(&c->random, 3) ? 0 : .125f});
}

/* Convolution, relu and pooling as most networks have them. */
static lks_tensor *usual_block(lkt_chain *c, lks_tensor *x)
{
    lkt_random *r = &c->random;
    const int64_t kernel = LKT_PICK(r, 2, 3, 3, 5), padding = lkt_random_below(r, 3);
    lks_conv2d_opts o = {.filters = LKT_PICK(r, 6, 16, 32, 32, 32, 64),
                         .kernel = {kernel, kernel},
                         .padding = {padding, padding}};
    for (int i = 0; i < 2; i++)
        while (o.kernel[i] >= lks_tensor_shape(x).dim[i] + 2 * o.padding[i]) o.padding[i]++;
    x = lks_max_pool(c->graph, lks_relu(c->graph, lks_conv2d(c->graph, x, &o)),
                     &(lks_pool_opts){.kernel = {2, 2}});
    return lkt_random_chance(r, 3)
               ? lks_dropout(c->graph, x, &(lks_dropout_opts){.probability = .25f})
               : x;
}

/* A convolution with what stands behind it. */
static lks_tensor *block(lkt_chain *c, lks_tensor *in)
{
    lkt_random *r = &c->random;
    if (lkt_random_chance(r, 4)) return usual_block(c, in);
    const int order = (int)lkt_random_below(r, 6);
    lks_tensor *x = convolution(c, in);
    if (order == 4) return norm(c, pooling(c, activation(c, x)));
    if (order == 3) return activation(c, norm(c, pooling(c, x)));
    if (order == 2) return activation(c, lkt_random_chance(r, 2) ? pooling(c, x) : x);
    if (order == 1) x = norm(c, x);
    if (order == 1 && lki_shape_equal(&x->shape, &in->shape) && lkt_random_chance(r, 2))
        x = lkt_random_chance(r, 2) ? lks_add(c->graph, x, in) : lks_add(c->graph, in, x);
    x = activation(c, x);
    if (order == 1 && lkt_random_chance(r, 2)) return x;
    x = pooling(c, x);
    return lkt_random_chance(r, 3)
               ? lks_dropout(
                     c->graph, x,
                     &(lks_dropout_opts){.probability = lkt_random_chance(r, 2) ? .25f : .4f})
               : x;
}

static lks_tensor *last_layers(lkt_chain *c, lks_tensor *x)
{
    lkt_random *r = &c->random;
    const int64_t pixels = lks_tensor_shape(x).dim[0] * lks_tensor_shape(x).dim[1];
    if (pixels >= 8 && lkt_random_chance(r, 6)) /* many inputs behind relu */
        x = lks_relu(c->graph, lks_conv2d(c->graph, x,
                                          &(lks_conv2d_opts){.filters = 1023 / pixels + 1 +
                                                                        lkt_random_below(r, 3),
                                                             .kernel = {1, 1}}));
    const bool positions = lkt_random_chance(r, 6);
    if (positions) /* pixels */
        x = activation(c, lks_dense(c->graph, lks_sequence(c->graph, x),
                                    &(lks_dense_opts){.units = LKT_PICK(r, 3, 16, 17, 33),
                                                      .no_bias = lkt_random_chance(r, 4)}));
    if (positions && lkt_random_chance(r, 2))
        x = lks_select(c->graph, x, &(lks_select_opts){.position = lkt_random_chance(r, 2) - 1});
    else
        x = lks_flatten(c->graph, x);
    if (lkt_random_chance(r, 3))
        x = lks_dropout(c->graph, x, &(lks_dropout_opts){.probability = .5f});
    if (lkt_random_chance(r, 2)) {
        const bool large = lks_shape_elements(&x->shape) >= 1024;
        x = lks_dense(c->graph, x,
                      &(lks_dense_opts){.units = large ? LKT_PICK(r, 64, 70, 128)
                                                       : LKT_PICK(r, 1, 17, 64, 130),
                                        .no_bias = lkt_random_chance(r, 4)});
        x = activation(c, x);
    }
    return lks_dense(c->graph, x, &(lks_dense_opts){.units = LKT_PICK(r, 1, 3, 10, 20)});
}

static const char *const CONTENT_NAMES[] = {"random", "zeros", "all active", "none active",
                                            "sparse"};

static void describe(lkt_chain *c)
{
    size_t used = (size_t)snprintf(
        c->text, sizeof c->text,
        "LKT_SEED=%llu LKT_CHAINS=1: %s, %d samples, %d replicas, %d workers, winograd %d, "
        "all_terms %d, single %d:",
        (unsigned long long)c->seed, CONTENT_NAMES[c->content], (int)c->count, c->opts.replicas,
        c->opts.workers, (int)c->opts.kernels.winograd, c->opts.kernels.all_terms,
        c->opts.kernels.single);
    for (const lki_node *node = c->graph->first; node != NULL && used < sizeof c->text - 200;
         node = node->next) {
        char shape[64], attributes[100];
        lki_node_print(node, attributes, sizeof attributes);
        used += (size_t)snprintf(c->text + used, sizeof c->text - used, " %s %s %s |",
                                 lki_op_get(node->op)->name, attributes,
                                 lki_shape_print(&node->out.shape, shape, sizeof shape));
    }
}

void lkt_chain_draw(lkt_chain *c, uint64_t seed)
{
    lkt_random *r = &c->random;
    lkt_random mixed = {seed};
    *c = (lkt_chain){.seed = seed,
                     .random = {lkt_random_bits(&mixed)}}; /* neighbours have nothing in common */
    LKT_OK(lks_context_create(&c->context, &(lks_context_opts){.device = "ref", .seed = seed}));
    LKT_OK(lks_graph_create(&c->graph, c->context));
    c->content = lkt_random_chance(r, 2) ? LKT_NUMBERS
                                         : (lkt_content)lkt_random_below(r, LKT_CONTENTS);
    lks_tensor *x = first_layers(c);
    for (int64_t blocks = LKT_PICK(r, 1, 1, 1, 1, 2, 2, 3); blocks > 0; blocks--) x = block(c, x);
    c->output = last_layers(c, x);
    lks_tensor *y = lks_target(c->graph, &(lks_target_opts){.shape = c->output->shape});
    c->loss = lks_mse(c->graph, c->output, y);
    LKT_OK(lks_graph_status(c->graph));
    c->count = lkt_random_chance(r, 6) ? lkt_random_from(r, 8, lkt_random_chance(r, 2) ? 20 : 90)
                                       : lkt_random_from(r, 1, MOST_SAMPLES); /* sums have blocks */
    c->opts = (lks_model_opts){.loss = c->loss,
                               .output = c->output,
                               .global_batch = c->count + lkt_random_below(r, 2),
                               .replicas = (int)lkt_random_from(r, 1, 3),
                               .kernels = {.winograd = (lks_winograd)LKT_PICK(r, 0, 0, 1, 2, 3),
                                           .all_terms = lkt_random_chance(r, 6),
                                           .single = lkt_random_chance(r, 8)}};
    c->opts.workers = (int)lkt_random_from(r, 1, c->opts.replicas);
    describe(c);
}

void lkt_chain_free(lkt_chain *c)
{
    for (int n = 0; n < LKT_BALLS_NODES; n++) {
        for (int i = 0; i < LKI_MAX_PARAM; i++) free(c->of.param[n][i]);
        for (int i = 0; i < LKI_MAX_BUFFER; i++) free(c->of.buffer[n][i]);
    }
    free((void *)c->of.x);
    free((void *)c->of.y);
    lks_graph_destroy(c->graph);
    lks_context_destroy(c->context);
}

static float number(lkt_chain *c, double low, double high)
{
    return (float)lkt_random_real(&c->random, low, high);
}

/* Weights and biases: all positive where all is to be active, biases far below 0 where nothing is. */
static float parameter(lkt_chain *c, const lki_node *node, int slot)
{
    const double scale = sqrt(3.0 /
                              (double)(node->param[0].fan_in > 0 ? node->param[0].fan_in : 1));
    const bool product = node->op == LKI_OP_CONV2D || node->op == LKI_OP_DENSE;
    if (!product && slot == 0) return number(c, 0.5, 1.5);
    if (slot == 1 && c->content == LKT_INACTIVE) return number(c, -9, -8);
    if (c->content == LKT_ACTIVE)
        return product && slot == 0 ? number(c, 0, scale) : number(c, 0.5, 1);
    return slot == 0 ? number(c, -scale, scale) : number(c, -0.5, 0.5);
}

static float pixel(lkt_chain *c)
{
    if (c->content == LKT_ZEROS || (c->content == LKT_SPARSE && !lkt_random_chance(&c->random, 8)))
        return 0;
    return number(c, c->content == LKT_ACTIVE ? 0 : -1, 1);
}

static void *make(int64_t count, size_t size)
{
    void *memory = calloc((size_t)count + 1, size);
    assert_non_null(memory);
    return memory;
}

void lkt_chain_fill(lkt_chain *c)
{
    const lks_tensor *in = &c->graph->first->out;
    const int64_t inputs = c->count * lks_shape_elements(&in->shape);
    float *x = make(inputs, sizeof *x),
          *y = make(c->count * lks_shape_elements(&c->output->shape), sizeof *y);
    for (int64_t i = 0; i < inputs; i++) {
        if (in->dtype == LKS_U8)
            ((uint8_t *)x)[i] = (uint8_t)(c->content == LKT_ZEROS
                                              ? 0
                                              : lkt_random_below(&c->random, 256));
        else
            x[i] = pixel(c);
    }
    for (int64_t i = 0; i < c->count * lks_shape_elements(&c->output->shape); i++)
        y[i] = number(c, -2, 2);
    c->of = (lkt_balls_of){.context = c->context,
                           .graph = c->graph,
                           .loss = c->loss,
                           .switches = c->opts.kernels,
                           .count = c->count,
                           .replicas = c->opts.replicas,
                           .seed = c->seed,
                           .x = x,
                           .y = y};
    for (const lki_node *node = c->graph->first; node != NULL; node = node->next) {
        for (int i = 0; i < node->param_count; i++) {
            const int64_t count = lks_shape_elements(&node->param[i].shape);
            c->of.param[node->index][i] = make(count, sizeof(float));
            for (int64_t k = 0; k < count; k++)
                c->of.param[node->index][i][k] = parameter(c, node, i);
        }
        for (int i = 0; i < node->buffer_count; i++) {
            const int64_t count = lks_shape_elements(&node->buffer[i].shape);
            float *values = c->of.buffer[node->index][i] = make(2 * count, sizeof(float));
            for (int64_t k = 0; k < count && node->buffer[i].dtype == LKS_F32; k++)
                values[k] = i == 0 ? number(c, -0.5, 0.5) : number(c, 0.5, 2);
        }
    }
}

int lkt_chain_state(lks_model *model, const char *prefix, const lki_node *node, const char *suffix)
{
    char name[200];
    snprintf(name, sizeof name, "%s%s.%s", prefix, node->name, suffix);
    const int index = lks_model_state_find(model, name);
    if (index < 0) fail_msg("no state '%s'", name);
    return index;
}

void lkt_chain_write(const lkt_chain *c, lks_model *model)
{
    for (const lki_node *node = c->graph->first; node != NULL; node = node->next) {
        for (int i = 0; i < node->param_count; i++)
            LKT_OK(lks_model_state_write(
                model, lkt_chain_state(model, "", node, node->param[i].suffix),
                c->of.param[node->index][i],
                (size_t)lks_shape_elements(&node->param[i].shape) * sizeof(float)));
        for (int i = 0; i < node->buffer_count; i++)
            LKT_OK(lks_model_state_write(model,
                                         lkt_chain_state(model, "", node, node->buffer[i].suffix),
                                         c->of.buffer[node->index][i],
                                         (size_t)lks_shape_elements(&node->buffer[i].shape) *
                                             lks_dtype_size(node->buffer[i].dtype)));
    }
}

lks_model *lkt_chain_compile(lkt_chain *c, const char *device)
{
    lks_model *model;
    /* A graph has nothing of a device's, so one does for all. */
    snprintf(c->context->device, sizeof c->context->device, "%s", device);
    LKT_OK(lks_model_compile(&model, c->graph, &c->opts));
    lkt_chain_write(c, model);
    return model;
}

int64_t lkt_chain_cost(const lkt_chain *c)
{
    int64_t all = 0;
    for (const lki_node *node = c->graph->first; node != NULL; node = node->next)
        all += node->multiply_adds;
    return all * c->count;
}

/* conv2d + activation + max_pool [+ dropout] [+ flatten] as one kernel: vector/conv/block.c has the loops
 * (Winograd's: vector/conv/winograd_pool.c), this file borders, dropout, the order of flatten, and PyTorch's order of weights.
 *
 * The activation is relu, whose maximum is that of the largest value, or gelu or silu. These fall up to their one
 * minimum and rise behind it, so that the maximum of a window is that of its largest or of its least value: both are
 * pooled, and the larger result stays, with what it was made of, from which backward has the derivative. */
#include <stdio.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/memory.h"
#include "core/winograd.h"

typedef struct block_plan {
    lki_cpu_plan cpu;
    lki_block_shape shape;
    int64_t padding[2];
    bool framed;    /* images are copied, for their border or what vectors read behind them */
    int64_t image;  /* elements of the image with its border, and of what is behind it */
    int64_t pooled; /* elements of the pooled image */
    bool bias, flatten, dropout;
    const lki_vector_activation *function; /* NULL: relu */
    float constant;
    lki_bernoulli event;
    float scale;
    size_t borders, d_borders, values, dropped; /* offsets in the workspace */
} block_plan;

static const lki_node *member(const lki_cluster *cluster, lki_op_id op)
{
    for (int i = 0; i < cluster->count; i++)
        if (cluster->node[i]->op == op) return cluster->node[i];
    return NULL;
}

/* The kernel's lists have positions in the image with its border in 32 bits; those in the weight are
 * below 2^31 by its shape. */
static bool has_positions(const lki_conv_shape *s)
{
    size_t elements = (size_t)s->channels;
    for (int i = 0; i < 2; i++)
        elements = lki_times(elements, (size_t)(s->in[i] + 2 * s->padding[i]));
    return elements <= INT32_MAX;
}

static const char *cpu_conv_block_refuses(const lki_cluster *cluster, const lki_switches *switches)
{
    const lki_conv_shape conv = lki_conv_shape_of(lki_cluster_head(cluster));
    const lks_pool_opts *pool = member(cluster, LKI_OP_MAX_POOL)->attr;
    const lki_node *dropout = member(cluster, LKI_OP_DROPOUT);
    if (conv.groups != 1) return "groups";
    if (dropout != NULL && ((const lks_dropout_opts *)dropout->attr)->by_sample)
        return "dropout of whole samples";
    if (switches->bf16) return "train.dtype: bf16";
    for (int i = 0; i < 2; i++) {
        if (conv.stride[i] != 1) return "stride above 1";
        if (conv.dilation[i] != 1) return "dilation";
        if (pool->kernel[i] != pool->kernel[0] || pool->stride[i] != pool->stride[0] ||
            pool->padding[i] != 0)
            return "pooling with padding, or not square";
    }
    const bool two = pool->kernel[0] == 2 && pool->stride[0] == 2;
    if (!two && (pool->kernel[0] != 3 || pool->stride[0] < 2 || pool->stride[0] > 3))
        return "pooling other than 2x2, 3x3 and 3x3 with stride 2";
    /* Its three passes would be faster, behind gelu always, as that leaves a gradient in each window, and relu in half of
     * them; of 5 x 5 taps it has no gradient of the weight. */
    const bool relu = member(cluster, LKI_OP_RELU) != NULL;
    if ((!two || !relu || conv.channels * conv.filters > 128 * 128) && conv.kernel[0] == 3 &&
        lki_winograd_side(lki_cluster_head(cluster), switches) > 0)
        return "more gradients than Winograd's algorithm has products";
    if (!has_positions(&conv)) return "an image with more than 2^31 elements";
    return switches->all_terms ? "kernels.skip_zeros: false" : NULL;
}

static size_t book(size_t *total, int64_t elements, size_t size)
{
    const size_t offset = *total;
    *total += lki_align((size_t)elements * size);
    return offset;
}

/* Of a sample: places, and behind them, where the activation is not relu, what it was given there. */
static int64_t where_bytes(const block_plan *p)
{
    return p->shape.rows * p->shape.columns * lki_block_where(&p->shape);
}
static int64_t kept_bytes(const block_plan *p)
{
    const int64_t given = p->function != NULL ? p->pooled * (int64_t)sizeof(float) : 0;
    return where_bytes(p) + (given + 31) / 32 * 32;
}
static float *given_of(const block_plan *p, const lki_args *args, int64_t sample)
{
    return (float *)(void *)((char *)args->saved + sample * kept_bytes(p) + where_bytes(p));
}

static lks_status plan_block(lki_plan *plan)
{
    block_plan *p = (block_plan *)(void *)plan;
    const lki_cluster *cluster = &plan->cluster;
    const lki_conv_shape conv = lki_conv_shape_of(lki_cluster_head(cluster));
    const lks_shape *pooled = &member(cluster, LKI_OP_MAX_POOL)->out.shape;
    const lki_node *dropout = member(cluster, LKI_OP_DROPOUT);
    const lks_pool_opts *pool = member(cluster, LKI_OP_MAX_POOL)->attr;
    LKI_TRY(lki_cpu_plan_start(plan));
    memcpy(p->padding, conv.padding, sizeof p->padding);
    p->shape = (lki_block_shape){
        .in_rows = conv.in[0] + 2 * conv.padding[0],
        .in_columns = conv.in[1] + 2 * conv.padding[1],
        .channels = conv.channels,
        .kernel = {conv.kernel[0], conv.kernel[1]},
        .filters = conv.filters,
        .rows = pooled->dim[0],
        .columns = pooled->dim[1],
        .window = pool->kernel[0],
        .step = pool->stride[0],
        .winograd = lki_winograd_side(lki_cluster_head(cluster), &plan->switches)};
    const int64_t slack = lki_block_slack(&p->shape);
    p->framed = slack > 0 || conv.padding[0] > 0 || conv.padding[1] > 0;
    p->image = p->shape.in_rows * p->shape.in_columns * conv.channels + slack;
    p->pooled = lks_shape_elements(pooled);
    p->bias = conv.bias;
    p->flatten = member(cluster, LKI_OP_FLATTEN) != NULL;
    p->dropout = dropout != NULL;
    p->function = NULL;
    if (cluster->node[1]->op != LKI_OP_RELU)
        p->function =
            &p->cpu.vector->activation[lki_cpu_activation_of(cluster->node[1], &p->constant)];
    p->scale = 1.0f;
    if (dropout != NULL) {
        p->event = lki_bernoulli_make(((const lks_dropout_opts *)dropout->attr)->probability);
        p->scale = (float)(1.0 / (1.0 - p->event.probability));
    }
    size_t *total = &plan->needs.workspace_bytes;
    *total = lki_align(p->cpu.vector->block->workspace_bytes(&p->shape));
    p->borders = book(total, p->framed ? p->image : 0, sizeof(float));
    p->d_borders = book(total, p->framed ? p->image : 0, sizeof(float));
    p->values = book(total, (p->function != NULL ? 4 : 2) * p->pooled, sizeof(float));
    p->dropped = book(total, p->pooled, 1);
    plan->needs.reads = LKI_READS_IN;
    plan->needs.packed_bytes = p->cpu.vector->block->packed_bytes(&p->shape);
    plan->needs.saved_bytes = (size_t)kept_bytes(p);
    plan->needs.sums_bytes = p->cpu.vector->block->sums_bytes(&p->shape);
    static const char *const forward[] = {"", ", winograd f2", ", winograd f4"};
    snprintf(plan->needs.algorithm, sizeof plan->needs.algorithm, "%s%s, sparse backward",
             p->cpu.vector->name, forward[p->shape.winograd / 2]);
    return LKS_OK;
}

static void cpu_conv_block_prepare(lki_plan *plan, const float *const param[], void *packed,
                                   int part, int parts)
{
    const block_plan *p = (const block_plan *)(const void *)plan;
    p->cpu.vector->block->pack(&p->shape, param[0], packed, part, parts);
}

static float *cpu_conv_block_floats(const lki_args *args, size_t offset)
{
    return (float *)(void *)((char *)args->workspace + offset);
}

/* The image with a border of zeros, and zeros behind it: the image itself where neither is needed. */
static const float *bordered(const block_plan *p, const lki_args *args, const float *x)
{
    const int64_t *pad = p->padding, row = p->shape.in_columns * p->shape.channels;
    if (!p->framed) return x;
    const int64_t inner = (p->shape.in_columns - 2 * pad[1]) * p->shape.channels;
    float *to = cpu_conv_block_floats(args, p->borders);
    memset(to, 0, sizeof(float) * (size_t)p->image);
    for (int64_t r = pad[0]; r < p->shape.in_rows - pad[0]; r++, x += inner)
        memcpy(to + r * row + pad[1] * p->shape.channels, x, sizeof(float) * (size_t)inner);
    return to;
}

static void drop(const block_plan *p, const lki_args *args, int64_t sample, float *values,
                 uint8_t *where)
{
    uint8_t *dropped = (uint8_t *)args->workspace + p->dropped;
    p->cpu.vector->dropout->draw(&p->event, p->cpu.plan.random_key, args->step,
                                 (uint32_t)(args->position + sample), 0, p->pooled, dropped);
    p->cpu.vector->dropout->apply(p->pooled, dropped, p->scale, values, values, false);
    const int64_t filters = p->shape.filters, each = lki_block_where(&p->shape);
    for (int64_t i = 0; i < p->shape.rows * p->shape.columns; i++)
        for (int64_t f = 0; f < filters; f++)
            where[i * each + f] = (uint8_t)(where[i * each + f] |
                                            dropped[i * filters + f] * LKI_BLOCK_OFF);
}

/* The filters that a call has. */
static void filters_of(const block_plan *p, const lki_args *args, int64_t *begin, int64_t *end)
{
    const int64_t filters = p->shape.filters, panel = 2 * p->cpu.vector->lanes;
    lki_part_of(args->part, args->parts, (filters + panel - 1) / panel, begin, end);
    *begin *= panel;
    *end = *end * panel < filters ? *end * panel : filters;
}

/* Pooled values as flatten's output: those of the filters that the call has. */
static void flatten(const block_plan *p, const lki_args *args, const float *values, float *out)
{
    const lki_vector_element *element = p->cpu.vector->element;
    const int64_t filters = p->shape.filters, positions = p->shape.rows * p->shape.columns;
    int64_t begin, end;
    filters_of(p, args, &begin, &end);
    if (end - begin < filters) {
        float *own = cpu_conv_block_floats(args, p->values) + p->pooled;
        element->move(positions, end - begin, values + begin, filters, own, end - begin, false);
        values = own;
    }
    element->transpose(positions, end - begin, values, out + begin * positions, false);
}

/* What the activation makes of the largest, which are in `given`, and of the least. */
static void activate(const block_plan *p, const lki_args *args, float *given, const float *least,
                     float *values, uint8_t *where)
{
    const int64_t filters = p->shape.filters;
    float *other = cpu_conv_block_floats(args, p->values) + 3 * p->pooled;
    int64_t begin, end;
    filters_of(p, args, &begin, &end);
    const bool all = end - begin == filters;
    const int64_t count = all ? p->pooled : end - begin, step = all ? p->pooled : filters;
    for (int64_t at = begin; at < p->pooled; at += step) {
        p->function->forward(count, p->constant, given + at, values + at);
        p->function->forward(count, p->constant, least + at, other + at);
    }
    p->cpu.vector->block->choose(&p->shape, begin, end, values, other, given, least, where);
}

static lks_status cpu_conv_block_forward(const lki_plan *plan, const lki_args *args)
{
    const block_plan *p = (const block_plan *)(const void *)plan;
    lki_block_shape shape = p->shape;
    shape.part = args->part;
    shape.parts = args->parts;
    for (int64_t s = 0; s < args->count; s++) {
        float *out = (float *)args->out + s * p->pooled;
        float *values = p->flatten ? cpu_conv_block_floats(args, p->values) : out;
        float *given = p->function != NULL ? given_of(p, args, s) : NULL, *least = NULL;
        if (given != NULL) least = cpu_conv_block_floats(args, p->values) + 2 * p->pooled;
        uint8_t *where = (uint8_t *)args->saved + s * kept_bytes(p);
        const float *x = bordered(p, args, (const float *)args->in[0] + s * p->cpu.in);
        p->cpu.vector->block->forward(&shape, x, args->packed, p->bias ? args->param[1] : NULL,
                                      given != NULL ? given : values, least, where,
                                      args->workspace);
        if (given != NULL) activate(p, args, given, least, values, where);
        if (p->dropout && args->training) drop(p, args, s, values, where);
        if (p->flatten) flatten(p, args, values, out);
    }
    return LKS_OK;
}

/* What lies inside the border is d_in, or is added to it. */
static void take_inner(const block_plan *p, const float *from, float *d_in, bool add)
{
    const int64_t *pad = p->padding, row = p->shape.in_columns * p->shape.channels;
    const int64_t inner = (p->shape.in_columns - 2 * pad[1]) * p->shape.channels;
    p->cpu.vector->element->move(p->shape.in_rows - 2 * pad[0], inner,
                                 from + pad[0] * row + pad[1] * p->shape.channels, row, d_in, inner,
                                 add);
}

/* The gradient of the weight from [filter][kernel][channel] to PyTorch's order, [filter][channel]
 * [kernel]; and that of the bias. */
static void write_gradient(const block_plan *p, const lki_args *args)
{
    const int64_t kernel = p->shape.kernel[0] * p->shape.kernel[1], channels = p->shape.channels;
    const int64_t filter = kernel * channels, filters = p->shape.filters;
    const float *from = p->cpu.vector->block->gradient(&p->shape, args->sample + args->count,
                                                       args->sums);
    for (int64_t f = 0; f < filters; f++)
        p->cpu.vector->element->transpose(kernel, channels, from + f * filter,
                                          args->d_param[0] + f * filter, false);
    if (p->bias) memcpy(args->d_param[1], from + filters * filter, sizeof(float) * (size_t)filters);
}

static void backward_sample(const block_plan *p, const lki_args *args, int64_t s)
{
    const lki_vector *vector = p->cpu.vector;
    const int64_t positions = p->shape.rows * p->shape.columns;
    const float *d_out = args->d_out + s * p->pooled;
    const bool add = args->add_in & 1;
    float *d_in = args->d_in[0] != NULL ? args->d_in[0] + s * p->cpu.in : NULL;
    float *d_x = d_in != NULL && p->framed ? cpu_conv_block_floats(args, p->d_borders) : d_in;
    if (p->flatten) {
        vector->element->transpose(p->shape.filters, positions, d_out,
                                   cpu_conv_block_floats(args, p->values), false);
        d_out = cpu_conv_block_floats(args, p->values);
    }
    if (p->function != NULL) {
        float *d = cpu_conv_block_floats(args, p->values); /* perhaps in the place of d_out */
        p->function->backward(p->pooled, p->constant, given_of(p, args, s), d_out, d, false);
        d_out = d;
    }
    if (d_in != NULL && (p->framed || !add)) memset(d_x, 0, sizeof(float) * (size_t)p->image);
    vector->block->backward(
        &p->shape,
        &(lki_block_backward){.x = bordered(p, args, (const float *)args->in[0] + s * p->cpu.in),
                              .where = (const uint8_t *)args->saved + s * kept_bytes(p),
                              .d_out = d_out,
                              .scale = p->dropout && args->training ? p->scale : 1.0f,
                              .packed = args->packed,
                              .sample = args->sample + s,
                              .sums = args->d_param[0] != NULL ? args->sums : NULL,
                              .d_x = d_x,
                              .workspace = args->workspace});
    if (d_in != NULL && p->framed) take_inner(p, d_x, d_in, add);
}

static lks_status cpu_conv_block_backward(const lki_plan *plan, const lki_args *args)
{
    const block_plan *p = (const block_plan *)(const void *)plan;
    for (int64_t s = 0; s < args->count; s++) backward_sample(p, args, s);
    if (args->d_param[0] != NULL && args->last) write_gradient(p, args);
    return LKS_OK;
}

static const lki_kernel kernel = {
    .plan_bytes = sizeof(block_plan),
    .span = LKI_SPAN_SLICE,
    .parted = true,
    .plan = plan_block,
    .prepare = cpu_conv_block_prepare,
    .forward = cpu_conv_block_forward,
    .backward = cpu_conv_block_backward,
};

#define BLOCK(id, activations)                                                                     \
    const lki_impl lki_cpu_##id##_impl = {                                                         \
        .name = #id,                                                                               \
        .pattern = {{.ops = LKI_OPS(CONV2D)},                                                      \
                    {.ops = (activations), .from = {1}},                                           \
                    {.ops = LKI_OPS(MAX_POOL), .from = {1}},                                       \
                    {.ops = LKI_OPS(DROPOUT), .from = {1}, .optional = true},                      \
                    {.ops = LKI_OPS(FLATTEN), .from = {1}, .optional = true}},                     \
        .count = 5,                                                                                \
        .refuses = cpu_conv_block_refuses,                                                         \
        .kernel = &kernel,                                                                         \
    }

BLOCK(conv_block, LKI_OPS(RELU));
BLOCK(conv_block_gelu, LKI_OPS(GELU) | LKI_OPS(SILU));

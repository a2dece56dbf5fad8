/* conv2d, alone or followed by relu: four kernels, as depthwise convolutions, where a tile of filters
 * that share their input does not exist, have loops of their own. A dense layer of positions is a convolution
 * whose kernel sees one of them; most have a faster way (dense.c). */
#include <stdio.h>

#include "backend/cpu/cpu.h"
#include "base/memory.h"
#include "core/winograd.h"

typedef struct conv_plan {
    lki_cpu_plan cpu;
    lki_conv_shape shape;
    const lki_vector_conv *kernels;
    size_t masked; /* in the workspace, behind relu: the gradient of what it reads */
} conv_plan;

static const conv_plan *conv2d(const lki_plan *plan)
{
    return (const conv_plan *)(const void *)plan;
}

static lki_conv_shape shape_of_dense(const lki_node *node)
{
    const lks_dense_opts *opts = node->attr;
    const lks_shape *in = &node->in[0]->shape;
    return (lki_conv_shape){.groups = 1,
                            .channels = in->dim[1],
                            .filters = opts->units,
                            .bias = !opts->no_bias,
                            .in = {1, in->dim[0]},
                            .out = {1, in->dim[0]},
                            .kernel = {1, 1},
                            .stride = {1, 1},
                            .dilation = {1, 1}};
}

lki_conv_shape lki_conv_shape_of(const lki_node *node)
{
    if (node->op == LKI_OP_DENSE) return shape_of_dense(node);
    const lks_conv2d_opts *opts = node->attr;
    const lks_shape *in = &node->in[0]->shape, *out = &node->out.shape;
    lki_conv_shape s = {.groups = opts->groups,
                        .channels = in->dim[2],
                        .filters = opts->filters,
                        .bias = !opts->no_bias};
    for (int i = 0; i < 2; i++) {
        s.in[i] = in->dim[i];
        s.out[i] = out->dim[i];
        s.kernel[i] = opts->kernel[i];
        s.stride[i] = opts->stride[i];
        s.padding[i] = opts->padding[i];
        s.dilation[i] = opts->dilation[i];
    }
    return s;
}

bool lki_conv_is_depthwise(const lki_conv_shape *s)
{
    return s->groups > 1 && s->groups == s->channels && s->filters == s->channels;
}

bool lki_conv_is_first(const lki_conv_shape *s)
{
    return s->groups == 1 && s->channels < LKI_NARROW &&
           s->kernel[0] * s->kernel[1] * s->channels <= LKI_GROUP_TERMS;
}

lki_conv_shape lki_conv_part(const lki_conv_shape *s, const lki_args *args)
{
    lki_conv_shape shape = *s;
    shape.part = args->part;
    shape.parts = args->parts;
    return shape;
}

static const char *cpu_conv2d_refuses(const lki_cluster *cluster, const lki_switches *switches)
{
    (void)switches;
    const lki_conv_shape shape = lki_conv_shape_of(lki_cluster_head(cluster));
    return lki_conv_is_depthwise(&shape) ? "depthwise" : NULL;
}

static const char *cpu_depthwise_refuses(const lki_cluster *cluster, const lki_switches *switches)
{
    (void)switches;
    const lki_conv_shape shape = lki_conv_shape_of(lki_cluster_head(cluster));
    return lki_conv_is_depthwise(&shape) ? NULL : "filters that share channels";
}

void lki_conv_leave_out(lki_conv_shape *s)
{
    int64_t first[2], end[2] = {0};
    for (int i = 0; i < 2; i++)
        for (int64_t tap = 0; tap < s->kernel[i]; tap++) {
            bool meets = false;
            for (int64_t o = 0; o < s->out[i] && !meets; o++) {
                const int64_t at = o * s->stride[i] + tap * s->dilation[i] - s->padding[i];
                meets = at >= 0 && at < s->in[i];
            }
            if (meets && end[i] == 0) first[i] = tap;
            if (meets) end[i] = tap + 1;
        }
    if (end[0] == 0 || end[1] == 0) return; /* none meets the image */
    for (int i = 0; i < 2; i++) {
        if (s->padding[i] < first[i] * s->dilation[i])
            first[i] = 0; /* pixels in between would be cut off */
        s->before[i] = first[i];
        s->behind[i] = s->kernel[i] - end[i];
        s->kernel[i] = end[i] - first[i];
        s->padding[i] -= first[i] * s->dilation[i];
    }
}

const lki_vector_conv *lki_conv_choose(lki_plan *plan, const lki_node *node, lki_conv_shape *shape)
{
    const lki_vector *vector = lki_cpu(plan)->vector;
    *shape = lki_conv_shape_of(node);
    shape->share = plan->share;
    shape->frugal = plan->frugal;
    shape->bf16 = plan->switches.bf16 && shape->groups == 1;
    shape->unit = vector->unit;
    if (shape->bf16)
        snprintf(plan->needs.algorithm, sizeof plan->needs.algorithm, "%s, bf16", vector->name);
    if (shape->bf16) return vector->bf16;
    shape->winograd = node->op == LKI_OP_CONV2D ? lki_winograd_side(node, &plan->switches) : 0;
    if (shape->winograd > 0)
        snprintf(plan->needs.algorithm, sizeof plan->needs.algorithm, "%s, winograd f%d",
                 vector->name, shape->winograd);
    if (shape->winograd > 0) return vector->winograd;
    if (lki_conv_is_first(shape)) return vector->first;
    if (lki_conv_is_depthwise(shape)) return vector->depthwise;
    lki_conv_leave_out(shape);
    return vector->conv;
}

static lks_status plan_conv2d(lki_plan *plan)
{
    conv_plan *p = (conv_plan *)(void *)plan;
    LKI_TRY(lki_cpu_plan_start(plan));
    const lki_vector_conv *kernels = p->kernels = lki_conv_choose(
        plan, lki_cluster_head(&plan->cluster), &p->shape);
    plan->needs.reads = LKI_READS_IN;
    plan->needs.packed_bytes = kernels->packed_bytes(&p->shape);
    plan->needs.sums_bytes = kernels->sums_bytes(&p->shape);
    p->masked = lki_align(kernels->workspace_bytes(&p->shape, plan->slice));
    plan->needs.workspace_bytes = p->masked;
    return LKS_OK;
}

/* Backward of relu needs its output, and room for the gradient of what it reads. */
static lks_status plan_conv2d_relu(lki_plan *plan)
{
    const conv_plan *p = conv2d(plan);
    LKI_TRY(plan_conv2d(plan));
    plan->needs.reads |= LKI_READS_OUT;
    plan->needs.workspace_bytes = lki_plus(p->masked,
                                           sizeof(float) * (size_t)(plan->slice * p->cpu.out));
    return LKS_OK;
}

static void cpu_conv2d_prepare(lki_plan *plan, const float *const param[], void *packed, int part,
                               int parts)
{
    const conv_plan *p = conv2d(plan);
    p->kernels->pack(&p->shape, param[0], packed, part, parts);
}

static void conv_forward(const lki_plan *plan, const lki_args *args, bool relu)
{
    const conv_plan *p = conv2d(plan);
    const lki_conv_shape shape = lki_conv_part(&p->shape, args);
    p->kernels->forward(&shape, args->count, args->in[0], lki_conv_weight_of(args),
                        p->shape.bias ? args->param[1] : NULL, relu, args->out, args->workspace);
}

static lks_status cpu_conv2d_forward(const lki_plan *plan, const lki_args *args)
{
    conv_forward(plan, args, false);
    return LKS_OK;
}

static lks_status cpu_conv2d_relu_forward(const lki_plan *plan, const lki_args *args)
{
    conv_forward(plan, args, true);
    return LKS_OK;
}

void lki_conv_backward(const lki_vector_conv *kernels, const lki_conv_shape *shape,
                       const lki_args *args, const float *d_y, const float *y)
{
    if (args->d_in[0] != NULL)
        kernels->backward(shape, args->count, d_y, lki_conv_weight_of(args), args->d_in[0],
                          args->add_in & 1, args->workspace);
    if (args->d_param[0] != NULL)
        kernels->backward_weight(
            shape, args->count,
            &(lki_conv_gradient){.x = args->in[0],
                                 .d_y = d_y,
                                 .y = y,
                                 .sample = args->sample,
                                 .last = args->last,
                                 .sums = args->sums,
                                 .d_weight = args->d_param[0],
                                 .d_bias = shape->bias ? args->d_param[1] : NULL,
                                 .workspace = args->workspace});
}

static lks_status cpu_conv2d_backward(const lki_plan *plan, const lki_args *args)
{
    lki_conv_backward(conv2d(plan)->kernels, &conv2d(plan)->shape, args, args->d_out, NULL);
    return LKS_OK;
}

/* The weight's gradient alone looks at relu itself; Winograd's, depthwise ones and those of bfloat16 do not. */
static lks_status cpu_conv2d_relu_backward(const lki_plan *plan, const lki_args *args)
{
    const conv_plan *p = conv2d(plan);
    if (args->d_in[0] == NULL && p->shape.winograd == 0 && !p->shape.bf16 &&
        !lki_conv_is_depthwise(&p->shape)) {
        lki_conv_backward(p->kernels, &p->shape, args, args->d_out, args->out);
        return LKS_OK;
    }
    float *masked = (float *)(void *)((char *)args->workspace + p->masked);
    p->cpu.vector->element->relu_backward(args->count * p->cpu.out, args->out, args->d_out, masked,
                                          false);
    lki_conv_backward(p->kernels, &p->shape, args, masked, NULL);
    return LKS_OK;
}

#define KERNEL(function, parts)                                                                    \
    {                                                                                              \
        .plan_bytes = sizeof(conv_plan), .span = LKI_SPAN_SLICE, .parted = parts,                  \
        .plan = plan_##function, .prepare = cpu_conv2d_prepare,                                    \
        .forward = cpu_##function##_forward, .backward = cpu_##function##_backward,                \
    }

const lki_kernel lki_cpu_positions = KERNEL(conv2d, true);

/* With relu (2 nodes) or without (1). */
#define IMPL(its_name, function, refusal, nodes, parts)                                            \
    static const lki_kernel its_name##_kernel = KERNEL(function, parts);                           \
    const lki_impl lki_cpu_##its_name##_impl = {                                                   \
        .name = #its_name,                                                                         \
        .pattern = {{.ops = LKI_OPS(CONV2D)}, {.ops = LKI_OPS(RELU), .from = {1}}},                \
        .count = nodes,                                                                            \
        .refuses = refusal,                                                                        \
        .kernel = &its_name##_kernel,                                                              \
    }

IMPL(conv2d, conv2d, cpu_conv2d_refuses, 1, true);
IMPL(conv2d_relu, conv2d_relu, cpu_conv2d_refuses, 2, true);
IMPL(depthwise, conv2d, cpu_depthwise_refuses, 1, false);
IMPL(depthwise_relu, conv2d_relu, cpu_depthwise_refuses, 2, false);

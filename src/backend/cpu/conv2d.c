/* conv2d, alone or followed by relu. Depthwise convolutions, where a tile of filters that share their
 * input does not exist, have kernels of their own. */
#include <stdio.h>

#include "backend/cpu/cpu.h"
#include "base/memory.h"

typedef struct conv_plan {
    lki_cpu_plan cpu;
    lki_conv_shape shape;
    const lki_vector_conv *kernels;
    bool relu;
    size_t masked; /* in the workspace: the output's gradient behind relu */
} conv_plan;

static const conv_plan *conv2d(const lki_plan *plan)
{
    return (const conv_plan *)(const void *)plan;
}

lki_conv_shape lki_conv_shape_of(const lki_node *node)
{
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

static bool is_depthwise(const lki_conv_shape *s)
{
    return s->groups > 1 && s->groups == s->channels && s->filters == s->channels;
}

static lks_status plan_conv(lki_plan *plan)
{
    conv_plan *p = (conv_plan *)(void *)plan;
    const lki_node *node = plan->chain.node[0];
    LKI_TRY(lki_cpu_plan_start(plan));
    p->shape = lki_conv_shape_of(node);
    p->relu = plan->chain.count > 1;
    p->kernels = is_depthwise(&p->shape) ? p->cpu.vector->depthwise : p->cpu.vector->conv;
    plan->needs.reads = LKI_READS_IN | (p->relu ? LKI_READS_OUT : 0);
    plan->needs.packed_bytes = p->kernels->packed_bytes(&p->shape);
    plan->needs.sums_bytes = p->kernels->sums_bytes(&p->shape);
    p->masked = lki_align(p->kernels->workspace_bytes(&p->shape, plan->slice));
    plan->needs.workspace_bytes = lki_plus(
        p->masked, p->relu ? sizeof(float) * (size_t)(plan->slice * p->cpu.out) : 0);
    return LKS_OK;
}

static void cpu_conv2d_prepare(lki_plan *plan, const float *const param[], void *packed, int part,
                               int parts)
{
    const conv_plan *p = conv2d(plan);
    p->kernels->pack(&p->shape, param[0], packed, part, parts);
}

static lks_status cpu_conv2d_forward(const lki_plan *plan, const lki_args *args)
{
    const conv_plan *p = conv2d(plan);
    p->kernels->forward(&p->shape, args->count, args->in[0], args->packed,
                        p->shape.bias ? args->param[1] : NULL, p->relu, args->out, args->workspace);
    return LKS_OK;
}

static lks_status cpu_conv2d_backward(const lki_plan *plan, const lki_args *args)
{
    const conv_plan *p = conv2d(plan);
    const float *d_out = args->d_out;
    const bool fused = args->d_in[0] == NULL;
    if (p->relu && !fused) {
        float *masked = (float *)(void *)((char *)args->workspace + p->masked);
        p->cpu.vector->element->relu_backward(args->count * p->cpu.out, args->out, d_out, masked,
                                              false);
        d_out = masked;
    }
    if (args->d_in[0] != NULL)
        p->kernels->backward(&p->shape, args->count, d_out, args->packed, args->d_in[0],
                             args->add_in & 1, args->workspace);
    if (args->d_param[0] != NULL)
        p->kernels->backward_weight(
            &p->shape, args->count,
            &(lki_conv_gradient){.x = args->in[0],
                                 .d_y = d_out,
                                 .y = p->relu && fused ? args->out : NULL,
                                 .sample = args->sample,
                                 .last = args->last,
                                 .sums = args->sums,
                                 .d_weight = args->d_param[0],
                                 .d_bias = p->shape.bias ? args->d_param[1] : NULL,
                                 .workspace = args->workspace});
    return LKS_OK;
}

const lki_kernel lki_cpu_conv2d = {
    .plan_bytes = sizeof(conv_plan),
    .span = LKI_SPAN_SLICE,
    .plan = plan_conv,
    .prepare = cpu_conv2d_prepare,
    .forward = cpu_conv2d_forward,
    .backward = cpu_conv2d_backward,
};

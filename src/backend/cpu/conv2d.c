/* conv2d, alone or followed by relu. */
#include "backend/cpu/cpu.h"
#include "base/memory.h"

typedef struct conv_plan {
    lki_cpu_plan cpu;
    lki_conv_shape shape;
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

static lks_status plan_conv(lki_plan *plan)
{
    conv_plan *p = (conv_plan *)(void *)plan;
    LKI_TRY(lki_cpu_plan_start(plan));
    p->shape = lki_conv_shape_of(plan->chain.node[0]);
    p->relu = plan->chain.count > 1;
    p->masked = lki_align(p->cpu.vector->conv->workspace_bytes(&p->shape, plan->slice));
    plan->needs.reads = LKI_READS_IN | (p->relu ? LKI_READS_OUT : 0);
    plan->needs.workspace_bytes = p->masked +
                                  (p->relu ? sizeof(float) * (size_t)(plan->slice * p->cpu.out)
                                           : 0);
    plan->needs.packed_bytes = p->cpu.vector->conv->packed_bytes(&p->shape);
    return LKS_OK;
}

static void prepare(lki_plan *plan, const float *const param[], void *packed, int part, int parts)
{
    const conv_plan *p = conv2d(plan);
    p->cpu.vector->conv->pack(&p->shape, param[0], packed, part, parts);
}

static lks_status forward(const lki_plan *plan, const lki_args *args)
{
    const conv_plan *p = conv2d(plan);
    p->cpu.vector->conv->forward(&p->shape, args->count, args->in[0], args->packed,
                                 p->shape.bias ? args->param[1] : NULL, p->relu, args->out,
                                 args->workspace);
    return LKS_OK;
}

static lks_status backward(const lki_plan *plan, const lki_args *args)
{
    const conv_plan *p = conv2d(plan);
    const float *d_out = args->d_out;
    if (p->relu) {
        float *masked = (float *)(void *)((char *)args->workspace + p->masked);
        p->cpu.vector->element->relu_backward(args->count * p->cpu.out, args->out, d_out, masked,
                                              false);
        d_out = masked;
    }
    if (args->d_in[0] != NULL)
        p->cpu.vector->conv->backward(&p->shape, args->count, d_out, args->packed, args->d_in[0],
                                      args->add_in & 1, args->workspace);
    if (args->d_param[0] != NULL)
        p->cpu.vector->conv->backward_weight(
            &p->shape, args->count, args->in[0], d_out, args->d_param[0],
            p->shape.bias ? args->d_param[1] : NULL, args->add_param, args->workspace);
    return LKS_OK;
}

const lki_kernel lki_cpu_conv2d = {
    .plan_bytes = sizeof(conv_plan),
    .span = LKI_SPAN_SLICE,
    .plan = plan_conv,
    .prepare = prepare,
    .forward = forward,
    .backward = backward,
};

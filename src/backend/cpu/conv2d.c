/* conv2d, alone or followed by relu: kernels of our own, but for depthwise convolutions, where a
 * tile of filters that share their input does not exist: those are oneDNN's. */
#include <stdio.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/onednn.h"
#include "base/memory.h"

typedef struct conv_plan {
    lki_cpu_plan cpu;
    lki_conv_shape shape;
    lki_onednn_conv *library; /* NULL: ours */
    int64_t weights;          /* elements of the weight */
    bool relu;
    size_t scratch; /* in the workspace: the library's gradients that are to be added to others */
    size_t masked;  /* in the workspace: the output's gradient behind relu */
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

/* Multiples of 8 only: where channels do not fill a vector, oneDNN 2.6 was seen to let undefined
 * scratch into a weight gradient (1x1, stride 2, 6 channels). */
static bool is_depthwise(const lki_conv_shape *s)
{
    return s->groups > 1 && s->groups == s->channels && s->filters == s->channels &&
           s->channels % 8 == 0;
}

static lks_status plan_library(conv_plan *p, size_t *bytes)
{
    lki_plan *plan = &p->cpu.plan;
    LKI_TRY(lki_onednn_conv_create(&p->library, plan->context, &p->shape, plan->slice,
                                   plan->d_in_wanted[0]));
    const int64_t wanted = plan->d_in_wanted[0] ? plan->slice * p->cpu.in : 0;
    const int64_t gradients = p->weights + p->shape.filters;
    p->scratch = lki_align(lki_onednn_conv_workspace_bytes(p->library));
    *bytes = p->scratch + sizeof(float) * (size_t)(gradients > wanted ? gradients : wanted);
    plan->needs.packed_bytes = lki_onednn_conv_packed_bytes(p->library);
    snprintf(plan->needs.algorithm, sizeof plan->needs.algorithm, "%s",
             lki_onednn_conv_algorithm(p->library));
    return LKS_OK;
}

static lks_status plan_conv(lki_plan *plan)
{
    conv_plan *p = (conv_plan *)(void *)plan;
    const lki_node *node = plan->chain.node[0];
    LKI_TRY(lki_cpu_plan_start(plan));
    p->shape = lki_conv_shape_of(node);
    p->weights = lks_shape_elements(&node->param[0].shape);
    p->relu = plan->chain.count > 1;
    plan->needs.reads = LKI_READS_IN | (p->relu ? LKI_READS_OUT : 0);
    size_t bytes;
    if (is_depthwise(&p->shape)) {
        LKI_TRY(plan_library(p, &bytes));
    } else {
        bytes = p->cpu.vector->conv->workspace_bytes(&p->shape, plan->slice);
        plan->needs.packed_bytes = p->cpu.vector->conv->packed_bytes(&p->shape);
        plan->needs.sums_bytes = p->cpu.vector->conv->sums_bytes(&p->shape);
    }
    p->masked = lki_align(bytes);
    plan->needs.workspace_bytes = lki_plus(
        p->masked, p->relu ? sizeof(float) * (size_t)(plan->slice * p->cpu.out) : 0);
    return LKS_OK;
}

static void release(lki_plan *plan)
{
    lki_onednn_conv_destroy(((conv_plan *)(void *)plan)->library);
}

static void prepare(lki_plan *plan, const float *const param[], void *packed, int part, int parts)
{
    const conv_plan *p = conv2d(plan);
    if (p->library != NULL)
        lki_onednn_conv_pack(p->library, param[0], packed, part, parts);
    else
        p->cpu.vector->conv->pack(&p->shape, param[0], packed, part, parts);
}

static lks_status forward(const lki_plan *plan, const lki_args *args)
{
    const conv_plan *p = conv2d(plan);
    const float *bias = p->shape.bias ? args->param[1] : NULL;
    if (p->library == NULL) {
        p->cpu.vector->conv->forward(&p->shape, args->count, args->in[0], args->packed, bias,
                                     p->relu, args->out, args->workspace);
        return LKS_OK;
    }
    LKI_TRY(lki_onednn_conv_forward(p->library, args->count, args->in[0], args->packed, bias,
                                    args->out, args->workspace));
    if (p->relu) p->cpu.vector->element->relu(args->count * p->cpu.out, args->out, args->out);
    return LKS_OK;
}

/* The library overwrites, so what is to be added to lies in the scratch first. */
static lks_status library_backward(const conv_plan *p, const lki_args *args, const float *d_out)
{
    const lki_vector_element *element = p->cpu.vector->element;
    float *scratch = (float *)(void *)((char *)args->workspace + p->scratch);
    if (args->d_in[0] != NULL) {
        const bool add = args->add_in & 1;
        float *d_in = add ? scratch : args->d_in[0];
        LKI_TRY(lki_onednn_conv_backward_data(p->library, args->count, d_out, args->packed, d_in,
                                              args->workspace));
        if (add) element->add(args->count * p->cpu.in, args->d_in[0], d_in);
    }
    if (args->d_param[0] == NULL) return LKS_OK;
    float *d_bias = scratch + p->weights;
    LKI_TRY(lki_onednn_conv_backward_weight(p->library, args->count, args->in[0], d_out, scratch,
                                            p->shape.bias ? d_bias : NULL, args->workspace));
    element->pass(p->weights, scratch, args->d_param[0], args->add_param);
    if (p->shape.bias) element->pass(p->shape.filters, d_bias, args->d_param[1], args->add_param);
    return LKS_OK;
}

static lks_status backward(const lki_plan *plan, const lki_args *args)
{
    const conv_plan *p = conv2d(plan);
    const float *d_out = args->d_out;
    const bool fused = p->library == NULL && args->d_in[0] == NULL;
    if (p->relu && !fused) {
        float *masked = (float *)(void *)((char *)args->workspace + p->masked);
        p->cpu.vector->element->relu_backward(args->count * p->cpu.out, args->out, d_out, masked,
                                              false);
        d_out = masked;
    }
    if (p->library != NULL) return library_backward(p, args, d_out);
    if (args->d_in[0] != NULL)
        p->cpu.vector->conv->backward(&p->shape, args->count, d_out, args->packed, args->d_in[0],
                                      args->add_in & 1, args->workspace);
    if (args->d_param[0] != NULL)
        p->cpu.vector->conv->backward_weight(
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
    .release = release,
    .prepare = prepare,
    .forward = forward,
    .backward = backward,
};

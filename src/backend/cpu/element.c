/* relu, flatten, sequence, select: kernels that are bound by memory. */
#include <string.h>

#include "backend/cpu/cpu.h"

static lks_status cpu_relu_plan(lki_plan *plan)
{
    plan->needs.reads = LKI_READS_OUT;
    return lki_cpu_plan_start(plan);
}

static lks_status cpu_relu_forward(const lki_plan *plan, const lki_args *args)
{
    const lki_cpu_plan *p = lki_cpu(plan);
    p->vector->element->relu(args->count * p->out, args->in[0], args->out);
    return LKS_OK;
}

static lks_status cpu_relu_backward(const lki_plan *plan, const lki_args *args)
{
    const lki_cpu_plan *p = lki_cpu(plan);
    if (args->d_in[0] != NULL)
        p->vector->element->relu_backward(args->count * p->out, args->out, args->d_out,
                                          args->d_in[0], args->add_in & 1);
    return LKS_OK;
}

const lki_kernel lki_cpu_relu = {
    .plan_bytes = sizeof(lki_cpu_plan),
    .span = LKI_SPAN_EITHER,
    .plan = cpu_relu_plan,
    .forward = cpu_relu_forward,
    .backward = cpu_relu_backward,
};

/* Flatten: of an image a matrix [pixels][channels] becomes [channels][pixels]; all else, of 1 channel, stays as it is. */
static int64_t cpu_flatten_channels(const lki_plan *plan)
{
    const lks_shape *in = &plan->cluster.node[0]->in[0]->shape;
    return in->ndim == 3 ? in->dim[in->ndim - 1] : 1;
}

static lks_status cpu_flatten_forward(const lki_plan *plan, const lki_args *args)
{
    const lki_cpu_plan *p = lki_cpu(plan);
    const int64_t channels = cpu_flatten_channels(plan);
    for (int64_t s = 0; s < args->count; s++)
        p->vector->element->transpose(p->out / channels, channels,
                                      (const float *)args->in[0] + s * p->out,
                                      (float *)args->out + s * p->out, false);
    return LKS_OK;
}

static lks_status cpu_flatten_backward(const lki_plan *plan, const lki_args *args)
{
    const lki_cpu_plan *p = lki_cpu(plan);
    const int64_t channels = cpu_flatten_channels(plan);
    for (int64_t s = 0; args->d_in[0] != NULL && s < args->count; s++)
        p->vector->element->transpose(channels, p->out / channels, args->d_out + s * p->out,
                                      args->d_in[0] + s * p->out, args->add_in & 1);
    return LKS_OK;
}

const lki_kernel lki_cpu_flatten = {
    .plan_bytes = sizeof(lki_cpu_plan),
    .span = LKI_SPAN_EITHER,
    .plan = lki_cpu_plan_start,
    .forward = cpu_flatten_forward,
    .backward = cpu_flatten_backward,
};

static lks_status cpu_sequence_forward(const lki_plan *plan, const lki_args *args)
{
    memcpy(args->out, args->in[0], (size_t)(args->count * lki_cpu(plan)->out) * sizeof(float));
    return LKS_OK;
}

static lks_status cpu_sequence_backward(const lki_plan *plan, const lki_args *args)
{
    const lki_cpu_plan *p = lki_cpu(plan);
    if (args->d_in[0] != NULL)
        p->vector->element->pass(args->count * p->out, args->d_out, args->d_in[0],
                                 args->add_in & 1);
    return LKS_OK;
}

const lki_kernel lki_cpu_sequence = {
    .plan_bytes = sizeof(lki_cpu_plan),
    .span = LKI_SPAN_EITHER,
    .plan = lki_cpu_plan_start,
    .forward = cpu_sequence_forward,
    .backward = cpu_sequence_backward,
};

/* Of each sample the channels of one position: where they begin in it. */
static int64_t cpu_select_first(const lki_plan *plan)
{
    const lki_node *node = plan->cluster.node[0];
    const int64_t position = ((const lks_select_opts *)node->attr)->position;
    const lks_shape *in = &node->in[0]->shape;
    return (position < 0 ? in->dim[0] + position : position) * in->dim[1];
}

static lks_status cpu_select_forward(const lki_plan *plan, const lki_args *args)
{
    const lki_cpu_plan *p = lki_cpu(plan);
    const float *in = (const float *)args->in[0] + cpu_select_first(plan);
    p->vector->element->move(args->count, p->out, in, p->in, args->out, p->out, false);
    return LKS_OK;
}

static lks_status cpu_select_backward(const lki_plan *plan, const lki_args *args)
{
    const lki_cpu_plan *p = lki_cpu(plan);
    const bool add = args->add_in & 1;
    float *d_in = args->d_in[0];
    if (d_in == NULL) return LKS_OK;
    if (!add) memset(d_in, 0, (size_t)(args->count * p->in) * sizeof *d_in);
    p->vector->element->move(args->count, p->out, args->d_out, p->out,
                             d_in + cpu_select_first(plan), p->in, add);
    return LKS_OK;
}

const lki_kernel lki_cpu_select = {
    .plan_bytes = sizeof(lki_cpu_plan),
    .span = LKI_SPAN_EITHER,
    .plan = lki_cpu_plan_start,
    .forward = cpu_select_forward,
    .backward = cpu_select_backward,
};

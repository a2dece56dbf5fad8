/* Concat along channels: the rows of both inputs side by side. */
#include "backend/cpu/cpu.h"

static int64_t cpu_concat_channels_of(const lks_tensor *tensor)
{
    return tensor->shape.dim[tensor->shape.ndim - 1];
}

static lks_status cpu_concat_forward(const lki_plan *plan, const lki_args *args)
{
    const lki_cpu_plan *p = lki_cpu(plan);
    const lki_node *node = plan->cluster.node[0];
    const int64_t all = cpu_concat_channels_of(&node->out), rows = args->count * p->out / all;
    float *out = args->out;
    for (int i = 0; i < 2; i++) {
        const int64_t own = cpu_concat_channels_of(node->in[i]);
        p->vector->element->move(rows, own, args->in[i], own, out, all, false);
        out += own;
    }
    return LKS_OK;
}

/* One input after the other: they may be one tensor. */
static lks_status cpu_concat_backward(const lki_plan *plan, const lki_args *args)
{
    const lki_cpu_plan *p = lki_cpu(plan);
    const lki_node *node = plan->cluster.node[0];
    const int64_t all = cpu_concat_channels_of(&node->out), rows = args->count * p->out / all;
    const float *d_out = args->d_out;
    for (int i = 0; i < 2; i++) {
        const int64_t own = cpu_concat_channels_of(node->in[i]);
        if (args->d_in[i] != NULL)
            p->vector->element->move(rows, own, d_out, all, args->d_in[i], own,
                                     args->add_in >> i & 1);
        d_out += own;
    }
    return LKS_OK;
}

const lki_kernel lki_cpu_concat = {
    .plan_bytes = sizeof(lki_cpu_plan),
    .span = LKI_SPAN_EITHER,
    .plan = lki_cpu_plan_start,
    .forward = cpu_concat_forward,
    .backward = cpu_concat_backward,
};

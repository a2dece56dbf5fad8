/* gelu, silu, tanh, sigmoid, softplus, relu6, leaky_relu. */
#include "backend/cpu/cpu.h"

typedef struct activation_plan {
    lki_cpu_plan cpu;
    const lki_vector_activation *function;
    float constant;
} activation_plan;

static const activation_plan *cpu_activation_activation(const lki_plan *plan)
{
    return (const activation_plan *)(const void *)plan;
}

lki_activation lki_cpu_activation_of(const lki_node *node, float *constant)
{
    *constant = 0;
    switch (node->op) {
    case LKI_OP_GELU:
        return ((const lks_gelu_opts *)node->attr)->form == LKS_GELU_TANH ? LKI_GELU_TANH
                                                                          : LKI_GELU;
    case LKI_OP_TANH:
        return LKI_TANH;
    case LKI_OP_SIGMOID:
        return LKI_SIGMOID;
    case LKI_OP_SOFTPLUS:
        return LKI_SOFTPLUS;
    case LKI_OP_RELU6:
        return LKI_RELU6;
    case LKI_OP_LEAKY_RELU:
        *constant = ((const lks_leaky_relu_opts *)node->attr)->slope;
        return LKI_LEAKY_RELU;
    default:
        return LKI_SILU;
    }
}

bool lki_cpu_activation_reads_out(lki_activation id)
{
    return id == LKI_TANH || id == LKI_SIGMOID || id == LKI_RELU6 || id == LKI_LEAKY_RELU;
}

static lks_status plan_activation(lki_plan *plan)
{
    activation_plan *p = (activation_plan *)(void *)plan;
    LKI_TRY(lki_cpu_plan_start(plan));
    const lki_activation id = lki_cpu_activation_of(lki_cluster_head(&plan->cluster), &p->constant);
    plan->needs.reads = lki_cpu_activation_reads_out(id) ? LKI_READS_OUT : LKI_READS_IN;
    p->function = &p->cpu.vector->activation[id];
    return LKS_OK;
}

static lks_status cpu_activation_forward(const lki_plan *plan, const lki_args *args)
{
    const activation_plan *p = cpu_activation_activation(plan);
    p->function->forward(args->count * p->cpu.out, p->constant, args->in[0], args->out);
    return LKS_OK;
}

static lks_status cpu_activation_backward(const lki_plan *plan, const lki_args *args)
{
    const activation_plan *p = cpu_activation_activation(plan);
    const float *at = plan->needs.reads == LKI_READS_OUT ? args->out : args->in[0];
    if (args->d_in[0] != NULL)
        p->function->backward(args->count * p->cpu.out, p->constant, at, args->d_out, args->d_in[0],
                              args->add_in & 1);
    return LKS_OK;
}

#define KERNEL(name)                                                                               \
    const lki_kernel lki_cpu_##name = {                                                            \
        .plan_bytes = sizeof(activation_plan),                                                     \
        .span = LKI_SPAN_EITHER,                                                                   \
        .plan = plan_activation,                                                                   \
        .forward = cpu_activation_forward,                                                         \
        .backward = cpu_activation_backward,                                                       \
    }

KERNEL(gelu);
KERNEL(silu);
KERNEL(tanh);
KERNEL(sigmoid);
KERNEL(softplus);
KERNEL(relu6);
KERNEL(leaky_relu);

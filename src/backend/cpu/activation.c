/* gelu, silu, tanh, sigmoid, softplus, leaky_relu. */
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

static lks_status plan_activation(lki_plan *plan)
{
    activation_plan *p = (activation_plan *)(void *)plan;
    const lki_node *node = plan->cluster.node[0];
    lki_activation id = LKI_SILU;
    LKI_TRY(lki_cpu_plan_start(plan));
    plan->needs.reads = LKI_READS_IN;
    if (node->op == LKI_OP_GELU)
        id = ((const lks_gelu_opts *)node->attr)->form == LKS_GELU_TANH ? LKI_GELU_TANH : LKI_GELU;
    if (node->op == LKI_OP_TANH) id = LKI_TANH;
    if (node->op == LKI_OP_SIGMOID) id = LKI_SIGMOID;
    if (node->op == LKI_OP_SOFTPLUS) id = LKI_SOFTPLUS;
    if (node->op == LKI_OP_LEAKY_RELU) {
        id = LKI_LEAKY_RELU;
        p->constant = ((const lks_leaky_relu_opts *)node->attr)->slope;
    }
    if (id == LKI_TANH || id == LKI_SIGMOID || id == LKI_LEAKY_RELU)
        plan->needs.reads = LKI_READS_OUT;
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
KERNEL(leaky_relu);

/* normalize of bytes + conv2d [+ activation], of few channels, as one kernel: what a network begins with. An
 * image of floats is never stored, bytes become numbers where the convolution gives the image its border
 * (vector/conv/first.h), in each pass again.
 *
 * An activation follows while a sample's output is in the cache. Where its derivative is a function of what it
 * reads, that is not kept either: the convolution is computed again in backward, from few terms. */
#include "backend/cpu/cpu.h"
#include "base/memory.h"

typedef struct first_plan {
    lki_cpu_plan cpu;
    lki_conv_shape shape;
    const lki_vector_conv *kernels;
    float (*table)[256]; /* of normalize */
    bool relu;
    const lki_vector_activation *function; /* or this; NULL: neither */
    float constant;                        /* its */
    bool reads_out;                        /* its derivative is a function of out */
    size_t d_y, z;                         /* in the workspace; z: of a sample */
} first_plan;

static const first_plan *cpu_first(const lki_plan *plan)
{
    return (const first_plan *)(const void *)plan;
}

const char *lki_cpu_first_reads_no_bytes(const lki_cluster *cluster, const lki_switches *switches)
{
    const lki_conv_shape shape = lki_conv_shape_of(cluster->node[1]);
    if (switches->bf16) return "train.dtype: bf16";
    if (lki_cluster_head(cluster)->in[0]->dtype != LKS_U8) return "normalises floats";
    return lki_conv_is_first(&shape) ? NULL : "16 channels, groups or more than 1024 terms";
}

static lks_status plan_first(lki_plan *plan)
{
    first_plan *p = (first_plan *)(void *)plan;
    const lki_node *head = lki_cluster_head(&plan->cluster),
                   *tail = lki_cluster_tail(&plan->cluster);
    LKI_TRY(lki_cpu_plan_start(plan));
    p->shape = lki_conv_shape_of(plan->cluster.node[1]);
    p->kernels = p->cpu.vector->first;
    LKI_TRY(lki_normalize_table(plan->context, head, p->shape.channels, &p->table));
    p->shape.table = (const float(*)[256])p->table;
    p->relu = tail->op == LKI_OP_RELU;
    plan->needs.reads = LKI_READS_IN | (p->relu ? LKI_READS_OUT : 0);
    if (!p->relu && tail->op != LKI_OP_CONV2D) {
        const lki_activation id = lki_cpu_activation_of(tail, &p->constant);
        p->function = &p->cpu.vector->activation[id];
        p->reads_out = lki_cpu_activation_reads_out(id);
        plan->needs.reads |= p->reads_out ? LKI_READS_OUT : 0;
    }
    plan->needs.packed_bytes = p->kernels->packed_bytes(&p->shape);
    plan->needs.sums_bytes = p->kernels->sums_bytes(&p->shape);
    const size_t sample = lki_times((size_t)p->cpu.out, sizeof(float));
    p->d_y = lki_align(p->kernels->workspace_bytes(&p->shape, plan->slice));
    p->z = lki_plus(p->d_y, lki_align(lki_times(sample, (size_t)plan->slice)));
    plan->needs.workspace_bytes = lki_plus(p->z, sample);
    return LKS_OK;
}

static void release_first(lki_plan *plan)
{
    const first_plan *p = cpu_first(plan);
    lki_free(plan->context, p->table, (size_t)p->shape.channels * sizeof *p->table);
}

static void cpu_first_prepare(lki_plan *plan, const float *const param[], void *packed, int part,
                              int parts)
{
    const first_plan *p = cpu_first(plan);
    p->kernels->pack(&p->shape, param[0], packed, part, parts);
}

/* The convolution of samples [n, n + count). */
static void cpu_first_convolve(const first_plan *p, const lki_args *args, int64_t n, int64_t count,
                               float *y)
{
    const void *x = (const uint8_t *)args->in[0] + n * p->cpu.in;
    p->kernels->forward(&p->shape, count, x, lki_conv_weight_of(args),
                        p->shape.bias ? args->param[1] : NULL, p->relu, y, args->workspace);
}

static lks_status cpu_first_forward(const lki_plan *plan, const lki_args *args)
{
    const first_plan *p = cpu_first(plan);
    float *out = args->out;
    if (p->function == NULL) cpu_first_convolve(p, args, 0, args->count, out);
    for (int64_t n = 0; p->function != NULL && n < args->count; n++, out += p->cpu.out) {
        cpu_first_convolve(p, args, n, 1, out);
        p->function->forward(p->cpu.out, p->constant, out, out);
    }
    return LKS_OK;
}

/* The gradient in front of the activation. */
static const float *cpu_first_slope(const first_plan *p, const lki_args *args)
{
    float *d_y = (float *)(void *)((char *)args->workspace + p->d_y);
    float *z = (float *)(void *)((char *)args->workspace + p->z);
    const int64_t size = p->cpu.out;
    for (int64_t n = 0; n < args->count; n++) {
        const float *of = p->reads_out ? (const float *)args->out + n * size : z;
        if (!p->reads_out) cpu_first_convolve(p, args, n, 1, z);
        p->function->backward(size, p->constant, of, args->d_out + n * size, d_y + n * size, false);
    }
    return d_y;
}

static lks_status cpu_first_backward(const lki_plan *plan, const lki_args *args)
{
    const first_plan *p = cpu_first(plan);
    if (p->function != NULL)
        lki_conv_backward(p->kernels, &p->shape, args, cpu_first_slope(p, args), NULL);
    else
        lki_conv_backward(p->kernels, &p->shape, args, args->d_out, p->relu ? args->out : NULL);
    return LKS_OK;
}

static const lki_kernel first_kernel = {
    .plan_bytes = sizeof(first_plan),
    .span = LKI_SPAN_SLICE,
    .plan = plan_first,
    .release = release_first,
    .prepare = cpu_first_prepare,
    .forward = cpu_first_forward,
    .backward = cpu_first_backward,
};

const lki_impl lki_cpu_first_impl = {
    .name = "first",
    .pattern = {{.ops = LKI_OPS(NORMALIZE)},
                {.ops = LKI_OPS(CONV2D), .from = {1}},
                {.ops = LKI_CPU_ACTIVATIONS, .from = {1}, .optional = true}},
    .count = 3,
    .refuses = lki_cpu_first_reads_no_bytes,
    .kernel = &first_kernel,
};

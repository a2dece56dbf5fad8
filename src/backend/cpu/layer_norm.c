/*
 * Layer norm and rms norm, row by row. Kept for backward: mean and 1 / sqrt(variance + epsilon) of each row.
 *
 * Over a whole image the parameters are in PyTorch's order, [channels][pixels]: prepare packs them in
 * the order of rows. The sums of their gradients have that order too, until the replica's last piece:
 * one accumulator in double for each element, samples and rows ascending, rounded once; so pieces change
 * no bit.
 */
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/memory.h"
#include "numeric/tree.h"

typedef struct layer_plan {
    lki_cpu_plan cpu;
    double epsilon;
    int64_t width;            /* values of a row */
    int64_t rows;             /* of a sample */
    int64_t pixels, channels; /* one pixel: parameters are in the order of rows */
    int parameters;           /* of weight and bias those that it has */
    bool centred;             /* about the mean: layer norm */
} layer_plan;

static const layer_plan *layer(const lki_plan *plan)
{
    return (const layer_plan *)(const void *)plan;
}

/* Rows of `dims` dimensions. */
static lks_status plan_rows(lki_plan *plan, float epsilon, int dims)
{
    layer_plan *p = (layer_plan *)(void *)plan;
    const lks_shape *in = &plan->cluster.node[0]->in[0]->shape;
    LKI_TRY(lki_cpu_plan_start(plan));
    p->epsilon = (double)epsilon;
    p->parameters = plan->cluster.node[0]->param_count;
    p->width = 1;
    for (int i = in->ndim - dims; i < in->ndim; i++) p->width *= in->dim[i];
    p->rows = p->cpu.in / p->width;
    p->channels = dims == 3 && in->ndim == 3 ? in->dim[2] : p->width;
    p->pixels = p->width / p->channels;
    plan->needs.reads = LKI_READS_IN;
    plan->needs.saved_bytes = lki_align(2 * sizeof(float) * (size_t)p->rows);
    if (p->parameters > 0) plan->needs.sums_bytes = 2 * sizeof(double) * (size_t)p->width;
    if (p->parameters > 0 && p->pixels > 1)
        plan->needs.packed_bytes = 2 * sizeof(float) * (size_t)p->width;
    return LKS_OK;
}

static lks_status plan_layer(lki_plan *plan)
{
    const lks_layer_norm_opts *opts = plan->cluster.node[0]->attr;
    ((layer_plan *)(void *)plan)->centred = true;
    return plan_rows(plan, opts->epsilon, opts->dims);
}

static lks_status plan_rms(lki_plan *plan)
{
    const lks_rms_norm_opts *opts = plan->cluster.node[0]->attr;
    return plan_rows(plan, opts->epsilon, 1);
}

/* Where element i of a row stands in the parameters. */
static int64_t place_of(const layer_plan *p, int64_t i)
{
    return i % p->channels * p->pixels + i / p->channels;
}

static void cpu_layer_norm_prepare(lki_plan *plan, const float *const param[], void *packed,
                                   int part, int parts)
{
    const layer_plan *p = layer(plan);
    if (p->pixels == 1) return;
    const int64_t end = lki_share(part + 1, parts, p->width);
    for (int k = 0; k < p->parameters; k++)
        for (int64_t i = lki_share(part, parts, p->width); i < end; i++)
            ((float *)packed)[k * p->width + i] = param[k][place_of(p, i)];
}

/* Weight or bias in the order of rows; NULL: it has none. */
static const float *cpu_layer_norm_parameter(const layer_plan *p, const lki_args *args, int which)
{
    if (p->pixels == 1) return args->param[which];
    return which < p->parameters ? (const float *)args->packed + which * p->width : NULL;
}

static float *cpu_layer_norm_moments_at(const lki_plan *plan, const lki_args *args, int64_t row)
{
    const layer_plan *p = layer(plan);
    char *sample = (char *)args->saved + plan->needs.saved_bytes * (size_t)(row / p->rows);
    return (float *)(void *)sample + 2 * (row % p->rows);
}

static lks_status cpu_layer_norm_forward(const lki_plan *plan, const lki_args *args)
{
    const layer_plan *p = layer(plan);
    const lki_vector_layer_norm *v = p->cpu.vector->layer_norm;
    for (int64_t r = 0; r < args->count * p->rows; r++) {
        const float *x = (const float *)args->in[0] + r * p->width;
        float *moments = cpu_layer_norm_moments_at(plan, args, r);
        (p->centred ? v->measure : v->root)(p->width, x, p->epsilon, moments);
        v->forward(p->width, x, moments, cpu_layer_norm_parameter(p, args, 0),
                   cpu_layer_norm_parameter(p, args, 1), (float *)args->out + r * p->width);
    }
    return LKS_OK;
}

static void write_gradients(const layer_plan *p, const lki_args *args)
{
    const double *sums = args->sums;
    for (int k = 0; k < p->parameters; k++)
        for (int64_t i = 0; i < p->width; i++)
            args->d_param[k][place_of(p, i)] = lki_flush((float)sums[k * p->width + i]);
}

static lks_status cpu_layer_norm_backward(const lki_plan *plan, const lki_args *args)
{
    const layer_plan *p = layer(plan);
    const lki_vector_layer_norm *v = p->cpu.vector->layer_norm;
    const bool sums = args->d_param[0] != NULL;
    double *weight = args->sums, *bias = weight + p->width;
    if (sums && args->sample == 0) memset(args->sums, 0, plan->needs.sums_bytes);
    for (int64_t r = 0; r < args->count * p->rows; r++) {
        const lki_layer_norm_row row = {.x = (const float *)args->in[0] + r * p->width,
                                        .d_out = args->d_out + r * p->width,
                                        .weight = cpu_layer_norm_parameter(p, args, 0),
                                        .moments = cpu_layer_norm_moments_at(plan, args, r),
                                        .about_zero = !p->centred};
        if (sums) v->products(p->width, &row, weight, bias);
        if (args->d_in[0] != NULL)
            v->backward(p->width, &row, args->d_in[0] + r * p->width, args->add_in & 1);
    }
    if (sums && args->last) write_gradients(p, args);
    return LKS_OK;
}

const lki_kernel lki_cpu_layer_norm = {
    .plan_bytes = sizeof(layer_plan),
    .span = LKI_SPAN_EITHER,
    .plan = plan_layer,
    .prepare = cpu_layer_norm_prepare,
    .forward = cpu_layer_norm_forward,
    .backward = cpu_layer_norm_backward,
};

const lki_kernel lki_cpu_rms_norm = {
    .plan_bytes = sizeof(layer_plan),
    .span = LKI_SPAN_EITHER,
    .plan = plan_rms,
    .forward = cpu_layer_norm_forward,
    .backward = cpu_layer_norm_backward,
};

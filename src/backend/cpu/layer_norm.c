/*
 * Layer norm, row by row. Kept for backward: mean and 1 / sqrt(variance + epsilon) of each row.
 *
 * Over a whole image the parameters are in PyTorch's order, [channels][pixels]: prepare packs them in
 * the order of rows, and their gradients' terms are transposed as they are added. Their sums have one
 * f32 accumulator from +0 for each element, samples and rows ascending; so pieces change no bit.
 */
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/memory.h"
#include "base/tree.h"

typedef struct layer_plan {
    lki_cpu_plan cpu;
    double epsilon;
    int64_t width;            /* values of a row */
    int64_t rows;             /* of a sample */
    int64_t pixels, channels; /* one pixel: parameters are in the order of rows */
    bool affine;
} layer_plan;

static const layer_plan *layer(const lki_plan *plan)
{
    return (const layer_plan *)(const void *)plan;
}

static lks_status plan_layer(lki_plan *plan)
{
    layer_plan *p = (layer_plan *)(void *)plan;
    const lki_node *node = plan->chain.node[0];
    const lks_layer_norm_opts *opts = node->attr;
    const lks_shape *in = &node->in[0]->shape;
    LKI_TRY(lki_cpu_plan_start(plan));
    p->epsilon = (double)opts->epsilon;
    p->affine = !opts->no_affine;
    p->width = 1;
    for (int i = in->ndim - opts->dims; i < in->ndim; i++) p->width *= in->dim[i];
    p->rows = p->cpu.in / p->width;
    p->channels = opts->dims == 3 && in->ndim == 3 ? in->dim[2] : p->width;
    p->pixels = p->width / p->channels;
    plan->needs.reads = LKI_READS_IN;
    plan->needs.saved_bytes = lki_align(2 * sizeof(float) * (size_t)p->rows);
    if (p->affine && p->pixels > 1) {
        plan->needs.packed_bytes = 2 * sizeof(float) * (size_t)p->width;
        plan->needs.workspace_bytes = sizeof(float) * (size_t)p->width;
    }
    return LKS_OK;
}

static void prepare(lki_plan *plan, const float *const param[], void *packed, int part, int parts)
{
    const layer_plan *p = layer(plan);
    if (!p->affine || p->pixels == 1) return;
    const int64_t end = lki_share(part + 1, parts, p->width);
    for (int k = 0; k < 2; k++)
        for (int64_t i = lki_share(part, parts, p->width); i < end; i++)
            ((float *)packed)[k * p->width + i] =
                param[k][i % p->channels * p->pixels + i / p->channels];
}

/* Weight or bias in the order of rows; NULL without affine. */
static const float *parameter(const layer_plan *p, const lki_args *args, int which)
{
    if (p->pixels == 1) return args->param[which];
    return p->affine ? (const float *)args->packed + which * p->width : NULL;
}

static float *moments_at(const lki_plan *plan, const lki_args *args, int64_t row)
{
    const layer_plan *p = layer(plan);
    char *sample = (char *)args->saved + plan->needs.saved_bytes * (size_t)(row / p->rows);
    return (float *)(void *)sample + 2 * (row % p->rows);
}

static lks_status forward(const lki_plan *plan, const lki_args *args)
{
    const layer_plan *p = layer(plan);
    const lki_vector_layer_norm *v = p->cpu.vector->layer_norm;
    for (int64_t r = 0; r < args->count * p->rows; r++) {
        const float *x = (const float *)args->in[0] + r * p->width;
        float *moments = moments_at(plan, args, r);
        v->measure(p->width, x, p->epsilon, moments);
        v->forward(p->width, x, moments, parameter(p, args, 0), parameter(p, args, 1),
                   (float *)args->out + r * p->width);
    }
    return LKS_OK;
}

static void add_to_parameters(const layer_plan *p, const lki_args *args,
                              const lki_layer_norm_row *row)
{
    const lki_vector *v = p->cpu.vector;
    if (p->pixels == 1) {
        v->layer_norm->products(p->width, row, args->d_param[0], true);
        v->element->add(p->width, args->d_param[1], row->d_out);
        return;
    }
    float *terms = args->workspace;
    v->layer_norm->products(p->width, row, terms, false);
    v->element->transpose(p->pixels, p->channels, terms, args->d_param[0], true);
    v->element->transpose(p->pixels, p->channels, row->d_out, args->d_param[1], true);
}

static lks_status backward(const lki_plan *plan, const lki_args *args)
{
    const layer_plan *p = layer(plan);
    for (int k = 0; k < 2 && args->d_param[k] != NULL && !args->add_param; k++)
        memset(args->d_param[k], 0, sizeof(float) * (size_t)p->width);
    for (int64_t r = 0; r < args->count * p->rows; r++) {
        const lki_layer_norm_row row = {.x = (const float *)args->in[0] + r * p->width,
                                        .d_out = args->d_out + r * p->width,
                                        .weight = parameter(p, args, 0),
                                        .moments = moments_at(plan, args, r)};
        if (args->d_param[0] != NULL) add_to_parameters(p, args, &row);
        if (args->d_in[0] != NULL)
            p->cpu.vector->layer_norm->backward(p->width, &row, args->d_in[0] + r * p->width,
                                                args->add_in & 1);
    }
    return LKS_OK;
}

const lki_kernel lki_cpu_layer_norm = {
    .plan_bytes = sizeof(layer_plan),
    .span = LKI_SPAN_EITHER,
    .plan = plan_layer,
    .prepare = prepare,
    .forward = forward,
    .backward = backward,
};

/*
 * Dense layers of positions as one product of all positions of a replica: a dense layer whose samples they are
 * (vector/dense.c, vector/rows.c). By definition such a layer is a convolution that sees one pixel, whose weights are
 * packed alike, and whose sums have the same terms in the same order: so are the bits, but for sums of more terms than
 * the convolution has in a block (vector/conv/conv.c), which its kernel forms; and narrow ones, which are refused.
 */
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/memory.h"

typedef struct positions_plan {
    lki_cpu_plan cpu;
    lki_dense_shape shape;
    lki_conv_shape image; /* the same layer */
    int64_t positions;
} positions_plan;

static const positions_plan *positions_of(const lki_plan *plan)
{
    return (const positions_plan *)(const void *)plan;
}

static bool is_one_block(int64_t terms)
{
    return terms <= LKI_CONV_BLOCK_TERMS;
}

static const char *cpu_dense_positions_refuses(const lki_cluster *cluster,
                                               const lki_switches *switches)
{
    const lks_shape *in = &cluster->in[0]->shape, *out = &cluster->node[0]->out.shape;
    if (in->ndim != 2) return "not of positions";
    if (switches->bf16) return "train.dtype: bf16";
    if (in->dim[1] < LKI_NARROW) return "fewer than 16 inputs";
    return out->dim[1] < LKI_NARROW ? "fewer than 16 units" : NULL;
}

static lks_status plan_dense_positions(lki_plan *plan)
{
    positions_plan *p = (positions_plan *)(void *)plan;
    LKI_TRY(lki_cpu_plan_start(plan));
    const lki_vector_dense *dense = p->cpu.vector->dense;
    const lki_vector_conv *conv = p->cpu.vector->conv;
    p->image = lki_conv_shape_of(plan->cluster.node[0]);
    p->positions = p->image.in[1];
    p->shape = (lki_dense_shape){
        .inputs = p->image.channels, .units = p->image.filters, .bias = p->image.bias};
    const size_t needed[] = {dense->rows_bytes(),
                             dense->workspace_bytes(&p->shape, plan->slice * p->positions),
                             conv->workspace_bytes(&p->image, plan->slice)};
    for (int i = 0; i < 3; i++)
        if (needed[i] > plan->needs.workspace_bytes) plan->needs.workspace_bytes = needed[i];
    plan->needs.reads = LKI_READS_IN;
    plan->needs.packed_bytes = dense->packed_bytes(&p->shape);
    return LKS_OK;
}

static void cpu_dense_positions_prepare(lki_plan *plan, const float *const param[], void *packed,
                                        int part, int parts)
{
    const positions_plan *p = positions_of(plan);
    p->cpu.vector->dense->pack(&p->shape, param[0], packed, part, parts);
}

static lks_status cpu_dense_positions_forward(const lki_plan *plan, const lki_args *args)
{
    const positions_plan *p = positions_of(plan);
    const lki_vector *vector = p->cpu.vector;
    const float *bias = p->shape.bias ? args->param[1] : NULL;
    lki_dense_shape shape = p->shape;
    const lki_conv_shape image = lki_conv_part(&p->image, args);
    shape.part = args->part;
    shape.parts = args->parts;
    if (is_one_block(shape.inputs))
        vector->dense->forward(&shape, args->count * p->positions, args->in[0], args->packed, bias,
                               args->out, args->workspace);
    else
        vector->conv->forward(&image, args->count, args->in[0], args->packed, bias, false,
                              args->out, args->workspace);
    return LKS_OK;
}

static void positions_keep(void *user, lki_tree_node node, int param, int64_t first, int64_t count,
                           const float *sums)
{
    float *const *d_param = user;
    (void)node;
    memcpy(d_param[param] + first, sums, (size_t)count * sizeof *sums);
}

/* All samples of the replica are here: LKI_SPAN_SHARE. */
static lks_status cpu_dense_positions_backward(const lki_plan *plan, const lki_args *args)
{
    const positions_plan *p = positions_of(plan);
    const lki_vector *vector = p->cpu.vector;
    const int64_t rows = args->count * p->positions, start[2] = {0, rows};
    const bool add = args->add_in & 1;
    float *d_param[2] = {args->d_param[0], args->d_param[1]};
    if (args->d_in[0] != NULL && is_one_block(p->shape.units))
        vector->dense->backward(&p->shape, rows, args->in[0], args->d_out, args->packed,
                                args->d_in[0], add, args->workspace);
    else if (args->d_in[0] != NULL)
        vector->conv->backward(&p->image, args->count, args->d_out, args->packed, args->d_in[0],
                               add, args->workspace);
    if (args->d_param[0] == NULL) return LKS_OK;
    vector->dense->rows(&p->shape, &(lki_rows){.in = args->in[0],
                                               .d_out = args->d_out,
                                               .start = start,
                                               .replicas = 1,
                                               .last = 1,
                                               .row_count = p->shape.units,
                                               .workspace = args->workspace,
                                               .sum = positions_keep,
                                               .user = d_param});
    return LKS_OK;
}

static const lki_kernel dense_positions = {
    .plan_bytes = sizeof(positions_plan),
    .span = LKI_SPAN_SHARE,
    .parted = true,
    .plan = plan_dense_positions,
    .prepare = cpu_dense_positions_prepare,
    .forward = cpu_dense_positions_forward,
    .backward = cpu_dense_positions_backward,
};

const lki_impl lki_cpu_dense_positions_impl = {
    .name = "dense_positions",
    .pattern = {{.ops = LKI_OPS(DENSE)}},
    .count = 1,
    .refuses = cpu_dense_positions_refuses,
    .kernel = &dense_positions,
};

/*
 * Dense layers of positions as one product of all positions of a replica: a dense layer whose samples they are
 * (vector/dense.c, vector/rows.c). By definition such a layer is a convolution that sees one pixel, whose weights are
 * packed alike, and whose sums have the same terms in the same order, in the same blocks of channels: so the bits are the
 * same. Narrow ones are refused.
 */
#include <string.h>

#include "backend/cpu/cpu.h"

typedef struct positions_plan {
    lki_cpu_plan cpu;
    lki_dense_shape shape;
    int64_t positions;
} positions_plan;

static const positions_plan *positions_of(const lki_plan *plan)
{
    return (const positions_plan *)(const void *)plan;
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
    const lks_shape *in = &plan->cluster.in[0]->shape;
    LKI_TRY(lki_cpu_plan_start(plan));
    const lki_vector_dense *dense = p->cpu.vector->dense;
    p->positions = in->dim[0];
    p->shape = (lki_dense_shape){.inputs = in->dim[1],
                                 .units = p->cpu.out / in->dim[0],
                                 .bias = plan->cluster.node[0]->param_count > 1};
    p->shape.run[0] = lki_conv_block(1, p->shape.inputs);
    p->shape.run[1] = lki_conv_block(1, p->shape.units);
    const size_t rows = dense->rows_bytes();
    const size_t passes = dense->workspace_bytes(&p->shape, plan->slice * p->positions);
    plan->needs.workspace_bytes = rows > passes ? rows : passes;
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
    lki_dense_shape shape = p->shape;
    shape.part = args->part;
    shape.parts = args->parts;
    p->cpu.vector->dense->forward(&shape, args->count * p->positions, args->in[0], args->packed,
                                  shape.bias ? args->param[1] : NULL, args->out, args->workspace);
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
    const lki_vector_dense *dense = p->cpu.vector->dense;
    const int64_t rows = args->count * p->positions, start[2] = {0, rows};
    float *d_param[2] = {args->d_param[0], args->d_param[1]};
    if (args->d_in[0] != NULL)
        dense->backward(&p->shape, rows, args->in[0], args->d_out, args->packed, args->d_in[0],
                        args->add_in & 1, args->workspace);
    if (args->d_param[0] == NULL) return LKS_OK;
    dense->rows(&p->shape, &(lki_rows){.in = args->in[0],
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

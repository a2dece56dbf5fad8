/*
 * Dense layers (vector/dense.c, vector/rows.c), those behind relu, of whose inputs only the active ones are visited
 * (vector/masks.h), and those of positions, which are rows of one product for all positions of a replica.
 *
 * By definition a dense layer of positions is a convolution that sees one pixel, whose weights are packed alike, and whose sums
 * have the same terms in the same order, in the same blocks of channels: so the bits are the same. Narrow ones are refused.
 */
#include <string.h>

#include <stdio.h>

#include "backend/cpu/cpu.h"
#include "base/memory.h"

enum { WIDE_UNITS = 256 }; /* which vector/rows.c takes together */

typedef struct dense_plan {
    lki_cpu_plan cpu;
    lki_dense_shape shape;
    size_t listed; /* where rows have lists in the workspace */
    const lki_vector_dense *kernels;
} dense_plan;

static const dense_plan *dense(const lki_plan *plan)
{
    return (const dense_plan *)(const void *)plan;
}

/* Each part of the gradient by rows copies what it reads of x and of dy, and x is the larger one. */
static bool wide(const lki_dense_shape *shape)
{
    return shape->units <= WIDE_UNITS && shape->inputs > shape->units;
}

static lks_status plan_any(lki_plan *plan, bool masks)
{
    dense_plan *p = (dense_plan *)(void *)plan;
    LKI_TRY(lki_cpu_plan_start(plan));
    const lki_vector *vector = p->cpu.vector;
    const lks_shape *in = &plan->cluster.in[0]->shape;
    const int64_t each = in->ndim > 1 ? in->dim[0] : 1;
    p->shape = (lki_dense_shape){.inputs = p->cpu.in / each,
                                 .units = p->cpu.out / each,
                                 .positions = each,
                                 .bias = plan->cluster.node[0]->param_count > 1,
                                 .masks = masks,
                                 .forward_only = !plan->d_in_wanted[0],
                                 .bf16 = plan->switches.bf16,
                                 .unit = vector->unit};
    p->kernels = p->shape.bf16 ? vector->dense_bf16 : vector->dense;
    if (p->shape.bf16)
        snprintf(plan->needs.algorithm, sizeof plan->needs.algorithm, "%s, bf16", vector->name);
    plan->needs.reads = LKI_READS_IN;
    const size_t rows = p->kernels->rows_bytes();
    const size_t passes = p->kernels->workspace_bytes(&p->shape, plan->slice * each);
    plan->needs.workspace_bytes = rows > passes ? rows : passes;
    p->listed = lki_align(plan->needs.workspace_bytes);
    if (plan->by_rows && lki_cluster_is_tied(&plan->cluster)) {
        const lki_node *front = lki_param_owner(plan->cluster.node[0], 0);
        const int64_t places = plan->batch * lks_shape_elements(&front->in[0]->shape);
        plan->needs.workspace_bytes = p->listed +
                                      (size_t)(p->shape.units + places) * sizeof(int32_t);
    }
    plan->needs.columns = masks || wide(&p->shape) ? LKI_BLOCK_TERMS : 0;
    plan->needs.packed_bytes = p->kernels->packed_bytes(&p->shape);
    plan->needs.packs = 1;
    return LKS_OK;
}

static lks_status plan_dense(lki_plan *plan)
{
    return plan_any(plan, false);
}

static lks_status plan_dense_active(lki_plan *plan)
{
    return plan_any(plan, true);
}

static lks_status plan_dense_positions(lki_plan *plan)
{
    dense_plan *p = (dense_plan *)(void *)plan;
    LKI_TRY(plan_any(plan, false));
    p->shape.run[0] = lki_conv_block(1, p->shape.inputs);
    p->shape.run[1] = lki_conv_block(1, p->shape.units);
    return LKS_OK;
}

static void cpu_dense_pack(const lki_plan *plan, int slot, const float *weight, void *packed,
                           int64_t first, int64_t count)
{
    const dense_plan *p = dense(plan);
    (void)slot;
    p->kernels->pack(&p->shape, weight, packed, first, count);
}

static lks_status cpu_dense_forward(const lki_plan *plan, const lki_args *args)
{
    const dense_plan *p = dense(plan);
    lki_dense_shape shape = p->shape;
    shape.part = args->part;
    shape.parts = args->parts;
    p->kernels->forward(&shape, args->count * p->shape.positions, args->in[0], args->packed,
                        p->shape.bias ? args->param[1] : NULL, args->out, args->workspace);
    return LKS_OK;
}

void lki_cpu_keep(void *user, lki_tree_node node, int slot, int64_t first, int64_t count,
                  const float *sums)
{
    float *const *d_param = user;
    (void)node;
    if (d_param[slot] != NULL) memcpy(d_param[slot] + first, sums, (size_t)count * sizeof *sums);
}

/* Asks for where they go. */
static void cpu_dense_soon(void *user, int slot, int64_t first, int64_t count, int64_t rows,
                           int64_t step)
{
    float *const *d_param = user;
    for (int64_t r = 0; r < rows; r++, first += step)
        for (int64_t i = first; i < first + count; i += 16)
            __builtin_prefetch(d_param[slot] + i, 1);
}

/* Of one row each element is one product, which is written where it belongs. */
static void backward_one(const dense_plan *p, const float *x, const float *d_y,
                         float *const d_param[])
{
    const lki_vector_product *product = p->cpu.vector->product;
    for (int64_t u = 0; u < p->shape.units; u++)
        product->scale(p->shape.inputs, d_y[u], x, d_param[0] + u * p->shape.inputs, false);
    if (p->shape.bias) product->scale(p->shape.units, 1, d_y, d_param[1], false);
}

/* All samples of the replica are here: LKI_SPAN_JOINT, LKI_SPAN_SHARE. */
static void backward_param(const dense_plan *p, const lki_args *args)
{
    if (args->count * p->shape.positions == 1 && !p->shape.bf16) {
        backward_one(p, args->in[0], args->d_out, args->d_param);
        return;
    }
    const int64_t start[2] = {0, args->count};
    float *d_param[2] = {args->d_param[0], args->d_param[1]};
    const lki_rows sums = {.in = args->in[0],
                           .d_out = args->d_out,
                           .start = start,
                           .replicas = 1,
                           .last = 1,
                           .row_count = p->shape.units,
                           .workspace = args->workspace,
                           .sum = lki_cpu_keep,
                           .soon = cpu_dense_soon,
                           .user = d_param};
    p->kernels->rows(&p->shape, &sums);
}

static lks_status cpu_dense_backward(const lki_plan *plan, const lki_args *args)
{
    const dense_plan *p = dense(plan);
    if (args->d_in[0] != NULL)
        p->kernels->backward(&p->shape, args->count * p->shape.positions, args->in[0], args->d_out,
                             args->packed, args->d_in[0], args->add_in & 1, args->workspace);
    if (args->d_param[0] != NULL) backward_param(p, args);
    return LKS_OK;
}

static void cpu_dense_rows(const lki_plan *plan, const lki_rows *args)
{
    const dense_plan *p = dense(plan);
    lki_dense_shape shape = p->shape;
    if (args->added.sum != NULL) {
        int32_t *head = (int32_t *)(void *)((char *)args->workspace + p->listed);
        const int64_t samples = args->start[args->last] - args->start[args->first];
        lki_cpu_list(args->row_first, args->row_count, samples * args->added.positions,
                     args->added.row, head, head + args->row_count);
        shape.added = head;
    }
    p->kernels->rows(&shape, args);
}

/* Rows read inputs and outputs of the whole batch; those of a replica have a place in any case. */
static const char *dense_positions_no_rows(const lki_plan *plan)
{
    const lks_shape *in = &plan->cluster.in[0]->shape;
    const double inputs = (double)in->dim[1];
    const double units = (double)plan->cluster.node[0]->out.shape.dim[1];
    const double places = (double)(plan->batch * in->dim[0]);
    if (plan->switches.bf16_storage) return "bf16_storage";
    return places * (inputs + units) > 3 * inputs * units
               ? "inputs and outputs have more numbers than three gradients"
               : NULL;
}

#define DENSE_KERNEL(its_plan, its_span, its_no_rows, its_adds)                                    \
    {                                                                                              \
        .plan_bytes = sizeof(dense_plan), .span = its_span, .parted = true, .plan = its_plan,      \
        .pack = cpu_dense_pack, .forward = cpu_dense_forward, .backward = cpu_dense_backward,      \
        .rows = cpu_dense_rows, .no_rows = its_no_rows, .adds = its_adds,                          \
    }

static const lki_kernel all = DENSE_KERNEL(plan_dense, LKI_SPAN_JOINT, NULL, false);
static const lki_kernel active = DENSE_KERNEL(plan_dense_active, LKI_SPAN_JOINT, NULL, false);
static const lki_kernel positions = DENSE_KERNEL(plan_dense_positions, LKI_SPAN_SHARE,
                                                 dense_positions_no_rows, true);

/* Of fewer units too few stand beside each other, and more do not fit the registers; smaller layers stay in
 * the cache, where all terms are faster than half of them, as many as are active behind relu alone. */
enum { ACTIVE_INPUTS = 1024, ACTIVE_FROM = 64, ACTIVE_TO = 128 };

static const char *cpu_dense_active_refuses(const lki_cluster *cluster,
                                            const lki_switches *switches)
{
    const lks_tensor *x = cluster->in[0];
    if (x->shape.ndim > 1) return "of positions";
    if (switches->bf16) return "train.dtype: bf16";
    if (!lki_stops_at_zero(x)) return "not behind relu";
    if (lks_shape_elements(&x->shape) < ACTIVE_INPUTS) return "fewer than 1,024 inputs";
    if (lks_shape_elements(&cluster->node[0]->out.shape) < ACTIVE_FROM)
        return "fewer than 64 units";
    if (lks_shape_elements(&cluster->node[0]->out.shape) > ACTIVE_TO) return "more than 128 units";
    return switches->all_terms ? "kernels.skip_zeros: false" : NULL;
}

static const char *cpu_dense_refuses(const lki_cluster *cluster, const lki_switches *switches)
{
    (void)switches;
    return cluster->in[0]->shape.ndim > 1 ? "of positions" : NULL;
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

const lki_impl lki_cpu_dense_active_impl = {
    .name = "dense_active",
    .pattern = {{.ops = LKI_OPS(DENSE)}},
    .count = 1,
    .refuses = cpu_dense_active_refuses,
    .kernel = &active,
};

const lki_impl lki_cpu_dense_impl = {
    .name = "dense",
    .pattern = {{.ops = LKI_OPS(DENSE)}},
    .count = 1,
    .refuses = cpu_dense_refuses,
    .kernel = &all,
};

const lki_impl lki_cpu_dense_positions_impl = {
    .name = "dense_positions",
    .pattern = {{.ops = LKI_OPS(DENSE)}},
    .count = 1,
    .refuses = cpu_dense_positions_refuses,
    .kernel = &positions,
};

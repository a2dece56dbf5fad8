#include "support/joined.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "core/graph.h"
#include "support/backends.h"

enum { MOST_PARTS = 4, BUFFERS = 3 };

/* Plans of ref's kernels, one for each node. */
typedef struct joined {
    lki_plan plan;
    lki_plan *part[MOST_PARTS];
    size_t buffer; /* bytes of each of the buffers at the start of the workspace */
} joined;

static const joined *of(const lki_plan *plan)
{
    return (const joined *)(const void *)plan;
}

static float *buffer(const joined *j, const lki_args *args, int number)
{
    return (float *)(void *)((char *)args->workspace + (size_t)number * j->buffer);
}

/* The part for an operation; NULL: the cluster has none. */
static const lki_plan *part_of(const joined *j, lki_op_id op)
{
    for (int n = 0; n < j->plan.cluster.count; n++)
        if (j->plan.cluster.node[n]->op == op) return j->part[n];
    return NULL;
}

static lks_status plan_parts(lki_plan *plan)
{
    joined *j = (joined *)(void *)plan;
    const lki_cluster *cluster = &plan->cluster;
    size_t scratch = 0;
    j->buffer = lki_align((size_t)(plan->slice * lks_shape_elements(&cluster->node[0]->out.shape)) *
                          sizeof(float));
    for (int n = 0; n < cluster->count; n++) {
        const lki_kernel *kernel = lkt_kernel(lki_backend_find("ref"), cluster->node[n]->op);
        void *memory;
        LKI_TRY(lki_alloc(plan->context, &memory, kernel->plan_bytes, "a part"));
        lki_plan *part = j->part[n] = memory;
        *part = (lki_plan){.kernel = kernel,
                           .context = plan->context,
                           .cluster = lki_cluster_of(cluster->node[n]),
                           .slice = plan->slice};
        for (int i = 0; i < LKI_MAX_IN; i++) part->d_in_wanted[i] = true;
        LKI_TRY(kernel->plan(part));
        if (part->needs.workspace_bytes > scratch) scratch = part->needs.workspace_bytes;
    }
    plan->needs.workspace_bytes = BUFFERS * j->buffer + scratch;
    snprintf(plan->needs.algorithm, sizeof plan->needs.algorithm, "joined loops");
    return LKS_OK;
}

static void release_parts(lki_plan *plan)
{
    joined *j = (joined *)(void *)plan;
    for (int n = 0; n < MOST_PARTS; n++)
        if (j->part[n] != NULL) lki_free(plan->context, j->part[n], j->part[n]->kernel->plan_bytes);
}

/* A part's arguments, without tensors: its own parameters, from the cluster's slots. */
static lki_args part_args(const joined *j, const lki_plan *part, const lki_args *args)
{
    const lki_cluster *cluster = &j->plan.cluster;
    lki_args own = *args;
    own.out = NULL;
    own.d_out = NULL;
    own.add_in = 0;
    own.workspace = (char *)args->workspace + BUFFERS * j->buffer;
    for (int i = 0; i < LKI_MAX_CLUSTER_IN; i++) {
        own.in[i] = NULL;
        own.d_in[i] = NULL;
    }
    for (int p = 0; p < LKI_MAX_SLOTS; p++) {
        own.param[p] = NULL;
        own.d_param[p] = NULL;
    }
    for (int p = 0; p < cluster->param_count; p++) {
        if (cluster->param[p].owner != part->cluster.node[0]) continue;
        own.param[cluster->param[p].index] = args->param[p];
        own.d_param[cluster->param[p].index] = args->d_param[p];
    }
    return own;
}

/* ---------------------------------------------------------------- norm */

/* Which operand of add is not the batch norm's output. */
static int side_of(const lki_plan *add)
{
    return add->cluster.node[0]->in[0]->node->op == LKI_OP_BATCH_NORM ? 1 : 0;
}

static const char *refuses_norm(const lki_cluster *cluster, const lki_switches *switches)
{
    if (switches->bf16) return "train.dtype: bf16";
    const lki_node *tail = lki_cluster_tail(cluster);
    for (int i = 1; i < cluster->in_count; i++)
        if (!lki_shape_equal(&cluster->in[i]->shape, &tail->out.shape)) return "a vector is added";
    return NULL;
}

static lks_status plan_norm(lki_plan *plan)
{
    const joined *j = of(plan);
    LKI_TRY(plan_parts(plan));
    lki_needs *needs = &plan->needs;
    needs->reads = LKI_READS_IN | (part_of(j, LKI_OP_RELU) != NULL ? LKI_READS_OUT : 0);
    needs->apply_in = needs->side_in = part_of(j, LKI_OP_ADD) != NULL ? 2 : 0;
    needs->packed_bytes = j->part[0]->needs.packed_bytes;
    needs->sums_bytes = j->part[0]->needs.sums_bytes;
    needs->replica_bytes = j->part[1]->needs.replica_bytes;
    needs->saved_bytes = (size_t)lks_shape_elements(&plan->cluster.node[0]->out.shape) *
                         sizeof(float);
    return LKS_OK;
}

static void prepare_norm(lki_plan *plan, const float *const param[], void *packed, int part,
                         int parts)
{
    lki_plan_pack(of(plan)->part[0], param, packed, part, parts);
}

/* As the contract promises. */
static lks_status check_alignment(const lki_args *args)
{
    const void *const promised[] = {args->packed, args->replica, args->sums, args->workspace};
    for (size_t i = 0; i < sizeof promised / sizeof *promised; i++)
        if ((uintptr_t)promised[i] % LKI_ALIGN != 0)
            return LKI_FAIL(LKS_E_STATE, "pointer %zu of a call is not aligned", i);
    return LKS_OK;
}

static lks_status forward_norm(const lki_plan *plan, const lki_args *args)
{
    const joined *j = of(plan);
    LKI_TRY(check_alignment(args));
    lki_args conv = part_args(j, j->part[0], args), norm = part_args(j, j->part[1], args);
    conv.in[0] = args->in[0];
    conv.out = args->saved;
    norm.in[0] = args->saved;
    LKI_TRY(j->part[0]->kernel->forward(j->part[0], &conv));
    return j->part[1]->kernel->forward(j->part[1], &norm);
}

static lks_status finish_norm(const lki_plan *plan, const lki_args *args)
{
    const joined *j = of(plan);
    lki_args norm = part_args(j, j->part[1], args);
    norm.in[0] = args->saved;
    return j->part[1]->kernel->finish(j->part[1], &norm);
}

static lks_status apply_norm(const lki_plan *plan, const lki_args *args)
{
    const joined *j = of(plan);
    const lki_plan *add = part_of(j, LKI_OP_ADD), *relu = part_of(j, LKI_OP_RELU);
    lki_args norm = part_args(j, j->part[1], args);
    norm.in[0] = args->saved;
    norm.out = add != NULL || relu != NULL ? buffer(j, args, 0) : args->out;
    LKI_TRY(j->part[1]->kernel->apply(j->part[1], &norm));
    const void *x = norm.out;
    if (add != NULL) {
        lki_args own = part_args(j, add, args);
        own.in[side_of(add)] = args->in[1];
        own.in[1 - side_of(add)] = x;
        x = own.out = relu != NULL ? buffer(j, args, 1) : args->out;
        LKI_TRY(add->kernel->forward(add, &own));
    }
    if (relu == NULL) return LKS_OK;
    lki_args own = part_args(j, relu, args);
    own.in[0] = x;
    own.out = args->out;
    return relu->kernel->forward(relu, &own);
}

/* The gradient of batch norm's output; with `side` also that of what is added. */
static lks_status gradient_behind(const joined *j, const lki_args *args, bool side,
                                  const float **out)
{
    const lki_plan *add = part_of(j, LKI_OP_ADD), *relu = part_of(j, LKI_OP_RELU);
    *out = args->d_out;
    if (relu != NULL) {
        lki_args own = part_args(j, relu, args);
        own.out = args->out;
        own.d_out = *out;
        *out = own.d_in[0] = buffer(j, args, 0);
        LKI_TRY(relu->kernel->backward(relu, &own));
    }
    if (add == NULL) return LKS_OK;
    lki_args own = part_args(j, add, args);
    own.d_out = *out;
    *out = own.d_in[1 - side_of(add)] = buffer(j, args, 1);
    if (side) own.d_in[side_of(add)] = args->d_in[1];
    own.add_in = (args->add_in >> 1 & 1u) << side_of(add);
    return add->kernel->backward(add, &own);
}

static lks_status gather_norm(const lki_plan *plan, const lki_args *args)
{
    const joined *j = of(plan);
    lki_args norm = part_args(j, j->part[1], args);
    LKI_TRY(gradient_behind(j, args, true, &norm.d_out));
    norm.in[0] = args->saved;
    return j->part[1]->kernel->gather(j->part[1], &norm);
}

static lks_status finish_backward_norm(const lki_plan *plan, const lki_args *args)
{
    const joined *j = of(plan);
    lki_args norm = part_args(j, j->part[1], args);
    norm.in[0] = args->saved;
    return j->part[1]->kernel->finish_backward(j->part[1], &norm);
}

static lks_status backward_norm(const lki_plan *plan, const lki_args *args)
{
    const joined *j = of(plan);
    LKI_TRY(check_alignment(args));
    lki_args conv = part_args(j, j->part[0], args), norm = part_args(j, j->part[1], args);
    LKI_TRY(gradient_behind(j, args, false, &norm.d_out));
    norm.in[0] = args->saved;
    conv.d_out = norm.d_in[0] = buffer(j, args, 2);
    LKI_TRY(j->part[1]->kernel->backward(j->part[1], &norm));
    conv.in[0] = args->in[0];
    conv.d_in[0] = args->d_in[0];
    conv.add_in = args->add_in & 1u;
    return j->part[0]->kernel->backward(j->part[0], &conv);
}

static const lki_kernel norm_kernel = {
    .plan_bytes = sizeof(joined),
    .span = LKI_SPAN_SLICE,
    .plan = plan_norm,
    .release = release_parts,
    .prepare = prepare_norm,
    .forward = forward_norm,
    .finish = finish_norm,
    .apply = apply_norm,
    .gather = gather_norm,
    .finish_backward = finish_backward_norm,
    .backward = backward_norm,
};

/* ---------------------------------------------------------------- sum */

static const char *refuses_sum(const lki_cluster *cluster, const lki_switches *switches)
{
    if (switches->bf16) return "train.dtype: bf16";
    return cluster->in[0] != cluster->in[1] ? "two inputs" : NULL; /* rows have one */
}

static lks_status plan_sum(lki_plan *plan)
{
    LKI_TRY(plan_parts(plan));
    plan->needs.reads = LKI_READS_IN;
    return LKS_OK;
}

static lks_status forward_sum(const lki_plan *plan, const lki_args *args)
{
    const joined *j = of(plan);
    lki_args sum = part_args(j, j->part[2], args);
    for (int n = 0; n < 2; n++) {
        lki_args dense = part_args(j, j->part[n], args);
        dense.in[0] = args->in[n];
        sum.in[n] = dense.out = buffer(j, args, n);
        LKI_TRY(j->part[n]->kernel->forward(j->part[n], &dense));
    }
    sum.out = args->out;
    return j->part[2]->kernel->forward(j->part[2], &sum);
}

/* The later node's gradient is formed first, as its own kernel would. */
static lks_status backward_sum(const lki_plan *plan, const lki_args *args)
{
    const joined *j = of(plan);
    for (int n = 1; n >= 0; n--) {
        lki_args dense = part_args(j, j->part[n], args);
        dense.in[0] = args->in[n];
        dense.d_out = args->d_out;
        dense.d_in[0] = args->d_in[n];
        dense.add_in = args->add_in >> n & 1u;
        LKI_TRY(j->part[n]->kernel->backward(j->part[n], &dense));
    }
    return LKS_OK;
}

typedef struct shifted {
    const lki_rows *rows;
    int by; /* slots */
} shifted;

static void rows_sum(void *user, lki_tree_node node, int slot, int64_t first, int64_t count,
                     const float *sums)
{
    const shifted *to = user;
    to->rows->sum(to->rows->user, node, slot + to->by, first, count, sums);
}

static void rows_of_sum(const lki_plan *plan, const lki_rows *rows)
{
    const joined *j = of(plan);
    for (int n = 0; n < 2; n++) {
        shifted to = {.rows = rows, .by = n * plan->cluster.node[0]->param_count};
        lki_rows own = *rows;
        own.workspace = (char *)rows->workspace + BUFFERS * j->buffer;
        own.sum = rows_sum;
        own.user = &to;
        j->part[n]->kernel->rows(j->part[n], &own);
    }
}

static const lki_kernel sum_kernel = {
    .plan_bytes = sizeof(joined),
    .span = LKI_SPAN_JOINT,
    .plan = plan_sum,
    .release = release_parts,
    .forward = forward_sum,
    .backward = backward_sum,
    .rows = rows_of_sum,
};

/* ---------------------------------------------------------------- the backend */

static const lki_impl joining[] = {
    {.name = "norm",
     .pattern = {{.ops = LKI_OPS(CONV2D)},
                 {.ops = LKI_OPS(BATCH_NORM), .from = {1}},
                 {.ops = LKI_OPS(ADD), .from = {1}, .optional = true},
                 {.ops = LKI_OPS(RELU), .from = {1}, .optional = true}},
     .count = 4,
     .refuses = refuses_norm,
     .kernel = &norm_kernel},
    {.name = "sum",
     .pattern = {{.ops = LKI_OPS(DENSE)},
                 {.ops = LKI_OPS(DENSE)},
                 {.ops = LKI_OPS(ADD), .from = {2, 1}}},
     .count = 3,
     .refuses = refuses_sum,
     .kernel = &sum_kernel},
};

const lki_backend *lkt_joined(void)
{
    enum { JOINING = sizeof joining / sizeof *joining };
    static const lki_impl *impls[JOINING + LKI_OP_COUNT + 1];
    static lki_backend backend;
    const lki_backend *ref = lki_backend_find("ref");
    backend = *ref;
    backend.name = "joined";
    backend.impl = impls;
    for (int i = 0; i < JOINING; i++) impls[i] = &joining[i];
    for (int i = 0; ref->impl[i] != NULL; i++) impls[JOINING + i] = ref->impl[i];
    lki_backend_lend(&backend);
    return &backend;
}

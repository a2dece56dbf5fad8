/*
 * conv2d + batch_norm [+ add] [+ activation] as one kernel in two halves. What lies between them are sums over
 * the replica's share, which is why there are two; all else is done while it is in the cache:
 *
 *     forward          x --> conv2d --> y (saved), and the moments of its columns, strip by strip
 *     finish           moments --> mean, 1 / deviation, statistics
 *     apply            y --> batch norm --> + side --> activation --> out
 *
 *     gather           d_out, y --> d, the gradient in front of the activation --> d_side
 *                      d, y --> sums of d and of d (y - mean)
 *     finish_backward  gradients of batch norm's parameters
 *     backward         d_side, or d again, and y --> d_y, a piece in the workspace --> gradients of conv2d
 *
 * Forward y is written once and read once. Backward reads two tensors in gather and two in backward, and
 * writes nothing but gradients of inputs: d is what gather gave to the side; without a side relu's
 * sign follows from y. (Behind a sum whose gradient is added to another it is read from out.) What
 * the single operations would write for each other stays in registers: the norm's output, the sum, their
 * gradients, batch norm's d_in. Where only its own segment reads out, apply runs once more in front of what does in
 * backward (lki_segment.renews).
 *
 * Every bit is that of the single operations: a value is rounded and flushed wherever one of them would
 * have stored it, and sums ascend over the replica's samples. Moments are those about each channel's first value,
 * so that they need no look at y for its mean, and one at its first row behind them.
 *
 * Where the activation's derivative is a function of what it reads, that is formed again from y.
 *
 * first_norm is the same behind a normalize of bytes, which the convolution reads as in first.c. norm_activation, and
 * batch_norm alone, are the same without a convolution: y is in[0], and d_y is its gradient.
 */
#include "backend/cpu/norm.h"
#include "base/memory.h"
#include "core/graph.h"

enum { STRIP_FLOATS = 2048 }; /* of out that an activation (not relu) takes at a time */

typedef struct conv_norm_plan {
    lki_cpu_plan cpu;
    lki_conv_shape shape;
    const lki_vector_conv *kernels; /* NULL: there is no convolution */
    float (*table)[256];            /* of normalize; NULL: there is none */
    lki_norm norm;
    int64_t pixels;                        /* of a sample */
    bool side;                             /* there is an add, of in[1] */
    bool relu;                             /* the activation is relu, */
    float most;                            /* or relu6, and this is 6; else 0 */
    const lki_vector_activation *function; /* or this; NULL: none of them */
    float constant;                        /* its */
    bool reads_out;                        /* its derivative is a function of out */
    int slot;                              /* of batch norm's weight; its bias is the next */
    int64_t strip;                         /* rows of out that it takes at a time */
    size_t d_y, strip_d, strip_z;          /* in the workspace */
} conv_norm_plan;

static const conv_norm_plan *conv_norm(const lki_plan *plan)
{
    return (const conv_norm_plan *)(const void *)plan;
}

/* Whether the derivative of what the cluster ends with is a function of what that reads, not of out. */
static bool derives_from_in(const lki_node *tail)
{
    float constant;
    if (tail->op == LKI_OP_BATCH_NORM || tail->op == LKI_OP_ADD || tail->op == LKI_OP_RELU)
        return false;
    return !lki_cpu_activation_reads_out(lki_cpu_activation_of(tail, &constant));
}

static const lki_node *convolution_of(const lki_cluster *cluster)
{
    return cluster->node[lki_cluster_head(cluster)->op == LKI_OP_NORMALIZE ? 1 : 0];
}

static const char *cpu_conv_norm_refuses(const lki_cluster *cluster, const lki_switches *switches)
{
    (void)switches;
    const lki_node *tail = lki_cluster_tail(cluster);
    if (cluster->in_count == 1) return NULL;
    if (!lki_shape_equal(&cluster->in[1]->shape, &tail->out.shape))
        return "adds a value for each channel";
    return derives_from_in(tail) ? "backward would read what is added" : NULL;
}

/* Behind a convolution its products outweigh a slope that is formed in gather and in backward; alone gelu by itself is
 * faster. */
static const char *cpu_norm_activation_refuses(const lki_cluster *cluster,
                                               const lki_switches *switches)
{
    if (lki_cluster_head(cluster)->in[0]->node->op == LKI_OP_CONV2D) return "behind a convolution";
    if (derives_from_in(lki_cluster_tail(cluster))) return "backward would form the slope twice";
    return cpu_conv_norm_refuses(cluster, switches);
}

/* What normalize writes is kept in bfloat16 where activations are, and bytes are not. */
static const char *cpu_first_norm_refuses(const lki_cluster *cluster, const lki_switches *switches)
{
    const char *why = lki_cpu_first_reads_no_bytes(cluster, switches);
    if (why == NULL && switches->bf16_storage) why = "train.dtype: bf16_storage";
    return why != NULL ? why : cpu_conv_norm_refuses(cluster, switches);
}

static size_t cpu_conv_norm_book(size_t *total, int64_t floats)
{
    const size_t at = *total;
    *total = lki_plus(at, lki_align(lki_times((size_t)floats, sizeof(float))));
    return at;
}

/* All but the convolution. */
static void cpu_conv_norm_plan(conv_norm_plan *p)
{
    lki_plan *plan = &p->cpu.plan;
    const lki_cluster *cluster = &plan->cluster;
    const lki_node *tail = lki_cluster_tail(cluster);
    p->norm = lki_norm_of(cluster->counted, p->cpu.vector);
    p->pixels = p->cpu.out / p->norm.channels;
    p->side = cluster->in_count > 1;
    p->relu = tail->op == LKI_OP_RELU || tail->op == LKI_OP_RELU6;
    p->most = tail->op == LKI_OP_RELU6 ? 6 : 0;
    plan->needs.reads = LKI_READS_IN | (p->relu && p->side ? LKI_READS_OUT : 0);
    if (!p->relu && tail->op != LKI_OP_BATCH_NORM && tail->op != LKI_OP_ADD) {
        const lki_activation id = lki_cpu_activation_of(tail, &p->constant);
        p->function = &p->cpu.vector->activation[id];
        p->reads_out = lki_cpu_activation_reads_out(id);
        plan->needs.reads |= p->reads_out ? LKI_READS_OUT : 0;
        p->strip = p->norm.channels < STRIP_FLOATS ? STRIP_FLOATS / p->norm.channels : 1;
    }
    plan->needs.side_in = p->side ? 2 : 0;
    plan->needs.apply_in = plan->needs.side_in | 1;
    plan->needs.replica_bytes = lki_norm_bytes(&p->norm);
    size_t *total = &plan->needs.workspace_bytes;
    p->strip_d = cpu_conv_norm_book(total, p->strip * p->norm.channels);
    p->strip_z = cpu_conv_norm_book(total, p->strip * p->norm.channels);
}

static lks_status plan_batch_norm(lki_plan *plan)
{
    LKI_TRY(lki_cpu_plan_start(plan));
    cpu_conv_norm_plan((conv_norm_plan *)(void *)plan);
    return LKS_OK;
}

static lks_status plan_conv_norm(lki_plan *plan)
{
    conv_norm_plan *p = (conv_norm_plan *)(void *)plan;
    const lki_node *head = lki_cluster_head(&plan->cluster), *conv = convolution_of(&plan->cluster);
    LKI_TRY(lki_cpu_plan_start(plan));
    p->kernels = lki_conv_choose(plan, conv, &p->shape);
    if (conv != head)
        LKI_TRY(lki_normalize_table(plan->context, head, p->shape.channels, &p->table));
    p->shape.table = (const float(*)[256])p->table;
    p->slot = conv->param_count;
    size_t *total = &plan->needs.workspace_bytes;
    *total = lki_align(p->kernels->workspace_bytes(&p->shape, plan->slice));
    p->d_y = cpu_conv_norm_book(total, plan->slice * p->cpu.out);
    cpu_conv_norm_plan(p);
    plan->needs.packed_bytes = p->kernels->packed_bytes(&p->shape);
    plan->needs.sums_bytes = p->kernels->sums_bytes(&p->shape);
    plan->needs.apply_in = plan->needs.side_in; /* y is not in[0] */
    plan->needs.late_in = 1;
    plan->needs.saved_bytes = sizeof(float) * (size_t)p->cpu.out;
    plan->needs.saved_floats = true;
    return LKS_OK;
}

static void release_conv_norm(lki_plan *plan)
{
    const conv_norm_plan *p = conv_norm(plan);
    if (p->table != NULL)
        lki_free(plan->context, p->table, (size_t)p->shape.channels * sizeof *p->table);
}

static void cpu_conv_norm_prepare(lki_plan *plan, const float *const param[], void *packed,
                                  int part, int parts)
{
    const conv_norm_plan *p = conv_norm(plan);
    p->kernels->pack(&p->shape, param[0], packed, part, parts);
}

static const float *cpu_conv_norm_y(const conv_norm_plan *p, const lki_args *args)
{
    return p->kernels != NULL ? args->saved : args->in[0];
}

static float *cpu_conv_norm_floats(const lki_args *args, size_t offset)
{
    return (float *)(void *)((char *)args->workspace + offset);
}

static lks_status cpu_conv_norm_forward(const lki_plan *plan, const lki_args *args)
{
    const conv_norm_plan *p = conv_norm(plan);
    const lki_norm_kept kept = lki_norm_kept_at(&p->norm, args->replica);
    const float *bias = p->shape.bias ? args->param[1] : NULL;
    if (!args->training) {
        if (p->kernels == NULL) return LKS_OK;
        if (args->part > 0 && lki_conv_is_depthwise(&p->shape))
            return LKS_OK; /* the first has all */
        const lki_conv_shape shape = lki_conv_part(&p->shape, args);
        p->kernels->forward(&shape, args->count, args->in[0], lki_conv_weight_of(args), bias, false,
                            args->saved, args->workspace);
        return LKS_OK;
    }
    const float *y = cpu_conv_norm_y(p, args);
    const lki_norm_moments moments = lki_norm_moments_of(&p->norm, args->replica,
                                                         y - args->sample * p->cpu.out);
    if (args->sample == 0) lki_norm_clear(&p->norm, &kept);
    if (p->kernels == NULL)
        p->norm.vector->moments(args->count * p->pixels, p->norm.channels, p->norm.channels, y,
                                &moments);
    else
        p->kernels->forward_moments(&p->shape, args->count, args->in[0], lki_conv_weight_of(args),
                                    bias, args->saved, &moments, args->workspace);
    return LKS_OK;
}

static lks_status cpu_conv_norm_give(const lki_plan *plan, const lki_args *args)
{
    const conv_norm_plan *p = conv_norm(plan);
    lki_norm_give(&p->norm, args, args->count * p->pixels, cpu_conv_norm_y(p, args));
    return LKS_OK;
}

static lks_status cpu_conv_norm_finish(const lki_plan *plan, const lki_args *args)
{
    const conv_norm_plan *p = conv_norm(plan);
    lki_norm_finish(&p->norm, args, args->count * p->pixels, cpu_conv_norm_y(p, args), p->slot);
    return LKS_OK;
}

/* What the activation reads of rows [row, row + rows), into `to`; or what relu gives. */
static void cpu_conv_norm_reads(const conv_norm_plan *p, const lki_args *args, int64_t row,
                                int64_t rows, float *to)
{
    const lki_norm_kept kept = lki_norm_kept_at(&p->norm, args->replica);
    const int64_t at = row * p->norm.channels;
    p->norm.vector->apply(
        rows, p->norm.channels,
        &(lki_norm_apply){.x = cpu_conv_norm_y(p, args) + at,
                          .mean = kept.mean,
                          .scale = kept.scale,
                          .shift = args->param[p->slot + 1],
                          .side = p->side ? (const float *)args->in[1] + at : NULL,
                          .relu = p->relu,
                          .most = p->most,
                          .out = to});
}

static lks_status cpu_conv_norm_apply(const lki_plan *plan, const lki_args *args)
{
    const conv_norm_plan *p = conv_norm(plan);
    const int64_t channels = p->norm.channels;
    float *out = args->out;
    int64_t row, end;
    lki_part_of(args->part, args->parts, args->count * p->pixels, &row, &end);
    if (p->function == NULL) {
        cpu_conv_norm_reads(p, args, row, end - row, out + row * channels);
        return LKS_OK;
    }
    for (; row < end; row += p->strip) {
        const int64_t n = end - row < p->strip ? end - row : p->strip, at = row * channels;
        cpu_conv_norm_reads(p, args, row, n, out + at);
        p->function->forward(n * channels, p->constant, out + at, out + at);
    }
    return LKS_OK;
}

/* The gradient in front of the activation, of rows [row, row + rows), in the workspace. */
static const float *cpu_conv_norm_slope(const conv_norm_plan *p, const lki_args *args, int64_t row,
                                        int64_t rows)
{
    const int64_t at = row * p->norm.channels;
    float *d = cpu_conv_norm_floats(args, p->strip_d), *z = cpu_conv_norm_floats(args, p->strip_z);
    if (!p->reads_out) cpu_conv_norm_reads(p, args, row, rows, z);
    p->function->backward(rows * p->norm.channels, p->constant,
                          p->reads_out ? (const float *)args->out + at : z, args->d_out + at, d,
                          false);
    return d;
}

static lks_status cpu_conv_norm_gather(const lki_plan *plan, const lki_args *args)
{
    const conv_norm_plan *p = conv_norm(plan);
    const lki_norm_kept kept = lki_norm_kept_at(&p->norm, args->replica);
    const int64_t rows = args->count * p->pixels, channels = p->norm.channels;
    const int64_t most = p->function != NULL ? p->strip : rows;
    if (args->sample == 0) lki_norm_clear(&p->norm, &kept);
    for (int64_t row = 0, n; row < rows; row += n) {
        const int64_t at = row * channels;
        n = rows - row < most ? rows - row : most;
        lki_norm_products products = {.x = cpu_conv_norm_y(p, args) + at,
                                      .mean = kept.mean,
                                      .d_out = args->d_out + at,
                                      .scale = kept.scale,
                                      .sum_d = kept.sum[0],
                                      .sum_dx = kept.sum[1],
                                      .most = p->most,
                                      .add = args->add_in >> 1 & 1};
        if (p->function != NULL)
            products.d_out = cpu_conv_norm_slope(p, args, row, n);
        else if (p->relu && p->side)
            products.out = (const float *)args->out + at;
        else if (p->relu)
            products.shift = args->param[p->slot + 1];
        if (p->side && args->d_in[1] != NULL) products.d_side = args->d_in[1] + at;
        p->norm.vector->products(n, channels, &products);
    }
    return LKS_OK;
}

static lks_status cpu_conv_norm_give_backward(const lki_plan *plan, const lki_args *args)
{
    const conv_norm_plan *p = conv_norm(plan);
    lki_norm_give_backward(&p->norm, args, args->count * p->pixels);
    return LKS_OK;
}

static lks_status cpu_conv_norm_finish_backward(const lki_plan *plan, const lki_args *args)
{
    const conv_norm_plan *p = conv_norm(plan);
    lki_norm_finish_backward(&p->norm, args, args->count * p->pixels, p->slot);
    return LKS_OK;
}

static void cpu_conv_norm_d_y(const conv_norm_plan *p, const lki_args *args, float *d_y, bool add)
{
    const lki_norm_kept kept = lki_norm_kept_at(&p->norm, args->replica);
    const int64_t rows = args->count * p->pixels, channels = p->norm.channels;
    /* What gather has written is d, where it has not added it to something. */
    const bool gathered = p->side && args->d_in[1] != NULL && !(args->add_in >> 1 & 1);
    const int64_t most = p->function != NULL && !gathered ? p->strip : rows;
    for (int64_t row = 0, n; row < rows; row += n) {
        const int64_t at = row * channels;
        n = rows - row < most ? rows - row : most;
        lki_norm_backward backward = {.x = cpu_conv_norm_y(p, args) + at,
                                      .d_out = args->d_out + at,
                                      .mean = kept.mean,
                                      .scale = kept.scale,
                                      .level = kept.level,
                                      .slope = kept.slope,
                                      .most = p->most,
                                      .d_in = d_y + at};
        if (gathered)
            backward.d_out = args->d_in[1] + at;
        else if (p->function != NULL)
            backward.d_out = cpu_conv_norm_slope(p, args, row, n);
        else if (p->relu && p->side)
            backward.out = (const float *)args->out + at;
        else if (p->relu)
            backward.shift = args->param[p->slot + 1];
        p->norm.vector->backward(n, channels, &backward, add);
    }
}

static lks_status cpu_conv_norm_backward(const lki_plan *plan, const lki_args *args)
{
    const conv_norm_plan *p = conv_norm(plan);
    float *d_y = cpu_conv_norm_floats(args, p->d_y);
    if (args->d_in[0] == NULL && args->d_param[0] == NULL) return LKS_OK; /* a frozen convolution */
    cpu_conv_norm_d_y(p, args, d_y, false);
    lki_conv_backward(p->kernels, &p->shape, args, d_y, NULL);
    return LKS_OK;
}

static lks_status cpu_batch_norm_backward(const lki_plan *plan, const lki_args *args)
{
    if (args->d_in[0] != NULL)
        cpu_conv_norm_d_y(conv_norm(plan), args, args->d_in[0], args->add_in & 1);
    return LKS_OK;
}

#define KERNEL(spans, plans, releases, prepares, backwards)                                        \
    {                                                                                              \
        .plan_bytes = sizeof(conv_norm_plan), .span = spans, .parted = true, .plan = plans,        \
        .release = releases, .prepare = prepares, .forward = cpu_conv_norm_forward,                \
        .finish = cpu_conv_norm_finish, .apply = cpu_conv_norm_apply,                              \
        .gather = cpu_conv_norm_gather, .finish_backward = cpu_conv_norm_finish_backward,          \
        .give = cpu_conv_norm_give, .give_backward = cpu_conv_norm_give_backward,                  \
        .backward = backwards,                                                                     \
    }

static const lki_kernel conv_norm_kernel = KERNEL(LKI_SPAN_SLICE, plan_conv_norm, release_conv_norm,
                                                  cpu_conv_norm_prepare, cpu_conv_norm_backward);
const lki_kernel lki_cpu_batch_norm = KERNEL(LKI_SPAN_EITHER, plan_batch_norm, NULL, NULL,
                                             cpu_batch_norm_backward);

const lki_impl lki_cpu_conv_norm_impl = {
    .name = "conv_norm",
    .pattern = {{.ops = LKI_OPS(CONV2D)},
                {.ops = LKI_OPS(BATCH_NORM), .from = {1}},
                {.ops = LKI_OPS(ADD), .from = {1}, .optional = true},
                {.ops = LKI_CPU_ACTIVATIONS, .from = {1}, .optional = true}},
    .count = 4,
    .refuses = cpu_conv_norm_refuses,
    .kernel = &conv_norm_kernel,
};

const lki_impl lki_cpu_first_norm_impl = {
    .name = "first_norm",
    .pattern = {{.ops = LKI_OPS(NORMALIZE)},
                {.ops = LKI_OPS(CONV2D), .from = {1}},
                {.ops = LKI_OPS(BATCH_NORM), .from = {1}},
                {.ops = LKI_OPS(ADD), .from = {1}, .optional = true},
                {.ops = LKI_CPU_ACTIVATIONS, .from = {1}, .optional = true}},
    .count = 5,
    .refuses = cpu_first_norm_refuses,
    .kernel = &conv_norm_kernel,
};

const lki_impl lki_cpu_norm_activation_impl = {
    .name = "norm_activation",
    .pattern = {{.ops = LKI_OPS(BATCH_NORM)},
                {.ops = LKI_OPS(ADD), .from = {1}, .optional = true},
                {.ops = LKI_CPU_ACTIVATIONS, .from = {1}}},
    .count = 3,
    .refuses = cpu_norm_activation_refuses,
    .kernel = &lki_cpu_batch_norm,
};

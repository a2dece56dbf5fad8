/*
 * batch_norm: y = (x - mean[c]) / sqrt(variance[c] + epsilon) * weight[c] + bias[c], over channels c
 * (the last dimension). In training mean and biased variance are those of the replica's samples and
 * pixels (S. Ioffe, C. Szegedy: "Batch normalization", ICML 2015); else the running ones.
 *
 * What a replica with m = samples * pixels gives to the running statistics (lki_node.stats):
 *
 *     [ m | w | m*mean[0] .. m*mean[C-1] | w*variance[0] .. w*variance[C-1] ]   (2 + 2C doubles)
 *
 * with the unbiased variance, and w = m, or 0 where m = 1: one value says nothing about a variance,
 * so such a replica has no weight in it, and its output is bias.
 *
 * With sync they are those of the whole batch, as is the gradient. What a replica gives in forward is
 *
 *     [ m | mean[0] .. mean[C-1] | M2[0] .. M2[C-1] ]   (1 + 2C doubles; M2: sum of (x - mean)^2)
 *
 * and two are merged by the formula of T. F. Chan, G. H. Golub and R. J. LeVeque ("Algorithms for computing
 * the sample variance", 1983). In backward it is m and two sums for each channel, from which the gradient of
 * x follows: of dy, and of dy times the distance from the mean, in a unit of the kernel's own; two are added.
 */
#include "op/common.h"

#include "core/backend.h"

/* What replicas give: to the running statistics behind the step, or where they meet. */
static void batch_norm_choose(lki_node *node)
{
    const lks_batch_norm_opts *opts = node->attr;
    const int64_t channels = node->out.shape.dim[node->out.shape.ndim - 1];

    node->stats = opts->sync ? 0 : 2 + 2 * channels;
    node->meets = opts->sync ? 1 + 2 * channels : 0;
}

static lks_status batch_norm_infer(lki_node *node)
{
    const lks_shape *in = &node->in[0]->shape;
    const lks_shape channels = LKS_SHAPE(in->dim[in->ndim - 1]);

    node->out.shape = *in;
    lki_add_affine(node, &channels);
    node->buffer[0] = (lki_buffer){"running_mean", LKS_F32, channels, 0.0f};
    node->buffer[1] = (lki_buffer){"running_var", LKS_F32, channels, 1.0f};
    node->buffer[2] = (lki_buffer){"num_batches_tracked", LKS_I64, {0}, 0.0f};
    node->buffer_count = 3;
    batch_norm_choose(node);
    return LKS_OK;
}

static void batch_norm_approach(float *running, double momentum, double value)
{
    *running = lki_round((1.0 - momentum) * (double)*running + momentum * value);
}

/* Of what replicas gave where they met, as of what a single one with all samples gives behind the step. */
static void update_met(const lki_node *node, const double *met, void *const buffer[])
{
    const lks_batch_norm_opts *opts = node->attr;
    const int64_t channels = node->param[0].shape.dim[0];
    const double momentum = (double)opts->momentum, m = met[0];
    const double *mean = met + 1, *squares = mean + channels;
    float *running_mean = buffer[0], *running_var = buffer[1];

    for (int64_t c = 0; c < channels; c++) {
        if (m > 0.0) batch_norm_approach(&running_mean[c], momentum, m * mean[c] / m);
        if (m > 1.0)
            batch_norm_approach(&running_var[c], momentum, m * (squares[c] / (m - 1.0)) / m);
    }
}

static void update_buffers(const lki_node *node, const double *sums, void *const buffer[])
{
    const lks_batch_norm_opts *opts = node->attr;
    const int64_t channels = node->param[0].shape.dim[0];
    const double momentum = (double)opts->momentum;
    const double *mean = sums + 2, *variance = mean + channels;
    float *running_mean = buffer[0], *running_var = buffer[1];
    int64_t *batches = buffer[2];

    if (opts->sync) update_met(node, sums, buffer);
    for (int64_t c = 0; c < channels && !opts->sync; c++) {
        if (sums[0] > 0.0) batch_norm_approach(&running_mean[c], momentum, mean[c] / sums[0]);
        if (sums[1] > 0.0) batch_norm_approach(&running_var[c], momentum, variance[c] / sums[1]);
    }
    ++*batches;
}

static void batch_norm_merge(const lki_node *node, double *left, const double *right)
{
    const int64_t channels = node->param[0].shape.dim[0];
    const double m = left[0] + right[0], share = right[0] / m, moved = left[0] * share;
    double *mean = left + 1, *squares = mean + channels;
    const double *other_mean = right + 1, *other_squares = other_mean + channels;

    for (int64_t c = 0; c < channels; c++) {
        const double distance = other_mean[c] - mean[c];

        mean[c] += distance * share;
        squares[c] = squares[c] + other_squares[c] + distance * distance * moved;
    }
    left[0] = m;
}

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(FLOAT, lks_batch_norm_opts, momentum, .range = "(0,1]", .fallback = "0.1"),
    LKI_ATTRIBUTE(FLOAT, lks_batch_norm_opts, epsilon, .range = "(0,)", .fallback = "1e-5"),
    LKI_ATTRIBUTE(BOOL, lks_batch_norm_opts, sync, .fallback = "false",
                  .help = "over the samples of all replicas: the whole batch"),
};

const lki_op lki_op_batch_norm = {
    .name = "batch_norm",
    .what = "normalisation per channel over a replica's samples, times weight plus bias",
    .inputs = 1,
    .takes = LKI_TAKES_PIXELS,
    .attr_size = sizeof(lks_batch_norm_opts),
    .attributes = LKI_ATTRIBUTES(attributes),
    .per_replica = true,
    .infer = batch_norm_infer,
    .update_buffers = update_buffers,
    .merge = batch_norm_merge,
};

lks_tensor *lks_batch_norm(lks_graph *graph, lks_tensor *x, const lks_batch_norm_opts *opts)
{
    return lki_graph_add(graph, LKI_OP_BATCH_NORM, opts, &x, 1);
}

lks_status lks_graph_sync_batch_norm(lks_graph *graph, int *count)
{
    LKI_TRY(lks_graph_status(graph));
    if (count != NULL) *count = 0;
    for (lki_node *node = graph->first; node != NULL; node = node->next) {
        if (node->op != LKI_OP_BATCH_NORM) continue;
        ((lks_batch_norm_opts *)node->attr)->sync = true;
        batch_norm_choose(node);
        if (count != NULL) ++*count;
    }
    return LKS_OK;
}

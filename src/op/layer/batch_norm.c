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
 */
#include "op/common.h"

#include "core/backend.h"

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
    node->stats = 2 + 2 * channels.dim[0];
    return LKS_OK;
}

static void batch_norm_approach(float *running, double momentum, double value)
{
    *running = lki_round((1.0 - momentum) * (double)*running + momentum * value);
}

static void update_buffers(const lki_node *node, const double *sums, void *const buffer[])
{
    const lks_batch_norm_opts *opts = node->attr;
    const int64_t channels = node->param[0].shape.dim[0];
    const double momentum = (double)opts->momentum;
    const double *mean = sums + 2, *variance = mean + channels;
    float *running_mean = buffer[0], *running_var = buffer[1];
    int64_t *batches = buffer[2];

    for (int64_t c = 0; c < channels; c++) {
        if (sums[0] > 0.0) batch_norm_approach(&running_mean[c], momentum, mean[c] / sums[0]);
        if (sums[1] > 0.0) batch_norm_approach(&running_var[c], momentum, variance[c] / sums[1]);
    }
    ++*batches;
}

static const lki_attribute attributes[] = {
    LKI_ATTRIBUTE(FLOAT, lks_batch_norm_opts, momentum, .range = "(0,1]", .fallback = "0.1"),
    LKI_ATTRIBUTE(FLOAT, lks_batch_norm_opts, epsilon, .range = "(0,)", .fallback = "1e-5"),
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
};

lks_tensor *lks_batch_norm(lks_graph *graph, lks_tensor *x, const lks_batch_norm_opts *opts)
{
    return lki_graph_add(graph, LKI_OP_BATCH_NORM, opts, &x, 1);
}

#include "backend/cpu/norm.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"

lki_norm lki_norm_of(const lki_node *node, const lki_vector *vector)
{
    const lks_batch_norm_opts *opts = node->attr;
    const lks_shape *shape = &node->out.shape;
    return (lki_norm){
        .vector = vector->norm, .channels = shape->dim[shape->ndim - 1], .epsilon = opts->epsilon};
}

size_t lki_norm_bytes(const lki_norm *norm)
{
    return lki_align((2 * sizeof(double) + 5 * sizeof(float)) * (size_t)norm->channels);
}

lki_norm_kept lki_norm_kept_at(const lki_norm *norm, void *replica)
{
    const int64_t channels = norm->channels;
    double *sum = replica;
    float *mean = (float *)(void *)(sum + 2 * channels);
    return (lki_norm_kept){.sum = {sum, sum + channels},
                           .mean = mean,
                           .inverse = mean + channels,
                           .scale = mean + 2 * channels,
                           .level = mean + 3 * channels,
                           .slope = mean + 4 * channels};
}

void lki_norm_clear(const lki_norm *norm, const lki_norm_kept *kept)
{
    memset(kept->sum[0], 0, 2 * sizeof(double) * (size_t)norm->channels);
}

lki_norm_moments lki_norm_moments_of(const lki_norm *norm, void *replica, const float *first)
{
    const lki_norm_kept kept = lki_norm_kept_at(norm, replica);
    return (lki_norm_moments){.pivot = first, .sum = kept.sum[0], .square = kept.sum[1]};
}

/* From the moments of rows of x about its first row to their mean and the squares about it, in place. As the first
 * row is one of them, its distance from the mean cannot be so large that the difference of squares is nothing but
 * rounding: they are at most `rows` times what is left. */
static void norm_about_mean(const lki_norm *norm, int64_t rows, const float *x,
                            const lki_norm_kept *kept)
{
    double *mean = kept->sum[0], *square = kept->sum[1];
    for (int64_t c = 0; c < norm->channels; c++) {
        const double sum = mean[c], away = sum / (double)rows;
        mean[c] = (double)x[c] + away;
        square[c] -= sum * away;
    }
}

/* What apply reads, from the moments of so many rows. */
static void norm_use(const lki_norm *norm, double rows, const double *mean, const double *square,
                     const lki_norm_kept *kept)
{
    for (int64_t c = 0; c < norm->channels; c++) {
        kept->mean[c] = (float)mean[c];
        kept->inverse[c] = (float)(1 / sqrt(square[c] / rows + (double)norm->epsilon));
    }
}

static void norm_measure(const lki_norm *norm, int64_t rows, const float *x,
                         const lki_norm_kept *kept, double *stats)
{
    const int64_t channels = norm->channels;
    const double *mean = kept->sum[0], *square = kept->sum[1];
    norm_about_mean(norm, rows, x, kept);
    norm_use(norm, (double)rows, mean, square, kept);
    stats[0] = (double)rows;
    stats[1] = rows > 1 ? (double)rows : 0;
    for (int64_t c = 0; c < channels; c++) {
        stats[2 + c] = stats[0] * mean[c];
        stats[2 + channels + c] = rows > 1 ? stats[1] * (square[c] / (double)(rows - 1)) : 0;
    }
}

void lki_norm_give(const lki_norm *norm, const lki_args *args, int64_t rows, const float *x)
{
    const lki_norm_kept kept = lki_norm_kept_at(norm, args->replica);
    norm_about_mean(norm, rows, x, &kept);
    lki_norm_give_backward(norm, args, rows);
}

void lki_norm_give_backward(const lki_norm *norm, const lki_args *args, int64_t rows)
{
    const lki_norm_kept kept = lki_norm_kept_at(norm, args->replica);
    args->met[0] = (double)rows;
    memcpy(args->met + 1, kept.sum[0], 2 * sizeof(double) * (size_t)norm->channels);
}

void lki_norm_finish(const lki_norm *norm, const lki_args *args, int64_t rows, const float *x,
                     int slot)
{
    const lki_norm_kept kept = lki_norm_kept_at(norm, args->replica);
    if (args->training && args->met != NULL)
        norm_use(norm, args->met[0], args->met + 1, args->met + 1 + norm->channels, &kept);
    else if (args->training)
        norm_measure(norm, rows, x, &kept, args->stats);
    for (int64_t c = 0; c < norm->channels && !args->training; c++) {
        const float *mean = args->buffer[0], *variance = args->buffer[1];
        kept.mean[c] = mean[c];
        kept.inverse[c] = (float)(1 / sqrt((double)variance[c] + (double)norm->epsilon));
    }
    for (int64_t c = 0; c < norm->channels; c++)
        kept.scale[c] = kept.inverse[c] * args->param[slot][c];
}

void lki_norm_finish_backward(const lki_norm *norm, const lki_args *args, int64_t rows, int slot)
{
    const lki_norm_kept kept = lki_norm_kept_at(norm, args->replica);
    const double *sum_d = kept.sum[0], *sum_dx = kept.sum[1];
    const double *all_d = args->met != NULL ? args->met + 1 : sum_d,
                 *all_dx = all_d + norm->channels;
    const double all_rows = args->met != NULL ? args->met[0] : (double)rows;
    float *d_weight = args->d_param[slot], *d_bias = args->d_param[slot + 1];
    for (int64_t c = 0; c < norm->channels; c++) {
        const double inverse = (double)kept.inverse[c];
        if (d_weight != NULL) d_weight[c] = lki_flush((float)(sum_dx[c] * inverse));
        if (d_bias != NULL) d_bias[c] = lki_flush((float)sum_d[c]);
        kept.level[c] = (float)(all_d[c] / all_rows);
        kept.slope[c] = (float)(all_dx[c] * inverse * inverse / all_rows);
    }
}

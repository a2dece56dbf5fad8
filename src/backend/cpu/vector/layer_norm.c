/*
 * Layer norm of one row, and rms norm, which is that about 0. Moments and the two means of backward are sums in double in SUMS lanes:
 * lane j takes elements j, j + SUMS, ..., and the lanes are added pairwise. That order is the same
 * for every instruction set, whatever its vectors.
 */
#include <math.h>

#include "backend/cpu/vector/local.h"

enum { SUMS = 16 };

INLINE double total(double sum[SUMS])
{
    for (int half = SUMS / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++) sum[j] += sum[j + half];
    return sum[0];
}

/* Runs `body` for every element i with its lane j. */
#define FOR_LANES(i, j, count, body)                                                               \
    do {                                                                                           \
        const int64_t whole_ = (count) - (count) % SUMS;                                           \
        for (int64_t i_ = 0; i_ < whole_; i_ += SUMS)                                              \
            for (int j = 0; j < SUMS; j++) {                                                       \
                const int64_t i = i_ + j;                                                          \
                body;                                                                              \
            }                                                                                      \
        for (int j = 0; j < (int)((count)-whole_); j++) {                                          \
            const int64_t i = whole_ + j;                                                          \
            body;                                                                                  \
        }                                                                                          \
    } while (0)

static void vector_layer_norm_measure(int64_t count, const float *restrict x, double epsilon,
                                      float *moments)
{
    double sum[SUMS] = {0}, square[SUMS] = {0};
    FOR_LANES(i, j, count, sum[j] += (double)x[i]);
    const double mean = total(sum) / (double)count;
    FOR_LANES(i, j, count, square[j] += ((double)x[i] - mean) * ((double)x[i] - mean));
    moments[0] = (float)mean;
    moments[1] = (float)(1 / sqrt(total(square) / (double)count + epsilon));
}

static void vector_layer_norm_root(int64_t count, const float *restrict x, double epsilon,
                                   float *moments)
{
    double square[SUMS] = {0};
    FOR_LANES(i, j, count, square[j] += (double)x[i] * (double)x[i]);
    moments[0] = 0;
    moments[1] = (float)(1 / sqrt(total(square) / (double)count + epsilon));
}

static void vector_layer_norm_forward(int64_t count, const float *x, const float *moments,
                                      const float *weight, const float *bias, float *out)
{
    const vf mean = vf_set(moments[0]), inverse = vf_set(moments[1]);
    FOR_VECTORS(i, n, count)
    {
        const vf z = (vf_get(x + i, n) - mean) * inverse;
        vf_put_result(out + i,
                      weight == NULL ? z
                      : bias == NULL ? z * vf_get(weight + i, n)
                                     : vf_fma(z, vf_get(weight + i, n), vf_get(bias + i, n)),
                      n, false);
    }
}

static void vector_layer_norm_backward(int64_t count, const lki_layer_norm_row *row, float *d_in,
                                       bool adds)
{
    const float *restrict x = row->x, *restrict d = row->d_out, *restrict w = row->weight;
    const float mean = row->moments[0], inverse = row->moments[1];
    double sum[SUMS] = {0}, product[SUMS] = {0};
    if (w != NULL)
        FOR_LANES(i, j, count, const double g = (double)(d[i] * w[i]); sum[j] += g;
                  product[j] += g * (double)((x[i] - mean) * inverse));
    else
        FOR_LANES(i, j, count, sum[j] += (double)d[i];
                  product[j] += (double)d[i] * (double)((x[i] - mean) * inverse));
    const vf level = vf_set(row->about_zero ? 0.0f : (float)(total(sum) / (double)count));
    const vf slope = vf_set((float)(total(product) / (double)count));
    FOR_VECTORS(i, n, count)
    {
        const vf z = (vf_get(x + i, n) - vf_set(mean)) * vf_set(inverse);
        const vf g = w != NULL ? vf_get(d + i, n) * vf_get(w + i, n) : vf_get(d + i, n);
        const vf result = (g - level - z * slope) * vf_set(inverse);
        vf_put_result(d_in + i, result, n, adds);
    }
}

static void vector_layer_norm_products(int64_t count, const lki_layer_norm_row *row, double *weight,
                                       double *bias)
{
    const vf mean = vf_set(row->moments[0]), inverse = vf_set(row->moments[1]);
    const int64_t whole = count - count % LANES;
    for (int64_t i = 0; i < whole; i += LANES) {
        const vf z = (vf_load(row->x + i) - mean) * inverse, d = vf_load(row->d_out + i);
        double *w = weight + i, *b = bias + i;
        vd_store(w, vd_load(w) + vf_low(d) * vf_low(z));
        vd_store(w + LANES / 2, vd_load(w + LANES / 2) + vf_high(d) * vf_high(z));
        vd_store(b, vd_load(b) + vf_low(d));
        vd_store(b + LANES / 2, vd_load(b + LANES / 2) + vf_high(d));
    }
    for (int64_t i = whole; i < count; i++) {
        const float z = (row->x[i] - row->moments[0]) * row->moments[1];
        weight[i] += (double)row->d_out[i] * (double)z;
        bias[i] += (double)row->d_out[i];
    }
}

const lki_vector_layer_norm LKI_ISA_NAME(lki_vector_layer_norm) = {
    .measure = vector_layer_norm_measure,
    .root = vector_layer_norm_root,
    .forward = vector_layer_norm_forward,
    .backward = vector_layer_norm_backward,
    .products = vector_layer_norm_products};

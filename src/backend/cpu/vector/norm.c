/* Batch norm over a matrix [rows][columns], columns being channels. Sums are plain loops over columns,
 * which compilers turn into vectors; they ascend, one accumulator in double for each column. */
#include "backend/cpu/vector/local.h"

static void sums(int64_t rows, int64_t columns, const float *restrict x, double *restrict sum)
{
    for (int64_t c = 0; c < columns; c++) sum[c] = 0;
    for (int64_t r = 0; r < rows; r++, x += columns)
        for (int64_t c = 0; c < columns; c++) sum[c] += (double)x[c];
}

static void squares(int64_t rows, int64_t columns, const float *restrict x,
                    const double *restrict mean, double *restrict sum)
{
    for (int64_t c = 0; c < columns; c++) sum[c] = 0;
    for (int64_t r = 0; r < rows; r++, x += columns)
        for (int64_t c = 0; c < columns; c++) {
            const double d = (double)x[c] - mean[c];
            sum[c] += d * d;
        }
}

static void vector_norm_apply(int64_t rows, int64_t columns, const float *x, const float *mean,
                              const float *scale, const float *shift, float *out)
{
    for (int64_t r = 0; r < rows; r++, x += columns, out += columns) {
        FOR_VECTORS(c, n, columns)
        {
            const vf d = vf_get(x + c, n) - vf_get(mean + c, n);
            vf_put_result(out + c, vf_fma(d, vf_get(scale + c, n), vf_get(shift + c, n)), n, false);
        }
    }
}

static void vector_norm_products(int64_t rows, int64_t columns, const float *restrict x,
                                 const float *restrict mean, const float *restrict d,
                                 double *restrict sum_d, double *restrict sum_dx)
{
    for (int64_t c = 0; c < columns; c++) sum_d[c] = sum_dx[c] = 0;
    for (int64_t r = 0; r < rows; r++, x += columns, d += columns)
        for (int64_t c = 0; c < columns; c++) {
            sum_d[c] += (double)d[c];
            sum_dx[c] += (double)d[c] * (double)(x[c] - mean[c]);
        }
}

static void vector_norm_backward(int64_t rows, int64_t columns, const lki_norm_backward *b,
                                 bool add)
{
    const float *x = b->x, *d = b->d_out;
    float *to = b->d_in;
    for (int64_t r = 0; r < rows; r++, x += columns, d += columns, to += columns) {
        FOR_VECTORS(c, n, columns)
        {
            const vf away = vf_get(b->mean + c, n) - vf_get(x + c, n);
            const vf level = vf_get(d + c, n) - vf_get(b->level + c, n);
            const vf g = vf_get(b->scale + c, n) * vf_fma(away, vf_get(b->slope + c, n), level);
            vf_put_result(to + c, g, n, add);
        }
    }
}

const lki_vector_norm LKI_ISA_NAME(lki_vector_norm) = {.sums = sums,
                                                       .squares = squares,
                                                       .apply = vector_norm_apply,
                                                       .products = vector_norm_products,
                                                       .backward = vector_norm_backward};

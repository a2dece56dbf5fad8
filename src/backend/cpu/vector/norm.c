/* Batch norm over a matrix [rows][columns], columns being channels. Plain loops over columns, which
 * compilers turn into vectors; sums over rows ascend, one accumulator in double for each column. */
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

static void apply(int64_t rows, int64_t columns, const float *restrict x,
                  const float *restrict mean, const float *restrict scale,
                  const float *restrict shift, float *restrict out)
{
    for (int64_t r = 0; r < rows; r++, x += columns, out += columns)
        for (int64_t c = 0; c < columns; c++) out[c] = (x[c] - mean[c]) * scale[c] + shift[c];
}

static void products(int64_t rows, int64_t columns, const float *restrict x,
                     const float *restrict mean, const float *restrict d, double *restrict sum_d,
                     double *restrict sum_dx)
{
    for (int64_t c = 0; c < columns; c++) sum_d[c] = sum_dx[c] = 0;
    for (int64_t r = 0; r < rows; r++, x += columns, d += columns)
        for (int64_t c = 0; c < columns; c++) {
            sum_d[c] += (double)d[c];
            sum_dx[c] += (double)d[c] * (double)(x[c] - mean[c]);
        }
}

static void backward(int64_t rows, int64_t columns, const lki_norm_backward *b, bool add)
{
    const float *restrict x = b->x, *restrict d = b->d_out;
    const float *restrict mean = b->mean, *restrict scale = b->scale;
    const float *restrict level = b->level, *restrict slope = b->slope;
    float *restrict to = b->d_in;
    for (int64_t r = 0; r < rows; r++, x += columns, d += columns, to += columns)
        for (int64_t c = 0; c < columns; c++) {
            const float g = scale[c] * (d[c] - level[c] - (x[c] - mean[c]) * slope[c]);
            to[c] = add ? to[c] + g : g;
        }
}

const lki_vector_norm LKI_ISA_NAME(lki_vector_norm) = {
    .sums = sums, .squares = squares, .apply = apply, .products = products, .backward = backward};

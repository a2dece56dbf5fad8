/* Products with a number, of two tensors, and of a matrix [rows][columns] with a vector of a value for
 * each column. Sums over rows ascend, one accumulator in double for each column, rounded once. */
#include "backend/cpu/vector/local.h"

static void vector_product_scale(int64_t count, float factor, const float *in, float *out,
                                 bool adds)
{
    const vf f = vf_set(factor);
    const int64_t whole = count - count % LANES;
    for (int64_t i = 0; i < whole; i += LANES)
        vf_put_result(out + i, vf_load(in + i) * f, LANES, adds);
    if (whole < count)
        vf_put_result(out + whole, vf_get(in + whole, count - whole) * f, count - whole, adds);
}

static void vector_product_multiply(int64_t count, const float *a, const float *b, float *out,
                                    bool adds)
{
    FOR_VECTORS(i, n, count) vf_put_result(out + i, vf_get(a + i, n) * vf_get(b + i, n), n, adds);
}

static void rows_plus(int64_t rows, int64_t columns, const float *in, const float *vector,
                      float *out)
{
    for (int64_t r = 0; r < rows; r++, in += columns, out += columns) {
        FOR_VECTORS(c, n, columns)
        vf_put_result(out + c, vf_get(in + c, n) + vf_get(vector + c, n), n, false);
    }
}

static void rows_times(int64_t rows, int64_t columns, const float *in, const float *vector,
                       float *out, bool adds)
{
    for (int64_t r = 0; r < rows; r++, in += columns, out += columns) {
        FOR_VECTORS(c, n, columns)
        vf_put_result(out + c, vf_get(in + c, n) * vf_get(vector + c, n), n, adds);
    }
}

static void column_sums(int64_t rows, int64_t columns, const float *in, float *out, bool adds)
{
    FOR_VECTORS(c, n, columns)
    {
        vd low = {0}, high = {0};
        for (int64_t at = c; at < rows * columns; at += columns) {
            const vf x = vf_get(in + at, n);
            low += vf_low(x);
            high += vf_high(x);
        }
        vf_put_result(out + c, vf_join(low, high), n, adds);
    }
}

/* Products of two floats are exact in double. */
static void column_products(int64_t rows, int64_t columns, const float *a, const float *b,
                            float *out, bool adds)
{
    FOR_VECTORS(c, n, columns)
    {
        vd low = {0}, high = {0};
        for (int64_t at = c; at < rows * columns; at += columns) {
            const vf x = vf_get(a + at, n), y = vf_get(b + at, n);
            low += vf_low(x) * vf_low(y);
            high += vf_high(x) * vf_high(y);
        }
        vf_put_result(out + c, vf_join(low, high), n, adds);
    }
}

const lki_vector_product LKI_ISA_NAME(lki_vector_product) = {
    .scale = vector_product_scale,
    .product = vector_product_multiply,
    .rows_plus = rows_plus,
    .rows_times = rows_times,
    .column_sums = column_sums,
    .column_products = column_products,
};

/* Elementwise kernels, bound by memory. What is only copied or selected was stored before, and needs no
 * flush (core/backend.h). */
#include <math.h>

#include "backend/cpu/vector/local.h"
#include "backend/cpu/vector/narrow.h"
#include "backend/cpu/vector/transpose.h"

/* Values whose shares are formed together, in two loops, and vectors that take turns in the second: each operation of a
 * vector waits for the one before, and a processor sees only so many operations that wait. */
enum { PIECE = 128, TURN = 4 };

/* A merge in the tree, the only sum whose small results stay (core/backend.h). */
static void vector_element_add(int64_t count, float *left, const float *right)
{
    FOR_VECTORS(i, n, count) vf_put(left + i, vf_get(left + i, n) + vf_get(right + i, n), n);
}

static void vector_element_sum(int64_t count, const float *a, const float *b, float *out)
{
    FOR_VECTORS(i, n, count) vf_put_result(out + i, vf_get(a + i, n) + vf_get(b + i, n), n, false);
}

static void vector_element_pass(int64_t count, const float *d_out, float *d_in, bool adds)
{
    if (adds)
        vector_element_sum(count, d_in, d_out, d_in);
    else
        memcpy(d_in, d_out, sizeof(float) * (size_t)count);
}

static void vector_relu_forward(int64_t count, const float *in, float *out)
{
    FOR_VECTORS(i, n, count)
    {
        const vf x = vf_get(in + i, n);
        vf_put(out + i, vf_relu(x), n);
    }
}

static void vector_relu_backward(int64_t count, const float *out, const float *d_out, float *d_in,
                                 bool adds)
{
    const vf zero = vf_zero();
    FOR_VECTORS(i, n, count)
    {
        const vf d = vf_blend(vm_gt(vf_get(out + i, n), zero), vf_get(d_out + i, n), zero);
        if (adds)
            vf_put_result(d_in + i, d, n, true);
        else
            vf_put(d_in + i, d, n);
    }
}

static void vector_element_move(int64_t rows, int64_t columns, const float *in, int64_t in_stride,
                                float *out, int64_t out_stride, bool adds)
{
    for (int64_t r = 0; r < rows; r++, in += in_stride, out += out_stride)
        FOR_VECTORS(i, n, columns)
        {
            if (adds)
                vf_put_result(out + i, vf_get(in + i, n), n, true);
            else
                vf_put(out + i, vf_get(in + i, n), n);
        }
}

static void vector_element_transpose(int64_t rows, int64_t columns, const float *in, float *out,
                                     bool adds)
{
    if (rows == 1 || columns == 1) {
        vector_element_pass(rows * columns, in, out, adds);
        return;
    }
    const int64_t whole_rows = rows - rows % 4, whole_columns = columns - columns % 4;
    for (int64_t c = 0; c < whole_columns; c += 4)
        for (int64_t r = 0; r < whole_rows; r += 4)
            transpose4(in + r * columns + c, columns, out + c * rows + r, rows, adds);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = r < whole_rows ? whole_columns : 0; c < columns; c++) {
            float *to = out + c * rows + r;
            *to = adds ? lki_flush(*to + in[r * columns + c]) : in[r * columns + c];
        }
}

/* lki_exp() of each lane, to the bit, but 0 below -200; none is above 700. x becomes what is left of it behind the power
 * of 2. */
INLINE vd share_begin(vd *x)
{
    const vl stays = ~(vl)(*x < vd_set(-200));
    const vd from = (vd)((vl)*x & stays), scaled = from * vd_set(0x1.71547652b82fep+0);
    const vl sign = (vl)scaled & (vl)vd_set(-0.0);
    const vd k = vd_whole(scaled + (vd)(sign | (vl)vd_set(0.5)));
    *x = (from - k * vd_set(0x1.62e42fefa2000p-1)) - k * vd_set(0x1.9ef35793c7673p-41);
    const vl integer = (vl)(k + vd_set(0x1.8p52)); /* behind the exponent, modulo 2^51 */
    return (vd)(((integer + 1023) << 52) & stays);
}

INLINE void share_end(const int count, const vd power[], vd out[])
{
    static const double inverse_factorial[] = {
        1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320,
        1.0 / 5040,       1.0 / 720,       1.0 / 120,      1.0 / 24,      1.0 / 6,      1.0 / 2};
    vd sum[TURN], r[TURN];
    UNROLL
    for (int v = 0; v < count; v++) {
        r[v] = out[v];
        sum[v] = vd_set(inverse_factorial[0]);
    }
    UNROLL
    for (int i = 1; i < 12; i++) {
        const vd next = vd_set(inverse_factorial[i]);
        UNROLL
        for (int v = 0; v < count; v++) sum[v] = sum[v] * r[v] + next;
        if (count > 1) vd_in_turn(sum, count);
    }
    UNROLL
    for (int v = 0; v < count; v++) out[v] = (vd_set(1) + (r[v] + r[v] * r[v] * sum[v])) * power[v];
}

/* Of at most PIECE values, and of zeros up to a whole vector. */
static void shares_of(int64_t count, const float *in, double from, vd out[])
{
    const vd start = vd_set(from);
    const int64_t vectors = (count + LANES - 1) / LANES * 2;
    vd power[2 * PIECE / LANES];
    FOR_VECTORS(i, n, count)
    {
        const vf x = vf_get(in + i, n);
        vd *low = out + 2 * i / LANES;
        low[0] = vf_low(x) - start;
        low[1] = vf_high(x) - start;
        power[2 * i / LANES] = share_begin(&low[0]);
        power[2 * i / LANES + 1] = share_begin(&low[1]);
    }
    int64_t v = 0;
    for (; v + TURN <= vectors; v += TURN) share_end(TURN, power + v, out + v);
    for (; v < vectors; v++) share_end(1, power + v, out + v);
}

static void vector_element_shares(int64_t count, const float *in, double from, double *out)
{
    vd share[2 * PIECE / LANES];
    for (int64_t i = 0; i < count; i += PIECE) {
        const int64_t n = count - i < PIECE ? count - i : PIECE;
        shares_of(n, in + i, from, share);
        memcpy(out + i, share, sizeof(double) * (size_t)n);
    }
}

/* 0 where it would be stored as that. */
INLINE vd flushed(vd x)
{
    const vl small = (vl)(x < vd_set((double)LKI_TINY)) & (vl)(x > vd_set(-(double)LKI_TINY));
    return (vd)((vl)x & ~small);
}

INLINE vf answers_of(vd low, vd high, vd times, vd less)
{
    return vf_join(flushed(times * (low - less)), flushed(times * (high - less)));
}

static void vector_element_answers(int64_t count, double factor, double rest, const float *in,
                                   double from, float *out, bool adds)
{
    const vd times = vd_set(factor), less = vd_set(rest);
    vd share[2 * PIECE / LANES];
    for (; count > 0; count -= PIECE, in += PIECE, out += PIECE) {
        const int64_t some = count < PIECE ? count : PIECE;
        shares_of(some, in, from, share);
        FOR_VECTORS(i, n, some)
        {
            const vd *low = share + 2 * i / LANES;
            vf_put_result(out + i, answers_of(low[0], low[1], times, less), n, adds);
        }
    }
}

static float vector_element_most(int64_t count, const float *in)
{
    vf most = vf_set(in[0]);
    float lane[LANES], result = in[0];
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) most = vf_most(most, vf_load(in + i));
    vf_put(lane, most, LANES);
    for (int64_t k = 0; k < LANES; k++) result = lane[k] > result ? lane[k] : result;
    for (; i < count; i++) result = in[i] > result ? in[i] : result;
    return result;
}

/* In eight lanes, however many a vector has. */
static double vector_element_sum_shares(int64_t count, const float *in, double from)
{
    enum { VECTORS = 16 / LANES };
    vd share[2 * PIECE / LANES], lanes[VECTORS] = {{0}};
    double lane[8];
    for (int64_t i = 0; i < count; i += PIECE) {
        const int64_t n = count - i < PIECE ? count - i : PIECE;
        const int64_t vectors = (n + LANES - 1) / LANES * 2;
        shares_of(n, in + i, from, share);
        memset((double *)share + n, 0, sizeof(double) * (size_t)(vectors * LANES / 2 - n));
        for (int64_t v = 0; v < vectors; v++) lanes[v % VECTORS] += share[v];
    }
    memcpy(lane, lanes, sizeof lane);
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

static double vector_element_distance(int64_t count, const float *restrict a,
                                      const float *restrict b)
{
    double lane[8] = {0};
    int64_t i = 0;
    for (; i + 8 <= count; i += 8)
        for (int64_t k = 0; k < 8; k++) {
            const double away = (double)a[i + k] - (double)b[i + k];
            lane[k] += away * away;
        }
    for (int64_t k = 0; i + k < count; k++) {
        const double away = (double)a[i + k] - (double)b[i + k];
        lane[k] += away * away;
    }
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

static void vector_element_differences(int64_t count, double factor, const float *a, const float *b,
                                       float *out, bool adds)
{
    const vd times = vd_set(factor);
    FOR_VECTORS(i, n, count)
    {
        const vf x = vf_get(a + i, n), y = vf_get(b + i, n);
        const vf d = vf_join((vf_low(x) - vf_low(y)) * times, (vf_high(x) - vf_high(y)) * times);
        vf_put_result(out + i, adds ? vf_flush(d) : d, n, adds);
    }
}

INLINE double length_of(double away, double limit)
{
    const double size = fabs(away), least = size > limit ? limit : size;
    return limit == 0 ? size : least * (size - least / 2);
}

static double vector_element_lengths(int64_t count, double limit, const float *restrict a,
                                     const float *restrict b)
{
    double lane[8] = {0};
    int64_t i = 0;
    for (; i + 8 <= count; i += 8)
        for (int64_t k = 0; k < 8; k++)
            lane[k] += length_of((double)a[i + k] - (double)b[i + k], limit);
    for (int64_t k = 0; i + k < count; k++)
        lane[k] += length_of((double)a[i + k] - (double)b[i + k], limit);
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/* d held within [-most, most]; or, where limit is 0, to -1 and 1, but 0 and NaN as they are. */
INLINE vd slope(vd d, double limit)
{
    const vd most = vd_set(limit == 0 ? 1 : limit), edge = vd_set(limit);
    const vl above = (vl)(d > edge), below = (vl)(d < -edge);
    return (vd)(((vl)most & above) | ((vl)-most & below) | ((vl)d & ~(above | below)));
}

static void vector_element_slopes(int64_t count, double factor, double limit, const float *a,
                                  const float *b, float *out, bool adds)
{
    const vd times = vd_set(factor);
    FOR_VECTORS(i, n, count)
    {
        const vf x = vf_get(a + i, n), y = vf_get(b + i, n);
        const vf d = vf_join(slope(vf_low(x) - vf_low(y), limit) * times,
                             slope(vf_high(x) - vf_high(y), limit) * times);
        vf_put_result(out + i, adds ? vf_flush(d) : d, n, adds);
    }
}

const lki_vector_element LKI_ISA_NAME(lki_vector_element) = {
    .add = vector_element_add,
    .update = LKI_ISA_NAME(lki_vector_update),
    .approach = LKI_ISA_NAME(lki_vector_approach),
    .dot = LKI_ISA_NAME(lki_vector_dot),
    .direction = LKI_ISA_NAME(lki_vector_direction),
    .pack = LKI_ISA_NAME(lki_bf16_pack),
    .unpack = LKI_ISA_NAME(lki_bf16_unpack),
    .sum = vector_element_sum,
    .pass = vector_element_pass,
    .relu = vector_relu_forward,
    .relu_backward = vector_relu_backward,
    .move = vector_element_move,
    .transpose = vector_element_transpose,
    .shares = vector_element_shares,
    .sum_shares = vector_element_sum_shares,
    .answers = vector_element_answers,
    .most = vector_element_most,
    .distance = vector_element_distance,
    .differences = vector_element_differences,
    .lengths = vector_element_lengths,
    .slopes = vector_element_slopes,
};

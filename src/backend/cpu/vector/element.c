/* Elementwise kernels, bound by memory. What is only copied or selected was stored before, and needs no
 * flush (core/backend.h). */
#include <math.h>

#include "backend/cpu/vector/bf16/bf16.h"
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

static void vector_element_pack(int64_t count, const float *from, uint16_t *to)
{
    bf16_round_row(count, from, to);
}

static void vector_element_unpack(int64_t count, const uint16_t *from, float *to)
{
    typedef uint16_t halves __attribute__((vector_size(2 * LANES)));
    FOR_VECTORS(i, n, count)
    {
        halves upper = {0};
        if (n == LANES)
            memcpy(&upper, from + i, sizeof upper);
        else
            memcpy(&upper, from + i, sizeof *from * (size_t)n);
        vf_put(to + i, (vf)(__builtin_convertvector(upper, vu) << 16), n);
    }
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
        vf_give(d_in + i, d, n, adds);
    }
}

static void vector_element_move(int64_t rows, int64_t columns, const float *in, int64_t in_stride,
                                float *out, int64_t out_stride, bool adds)
{
    for (int64_t r = 0; r < rows; r++, in += in_stride, out += out_stride)
        FOR_VECTORS(i, n, columns) vf_give(out + i, vf_get(in + i, n), n, adds);
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

/* Eight lanes, however many a vector has; and their sum. */
enum { VECTORS = 16 / LANES };
INLINE double lanes_sum(const vd lanes[VECTORS])
{
    double lane[8];
    memcpy(lane, lanes, sizeof lane);
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

static double vector_element_sum_shares(int64_t count, const float *in, double from)
{
    vd share[2 * PIECE / LANES], lanes[VECTORS] = {{0}};
    for (int64_t i = 0; i < count; i += PIECE) {
        const int64_t n = count - i < PIECE ? count - i : PIECE;
        const int64_t vectors = (n + LANES - 1) / LANES * 2;
        shares_of(n, in + i, from, share);
        memset((double *)share + n, 0, sizeof(double) * (size_t)(vectors * LANES / 2 - n));
        for (int64_t v = 0; v < vectors; v++) lanes[v % VECTORS] += share[v];
    }
    return lanes_sum(lanes);
}

/* Half of the square; where `held`, only up to the limit, and a line behind it. */
INLINE vd length_of(const bool held, vd away, double limit)
{
    const vd square = away * (away * vd_set(0.5)), size = (vd)((vl)away & ~(vl)vd_set(-0.0));
    const vd line = vd_set(limit == 0 ? 1 : limit) * (size - vd_set(limit / 2));
    const vl beyond = (vl)(size > vd_set(limit));
    return held ? (vd)(((vl)line & beyond) | ((vl)square & ~beyond)) : square;
}

INLINE double lengths_of(const bool held, int64_t count, double limit, const float *a,
                         const float *b)
{
    vd lanes[VECTORS] = {{0}};
    FOR_VECTORS(i, n, count)
    {
        const vf x = vf_get(a + i, n), y = vf_get(b + i, n);
        const int64_t low = VECTORS > 2 ? 2 * i / LANES % VECTORS : 0,
                      high = VECTORS > 1 ? low + 1 : 0;
        lanes[low] += length_of(held, vf_low(x) - vf_low(y), limit);
        lanes[high] += length_of(held, vf_high(x) - vf_high(y), limit);
    }
    return lanes_sum(lanes);
}

static double vector_element_lengths(int64_t count, double limit, const float *a, const float *b)
{
    return limit == (double)INFINITY ? lengths_of(false, count, limit, a, b)
                                     : lengths_of(true, count, limit, a, b);
}

/* d held within [-most, most]; or, where limit is 0, to -1 and 1, but 0 and NaN as they are. */
INLINE vd slope(vd d, double limit)
{
    const vd most = vd_set(limit == 0 ? 1 : limit), edge = vd_set(limit);
    const vl above = (vl)(d > edge), below = (vl)(d < -edge);
    return (vd)(((vl)most & above) | ((vl)-most & below) | ((vl)d & ~(above | below)));
}

INLINE void slopes_of(const bool held, int64_t count, double factor, double limit, const float *a,
                      const float *b, float *out, bool adds)
{
    const vd times = vd_set(factor);
    FOR_VECTORS(i, n, count)
    {
        const vf x = vf_get(a + i, n), y = vf_get(b + i, n);
        const vd low = vf_low(x) - vf_low(y), high = vf_high(x) - vf_high(y);
        const vf d = vf_join((held ? slope(low, limit) : low) * times,
                             (held ? slope(high, limit) : high) * times);
        vf_put_result(out + i, adds ? vf_flush(d) : d, n, adds);
    }
}

static void vector_element_slopes(int64_t count, double factor, double limit, const float *a,
                                  const float *b, float *out, bool adds)
{
    if (limit == (double)INFINITY)
        slopes_of(false, count, factor, limit, a, b, out, adds);
    else
        slopes_of(true, count, factor, limit, a, b, out, adds);
}

const lki_vector_element LKI_ISA_NAME(lki_vector_element) = {
    .add = vector_element_add,
    .update = LKI_ISA_NAME(lki_vector_update),
    .approach = LKI_ISA_NAME(lki_vector_approach),
    .dot = LKI_ISA_NAME(lki_vector_dot),
    .direction = LKI_ISA_NAME(lki_vector_direction),
    .pack = vector_element_pack,
    .unpack = vector_element_unpack,
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
    .lengths = vector_element_lengths,
    .slopes = vector_element_slopes,
};

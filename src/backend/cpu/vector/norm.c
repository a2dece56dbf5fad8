/*
 * Batch norm over a matrix [rows][columns], columns being channels, with what may stand beside it: the
 * other operand of a sum behind it, and relu. Each pass reads and writes every value once.
 *
 *     forward    x ------> (x - mean) scale + shift --> + side --> relu --> out
 *     backward   d_out --> 0 where out is not positive --+--> d_side
 *                                                        +--> sums of d, of d (x - mean)
 *                then  --> scale (d - level - (x - mean) slope) --> d_in
 *
 * Some vectors of columns are taken down a strip of rows, with what belongs to the columns in registers.
 * Sums ascend over rows, one accumulator in double for each column, and are added to what is there: so
 * they go on from strip to strip and from piece to piece.
 */
#include <math.h>

#include "backend/cpu/vector/local.h"

#if LANES == 16 || defined(LKI_NEON) /* 32 registers */
enum { VECTORS = 4 };
#else
enum { VECTORS = 2 };
#endif
enum {
    STRIP_FLOATS = 2048, /* so that memory is read nearly in its order, */
    STRIP_ROWS = 4       /* and sums are moved once in so many rows at least */
};

/* A part of a matrix: `rows` rows of V vectors, which lie `stride` apart; or of n columns, where they are no
 * whole vector. */
typedef struct part {
    int64_t rows, stride, n;
    int64_t ahead; /* floats to the same columns of the next strip */
} part;

/* Runs RUN(V, whole) for all parts, with `p`, its first column c, and the place `at` of its first value. */
#define FOR_PARTS(rows, columns, apart, RUN)                                                       \
    do {                                                                                           \
        const int64_t fit_ = STRIP_FLOATS / (columns),                                             \
                      most_ = fit_ > STRIP_ROWS ? fit_ : STRIP_ROWS;                               \
        for (int64_t row_ = 0; row_ < (rows); row_ += most_) {                                     \
            const int64_t left_ = (rows)-row_;                                                     \
            part p = {.rows = left_ < most_ ? left_ : most_,                                       \
                      .stride = (apart),                                                           \
                      .n = LANES,                                                                  \
                      .ahead = most_ * (apart)};                                                   \
            int64_t c = 0, at = row_ * (apart);                                                    \
            for (; c + VECTORS * LANES <= (columns); c += VECTORS * LANES, at += VECTORS * LANES)  \
                RUN(VECTORS, true);                                                                \
            for (; c + LANES <= (columns); c += LANES, at += LANES) RUN(1, true);                  \
            p.n = (columns)-c;                                                                     \
            if (p.n > 0) RUN(1, false);                                                            \
        }                                                                                          \
    } while (0)

/* V vectors of floats, and as many of doubles, which are two halves each. */
INLINE void get(const int V, const bool whole, const part *p, const float *from, vf to[])
{
    UNROLL
    for (int k = 0; k < V; k++)
        to[k] = whole ? vf_load(from + k * LANES) : vf_load_some(from, p->n);
}

/* What is read a strip later: a loop of many operations for what it reads keeps too little of memory busy,
 * so that sums came in at less than half the speed of copies. Of loops with few only narrow ones need it. */
INLINE void fetch(const int V, const part *p, const float *from)
{
    UNROLL
    for (int k = 0; k < V * LANES; k += 16) __builtin_prefetch(from + p->ahead + k);
}

INLINE void fetch_narrow(const int V, const part *p, const float *from)
{
    if (VECTORS * LANES < 64) fetch(V, p, from);
}

INLINE void get_doubles(const int V, const bool whole, const part *p, const double *from,
                        vd to[][2])
{
    double some[LANES] = {0};
    if (!whole) memcpy(some, from, sizeof(double) * (size_t)p->n);
    if (!whole) from = some;
    UNROLL
    for (int k = 0; k < V; k++) {
        to[k][0] = vd_load(from + k * LANES);
        to[k][1] = vd_load(from + k * LANES + LANES / 2);
    }
}

INLINE void put_doubles(const int V, const bool whole, const part *p, vd from[][2], double *to)
{
    double some[LANES];
    double *start = whole ? to : some;
    UNROLL
    for (int k = 0; k < V; k++) {
        vd_store(start + k * LANES, from[k][0]);
        vd_store(start + k * LANES + LANES / 2, from[k][1]);
    }
    if (!whole) memcpy(to, some, sizeof(double) * (size_t)p->n);
}

INLINE void part_sums(const int V, const bool whole, const part *p, const float *x, double *sum)
{
    vd acc[VECTORS][2];
    get_doubles(V, whole, p, sum, acc);
    for (int64_t r = 0; r < p->rows; r++, x += p->stride) {
        vf v[VECTORS];
        fetch(V, p, x);
        get(V, whole, p, x, v);
        UNROLL
        for (int k = 0; k < V; k++) {
            acc[k][0] += vf_low(v[k]);
            acc[k][1] += vf_high(v[k]);
        }
    }
    put_doubles(V, whole, p, acc, sum);
}

void LKI_ISA_NAME(lki_vector_norm_sums)(int64_t rows, int64_t columns, int64_t stride,
                                        const float *x, double *sum)
{
#define SUMS(V, whole) part_sums(V, whole, &p, x + at, sum + c)
    FOR_PARTS(rows, columns, stride, SUMS);
#undef SUMS
}

/* Distances are formed in double, in which they are exact but for values of very different size. */
INLINE void part_moments(const int V, const bool whole, const part *p, const lki_norm_moments *o,
                         const float *x, int64_t c)
{
    vd sum[VECTORS][2], square[VECTORS][2], pivot[VECTORS][2];
    vf first[VECTORS];
    get_doubles(V, whole, p, o->sum + c, sum);
    get_doubles(V, whole, p, o->square + c, square);
    get(V, whole, p, o->pivot + c, first);
    UNROLL
    for (int k = 0; k < V; k++) {
        pivot[k][0] = vf_low(first[k]);
        pivot[k][1] = vf_high(first[k]);
    }
    for (int64_t r = 0; r < p->rows; r++, x += p->stride) {
        vf v[VECTORS];
        fetch(V, p, x);
        get(V, whole, p, x, v);
        UNROLL
        for (int k = 0; k < V; k++) {
            const vd low = vf_low(v[k]) - pivot[k][0], high = vf_high(v[k]) - pivot[k][1];
            sum[k][0] += low;
            sum[k][1] += high;
            square[k][0] += low * low;
            square[k][1] += high * high;
        }
    }
    put_doubles(V, whole, p, sum, o->sum + c);
    put_doubles(V, whole, p, square, o->square + c);
}

void LKI_ISA_NAME(lki_vector_norm_moments)(int64_t rows, int64_t columns, int64_t stride,
                                           const float *x, const lki_norm_moments *operands)
{
    const lki_norm_moments copy = *operands, *o = &copy;
#define MOMENTS(V, whole) part_moments(V, whole, &p, o, x + at, c)
    FOR_PARTS(rows, columns, stride, MOMENTS);
#undef MOMENTS
}

INLINE void part_apply(const int V, const bool whole, const bool side, const bool relu,
                       const part *p, const lki_norm_apply *o, int64_t at, int64_t c)
{
    vf mean[VECTORS], scale[VECTORS], shift[VECTORS];
    const vf most = vf_set(o->most > 0 ? o->most : INFINITY);
    get(V, whole, p, o->mean + c, mean);
    get(V, whole, p, o->scale + c, scale);
    get(V, whole, p, o->shift + c, shift);
    for (int64_t r = 0; r < p->rows; r++, at += p->stride) {
        vf x[VECTORS], y[VECTORS];
        fetch_narrow(V, p, o->x + at);
        if (side) fetch_narrow(V, p, o->side + at);
        get(V, whole, p, o->x + at, x);
        if (side) get(V, whole, p, o->side + at, y);
        UNROLL
        for (int k = 0; k < V; k++) {
            vf z = vf_fma(x[k] - mean[k], scale[k], shift[k]);
            if (side) z = vf_flush(z) + y[k]; /* as if it had been stored */
            z = relu ? vf_least(vf_relu_flush(z), most) : vf_flush(z);
            vf_put(o->out + at + k * LANES, z, whole ? LANES : p->n);
        }
    }
}

static void vector_norm_apply(int64_t rows, int64_t columns, const lki_norm_apply *operands)
{
    const lki_norm_apply copy = *operands, *o = &copy;
#define APPLY_TO(V, whole, side)                                                                   \
    do {                                                                                           \
        if (o->relu)                                                                               \
            part_apply(V, whole, side, true, &p, o, at, c);                                        \
        else                                                                                       \
            part_apply(V, whole, side, false, &p, o, at, c);                                       \
    } while (0)
#define APPLY(V, whole)                                                                            \
    do {                                                                                           \
        if (o->side != NULL)                                                                       \
            APPLY_TO(V, whole, true);                                                              \
        else                                                                                       \
            APPLY_TO(V, whole, false);                                                             \
    } while (0)
    FOR_PARTS(rows, columns, columns, APPLY);
#undef APPLY
#undef APPLY_TO
}

/* Which gradients pass relu: there is none; those where its output, or what it would be of x, is positive, and below a
 * limit, if it has one. */
typedef enum mask { ALL, BY_OUT, BY_X } mask;

/* Runs RUN(V, whole, mask, limited) for what the operands say of relu. */
#define BY_MASK(RUN, V, whole)                                                                     \
    do {                                                                                           \
        if (o->out != NULL && o->most > 0)                                                         \
            RUN(V, whole, BY_OUT, true);                                                           \
        else if (o->out != NULL)                                                                   \
            RUN(V, whole, BY_OUT, false);                                                          \
        else if (o->shift != NULL && o->most > 0)                                                  \
            RUN(V, whole, BY_X, true);                                                             \
        else if (o->shift != NULL)                                                                 \
            RUN(V, whole, BY_X, false);                                                            \
        else                                                                                       \
            RUN(V, whole, ALL, false);                                                             \
    } while (0)

/* The gradient in front of relu, whose output is positive where y is above `least`. */
INLINE vf in_front(const bool limited, vf y, float least, float most, vf d)
{
    d = vf_blend(vm_gt(y, vf_set(least)), d, vf_zero());
    return limited ? vf_blend(vm_gt(vf_set(most), y), d, vf_zero()) : d;
}

/* By its output; by what it is given, which would not be stored as 0. */
INLINE void part_by_out(const int V, const bool whole, const bool limited, const part *p,
                        const float *out, float most, vf d[])
{
    vf y[VECTORS];
    get(V, whole, p, out, y);
    UNROLL
    for (int k = 0; k < V; k++) d[k] = in_front(limited, y[k], 0, most, d[k]);
}
INLINE vf by_given(const bool limited, vf z, float most, vf d)
{
    return in_front(limited, z, 0x1.fffffep-64f, most, d); /* the largest float below LKI_TINY */
}

INLINE void part_products(const int V, const bool whole, const mask by, const bool limited,
                          const part *p, const lki_norm_products *o, int64_t at, int64_t c)
{
    vd sum_d[VECTORS][2], sum_dx[VECTORS][2];
    vf mean[VECTORS], scale[VECTORS], shift[VECTORS];
    get_doubles(V, whole, p, o->sum_d + c, sum_d);
    get_doubles(V, whole, p, o->sum_dx + c, sum_dx);
    get(V, whole, p, o->mean + c, mean);
    if (by == BY_X) {
        get(V, whole, p, o->scale + c, scale);
        get(V, whole, p, o->shift + c, shift);
    }
    for (int64_t r = 0; r < p->rows; r++, at += p->stride) {
        vf d[VECTORS], x[VECTORS];
        fetch(V, p, o->d_out + at);
        fetch(V, p, o->x + at);
        if (by == BY_OUT) fetch(V, p, o->out + at);
        get(V, whole, p, o->d_out + at, d);
        get(V, whole, p, o->x + at, x);
        if (by == BY_OUT) part_by_out(V, whole, limited, p, o->out + at, o->most, d);
        UNROLL
        for (int k = 0; k < V; k++) {
            const vf away = x[k] - mean[k];
            if (by == BY_X)
                d[k] = by_given(limited, vf_fma(away, scale[k], shift[k]), o->most, d[k]);
            const vd low = vf_low(d[k]), high = vf_high(d[k]);
            sum_d[k][0] += low;
            sum_d[k][1] += high;
            sum_dx[k][0] += low * vf_low(away);
            sum_dx[k][1] += high * vf_high(away);
        }
        if (o->d_side == NULL) continue;
        UNROLL
        for (int k = 0; k < V; k++)
            vf_give(o->d_side + at + k * LANES, d[k], whole ? LANES : p->n, o->add);
    }
    put_doubles(V, whole, p, sum_d, o->sum_d + c);
    put_doubles(V, whole, p, sum_dx, o->sum_dx + c);
}

static void vector_norm_products(int64_t rows, int64_t columns, const lki_norm_products *operands)
{
    const lki_norm_products copy = *operands, *o = &copy;
#define PRODUCTS_BY(V, whole, by, limited) part_products(V, whole, by, limited, &p, o, at, c)
#define PRODUCTS(V, whole)                 BY_MASK(PRODUCTS_BY, V, whole)
    FOR_PARTS(rows, columns, columns, PRODUCTS);
#undef PRODUCTS
#undef PRODUCTS_BY
}

INLINE void part_backward(const int V, const bool whole, const mask by, const bool limited,
                          const part *p, const lki_norm_backward *o, int64_t at, int64_t c,
                          bool add)
{
    vf mean[VECTORS], scale[VECTORS], level[VECTORS], slope[VECTORS], shift[VECTORS];
    get(V, whole, p, o->mean + c, mean);
    get(V, whole, p, o->scale + c, scale);
    get(V, whole, p, o->level + c, level);
    get(V, whole, p, o->slope + c, slope);
    if (by == BY_X) get(V, whole, p, o->shift + c, shift);
    for (int64_t r = 0; r < p->rows; r++, at += p->stride) {
        vf d[VECTORS], x[VECTORS];
        fetch_narrow(V, p, o->d_out + at);
        fetch_narrow(V, p, o->x + at);
        get(V, whole, p, o->d_out + at, d);
        get(V, whole, p, o->x + at, x);
        if (by == BY_OUT) part_by_out(V, whole, limited, p, o->out + at, o->most, d);
        UNROLL
        for (int k = 0; k < V; k++) {
            if (by == BY_X)
                d[k] = by_given(limited, vf_fma(x[k] - mean[k], scale[k], shift[k]), o->most, d[k]);
            const vf g = scale[k] * vf_fma(mean[k] - x[k], slope[k], d[k] - level[k]);
            vf_put_result(o->d_in + at + k * LANES, g, whole ? LANES : p->n, add);
        }
    }
}

static void vector_norm_backward(int64_t rows, int64_t columns, const lki_norm_backward *operands,
                                 bool add)
{
    const lki_norm_backward copy = *operands, *o = &copy;
#define BACKWARD_BY(V, whole, by, limited) part_backward(V, whole, by, limited, &p, o, at, c, add)
#define BACKWARD(V, whole)                 BY_MASK(BACKWARD_BY, V, whole)
    FOR_PARTS(rows, columns, columns, BACKWARD);
#undef BACKWARD
#undef BACKWARD_BY
}

const lki_vector_norm LKI_ISA_NAME(lki_vector_norm) = {
    .moments = LKI_ISA_NAME(lki_vector_norm_moments),
    .apply = vector_norm_apply,
    .products = vector_norm_products,
    .backward = vector_norm_backward};

/* The cells of recurrent layers and their derivatives, of a row of units, behind the functions of their gates; formulas are in
 * op/layer/recurrent.c. A product is flushed before it is a factor again. */
#include "backend/cpu/vector/activation.h"

static void lstm_cell(int64_t hidden, const float *gates, const float *past, float *cell)
{
    const float *f = gates + hidden, *g = f + hidden;
    FOR_VECTORS(j, n, hidden)
    {
        const vf fresh = vf_get(gates + j, n) * vf_get(g + j, n);
        vf_put(cell + j, vf_flush(vf_fma(vf_get(f + j, n), vf_get(past + j, n), fresh)), n);
    }
}

/* d (a factor) * (its derivative), of what is stored. */
INLINE vf through(vf d, vf factor, vf slope)
{
    return vf_flush(vf_flush(d * factor) * slope);
}

INLINE vf hyperbolic_rest(vf y)
{
    return hyperbolic_slope(y, y);
}

INLINE vf sigmoid_rest(vf y)
{
    return sigmoid_slope(y, y);
}

static void lstm_backward(int64_t hidden, const lki_recurrent_row *row, float *d_p)
{
    const float *f = row->gates + hidden, *g = f + hidden, *o = g + hidden;
    FOR_VECTORS(j, n, hidden)
    {
        const vf i_ = vf_get(row->gates + j, n), f_ = vf_get(f + j, n), g_ = vf_get(g + j, n);
        const vf o_ = vf_get(o + j, n), y = vf_get(row->kept + j, n), dh = vf_get(row->d_h + j, n);
        const vf d = vf_flush(
            vf_fma(vf_flush(dh * o_), hyperbolic_rest(y), vf_get(row->carried + j, n)));
        vf_put(d_p + j, through(d, g_, sigmoid_rest(i_)), n);
        vf_put(d_p + hidden + j, through(d, vf_get(row->past + j, n), sigmoid_rest(f_)), n);
        vf_put(d_p + 2 * hidden + j, through(d, i_, hyperbolic_rest(g_)), n);
        vf_put(d_p + 3 * hidden + j, through(dh, y, sigmoid_rest(o_)), n);
        vf_put(row->carried + j, vf_flush(d * f_), n);
    }
}

static void gru_new(int64_t hidden, const float *r, const float *q, float *p)
{
    FOR_VECTORS(j, n, hidden)
    vf_put(p + j, vf_flush(vf_fma(vf_get(r + j, n), vf_get(q + j, n), vf_get(p + j, n))), n);
}

static void gru_state(int64_t hidden, const float *gates, const float *past, float *h)
{
    FOR_VECTORS(j, n, hidden)
    {
        const vf z = vf_get(gates + hidden + j, n), fresh = vf_get(gates + 2 * hidden + j, n);
        const vf change = vf_flush(vf_get(past + j, n) - fresh);
        vf_put(h + j, vf_flush(vf_fma(z, change, fresh)), n);
    }
}

static void gru_backward(int64_t hidden, const lki_recurrent_row *row, float *d_p, float *d_q)
{
    const float *z = row->gates + hidden, *fresh = z + hidden;
    FOR_VECTORS(j, n, hidden)
    {
        const vf r_ = vf_get(row->gates + j, n), z_ = vf_get(z + j, n), n_ = vf_get(fresh + j, n);
        const vf dh = vf_get(row->d_h + j, n);
        const vf d_n = through(dh, vf_set(1.0f) - z_, hyperbolic_rest(n_));
        const vf d_r = through(d_n, vf_get(row->kept + j, n), sigmoid_rest(r_));
        const vf change = vf_flush(vf_get(row->past + j, n) - n_);
        const vf d_z = through(dh, change, sigmoid_rest(z_));
        vf_put(d_p + j, d_r, n);
        vf_put(d_q + j, d_r, n);
        vf_put(d_p + hidden + j, d_z, n);
        vf_put(d_q + hidden + j, d_z, n);
        vf_put(d_p + 2 * hidden + j, d_n, n);
        vf_put(d_q + 2 * hidden + j, vf_flush(d_n * r_), n);
        vf_put(row->carried + j, vf_flush(dh * z_), n);
    }
}

const lki_vector_recurrent LKI_ISA_NAME(lki_vector_recurrent) = {
    .lstm_cell = lstm_cell,
    .lstm_backward = lstm_backward,
    .gru_new = gru_new,
    .gru_state = gru_state,
    .gru_backward = gru_backward,
};

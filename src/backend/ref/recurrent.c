/*
 * rnn, lstm, gru: the formulas of op/layer/recurrent.c, one sample after the other, all in double. States are rounded where
 * they are stored for others, or left for the next window, not between positions. Gradients of parameters are sums in double over the samples, and in a
 * sample over positions as backward meets them.
 */
#include "backend/ref/kernels.h"

#include <string.h>

#include "numeric/real.h"
#include "op/recurrent.h"

/* What is kept of a unit at a position: gates behind their functions, of gru q of n too; the cell of lstm; h. */
enum { KEPT = 6, QN = 3, CELL = 4, STATE = 5 };

typedef struct recurrent {
    lki_plan base;
    lki_op_id op;
    int64_t positions, width, hidden, gates, rows; /* rows = gates * hidden */
    bool reverse, relu, masked;
    int32_t padding;
} recurrent;

/* Of parameters, in double; one after the other, in this order. */
typedef struct gradients {
    double *ih, *hh, *bias_ih, *bias_hh;
} gradients;

static gradients gradients_in(const recurrent *p, double *at)
{
    double *hh = at + p->rows * p->width, *bias = hh + p->rows * p->hidden;

    return (gradients){at, hh, bias, bias + p->rows};
}

static lks_status ref_recurrent_plan(lki_plan *plan_)
{
    recurrent *p = (recurrent *)plan_;
    const lki_node *node = plan_->cluster.node[0];
    const lks_recurrent_opts *opts = node->attr;

    p->op = node->op;
    p->positions = node->in[0]->shape.dim[0];
    p->width = node->in[0]->shape.dim[1];
    p->hidden = opts->hidden;
    p->rows = node->param[0].shape.dim[0];
    p->gates = p->rows / p->hidden;
    p->reverse = opts->reverse;
    p->masked = opts->masked;
    p->padding = (int32_t)opts->padding;
    p->relu = node->op == LKI_OP_RNN && opts->nonlinearity == LKS_NONLINEARITY_RELU;
    /* p and q of a position, or their gradients; zeros; gradients of the state and the cell; of x */
    const int64_t scratch = 2 * p->rows + KEPT * p->hidden + 2 * p->hidden + p->width;
    LKI_TRY(lki_ref_needs(plan_, LKI_READS_IN, (size_t)scratch * sizeof(double)));
    plan_->needs.state_bytes = (size_t)(KEPT * p->hidden) * sizeof(double);
    plan_->needs.saved_bytes = (size_t)(p->positions * KEPT * p->hidden) * sizeof(double);
    plan_->needs.sums_bytes = (size_t)(p->rows * (p->width + p->hidden + 2)) * sizeof(double);
    return LKS_OK;
}

/* The position that is computed as number `step`. */
static int64_t position_of(const recurrent *p, int64_t step)
{
    return p->reverse ? p->positions - 1 - step : step;
}

/* Whether position t of sample n is padding: then what is kept of the one before is kept of it. */
static bool holds(const recurrent *p, const lki_args *args, int64_t n, int64_t t)
{
    return p->masked && ((const int32_t *)args->in[1])[n * p->positions + t] == p->padding;
}

/* What is kept of the position before; `first` in front of the first one. */
static const double *before(const recurrent *p, int64_t step, const double *kept,
                            const double *first)
{
    return step > 0 ? kept + position_of(p, step - 1) * KEPT * p->hidden : first;
}

/* What stands in front of the first position of sample n: h, and the cell of lstm behind it, or zeros. */
static void begin(const recurrent *r, const lki_args *args, int64_t n, double *first)
{
    const int64_t carries = (r->op == LKI_OP_LSTM ? 2 : 1) * r->hidden;
    const float *given = args->begins != NULL ? args->begins + n * carries : NULL;

    if (args->state != NULL && args->at + n > 0) {
        memcpy(first, args->state, (size_t)(KEPT * r->hidden) * sizeof *first);
        return;
    }
    memset(first, 0, (size_t)(KEPT * r->hidden) * sizeof *first);
    for (int64_t j = 0; j < r->hidden && given != NULL; j++) {
        first[j * KEPT + STATE] = (double)given[j];
        if (r->op == LKI_OP_LSTM) first[j * KEPT + CELL] = (double)given[r->hidden + j];
    }
}

/* The same of its last one. */
static void leave(const recurrent *r, const lki_args *args, int64_t n, const double *kept)
{
    const int64_t carries = (r->op == LKI_OP_LSTM ? 2 : 1) * r->hidden;
    const double *last = before(r, r->positions, kept, NULL);
    float *to = args->leaves + n * carries;

    for (int64_t j = 0; j < r->hidden; j++) {
        to[j] = lki_round(last[j * KEPT + STATE]);
        if (r->op == LKI_OP_LSTM) to[r->hidden + j] = lki_round(last[j * KEPT + CELL]);
    }
}

static double logistic(double x)
{
    return 1.0 / (1.0 + lki_exp(-x));
}

/* Gates and states of unit j, of p and q of this position. */
static void cell(const recurrent *r, int64_t j, const double *p, const double *q,
                 const double *past, double *now)
{
    const int64_t h = r->hidden;
    double *k = now + j * KEPT;
    const double *was = past + j * KEPT;

    if (r->op == LKI_OP_RNN) {
        const double a = p[j] + q[j];

        k[STATE] = !r->relu ? lki_tanh(a) : a > 0.0 ? a : 0.0;
    } else if (r->op == LKI_OP_LSTM) {
        for (int g = 0; g < 4; g++) {
            const double a = p[g * h + j] + q[g * h + j];

            k[g] = g == 2 ? lki_tanh(a) : logistic(a);
        }
        k[CELL] = k[1] * was[CELL] + k[0] * k[2];
        k[STATE] = k[3] * lki_tanh(k[CELL]);
    } else {
        k[0] = logistic(p[j] + q[j]);
        k[1] = logistic(p[h + j] + q[h + j]);
        k[QN] = q[2 * h + j];
        k[2] = lki_tanh(p[2 * h + j] + k[0] * k[QN]);
        k[STATE] = k[2] + k[1] * (was[STATE] - k[2]);
    }
}

/* What is kept of a position with input x. */
static void position_forward(const recurrent *r, const lki_args *args, const float *x,
                             const double *past, double *now)
{
    double *p = args->workspace, *q = p + r->rows;

    for (int64_t u = 0; u < r->rows; u++) {
        p[u] = (double)args->param[2][u];
        q[u] = (double)args->param[3][u];
        for (int64_t k = 0; k < r->width; k++)
            p[u] += (double)x[k] * (double)args->param[0][u * r->width + k];
        for (int64_t k = 0; k < r->hidden; k++)
            q[u] += past[k * KEPT + STATE] * (double)args->param[1][u * r->hidden + k];
    }
    for (int64_t j = 0; j < r->hidden; j++) cell(r, j, p, q, past, now);
}

static void sample_forward(const recurrent *r, const lki_args *args, int64_t n)
{
    const float *x = (const float *)args->in[0] + n * r->positions * r->width;
    double *kept = (double *)args->saved + n * r->positions * r->hidden * KEPT;
    float *y = (float *)args->out + n * r->positions * r->hidden;
    double *first = (double *)args->workspace + 2 * r->rows;

    begin(r, args, n, first);
    for (int64_t step = 0; step < r->positions; step++) {
        const int64_t t = position_of(r, step);
        const double *past = before(r, step, kept, first);
        double *now = kept + t * KEPT * r->hidden;

        if (holds(r, args, n, t))
            memcpy(now, past, (size_t)(KEPT * r->hidden) * sizeof *now);
        else
            position_forward(r, args, x + t * r->width, past, now);
        for (int64_t j = 0; j < r->hidden; j++)
            y[t * r->hidden + j] = lki_round(now[j * KEPT + STATE]);
    }
    if (args->leaves != NULL) leave(r, args, n, kept);
    if (args->state != NULL)
        memcpy(args->state, before(r, r->positions, kept, NULL), r->base.needs.state_bytes);
}

static lks_status ref_recurrent_forward(const lki_plan *plan_, const lki_args *args)
{
    const recurrent *r = (const recurrent *)plan_;

    for (int64_t n = 0; n < args->count; n++) sample_forward(r, args, n);
    return LKS_OK;
}

/* Of unit j, whose state has the gradient dh, and whose cell *dc: gradients of p and q, of the cell before, and what of the
 * state before does not go through q. */
static double cell_backward(const recurrent *r, int64_t j, const double *now, const double *past,
                            double dh, double *dc, double *dp, double *dq)
{
    const int64_t h = r->hidden;
    const double *k = now + j * KEPT, *was = past + j * KEPT;

    if (r->op == LKI_OP_RNN) {
        const double slope = r->relu ? (double)(k[STATE] > 0.0) : 1.0 - k[STATE] * k[STATE];

        dp[j] = dq[j] = slope == 0.0 ? 0.0 : dh * slope;
        return 0.0;
    }
    if (r->op == LKI_OP_LSTM) {
        const double y = lki_tanh(k[CELL]), d = *dc + dh * k[3] * (1.0 - y * y);

        dp[j] = d * k[2] * k[0] * (1.0 - k[0]);
        dp[h + j] = d * was[CELL] * k[1] * (1.0 - k[1]);
        dp[2 * h + j] = d * k[0] * (1.0 - k[2] * k[2]);
        dp[3 * h + j] = dh * y * k[3] * (1.0 - k[3]);
        for (int g = 0; g < 4; g++) dq[g * h + j] = dp[g * h + j];
        *dc = d * k[1];
        return 0.0;
    }
    const double dn = dh * (1.0 - k[1]) * (1.0 - k[2] * k[2]);

    dp[j] = dq[j] = dn * k[QN] * k[0] * (1.0 - k[0]);
    dp[h + j] = dq[h + j] = dh * (was[STATE] - k[2]) * k[1] * (1.0 - k[1]);
    dp[2 * h + j] = dn;
    dq[2 * h + j] = dn * k[0];
    return dh * k[1];
}

/* Adds what position t gives to the gradients of parameters. */
static void add_products(const recurrent *r, const gradients *sums, const float *x,
                         const double *past, const double *dp, const double *dq)
{
    for (int64_t u = 0; u < r->rows; u++) {
        sums->bias_ih[u] += dp[u];
        sums->bias_hh[u] += dq[u];
        for (int64_t k = 0; k < r->width && dp[u] != 0.0; k++)
            sums->ih[u * r->width + k] += dp[u] * (double)x[k];
        for (int64_t k = 0; k < r->hidden && dq[u] != 0.0; k++)
            sums->hh[u * r->hidden + k] += dq[u] * past[k * KEPT + STATE];
    }
}

static void sample_backward(const recurrent *r, const lki_args *args, int64_t n,
                            const gradients *sums)
{
    const float *x = (const float *)args->in[0] + n * r->positions * r->width;
    const float *dy = args->d_out + n * r->positions * r->hidden;
    const double *kept = (const double *)args->saved + n * r->positions * r->hidden * KEPT;
    double *dp = args->workspace, *dq = dp + r->rows, *first = dq + r->rows;
    double *dh = first + KEPT * r->hidden, *dc = dh + r->hidden, *dx = dc + r->hidden;

    begin(r, args, n, first);
    memset(dh, 0, (size_t)(2 * r->hidden) * sizeof *dh);
    for (int64_t step = r->positions - 1; step >= 0; step--) {
        const int64_t t = position_of(r, step);
        const double *past = before(r, step, kept, first);
        const bool held = holds(r, args, n, t); /* then the gradients of p and q are 0 */

        if (held) memset(dp, 0, (size_t)(2 * r->rows) * sizeof *dp);
        for (int64_t j = 0; j < r->hidden; j++) {
            dh[j] += (double)dy[t * r->hidden + j];
            if (held) continue;
            dh[j] = cell_backward(r, j, kept + t * KEPT * r->hidden, past, dh[j], &dc[j], dp, dq);
        }
        memset(dx, 0, (size_t)r->width * sizeof *dx);
        for (int64_t u = 0; u < r->rows; u++) {
            for (int64_t k = 0; k < r->hidden && dq[u] != 0.0; k++)
                dh[k] += dq[u] * (double)args->param[1][u * r->hidden + k];
            for (int64_t k = 0; k < r->width && dp[u] != 0.0; k++)
                dx[k] += dp[u] * (double)args->param[0][u * r->width + k];
        }
        if (args->d_in[0] != NULL)
            lki_ref_put_all(args->d_in[0] + (n * r->positions + t) * r->width, args->add_in & 1u,
                            dx, r->width);
        if (sums != NULL) add_products(r, sums, x + t * r->width, past, dp, dq);
    }
}

static lks_status ref_recurrent_backward(const lki_plan *plan_, const lki_args *args)
{
    const recurrent *r = (const recurrent *)plan_;
    const gradients sums = gradients_in(r, args->sums);
    const double *const from[] = {sums.ih, sums.hh, sums.bias_ih, sums.bias_hh};
    const int64_t count[] = {r->rows * r->width, r->rows * r->hidden, r->rows, r->rows};
    bool wanted = false;

    for (int i = 0; i < 4; i++) wanted |= args->d_param[i] != NULL;
    if (wanted && args->sample == 0) memset(args->sums, 0, plan_->needs.sums_bytes);
    for (int64_t n = 0; n < args->count; n++) sample_backward(r, args, n, wanted ? &sums : NULL);
    for (int i = 0; args->last && i < 4; i++)
        if (args->d_param[i] != NULL) lki_ref_put_all(args->d_param[i], false, from[i], count[i]);
    return LKS_OK;
}

#define KERNEL(id)                                                                                 \
    const lki_kernel lki_ref_##id = {                                                              \
        .plan_bytes = sizeof(recurrent),                                                           \
        .span = LKI_SPAN_EITHER,                                                                   \
        .follows = true,                                                                           \
        .plan = ref_recurrent_plan,                                                                \
        .forward = ref_recurrent_forward,                                                          \
        .backward = ref_recurrent_backward,                                                        \
    }

KERNEL(rnn);
KERNEL(lstm);
KERNEL(gru);

/*
 * Bounds on the difference between a backend and ref: rnn, lstm, gru.
 *
 * The formulas are computed once more, in double, with numbers that carry a bound on what a backend's value differs by
 * (ball.h). Beside sums and products there are functions:
 *
 *     f(a)      e_a times the largest |f'| within e_a of a, and f's own error: sigmoid 3.1u, tanh 1.5u of the value
 *
 * The slopes of sigmoid and tanh change by at most a factor e^(2 e_a) within e_a, and are at most 1/4 and 1. So an error
 * grows from position to position as it does in the worst case: a gradient through many positions has a loose bound, and
 * none is too small. Ref rounds once: u of the value.
 */
#include "check/ball.h"

#include <string.h>

#include "base/check.h"

static const ball ONE = {1.0, 0.0};

static ball sigmoid_ball(ball a)
{
    const double s = 1.0 / (1.0 + exp(-a.v));
    const double slope = fmin(0.25, s / (1.0 + exp(a.v)) * exp(fmin(2.0 * a.e, 2.0)));
    const double e = fmin(a.e * slope, 1.0);

    return ball_of(s, e + 3.1 * LKI_U * (s + e));
}

static ball tanh_ball(ball a)
{
    const double y = tanh(a.v), slope = fmin(1.0, (1.0 - y * y) * exp(fmin(2.0 * a.e, 2.0)));
    const double e = fmin(a.e * slope, 2.0);

    return ball_of(y, e + 1.5 * LKI_U * (fabs(y) + e));
}

/* Gates behind their functions, of gru q of n too; cell, its tanh, state. */
enum { KEPT = 7, QN = 3, CELL = 4, CELL_TANH = 5, STATE = 6 };

typedef struct work {
    lki_trial *t;
    const lki_node *node;
    int64_t positions, width, hidden, rows;
    bool reverse, relu, masked;
    int32_t padding;
    ball *kept, *first, *p, *q, *dh, *dc; /* of one sample; in front of it; of a position */
    sum *grown[4];                        /* gradients of parameters */
    lki_bounds *out;
} work;

static int64_t position_of(const work *w, int64_t step)
{
    return w->reverse ? w->positions - 1 - step : step;
}

/* Whether position t of sample n is padding. */
static bool holds(const work *w, int64_t n, int64_t t)
{
    return w->masked && ((const int32_t *)w->t->in[1])[n * w->positions + t] == w->padding;
}

static const ball *before(const work *w, int64_t step)
{
    return step > 0 ? w->kept + position_of(w, step - 1) * KEPT * w->hidden : w->first;
}

static void cell(const work *w, int64_t j, const ball *past, ball *now)
{
    const int64_t h = w->hidden;
    const ball *p = w->p + j, *q = w->q + j, *was = past + j * KEPT;
    ball *k = now + j * KEPT;

    if (w->node->op == LKI_OP_RNN) {
        const ball a = plus(p[0], q[0]);

        k[STATE] = w->relu ? (ball){fmax(a.v, 0.0), a.e} : tanh_ball(a);
    } else if (w->node->op == LKI_OP_LSTM) {
        for (int g = 0; g < 4; g++)
            k[g] = (g == 2 ? tanh_ball : sigmoid_ball)(plus(p[g * h], q[g * h]));
        k[CELL] = plus(times(k[1], was[CELL]), times(k[0], k[2]));
        k[CELL_TANH] = tanh_ball(k[CELL]);
        k[STATE] = times(k[3], k[CELL_TANH]);
    } else {
        k[0] = sigmoid_ball(plus(p[0], q[0]));
        k[1] = sigmoid_ball(plus(p[h], q[h]));
        k[QN] = q[2 * h];
        k[2] = tanh_ball(plus(p[2 * h], times(k[0], k[QN])));
        k[STATE] = plus(k[2], times(k[1], less(was[STATE], k[2])));
    }
}

/* Products of a row of a weight with x, or with states, and the bias. */
static ball product(const float *weight, int64_t row, int64_t count, const float *x,
                    const ball *state, const float *bias)
{
    sum s = {0};

    for (int64_t k = 0; k < count; k++)
        add_term(&s, x != NULL ? exact(x, k) : state[k * KEPT + STATE],
                 exact(weight, row * count + k));
    return plus(total(&s, count), exact(bias, row));
}

/* What stands in front of the first position: zeros, or what is given. */
static void begin(const work *w, int64_t n)
{
    const float *given = w->t->begins != NULL ? w->t->begins + n * w->node->carries : NULL;

    for (int64_t j = 0; j < w->hidden && given != NULL; j++) {
        w->first[j * KEPT + STATE] = exact(given, j);
        if (w->node->op == LKI_OP_LSTM) w->first[j * KEPT + CELL] = exact(given, w->hidden + j);
    }
}

/* What the last one leaves. */
static void leave(const work *w, int64_t n)
{
    double *to = w->out->leaves + n * w->node->carries;
    const ball *last = before(w, w->positions);

    for (int64_t j = 0; j < w->hidden; j++) {
        const ball h = last[j * KEPT + STATE], c = last[j * KEPT + CELL];

        to[j] = 1.1 * h.e + 2.0 * LKI_U * fabs(h.v);
        if (w->node->op == LKI_OP_LSTM) to[w->hidden + j] = 1.1 * c.e + 2.0 * LKI_U * fabs(c.v);
    }
}

static void sample_forward(const work *w, int64_t n)
{
    const float *x = (const float *)w->t->in[0] + n * w->positions * w->width;
    float *const *param = w->t->param;

    begin(w, n);
    for (int64_t step = 0; step < w->positions; step++) {
        const int64_t t = position_of(w, step);
        const ball *past = before(w, step);

        for (int64_t u = 0; u < w->rows; u++) {
            w->p[u] = product(param[0], u, w->width, x + t * w->width, NULL, param[2]);
            w->q[u] = product(param[1], u, w->hidden, NULL, past, param[3]);
        }
        for (int64_t j = 0; j < w->hidden; j++) {
            ball *now = w->kept + t * KEPT * w->hidden;

            if (holds(w, n, t))
                memcpy(now + j * KEPT, past + j * KEPT, KEPT * sizeof *now);
            else
                cell(w, j, past, now);
            const ball y = now[j * KEPT + STATE];
            w->out->out[(n * w->positions + t) * w->hidden + j] = stored(y);
        }
    }
    if (w->out->leaves != NULL) leave(w, n);
}

static ball slope_of_tanh(ball y)
{
    return less(ONE, times(y, y));
}

static ball slope_of_sigmoid(ball s)
{
    return times(s, less(ONE, s));
}

/* relu's slope jumps where the sign of its argument is not certain. */
static ball slope_of_relu(ball y)
{
    return (ball){y.v > 0.0 ? 1.0 : 0.0, y.v > y.e                      ? 0.0
                                         : y.e > 4.0 * (double)LKI_TINY ? 1.0
                                                                        : 0.0};
}

/* p and q become their gradients; returns what of the state before does not go through q. */
static ball cell_backward(const work *w, int64_t j, const ball *now, const ball *past)
{
    const int64_t h = w->hidden;
    const ball *k = now + j * KEPT, *was = past + j * KEPT, dh = w->dh[j];
    ball *p = w->p + j, *q = w->q + j;

    if (w->node->op == LKI_OP_RNN) {
        p[0] = times(dh, w->relu ? slope_of_relu(k[STATE]) : slope_of_tanh(k[STATE]));
        q[0] = p[0];
        return (ball){0};
    }
    if (w->node->op == LKI_OP_LSTM) {
        const ball d = plus(w->dc[j], times(times(dh, k[3]), slope_of_tanh(k[CELL_TANH])));

        p[0] = times(times(d, k[2]), slope_of_sigmoid(k[0]));
        p[h] = times(times(d, was[CELL]), slope_of_sigmoid(k[1]));
        p[2 * h] = times(times(d, k[0]), slope_of_tanh(k[2]));
        p[3 * h] = times(times(dh, k[CELL_TANH]), slope_of_sigmoid(k[3]));
        for (int g = 0; g < 4; g++) q[g * h] = p[g * h];
        w->dc[j] = times(d, k[1]);
        return (ball){0};
    }
    const ball dn = times(times(dh, less(ONE, k[1])), slope_of_tanh(k[2]));

    p[0] = q[0] = times(times(dn, k[QN]), slope_of_sigmoid(k[0]));
    p[h] = q[h] = times(times(dh, less(was[STATE], k[2])), slope_of_sigmoid(k[1]));
    p[2 * h] = dn;
    q[2 * h] = times(dn, k[0]);
    return times(dh, k[1]);
}

/* The sum over rows of d and a column of the weight. */
static ball column(const work *w, const ball *d, const float *weight, int64_t columns, int64_t k)
{
    sum s = {0};

    for (int64_t u = 0; u < w->rows; u++) add_term(&s, d[u], exact(weight, u * columns + k));
    return total(&s, w->rows);
}

static void grow(const work *w, const float *x, const ball *past)
{
    for (int64_t u = 0; u < w->rows; u++) {
        for (int64_t k = 0; k < w->width; k++)
            add_term(&w->grown[0][u * w->width + k], w->p[u], exact(x, k));
        for (int64_t k = 0; k < w->hidden; k++)
            add_term(&w->grown[1][u * w->hidden + k], w->q[u], past[k * KEPT + STATE]);
        add_term(&w->grown[2][u], w->p[u], ONE);
        add_term(&w->grown[3][u], w->q[u], ONE);
    }
}

static void sample_backward(const work *w, int64_t n)
{
    const float *x = (const float *)w->t->in[0] + n * w->positions * w->width;
    const float *dy = w->t->d_out + n * w->positions * w->hidden;

    for (int64_t j = 0; j < w->hidden; j++) w->dh[j] = w->dc[j] = (ball){0};
    for (int64_t step = w->positions - 1; step >= 0; step--) {
        const int64_t t = position_of(w, step);
        const ball *past = before(w, step);
        const bool held = holds(w, n, t);

        for (int64_t u = 0; held && u < w->rows; u++) w->p[u] = w->q[u] = (ball){0};
        for (int64_t j = 0; j < w->hidden; j++) {
            w->dh[j] = plus(w->dh[j], exact(dy, t * w->hidden + j));
            if (held) continue;
            w->dh[j] = cell_backward(w, j, w->kept + t * KEPT * w->hidden, past);
        }
        for (int64_t k = 0; k < w->hidden; k++)
            w->dh[k] = plus(w->dh[k], column(w, w->q, w->t->param[1], w->hidden, k));
        for (int64_t k = 0; k < w->width; k++) {
            const ball d = column(w, w->p, w->t->param[0], w->width, k);
            w->out->d_in[0][(n * w->positions + t) * w->width + k] = stored(d);
        }
        grow(w, x + t * w->width, past);
    }
}

static lks_status prepare(work *w)
{
    const int64_t count[] = {
        w->positions * w->hidden * KEPT, w->hidden * KEPT, w->rows, w->rows, w->hidden, w->hidden};
    ball **const at[] = {&w->kept, &w->first, &w->p, &w->q, &w->dh, &w->dc};
    void *memory;

    for (int i = 0; i < 6; i++) {
        LKI_TRY(lki_trial_memory(w->t, &memory, (size_t)count[i] * sizeof(ball)));
        *at[i] = memory;
        for (int64_t k = 0; k < count[i]; k++) (*at[i])[k] = (ball){0};
    }
    for (int i = 0; i < 4; i++) {
        const int64_t elements = lki_trial_param_elements(w->t, i);

        LKI_TRY(lki_trial_memory(w->t, &memory, (size_t)elements * sizeof(sum)));
        w->grown[i] = memory;
        for (int64_t k = 0; k < elements; k++) w->grown[i][k] = (sum){0};
    }
    return LKS_OK;
}

lks_status lki_bounds_recurrent(lki_trial *t, bool backward, const lki_trial_result *ref,
                                lki_bounds *out)
{
    const lki_node *node = lki_trial_first(t);
    const lks_recurrent_opts *opts = node->attr;
    work w = {.t = t,
              .node = node,
              .positions = node->in[0]->shape.dim[0],
              .width = node->in[0]->shape.dim[1],
              .hidden = opts->hidden,
              .rows = node->param[0].shape.dim[0],
              .reverse = opts->reverse,
              .masked = opts->masked,
              .padding = (int32_t)opts->padding,
              .relu = opts->nonlinearity == LKS_NONLINEARITY_RELU,
              .out = out};

    (void)ref;
    LKI_TRY(prepare(&w));
    for (int64_t n = 0; n < t->count; n++) {
        sample_forward(&w, n);
        if (backward) sample_backward(&w, n);
    }
    for (int i = 0; backward && i < 4; i++) {
        for (int64_t e = 0; e < lki_trial_param_elements(t, i); e++) {
            const ball d = total(&w.grown[i][e], t->count * w.positions);
            out->d_param[i][e] = stored(d);
        }
    }
    return LKS_OK;
}

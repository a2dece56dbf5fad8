/*
 * rnn, lstm, gru: a share at a time. The products of the input are those of a dense layer whose samples are all positions of
 * all samples, in one call; then, position by position, the states of all samples are multiplied at once, and the cells follow
 * in vector loops. Backward goes the other way, and forms the gradients of both weights by one product each at its end:
 *
 *   forward    p = weight_ih x of [sample][position] | per position: q = weight_hh h of [sample], gates, cells, h
 *   backward   per position: cells, d_q, d_h += weight_hh' d_q | d_x = weight_ih' d_p | d_weight_ih, d_weight_hh
 *
 * A position of a sample is a *place*: arrays of them are [sample][position].
 */
#include <string.h>

#include "backend/cpu/recurrent/recurrent.h"

/* q of all samples; where the state in front of the first position is zero q is the bias. */
static void products_of_states(const lki_recurrent_share *s, int64_t step)
{
    const lki_recurrent_plan *p = s->p;
    const float *bias = s->args->param[3];
    for (int64_t n = 0; n < s->count && step == 0 && s->stride > 0; n++)
        memcpy(s->h + n * p->hidden, lki_recurrent_h_before(s, n, -1),
               sizeof(float) * (size_t)p->hidden);
    if (step > 0 || s->stride > 0) {
        s->vector->dense->forward(&p->hh, s->count, s->h,
                                  (const char *)s->args->packed + p->packed_hh, bias, s->q,
                                  s->args->workspace);
        return;
    }
    for (int64_t u = 0; u < p->rows; u++) s->q[u] = lki_flush(bias[u]);
    for (int64_t n = 1; n < s->count; n++)
        memcpy(s->q + n * p->rows, s->q, sizeof(float) * (size_t)p->rows);
}

static void lstm_forward(const lki_recurrent_share *s, int64_t at, const float *past,
                         const float *q, float *h)
{
    const int64_t hidden = s->p->hidden;
    float *gates = s->gates + at * 4 * hidden, *cell = s->kept + at * 2 * hidden;
    const lki_vector_activation *f = s->vector->activation;
    s->vector->element->sum(4 * hidden, gates, q, gates);
    f[LKI_SIGMOID].forward(2 * hidden, 0.0f, gates, gates);
    f[LKI_TANH].forward(hidden, 0.0f, gates + 2 * hidden, gates + 2 * hidden);
    f[LKI_SIGMOID].forward(hidden, 0.0f, gates + 3 * hidden, gates + 3 * hidden);
    s->vector->recurrent->lstm_cell(hidden, gates, past, cell);
    f[LKI_TANH].forward(hidden, 0.0f, cell, cell + hidden);
    s->vector->product->product(hidden, gates + 3 * hidden, cell + hidden, h, false);
}

static void gru_forward(const lki_recurrent_share *s, int64_t at, const float *past, const float *q,
                        float *h)
{
    const int64_t hidden = s->p->hidden;
    float *gates = s->gates + at * 3 * hidden;
    const lki_vector_activation *f = s->vector->activation;
    s->vector->element->sum(2 * hidden, gates, q, gates);
    f[LKI_SIGMOID].forward(2 * hidden, 0.0f, gates, gates);
    memcpy(s->kept + at * hidden, q + 2 * hidden, sizeof(float) * (size_t)hidden);
    s->vector->recurrent->gru_new(hidden, gates, q + 2 * hidden, gates + 2 * hidden);
    f[LKI_TANH].forward(hidden, 0.0f, gates + 2 * hidden, gates + 2 * hidden);
    s->vector->recurrent->gru_state(hidden, gates, past, h);
}

static void rnn_forward(const lki_recurrent_share *s, int64_t at, const float *q, float *h)
{
    const int64_t hidden = s->p->hidden;
    float *gates = s->gates + at * hidden;
    s->vector->element->sum(hidden, gates, q, gates);
    if (s->p->relu)
        s->vector->element->relu(hidden, gates, h);
    else
        s->vector->activation[LKI_TANH].forward(hidden, 0.0f, gates, h);
}

/* The state of sample n at a step, from q. */
static void cell_forward(const lki_recurrent_share *s, int64_t n, int64_t step)
{
    const lki_recurrent_plan *p = s->p;
    const size_t bytes = sizeof(float) * (size_t)p->hidden;
    const int64_t at = lki_recurrent_place(p, n, step),
                  before = lki_recurrent_place(p, n, step - 1);
    const float *q = s->q + n * p->rows;
    float *h = (float *)s->args->out + at * p->hidden;
    if (lki_recurrent_holds(s, at)) {
        memcpy(h, lki_recurrent_h_before(s, n, before), bytes);
        if (p->op == LKI_OP_LSTM)
            memcpy(s->kept + at * p->kept, lki_recurrent_c_before(s, n, before), bytes);
    } else if (p->op == LKI_OP_LSTM) {
        lstm_forward(s, at, lki_recurrent_c_before(s, n, before), q, h);
    } else if (p->op == LKI_OP_GRU) {
        gru_forward(s, at, lki_recurrent_h_before(s, n, before), q, h);
    } else {
        rnn_forward(s, at, q, h);
    }
    memcpy(s->h + n * p->hidden, h, bytes);
}

/* What samples leave for what is behind theirs. */
static void leave(const lki_recurrent_share *s, float *leaves)
{
    const lki_recurrent_plan *p = s->p;
    const size_t bytes = sizeof(float) * (size_t)p->hidden;
    const int64_t floats = lki_recurrent_carried_floats(p);
    for (int64_t n = 0; n < s->count; n++) {
        const int64_t last = lki_recurrent_place(p, n, p->positions - 1);
        float *to = leaves + n * floats;
        memcpy(to, lki_recurrent_h_before(s, n, last), bytes);
        if (p->op == LKI_OP_LSTM) memcpy(to + p->hidden, lki_recurrent_c_before(s, n, last), bytes);
    }
}

static void recurrent_forward(const lki_recurrent_plan *p, const lki_args *args)
{
    const lki_recurrent_share s = lki_recurrent_share_of(p, args);
    s.vector->dense->forward(&p->ih, s.count * p->positions, args->in[0], args->packed,
                             args->param[2], s.gates, args->workspace);
    for (int64_t step = 0; step < p->positions; step++) {
        products_of_states(&s, step);
        for (int64_t n = 0; n < s.count; n++) cell_forward(&s, n, step);
    }
    if (args->leaves != NULL) leave(&s, args->leaves);
    if (args->state != NULL) leave(&s, args->state);
}

/* Samples that are positions of one text are computed as one sample that has them. */
static lks_status cpu_recurrent_forward(const lki_plan *plan, const lki_args *args)
{
    lki_recurrent_plan text = *lki_recurrent_plan_of(plan);
    lki_args all = *args;
    if (args->state != NULL) {
        text.positions = args->count;
        all.count = 1;
    }
    recurrent_forward(&text, &all);
    return LKS_OK;
}

#define KERNEL(id)                                                                                 \
    const lki_kernel lki_cpu_##id = {                                                              \
        .plan_bytes = sizeof(lki_recurrent_plan),                                                  \
        .span = LKI_SPAN_SHARE,                                                                    \
        .follows = true,                                                                           \
        .plan = lki_recurrent_plan_make,                                                           \
        .pack = lki_recurrent_pack,                                                                \
        .forward = cpu_recurrent_forward,                                                          \
        .backward = lki_recurrent_backward,                                                        \
        .rows = lki_recurrent_rows,                                                                \
        .no_rows = lki_recurrent_no_rows,                                                          \
    }

KERNEL(rnn);
KERNEL(lstm);
KERNEL(gru);

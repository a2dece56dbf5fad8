/* Backward of rnn, lstm and gru, and the gradients of their weights: of a replica, or by rows. */
#include <string.h>

#include "backend/cpu/recurrent/recurrent.h"

/* Gradients of p and q of sample n at this step, from that of its state; and what else the cell before gets, or, of gru, the
 * state before. */
static void cell_backward(const lki_recurrent_share *s, int64_t n, int64_t step)
{
    const lki_recurrent_plan *p = s->p;
    const int64_t hidden = p->hidden, at = lki_recurrent_place(p, n, step),
                  before = lki_recurrent_place(p, n, step - 1);
    const float *out = s->args->out;
    float *d_p = s->d_p + at * p->rows, *d_q = s->d_q + at * p->rows;
    lki_recurrent_row row = {.gates = s->gates + at * p->rows,
                             .kept = s->kept + at * p->kept,
                             .past = lki_recurrent_h_before(s, n, before),
                             .d_h = s->d_h + n * hidden,
                             .carried = s->carried + n * hidden};
    if (lki_recurrent_holds(s, at)) {
        memset(d_p, 0, sizeof(float) * (size_t)p->rows);
        memset(d_q, 0, sizeof(float) * (size_t)p->rows);
    } else if (p->op == LKI_OP_LSTM) {
        row.kept += hidden;
        row.past = lki_recurrent_c_before(s, n, before);
        s->vector->recurrent->lstm_backward(hidden, &row, d_p);
    } else if (p->op == LKI_OP_GRU) {
        s->vector->recurrent->gru_backward(hidden, &row, d_p, d_q);
    } else if (p->relu) {
        s->vector->element->relu_backward(hidden, out + at * hidden, row.d_h, d_p, false);
    } else {
        s->vector->activation[LKI_TANH].backward(hidden, 0.0f, out + at * hidden, row.d_h, d_p,
                                                 false);
    }
    memcpy(s->q + n * p->rows, d_q, sizeof(float) * (size_t)p->rows);
}

/* The gradient of the state before: what comes in there, of gru and of padding what does not go through q, and what does. */
static void state_backward(const lki_recurrent_share *s, int64_t step)
{
    const lki_recurrent_plan *p = s->p;
    const int64_t hidden = p->hidden;
    for (int64_t n = 0; n < s->count; n++) {
        const float *d_out = s->args->d_out + lki_recurrent_place(p, n, step - 1) * hidden;
        float *d_h = s->d_h + n * hidden;
        if (lki_recurrent_holds(s, lki_recurrent_place(p, n, step)))
            s->vector->element->sum(hidden, d_out, d_h, d_h);
        else if (p->op == LKI_OP_GRU)
            s->vector->element->sum(hidden, d_out, s->carried + n * hidden, d_h);
        else
            memcpy(d_h, d_out, sizeof(float) * (size_t)hidden);
    }
    s->vector->dense->backward(&p->hh, s->count, NULL, s->q,
                               (const char *)s->args->packed + p->packed_hh, s->d_h, true,
                               s->args->workspace);
}

/* Of a weight and its bias, which are slots `weight` and `weight` + 2. */
typedef struct of_weight {
    const lki_rows *rows;
    int weight;
} of_weight;

static void weight_sum(void *user, lki_tree_node node, int slot, int64_t first, int64_t count,
                       const float *sums)
{
    const of_weight *to = user;
    to->rows->sum(to->rows->user, node, to->weight + 2 * slot, first, count, sums);
}

static void weight_soon(void *user, int slot, int64_t first, int64_t count, int64_t rows,
                        int64_t step)
{
    const of_weight *to = user;
    to->rows->soon(to->rows->user, to->weight + 2 * slot, first, count, rows, step);
}

static void weight_rows(const lki_recurrent_plan *p, const lki_rows *rows, int weight)
{
    const bool hh = weight == 1;
    of_weight to = {.rows = rows, .weight = weight};
    lki_rows own = *rows;
    own.in = hh ? rows->factor[LKI_PAST] : rows->in;
    own.d_out = rows->factor[hh && p->op == LKI_OP_GRU ? LKI_D_Q : LKI_D_P];
    own.sum = weight_sum;
    own.soon = rows->soon != NULL ? weight_soon : NULL;
    own.user = &to;
    own.column_first = own.column_count = 0; /* parts are rows, of both weights */
    if (rows->packed != NULL) {
        own.param = rows->param + weight;
        own.packed = (char *)rows->packed + (hh ? p->packed_hh : 0);
    }
    p->cpu.vector->dense->rows(hh ? &p->hh : &p->ih, &own);
}

void lki_recurrent_rows(const lki_plan *plan, const lki_rows *rows)
{
    for (int weight = 0; weight < 2; weight++)
        weight_rows(lki_recurrent_plan_of(plan), rows, weight);
}

/* As of one replica by rows. */
static void replica_rows(const lki_recurrent_share *s)
{
    const int64_t start[2] = {0, s->count};
    float *d_param[LKI_MAX_SLOTS];
    memcpy(d_param, s->args->d_param, sizeof d_param);
    const lki_rows rows = {.in = s->args->in[0],
                           .factor = {[LKI_D_P] = s->d_p, [LKI_PAST] = s->past, [LKI_D_Q] = s->d_q},
                           .start = start,
                           .replicas = 1,
                           .last = 1,
                           .row_count = s->p->rows,
                           .workspace = s->args->workspace,
                           .sum = lki_cpu_keep,
                           .user = d_param};
    for (int weight = 0; weight < 2; weight++)
        if (d_param[weight] != NULL || d_param[weight + 2] != NULL)
            weight_rows(s->p, &rows, weight);
}

/* The state in front of every place. */
static void states_before(const lki_recurrent_share *s)
{
    const lki_recurrent_plan *p = s->p;
    const size_t bytes = sizeof(float) * (size_t)p->hidden;
    for (int64_t n = 0; n < s->count; n++) {
        for (int64_t step = 0; step < p->positions; step++) {
            float *to = s->past + lki_recurrent_place(p, n, step) * p->hidden;
            memcpy(to, lki_recurrent_h_before(s, n, lki_recurrent_place(p, n, step - 1)), bytes);
        }
    }
}

lks_status lki_recurrent_backward(const lki_plan *plan, const lki_args *args)
{
    const lki_recurrent_share s = lki_recurrent_share_of(lki_recurrent_plan_of(plan), args);
    const lki_recurrent_plan *p = s.p;
    const size_t bytes = sizeof(float) * (size_t)(s.count * p->hidden);
    const int64_t last = p->positions - 1;
    memset(s.carried, 0, bytes);
    for (int64_t n = 0; n < s.count; n++)
        memcpy(s.d_h + n * p->hidden, args->d_out + lki_recurrent_place(p, n, last) * p->hidden,
               sizeof(float) * (size_t)p->hidden);
    for (int64_t step = last; step >= 0; step--) {
        for (int64_t n = 0; n < s.count; n++) cell_backward(&s, n, step);
        if (step > 0) state_backward(&s, step);
    }
    if (args->d_in[0] != NULL)
        s.vector->dense->backward(&p->ih, s.count * p->positions, NULL, s.d_p, args->packed,
                                  args->d_in[0], args->add_in & 1, args->workspace);
    states_before(&s);
    if (!p->cpu.plan.by_rows) replica_rows(&s);
    return LKS_OK;
}

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

#include "backend/cpu/cpu.h"
#include "base/memory.h"
#include "op/recurrent.h"

/* In the workspace, in floats behind what products need. */
typedef struct places {
    size_t q, h, d_h, carried, zeros, d_p, d_q, past;
} places;

typedef struct recurrent_plan {
    lki_cpu_plan cpu;
    lki_op_id op;
    int64_t positions, hidden, rows;
    int64_t kept; /* floats of a place behind its gates: cell and its tanh, or q of n */
    bool reverse, relu, masked;
    int32_t padding;
    lki_dense_shape ih, hh;
    size_t packed_hh, at; /* where it begins; where the arrays of the workspace do */
    places of;
} recurrent_plan;

static const recurrent_plan *recurrent(const lki_plan *plan)
{
    return (const recurrent_plan *)(const void *)plan;
}

static size_t largest(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* So many floats more; returns where they begin. */
static size_t reserve(size_t *bytes, int64_t samples, int64_t floats)
{
    const size_t at = *bytes;
    *bytes = lki_plus(at, lki_align(lki_times((size_t)samples, sizeof(float) * (size_t)floats)));
    return at;
}

static void plan_workspace(recurrent_plan *p, lki_plan *plan)
{
    const lki_vector_dense *dense = p->cpu.vector->dense;
    const int64_t most = plan->slice;
    size_t bytes = largest(dense->rows_bytes(),
                           dense->workspace_bytes(&p->ih, most * p->positions));
    bytes = lki_align(largest(bytes, dense->workspace_bytes(&p->hh, most)));
    p->of.q = reserve(&bytes, most, p->rows);
    p->of.h = reserve(&bytes, most, p->hidden);
    p->of.d_h = reserve(&bytes, most, p->hidden);
    p->of.carried = reserve(&bytes, most, p->hidden);
    p->of.zeros = reserve(&bytes, 1, p->hidden);
    p->of.d_p = p->of.d_q = reserve(&bytes, most, p->positions * p->rows);
    if (p->op == LKI_OP_GRU) p->of.d_q = reserve(&bytes, most, p->positions * p->rows);
    p->of.past = reserve(&bytes, most, p->positions * p->hidden);
    plan->needs.workspace_bytes = bytes;
}

/* Of a sample, from position to position. */
static int64_t carried_floats(const recurrent_plan *p)
{
    return (p->op == LKI_OP_LSTM ? 2 : 1) * p->hidden;
}

static lks_status cpu_recurrent_plan(lki_plan *plan)
{
    recurrent_plan *p = (recurrent_plan *)(void *)plan;
    const lki_node *node = plan->cluster.node[0];
    const lks_recurrent_opts *opts = node->attr;
    LKI_TRY(lki_cpu_plan_start(plan));
    const lki_vector_dense *dense = p->cpu.vector->dense;
    p->op = node->op;
    p->positions = node->in[0]->shape.dim[0];
    p->hidden = opts->hidden;
    p->rows = node->param[0].shape.dim[0];
    p->kept = p->op == LKI_OP_LSTM ? 2 * p->hidden : p->op == LKI_OP_GRU ? p->hidden : 0;
    p->reverse = opts->reverse;
    p->masked = opts->masked;
    p->padding = (int32_t)opts->padding;
    p->relu = node->op == LKI_OP_RNN && opts->nonlinearity == LKS_NONLINEARITY_RELU;
    p->ih = (lki_dense_shape){.inputs = node->in[0]->shape.dim[1], .units = p->rows, .bias = true};
    p->hh = (lki_dense_shape){.inputs = p->hidden, .units = p->rows, .bias = true};
    p->packed_hh = lki_align(dense->packed_bytes(&p->ih));
    plan->needs.reads = LKI_READS_IN | LKI_READS_OUT;
    plan->needs.packed_bytes = lki_plus(p->packed_hh, dense->packed_bytes(&p->hh));
    plan->needs.packs = 3;
    plan->needs.saved_bytes = lki_times((size_t)p->positions,
                                        sizeof(float) * (size_t)(p->rows + p->kept));
    plan->needs.state_bytes = sizeof(float) * (size_t)carried_floats(p);
    plan_workspace(p, plan);
    return LKS_OK;
}

static void cpu_recurrent_pack(const lki_plan *plan, int slot, const float *weight, void *packed,
                               int64_t first, int64_t count)
{
    const recurrent_plan *p = recurrent(plan);
    p->cpu.vector->dense->pack(slot == 0 ? &p->ih : &p->hh, weight,
                               (char *)packed + (slot == 0 ? 0 : p->packed_hh), first, count);
}

/* A call: the share, and where its arrays are. */
typedef struct share {
    const recurrent_plan *p;
    const lki_vector *vector;
    const lki_args *args;
    int64_t count;
    float *gates, *kept; /* of places: [rows], [p->kept] */
    float *q, *h;        /* of samples, at this position; in backward gradients of q and */
    float *d_h, *carried;
    const float *first_h, *first_c; /* of samples, in front of their first positions; */
    int64_t stride;                 /* and where the next one's are; 0: all are zeros */
    float *d_p, *d_q, *past;        /* of places */
} share;

static share share_of(const recurrent_plan *p, const lki_args *args)
{
    char *at = args->workspace;
    share s = {.p = p, .vector = p->cpu.vector, .args = args, .count = args->count};
    s.gates = args->saved;
    s.kept = s.gates + s.count * p->positions * p->rows;
    s.q = (float *)(void *)(at + p->of.q);
    s.h = (float *)(void *)(at + p->of.h);
    s.d_h = (float *)(void *)(at + p->of.d_h);
    s.carried = (float *)(void *)(at + p->of.carried);
    s.d_p = (float *)(void *)(at + p->of.d_p);
    s.d_q = (float *)(void *)(at + p->of.d_q);
    s.past = (float *)(void *)(at + p->of.past);
    const float *begins = args->at > 0 ? args->state : args->begins;
    if (begins != NULL) {
        s.stride = carried_floats(p);
        s.first_h = begins;
        s.first_c = begins + p->hidden;
    } else {
        s.first_h = s.first_c = memset(at + p->of.zeros, 0, sizeof(float) * (size_t)p->hidden);
    }
    return s;
}

/* The position that is computed as number `step`. */
static int64_t position_of(const recurrent_plan *p, int64_t step)
{
    return p->reverse ? p->positions - 1 - step : step;
}

/* The place of sample n at that step, and the one before; -1: there is none. */
static int64_t place_of(const recurrent_plan *p, int64_t n, int64_t step)
{
    return step < 0 ? -1 : n * p->positions + position_of(p, step);
}

/* The states of a sample in front of a step; `before` is the place of the step before. */
static const float *h_before(const share *s, int64_t n, int64_t before)
{
    return before < 0 ? s->first_h + n * s->stride
                      : (const float *)s->args->out + before * s->p->hidden;
}

static const float *c_before(const share *s, int64_t n, int64_t before)
{
    return before < 0 ? s->first_c + n * s->stride : s->kept + before * s->p->kept;
}

/* Whether a place is padding: its state is that of the place before. */
static bool holds(const share *s, int64_t at)
{
    return s->p->masked && ((const int32_t *)s->args->in[1])[at] == s->p->padding;
}

/* q of all samples; where the state in front of the first position is zero q is the bias. */
static void products_of_states(const share *s, int64_t step)
{
    const recurrent_plan *p = s->p;
    const float *bias = s->args->param[3];
    for (int64_t n = 0; n < s->count && step == 0 && s->stride > 0; n++)
        memcpy(s->h + n * p->hidden, h_before(s, n, -1), sizeof(float) * (size_t)p->hidden);
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

static void lstm_forward(const share *s, int64_t at, const float *past, const float *q, float *h)
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

static void gru_forward(const share *s, int64_t at, const float *past, const float *q, float *h)
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

static void rnn_forward(const share *s, int64_t at, const float *q, float *h)
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
static void cell_forward(const share *s, int64_t n, int64_t step)
{
    const recurrent_plan *p = s->p;
    const size_t bytes = sizeof(float) * (size_t)p->hidden;
    const int64_t at = place_of(p, n, step), before = place_of(p, n, step - 1);
    const float *q = s->q + n * p->rows;
    float *h = (float *)s->args->out + at * p->hidden;
    if (holds(s, at)) {
        memcpy(h, h_before(s, n, before), bytes);
        if (p->op == LKI_OP_LSTM) memcpy(s->kept + at * p->kept, c_before(s, n, before), bytes);
    } else if (p->op == LKI_OP_LSTM) {
        lstm_forward(s, at, c_before(s, n, before), q, h);
    } else if (p->op == LKI_OP_GRU) {
        gru_forward(s, at, h_before(s, n, before), q, h);
    } else {
        rnn_forward(s, at, q, h);
    }
    memcpy(s->h + n * p->hidden, h, bytes);
}

/* What samples leave for what is behind theirs. */
static void leave(const share *s, float *leaves)
{
    const recurrent_plan *p = s->p;
    const size_t bytes = sizeof(float) * (size_t)p->hidden;
    const int64_t floats = carried_floats(p);
    for (int64_t n = 0; n < s->count; n++) {
        const int64_t last = place_of(p, n, p->positions - 1);
        float *to = leaves + n * floats;
        memcpy(to, h_before(s, n, last), bytes);
        if (p->op == LKI_OP_LSTM) memcpy(to + p->hidden, c_before(s, n, last), bytes);
    }
}

static void recurrent_forward(const recurrent_plan *p, const lki_args *args)
{
    const share s = share_of(p, args);
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
    recurrent_plan text = *recurrent(plan);
    lki_args all = *args;
    if (args->state != NULL) {
        text.positions = args->count;
        all.count = 1;
    }
    recurrent_forward(&text, &all);
    return LKS_OK;
}

/* Gradients of p and q of sample n at this step, from that of its state; and what else the cell before gets, or, of gru, the
 * state before. */
static void cell_backward(const share *s, int64_t n, int64_t step)
{
    const recurrent_plan *p = s->p;
    const int64_t hidden = p->hidden, at = place_of(p, n, step), before = place_of(p, n, step - 1);
    const float *out = s->args->out;
    float *d_p = s->d_p + at * p->rows, *d_q = s->d_q + at * p->rows;
    lki_recurrent_row row = {.gates = s->gates + at * p->rows,
                             .kept = s->kept + at * p->kept,
                             .past = h_before(s, n, before),
                             .d_h = s->d_h + n * hidden,
                             .carried = s->carried + n * hidden};
    if (holds(s, at)) {
        memset(d_p, 0, sizeof(float) * (size_t)p->rows);
        memset(d_q, 0, sizeof(float) * (size_t)p->rows);
    } else if (p->op == LKI_OP_LSTM) {
        row.kept += hidden;
        row.past = c_before(s, n, before);
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
static void state_backward(const share *s, int64_t step)
{
    const recurrent_plan *p = s->p;
    const int64_t hidden = p->hidden;
    for (int64_t n = 0; n < s->count; n++) {
        const float *d_out = s->args->d_out + place_of(p, n, step - 1) * hidden;
        float *d_h = s->d_h + n * hidden;
        if (holds(s, place_of(p, n, step)))
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

/* Where the sums of a weight and its bias go; NULL: nowhere. */
typedef struct gradients {
    float *of[2];
} gradients;

static void cpu_recurrent_keep(void *user, lki_tree_node node, int param, int64_t first,
                               int64_t count, const float *sums)
{
    const gradients *to = user;
    (void)node;
    if (to->of[param] != NULL) memcpy(to->of[param] + first, sums, (size_t)count * sizeof *sums);
}

/* Of a weight and its bias, over all places. */
static void weight_backward(const share *s, const lki_dense_shape *shape, const float *in,
                            const float *d_out, int weight)
{
    const int64_t start[2] = {0, s->count * s->p->positions};
    gradients to = {{s->args->d_param[weight], s->args->d_param[weight + 2]}};
    const lki_rows rows = {.in = in,
                           .d_out = d_out,
                           .start = start,
                           .replicas = 1,
                           .last = 1,
                           .row_count = s->p->rows,
                           .workspace = s->args->workspace,
                           .sum = cpu_recurrent_keep,
                           .user = &to};
    if (to.of[0] != NULL || to.of[1] != NULL) s->vector->dense->rows(shape, &rows);
}

/* The state in front of every place. */
static void states_before(const share *s)
{
    const recurrent_plan *p = s->p;
    const size_t bytes = sizeof(float) * (size_t)p->hidden;
    for (int64_t n = 0; n < s->count; n++) {
        for (int64_t step = 0; step < p->positions; step++) {
            float *to = s->past + place_of(p, n, step) * p->hidden;
            memcpy(to, h_before(s, n, place_of(p, n, step - 1)), bytes);
        }
    }
}

static lks_status cpu_recurrent_backward(const lki_plan *plan, const lki_args *args)
{
    const share s = share_of(recurrent(plan), args);
    const recurrent_plan *p = s.p;
    const size_t bytes = sizeof(float) * (size_t)(s.count * p->hidden);
    const int64_t last = p->positions - 1;
    memset(s.carried, 0, bytes);
    for (int64_t n = 0; n < s.count; n++)
        memcpy(s.d_h + n * p->hidden, args->d_out + place_of(p, n, last) * p->hidden,
               sizeof(float) * (size_t)p->hidden);
    for (int64_t step = last; step >= 0; step--) {
        for (int64_t n = 0; n < s.count; n++) cell_backward(&s, n, step);
        if (step > 0) state_backward(&s, step);
    }
    if (args->d_in[0] != NULL)
        s.vector->dense->backward(&p->ih, s.count * p->positions, NULL, s.d_p, args->packed,
                                  args->d_in[0], args->add_in & 1, args->workspace);
    states_before(&s);
    weight_backward(&s, &p->ih, args->in[0], s.d_p, 0);
    weight_backward(&s, &p->hh, s.past, s.d_q, 1);
    return LKS_OK;
}

#define KERNEL(id)                                                                                 \
    const lki_kernel lki_cpu_##id = {                                                              \
        .plan_bytes = sizeof(recurrent_plan),                                                      \
        .span = LKI_SPAN_SHARE,                                                                    \
        .follows = true,                                                                           \
        .plan = cpu_recurrent_plan,                                                                \
        .pack = cpu_recurrent_pack,                                                                \
        .forward = cpu_recurrent_forward,                                                          \
        .backward = cpu_recurrent_backward,                                                        \
    }

KERNEL(rnn);
KERNEL(lstm);
KERNEL(gru);

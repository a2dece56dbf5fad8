/*
 * rnn, lstm, gru: what the passes have in common. recurrent_plan.c plans, recurrent.c goes forward, recurrent_backward.c
 * back.
 */
#ifndef LKI_CPU_RECURRENT_H
#define LKI_CPU_RECURRENT_H

#include "backend/cpu/cpu.h"
#include "op/recurrent.h"

/* lki_needs.factor_bytes */
enum { LKI_D_P, LKI_PAST, LKI_D_Q };

/* In the workspace, in floats behind what products need. */
typedef struct lki_recurrent_places {
    size_t q, h, d_h, carried, zeros, d_p, d_q, past;
} lki_recurrent_places;

typedef struct lki_recurrent_plan {
    lki_cpu_plan cpu;
    lki_op_id op;
    int64_t positions, hidden, rows;
    int64_t kept; /* floats of a place behind its gates: cell and its tanh, or q of n */
    bool reverse, relu, masked;
    int32_t padding;
    lki_dense_shape ih, hh;
    size_t packed_hh; /* where it begins */
    lki_recurrent_places of;
} lki_recurrent_plan;

/* A call: the share, and where its arrays are. */
typedef struct lki_recurrent_share {
    const lki_recurrent_plan *p;
    const lki_vector *vector;
    const lki_args *args;
    int64_t count;
    float *gates, *kept; /* of places: [rows], [p->kept] */
    float *q, *h;        /* of samples, at this position; in backward gradients of q and */
    float *d_h, *carried;
    const float *first_h, *first_c; /* of samples, in front of their first positions; */
    int64_t stride;                 /* and where the next one's are; 0: all are zeros */
    float *d_p, *d_q, *past;        /* of places */
} lki_recurrent_share;

/* Of a sample, from position to position. */
static inline int64_t lki_recurrent_carried_floats(const lki_recurrent_plan *p)
{
    return (p->op == LKI_OP_LSTM ? 2 : 1) * p->hidden;
}

/* The position that is computed as number `step`. */
static inline int64_t lki_recurrent_position(const lki_recurrent_plan *p, int64_t step)
{
    return p->reverse ? p->positions - 1 - step : step;
}

/* The place of sample n at that step, and the one before; -1: there is none. */
static inline int64_t lki_recurrent_place(const lki_recurrent_plan *p, int64_t n, int64_t step)
{
    return step < 0 ? -1 : n * p->positions + lki_recurrent_position(p, step);
}

/* The states of a sample in front of a step; `before` is the place of the step before. */
static inline const float *lki_recurrent_h_before(const lki_recurrent_share *s, int64_t n,
                                                  int64_t before)
{
    return before < 0 ? s->first_h + n * s->stride
                      : (const float *)s->args->out + before * s->p->hidden;
}

static inline const float *lki_recurrent_c_before(const lki_recurrent_share *s, int64_t n,
                                                  int64_t before)
{
    return before < 0 ? s->first_c + n * s->stride : s->kept + before * s->p->kept;
}

/* Whether a place is padding: its state is that of the place before. */
static inline bool lki_recurrent_holds(const lki_recurrent_share *s, int64_t at)
{
    return s->p->masked && ((const int32_t *)s->args->in[1])[at] == s->p->padding;
}

static inline const lki_recurrent_plan *lki_recurrent_plan_of(const lki_plan *plan)
{
    return (const lki_recurrent_plan *)(const void *)plan;
}

lks_status lki_recurrent_plan_make(lki_plan *plan);
void lki_recurrent_pack(const lki_plan *plan, int slot, const float *weight, void *packed,
                        int64_t first, int64_t count);
/* lki_kernel.no_rows */
const char *lki_recurrent_no_rows(const lki_plan *plan);
lki_recurrent_share lki_recurrent_share_of(const lki_recurrent_plan *p, const lki_args *args);

lks_status lki_recurrent_backward(const lki_plan *plan, const lki_args *args);
void lki_recurrent_rows(const lki_plan *plan, const lki_rows *rows);

#endif

/* One operation on balls: what balls.c runs, node by node. */
#ifndef LKT_BALLS_OPS_H
#define LKT_BALLS_OPS_H

#include <math.h>

#include "support/chains/balls.h"

/* A node on the samples of a replica. d_in and d_param are added to. */
typedef struct lkt_balls_task {
    const lki_node *node;
    int64_t count;
    bool training;
    const lkt_ball *in[LKI_MAX_IN], *d_out;
    lkt_ball *out, *d_in[LKI_MAX_IN], *d_param[LKI_MAX_PARAM];
    const float *param[LKI_MAX_PARAM];
    void *buffer[LKI_MAX_BUFFER];
    const uint8_t *dropped; /* dropout in training: 1 where it drops */
} lkt_balls_task;

/* Roundings are the caller's. An operation that there are no balls for fails the test. */
void lkt_balls_forward(const lkt_balls_task *t);
void lkt_balls_backward(const lkt_balls_task *t);

static inline lkt_ball lkt_ball_times(lkt_ball a, lkt_ball b)
{
    return (lkt_ball){a.v * b.v, fabs(a.v) * b.r + fabs(b.v) * a.r + a.r * b.r};
}

static inline void lkt_ball_add(lkt_ball *to, lkt_ball a)
{
    to->v += a.v;
    to->r += a.r;
}

#endif

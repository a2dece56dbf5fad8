/*
 * A whole network in double, forward and backward, where every value is a ball: the number from the formulas, and
 * how far a backend's may be from it, whatever it computes together. For tests of fused kernels as a model runs them.
 *
 * An operation that is given balls gives balls (a + b: radii add; a * b: |a| r_b + |b| r_a + r_a r_b; and so on),
 * and on top of each comes what a backend may err by on exact inputs: the bounds of src/check/bounds.c, Winograd's
 * included. Where a ball leaves open which way a number goes (relu about 0, two that may be the maximum of a window)
 * the gradient's ball has all of them. So nothing is drawn again, and no tolerance is chosen.
 */
#ifndef LKT_BALLS_H
#define LKT_BALLS_H

#include "support/ops.h"

typedef struct lkt_ball {
    double v, r; /* center and radius */
} lkt_ball;

enum { LKT_BALLS_NODES = 24 };

/* What is computed: all nodes of a graph. */
typedef struct lkt_balls_of {
    lks_context *context;
    lks_graph *graph;
    const lks_tensor *loss;
    lki_switches switches;
    int64_t count;
    int replicas;
    bool training; /* else forward alone */
    bool bare;     /* in training, too, and centers alone: radii are 0 */
    uint64_t seed, step;
    const void *x;                                /* [count][input] */
    const float *y;                               /* [count][target] */
    float *param[LKT_BALLS_NODES][LKI_MAX_PARAM]; /* by number of the node */
    void *buffer[LKT_BALLS_NODES][LKI_MAX_BUFFER];
} lkt_balls_of;

/* Every node's output, and in training the mean gradients of parameters; NULL where there is none. */
typedef struct lkt_balls {
    lkt_ball *out[LKT_BALLS_NODES]; /* [count][output] */
    lkt_ball *d_param[LKT_BALLS_NODES][LKI_MAX_PARAM];
    lkt_ball loss; /* mean */
    lkt_case memory;
} lkt_balls;

void lkt_balls_make(const lkt_balls_of *of, lkt_balls *out);
void lkt_balls_free(lkt_balls *balls);

#endif

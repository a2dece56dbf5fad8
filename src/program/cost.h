/* What a pass of a stage computes and moves, from the definitions of its operations. */
#ifndef LKI_PROGRAM_COST_H
#define LKI_PROGRAM_COST_H

#include "core/cluster.h"
#include "program/laps.h"

typedef struct lki_cost {
    double flops; /* two for each multiply-add of the definition, also where a kernel skips zeros */
    double bytes; /* read and written at least: values once a sample, parameters once a call */
} lki_cost;

/* FORWARD, BACKWARD and ROWS, and what PREPARE does in one call. Of a plan by rows BACKWARD leaves
 * gradients of parameters alone. */
lki_cost lki_cost_of(const lki_plan *plan, lki_phase pass, int64_t samples, int64_t calls);

/* Of all parameters of the cluster. */
double lki_cost_parameter_bytes(const lki_cluster *cluster);

#endif

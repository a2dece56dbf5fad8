/*
 * One operation, or a cluster of them, alone: its tensors, the kernels of any backend run on them as
 * a model does, and bounds on how far a backend may be from ref. What tests of kernels and
 * `lockstep op` rest on.
 *
 *     lki_trial t = {.context = ..., .cluster = ..., .count = 8, .training = true};
 *     lki_trial_memory(&t, &t.in[0], ...);  and so on, filled
 *     lki_trial_run(&t, backend, NULL, NULL, &result);
 *     lki_trial_release(&t);                               results too
 *
 * Arrays that a kernel must write start as NaN, scratch is spoilt before every call, and what lies
 * behind every array is checked: LKS_E_BUG says which promise a kernel broke.
 */
#ifndef LKI_CHECK_TRIAL_H
#define LKI_CHECK_TRIAL_H

#include "core/cluster.h"
#include "core/graph.h"

typedef struct lki_trial {
    lks_context *context;
    lks_graph *graph; /* the caller's: not used here */
    lki_cluster cluster;
    lki_switches switches; /* which kernels of single nodes are taken, and what a kernel is told */
    int64_t count;         /* samples of the replica */
    int64_t position;      /* of the first in the global batch */
    uint64_t step, key;
    bool training;
    bool
        by_rows; /* of a kernel that may: its backward leaves gradients of parameters to its rows */
    /* Contents: f32 unless the tensor says otherwise. NULL where there is none. */
    void *in[LKI_MAX_CLUSTER_IN];
    lks_mix *mix;
    float *d_out;
    float *param[LKI_MAX_SLOTS];
    void *buffer[LKI_MAX_BUFFER]; /* of cluster.counted */
    float *begins;                /* of a node that carries: [count][carries]; NULL: zeros */
    const lki_memory *memory;     /* of the device that runs it; NULL: the host's */
    struct lki_trial_block *blocks;
} lki_trial;

/* What a run gives; from the trial's memory. stats are those of cluster.counted. */
typedef struct lki_trial_result {
    float *out;
    float *d_in[LKI_MAX_CLUSTER_IN];
    float *d_param[LKI_MAX_SLOTS];
    double *stats;
    float *leaves; /* of a node that carries, as begins */
} lki_trial_result;

typedef struct lki_trial_how {
    int64_t slice;   /* largest piece, a power of two; default: the largest that fits */
    unsigned add_in; /* as in lki_args; d_in[i] starts as prior[i] there */
    const float *prior[LKI_MAX_CLUSTER_IN];
    unsigned skip_in; /* bit i: d_in[i] is not wanted */
    bool no_backward;
} lki_trial_how;

/* Guarded memory of the trial, every byte 0xff (floats: NaN). */
lks_status lki_trial_memory(lki_trial *t, void **out, size_t bytes);
void lki_trial_release(lki_trial *t); /* all of its memory */

/* Forward, and backward if the kernels have it, over all samples in pieces. `fused` computes the
 * whole cluster; NULL: each node by its own kernel. `how` may be NULL. */
lks_status lki_trial_run(lki_trial *t, const lki_backend *backend, const lki_kernel *fused,
                         const lki_trial_how *how, lki_trial_result *out);

/* Node and numbers of elements. */
const lki_node *lki_trial_first(const lki_trial *t);
const lki_node *lki_trial_last(const lki_trial *t);
int64_t lki_trial_in_elements(const lki_trial *t, int i); /* of all samples */
int64_t lki_trial_out_elements(const lki_trial *t);
int64_t lki_trial_param_elements(const lki_trial *t, int slot);
/* Whether backward gives d_in[i]: floats, and not the target of a loss. */
bool lki_trial_has_gradient(const lki_trial *t, int i);
bool lki_trial_gives_gradient(const lki_cluster *cluster, int i); /* of any cluster */
/* "conv2d filters=3 kernel=1x1 | relu, input 7x7x2, 5 samples"; returns buffer. */
const char *lki_trial_describe(const lki_trial *t, char *buffer, size_t size);

/* A planned and prepared kernel with what it needs; from the trial's memory. */
typedef struct lki_trial_stage {
    lki_plan *plan;
    void *packed, *saved, *replica, *sums;
    void *factor[LKI_MAX_FACTORS]; /* of a plan by rows */
    void *met;                     /* NULL: replicas do not meet in it */
    void *workspace;
    void *buffer[LKI_MAX_BUFFER]; /* where the kernel finds them */
} lki_trial_stage;
/* For a kernel of the device of t->memory; close it also after a failure. */
lks_status lki_trial_stage_open(lki_trial *t, const lki_kernel *kernel, const lki_cluster *cluster,
                                int64_t slice, unsigned skip_in, lki_trial_stage *out);
void lki_trial_stage_close(lki_trial_stage *stage);

/* The tensors of one stage, whole; NULL: none, or not wanted. */
typedef struct lki_trial_tensors {
    const void *in[LKI_MAX_CLUSTER_IN];
    float *d_in[LKI_MAX_CLUSTER_IN];
    void *out;
    const float *d_out;
    unsigned add_in;
    float *d_param[LKI_MAX_SLOTS];
    double *stats;
    const float *begins;
    float *leaves;
} lki_trial_tensors;
/* All samples in pieces; with `strict`, scratch and what backward did not ask for is spoilt, and so are gradients of
 * parameters until the last piece: LKS_E_BUG where one is written before. */
lks_status lki_trial_forward(const lki_trial *t, const lki_trial_stage *stage,
                             const lki_trial_tensors *tensors, bool strict);
lks_status lki_trial_backward(const lki_trial *t, const lki_trial_stage *stage,
                              const lki_trial_tensors *tensors, bool strict);

/*
 * Bounds on |backend - ref| of every element, derived in bounds.c. For one node.
 */
typedef struct lki_bounds {
    double *out;
    double *d_in[LKI_MAX_IN];
    double *d_param[LKI_MAX_PARAM];
    double *stats;
    double *leaves;
} lki_bounds;
/* `ref` is what ref gave for the trial; the bounds are from the trial's memory. */
lks_status lki_bounds_make(lki_trial *t, const lki_trial_how *how, const lki_trial_result *ref,
                           lki_bounds *out);

#endif

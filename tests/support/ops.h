/*
 * Running kernels of any backend on one node, or on a cluster of nodes, as the model does: the
 * library's trials (model/trial.h), filled with random numbers.
 *
 *     lkt_case_begin(&c);
 *     x = lks_input(c.graph, ...); y = lks_conv2d(c.graph, x, ...);
 *     lkt_case_end(&c, y, y, samples, LKT_RANDOM, &random);     allocates and fills tensors
 *     lkt_run(&c, backend, NULL, &how, &result);                each node by its kernel, or a fused one
 *     lkt_case_free(&c);                                        results too
 *
 * Failures are failures of the test.
 */
#ifndef LKT_OPS_H
#define LKT_OPS_H

#include "check/trial.h"
#include "support/test.h"

/* What tensors are filled with. */
typedef enum lkt_fill {
    LKT_RANDOM, /* in [-1, 1), f32 */
    LKT_EXACT,  /* multiples of 1/8 in [-1, 1], U8 0 or 255: sums of products are exact in f32; many
                   zeros and ties */
    LKT_SPACED, /* in[0]: distinct odd multiples of 1/16, for functions with kinks; else RANDOM */
} lkt_fill;

typedef lki_trial lkt_case;
typedef lki_trial_result lkt_result;
typedef lki_trial_how lkt_how;

void lkt_case_begin(lkt_case *c);
/* The nodes that depend on `first` and that `last` depends on, and these two. */
void lkt_case_end(lkt_case *c, lks_tensor *first, lks_tensor *last, int64_t count, lkt_fill fill,
                  lkt_random *random);
/* With the nodes of c->cluster instead, in order of the graph. */
void lkt_case_fill(lkt_case *c, int64_t count, lkt_fill fill, lkt_random *random);
void lkt_case_free(lkt_case *c);

/* Forward, and backward if the kernels have it, over all samples in pieces. `fused` computes the
 * whole cluster; NULL: each node by its own kernel. `how` may be NULL. */
void lkt_run(lkt_case *c, const lki_backend *backend, const lki_kernel *fused, const lkt_how *how,
             lkt_result *out);

/* Guarded memory of the case, every byte 0xff (floats: NaN). */
void *lkt_case_memory(lkt_case *c, size_t bytes);

/* The ref backend, the oracle. */
const lki_backend *lkt_ref(void);

/* Node and numbers of elements. */
const lki_node *lkt_first(const lkt_case *c);
const lki_node *lkt_last(const lkt_case *c);
int64_t lkt_in_elements(const lkt_case *c, int i); /* of all samples */
int64_t lkt_out_elements(const lkt_case *c);
int64_t lkt_param_elements(const lkt_case *c, int slot);
/* Whether backward gives d_in[i]: floats, and not the target of a loss. */
bool lkt_has_gradient(const lkt_case *c, int i);
/* "conv2d filters=3 kernel=1x1 | relu, input 7x7x2, 5 samples"; valid until the next call. */
const char *lkt_describe(const lkt_case *c);

/* A plan outside of lkt_run, for kernels' own tests: allocated, planned and prepared. */
typedef lki_trial_stage lkt_stage;
void lkt_stage_open(lkt_case *c, const lki_kernel *kernel, const lki_cluster *cluster,
                    int64_t slice, unsigned skip_in, lkt_stage *out);
void lkt_stage_close(lkt_stage *stage);

/*
 * Random operations: an input (and target) that suits `op`, and the op with random attributes. The
 * sizes are small and lean to edges: 1, primes, kernel = image, stride > kernel, dilation, groups.
 * With `exact`, attributes keep LKT_EXACT exact (powers of two in pools, dropout, normalize).
 */
lks_tensor *lkt_random_input(lks_graph *graph, lki_op_id op, lkt_random *random);
lks_tensor *lkt_random_op(lks_graph *graph, lki_op_id op, lks_tensor *x, bool exact,
                          lkt_random *random);
/* Of both, the part for sequences. The input of what may be masked is often an embedding of tokens, in which there may be
 * padding; recurrent is one layer in one direction. */
lks_tensor *lkt_random_sequence(lks_graph *graph, lki_op_id op, lkt_random *random);
lks_tensor *lkt_random_recurrent(lks_graph *graph, lks_tensor *x, lki_op_id op, lkt_random *random);
lks_tensor *lkt_random_attention(lks_graph *graph, lks_tensor *x, lkt_random *random);

/* One of the operations that may stand for a pattern's node. */
lki_op_id lkt_random_member(const lki_pattern_node *node, lkt_random *random);
/* A chain of random operations that the implementation takes, in c; what may be missing is, every other
 * time. A sum's other operand comes from outside. False: not this time. */
bool lkt_random_chain(const lki_impl *impl, bool exact, lkt_random *random, lkt_case *c);
/* Whether there are exact values for every operation that the implementation takes. */
bool lkt_exact_impl(const lki_impl *impl);

/*
 * Bounds on |backend - ref| of every element, derived in src/check/bounds.c. For one node.
 */
typedef lki_bounds lkt_bounds;
void lkt_bounds_make(lkt_case *c, const lkt_how *how, const lkt_result *ref, lkt_bounds *out);

#endif

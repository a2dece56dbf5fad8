/*
 * The reference backend: plain loops that say what every operation computes. It is the oracle for
 * the other backends and the build without dependencies.
 *
 * Everything is added up in double and rounded to f32 once, where it is stored. In sums of products, terms whose gradient or activation
 * is zero are left out, so 0 * infinity and 0 * NaN count as 0 (docs/numerics.md). What is stored is
 * lki_flush()ed, but for copies.
 */
#ifndef LKI_REF_KERNELS_H
#define LKI_REF_KERNELS_H

#include "base/check.h"
#include "core/backend.h"

#define X(ID, id) extern const lki_kernel lki_ref_##id;
LKI_COMPUTED_OP_LIST(X)
#undef X

void lki_ref_approach(int64_t count, float part, float *left, const float *right);
double lki_ref_dot(int64_t count, const float *a, const float *b);
void lki_ref_direction(const lki_update *update, int64_t count, const float *w,
                       float *const state[LKI_MAX_STATES], float *gradient,
                       double sum[LKI_ROW_SUMS]);
void lki_ref_update(const lki_update *update, int64_t count, float *w,
                    float *const state[LKI_MAX_STATES], const float *sums);

/* A plan without a choice: what backward reads, and scratch. */
static inline lks_status lki_ref_needs(lki_plan *plan, unsigned reads, size_t workspace_bytes)
{
    plan->needs = (lki_needs){
        .reads = reads, .workspace_bytes = workspace_bytes, .algorithm = "loops"};
    return LKS_OK;
}

/* Elements of a sample of the node's first input, and of its output. */
static inline int64_t lki_ref_in(const lki_plan *plan)
{
    return lks_shape_elements(&plan->cluster.node[0]->in[0]->shape);
}

static inline int64_t lki_ref_out(const lki_plan *plan)
{
    return lks_shape_elements(&plan->cluster.node[0]->out.shape);
}

/* Writes a gradient, or adds it to the one that is there. */
static inline void lki_ref_put(float *gradient, bool add, double value)
{
    *gradient = lki_round(add ? (double)*gradient + value : value);
}

/* Writes or adds `count` gradients. */
static inline void lki_ref_put_all(float *gradient, bool add, const double *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++) lki_ref_put(&gradient[i], add, values[i]);
}

#endif

/*
 * The cpu backend: single-threaded kernels, each worker on replicas of its own.
 *
 *   list.h       every implementation
 *   backend.c    the backend, and the choice of an instruction set
 *   <op>.c       one or a few kernels: plan, and calls into the vector functions; where there is more
 *                than an operation to say (a pattern, what is refused), the implementation
 *   vector/      loops, compiled once per instruction set
 */
#ifndef LKI_CPU_CPU_H
#define LKI_CPU_CPU_H

#include "backend/cpu/list.h"
#include "backend/cpu/vector/vector.h"
#include "base/check.h"
#include "core/cluster.h"

/* What this processor runs best, or LKS_ISA (portable, avx2, avx512, neon) from the environment of the
 * process where it can: no bit depends on it. Decided once. */
const lki_vector *lki_cpu_vector(void);
/* For tests: another one from now on, while there is no model and no other thread. */
void lki_cpu_vector_use(const lki_vector *vector);
/* By name; NULL when it is not built in or this processor cannot run it. */
const lki_vector *lki_cpu_vector_find(const char *name);

/* What every plan of this backend starts with. */
typedef struct lki_cpu_plan {
    lki_plan plan;
    const lki_vector *vector;
    int64_t in, out; /* elements of in[0] and of the output, for one sample */
} lki_cpu_plan;
/* Fills it; lki_kernel.plan of kernels that need no more. */
lks_status lki_cpu_plan_start(lki_plan *plan);

static inline const lki_cpu_plan *lki_cpu(const lki_plan *plan)
{
    return (const lki_cpu_plan *)(const void *)plan;
}

/* Directly; and as the switches want it, with its kernels and their name for people. */
lki_conv_shape lki_conv_shape_of(const lki_node *node);
/* As a call asks for it, which may want a part of the output. */
lki_conv_shape lki_conv_part(const lki_conv_shape *shape, const lki_args *args);
/* Of a call of a kernel whose first parameter is a convolution's weight. */
static inline lki_conv_weight lki_conv_weight_of(const lki_args *args)
{
    return (lki_conv_weight){.plain = args->param[0], .packed = args->packed};
}
bool lki_conv_is_depthwise(const lki_conv_shape *shape);
/* Taps that lie in the border at every pixel are left out: eight of nine where a 3x3 kernel sees one pixel. The terms
 * of the others keep their numbers, so that no bit depends on this. */
void lki_conv_leave_out(lki_conv_shape *shape);
bool lki_conv_is_first(const lki_conv_shape *shape); /* few channels: vector/conv/first.h */
const lki_vector_conv *lki_conv_choose(lki_plan *plan, const lki_node *node, lki_conv_shape *shape);
/* Why the convolution of a cluster that begins with normalize, conv2d cannot read bytes; NULL: it can. */
const char *lki_cpu_first_reads_no_bytes(const lki_cluster *cluster, const lki_switches *switches);
/* The gradients that `args` asks for. `y`: the output behind relu, where d_y is still the gradient of
 * that; else NULL. */
void lki_conv_backward(const lki_vector_conv *kernels, const lki_conv_shape *shape,
                       const lki_args *args, const float *d_y, const float *y);

/* What a normalize of bytes makes of each, [channels]; lki_free() frees it. */
lks_status lki_normalize_table(lks_context *context, const lki_node *node, int64_t channels,
                               float (**out)[256]);

/* The function of an activation (not relu), and its constant; whether its derivative is one of out. */
lki_activation lki_cpu_activation_of(const lki_node *node, float *constant);
bool lki_cpu_activation_reads_out(lki_activation id);

/* lki_rows.sum of one replica; user is float *const [slots], where they go: NULL: nowhere. (dense.c) */
void lki_cpu_keep(void *user, lki_tree_node node, int slot, int64_t first, int64_t count,
                  const float *sums);
/* Of each of the rows [first, first + rows) the places of `count` that name it, ascending: head[r], next[that], ...; behind
 * the last one comes -1. (embedding.c) */
void lki_cpu_list(int64_t first, int64_t rows, int64_t count, const int32_t *row, int32_t *head,
                  int32_t *next);

#define LKI_CPU_ACTIVATIONS                                                                        \
    (LKI_OPS(RELU) | LKI_OPS(RELU6) | LKI_OPS(LEAKY_RELU) | LKI_OPS(GELU) | LKI_OPS(SILU) |        \
     LKI_OPS(TANH) | LKI_OPS(SIGMOID) | LKI_OPS(SOFTPLUS))

#define LKI_CPU_DECLARE_IMPL(id)       extern const lki_impl lki_cpu_##id##_impl;
#define LKI_CPU_DECLARE_KERNEL(ID, id) extern const lki_kernel lki_cpu_##id;
LKI_CPU_IMPL_LIST(LKI_CPU_DECLARE_IMPL)
LKI_CPU_KERNEL_LIST(LKI_CPU_DECLARE_KERNEL)

#endif

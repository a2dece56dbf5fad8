/* The cpu backend's tables, and the choice of an instruction set. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu.h"

extern const lki_vector lki_vector_portable;
#ifdef LKI_HAVE_NEON
extern const lki_vector lki_vector_neon;
#endif
#ifdef LKI_HAVE_AVX2
extern const lki_vector lki_vector_avx2;
#endif
#ifdef LKI_HAVE_AVX512
extern const lki_vector lki_vector_avx512;
#endif

const lki_vector *lki_cpu_vector_find(const char *name)
{
#ifdef LKI_HAVE_AVX512
    if (strcmp(name, "avx512") == 0)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
                   ? &lki_vector_avx512
                   : NULL;
#endif
#ifdef LKI_HAVE_AVX2
    if (strcmp(name, "avx2") == 0)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &lki_vector_avx2
                                                                               : NULL;
#endif
#ifdef LKI_HAVE_NEON
    if (strcmp(name, "neon") == 0) return &lki_vector_neon; /* every 64-bit ARM has it */
#endif
    return strcmp(name, "portable") == 0 ? &lki_vector_portable : NULL;
}

static const lki_vector *chosen;

static void cpu_choose(void)
{
    const char *asked = getenv("LKS_ISA");
    if (asked != NULL) chosen = lki_cpu_vector_find(asked);
    if (chosen == NULL) chosen = lki_cpu_vector_find("avx512");
    if (chosen == NULL) chosen = lki_cpu_vector_find("avx2");
    if (chosen == NULL) chosen = lki_cpu_vector_find("neon");
    if (chosen == NULL) chosen = &lki_vector_portable;
}

const lki_vector *lki_cpu_vector(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, cpu_choose);
    return chosen;
}

void lki_cpu_vector_use(const lki_vector *vector)
{
    (void)lki_cpu_vector();
    chosen = vector;
}

lks_status lki_cpu_plan_start(lki_plan *plan)
{
    lki_cpu_plan *p = (lki_cpu_plan *)(void *)plan;
    const lki_chain *chain = &plan->chain;
    p->vector = lki_cpu_vector();
    p->in = lks_shape_elements(&chain->node[0]->in[0]->shape);
    p->out = lks_shape_elements(&chain->node[chain->count - 1]->out.shape);
    snprintf(plan->needs.algorithm, sizeof plan->needs.algorithm, "%s", p->vector->name);
    return LKS_OK;
}

static lks_status cpu_fingerprint(char *out, size_t size)
{
    const char *asked = getenv("LKS_ISA");
    if (asked != NULL && lki_cpu_vector_find(asked) == NULL)
        return LKI_FAIL(
            LKS_E_INVALID,
            "LKS_ISA is '%s', expected portable, avx2, avx512 or neon, and one that this "
            "processor and build have; unset it for the best",
            asked);
    snprintf(out, size, "%s", lki_cpu_vector()->name);
    return LKS_OK;
}

static void cpu_update(const lki_update *u, int64_t count, float *w,
                       float *const state[LKI_MAX_STATES], const float *sums)
{
    lki_cpu_vector()->element->update(u, count, w, state, sums);
}

static void cpu_add(int64_t count, float *left, const float *right)
{
    lki_cpu_vector()->element->add(count, left, right);
}

static void cpu_approach(int64_t count, float part, float *left, const float *right)
{
    lki_cpu_vector()->element->approach(count, part, left, right);
}

static double cpu_dot(int64_t count, const float *a, const float *b)
{
    return lki_cpu_vector()->element->dot(count, a, b);
}

static void direction(const lki_update *u, int64_t count, float *const state[LKI_MAX_STATES],
                      float *gradient)
{
    lki_cpu_vector()->element->direction(u, count, state, gradient);
}

static const lki_kernel *const kernels[LKI_OP_COUNT] = {
    [LKI_OP_NORMALIZE] = &lki_cpu_normalize,
    [LKI_OP_CONV2D] = &lki_cpu_conv2d,
    [LKI_OP_DENSE] = &lki_cpu_dense,
    [LKI_OP_BATCH_NORM] = &lki_cpu_batch_norm,
    [LKI_OP_LAYER_NORM] = &lki_cpu_layer_norm,
    [LKI_OP_MAX_POOL] = &lki_cpu_max_pool,
    [LKI_OP_AVG_POOL] = &lki_cpu_avg_pool,
    [LKI_OP_GLOBAL_AVG_POOL] = &lki_cpu_global_avg_pool,
    [LKI_OP_RELU] = &lki_cpu_relu,
    [LKI_OP_LEAKY_RELU] = &lki_cpu_leaky_relu,
    [LKI_OP_GELU] = &lki_cpu_gelu,
    [LKI_OP_SILU] = &lki_cpu_silu,
    [LKI_OP_TANH] = &lki_cpu_tanh,
    [LKI_OP_SIGMOID] = &lki_cpu_sigmoid,
    [LKI_OP_SOFTPLUS] = &lki_cpu_softplus,
    [LKI_OP_SCALE] = &lki_cpu_scale,
    [LKI_OP_ADD] = &lki_cpu_add,
    [LKI_OP_MUL] = &lki_cpu_mul,
    [LKI_OP_CONCAT] = &lki_cpu_concat,
    [LKI_OP_FLATTEN] = &lki_cpu_flatten,
    [LKI_OP_DROPOUT] = &lki_cpu_dropout,
    [LKI_OP_LOG_SOFTMAX] = &lki_cpu_log_softmax,
    [LKI_OP_CROSS_ENTROPY] = &lki_cpu_cross_entropy,
    [LKI_OP_NLL] = &lki_cpu_nll,
    [LKI_OP_MSE] = &lki_cpu_mse,
};

#define CONV_BLOCK(...)                                                                            \
    {                                                                                              \
        .op = {LKI_OP_CONV2D, LKI_OP_RELU, LKI_OP_MAX_POOL, __VA_ARGS__},                          \
        .count = (int)(sizeof((int[]){0, 0, 0, __VA_ARGS__}) / sizeof(int)),                       \
        .fits = lki_cpu_conv_block_fits, .kernel = &lki_cpu_conv_block                             \
    }

static const lki_pattern patterns[] = {
    CONV_BLOCK(LKI_OP_DROPOUT, LKI_OP_FLATTEN),
    CONV_BLOCK(LKI_OP_DROPOUT),
    CONV_BLOCK(LKI_OP_FLATTEN),
    {.op = {LKI_OP_CONV2D, LKI_OP_RELU, LKI_OP_MAX_POOL},
     .count = 3,
     .fits = lki_cpu_conv_block_fits,
     .kernel = &lki_cpu_conv_block},
    {.op = {LKI_OP_CONV2D, LKI_OP_RELU}, .count = 2, .kernel = &lki_cpu_conv2d},
};

const lki_backend lki_cpu_backend = {
    .name = "cpu",
    .memory = &lki_host_memory,
    .fingerprint = cpu_fingerprint,
    .kernels = kernels,
    .patterns = patterns,
    .pattern_count = sizeof patterns / sizeof patterns[0],
    .update = cpu_update,
    .add = cpu_add,
    .approach = cpu_approach,
    .dot = cpu_dot,
    .direction = direction,
};

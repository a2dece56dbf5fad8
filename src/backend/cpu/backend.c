/* The cpu backend, and the choice of an instruction set. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef LKI_HAVE_AVX512
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "backend/cpu/cpu.h"

extern const lki_vector lki_vector_portable;
#ifdef LKI_HAVE_NEON
extern const lki_vector lki_vector_neon;
#endif
#ifdef LKI_HAVE_AVX2
extern const lki_vector lki_vector_avx2;
#endif
#ifdef LKI_HAVE_AVX512
extern const lki_vector lki_vector_avx512, lki_vector_avx512_bf16, lki_vector_amx;
#endif

#ifdef LKI_HAVE_AVX512
static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

/* Whether there are products of pairs of bfloat16. */
static bool has_pairs(void)
{
    enum { LEAF = 7, SUBLEAF = 1, BF16_BIT = 5 };
    unsigned a, b, c, d;
    return has_avx512() && __get_cpuid_count(LEAF, SUBLEAF, &a, &b, &c, &d) != 0 &&
           (a >> BF16_BIT & 1) != 0;
}

/* Whether there are tiles of bfloat16, and Linux gives this process their registers (its documentation, arch/x86/xstate). */
static bool has_matrix(void)
{
    enum { LEAF = 7, BF16_BIT = 22, TILE_BIT = 24, REQUEST = 0x1023, TILE_DATA = 18 };
    unsigned a, b, c, d;
    if (!has_avx512() || !__get_cpuid_count(LEAF, 0, &a, &b, &c, &d)) return false;
    return (d >> BF16_BIT & d >> TILE_BIT & 1) != 0 &&
           syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}
#endif

const lki_vector *lki_cpu_vector_find(const char *name)
{
#ifdef LKI_HAVE_AVX512
    if (strcmp(name, "amx") == 0) return has_matrix() ? &lki_vector_amx : NULL;
    if (strcmp(name, "avx512_bf16") == 0) return has_pairs() ? &lki_vector_avx512_bf16 : NULL;
    if (strcmp(name, "avx512") == 0) return has_avx512() ? &lki_vector_avx512 : NULL;
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
    if (chosen == NULL) chosen = lki_cpu_vector_find("amx");
    if (chosen == NULL) chosen = lki_cpu_vector_find("avx512_bf16");
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
    p->vector = lki_cpu_vector();
    p->in = lks_shape_elements(&plan->cluster.in[0]->shape);
    p->out = lks_shape_elements(&lki_cluster_tail(&plan->cluster)->out.shape);
    snprintf(plan->needs.algorithm, sizeof plan->needs.algorithm, "%s", p->vector->name);
    return LKS_OK;
}

static lks_status cpu_fingerprint(char *out, size_t size)
{
    const char *asked = getenv("LKS_ISA");
    if (asked != NULL && lki_cpu_vector_find(asked) == NULL)
        return LKI_FAIL(LKS_E_INVALID,
                        "LKS_ISA is '%s', expected portable, avx2, avx512, avx512_bf16, amx or "
                        "neon, and one that "
                        "this processor and build have; unset it for the best",
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

static void direction(const lki_update *u, int64_t count, const float *w,
                      float *const state[LKI_MAX_STATES], float *gradient, double sum[LKI_ROW_SUMS])
{
    lki_cpu_vector()->element->direction(u, count, w, state, gradient, sum);
}

static void cpu_pack(int64_t count, const float *from, uint16_t *to)
{
    lki_cpu_vector()->element->pack(count, from, to);
}

static void cpu_unpack(int64_t count, const uint16_t *from, float *to)
{
    lki_cpu_vector()->element->unpack(count, from, to);
}

#define LISTED(id)    &lki_cpu_##id##_impl,
#define ALONE(ID, id) LKI_ALONE(ID, #id, &lki_cpu_##id),
static const lki_impl *const impls[] = {LKI_CPU_IMPL_LIST(LISTED) LKI_CPU_KERNEL_LIST(ALONE) NULL};

const lki_backend lki_cpu_backend = {
    .name = "cpu",
    .memory = &lki_host_memory,
    .fingerprint = cpu_fingerprint,
    .impl = impls,
    .update = cpu_update,
    .add = cpu_add,
    .approach = cpu_approach,
    .dot = cpu_dot,
    .direction = direction,
    .pack = cpu_pack,
    .unpack = cpu_unpack,
};

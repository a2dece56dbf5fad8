/* What the tests of the cpu backend's vector functions share. */
#ifndef LKT_CPU_VECTORS_H
#define LKT_CPU_VECTORS_H

#include "support/test.h"

#ifdef LKT_HAVE_CPU

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu.h"

static const char *const LKT_ISAS[] = {"portable", "avx2", "avx512", "neon", "avx512_bf16", "amx"};
enum { LKT_ISA_COUNT = 4, LKT_UNIT_COUNT = 6 };

/* Every instruction set that this machine can run, in turn. */
#define LKT_FOR_ISAS(v)                                                                            \
    for (int isa_ = 0; isa_ < LKT_ISA_COUNT; isa_++)                                               \
        for (const lki_vector *v = lki_cpu_vector_find(LKT_ISAS[isa_]); v != NULL; v = NULL)

/* And what it has for bfloat16, which has the loops of another one but for products of bfloat16. */
#define LKT_FOR_UNITS(v)                                                                           \
    for (int isa_ = 0; isa_ < LKT_UNIT_COUNT; isa_++)                                              \
        for (const lki_vector *v = lki_cpu_vector_find(LKT_ISAS[isa_]); v != NULL; v = NULL)

/* `count` floats that are not aligned to more than their size, behind and before guards. */
typedef struct lkt_floats {
    float *base, *at;
    int64_t count;
} lkt_floats;

enum { LKT_FLOATS_GUARD = 40 };

static inline lkt_floats lkt_floats_make(lkt_random *random, int64_t count)
{
    const int64_t shift = lkt_random_below(random, 16);
    const int64_t all = count + 2 * LKT_FLOATS_GUARD + 16;
    lkt_floats f = {.base = malloc(sizeof(float) * (size_t)all), .count = count};
    assert_non_null(f.base);
    for (int64_t i = 0; i < all; i++) f.base[i] = 1e30f;
    f.at = f.base + LKT_FLOATS_GUARD + shift;
    for (int64_t i = 0; i < count; i++) f.at[i] = (float)lkt_random_real(random, -1.0, 1.0);
    return f;
}

static inline void lkt_floats_free(lkt_floats *f)
{
    for (int i = 1; i <= LKT_FLOATS_GUARD; i++) {
        assert_true(f->at[-i] == 1e30f);
        assert_true(f->at[f->count + i - 1] == 1e30f);
    }
    free(f->base);
}

/* Scratch as kernels get it: aligned to 64, undefined. */
static inline void *lkt_scratch(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 64) / 64 * 64);
    assert_non_null(memory);
    memset(memory, 0xff, (bytes + 64) / 64 * 64);
    return memory;
}

/* Equal bits; a sentence says where not. */
static inline void lkt_same(const lki_vector *v, const char *what, const float *found,
                            const float *expected, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (memcmp(&found[i], &expected[i], sizeof(float)) != 0)
            fail_msg("%s, %s[%lld]: %.9g, expected %.9g", v->name, what, (long long)i,
                     (double)found[i], (double)expected[i]);
}

/* What the values of a window are pooled to (lki_vector_block.forward). */
typedef struct lkt_pooled {
    float high, low;
    int where;
} lkt_pooled;

static inline lkt_pooled lkt_pool(const float *from, int places, bool relu)
{
    lkt_pooled p = {.where = relu ? LKI_BLOCK_OFF : 0};
    for (int i = 0; i < places; i++) {
        const float y = lki_flush(from[i]);
        if ((!relu && i == 0) || y > p.high) {
            p.high = y;
            p.where = (relu ? 0 : p.where / 16 * 16) + i;
        }
        if (!relu && (i == 0 || y < p.low)) {
            p.low = y;
            p.where = p.where % 16 + 16 * i;
        }
    }
    return p;
}

#endif
#endif

#include "machine/peak.h"

#include <stdlib.h>
#include <time.h>

enum { CHAINS = 12, ROUNDS = 100000, MOST_RUNS = 4000 };

/* Each chain is a value of its own: without this a compiler sees that some are equal. */
#if defined(__x86_64__)
#define KEEP(a, b, c, d, e, f)                                                                     \
    __asm__ volatile("" : "+x"(a), "+x"(b), "+x"(c), "+x"(d), "+x"(e), "+x"(f))
#elif defined(__aarch64__)
#define KEEP(a, b, c, d, e, f)                                                                     \
    __asm__ volatile("" : "+w"(a), "+w"(b), "+w"(c), "+w"(d), "+w"(e), "+w"(f))
#else
#define KEEP(a, b, c, d, e, f) __asm__ volatile("")
#endif

/* How each instruction set writes x * y + z for its vectors: the flags of this project contract
 * nothing by themselves. */
#if defined(__x86_64__)
#include <immintrin.h>
#define FMA_AVX512(x, y, z) _mm512_fmadd_ps(x, y, z)
#define FMA_AVX2(x, y, z)   _mm256_fmadd_ps(x, y, z)
#endif
#if defined(__aarch64__)
#include <arm_neon.h>
#define FMA_PORTABLE(x, y, z) vfmaq_f32(z, x, y)
#else
#define FMA_PORTABLE(x, y, z) ((x) * (y) + (z))
#endif

/* Defines name(x): ROUNDS multiply-adds in each of CHAINS chains; returns a number that depends on
 * all of them. Twelve chains cover a latency of 4 to 6 cycles on two units and fit in 16 registers. */
#define DEFINE_LOOP(name, type, fma, attribute)                                                    \
    attribute static float name(float x)                                                           \
    {                                                                                              \
        const type zero = {0}, factor = zero + x, term = zero + 1e-3f;                             \
        type a = zero, b = a, c = a, d = a, e = a, f = a;                                          \
        type g = factor, h = g, i = g, j = g, k = g, l = g;                                        \
        for (int r = 0; r < ROUNDS; r++) {                                                         \
            a = fma(a, factor, term), b = fma(b, factor, term), c = fma(c, factor, term);          \
            d = fma(d, factor, term), e = fma(e, factor, term), f = fma(f, factor, term);          \
            g = fma(g, factor, term), h = fma(h, factor, term), i = fma(i, factor, term);          \
            j = fma(j, factor, term), k = fma(k, factor, term), l = fma(l, factor, term);          \
            KEEP(a, b, c, d, e, f);                                                                \
            KEEP(g, h, i, j, k, l);                                                                \
        }                                                                                          \
        a += b + c + d + e + f + g + h + i + j + k + l;                                            \
        return a[0];                                                                               \
    }

#if defined(__aarch64__)
DEFINE_LOOP(loop_portable, float32x4_t, FMA_PORTABLE, )
#else
typedef float portable_vector __attribute__((vector_size(16)));
DEFINE_LOOP(loop_portable, portable_vector, FMA_PORTABLE, )
#endif
#if defined(__x86_64__)
DEFINE_LOOP(loop_avx2, __m256, FMA_AVX2, __attribute__((target("avx2,fma"))))
DEFINE_LOOP(loop_avx512, __m512, FMA_AVX512, __attribute__((target("avx512f"))))
#endif

typedef struct choice {
    float (*loop)(float x);
    int lanes;
} choice;

static choice peak_choose(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f")) return (choice){loop_avx512, 16};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return (choice){loop_avx2, 8};
#endif
    return (choice){loop_portable, 4};
}

static double peak_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int peak_ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double lki_peak(double seconds)
{
    const choice isa = peak_choose();
    volatile float keep = 0; /* so that the loops are not removed */
    double time[MOST_RUNS], last;
    int runs = 0;
    const double begin = last = peak_now();
    do {
        keep = keep + isa.loop(0.5f);
        const double end = peak_now();
        time[runs++] = end - last;
        last = end;
    } while (runs < MOST_RUNS && last - begin < seconds);
    qsort(time, (size_t)runs, sizeof time[0], peak_ascending);
    return 2.0 * CHAINS * ROUNDS * isa.lanes / time[runs / 2];
}

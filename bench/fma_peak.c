/*
 * How many floating-point operations a second the cores can do at most: chains of independent
 * single-precision fused multiply-adds in registers, on one core and on all, counted two for each.
 * Every speed in a table of this project is given beside it, measured in the same run, because
 * clocks vary.
 *
 *   cc -O2 -ffp-contract=fast -pthread -o fma_peak bench/fma_peak.c
 *   fma_peak [seconds per measurement, default 0.5]
 *
 * Prints one JSON line: {"isa": "avx2", "cores": 2, "one_core": 98.1, "all_cores": 195.0}, rates in
 * units of 10^9 a second.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CHAINS = 12, ROUNDS = 20000, MAX_CORES = 1024 };

/* Defines name(x): ROUNDS multiply-adds in each of CHAINS chains of vectors of `bytes`; returns a
 * number that depends on all of them. Twelve chains cover a latency of 4-6 cycles on two units and
 * fit in 16 registers. */
#define DEFINE_LOOP(name, bytes, attribute)                                                        \
    attribute static float name(float x)                                                           \
    {                                                                                              \
        typedef float vector __attribute__((vector_size(bytes)));                                  \
        const vector zero = {0}, factor = zero + x, term = zero + 1e-3f;                           \
        vector a = zero, b = a, c = a, d = a, e = a, f = a;                                        \
        vector g = factor, h = g, i = g, j = g, k = g, l = g;                                      \
        for (int r = 0; r < ROUNDS; r++) {                                                         \
            a = a * factor + term, b = b * factor + term, c = c * factor + term;                   \
            d = d * factor + term, e = e * factor + term, f = f * factor + term;                   \
            g = g * factor + term, h = h * factor + term, i = i * factor + term;                   \
            j = j * factor + term, k = k * factor + term, l = l * factor + term;                   \
            KEEP(a, b, c, d, e, f);                                                                \
            KEEP(g, h, i, j, k, l);                                                                \
        }                                                                                          \
        a += b + c + d + e + f + g + h + i + j + k + l;                                            \
        return a[0];                                                                               \
    }

/* Each chain is a value of its own: without this a compiler sees that some are equal. */
#if defined(__x86_64__)
#define KEEP(a, b, c, d, e, f)                                                                     \
    __asm__ volatile("" : "+x"(a), "+x"(b), "+x"(c), "+x"(d), "+x"(e), "+x"(f))
#else
#define KEEP(a, b, c, d, e, f)                                                                     \
    __asm__ volatile("" : "+w"(a), "+w"(b), "+w"(c), "+w"(d), "+w"(e), "+w"(f))
#endif

DEFINE_LOOP(loop_portable, 16, )
#if defined(__x86_64__)
DEFINE_LOOP(loop_avx2, 32, __attribute__((target("avx2,fma"))))
DEFINE_LOOP(loop_avx512, 64, __attribute__((target("avx512f"))))
#elif !defined(__aarch64__)
#error "fma_peak knows x86-64 and AArch64 only"
#endif

static struct {
    const char *name;
    float (*loop)(float x);
    int lanes;
} isa = {"portable", loop_portable, 4};

static void choose_isa(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f")) {
        isa.name = "avx512", isa.loop = loop_avx512, isa.lanes = 16;
    } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        isa.name = "avx2", isa.loop = loop_avx2, isa.lanes = 8;
    }
#endif
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct lane {
    pthread_t thread;
    size_t core;
    double seconds;
    double rate; /* operations a second, out */
    float keep;  /* out, so that the loops are not removed */
} lane;

static atomic_int waiting;

static void *measure(void *argument)
{
    lane *self = argument;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(self->core, &set);
    sched_setaffinity(0, sizeof set, &set);
    for (int i = 0; i < 100; i++) self->keep += isa.loop(0.5f); /* let the clock settle */
    atomic_fetch_sub(&waiting, 1);
    while (atomic_load(&waiting) > 0) sched_yield();

    const double begin = now();
    double end = begin, operations = 0;
    while (end - begin < self->seconds) {
        self->keep += isa.loop(0.5f);
        operations += 2.0 * CHAINS * ROUNDS * isa.lanes;
        end = now();
    }
    self->rate = operations / (end - begin);
    return NULL;
}

/* The sum of the rates of `count` threads, thread i on core[i]. */
static double run(const size_t *core, int count, double seconds)
{
    static lane lanes[MAX_CORES];
    double sum = 0;
    atomic_store(&waiting, count);
    for (int i = 0; i < count; i++) {
        lanes[i] = (lane){.core = core[i], .seconds = seconds};
        if (pthread_create(&lanes[i].thread, NULL, measure, &lanes[i]) != 0) {
            fprintf(stderr, "fma_peak: cannot start thread %d of %d\n", i + 1, count);
            exit(1);
        }
    }
    for (int i = 0; i < count; i++) {
        pthread_join(lanes[i].thread, NULL);
        sum += lanes[i].rate;
    }
    return sum;
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? atof(argv[1]) : 0.5;
    cpu_set_t set;
    size_t core[MAX_CORES];
    int count = 0;
    if (sched_getaffinity(0, sizeof set, &set) != 0) {
        perror("fma_peak: sched_getaffinity");
        return 1;
    }
    for (size_t c = 0; c < CPU_SETSIZE && count < MAX_CORES; c++) {
        if (CPU_ISSET(c, &set)) core[count++] = c;
    }
    choose_isa();
    const double one = run(core, 1, seconds);
    const double all = run(core, count, seconds);
    printf("{\"isa\": \"%s\", \"cores\": %d, \"one_core\": %.1f, \"all_cores\": %.1f}\n", isa.name,
           count, one * 1e-9, all * 1e-9);
    return 0;
}

/*
 * Depthwise convolutions beside oneDNN's, one thread: GFLOP/s of both in turns, the ratio of the best
 * rounds and the median of the rounds' ratios, and how much of the FMA peak and of a copy's bytes a
 * second that is; at the end, geometric means by pass and stride. Time is the thread's own, so that of
 * others on the core does not count.
 *
 *   taskset -c 1 bench_depthwise [rounds [text]]      text: only lines that contain it
 *   LKS_ISA=avx2 DNNL_MAX_CPU_ISA=AVX2 taskset -c 1 bench_depthwise
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/cpu/cpu.h"
#include "machine/peak.h"
#include "base/float.h"
#include "onednn.h"

enum { MAX_ROUNDS = 1000 };

/* Samples, pixels of a side, channels, stride; 3 x 3, padding 1. MobileNet v2's, and some for CIFAR. */
static const int SHAPES[][4] = {
    {8, 112, 32, 1}, {8, 112, 96, 2}, {8, 56, 144, 1}, {8, 56, 144, 2}, {8, 28, 192, 1},
    {8, 28, 192, 2}, {8, 14, 384, 1}, {8, 14, 576, 1}, {8, 14, 576, 2}, {8, 7, 960, 1},
    {1, 112, 32, 1}, {1, 112, 96, 2}, {1, 56, 144, 1}, {1, 28, 192, 1}, {1, 14, 384, 1},
    {1, 14, 576, 1}, {1, 7, 960, 1},  {8, 32, 32, 1},  {8, 32, 64, 2},  {8, 16, 128, 1},
    {8, 8, 256, 1},  {8, 32, 24, 1},
};

typedef struct work {
    lki_conv_shape s;
    int64_t count;
    float *x, *d_y, *w, *y, *d_x, *d_w;
    onednn_conv *library;
    void *packed[2], *space[2];
} work;

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float *floats(size_t count)
{
    float *memory = aligned_alloc(64, (count * sizeof(float) + 64) / 64 * 64);
    if (memory == NULL) exit(1);
    for (size_t i = 0; i < count; i++) memory[i] = (float)((i * 2654435761u >> 7) % 1000) * 1e-3f;
    return memory;
}

static void run(const work *k, const lki_vector_conv *ours, int pass)
{
    const lki_conv_gradient g = {.x = k->x,
                                 .d_y = k->d_y,
                                 .last = true,
                                 .sums = k->space[1],
                                 .d_weight = k->d_w,
                                 .workspace = k->space[1]};
    lks_status status = LKS_OK;
    if (ours != NULL && pass == 0)
        ours->forward(&k->s, k->count, k->x, k->packed[1], NULL, false, k->y, k->space[1]);
    else if (ours != NULL && pass == 1)
        ours->backward(&k->s, k->count, k->d_y, k->packed[1], k->d_x, false, k->space[1]);
    else if (ours != NULL)
        ours->backward_weight(&k->s, k->count, &g);
    else if (pass == 0)
        status = onednn_conv_forward(k->library, k->count, k->x, k->packed[0], NULL, k->y,
                                     k->space[0]);
    else if (pass == 1)
        status = onednn_conv_backward_data(k->library, k->count, k->d_y, k->packed[0], k->d_x,
                                           k->space[0]);
    else
        status = onednn_conv_backward_weight(k->library, k->count, k->x, k->d_y, k->d_w, NULL,
                                             k->space[0]);
    if (status != LKS_OK) exit(1);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Seconds of one call, the best round's: [oneDNN, ours]. Gives the median of the rounds' ratios. */
static double measure(const work *k, int pass, int rounds, double best[2])
{
    const lki_vector_conv *side[2] = {NULL, lki_cpu_vector()->depthwise};
    static double ratios[MAX_ROUNDS];
    double each[2];
    int times = 1;
    best[0] = best[1] = HUGE_VAL;
    for (int r = -2; r < rounds; r++) {
        for (int i = 0; i < 2; i++) {
            const double start = seconds_now();
            for (int t = 0; t < times; t++) run(k, side[i], pass);
            each[i] = (seconds_now() - start) / times;
            if (r >= 0 && each[i] < best[i]) best[i] = each[i];
        }
        if (r >= 0) ratios[r] = each[0] / each[1];
        if (r == -1) times = (int)(0.002 / each[1]) + 1;
    }
    qsort(ratios, (size_t)rounds, sizeof(double), ascending);
    return ratios[rounds / 2];
}

/* Ratios of a pass with a stride: how many, the sums of their logarithms (best, median), the least. */
typedef struct mean {
    int count;
    double best, median, least;
} mean;

static const char *const PASSES[] = {"forward", "data gradient", "weight gradient"};

/* How fast this machine is, and what is wanted. */
typedef struct setting {
    int rounds;
    const char *only; /* NULL: all */
    double peak, copy;
} setting;

static void compare(const int *row, const setting *set, lks_context *context, mean means[3])
{
    const int64_t c = row[2], out = (row[1] - 1) / row[3] + 1;
    work k = {.s = {.groups = c,
                    .channels = c,
                    .filters = c,
                    .in = {row[1], row[1]},
                    .out = {out, out},
                    .kernel = {3, 3},
                    .stride = {row[3], row[3]},
                    .padding = {1, 1},
                    .dilation = {1, 1}},
              .count = row[0]};
    const size_t x = (size_t)(k.count * row[1] * row[1] * c), y = (size_t)(k.count * out * out * c);
    k.x = floats(x), k.d_x = floats(x), k.y = floats(y), k.d_y = floats(y);
    k.w = floats((size_t)(9 * c)), k.d_w = floats((size_t)(9 * c));
    if (onednn_conv_create(&k.library, context, &k.s, k.count, true) != LKS_OK) exit(1);
    const lki_vector_conv *ours = lki_cpu_vector()->depthwise;
    k.packed[0] = floats(onednn_conv_packed_bytes(k.library) / sizeof(float));
    k.packed[1] = floats(ours->packed_bytes(&k.s) / sizeof(float));
    k.space[0] = floats(onednn_conv_workspace_bytes(k.library) / sizeof(float));
    k.space[1] = floats(ours->sums_bytes(&k.s) / sizeof(float));
    onednn_conv_pack(k.library, k.w, k.packed[0], 0, 1);
    ours->pack(&k.s, k.w, k.packed[1], 0, 1);
    for (int pass = 0; pass < 3; pass++) {
        char name[64];
        double best[2];
        snprintf(name, sizeof name, "%d x %dx%dx%d s%d %s", row[0], row[1], row[1], row[2], row[3],
                 PASSES[pass]);
        if (set->only != NULL && strstr(name, set->only) == NULL) continue;
        const double median = measure(&k, pass, set->rounds, best), ratio = best[0] / best[1];
        const double flops = 18.0 * (double)y, bytes = (double)(x + y) * sizeof(float);
        printf("%-36s oneDNN %6.1f ours %6.1f  best %4.2f median %4.2f  %3.0f%% FMA %3.0f%% copy\n",
               name, flops / best[0] * 1e-9, flops / best[1] * 1e-9, ratio, median,
               100 * flops / best[1] / set->peak, 100 * bytes / best[1] / set->copy);
        mean *m = &means[pass];
        m->least = m->count++ == 0 || ratio < m->least ? ratio : m->least;
        m->best += log(ratio);
        m->median += log(median);
    }
    fflush(stdout);
    onednn_conv_destroy(k.library);
    float *const arrays[] = {k.x, k.d_x, k.y, k.d_y, k.w, k.d_w};
    for (int i = 0; i < 6; i++) free(arrays[i]);
    for (int i = 0; i < 2; i++) free(k.packed[i]), free(k.space[i]);
}

/* Bytes read and written a second by a copy of 64 MiB. */
static double copy_rate(void)
{
    const size_t bytes = (size_t)64 << 20;
    char *from = (char *)floats(bytes / sizeof(float)), *to = (char *)floats(bytes / sizeof(float));
    double best = 1e30;
    for (int i = 0; i < 10; i++) {
        const double start = seconds_now();
        memcpy(to, from, bytes);
        const double seconds = seconds_now() - start;
        if (seconds < best) best = seconds;
    }
    free(from);
    free(to);
    return 2.0 * (double)bytes / best;
}

int main(int argc, char **argv)
{
    setting set = {.rounds = argc > 1 ? atoi(argv[1]) : 30, .only = argc > 2 ? argv[2] : NULL};
    mean means[2][3] = {{{0}}};
    lks_context *context;
    if (set.rounds < 1 || set.rounds > MAX_ROUNDS || lks_context_create(&context, NULL) != LKS_OK)
        return 2;
    lki_float_enter();
    for (int i = 0; i < 5; i++) {
        const double now = lki_peak(0.05);
        if (now > set.peak) set.peak = now;
    }
    set.copy = copy_rate();
    printf("%s, FMA peak of the processor %.1f GFLOP/s, copy %.1f GB/s\n", lki_cpu_vector()->name,
           set.peak * 1e-9, set.copy * 1e-9);
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++)
        compare(SHAPES[i], &set, context, means[SHAPES[i][3] - 1]);
    for (int i = 0; i < 6; i++) {
        const mean *m = &means[i / 3][i % 3];
        if (m->count == 0) continue;
        printf("mean of stride %d %-19s best %4.2f median %4.2f least %4.2f\n", i / 3 + 1,
               PASSES[i % 3], exp(m->best / m->count), exp(m->median / m->count), m->least);
    }
    lks_context_destroy(context);
    return 0;
}

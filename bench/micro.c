/*
 * Kernels of the cpu backend alone: GFLOP/s, and the fraction of the FMA peak that a loop of
 * nothing else reaches in the same run.
 *
 *   bench_micro [threads] [part of a name]
 *
 * Every thread works on data of its own. Rounds are short and the best of many counts, so that a busy
 * machine disturbs little; the rate of several threads is the mean of theirs.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/cpu/cpu.h"
#include "machine/peak.h"
#include "base/float.h"
#ifdef BENCH_ONEDNN
#include "onednn.h"
#endif

enum { MAX_THREADS = 256, ROUNDS = 150 };

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A thread's memory: five operands, weights, workspace, sums, each of AREA floats. */
enum { AREA = 16 << 20, AREAS = 8 };
typedef struct memory {
    float *area[AREAS];
} memory;

typedef struct job {
    const char *name;
    int64_t samples; /* of one run */
    double flops;    /* of one run */
    void (*run)(const struct job *job, const lki_vector *vector, const memory *m);
    lki_conv_shape conv;
    lki_dense_shape dense;
    int64_t replicas;
    struct onednn_conv *library;
} job;

static const lki_vector_conv *conv_kernels(const job *j, const lki_vector *v)
{
    return j->conv.winograd > 0 ? v->winograd : v->conv;
}

static void conv_forward(const job *j, const lki_vector *v, const memory *m)
{
    conv_kernels(j, v)->forward(&j->conv, j->samples, m->area[0], m->area[4], m->area[3], true,
                                m->area[1], m->area[6]);
}

static void conv_backward(const job *j, const lki_vector *v, const memory *m)
{
    conv_kernels(j, v)->backward(&j->conv, j->samples, m->area[1], m->area[4], m->area[2], false,
                                 m->area[6]);
}

static void conv_weight(const job *j, const lki_vector *v, const memory *m)
{
    conv_kernels(j, v)->backward_weight(
        &j->conv, j->samples,
        &(lki_conv_gradient){.x = m->area[0],
                             .d_y = m->area[1],
                             .y = j->conv.winograd > 0 ? NULL : m->area[2],
                             .last = true,
                             .sums = m->area[7],
                             .d_weight = m->area[5],
                             .d_bias = m->area[3],
                             .workspace = m->area[6]});
}

#ifdef BENCH_ONEDNN
static void library_forward(const job *j, const lki_vector *v, const memory *m)
{
    (void)v;
    if (onednn_conv_forward(j->library, j->samples, m->area[0], m->area[4], m->area[3], m->area[1],
                            m->area[6]) != LKS_OK)
        abort();
}

static void library_backward(const job *j, const lki_vector *v, const memory *m)
{
    (void)v;
    if (onednn_conv_backward_data(j->library, j->samples, m->area[1], m->area[4], m->area[2],
                                  m->area[6]) != LKS_OK)
        abort();
}

static void library_weight(const job *j, const lki_vector *v, const memory *m)
{
    (void)v;
    if (onednn_conv_backward_weight(j->library, j->samples, m->area[0], m->area[1], m->area[5],
                                    m->area[3], m->area[6]) != LKS_OK)
        abort();
}
#endif

static void dense_forward(const job *j, const lki_vector *v, const memory *m)
{
    v->dense->forward(&j->dense, j->samples, m->area[0], m->area[4], m->area[3], m->area[1],
                      m->area[6]);
}

static void dense_backward(const job *j, const lki_vector *v, const memory *m)
{
    v->dense->backward(&j->dense, j->samples, NULL, m->area[1], m->area[4], m->area[2], false,
                       m->area[6]);
}

static void ignore(void *user, lki_tree_node node, int param, int64_t first, int64_t count,
                   const float *sums)
{
    (void)user, (void)node, (void)param, (void)first, (void)count, (void)sums;
}

static void dense_rows(const job *j, const lki_vector *v, const memory *m)
{
    int64_t start[65];
    for (int64_t r = 0; r <= j->replicas; r++) start[r] = r * j->samples / j->replicas;
    const lki_rows rows = {.in = m->area[0],
                           .d_out = m->area[1],
                           .start = start,
                           .replicas = j->replicas,
                           .last = j->replicas,
                           .row_count = j->dense.units / 2,
                           .workspace = m->area[6],
                           .sum = ignore};
    v->dense->rows(&j->dense, &rows);
}

static void dense_pack(const job *j, const lki_vector *v, const memory *m)
{
    v->dense->pack(&j->dense, m->area[5], m->area[4], 0, 1);
}

/* The job on one thread. */
typedef struct worker {
    const job *job;
    double rate, peak, microseconds;
    pthread_barrier_t *barrier;
} worker;

static void *work(void *user)
{
    worker *w = user;
    const lki_vector *vector = lki_cpu_vector();
    memory m;
    lki_float_enter();
    for (int i = 0; i < AREAS; i++) {
        m.area[i] = aligned_alloc(64, sizeof(float) * AREA);
        for (int64_t e = 0; e < AREA; e++)
            m.area[i][e] = (float)((e * 2654435761u >> 7) % 1000) * 1e-3f;
    }
    pthread_barrier_wait(w->barrier);
    w->peak = lki_peak(0.1) * 1e-9;
    double best = 1e30;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t times = 0;
        const double start = seconds_now();
        double seconds;
        do {
            w->job->run(w->job, vector, &m);
            times++;
            seconds = seconds_now() - start;
        } while (seconds < 0.001);
        if (seconds / (double)times < best) best = seconds / (double)times;
    }
    pthread_barrier_wait(w->barrier);
    w->rate = w->job->flops / best * 1e-9;
    w->microseconds = best * 1e6;
    for (int i = 0; i < AREAS; i++) free(m.area[i]);
    return NULL;
}

static void measure(const job *j, int threads)
{
    static worker workers[MAX_THREADS];
    pthread_t thread[MAX_THREADS];
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    for (int t = 0; t < threads; t++) {
        workers[t] = (worker){.job = j, .barrier = &barrier};
        if (pthread_create(&thread[t], NULL, work, &workers[t]) != 0) exit(1);
    }
    double rate = 0, most = 0, time = 0;
    for (int t = 0; t < threads; t++) {
        pthread_join(thread[t], NULL);
        rate += workers[t].rate / threads;
        most += workers[t].peak / threads;
        time += workers[t].microseconds / threads;
    }
    printf("%-44s %9.2f us/sample %7.1f GFLOP/s  %5.1f%% of %.1f\n", j->name,
           time / (double)j->samples, rate, 100 * rate / most, most);
    fflush(stdout);
    pthread_barrier_destroy(&barrier);
}

static const char *wanted = "";
static int threads = 1;

static void add(const char *name, const char *what, job j)
{
    char text[96];
    snprintf(text, sizeof text, "%s %s", name, what);
    if (strstr(text, wanted) == NULL) return;
    j.name = text;
    measure(&j, threads);
}

static void convolution(const char *name, lki_conv_shape s, int64_t samples, bool data)
{
    job j = {.conv = s, .samples = samples};
    if (s.groups == 0) j.conv.groups = 1;
    for (int i = 0; i < 2; i++) {
        if (s.stride[i] == 0) j.conv.stride[i] = 1;
        j.conv.dilation[i] = 1;
        j.conv.out[i] = (s.in[i] + 2 * s.padding[i] - s.kernel[i]) / j.conv.stride[i] + 1;
    }
    j.flops = 2.0 * (double)(samples * j.conv.out[0] * j.conv.out[1] * s.filters * s.channels *
                             s.kernel[0] * s.kernel[1] / j.conv.groups);
    j.conv.bias = true;
    j.run = conv_forward;
    add(name, "forward", j);
    j.run = conv_backward;
    if (data) add(name, "data gradient", j);
    j.run = conv_weight;
    add(name, "weight gradient", j);
    if (s.kernel[0] == 3 && j.conv.stride[0] == 1 && j.conv.groups == 1 && s.channels >= 16) {
        /* Of the direct arithmetic: above the peak. */
        j.conv.winograd = j.conv.out[0] >= 7 ? 4 : 2;
        j.run = conv_forward;
        add(name, "forward, Winograd", j);
        j.run = conv_backward;
        if (data) add(name, "data gradient, Winograd", j);
        j.run = conv_weight;
        add(name, "weight gradient, Winograd", j);
        j.conv.winograd = 0;
    }
#ifdef BENCH_ONEDNN
    lks_context *context;
    if (lks_context_create(&context, NULL) != LKS_OK) exit(1);
    if (onednn_conv_create(&j.library, context, &j.conv, samples, data) == LKS_OK) {
        j.run = library_forward;
        add(name, "forward, oneDNN", j);
        j.run = library_backward;
        if (data) add(name, "data gradient, oneDNN", j);
        j.run = library_weight;
        add(name, "weight gradient, oneDNN", j);
        onednn_conv_destroy(j.library);
    }
    lks_context_destroy(context);
#endif
}

static void dense(const char *name, int64_t inputs, int64_t units, int64_t samples)
{
    job j = {.dense = {.inputs = inputs, .units = units, .bias = true}, .samples = samples};
    j.flops = 2.0 * (double)(inputs * units * samples);
    j.run = dense_forward;
    add(name, "forward", j);
    j.run = dense_backward;
    add(name, "data gradient", j);
    j.flops /= 2; /* half the rows */
    j.run = dense_rows;
    j.replicas = 2;
    add(name, "weight gradient, V = 2, half", j);
    j.replicas = 8;
    add(name, "weight gradient, V = 8, half", j);
    j.run = dense_pack;
    j.flops = 0;
    add(name, "pack", j);
}

int main(int argc, char **argv)
{
    if (argc > 1) threads = atoi(argv[1]);
    if (argc > 2) wanted = argv[2];
    if (threads < 1 || threads > MAX_THREADS) return 2;
    printf("%s, %d thread(s)\n", lki_cpu_vector()->name, threads);
    convolution("conv1 28x28x1 3x3 32",
                (lki_conv_shape){.channels = 1, .filters = 32, .in = {28, 28}, .kernel = {3, 3}}, 8,
                false);
    convolution("conv2 26x26x32 3x3 64",
                (lki_conv_shape){.channels = 32, .filters = 64, .in = {26, 26}, .kernel = {3, 3}},
                8, true);
    convolution(
        "32x32x64 3x3 p1 64",
        (lki_conv_shape){
            .channels = 64, .filters = 64, .in = {32, 32}, .kernel = {3, 3}, .padding = {1, 1}},
        8, true);
    convolution("32x32x64 3x3 s2 p1 128",
                (lki_conv_shape){.channels = 64,
                                 .filters = 128,
                                 .in = {32, 32},
                                 .kernel = {3, 3},
                                 .padding = {1, 1},
                                 .stride = {2, 2}},
                8, true);
    convolution(
        "8x8x256 3x3 p1 256",
        (lki_conv_shape){
            .channels = 256, .filters = 256, .in = {8, 8}, .kernel = {3, 3}, .padding = {1, 1}},
        8, true);
    convolution(
        "4x4x512 3x3 p1 512",
        (lki_conv_shape){
            .channels = 512, .filters = 512, .in = {4, 4}, .kernel = {3, 3}, .padding = {1, 1}},
        8, true);
    convolution("32x32x64 1x1 256",
                (lki_conv_shape){.channels = 64, .filters = 256, .in = {32, 32}, .kernel = {1, 1}},
                8, true);
    convolution("8x8x1024 1x1 256",
                (lki_conv_shape){.channels = 1024, .filters = 256, .in = {8, 8}, .kernel = {1, 1}},
                8, true);
    convolution(
        "32x32x3 3x3 p1 32",
        (lki_conv_shape){
            .channels = 3, .filters = 32, .in = {32, 32}, .kernel = {3, 3}, .padding = {1, 1}},
        8, false);
    for (int64_t groups = 64; groups >= 2; groups /= 4) {
        char name[64];
        snprintf(name, sizeof name, "32x32x64 3x3 p1 64, %d groups", (int)groups);
        convolution(name,
                    (lki_conv_shape){.channels = 64,
                                     .filters = 64,
                                     .groups = groups,
                                     .in = {32, 32},
                                     .kernel = {3, 3},
                                     .padding = {1, 1}},
                    8, true);
    }
    dense("dense 9216 x 128, 64 samples", 9216, 128, 64);
    dense("dense 9216 x 128, 16 samples", 9216, 128, 16);
    dense("dense 9216 x 128, 128 samples", 9216, 128, 128);
    dense("dense 128 x 10, 64 samples", 128, 10, 64);
    return 0;
}

/*
 * Single layers, one pass at a time, on one core: ours (the kernel that a model would take), oneDNN's direct and its
 * Winograd convolution where it has one (inner products for dense layers), in turns, beside two limits: the FMA peak,
 * and a copy of as many bytes as the operands have, in arrays as large. A Markdown table: medians of the rounds in
 * microseconds a sample, and what goes into ours how many times, the median of the rounds' own ratios.
 *
 *   taskset -c 1 bench_layers [rounds [text]]      text: only lines that contain it
 *   LKS_ISA=avx2 ONEDNN_MAX_CPU_ISA=AVX2 taskset -c 1 bench_layers
 *
 * Time is the thread's own, so that of others on the core does not count. Activations are NHWC on all sides (Winograd's
 * of oneDNN in its own layout), weights are packed beforehand, gradients of weights are in the order of parameters at
 * the end. The library is the one that is found when this is built; without one, ours is measured alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/cpu/cpu.h"
#include "base/float.h"
#include "check/trial.h"
#include "machine/peak.h"
#include "numeric/median.h"
#ifdef BENCH_ONEDNN
#include "onednn.h"
#endif

enum { MOST_ROUNDS = 1000, SIDES = 3 };

typedef struct layer {
    const char *name;
    int64_t count, side, channels, filters, kernel, stride, padding, groups; /* kernel 0: dense */
} layer;

static const layer LAYERS[] = {
    {"MNIST conv1 (first)", 64, 28, 1, 32, 3, 1, 0, 1},
    {"MNIST conv2", 16, 26, 32, 64, 3, 1, 0, 1},
    {"MNIST fc1", 64, 1, 9216, 128, 0, 1, 0, 1},
    {"airbench whiten (first)", 32, 32, 3, 24, 2, 1, 0, 1},
    {"airbench group 1", 16, 31, 24, 64, 3, 1, 1, 1},
    {"airbench group 2", 16, 15, 64, 256, 3, 1, 1, 1},
    {"airbench group 3", 32, 7, 256, 256, 3, 1, 1, 1},
    {"VGG conv3_1", 2, 56, 128, 256, 3, 1, 1, 1},
    {"VGG conv5_1", 8, 14, 512, 512, 3, 1, 1, 1},
    {"VGG fc7", 64, 1, 4096, 4096, 0, 1, 0, 1},
    {"ResNet stem (first)", 2, 224, 3, 64, 7, 2, 3, 1},
    {"ResNet-18 layer1", 4, 56, 64, 64, 3, 1, 1, 1},
    {"ResNet-18 layer2, stride", 4, 56, 64, 128, 3, 2, 1, 1},
    {"ResNet-18 layer2, shortcut", 4, 56, 64, 128, 1, 2, 0, 1},
    {"ResNet-18 layer2", 8, 28, 128, 128, 3, 1, 1, 1},
    {"ResNet-18 layer3", 16, 14, 256, 256, 3, 1, 1, 1},
    {"ResNet-18 layer4", 32, 7, 512, 512, 3, 1, 1, 1},
    {"ResNet-50 layer1, 64 to 256", 4, 56, 64, 256, 1, 1, 0, 1},
    {"ResNet-50 layer2, 512 to 128", 8, 28, 512, 128, 1, 1, 0, 1},
    {"ResNet-50 layer3, 1024 to 256", 16, 14, 1024, 256, 1, 1, 0, 1},
    {"ResNet-50 layer4, 2048 to 512", 32, 7, 2048, 512, 1, 1, 0, 1},
    {"ResNet-50 fc", 64, 1, 2048, 1000, 0, 1, 0, 1},
    {"MobileNet depthwise, 112x112", 4, 112, 32, 32, 3, 1, 1, 32},
    {"MobileNet depthwise, stride", 4, 56, 128, 128, 3, 2, 1, 128},
    {"MobileNet depthwise, 14x14", 16, 14, 512, 512, 3, 1, 1, 512},
    {"MobileNet pointwise, 14x14", 16, 14, 512, 512, 1, 1, 0, 1},
};

static const char *const PASSES[] = {"forward", "d input", "d weight"};

#define TRY(expression)                                                                            \
    do {                                                                                           \
        if ((expression) != LKS_OK) {                                                              \
            fprintf(stderr, "bench_layers: %s\n", lks_last_error()->message);                      \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static lks_context *context;

/* Ours: a kernel with its operands. */
typedef struct own {
    lks_graph *graph;
    lki_trial trial;
    lki_trial_stage stage;
    lki_trial_tensors tensors[3]; /* by pass */
    int64_t x, y, w;              /* numbers of all samples */
    bool first;                   /* no gradient of the input is wanted */
} own;

static void fill(lki_trial *t, void **out, int64_t count)
{
    TRY(lki_trial_memory(t, out, (size_t)count * sizeof(float)));
    float *values = *out;
    for (int64_t i = 0; i < count; i++)
        values[i] = (float)((i * 2654435761u >> 7) % 1000) * 1e-3f - 0.3f;
}

static void open_own(own *o, const layer *l)
{
    const lki_backend *backend = lki_backend_find("cpu");
    *o = (own){.first = strstr(l->name, "(first)") != NULL};
    TRY(lks_graph_create(&o->graph, context));
    lks_input_opts image = {.shape = {.ndim = 3, .dim = {l->side, l->side, l->channels}}};
    if (l->kernel == 0) image.shape = (lks_shape){.ndim = 1, .dim = {l->channels}};
    lks_tensor *x = lks_input(o->graph, &image);
    lks_tensor *y = l->kernel == 0
                        ? lks_dense(o->graph, x, &(lks_dense_opts){.units = l->filters})
                        : lks_conv2d(o->graph, x,
                                     &(lks_conv2d_opts){.filters = l->filters,
                                                        .kernel = {l->kernel, l->kernel},
                                                        .stride = {l->stride, l->stride},
                                                        .padding = {l->padding, l->padding},
                                                        .groups = l->groups});
    if (y == NULL) TRY(lks_graph_status(o->graph));
    lki_trial *t = &o->trial;
    *t = (lki_trial){.context = context,
                     .cluster = lki_cluster_of(y->node),
                     .count = l->count,
                     .training = true,
                     .memory = backend->memory};
    const lki_kernel *kernel = lki_impl_alone(backend, y->node, &t->switches)->kernel;
    void *in, *d_in, *out, *d_out, *param[2], *d_param[2];
    o->x = lki_trial_in_elements(t, 0);
    o->y = lki_trial_out_elements(t);
    o->w = lki_trial_param_elements(t, 0);
    fill(t, &in, o->x);
    fill(t, &d_in, o->x);
    fill(t, &out, o->y);
    fill(t, &d_out, o->y);
    for (int p = 0; p < 2; p++) {
        fill(t, &param[p], lki_trial_param_elements(t, p));
        fill(t, &d_param[p], lki_trial_param_elements(t, p));
        t->param[p] = param[p];
    }
    TRY(lki_trial_stage_open(t, kernel, &t->cluster, l->count, o->first ? 1 : 0, &o->stage));
    for (int pass = 0; pass < 3; pass++)
        o->tensors[pass] = (lki_trial_tensors){.in = {in}, .out = out, .d_out = d_out};
    o->tensors[1].d_in[0] = d_in;
    for (int p = 0; p < 2; p++) o->tensors[2].d_param[p] = d_param[p];
}

static void run_own(const own *o, int pass)
{
    TRY((pass == 0 ? lki_trial_forward : lki_trial_backward)(&o->trial, &o->stage,
                                                             &o->tensors[pass], false));
}

static void close_own(own *o)
{
    lki_trial_stage_close(&o->stage);
    lki_trial_release(&o->trial);
    lks_graph_destroy(o->graph);
}

/* One pass of a layer on every side; NULL: there is none. */
typedef struct contest {
    const own *own;
    int pass;
#ifdef BENCH_ONEDNN
    onednn_layer *other[SIDES]; /* [0]: ours has none */
#endif
} contest;

static bool takes_part(const contest *c, int side)
{
#ifdef BENCH_ONEDNN
    if (side > 0) return c->other[side] != NULL;
#endif
    (void)c;
    return side == 0;
}

/* Seconds of a call: as many as take two milliseconds, and two at least. */
static double measure(const contest *c, int side)
{
    const double start = seconds_now();
    double seconds;
    int times = 0;
    do {
        if (side == 0) run_own(c->own, c->pass);
#ifdef BENCH_ONEDNN
        if (side > 0) onednn_layer_run(c->other[side]);
#endif
        times++;
        seconds = seconds_now() - start;
    } while (times < 2 || seconds < 0.002);
    return seconds / times;
}

#ifdef BENCH_ONEDNN
static void find_others(contest *c, const layer *l)
{
    lki_conv_shape s = {.groups = 1,
                        .channels = l->channels,
                        .filters = l->filters,
                        .in = {1, 1},
                        .out = {1, 1},
                        .kernel = {1, 1},
                        .stride = {1, 1},
                        .dilation = {1, 1},
                        .bias = true};
    if (l->kernel > 0) s = lki_conv_shape_of(c->own->trial.cluster.node[0]);
    const onednn_pass pass = (onednn_pass)c->pass;
    c->other[1] = onednn_layer_create(&s, l->count, pass,
                                      l->kernel > 0 ? ONEDNN_DIRECT : ONEDNN_DENSE);
    if (l->kernel == 3 && l->groups == 1)
        c->other[2] = onednn_layer_create(&s, l->count, pass, ONEDNN_WINOGRAD);
}
#endif

/* Bytes a second, read and written, of copies within as many bytes. */
static double copy_rate(int64_t bytes)
{
    char *memory = malloc((size_t)bytes);
    double best = 1e30, start;
    if (memory == NULL) exit(1);
    memset(memory, 1, (size_t)bytes);
    for (int round = 0; round < 7; round++) {
        int times = 0;
        start = seconds_now();
        do {
            memcpy(memory, memory + bytes / 2, (size_t)(bytes / 2));
            memory[bytes - 1]++;
            times++;
        } while (seconds_now() - start < 0.001);
        const double seconds = (seconds_now() - start) / times;
        if (seconds < best) best = seconds;
    }
    free(memory);
    return (double)bytes / best;
}

static void print_ratio(const contest *c, int side, double *ratios, int rounds)
{
    if (takes_part(c, side))
        printf(" %.2f |", lki_median(ratios, rounds));
    else
        printf(" |");
}

static void compare(const layer *l, const contest *c, int rounds, double copies)
{
    static double seconds[SIDES][MOST_ROUNDS], ratio[SIDES][MOST_ROUNDS], peaks[MOST_ROUNDS];
    for (int r = -1; r < rounds; r++) { /* the first is thrown away */
        const int at = r < 0 ? 0 : r;
        peaks[at] = lki_peak(0.002);
        for (int side = 0; side < SIDES; side++)
            if (takes_part(c, side)) seconds[side][at] = measure(c, side);
        for (int side = 0; side < SIDES; side++)
            ratio[side][at] = seconds[side][at] / seconds[0][at];
    }
    const own *o = c->own;
    const double macs = (double)o->y * (double)o->w / (double)l->filters;
    const double ours = lki_median(seconds[0], rounds), each = 1e6 / (double)l->count;
    const double fma = 2 * macs / lki_median(peaks, rounds);
    printf("| %s | %s | %s | %.2f | %.2f | %.2f | %.0f%% |", l->name, PASSES[c->pass],
           o->stage.plan->needs.algorithm, ours * each, fma * each, copies * each,
           100 * (fma > copies ? fma : copies) / ours);
    print_ratio(c, 1, ratio[1], rounds);
    print_ratio(c, 2, ratio[2], rounds);
    printf("\n");
    fflush(stdout);
}

static void measure_layer(const layer *l, int rounds, const char *wanted)
{
    own o;
    char text[96];
    bool any = false;
    for (int pass = 0; pass < 3; pass++) {
        snprintf(text, sizeof text, "%s | %s", l->name, PASSES[pass]);
        any = any || strstr(text, wanted) != NULL;
    }
    if (!any) return;
    open_own(&o, l);
    const int64_t bytes = (o.x + o.y + o.w) * (int64_t)sizeof(float);
    const double copies = (double)bytes / copy_rate(bytes);
    for (int pass = 0; pass < 3; pass++) {
        contest c = {.own = &o, .pass = pass};
        snprintf(text, sizeof text, "%s | %s", l->name, PASSES[pass]);
        if (strstr(text, wanted) == NULL || (pass == 1 && o.first)) continue;
#ifdef BENCH_ONEDNN
        find_others(&c, l);
#endif
        compare(l, &c, rounds, copies);
#ifdef BENCH_ONEDNN
        for (int side = 1; side < SIDES; side++) onednn_layer_destroy(c.other[side]);
#endif
    }
    close_own(&o);
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 7;
    if (rounds < 1 || rounds > MOST_ROUNDS) return 2;
    TRY(lks_context_create(&context, NULL));
    lki_float_enter();
#ifdef BENCH_ONEDNN
    printf("%s, %s\n\n", lki_cpu_vector()->name, onednn_version());
#else
    printf("%s\n\n", lki_cpu_vector()->name);
#endif
    printf("| layer | pass | ours | us a sample | FMA limit | memory limit | of the higher | "
           "oneDNN direct "
           "/ ours | oneDNN Winograd / ours |\n|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof LAYERS / sizeof LAYERS[0]; i++)
        measure_layer(&LAYERS[i], rounds, argc > 2 ? argv[2] : "");
    lks_context_destroy(context);
    return 0;
}

/*
 * Activations that are kept in bfloat16: forward is computed from what was not rounded, backward from what was, for any
 * number of workers with the same bits, in less memory. (Over ranks and instruction sets: ranks/switches, model/isas.)
 */
#include <math.h>
#include <stdio.h>

#include "model/model.h"
#include "numeric/bf16.h"
#include "support/backends.h"
#include "support/runs.h"
#include "support/test.h"

static const lkt_net NETS[] = {lkt_net_deep,   lkt_net_mlp,   lkt_net_conv,  lkt_net_residual,
                               lkt_net_synced, lkt_net_gated, lkt_net_joined};
enum { NET_COUNT = sizeof NETS / sizeof NETS[0] };

static lkt_run usual(const char *device, lkt_net net)
{
    return (lkt_run){.device = device,
                     .net = net,
                     .samples = 21,
                     .batch = 11, /* shares of one and two samples; the second batch has ten */
                     .steps = 3,
                     .opts = {.replicas = 6, .workers = 2, .hash_every = 3, .optim = lks_adam()}};
}

/* ---------------------------------------------------------------- what is rounded, and that nothing else is */

static lki_backend rounding;

static void round_values(int64_t count, float *values)
{
    for (int64_t i = 0; i < count; i++) values[i] = lki_bf16_round(values[i]);
}

/* From here on whatever a stage writes is a number of bfloat16. */
static void round_all(lks_model *model, void *user)
{
    (void)user;
    rounding = *model->program.backend;
    rounding.narrow = round_values;
    model->program.backend = &rounding;
    model->program.switches.f16 = true;
}

/* Where all activations are such numbers anyway, keeping them so changes no bit: no memory is overwritten too early, no
 * piece is missing, and nothing is read before it is there again. */
static void what_is_rounded_already_stays(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int n = 0; n < NET_COUNT; n++)
            for (int workers = 1; workers <= 2 && lkt_backends()[b]->memory->host; workers++) {
                lkt_run run = usual(lkt_backends()[b]->name, NETS[n]);
                run.compiled = round_all;
                run.opts.workers = workers;
                if (workers == 2) run.samples = 90, run.batch = 84; /* several pieces of a share */
                run.opts.kernels.single = true; /* fused kernels save what was never written out */
                const uint64_t hash = lkt_run_hash(&run, NULL);
                run.opts.kernels.bf16_storage = true;
                assert_true(lkt_run_hash(&run, NULL) == hash);
            }
}

/* A 1x1 convolution, silu and another one on one pixel: h = a x, s = silu(h), y = b s. In gradients h and s are rounded, in y they
 * are not. */
enum { IN = 3, MIDDLE = 20, OUT = 2 };

static float number(int i)
{
    return (float)((i * 37 + 11) % 64 - 32) / 40.0f;
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static double silu_slope(double x)
{
    const double s = 1 / (1 + exp(-x));
    return s * (1 + x * (1 - s));
}

typedef struct small {
    double a[MIDDLE][IN], b[OUT][MIDDLE];
} small;

/* The gradients of mean((y - t)^2). */
static small expected_gradients(const small *w, const float x[IN], const float t[OUT], bool rounded)
{
    small d = {0};
    double h[MIDDLE], dy[OUT];
    for (int m = 0; m < MIDDLE; m++) {
        h[m] = 0;
        for (int i = 0; i < IN; i++) h[m] += w->a[m][i] * (double)x[i];
    }
    for (int o = 0; o < OUT; o++) {
        dy[o] = -(double)t[o];
        for (int m = 0; m < MIDDLE; m++) dy[o] += w->b[o][m] * silu(h[m]);
        dy[o] *= 2.0 / OUT;
    }
    for (int m = 0; m < MIDDLE; m++) {
        const float s = (float)silu(h[m]);
        const double kept_s = (double)(rounded ? lki_bf16_round(s) : s);
        const double kept_h = rounded ? (double)lki_bf16_round((float)h[m]) : h[m];
        double ds = 0;
        for (int o = 0; o < OUT; o++) {
            d.b[o][m] = dy[o] * kept_s;
            ds += dy[o] * w->b[o][m];
        }
        for (int i = 0; i < IN; i++) d.a[m][i] = ds * silu_slope(kept_h) * (double)x[i];
    }
    return d;
}

static void write(lks_model *model, const char *name, const void *values, size_t bytes)
{
    LKT_OK(lks_model_state_write(model, lks_model_state_find(model, name), values, bytes));
}

static int gradient_of(const lks_model *model, const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "gradient.%s", name);
    return lks_model_state_find(model, full);
}

static void check_gradients(const char *device, bool stored)
{
    lkt_model m = lkt_begin(&(lks_context_opts){.device = device});
    lks_tensor *x = lks_input(m.graph, &(lks_input_opts){.shape = LKS_SHAPE(1, 1, IN)});
    const lks_conv2d_opts a = {.name = "a", .filters = MIDDLE, .kernel = {1, 1}, .no_bias = true};
    const lks_conv2d_opts b = {.name = "b", .filters = OUT, .kernel = {1, 1}, .no_bias = true};
    lks_tensor *y = lks_conv2d(m.graph, lks_silu(m.graph, lks_conv2d(m.graph, x, &a)), &b);
    lks_tensor *t = lks_target(m.graph, &(lks_target_opts){.shape = LKS_SHAPE(1, 1, OUT)});
    lkt_compile(&m, &(lks_model_opts){.loss = lks_mse(m.graph, y, t),
                                      .global_batch = 1,
                                      .replicas = 1,
                                      .workers = 1,
                                      .kernels.bf16_storage = stored});
    float in[IN], target[OUT], weight[MIDDLE * IN], head[OUT * MIDDLE];
    small w;
    for (int i = 0; i < IN; i++) in[i] = number(i + 1);
    for (int o = 0; o < OUT; o++) target[o] = number(o + 5);
    for (int i = 0; i < MIDDLE * IN; i++)
        weight[i] = number(3 * i), w.a[i / IN][i % IN] = (double)weight[i];
    for (int i = 0; i < OUT * MIDDLE; i++)
        head[i] = number(5 * i + 2), w.b[i / MIDDLE][i % MIDDLE] = (double)head[i];
    write(m.model, "a.weight", weight, sizeof weight);
    write(m.model, "b.weight", head, sizeof head);
    LKT_OK(lks_model_gradient(m.model, &(lks_batch){.x = in, .y = target, .count = 1}, NULL));
    LKT_OK(lks_model_state_read(m.model, gradient_of(m.model, "a.weight"), weight, sizeof weight));
    LKT_OK(lks_model_state_read(m.model, gradient_of(m.model, "b.weight"), head, sizeof head));
    lkt_end(&m);
    const small d = expected_gradients(&w, in, target, stored);
    /* Of f32 all this has sums of at most 20 terms below 2 in size, so less than 2^-17 of error; what is rounded to 8 bits
     * differs by more, as the last lines see. */
    double most = 0;
    const small plain = expected_gradients(&w, in, target, !stored);
    for (int i = 0; i < MIDDLE * IN; i++) {
        assert_true(fabs((double)weight[i] - d.a[i / IN][i % IN]) < 0x1p-17);
        most = fmax(most, fabs((double)weight[i] - plain.a[i / IN][i % IN]));
    }
    assert_true(most > 0x1p-14);
    most = 0;
    for (int i = 0; i < OUT * MIDDLE; i++) {
        assert_true(fabs((double)head[i] - d.b[i / MIDDLE][i % MIDDLE]) < 0x1p-17);
        most = fmax(most, fabs((double)head[i] - plain.b[i / MIDDLE][i % MIDDLE]));
    }
    assert_true(most > 0x1p-14);
}

static void backward_reads_rounded_numbers(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        check_gradients(lkt_backends()[b]->name, false);
        check_gradients(lkt_backends()[b]->name, true);
    }
}

/* ---------------------------------------------------------------- the theorem */

static void any_workers_give_one_hash(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int n = 0; n < NET_COUNT; n++) {
            if (lkt_in_part() && lkt_backends()[1] != NULL && b != n % 2) continue;
            lkt_run run = usual(lkt_backends()[b]->name, NETS[n]);
            const uint64_t plain = lkt_run_hash(&run, NULL);
            run.opts.kernels.bf16_storage = true;
            const uint64_t hash = lkt_run_hash(&run, NULL);
            if (NETS[n] != lkt_net_mlp) assert_true(hash != plain);
            for (int by_replica = 0; by_replica <= 1; by_replica++)
                for (run.opts.workers = 1; run.opts.workers <= 3; run.opts.workers++) {
                    run.opts.by_replica = by_replica;
                    assert_true(lkt_run_hash(&run, NULL) == hash);
                }
        }
}

/* Of one step the loss is that of f32: only backward differs. */
static void forward_is_not_rounded(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int n = 0; n < NET_COUNT; n++) {
            lks_metrics plain[2], metrics[2];
            lkt_run run = usual(lkt_backends()[b]->name, NETS[n]);
            run.steps = 1;
            lkt_run_hash(&run, plain);
            run.opts.kernels.bf16_storage = true;
            lkt_run_hash(&run, metrics);
            assert_memory_equal(&metrics[0], &plain[0], sizeof plain[0]);
        }
}

/* ---------------------------------------------------------------- memory */

static lks_tensor *even(lks_graph *g)
{
    lks_tensor *x = lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(16, 16, 4)});
    x = lks_conv2d(g, x, &(lks_conv2d_opts){.filters = 4, .kernel = {1, 1}});
    for (int i = 0; i < 36; i++) x = lks_tanh(g, x);
    x = lks_dense(g, lks_global_avg_pool(g, x), &(lks_dense_opts){.units = 2});
    return lks_cross_entropy(g, x, lks_target(g, &(lks_target_opts){.classes = 2}), NULL);
}

static size_t bytes_of(const char *device, bool stored)
{
    lkt_model m = lkt_begin(&(lks_context_opts){.device = device});
    lkt_compile(&m, &(lks_model_opts){.loss = even(m.graph),
                                      .global_batch = 3,
                                      .replicas = 1,
                                      .kernels.bf16_storage = stored});
    const size_t bytes = m.model->program.local_bytes;
    lkt_end(&m);
    return bytes;
}

/* A chain of 37 outputs that backward reads, all but a few of which take half as much. */
static void memory_is_half(void **state)
{
    (void)state;
    const size_t layer = 3 * 16 * 16 * 4 * sizeof(float);
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        assert_true(bytes_of(lkt_backends()[b]->name, false) >= 36 * layer);
        assert_true(bytes_of(lkt_backends()[b]->name, true) <= 23 * layer);
    }
}

/* ---------------------------------------------------------------- what cannot be */

static void refused(const lks_model_opts *opts, const char *part)
{
    lkt_model m = lkt_begin(NULL);
    lks_model_opts own = *opts;
    own.loss = lkt_net_deep(m.graph);
    own.global_batch = 4;
    own.kernels.bf16_storage = true;
    LKT_FAILS(LKS_E_UNSUPPORTED, part, lks_model_compile(&m.model, m.graph, &own));
    lkt_end(&m);
}

static void what_contradicts_it_is_refused(void **state)
{
    (void)state;
    refused(&(lks_model_opts){.recompute = true}, "recompute forms them again; leave one of them");
    refused(&(lks_model_opts){.layers = true, .replicas = 1, .workers = 1},
            "layers: true shows activations as they are, and bf16_storage keeps them rounded");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_rounded_already_stays),
        cmocka_unit_test(backward_reads_rounded_numbers),
        cmocka_unit_test(any_workers_give_one_hash),
        cmocka_unit_test(forward_is_not_rounded),
        cmocka_unit_test(memory_is_half),
        cmocka_unit_test(what_contradicts_it_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Loss scaling: half precision rounds as it should; a scale changes no bit where nothing leaves the range of numbers; in
 * half precision, on device ref, small gradients survive by it, and one that is too large is halved, counted, and
 * grows again, the same for any number of workers and ranks, and when a run goes on.
 */
#include "support/backends.h"
#include "support/ranks/fake.h"
#include "support/runs.h"
#include "support/test.h"

#include <math.h>
#include <string.h>

#include "numeric/f16.h"

/* Every number of half precision, what lies half-way to the next, and beside that. */
static void halves_are_the_nearest(void **state)
{
    (void)state;
    for (int bits = 0; bits < 0x7c00; bits++) {
        const int exponent = bits >> 10, place = exponent > 0 ? exponent - 25 : -24;
        const float step = ldexpf(1, place);
        const float x = (float)((bits & 0x3ff) + (exponent > 0 ? 0x400 : 0)) * step;
        const float next = bits == 0x7bff ? INFINITY : x + step, middle = x + step / 2;
        assert_true(lki_f16_round(x) == x && lki_f16_round(-x) == -x);
        assert_true(lki_f16_round(middle) == (bits % 2 == 0 ? x : next));
        assert_true(lki_f16_round(nextafterf(middle, 0)) == x);
        assert_true(lki_f16_round(-nextafterf(middle, INFINITY)) == -next);
    }
    assert_true(signbit(lki_f16_round(-0.0f)) && lki_f16_round(0x1p-40f) == 0);
    assert_true(lki_f16_round(3e38f) == INFINITY && lki_f16_round(-INFINITY) == -INFINITY);
    assert_true(isnan(lki_f16_round(NAN)));
}

static lkt_run usual(const char *device, lkt_net net)
{
    return (lkt_run){.device = device,
                     .net = net,
                     .samples = 21,
                     .batch = 11,
                     .steps = 6,
                     .opts = {.replicas = 3, .workers = 2, .hash_every = 2, .optim = lks_adam()}};
}

static void no_bit_changes_within_the_range(void **state)
{
    (void)state;
    const lkt_net nets[] = {lkt_net_mlp, lkt_net_conv, lkt_net_residual, lkt_net_synced};
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (size_t n = 0; n < sizeof nets / sizeof nets[0]; n++) {
            lkt_run run = usual(lkt_backends()[b]->name, nets[n]);
            const uint64_t hash = lkt_run_hash(&run, NULL);
            run.opts.loss_scale = 0x1p20;
            assert_true(lkt_run_hash(&run, NULL) == hash);
            run.opts.loss_scale_steps = 2; /* 2^20, 2^21, ...; gradients are formed whole */
            assert_true(lkt_run_hash(&run, NULL) == hash);
        }
}

/* ---------------------------------------------------------------- half precision */

enum { SAMPLES = 12, WIDTH = 6 };

/* Outputs that grow with `size`, which their targets are small beside. */
typedef struct net {
    float size;
    lks_model_opts opts;
} net;

typedef struct trained {
    lks_progress progress;
    uint64_t hash;
    float gradient[WIDTH]; /* of the first weight, once, before any step */
    bool skipped[16];
} trained;

static lkt_model compile(const net *n, lks_comm *comm)
{
    lkt_model m = lkt_begin(&(lks_context_opts){.device = "ref", .seed = 4});
    lks_tensor *x = lks_input(m.graph, &(lks_input_opts){.shape = LKS_SHAPE(WIDTH)});
    x = lks_tanh(m.graph, lks_dense(m.graph, x, &(lks_dense_opts){.name = "a", .units = 5}));
    x = lks_scale(m.graph, x, &(lks_scale_opts){.factor = n->size});
    x = lks_dense(m.graph, x, &(lks_dense_opts){.name = "b", .units = 1});
    lks_model_opts opts = n->opts;
    opts.loss = lks_mse(m.graph, x, lks_target(m.graph, &(lks_target_opts){.shape = LKS_SHAPE(1)}));
    opts.global_batch = SAMPLES;
    opts.hash_every = 1;
    opts.comm = comm;
    lkt_compile(&m, &opts);
    return m;
}

static lks_batch batch_of(float x[SAMPLES][WIDTH], float y[SAMPLES])
{
    for (int i = 0; i < SAMPLES; i++) {
        for (int k = 0; k < WIDTH; k++) x[i][k] = (float)((i * 7 + k * 5) % 11) / 11;
        y[i] = (float)(i % 3) * 0.25f;
    }
    return (lks_batch){.x = x, .y = y, .count = SAMPLES};
}

static lks_status run_on(lkt_model *m, trained *out, int first, int last)
{
    float x[SAMPLES][WIDTH], y[SAMPLES];
    const lks_batch batch = batch_of(x, y);
    for (int i = first; i < last; i++) {
        const lks_status status = lks_model_step(m->model, &batch, 1e-3, NULL);
        if (status != LKS_OK) return status;
        out->skipped[i] = lks_model_last_step(m->model).skipped;
    }
    out->progress = lks_model_progress(m->model);
    return lks_model_hash(m->model, &out->hash);
}

static trained train(const net *n, int steps)
{
    trained out = {0};
    lkt_model m = compile(n, NULL);
    float x[SAMPLES][WIDTH], y[SAMPLES], gradient[5][WIDTH];
    const lks_batch batch = batch_of(x, y);
    LKT_OK(lks_model_gradient(m.model, &batch, NULL));
    const int at = lks_model_state_find(m.model, "gradient.a.weight");
    LKT_OK(lks_model_state_read(m.model, at, gradient, sizeof gradient));
    memcpy(out.gradient, gradient[0], sizeof out.gradient);
    LKT_OK(run_on(&m, &out, 0, steps));
    lkt_end(&m);
    return out;
}

static double distance(const trained *a, const trained *b)
{
    double sum = 0, size = 0;
    for (int k = 0; k < WIDTH; k++) {
        sum += fabs((double)a->gradient[k] - (double)b->gradient[k]);
        size += fabs((double)b->gradient[k]);
    }
    return sum / size;
}

/* Gradients of about 3e-8 are 0 or 2^-24 in half precision, and by a scale of 2^15 have ten bits. */
static void small_gradients_survive(void **state)
{
    (void)state;
    const net exact = {.size = 1e-7f}, half = {.size = 1e-7f, .opts.kernels.f16 = true};
    net scaled = half;
    scaled.opts.loss_scale = 0x1p15;
    const trained f32 = train(&exact, 1), lost = train(&half, 1), saved = train(&scaled, 1);
    assert_true(distance(&lost, &f32) > 0.1);
    assert_true(distance(&saved, &f32) < 0.005); /* a few roundings of 2^-11 */
    assert_true(saved.progress.loss_scale == 0x1p15 && saved.progress.scale_good == 0);
}

/* What goes forward is rounded, too. */
static void outputs_are_halves(void **state)
{
    (void)state;
    int between = 0;
    for (int half = 0; half < 2; half++) {
        const net n = {.size = 1, .opts.kernels.f16 = half == 1};
        lkt_model m = compile(&n, NULL);
        float x[SAMPLES][WIDTH], y[SAMPLES], output[SAMPLES];
        (void)batch_of(x, y);
        LKT_OK(lks_model_predict(m.model, x, SAMPLES, output));
        for (int i = 0; i < SAMPLES; i++) {
            const bool is_half = lki_f16_round(output[i]) == output[i];
            assert_true(half == 0 || is_half);
            between += !is_half;
        }
        lkt_end(&m);
    }
    assert_true(between > SAMPLES / 2); /* of f32's */
}

/* A scale that is given is the options', whatever a checkpoint has. */
static void a_given_scale_stays(void **state)
{
    (void)state;
    const net n = {.size = 1, .opts.loss_scale = 0x1p12};
    lkt_model m = compile(&n, NULL);
    lks_model_set_progress(m.model, (lks_progress){.loss_scale = 0x1p5});
    assert_true(lks_model_progress(m.model).loss_scale == 0x1p12);
    lkt_end(&m);
}

static net dynamic(int workers)
{
    return (net){.size = 40,
                 .opts = {.kernels.f16 = true,
                          .loss_scale = 0x1p18,
                          .loss_scale_steps = 3,
                          .replicas = 4,
                          .workers = workers,
                          .optim = lks_adam()}};
}

/* From 2^18, which is too much, down; three steps later up, and down again. */
static void a_scale_finds_its_size(void **state)
{
    enum { STEPS = 16 };
    (void)state;
    const net n = dynamic(1);
    const trained found = train(&n, STEPS);
    const lks_progress *p = &found.progress;
    int falls = 0;
    while (falls < STEPS && found.skipped[falls]) falls++;
    assert_in_range(falls, 2, 12);
    assert_true(!found.skipped[falls] && !found.skipped[falls + 1] && !found.skipped[falls + 2]);
    assert_true(found.skipped[falls + 3]); /* doubled once too often */
    int64_t skipped = 0;
    for (int i = 0; i < STEPS; i++) skipped += found.skipped[i];
    assert_int_equal(p->skipped, skipped);
    assert_int_equal(p->scale_downs, skipped);
    assert_true(p->scale_ups >= 1);
    assert_true(p->loss_scale == ldexp(0x1p18, (int)(p->scale_ups - p->scale_downs)));
    for (int workers = 2; workers <= 4; workers++) {
        const net other = dynamic(workers);
        const trained again = train(&other, STEPS);
        assert_true(again.hash == found.hash);
        assert_memory_equal(&again.progress, p, sizeof *p);
    }
}

static int of_rank(lks_comm *comm, int rank, void *user)
{
    const trained *wanted = user;
    const net n = dynamic(1);
    trained found = {0};
    (void)rank;
    LKT_CHECK(comm != NULL);
    lkt_model m = compile(&n, comm);
    LKT_CHECK(run_on(&m, &found, 0, 10) == LKS_OK);
    LKT_CHECK(found.hash == wanted->hash &&
              found.progress.loss_scale == wanted->progress.loss_scale);
    lkt_end(&m);
    return 0;
}

static void ranks_have_one_scale(void **state)
{
    (void)state;
    const net n = dynamic(1);
    trained one = train(&n, 10);
    for (int ranks = 2; ranks <= 3; ranks++)
        lkt_ranks(&(lkt_hub_opts){.size = ranks, .seed = 5, .delay = 2}, NULL, of_rank, &one);
}

/* What a checkpoint keeps is enough. */
static void runs_go_on(void **state)
{
    enum { FIRST = 5, STEPS = 12 };
    (void)state;
    const net n = dynamic(2);
    const trained whole = train(&n, STEPS);
    trained found = {0};
    lkt_model a = compile(&n, NULL), b = compile(&n, NULL);
    LKT_OK(run_on(&a, &found, 0, FIRST));
    for (int i = 0; i < lks_model_state_count(a.model); i++) {
        char values[1024];
        const lks_state_info info = lks_model_state_info(a.model, i);
        if (info.kind == LKS_GRADIENT) continue;
        assert_true(info.bytes <= sizeof values);
        LKT_OK(lks_model_state_read(a.model, i, values, info.bytes));
        LKT_OK(lks_model_state_write(b.model, i, values, info.bytes));
    }
    lks_model_set_progress(b.model, lks_model_progress(a.model));
    LKT_OK(run_on(&b, &found, FIRST, STEPS));
    assert_true(found.hash == whole.hash);
    assert_memory_equal(&found.progress, &whole.progress, sizeof whole.progress);
    lkt_end(&a);
    lkt_end(&b);
}

/* At 1 there is nothing to halve: it is as without a scale. */
static void what_no_scale_mends_is_said(void **state)
{
    (void)state;
    const net huge = {.size = 1e30f, .opts = {.kernels.f16 = true, .loss_scale_steps = 3}};
    trained found = {0};
    lkt_model m = compile(&huge, NULL);
    LKT_FAILS(LKS_E_NUMERIC, "step 1", run_on(&m, &found, 0, 1));
    assert_true(lks_model_progress(m.model).loss_scale == 0x1p16); /* it is the loss */
    lkt_end(&m);
}

static void expect_refusal(const char *device, const lks_model_opts *given, lks_status status,
                           const char *sentence)
{
    lkt_model m = lkt_begin(&(lks_context_opts){.device = device});
    lks_model_opts opts = *given;
    opts.loss = lkt_net_mlp(m.graph);
    opts.global_batch = 4;
    LKT_FAILS(status, sentence, lks_model_compile(&m.model, m.graph, &opts));
    lkt_end(&m);
}

static void mistakes_are_explained(void **state)
{
    (void)state;
    static const double wrong[] = {3, 0.5, -2, 0x1p61, NAN, INFINITY};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        expect_refusal("ref", &(lks_model_opts){.loss_scale = wrong[i]}, LKS_E_INVALID,
                       "expected a power of two from 1 to 2^60");
    expect_refusal("ref", &(lks_model_opts){.loss_scale_steps = -1}, LKS_E_INVALID,
                   "loss_scale_steps is -1, expected at least 1");
    if (lki_backend_find("cpu") != NULL)
        expect_refusal("cpu", &(lks_model_opts){.kernels.f16 = true}, LKS_E_UNSUPPORTED,
                       "device 'cpu' has no numbers of half precision; device ref rounds to them");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_are_the_nearest),
        cmocka_unit_test(no_bit_changes_within_the_range),
        cmocka_unit_test(small_gradients_survive),
        cmocka_unit_test(outputs_are_halves),
        cmocka_unit_test(a_given_scale_stays),
        cmocka_unit_test(a_scale_finds_its_size),
        cmocka_unit_test(ranks_have_one_scale),
        cmocka_unit_test(runs_go_on),
        cmocka_unit_test(what_no_scale_mends_is_said),
        cmocka_unit_test(mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

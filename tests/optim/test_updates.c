/* What an update does besides its formula: norms that are reported, projections, averages, skipped steps. */
#include "optim/options.h"

#include "core/backend.h"

/* The norm of what lks_model_gradient() gives, of 64-bit sums in another order: 1e-12 is far above
 * 2^-53 times the number of terms. Clipped by it, SGD moves by lr * most. */
static void the_norm_is_reported(void **state)
{
    (void)state;
    enum { BATCH = 8 };
    float x[BATCH][TINY_FEATURES], values[64], before[64] = {0}, after[64] = {0};
    int32_t y[BATCH];
    const lks_batch batch = {.x = x, .y = y, .count = BATCH};
    for (int64_t i = 0; i < BATCH; i++) tiny_sample(i, x[i], &y[i]);
    tiny t = tiny_open(&(tiny_opts){.shallow = true, .model = {.clip_norm = 0.0625}});
    assert_true(isnan(lks_model_last_step(t.model).gradient_norm));
    LKT_OK(lks_model_gradient(t.model, &batch, NULL));
    assert_true(isnan(lks_model_last_step(t.model).gradient_norm));
    double square = 0, moved = 0;
    for (int i = 0; i < lks_model_state_count(t.model); i++) {
        const lks_state_info info = lks_model_state_info(t.model, i);
        if (info.kind != LKS_GRADIENT) continue;
        LKT_OK(lks_model_state_read(t.model, i, values, info.bytes));
        for (size_t k = 0; k < info.bytes / sizeof(float); k++)
            square += (double)values[k] * (double)values[k];
    }
    read_all(&t, "head.weight", before);
    read_all(&t, "head.bias", before + 32);
    LKT_OK(lks_model_step(t.model, &batch, 1.0, NULL));
    const double norm = lks_model_last_step(t.model).gradient_norm;
    assert_true(norm > 0.0625 && fabs(norm - sqrt(square)) <= 1e-12 * norm);
    assert_false(lks_model_last_step(t.model).skipped);
    read_all(&t, "head.weight", after);
    read_all(&t, "head.bias", after + 32);
    for (int i = 0; i < 64; i++) moved += pow((double)after[i] - (double)before[i], 2.0);
    /* Of 21 parameters near 1, each rounded to 2^-24; and 1e-6 beside the norm. */
    assert_true(fabs(sqrt(moved) - 0.0625) <= 21 * 0x1p-24 + 0.0625 * 1e-6 / norm);
    tiny_close(&t);
}

/* As many numbers as vectors have and do not have, in the place of the sums and elsewhere: a sum below 2^-62 has a mean of 0
 * where it is halved, and a NaN passes the limit. */
static void means_are_flushed_and_limited(void **state)
{
    (void)state;
    static const float sums[] = {3, -3, 0x1.8p-63f, -0x1.8p-63f, 0x1p-62f, -0x1p-62f, -0.0f, 8, -8};
    static const float means[] = {1.5f, -1.5f, 0, 0, 0x1p-63f, -0x1p-63f, 0, 2, -2};
    enum { VALUES = sizeof sums / sizeof *sums, MOST = 21 };
    for (int count = 0; count <= MOST; count++)
        for (int in_place = 0; in_place < 2; in_place++) {
            float from[MOST + 1], other[MOST + 1], *to = in_place ? from : other;
            for (int i = 0; i <= MOST; i++) from[i] = other[i] = i == 10 ? NAN : sums[i % VALUES];
            lki_host_memory.mean(count, 0.5f, 2, from, to);
            for (int i = 0; i < count; i++) {
                if (i == 10)
                    assert_true(isnan(to[i]));
                else
                    assert_memory_equal(&to[i], &means[i % VALUES], sizeof *to);
            }
            assert_memory_equal(&to[count], &(float){count == 10 ? NAN : sums[count % VALUES]},
                                sizeof *to);
        }
}

/* One wide layer: x[inputs] -> dense 'd' -> cross entropy with 3 classes. */
typedef struct wide {
    lks_context *context;
    lks_graph *graph;
    lks_model *model;
    float *x; /* [BATCH][inputs] */
    lks_batch batch;
} wide;

static wide open_wide(const char *device, int64_t inputs, lks_model_opts opts)
{
    enum { BATCH = 6 };
    static const int32_t labels[BATCH] = {0, 1, 2, 2, 1, 0};
    wide w;
    LKT_OK(lks_context_create(&w.context, &(lks_context_opts){.device = device, .seed = 5}));
    LKT_OK(lks_graph_create(&w.graph, w.context));
    lks_tensor *x = lks_input(w.graph, &(lks_input_opts){.shape = LKS_SHAPE(inputs)});
    lks_tensor *y = lks_target(w.graph, &(lks_target_opts){.classes = 3});
    x = lks_dense(w.graph, x, &(lks_dense_opts){.name = "d", .units = 3});
    opts.loss = lks_cross_entropy(w.graph, x, y, NULL);
    opts.global_batch = BATCH;
    opts.replicas = 3;
    LKT_OK(lks_model_compile(&w.model, w.graph, &opts));
    w.x = malloc((size_t)(BATCH * inputs) * sizeof *w.x);
    assert_non_null(w.x);
    for (int64_t i = 0; i < BATCH * inputs; i++) w.x[i] = (float)(i * 7919 % 257 - 128) / 128.0f;
    w.batch = (lks_batch){.x = w.x, .y = labels, .count = BATCH};
    return w;
}

static void close_wide(wide *w)
{
    lks_model_destroy(w->model);
    lks_graph_destroy(w->graph);
    lks_context_destroy(w->context);
    free(w->x);
}

/* 12,000 elements are three blocks; their norm is that of the gradient, the same on any number of
 * workers, by rows and by replica. */
static void norms_of_many_blocks(void **state)
{
    enum { INPUTS = 4000 };
    static float values[3 * INPUTS];
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        double first = 0;
        for (int workers = 1; workers <= 3; workers++) {
            double square = 0;
            wide w = open_wide(lkt_backends()[b]->name, INPUTS,
                               (lks_model_opts){.workers = workers,
                                                .skip_not_finite = true,
                                                .by_replica = workers > 1});
            LKT_OK(lks_model_gradient(w.model, &w.batch, NULL));
            for (int i = 0; i < lks_model_state_count(w.model); i++) {
                const lks_state_info info = lks_model_state_info(w.model, i);
                if (info.kind != LKS_GRADIENT) continue;
                LKT_OK(lks_model_state_read(w.model, i, values, info.bytes));
                for (size_t k = 0; k < info.bytes / sizeof(float); k++)
                    square += (double)values[k] * (double)values[k];
            }
            LKT_OK(lks_model_step(w.model, &w.batch, 0.1, NULL));
            const double norm = lks_model_last_step(w.model).gradient_norm;
            assert_true(norm > 0.1 && fabs(norm - sqrt(square)) <= 1e-12 * norm);
            if (workers == 1) first = norm;
            assert_true(norm == first);
            close_wide(&w);
        }
    }
}

/* With a delta that everything is below, AdamP moves every row at a right angle to it. Rows of 5,000
 * are two blocks. The new row and what is subtracted along the old one are rounded to f32, 2^-24 of
 * each: against a step of 0.01 an element, with weights of 0.014, far below 1e-5. */
static void long_rows_are_projected(void **state)
{
    enum { INPUTS = 5000 };
    static float before[3 * INPUTS], after[3 * INPUTS];
    lks_optim optim = lks_adamp();
    (void)state;
    optim.delta = 1e9f;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        wide w = open_wide(lkt_backends()[b]->name, INPUTS, (lks_model_opts){.optim = optim});
        const int index = lks_model_state_find(w.model, "d.weight");
        LKT_OK(lks_model_state_read(w.model, index, before, sizeof before));
        LKT_OK(lks_model_step(w.model, &w.batch, 0.01, NULL));
        LKT_OK(lks_model_state_read(w.model, index, after, sizeof after));
        for (int row = 0; row < 3; row++) {
            double product = 0, step = 0, length = 0;
            for (int i = row * INPUTS; i < (row + 1) * INPUTS; i++) {
                const double d = (double)after[i] - (double)before[i];
                product += d * (double)before[i];
                step += d * d;
                length += (double)before[i] * (double)before[i];
            }
            assert_true(step > 0 && fabs(product) <= 1e-5 * sqrt(step * length));
        }
        close_wide(&w);
    }
}

static double loss_of(tiny *t)
{
    float x[16][TINY_FEATURES];
    int32_t y[16];
    lks_metrics sum = {0};
    for (int64_t i = 0; i < 16; i++) tiny_sample(i, x[i], &y[i]);
    LKT_OK(lks_model_evaluate(t->model, &(lks_batch){.x = x, .y = y, .count = 16}, &sum));
    return lks_metrics_loss(&sum);
}

/* Evaluation with averages is that of a model whose parameters they are; training does not see it,
 * and before the first update they are the parameters. */
static void averages_are_used_on_request(void **state)
{
    (void)state;
    float values[64];
    tiny t = tiny_open(&(tiny_opts){.hash_every = 100, .model = {.ema_decay = 0.75}});
    tiny plain = tiny_open(&(tiny_opts){.hash_every = 100});
    LKT_FAILS(LKS_E_STATE, "keeps no averages", lks_model_use_averages(plain.model, true));
    LKT_OK(lks_model_use_averages(plain.model, false));
    LKT_OK(lks_model_use_averages(t.model, true));
    assert_false(lks_model_get_info(t.model).averages);
    assert_true(loss_of(&t) == loss_of(&plain));
    for (int i = 0; i < 4; i++) {
        tiny_steps(&t, 1);
        tiny_steps(&plain, 1);
        assert_true(lks_model_get_info(t.model).averages);
        assert_true(i == 0 ? loss_of(&t) == loss_of(&plain) : loss_of(&t) != loss_of(&plain));
    }
    LKT_OK(lks_model_use_averages(t.model, false));
    assert_true(loss_of(&t) == loss_of(&plain));
    LKT_OK(lks_model_use_averages(t.model, true));
    for (int i = 0; i < lks_model_state_count(t.model); i++) {
        const lks_state_info info = lks_model_state_info(t.model, i);
        if (info.kind != LKS_AVERAGE) continue;
        assert_memory_equal(info.name, "ema.", 4);
        LKT_OK(lks_model_state_read(t.model, i, values, info.bytes));
        LKT_OK(lks_model_state_write(plain.model, lks_model_state_find(plain.model, info.name + 4),
                                     values, info.bytes));
    }
    assert_true(loss_of(&t) == loss_of(&plain));
    tiny_close(&plain);
    tiny_close(&t);
}

static lks_status step_with(tiny *t, float feature, double lr, lks_metrics *metrics)
{
    enum { BATCH = 8 };
    float x[BATCH][TINY_FEATURES];
    int32_t y[BATCH];
    for (int64_t i = 0; i < BATCH; i++) tiny_sample(i, x[i], &y[i]);
    x[5][2] = feature;
    return lks_model_step(t->model, &(lks_batch){.x = x, .y = y, .count = BATCH}, lr, metrics);
}

/* A skipped step leaves all state, and counts; the next update is as if it had not been, also in
 * Adam's count. */
static void skipped_steps_leave_everything(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        const tiny_opts opts = {.device = lkt_backends()[b]->name,
                                .workers = 3,
                                .shallow = true,
                                .hash_every = 2,
                                .optim = lks_adam(),
                                .model = {.skip_not_finite = true, .ema_decay = 0.5}};
        tiny t = tiny_open(&opts), whole = tiny_open(&opts);
        lks_metrics metrics;
        tiny_state before = tiny_read(&t), after;
        LKT_OK(step_with(&t, NAN, 0.1, &metrics)); /* the loss */
        assert_true(lks_model_last_step(t.model).skipped);
        assert_int_equal(metrics.not_finite, 1);
        assert_int_equal(metrics.samples, 8);
        LKT_OK(step_with(&t, 1.0f, 0.1, NULL));
        assert_false(lks_model_last_step(t.model).skipped);
        LKT_OK(step_with(&whole, 1.0f, 0.1, NULL));
        after = tiny_read(&t);
        assert_memory_not_equal(before.data, after.data, after.bytes);
        before = tiny_read(&whole);
        assert_memory_equal(before.data, after.data, after.bytes);
        const uint64_t link = lks_model_progress(t.model).link;
        LKT_OK(step_with(&t, INFINITY, 0.1, NULL));
        LKT_OK(step_with(&t, INFINITY, 0.1, NULL)); /* a link of the chain all the same */
        before = tiny_read(&t);
        assert_memory_equal(before.data, after.data, after.bytes);
        assert_int_equal(before.progress.step, 4);
        assert_int_equal(before.progress.skipped, 3);
        assert_true(before.progress.link != link);
        tiny_close(&t);
        tiny_close(&whole);
    }
}

/* A link of the chain at a skipped step is that of a step that changes nothing. */
static void skipped_steps_make_links(void **state)
{
    (void)state;
    const tiny_opts opts = {
        .workers = 2, .shallow = true, .hash_every = 2, .model = {.skip_not_finite = true}};
    tiny skipping = tiny_open(&opts), resting = tiny_open(&opts);
    LKT_OK(step_with(&skipping, 1.0f, 0.1, NULL));
    LKT_OK(step_with(&resting, 1.0f, 0.1, NULL));
    LKT_OK(step_with(&skipping, NAN, 0.1, NULL));
    LKT_OK(step_with(&resting, 1.0f, 0.0, NULL));
    assert_int_equal(lks_model_progress(skipping.model).skipped, 1);
    assert_int_equal(lks_model_progress(resting.model).skipped, 0);
    assert_true(lks_model_progress(skipping.model).link == lks_model_progress(resting.model).link);
    tiny_close(&skipping);
    tiny_close(&resting);
}

/* y = w x with w = 0: the loss is that of the target, 1e20, and the gradient 1e40: not in f32. */
static void gradients_are_looked_at(void **state)
{
    (void)state;
    for (int skips = 0; skips < 2; skips++) {
        lks_context *context;
        lks_graph *graph;
        lks_model *model;
        float zero[2] = {0, 0}, found[2], x[2] = {1e30f, 1e30f}, y[1] = {1e10f};
        LKT_OK(lks_context_create(&context, &(lks_context_opts){.device = lkt_device(NULL)}));
        LKT_OK(lks_graph_create(&graph, context));
        lks_tensor *in = lks_input(graph, &(lks_input_opts){.shape = LKS_SHAPE(2)});
        lks_tensor *target = lks_target(graph, &(lks_target_opts){.shape = LKS_SHAPE(1)});
        lks_tensor *out = lks_dense(graph, in,
                                    &(lks_dense_opts){.name = "d", .units = 1, .no_bias = true});
        const lks_model_opts opts = {.loss = lks_mse(graph, out, target),
                                     .global_batch = 1,
                                     .replicas = 1,
                                     .clip_norm = skips ? 0 : 1.0f,
                                     .skip_not_finite = skips};
        LKT_OK(lks_model_compile(&model, graph, &opts));
        const int weight = lks_model_state_find(model, "d.weight");
        LKT_OK(lks_model_state_write(model, weight, zero, sizeof zero));
        const lks_batch batch = {.x = x, .y = y, .count = 1};
        if (skips)
            LKT_OK(lks_model_step(model, &batch, 0.1, NULL));
        else
            LKT_FAILS(LKS_E_NUMERIC, "the norm of the gradient is inf, though every loss is",
                      lks_model_step(model, &batch, 0.1, NULL));
        assert_true(lks_model_last_step(model).skipped == (skips == 1));
        assert_int_equal(lks_model_progress(model).step, skips);
        assert_int_equal(lks_model_progress(model).skipped, skips);
        LKT_OK(lks_model_state_read(model, weight, found, sizeof found));
        assert_memory_equal(zero, found, sizeof zero);
        lks_model_destroy(model);
        lks_graph_destroy(graph);
        lks_context_destroy(context);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_norm_is_reported),
        cmocka_unit_test(means_are_flushed_and_limited),
        cmocka_unit_test(norms_of_many_blocks),
        cmocka_unit_test(long_rows_are_projected),
        cmocka_unit_test(averages_are_used_on_request),
        cmocka_unit_test(skipped_steps_leave_everything),
        cmocka_unit_test(skipped_steps_make_links),
        cmocka_unit_test(gradients_are_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

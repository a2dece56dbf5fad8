/* lks_model_opts.mirror: outputs are means with those of mirrored images, and metrics are formed from them. */
#include <string.h>

#include "core/backend.h"
#include "support/backends.h"
#include "support/runs.h"
#include "support/test.h"

enum { SAMPLES = 13, BATCH = 5, CLASSES = 5, ROWS = 12, COLUMNS = 10, CHANNELS = 3 };
enum { PIXELS = ROWS * COLUMNS * CHANNELS, WIDTH = SAMPLES * CLASSES };

static lkt_model build(const char *device, lkt_net net, lks_model_opts opts)
{
    lkt_model m = lkt_begin(&(lks_context_opts){.device = device, .seed = 11});
    opts.loss = net(m.graph);
    opts.global_batch = BATCH;
    lkt_compile(&m, &opts);
    return m;
}

/* Written apart from the library's. */
static void mirror(uint8_t out[SAMPLES * PIXELS], const uint8_t *x)
{
    for (int i = 0; i < SAMPLES * ROWS; i++)
        for (int c = 0; c < COLUMNS; c++)
            for (int k = 0; k < CHANNELS; k++)
                out[(i * COLUMNS + c) * CHANNELS + k] =
                    x[(i * COLUMNS + COLUMNS - 1 - c) * CHANNELS + k];
}

/* Of a model without mirror. */
static void means(float out[WIDTH], lks_model *model, const uint8_t *x, const uint8_t *mirrored)
{
    float other[WIDTH];
    LKT_OK(lks_model_predict(model, x, SAMPLES, out));
    LKT_OK(lks_model_predict(model, mirrored, SAMPLES, other));
    assert_memory_not_equal(out, other, sizeof other);
    for (int i = 0; i < WIDTH; i++) out[i] = (out[i] + other[i]) / 2;
}

/* What the library makes of outputs that are the network, by the loss of the networks' own. */
static lks_metrics judge(const char *device, lkt_net net, const float outputs[WIDTH],
                         const int32_t *y)
{
    const lks_cross_entropy_opts smooth = {.label_smoothing = .1f};
    lkt_model m = lkt_begin(&(lks_context_opts){.device = device});
    lks_tensor *x = lks_input(m.graph, &(lks_input_opts){.shape = LKS_SHAPE(CLASSES)});
    x = lks_scale(m.graph, x, &(lks_scale_opts){.factor = 1.0f});
    lks_tensor *target = lks_target(m.graph, &(lks_target_opts){.classes = CLASSES});
    lkt_compile(&m, &(lks_model_opts){.loss = net == lkt_net_conv
                                                  ? lks_nll(m.graph, x, target)
                                                  : lks_cross_entropy(m.graph, x, target, &smooth),
                                      .global_batch = BATCH});
    lks_metrics sum = {0};
    LKT_OK(lks_model_evaluate(m.model, &(lks_batch){.x = outputs, .y = y, .count = SAMPLES}, &sum));
    lkt_end(&m);
    return sum;
}

static void check(const char *device, lkt_net net, lks_model_opts opts)
{
    lkt_images images = lkt_images_make(SAMPLES);
    const lks_batch batch = {.x = images.x, .y = images.y, .count = BATCH};
    const lks_batch all = {.x = images.x, .y = images.y, .count = SAMPLES};
    uint8_t mirrored[SAMPLES * PIXELS];
    float expected[WIDTH], found[WIDTH];
    lks_predictor *predictor;
    mirror(mirrored, images.x);
    lkt_model plain = build(device, net, opts);
    opts.mirror = true;
    lkt_model m = build(device, net, opts);
    LKT_OK(lks_predictor_create(&predictor, m.model));
    for (int step = 0; step < 3; step++) {
        means(expected, plain.model, images.x, mirrored);
        memset(found, 0, sizeof found);
        LKT_OK(lks_model_predict(m.model, images.x, SAMPLES, found));
        assert_memory_equal(found, expected, sizeof found);
        memset(found, 0, sizeof found);
        LKT_OK(lks_predictor_predict(predictor, images.x, SAMPLES, found));
        assert_memory_equal(found, expected, sizeof found);
        LKT_OK(lks_model_predict(m.model, images.x, 1, found)); /* which workers do not share */
        assert_memory_equal(found, expected, CLASSES * sizeof *found);
        lks_metrics sums[2] = {0};
        memset(found, 0, sizeof found);
        LKT_OK(lks_model_evaluate(m.model, &all, &sums[0]));
        LKT_OK(lks_model_evaluate_outputs(m.model, &all, &sums[1], found));
        assert_memory_equal(found, expected, sizeof found);
        const lks_metrics right = judge(device, net, expected, images.y);
        for (int i = 0; i < 2; i++) assert_memory_equal(&sums[i], &right, sizeof right);
        /* Training knows nothing of it. */
        LKT_OK(lks_model_step(plain.model, &batch, 0.05, NULL));
        LKT_OK(lks_model_step(m.model, &batch, 0.05, NULL));
    }
    uint64_t hash[2];
    LKT_OK(lks_model_hash(plain.model, &hash[0]));
    LKT_OK(lks_model_hash(m.model, &hash[1]));
    assert_int_equal(hash[0], hash[1]);
    lks_predictor_destroy(predictor);
    lkt_end(&m);
    lkt_end(&plain);
    lkt_images_free(&images);
}

static void expect_refusal(const char *device)
{
    lkt_model m = lkt_begin(&(lks_context_opts){.device = device});
    const lks_model_opts opts = {
        .loss = lkt_net_mlp(m.graph), .global_batch = BATCH, .mirror = true};
    LKT_FAILS(LKS_E_UNSUPPORTED, "has memory of its own, in which outputs cannot be averaged",
              lks_model_compile(&m.model, m.graph, &opts));
    lkt_end(&m);
}

static void outputs_are_means(void **state)
{
    static const lkt_net nets[] = {lkt_net_mlp, lkt_net_conv, lkt_net_residual};
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (size_t n = 0; n < sizeof nets / sizeof *nets; n++) {
            const char *device = lkt_backends()[b]->name;
            if (!lkt_backends()[b]->memory->host) {
                expect_refusal(device);
                continue;
            }
            check(device, nets[n], (lks_model_opts){.replicas = 4, .workers = 3});
            check(device, nets[n], (lks_model_opts){.replicas = 5, .workers = 1});
            check(device, nets[n],
                  (lks_model_opts){.replicas = 3, .workers = 2, .kernels.single = true});
        }
}

static void other_samples_are_refused(void **state)
{
    (void)state;
    lkt_model m = lkt_begin(NULL);
    lks_tensor *x = lks_input(m.graph, &(lks_input_opts){.shape = LKS_SHAPE(7)});
    x = lks_dense(m.graph, x, &(lks_dense_opts){.units = 2});
    const lks_model_opts opts = {.output = x, .global_batch = 1, .mirror = true};
    LKT_FAILS(LKS_E_SHAPE, "mirror: samples have 1 dimension, expected images",
              lks_model_compile(&m.model, m.graph, &opts));
    lkt_end(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_are_means),
        cmocka_unit_test(other_samples_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

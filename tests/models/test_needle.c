/*
 * Needle's golden numbers of its ResNet9 (dlsyscourse.org, hw4): logits of two images, and a loss of CIFAR-10's first.
 * Parameters and the two images are drawn as there, from NumPy's generator with seed 0. Batch norm is training's.
 *
 * A model gives logits in inference only, and training's differ by batch norm's statistics. So they are read
 * from a gradient: logits are multiplied by a gate that each sample brings as a fourth channel, and the loss is
 * the mean of their squares; with gates of 1 and 0 the gradient of a bias behind the last layer,
 * 2 / (outputs samples) times the sum over samples of gate times (gate logit), is one sample's logit.
 */
#include <math.h>
#include <stdlib.h>

#include "models/twister.h"
#include "support/backends.h"
#include "support/golden.h"
#include "support/runs.h"
#include "support/test.h"

enum { SAMPLES = 2, SIDE = 32, PIXELS = SIDE * SIDE, CLASSES = 10 };

static void write(lks_model *model, const char *layer, int number, const char *suffix,
                  const float *values, int64_t count)
{
    char name[40];
    snprintf(name, sizeof name, "%s%d.%s", layer, number, suffix);
    const int index = lks_model_state_find(model, name);
    assert_true(index >= 0);
    LKT_OK(lks_model_state_write(model, index, values, (size_t)count * sizeof *values));
}

/* Needle keeps weights as [kernel][kernel][in][out], and dense ones as [in][out]. */
static void draw_layer(lks_model *model, twister *t, const char *layer, int number,
                       const int64_t size[3])
{
    const int64_t in = size[0], out = size[1], area = size[2] * size[2], count = in * out * area;
    float *values = malloc((size_t)count * sizeof *values);
    assert_non_null(values);
    for (int64_t a = 0; a < area; a++)
        for (int64_t i = 0; i < in; i++)
            for (int64_t o = 0; o < out; o++)
                values[(o * in + i) * area + a] = between(t, sqrt(6.0 / (double)(in * area)));
    write(model, layer, number, "weight", values, count);
    const double bound = layer[0] == 'c' ? 1 / sqrt((double)(in * area)) : sqrt(6.0 / (double)out);
    for (int64_t o = 0; o < out; o++) values[o] = between(t, bound);
    write(model, layer, number, "bias", values, out);
    free(values);
}

/* Gives the generator behind the parameters. */
static twister draw_parameters(lks_model *model)
{
    static const int64_t conv[8][3] = {{3, 16, 7},  {16, 32, 3},  {32, 32, 3},   {32, 32, 3},
                                       {32, 64, 3}, {64, 128, 3}, {128, 128, 3}, {128, 128, 3}};
    static const int64_t dense[2][3] = {{128, 128, 1}, {128, 10, 1}};
    twister t;
    seed(&t, 0);
    for (int i = 0; i < 8; i++) draw_layer(model, &t, "conv", i + 1, conv[i]);
    for (int i = 0; i < 2; i++) draw_layer(model, &t, "fc", i + 1, dense[i]);
    return t;
}

static void draw(lks_model *model, float *x)
{
    twister t = draw_parameters(model);
    for (int s = 0; s < SAMPLES; s++)
        for (int c = 0; c < 3; c++)
            for (int p = 0; p < PIXELS; p++) x[(s * PIXELS + p) * 4 + c] = (float)normal(&t);
}

/* Channels from `first` on of x, as many as `filters`. */
static lks_tensor *channels(lks_graph *g, lks_tensor *x, const char *name, int64_t filters)
{
    return lks_conv2d(g, x,
                      &(lks_conv2d_opts){.name = name,
                                         .filters = filters,
                                         .kernel = {1, 1},
                                         .no_bias = true,
                                         .weight_init = {.kind = LKS_INIT_IDENTITY}});
}

static lks_tensor *network(lks_graph *g)
{
    lks_tensor *x = lks_input(g, &(lks_input_opts){.name = "x", .shape = LKS_SHAPE(SIDE, SIDE, 4)});
    lks_tensor *y = lks_target(g, &(lks_target_opts){.name = "y", .shape = LKS_SHAPE(CLASSES)});
    lks_tensor *gate = lks_global_avg_pool(g, channels(g, x, "gate", 1));
    gate = lks_dense(g, gate,
                     &(lks_dense_opts){.name = "gates",
                                       .units = CLASSES,
                                       .no_bias = true,
                                       .weight_init = {.kind = LKS_INIT_ONES}});
    x = lks_network(g, channels(g, x, "image", 3), "resnet9", NULL);
    return lks_mse(g, lks_mul(g, x, gate), y);
}

static void read_logits(lks_model *model, float *x, int sample, float out[CLASSES])
{
    const float y[SAMPLES * CLASSES] = {0};
    for (int s = 0; s < SAMPLES; s++)
        for (int p = 0; p < PIXELS; p++) x[(s * PIXELS + p) * 4 + 3] = s == sample;
    LKT_OK(lks_model_gradient(model, &(lks_batch){.x = x, .y = y, .count = SAMPLES}, NULL));
    const int index = lks_model_state_find(model, "gradient.fc2.bias");
    assert_true(index >= 0);
    LKT_OK(lks_model_state_read(model, index, out, CLASSES * sizeof *out));
    for (int i = 0; i < CLASSES; i++) out[i] *= SAMPLES * CLASSES / 2.0f;
}

static void logits_are_needles(void **state)
{
    static const double expected[SAMPLES][CLASSES] = {
        {-1.8912625, .64833605, 1.9400386, 1.1435282, 1.89777, 2.9039745, -.10433993, .35458302,
         -.5684191, 2.6178317},
        {-.2905612, -.4147861, .90268034, .46530387, 1.3335679, 1.8534894, -.1867125, -2.4298222,
         -.5344223, 4.362149}};
    static const float pick[4] = {0, 0, 0, 1};
    static float x[SAMPLES * PIXELS * 4];
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        lkt_model m = lkt_begin(&(lks_context_opts){.device = lkt_backends()[b]->name});
        lkt_compile(&m, &(lks_model_opts){.loss = network(m.graph),
                                          .global_batch = SAMPLES,
                                          .replicas = 1,
                                          .optim = lks_sgd(0)});
        draw(m.model, x);
        LKT_OK(lks_model_state_write(m.model, lks_model_state_find(m.model, "gate.weight"), pick,
                                     sizeof pick));
        for (int s = 0; s < SAMPLES; s++) {
            float logits[CLASSES];
            read_logits(m.model, x, s, logits);
            for (int i = 0; i < CLASSES; i++)
                if (!(fabs((double)logits[i] - expected[s][i]) <= 1e-4))
                    fail_msg("%s: logit %d of sample %d is %.7g, Needle's %.7g",
                             lkt_backends()[b]->name, i, s, (double)logits[i], expected[s][i]);
        }
        lkt_end(&m);
    }
}

enum { FIRST = 128 }; /* of CIFAR-10's training images */

static void read_first(float *x, int32_t *y)
{
    char path[4200];
    uint8_t image[PIXELS * 3];
    lks_context *context;
    lks_dataset *set;
    snprintf(path, sizeof path, "%s/cifar10", lkt_data_folder());
    LKT_OK(lks_context_create(&context, NULL));
    LKT_OK(lks_dataset_open_folder(&set, context, path, false, 0));
    for (int i = 0; i < FIRST; i++) {
        LKT_OK(lks_dataset_read(set, i, image, y + i));
        for (int p = 0; p < PIXELS * 3; p++) x[i * PIXELS * 3 + p] = (float)image[p] / 255;
    }
    lks_dataset_destroy(set);
    lks_context_destroy(context);
}

/* hw4's test_train_cifar10: accuracy 0.09375 and loss 3.5892258 of a step on CIFAR-10's first 128 images. Both are what it
 * finds before it updates: so they are the same for its forms with Adam and with SGD. The course allows 0.01; what is
 * allowed here are the roundings of either side, some units of the last of seven digits. */
static void first_images_have_needles_loss(void **state)
{
    (void)state;
    static float x[FIRST * PIXELS * 3];
    static int32_t y[FIRST];
    const lks_batch batch = {.x = x, .y = y, .count = FIRST};
    if (lkt_data_folder() == NULL) {
        print_message("CIFAR-10 is not there (set LKS_TEST_DATA); skipped\n");
        skip();
    }
    read_first(x, y);
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        lks_metrics metrics;
        lkt_model m = lkt_begin(&(lks_context_opts){.device = lkt_backends()[b]->name});
        lks_tensor *in = lks_input(m.graph, &(lks_input_opts){.shape = LKS_SHAPE(SIDE, SIDE, 3)});
        lks_tensor *label = lks_target(m.graph, &(lks_target_opts){.classes = CLASSES});
        lks_tensor *out = lks_network(m.graph, in, "resnet9", NULL);
        lkt_compile(&m, &(lks_model_opts){.loss = lks_cross_entropy(m.graph, out, label, NULL),
                                          .output = out,
                                          .global_batch = FIRST,
                                          .replicas = 1,
                                          .optim = lks_adam()});
        draw_parameters(m.model);
        LKT_OK(lks_model_step(m.model, &batch, 0.001, &metrics));
        assert_int_equal(metrics.correct, 12);
        if (!(fabs(lks_metrics_loss(&metrics) - 3.5892258) <= 3e-6))
            fail_msg("%s: loss %.8g, Needle's 3.5892258", lkt_backends()[b]->name,
                     lks_metrics_loss(&metrics));
        lkt_end(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(logits_are_needles),
                                       cmocka_unit_test(first_images_have_needles_loss)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * How parameters start: exact values where there is nothing random, PyTorch's scales
 * (tools/goldens/initialisers.py made tests/model/golden/initialisers.json), statistics, and the same
 * bits wherever they are drawn.
 *
 * Of n independent numbers with standard deviation s the mean has s / sqrt(n), and the variance
 * s^2 sqrt((k - 1) / n) with the kurtosis k = 3 for normal and 9/5 for uniform ones. Tests allow five
 * of these: one in 1.7 million tries fails, and as numbers follow from the seed they are tried once.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <lockstep/lockstep.h>

#include "core/backend.h"
#include "numeric/random.h"
#include "support/backends.h"
#include "support/test.h"

enum { SEED = 11, CLASSES = 3 };

/* A layer 'layer' on an input of this shape. */
typedef struct layer {
    lks_shape in;
    int64_t outputs;
    int64_t kernel[2]; /* of conv2d */
    int64_t groups;
    lks_init weight, bias;
} layer;

/* The values of "layer.weight" or "layer.bias", to be freed; *count: how many. */
static float *first_values(const layer *l, const char *name, const char *device, int workers,
                           int64_t *count)
{
    lks_context *context;
    lks_graph *graph;
    lks_model *model;

    LKT_OK(lks_context_create(&context, &(lks_context_opts){.device = device, .seed = SEED}));
    LKT_OK(lks_graph_create(&graph, context));
    lks_tensor *x = lks_input(graph, &(lks_input_opts){.shape = l->in});
    if (l->in.ndim == 3)
        x = lks_conv2d(graph, x,
                       &(lks_conv2d_opts){.name = "layer",
                                          .filters = l->outputs,
                                          .kernel = {l->kernel[0], l->kernel[1]},
                                          .groups = l->groups,
                                          .weight_init = l->weight,
                                          .bias_init = l->bias});
    else
        x = lks_dense(graph, x,
                      &(lks_dense_opts){.name = "layer",
                                        .units = l->outputs,
                                        .weight_init = l->weight,
                                        .bias_init = l->bias});
    x = lks_dense(graph, lks_flatten(graph, x), &(lks_dense_opts){.units = CLASSES});
    lks_tensor *y = lks_target(graph, &(lks_target_opts){.classes = CLASSES});
    LKT_OK(lks_model_compile(&model, graph,
                             &(lks_model_opts){.loss = lks_cross_entropy(graph, x, y, NULL),
                                               .global_batch = 4,
                                               .replicas = workers,
                                               .workers = workers,
                                               .optim = lks_sgd(0)}));
    const int index = lks_model_state_find(model, name);
    assert_true(index >= 0);
    const lks_state_info info = lks_model_state_info(model, index);
    float *values = malloc(info.bytes);
    assert_non_null(values);
    LKT_OK(lks_model_state_read(model, index, values, info.bytes));
    *count = (int64_t)(info.bytes / sizeof(float));
    lks_model_destroy(model);
    lks_graph_destroy(graph);
    lks_context_destroy(context);
    return values;
}

static void expect_all(const layer *l, const char *name, float value)
{
    int64_t count;
    float *values = first_values(l, name, lkt_device("ref"), 1, &count);

    for (int64_t i = 0; i < count; i++) assert_true(values[i] == value);
    free(values);
}

static void constants_are_exact(void **state)
{
    layer l = {.in = LKS_SHAPE(13), .outputs = 7};

    (void)state;
    l.weight = (lks_init){.kind = LKS_INIT_CONSTANT, .value = -0.3f};
    l.bias = (lks_init){.kind = LKS_INIT_CONSTANT, .value = 1e-3f};
    expect_all(&l, "layer.weight", -0.3f);
    expect_all(&l, "layer.bias", 1e-3f);
    l.weight = (lks_init){.kind = LKS_INIT_CONSTANT};
    l.bias = (lks_init){.kind = LKS_INIT_ONES};
    expect_all(&l, "layer.weight", 0.0f);
    expect_all(&l, "layer.bias", 1.0f);
    l.weight = (lks_init){.kind = LKS_INIT_ZEROS};
    expect_all(&l, "layer.weight", 0.0f);
}

/* Each value is the number of its name and place, scaled in f32: nothing else has a say. */
static void values_follow_from_name_and_place(void **state)
{
    static const lks_init inits[] = {
        {.kind = LKS_INIT_DEFAULT},
        {.kind = LKS_INIT_UNIFORM, .scale = 0.25f},
        {.kind = LKS_INIT_NORMAL, .scale = 0.02f},
        {.kind = LKS_INIT_XAVIER_UNIFORM, .gain = 1.4f},
        {.kind = LKS_INIT_XAVIER_NORMAL},
        {.kind = LKS_INIT_KAIMING_NORMAL, .slope = 0.1f},
    };
    /* sqrt(9) + ..., for a weight [13][9]: fan_in 9, fan_out 13. */
    const double scales[] = {
        1.0 / 3.0,        0.25,
        (double)0.02f,    (double)1.4f * sqrt(6.0 / 22.0),
        sqrt(2.0 / 22.0), sqrt(2.0 / ((1.0 + (double)0.1f * (double)0.1f) * 9.0))};
    const uint64_t key = lki_random_key(SEED, "init", "layer.weight");

    (void)state;
    for (size_t k = 0; k < sizeof inits / sizeof inits[0]; k++) {
        const layer l = {.in = LKS_SHAPE(9), .outputs = 13, .weight = inits[k]};
        const bool normal = inits[k].kind == LKS_INIT_NORMAL ||
                            inits[k].kind == LKS_INIT_XAVIER_NORMAL ||
                            inits[k].kind == LKS_INIT_KAIMING_NORMAL;
        float expected[13 * 9];

        (normal ? lki_random_normal : lki_random_uniform)(key, 13 * 9, expected);
        for (int i = 0; i < 13 * 9; i++) expected[i] *= (float)scales[k];
        for (int b = 0; lkt_backends()[b] != NULL; b++) {
            for (int workers = 1; workers <= 3; workers++) {
                int64_t count;
                float *found = first_values(&l, "layer.weight", lkt_backends()[b]->name, workers,
                                            &count);

                assert_int_equal(count, 13 * 9);
                assert_memory_equal(found, expected, sizeof expected);
                free(found);
            }
        }
    }
}

typedef struct moments {
    double mean, variance, least, most;
} moments;

static moments moments_of(const float *values, int64_t count)
{
    moments m = {.least = INFINITY, .most = -INFINITY};

    for (int64_t i = 0; i < count; i++) m.mean += (double)values[i] / (double)count;
    for (int64_t i = 0; i < count; i++) {
        const double distance = (double)values[i] - m.mean;

        m.variance += distance * distance / (double)(count - 1);
        m.least = fmin(m.least, (double)values[i]);
        m.most = fmax(m.most, (double)values[i]);
    }
    return m;
}

/* `scale` is the bound of uniform numbers, or the deviation of normal ones. */
static void check_statistics(const float *values, int64_t count, bool normal, double scale)
{
    const double n = (double)count, s = normal ? scale : scale / sqrt(3.0);
    const double kurtosis = normal ? 3.0 : 9.0 / 5.0;
    const moments m = moments_of(values, count);

    assert_true(fabs(m.mean) <= 5.0 * s / sqrt(n));
    assert_true(fabs(m.variance - s * s) <= 5.0 * s * s * sqrt((kurtosis - 1.0) / n));
    if (normal) {
        assert_true(m.most > 3.0 * s && m.least < -3.0 * s); /* n is above 10,000 */
        return;
    }
    /* All within the bound (rounded to f32), and 1 - 1e-3 of it is reached: none of n numbers in the
     * last thousandth of a side has probability (1 - 1/2000)^n, below e^-13 for n > 26,000. */
    assert_true(m.most <= scale * (1 + 0x1p-23) && m.least >= -scale * (1 + 0x1p-23));
    assert_true(m.most > 0.999 * scale && m.least < -0.999 * scale);
}

static void random_kinds_have_their_moments(void **state)
{
    const double both = 300.0 + 100.0;
    const struct {
        lks_init init;
        double scale;
    } list[] = {
        {{.kind = LKS_INIT_DEFAULT}, 1.0 / sqrt(300.0)},
        {{.kind = LKS_INIT_UNIFORM, .scale = 0.5f}, 0.5},
        {{.kind = LKS_INIT_NORMAL, .scale = 0.02f}, 0.02},
        {{.kind = LKS_INIT_KAIMING_UNIFORM}, sqrt(6.0 / 300.0)},
        /* The slope that makes it PyTorch's default for layers. */
        {{.kind = LKS_INIT_KAIMING_UNIFORM, .slope = 2.236068f}, 1.0 / sqrt(300.0)},
        {{.kind = LKS_INIT_KAIMING_NORMAL, .fan_out = true}, sqrt(2.0 / 100.0)},
        {{.kind = LKS_INIT_XAVIER_UNIFORM, .gain = 1.4f}, 1.4 * sqrt(6.0 / both)},
        {{.kind = LKS_INIT_XAVIER_NORMAL}, sqrt(2.0 / both)},
    };

    (void)state;
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        const lks_init_kind kind = list[i].init.kind;
        const layer l = {.in = LKS_SHAPE(300), .outputs = 100, .weight = list[i].init};
        int64_t count;
        float *values = first_values(&l, "layer.weight", lkt_device("ref"), 1, &count);

        assert_int_equal(count, 30000);
        check_statistics(values, count,
                         kind == LKS_INIT_NORMAL || kind == LKS_INIT_KAIMING_NORMAL ||
                             kind == LKS_INIT_XAVIER_NORMAL,
                         list[i].scale);
        free(values);
    }
}

static json_t *load(void)
{
    const char *source = getenv("LKT_SOURCE");
    char path[4096];
    json_error_t problem;

    snprintf(path, sizeof path, "%s/tests/model/golden/initialisers.json",
             source != NULL ? source : ".");
    json_t *json = json_load_file(path, 0, &problem);
    if (json == NULL) fail_msg("%s: %s", path, problem.text);
    return json;
}

static int64_t element(const json_t *test, const char *key, size_t i)
{
    return json_integer_value(json_array_get(json_object_get(test, key), i));
}

static layer layer_of(const json_t *test)
{
    static const struct {
        const char *name;
        lks_init_kind kind;
    } kinds[] = {
        {"kaiming_uniform", LKS_INIT_KAIMING_UNIFORM},
        {"kaiming_normal", LKS_INIT_KAIMING_NORMAL},
        {"xavier_uniform", LKS_INIT_XAVIER_UNIFORM},
        {"xavier_normal", LKS_INIT_XAVIER_NORMAL},
        {"identity", LKS_INIT_IDENTITY},
        {"partial_identity", LKS_INIT_PARTIAL_IDENTITY},
    };
    const char *kind = json_string_value(json_object_get(test, "kind"));
    const json_t *gain = json_object_get(test, "gain"), *slope = json_object_get(test, "slope");
    layer l = {.in.ndim = (int)json_array_size(json_object_get(test, "in")),
               .outputs = element(test, "weight", 0),
               .kernel = {element(test, "weight", 2), element(test, "weight", 3)},
               .groups = json_integer_value(json_object_get(test, "groups")),
               .weight.fan_out = json_is_true(json_object_get(test, "fan_out")),
               .weight.gain = gain != NULL ? (float)json_number_value(gain) : 0.0f,
               .weight.slope = slope != NULL ? (float)json_number_value(slope) : 0.0f};

    for (int i = 0; i < l.in.ndim; i++) l.in.dim[i] = element(test, "in", (size_t)i);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].name, kind) == 0) l.weight.kind = kinds[i].kind;
    assert_true(l.weight.kind != LKS_INIT_DEFAULT);
    return l;
}

/* Divided by the golden scale, the weight is what `uniform` or `normal` with scale 1 gives. The scale
 * is rounded to f32, the product once, gain or slope once; the golden scale has ten digits. */
static void check_scale(const layer *l, const json_t *test, const float *found, int64_t count)
{
    const char *kind = json_string_value(json_object_get(test, "kind"));
    const double scale = json_number_value(json_object_get(test, "scale"));
    layer one = *l;
    int64_t same;

    one.weight = (lks_init){
        .kind = strstr(kind, "normal") != NULL ? LKS_INIT_NORMAL : LKS_INIT_UNIFORM, .scale = 1.0f};
    float *plain = first_values(&one, "layer.weight", lkt_device("ref"), 1, &same);
    assert_int_equal(same, count);
    for (int64_t i = 0; i < count; i++) {
        const double expected = scale * (double)plain[i];

        if (!(fabs((double)found[i] - expected) <= 4.0 * 0x1p-24 * fabs(expected)))
            fail_msg("%s: weight[%lld] is %.9g, PyTorch's scale gives %.9g", kind, (long long)i,
                     (double)found[i], expected);
    }
    free(plain);
}

static void initialisers_match_pytorch(void **state)
{
    json_t *golden = load(), *test;
    size_t index;

    (void)state;
    json_array_foreach(json_object_get(golden, "cases"), index, test)
    {
        const json_t *ones = json_object_get(test, "ones");
        const layer l = layer_of(test);
        int64_t count;
        float *found = first_values(&l, "layer.weight", lkt_device("ref"), 1, &count);
        size_t next = 0;

        for (int64_t i = 0; ones != NULL && i < count; i++) {
            const bool one = json_integer_value(json_array_get(ones, next)) == i &&
                             next < json_array_size(ones);

            if (found[i] != (one ? 1.0f : 0.0f))
                fail_msg("identity, case %zu: weight[%lld] is %.9g, expected %d", index,
                         (long long)i, (double)found[i], one);
            next += one;
        }
        if (ones == NULL) check_scale(&l, test, found, count);
        free(found);
    }
    assert_int_equal(index, 40);
    json_decref(golden);
}

/* What the name says: a square layer that starts as identity passes its input on. */
static void identity_passes_the_input_on(void **state)
{
    enum { ROWS = 4, COLUMNS = 5, CHANNELS = 8, ELEMENTS = ROWS * COLUMNS * CHANNELS };

    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        for (int64_t groups = 1; groups <= CHANNELS; groups *= 2) {
            lks_context *context;
            lks_graph *graph;
            lks_model *model;
            float x[ELEMENTS], y[ELEMENTS];

            LKT_OK(lks_context_create(&context,
                                      &(lks_context_opts){.device = lkt_backends()[b]->name}));
            LKT_OK(lks_graph_create(&graph, context));
            lks_tensor *t = lks_input(
                graph, &(lks_input_opts){.shape = LKS_SHAPE(ROWS, COLUMNS, CHANNELS)});
            t = lks_conv2d(graph, t,
                           &(lks_conv2d_opts){.filters = CHANNELS,
                                              .kernel = {3, 5},
                                              .padding = {1, 2},
                                              .groups = groups,
                                              .no_bias = true,
                                              .weight_init.kind = LKS_INIT_IDENTITY});
            LKT_OK(lks_model_compile(&model, graph,
                                     &(lks_model_opts){.output = t, .global_batch = 1}));
            for (int i = 0; i < ELEMENTS; i++) x[i] = (float)(i * 37 % 101) - 50.0f;
            LKT_OK(lks_model_predict(model, x, 1, y));
            for (int i = 0; i < ELEMENTS; i++) assert_true(x[i] == y[i]);
            lks_model_destroy(model);
            lks_graph_destroy(graph);
            lks_context_destroy(context);
        }
    }
}

/* Of each group, output d is input d at the middle of the kernel, behind it where its size is even; what
 * one side has more of stays zero. */
static void identity_has_its_place(void **state)
{
    (void)state;
    const layer cases[] = {{.in = LKS_SHAPE(9, 9, 4), .outputs = 6, .kernel = {2, 5}, .groups = 2},
                           {.in = LKS_SHAPE(9, 9, 6), .outputs = 4, .kernel = {3, 4}, .groups = 2},
                           {.in = LKS_SHAPE(9, 9, 2), .outputs = 3, .kernel = {1, 1}, .groups = 1},
                           {.in = LKS_SHAPE(3), .outputs = 5, .groups = 1}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        layer l = cases[k];
        int64_t count;
        l.weight.kind = LKS_INIT_IDENTITY;
        float *found = first_values(&l, "layer.weight", lkt_device("ref"), 1, &count);
        const bool image = l.in.ndim == 3;
        const int64_t height = image ? l.kernel[0] : 1, width = image ? l.kernel[1] : 1;
        const int64_t inputs = l.in.dim[l.in.ndim - 1] / l.groups, outputs = l.outputs / l.groups;
        assert_int_equal(count, l.outputs * inputs * height * width);
        int64_t at = 0;
        for (int64_t o = 0; o < l.outputs; o++)
            for (int64_t i = 0; i < inputs; i++)
                for (int64_t y = 0; y < height; y++)
                    for (int64_t x = 0; x < width; x++, at++)
                        assert_true(found[at] ==
                                    (float)(o % outputs == i && y == height / 2 && x == width / 2));
        free(found);
    }
}

/* Of partial_identity, outputs for which there is an input are those of identity, the others those of default. */
static void partial_identity_is_both(void **state)
{
    (void)state;
    const lks_init_kind kinds[] = {LKS_INIT_PARTIAL_IDENTITY, LKS_INIT_IDENTITY, LKS_INIT_DEFAULT};
    layer l = {.in = LKS_SHAPE(9, 9, 4), .outputs = 10, .kernel = {3, 3}, .groups = 2};
    float *found[3];
    int64_t count;
    for (int k = 0; k < 3; k++) {
        l.weight.kind = kinds[k];
        found[k] = first_values(&l, "layer.weight", lkt_device("ref"), 1, &count);
    }
    for (int64_t i = 0; i < count; i++)
        assert_true(found[0][i] == found[i / (2 * 9) % 5 < 2 ? 1 : 2][i]);
    for (int k = 0; k < 3; k++) free(found[k]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constants_are_exact),
        cmocka_unit_test(values_follow_from_name_and_place),
        cmocka_unit_test(random_kinds_have_their_moments),
        cmocka_unit_test(initialisers_match_pytorch),
        cmocka_unit_test(identity_passes_the_input_on),
        cmocka_unit_test(identity_has_its_place),
        cmocka_unit_test(partial_identity_is_both),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

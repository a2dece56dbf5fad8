/*
 * Networks of the zoo: names and shapes of their tensors are torchvision's, and so are their logits
 * (tools/goldens/zoo.py made tests/models/golden/zoo.json, and says how values come about); bits do not depend
 * on the number of workers; what is refused.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/graph.h"
#include "support/backends.h"
#include "support/golden.h"
#include "support/runs.h"
#include "support/test.h"

static lkt_model begin(const char *device)
{
    return lkt_begin(&(lks_context_opts){.device = device});
}

static lks_tensor *image(lks_graph *graph, int64_t side)
{
    return lks_input(graph, &(lks_input_opts){.name = "x", .shape = LKS_SHAPE(side, side, 3)});
}

/* ---- names and shapes */

typedef struct table {
    uint64_t hash;
    int64_t tensors, parameters;
} table;

static void add_line(table *t, const char *node, const char *suffix, const lks_shape *shape)
{
    char line[200];
    int used = snprintf(line, sizeof line, "%s.%s ", node, suffix);
    for (int d = 0; d < shape->ndim; d++)
        used += snprintf(line + used, sizeof line - (size_t)used, "%s%lld", d > 0 ? "x" : "",
                         (long long)shape->dim[d]);
    snprintf(line + used, sizeof line - (size_t)used, "\n");
    for (const char *c = line; *c != '\0'; c++)
        t->hash = (t->hash ^ (unsigned char)*c) * 0x100000001b3;
    t->tensors++;
}

static table table_of(const lks_graph *graph)
{
    table t = {.hash = 0xcbf29ce484222325};
    for (const lki_node *node = graph->first; node != NULL; node = node->next) {
        for (int i = 0; i < node->param_count; i++) {
            add_line(&t, node->name, node->param[i].suffix, &node->param[i].shape);
            t.parameters += lks_shape_elements(&node->param[i].shape);
        }
        for (int i = 0; i < node->buffer_count; i++)
            add_line(&t, node->name, node->buffer[i].suffix, &node->buffer[i].shape);
    }
    return t;
}

static table table_by_name(const char *name, int64_t side, const lks_network_opts *opts)
{
    lkt_model m = begin(lkt_device("ref"));
    assert_true(lks_network(m.graph, image(m.graph, side), name, opts) != NULL ||
                lks_graph_status(m.graph) != LKS_OK);
    LKT_OK(lks_graph_status(m.graph));
    const table t = table_of(m.graph);
    lkt_end(&m);
    return t;
}

static void tensors_are_torchvisions(void **state)
{
    json_t *golden = lkt_json_load("tests/models/golden/zoo.json"), *entry;
    size_t i;
    (void)state;
    assert_true(json_array_size(json_object_get(golden, "tables")) >= 16);
    json_array_foreach(json_object_get(golden, "tables"), i, entry)
    {
        const char *name = json_string_value(json_object_get(entry, "network"));
        const table t = table_by_name(name, 224, NULL);
        char hash[17];
        snprintf(hash, sizeof hash, "%016llx", (unsigned long long)t.hash);
        if (t.parameters != lkt_json_integer(entry, "parameters") ||
            t.tensors != lkt_json_integer(entry, "tensors") ||
            strcmp(hash, json_string_value(json_object_get(entry, "hash"))) != 0)
            fail_msg("%s has %lld parameters, %lld tensors, and not torchvision's names or shapes: "
                     "compare with tools/goldens/zoo.py --table %s",
                     name, (long long)t.parameters, (long long)t.tensors, name);
    }
    json_decref(golden);
}

/* As published, by torchvision and by the papers: no golden file between them and us. */
static void parameters_are_as_many_as_published(void **state)
{
    static const struct {
        const char *name;
        int64_t side, parameters;
    } published[] = {
        {"resnet18", 224, 11689512},    {"resnet50", 224, 25557032},
        {"vgg11", 224, 132863336},      {"vgg16_bn", 224, 138365992},
        {"alexnet", 224, 61100840},     {"wide_resnet50_2", 224, 68883240},
        {"resnet18", 32, 11173962},     {"resnet50", 32, 23520842},
        {"wrn28_10", 32, 36479194},     {"resnet9", 32, 431946},
        {"lenet5", 32, 62006},          {"airbench", 32, 1972792},
        {"mobilenet_v2", 224, 3504872}, {"mobilenet_v2", 32, 2236682},
    };
    (void)state;
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        const table t = table_by_name(published[i].name, published[i].side, NULL);
        if (t.parameters != published[i].parameters)
            fail_msg("%s on %lldx%lld has %lld parameters, expected %lld", published[i].name,
                     (long long)published[i].side, (long long)published[i].side,
                     (long long)t.parameters, (long long)published[i].parameters);
    }
}

/* ---- logits */

enum { SAMPLES = 2, CLASSES = 10 };

static void fill(lks_model *model, const lks_graph *graph)
{
    uint32_t p = 0;
    for (const lki_node *node = graph->first; node != NULL; node = node->next) {
        char name[LKI_NAME_SIZE + 40];
        for (int i = 0; i < node->param_count; i++, p++) {
            const lki_param *param = &node->param[i];
            const bool weight = strcmp(param->suffix, "weight") == 0;
            snprintf(name, sizeof name, "%s.%s", node->name, param->suffix);
            double fan_in = 1;
            for (int d = 1; d < param->shape.ndim; d++) fan_in *= (double)param->shape.dim[d];
            if (weight && param->shape.ndim > 1)
                lkt_golden_write(model, name, p, (float)sqrt(6 / fan_in), 0);
            else
                lkt_golden_write(model, name, p, weight ? .25f : .1f, weight ? 1 : 0);
        }
        for (int i = 0; i < node->buffer_count; i++) {
            if (node->buffer[i].dtype != LKS_F32) continue;
            const bool variance = strcmp(node->buffer[i].suffix, "running_var") == 0;
            snprintf(name, sizeof name, "%s.%s", node->name, node->buffer[i].suffix);
            lkt_golden_write(model, name, p++, variance ? .25f : .1f, variance ? 1 : 0);
        }
    }
}

static void check_logits(const char *device, const json_t *entry)
{
    const char *name = json_string_value(json_object_get(entry, "network"));
    const bool small = strcmp(json_string_value(json_object_get(entry, "stem")), "cifar") == 0;
    const int64_t side = lkt_json_integer(entry, "side");
    const json_t *expected = json_object_get(entry, "logits");
    const lks_network_opts opts = {.outputs = CLASSES,
                                   .stem = small ? LKS_STEM_CIFAR : LKS_STEM_IMAGENET};
    lkt_model m = begin(device);
    lks_tensor *y = lks_network(m.graph, image(m.graph, side), name, &opts);
    lkt_compile(&m, &(lks_model_opts){.output = y, .global_batch = SAMPLES, .replicas = 1});
    fill(m.model, m.graph);
    const int64_t count = SAMPLES * side * side * 3;
    float *x = malloc((size_t)count * sizeof *x), logits[SAMPLES * CLASSES];
    assert_non_null(x);
    for (int64_t i = 0; i < count; i++)
        x[i] = (float)(lkt_hashed((uint32_t)i, 1001) >> 8) * 0x1p-23f - 1;
    LKT_OK(lks_model_predict(m.model, x, SAMPLES, logits));
    assert_int_equal(json_array_size(expected), SAMPLES * CLASSES);
    double largest = 1;
    for (size_t i = 0; i < SAMPLES * CLASSES; i++)
        largest = fmax(largest, fabs(json_number_value(json_array_get(expected, i))));
    for (size_t i = 0; i < SAMPLES * CLASSES; i++) {
        const double wanted = json_number_value(json_array_get(expected, i));
        if (!(fabs((double)logits[i] - wanted) <= 1e-4 * largest))
            fail_msg("%s, %s, side %d: logit %d is %.7g, torchvision's %.7g", device, name,
                     (int)side, (int)i, (double)logits[i], wanted);
    }
    free(x);
    lkt_end(&m);
}

/* Plain loops are slow: ref takes the first alone, the others' layers are compared elsewhere. */
static void logits_are_torchvisions(void **state)
{
    json_t *golden = lkt_json_load("tests/models/golden/zoo.json"), *entry;
    size_t i;
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        json_array_foreach(json_object_get(golden, "logits"), i, entry)
        {
            if (strcmp(lkt_backends()[b]->name, "cpu") != 0 && (i > 0 || lkt_in_part())) break;
            check_logits(lkt_backends()[b]->name, entry);
        }
    }
    json_decref(golden);
}

/* ---- bits, and what is refused */

static lks_tensor *resnet9(lks_graph *graph)
{
    lks_tensor *x = lks_input(
        graph, &(lks_input_opts){.name = "x", .shape = LKS_SHAPE(12, 10, 3), .dtype = LKS_U8});
    x = lks_normalize(graph, x, &(lks_normalize_opts){.count = 1, .std = (float[]){.25f}});
    x = lks_network(graph, x, "resnet9", &(lks_network_opts){.outputs = 5});
    lks_tensor *y = lks_target(graph, &(lks_target_opts){.name = "y", .classes = 5});
    return lks_cross_entropy(graph, x, y, NULL);
}

static void bits_do_not_depend_on_workers(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        lkt_run run = {.device = lkt_backends()[b]->name,
                       .net = resnet9,
                       .samples = 31,
                       .batch = 23,
                       .steps = 3,
                       .opts = {.replicas = 5, .workers = 1, .hash_every = 1, .optim = lks_adam()}};
        lks_metrics alone[2], other[2];
        const uint64_t hash = lkt_run_hash(&run, alone);
        for (int workers = 2; workers <= 5; workers++) {
            run.opts.workers = workers;
            assert_int_equal(lkt_run_hash(&run, other), hash);
            assert_memory_equal(other, alone, sizeof alone);
        }
    }
}

static void expect_refusal(const char *name, lks_shape shape, const lks_network_opts *opts,
                           const char *sentence)
{
    lkt_model m = begin(lkt_device("ref"));
    lks_tensor *x = lks_input(m.graph, &(lks_input_opts){.name = "x", .shape = shape});
    assert_null(lks_network(m.graph, x, name, opts));
    LKT_FAILS(LKS_E_INVALID, sentence, lks_graph_status(m.graph));
    lkt_end(&m);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    const lks_shape cifar = LKS_SHAPE(32, 32, 3), flat = LKS_SHAPE(100);
    expect_refusal("resnet19", cifar, NULL, "'resnet19', expected mnist_cnn");
    expect_refusal(NULL, cifar, NULL, "'NULL', expected mnist_cnn");
    expect_refusal("resnet18", flat, NULL,
                   "resnet18: the input has 1 dimension, expected an image");
    expect_refusal("alexnet", LKS_SHAPE(300, 224, 3), NULL,
                   "alexnet: its classifier takes 6x6, but 8x6 come out of the convolutions");
    expect_refusal("vgg11", cifar, &(lks_network_opts){.stem = LKS_STEM_IMAGENET},
                   "vgg11: its classifier takes 7x7, but 1x1 come out");
    expect_refusal("alexnet", LKS_SHAPE(224, 224, 3), &(lks_network_opts){.stem = LKS_STEM_CIFAR},
                   "alexnet: has one stem");
    expect_refusal("resnet18", cifar, &(lks_network_opts){.outputs = -1},
                   "resnet18: outputs is -1, expected at least 1");
    expect_refusal("vgg11", cifar, &(lks_network_opts){.stem = LKS_STEM_UNPOOLED},
                   "vgg11: stem is 3, expected one of lks_stem that it has");
    expect_refusal("resnet18", cifar, &(lks_network_opts){.stem = (lks_stem)4},
                   "resnet18: stem is 4, expected");
    expect_refusal("resnet18", cifar, &(lks_network_opts){.stem = (lks_stem)-1},
                   "resnet18: stem is -1, expected");
}

/* What is in front of each add: drop_path * l / L for block l of L. */
static void expect_paths(const char *name, int blocks)
{
    lkt_model m = begin(lkt_device("ref"));
    lks_tensor *x = lks_input(m.graph,
                              &(lks_input_opts){.name = "x", .shape = LKS_SHAPE(32, 32, 3)});
    assert_non_null(lks_network(m.graph, x, name, &(lks_network_opts){.drop_path = 0.25f}));
    int block = 0;
    for (const lki_node *node = m.graph->first; node != NULL; node = node->next) {
        if (node->op != LKI_OP_ADD) continue;
        const lks_dropout_opts *opts = NULL;
        for (int k = 0; k < 2; k++)
            if (node->in[k]->node->op == LKI_OP_DROPOUT) opts = node->in[k]->node->attr;
        assert_non_null(opts);
        assert_true(opts->by_sample);
        assert_true(opts->probability == (float)(0.25 * ++block / blocks));
    }
    assert_int_equal(block, blocks);
    lkt_end(&m);
}

static void blocks_are_left_out_more_and_more(void **state)
{
    (void)state;
    expect_paths("resnet18", 8);
    expect_paths("resnet50", 16);
    expect_paths("wrn28_10", 12);
    /* What is left out in training alone has no parameters. */
    const lks_network_opts opts = {.drop_path = 0.25f};
    assert_int_equal(table_by_name("resnet18", 32, &opts).parameters,
                     table_by_name("resnet18", 32, NULL).parameters);
    expect_refusal("vgg11", LKS_SHAPE(32, 32, 3), &opts, "vgg11: has no drop_path");
    expect_refusal("resnet18", LKS_SHAPE(32, 32, 3), &(lks_network_opts){.drop_path = 1},
                   "probability is 1, expected");
}

/* As in NERSC's SC20 tutorial. */
static void unpooled_resnets_keep_the_size(void **state)
{
    (void)state;
    const lks_network_opts opts = {.stem = LKS_STEM_UNPOOLED, .outputs = 100};
    assert_int_equal(table_by_name("resnet50", 32, &opts).parameters, 23712932);
    assert_int_equal(table_by_name("resnet18", 32, &opts).parameters, 11227812);
}

/* Twice as large images are pooled to what the classifier takes. */
static void classifiers_take_larger_images(void **state)
{
    (void)state;
    assert_int_equal(table_by_name("vgg11", 448, NULL).parameters, 132863336);
    assert_int_equal(table_by_name("mlp", 4, NULL).parameters, 48 * 10 + 10);
    assert_int_equal(
        table_by_name("mnist_cnn", 28, &(lks_network_opts){.no_dropout = true, .outputs = 7})
            .tensors,
        8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_are_torchvisions),
        cmocka_unit_test(parameters_are_as_many_as_published),
        cmocka_unit_test(logits_are_torchvisions),
        cmocka_unit_test(bits_do_not_depend_on_workers),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(classifiers_take_larger_images),
        cmocka_unit_test(unpooled_resnets_keep_the_size),
        cmocka_unit_test(blocks_are_left_out_more_and_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

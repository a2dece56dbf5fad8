/*
 * Stacks of recurrent layers: PyTorch's names, shapes, outputs and gradients (tools/goldens/recurrent.py), and the same bits on
 * any number of workers.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <lockstep/lockstep.h>

#include "base/shape.h"
#include "core/graph.h"
#include "cpu/vectors.h"
#include "support/backends.h"
#include "support/op_json.h"
#include "support/ranks/small.h"
#include "support/test.h"

enum { SAMPLES = 3, POSITIONS = 5, CHANNELS = 4, MOST = 4096 };

/* The formula of tools/goldens. */
static void formula(float *out, int64_t count, uint32_t salt)
{
    for (int64_t i = 0; i < count; i++) {
        const uint32_t hashed = (uint32_t)i * 2654435761u + salt * (40503u * 65537u);
        out[i] = (float)(hashed >> 8) / 8388608.0f - 1.0f;
    }
}

static lks_tensor *stack_of(lks_graph *g, lks_tensor *x, const char *op, lks_recurrent_opts opts)
{
    opts.name = "r";
    if (strcmp(op, "lstm") == 0) return lks_lstm(g, x, &opts);
    if (strcmp(op, "gru") == 0) return lks_gru(g, x, &opts);
    return lks_rnn(g, x, &opts);
}

static lks_recurrent_opts opts_of(const json_t *test)
{
    return (lks_recurrent_opts){
        .hidden = lkt_json_integer(test, "hidden"),
        .layers = lkt_json_integer(test, "layers"),
        .bidirectional = json_is_true(json_object_get(test, "bidirectional"))};
}

/* Eight times what PyTorch's float32 errs by at most, and the digits that are kept. */
static void compare(const char *what, const json_t *test, const float *found, int64_t count)
{
    const json_t *expected = json_object_get(test, "values");
    const double most = 8.0 * json_number_value(json_object_get(test, "float32"));
    assert_int_equal(json_array_size(expected), count);
    for (int64_t i = 0; i < count; i++) {
        const double golden = json_number_value(json_array_get(expected, (size_t)i));
        if (!(fabs((double)found[i] - golden) <= most + 0x1p-24 * fabs(golden)))
            fail_msg("%s[%lld] is %.9g, PyTorch has %.9g", what, (long long)i, (double)found[i],
                     golden);
    }
}

/* Frames, or tokens of sentences of these lengths, padding behind them: each word is another one. */
static lks_tensor *input_of(lks_graph *g, const json_t *lengths)
{
    if (lengths == NULL)
        return lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(POSITIONS, CHANNELS)});
    lks_tensor *tokens = lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(POSITIONS),
                                                        .dtype = LKS_I32,
                                                        .vocabulary = 1 + SAMPLES * POSITIONS});
    return lks_embedding(g, tokens, &(lks_embedding_opts){.name = "words", .units = CHANNELS});
}

static const void *values_of(const json_t *lengths)
{
    static float frame[SAMPLES * POSITIONS * CHANNELS];
    static int32_t token[SAMPLES][POSITIONS];
    formula(frame, SAMPLES * POSITIONS * CHANNELS, 0);
    for (size_t n = 0; n < SAMPLES && lengths != NULL; n++)
        for (int t = 0; t < POSITIONS; t++)
            token[n][t] = t < json_integer_value(json_array_get(lengths, n))
                              ? 1 + (int32_t)n * POSITIONS + t
                              : 0;
    return lengths == NULL ? (const void *)frame : token;
}

/* Every parameter of PyTorch's module is one of the model, by its name. */
static void matches(const char *device, json_t *test)
{
    static float y[MOST], value[MOST];
    const char *op = json_string_value(json_object_get(test, "op")), *name;
    const json_t *lengths = json_object_get(test, "lengths");
    const void *x = values_of(lengths);
    json_t *tensors = json_object_get(test, "tensors"), *tensor;
    lkt_small m = {.model = NULL};
    uint32_t next_salt = 2;
    char full[96];

    LKT_OK(lks_context_create(&m.context, &(lks_context_opts){.device = device}));
    LKT_OK(lks_graph_create(&m.graph, m.context));
    lks_recurrent_opts stack = opts_of(test);
    stack.masked = lengths != NULL;
    lks_tensor *out = stack_of(m.graph, input_of(m.graph, lengths), op, stack);
    const lks_shape shape = lks_tensor_shape(out);
    const int64_t count = SAMPLES * lks_shape_elements(&shape);
    lks_tensor *target = lks_target(m.graph, &(lks_target_opts){.shape = shape});
    const lks_model_opts opts = {.loss = lks_mse(m.graph, out, target),
                                 .output = out,
                                 .global_batch = SAMPLES,
                                 .layers = true};
    LKT_OK(lks_model_compile(&m.model, m.graph, &opts));
    formula(y, count, 1);
    json_object_foreach(tensors, name, tensor)
    {
        const size_t elements = json_array_size(json_object_get(tensor, "values"));
        const bool words = strcmp(name, "words.weight") == 0;
        if (strcmp(name, "out") == 0) continue;
        snprintf(full, sizeof full, "%s%s", words ? "" : "r.", name);
        formula(value, (int64_t)elements, words ? 0 : next_salt++);
        LKT_OK(lks_model_state_write(m.model, lks_model_state_find(m.model, full), value,
                                     elements * sizeof *value));
    }
    LKT_OK(lks_model_predict(m.model, x, SAMPLES, value));
    compare("out", json_object_get(tensors, "out"), value, count);
    LKT_OK(lks_model_gradient(m.model, &(lks_batch){.x = x, .y = y, .count = SAMPLES}, NULL));
    json_object_foreach(tensors, name, tensor)
    {
        const size_t elements = json_array_size(json_object_get(tensor, "values"));
        if (strcmp(name, "out") == 0) continue;
        snprintf(full, sizeof full, "gradient.%s%s", strcmp(name, "words.weight") == 0 ? "" : "r.",
                 name);
        LKT_OK(lks_model_state_read(m.model, lks_model_state_find(m.model, full), value,
                                    elements * sizeof *value));
        compare(full, tensor, value, (int64_t)elements);
        assert_true(lks_model_value_find(m.model, full + strlen("gradient.")) >= 0);
    }
    lkt_small_end(&m);
}

static void stacks_match_pytorch(void **state)
{
    json_t *golden = lkt_json_load("tests/sequence/golden/recurrent.json"), *test;
    size_t index;
    (void)state;
    for (int d = 0; lkt_backends()[d] != NULL; d++)
        json_array_foreach(json_object_get(golden, "cases"), index, test)
            matches(lkt_backends()[d]->name, test);
    json_decref(golden);
}

/* A stack is a node for each layer and direction. */
static void a_node_is_a_layer_in_a_direction(void **state)
{
    static const struct {
        const char *name, *suffix;
    } list[] = {{"r", "weight_hh_l0"},    {"r.l0_reverse", "weight_hh_l0_reverse"},
                {"concat_1", NULL},       {"r.dropout_l0", NULL},
                {"r.l1", "weight_hh_l1"}, {"r.l1_reverse", "weight_hh_l1_reverse"},
                {"concat_2", NULL}};
    lkt_small m = {.model = NULL};
    char text[64];
    (void)state;
    LKT_OK(lks_context_create(&m.context, NULL));
    LKT_OK(lks_graph_create(&m.graph, m.context));
    lks_tensor *x = lks_input(m.graph, &(lks_input_opts){.shape = LKS_SHAPE(5, 3)});
    lks_tensor *y = stack_of(
        m.graph, x, "lstm",
        (lks_recurrent_opts){.hidden = 8, .layers = 2, .bidirectional = true, .dropout = .5f});
    LKT_OK(lks_graph_status(m.graph));
    assert_string_equal(lki_shape_print(&y->shape, text, sizeof text), "5x16");
    const lki_node *node = x->node->next;
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++, node = node->next) {
        assert_non_null(node);
        assert_string_equal(node->name, list[i].name);
        if (list[i].suffix == NULL) continue;
        assert_string_equal(lki_node_stem(node), "r");
        assert_int_equal(node->param_count, 4);
        assert_string_equal(node->param[1].suffix, list[i].suffix);
        assert_string_equal(lki_shape_print(&node->param[1].shape, text, sizeof text), "32x8");
        assert_true(node->param[1].is_weight && !node->param[2].is_weight);
    }
    assert_null(node);
    lki_node_print(x->node->next, text, sizeof text);
    assert_string_equal(text, "hidden=8");
    lki_node_print(x->node->next->next, text, sizeof text);
    assert_string_equal(text, "hidden=8 reverse");
    y = lks_gru(m.graph, x, &(lks_recurrent_opts){.hidden = 4, .reverse = true});
    assert_string_equal(y->node->param[0].suffix, "weight_ih_l0_reverse");
    assert_string_equal(lki_shape_print(&y->node->param[0].shape, text, sizeof text), "12x3");
    for (int i = 0; i < 4; i++) {
        assert_int_equal(y->node->param[i].init.kind, LKS_INIT_UNIFORM);
        assert_true(y->node->param[i].init.scale == .5f);
    }
    assert_int_equal(y->node->multiply_adds, 5 * 12 * (3 + 4));
    lkt_small_end(&m);
}

enum { BATCH = 11, WORDS = 13, LENGTH = 9, CLASSES = 6, STEPS = 5 };

static uint64_t train(const char *device, int workers, int replicas)
{
    static int32_t token[BATCH][LENGTH], wanted[BATCH][LENGTH];
    lkt_small m = {.model = NULL};
    uint64_t hash;
    for (int i = 0; i < BATCH; i++)
        for (int t = 0; t < LENGTH; t++) {
            token[i][t] = (i * 7 + t * t) % WORDS;
            wanted[i][t] = (token[i][t] + i) % CLASSES;
        }
    LKT_OK(lks_context_create(&m.context, &(lks_context_opts){.device = device, .seed = 4}));
    LKT_OK(lks_graph_create(&m.graph, m.context));
    lks_graph *g = m.graph;
    lks_tensor *x = lks_input(
        g, &(lks_input_opts){.shape = LKS_SHAPE(LENGTH), .dtype = LKS_I32, .vocabulary = WORDS});
    x = lks_embedding(g, x, &(lks_embedding_opts){.units = 10});
    x = stack_of(g, x, "lstm", (lks_recurrent_opts){.hidden = 18, .layers = 2, .dropout = .25f});
    x = lks_gru(g, x, &(lks_recurrent_opts){.hidden = 9, .bidirectional = true});
    x = lks_rnn(
        g, x,
        &(lks_recurrent_opts){.hidden = 7, .nonlinearity = LKS_NONLINEARITY_RELU, .reverse = true});
    x = lks_dense(g, x, &(lks_dense_opts){.units = CLASSES});
    lks_tensor *y = lks_target(g,
                               &(lks_target_opts){.classes = CLASSES, .shape = LKS_SHAPE(LENGTH)});
    const lks_model_opts opts = {.loss = lks_cross_entropy(g, x, y, NULL),
                                 .global_batch = BATCH,
                                 .replicas = replicas,
                                 .workers = workers,
                                 .optim = lks_adam()};
    LKT_OK(lks_model_compile(&m.model, g, &opts));
    for (int i = 0; i < STEPS; i++) {
        const lks_batch batch = {.x = token, .y = wanted, .count = BATCH - i % 3};
        LKT_OK(lks_model_step(m.model, &batch, .05, NULL));
    }
    LKT_OK(lks_model_hash(m.model, &hash));
    lkt_small_end(&m);
    return hash;
}

static void any_workers_have_the_same_bits(void **state)
{
    (void)state;
    for (int d = 0; lkt_backends()[d] != NULL; d++) {
        const char *device = lkt_backends()[d]->name;
        const uint64_t hash = train(device, 1, 4);
        for (int p = 2; p <= 4; p++) assert_true(train(device, p, 4) == hash);
        assert_true(train(device, 1, 3) != hash);
    }
}

#ifdef LKT_HAVE_CPU
static void any_instruction_set_has_the_same_bits(void **state)
{
    const lki_vector *usual = lki_cpu_vector();
    const uint64_t hash = train("cpu", 1, 3);
    (void)state;
    LKT_FOR_ISAS(v)
    {
        lki_cpu_vector_use(v);
        assert_true(train("cpu", 1, 3) == hash);
    }
    lki_cpu_vector_use(usual);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stacks_match_pytorch),
        cmocka_unit_test(a_node_is_a_layer_in_a_direction),
        cmocka_unit_test(any_workers_have_the_same_bits),
#ifdef LKT_HAVE_CPU
        cmocka_unit_test(any_instruction_set_has_the_same_bits),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

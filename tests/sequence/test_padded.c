/* Networks of frames that are padded: what they say of a sample, and learn from it, does not depend on how much padding there is;
 * and what layers do with tokens that are made inside of the network. */
#include <math.h>
#include <string.h>

#include <lockstep/layers.h>
#include <lockstep/tools.h>

#include "core/graph.h"
#include "support/backends.h"
#include "support/runs.h"
#include "support/test.h"

enum { FEATURES = 3 };

enum { SAMPLES = 6, SHORTEST = 20, LONGEST = 130, CLASSES = 4 };

/* An encoder of so many positions, whose parameters do not depend on that; each sample is a replica of its own. */
static lkt_model open_encoder(const char *device, int positions)
{
    lkt_model m = lkt_begin(&(lks_context_opts){.device = device, .seed = 5});
    lks_tensor *x = lks_input(m.graph, &(lks_input_opts){.shape = LKS_SHAPE(positions, FEATURES)});
    x = lks_encoder(m.graph, x,
                    &(lks_transformer_opts){.outputs = CLASSES,
                                            .depth = 2,
                                            .heads = 2,
                                            .width = 16,
                                            .rotary = 100,
                                            .masked = true});
    lks_tensor *y = lks_target(m.graph, &(lks_target_opts){.classes = CLASSES});
    lkt_compile(&m, &(lks_model_opts){.loss = lks_cross_entropy(m.graph, x, y, NULL),
                                      .global_batch = SAMPLES,
                                      .replicas = SAMPLES,
                                      .optim = lks_adam()});
    return m;
}

typedef struct outcome {
    double loss;
    float out[SAMPLES][CLASSES];
    uint64_t hash;
} outcome;

/* Four steps with samples of 20 positions at most. */
static outcome with_positions(const char *device, int positions)
{
    static float x[SAMPLES * LONGEST * FEATURES];
    static const int32_t label[SAMPLES] = {0, 3, 2, 1, 3, 0};
    outcome o = {0};
    lkt_model m = open_encoder(device, positions);
    lks_metrics sum;

    memset(x, 0, sizeof x);
    for (int i = 0; i < SAMPLES; i++)
        for (int e = 0; e < (SHORTEST - 3 * i) * FEATURES; e++)
            x[i * positions * FEATURES + e] = (float)((i * 37 + e * 11) % 29 + 1) / 32;
    const lks_batch batch = {.x = x, .y = label, .count = SAMPLES};
    LKT_OK(lks_model_predict(m.model, x, SAMPLES, &o.out[0][0]));
    for (int i = 0; i < 4; i++) LKT_OK(lks_model_step(m.model, &batch, .01, &sum));
    o.loss = lks_metrics_loss(&sum);
    o.hash = lkt_state_hash(m.model);
    lkt_end(&m);
    return o;
}

static void more_padding_changes_no_bit(void **state)
{
    static const int positions[] = {21, 64, 65, LONGEST};

    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        const char *device = lkt_backends()[b]->name;
        const outcome shortest = with_positions(device, SHORTEST);

        for (size_t i = 0; i < sizeof positions / sizeof positions[0]; i++) {
            const outcome found = with_positions(device, positions[i]);
            assert_memory_equal(found.out, shortest.out, sizeof found.out);
            assert_true(found.loss == shortest.loss);
            assert_true(found.hash == shortest.hash);
        }
    }
}

static lks_tensor *small_encoder(lks_graph *g, lks_tensor *x)
{
    return lks_encoder(g, x,
                       &(lks_transformer_opts){
                           .outputs = CLASSES, .depth = 1, .heads = 1, .width = 4, .masked = true});
}

/* Padding is what the data has, though behind a normalize it is no longer 0. */
static void normalized_frames_keep_their_padding(void **state)
{
    lkt_model m = lkt_begin(NULL);
    (void)state;
    lks_tensor *frames = lks_input(m.graph, &(lks_input_opts){.shape = LKS_SHAPE(4, 2)});
    lks_tensor *x = lks_normalize(
        m.graph, frames,
        &(lks_normalize_opts){.count = 1, .mean = (float[]){1}, .std = (float[]){2}});
    assert_non_null(small_encoder(m.graph, x));
    const lki_node *node = m.graph->first;
    while (node != NULL && node->op != LKI_OP_MASKING) node = node->next;
    assert_non_null(node);
    assert_ptr_equal(node->in[0], frames);
    lkt_end(&m);
}

static void no_copy_of_tokens(void *user, const char *line)
{
    (void)user;
    if (strstr(line, "masking_1") != NULL && strstr(line, "bf16") != NULL)
        fail_msg("tokens are rounded: %s", line);
}

/* With numbers of half precision, and where activations are kept in bfloat16. */
static void tokens_are_not_rounded(void **state)
{
    static const float x[4][2] = {{1, 2}, {3, 0}};

    (void)state;
    for (int k = 0; k < 2; k++) {
        float out[CLASSES];
        lkt_model m = lkt_begin(&(lks_context_opts){.device = k == 0 ? "ref" : NULL});
        lks_tensor *y = lks_input(m.graph, &(lks_input_opts){.shape = LKS_SHAPE(4, 2)});
        y = small_encoder(m.graph, y);
        lks_tensor *t = lks_target(m.graph, &(lks_target_opts){.classes = CLASSES});
        lkt_compile(&m, &(lks_model_opts){.loss = lks_cross_entropy(m.graph, y, t, NULL),
                                          .global_batch = 1,
                                          .kernels = {.f16 = k == 0, .bf16_storage = k == 1}});
        LKT_OK(lks_model_describe(m.model, LKS_DESCRIBE_MEMORY, no_copy_of_tokens, NULL));
        LKT_OK(lks_model_predict(m.model, x, 1, out));
        /* Were all positions padding, their mean would be 0, and so would be what a head without biases makes of it. */
        for (int i = 0; i < CLASSES; i++) assert_true(out[i] != 0);
        lkt_end(&m);
    }
}

/* What is read layer by layer is numbers. */
static void tokens_are_no_activation(void **state)
{
    lkt_model m = lkt_begin(NULL);

    (void)state;
    lks_tensor *y = lks_input(m.graph, &(lks_input_opts){.shape = LKS_SHAPE(4, 2)});
    y = small_encoder(m.graph, y);
    lks_tensor *t = lks_target(m.graph, &(lks_target_opts){.classes = CLASSES});
    lkt_compile(&m, &(lks_model_opts){.loss = lks_cross_entropy(m.graph, y, t, NULL),
                                      .global_batch = 1,
                                      .replicas = 1,
                                      .workers = 1,
                                      .layers = true});
    assert_int_equal(lks_model_value_find(m.model, "masking_1"), -1);
    assert_true(lks_model_value_find(m.model, "attention_1") >= 0);
    lkt_end(&m);
}

static lks_tensor *frames_of(lkt_model *m)
{
    *m = lkt_begin(NULL);
    return lks_input(m->graph, &(lks_input_opts){.shape = LKS_SHAPE(7, 12)});
}

static void lists_of_layers_read_the_last(void **state)
{
    lkt_model m;
    char line[64];

    (void)state;
    lks_tensor *x = frames_of(&m);
    lks_tensor *tokens = lks_masking(m.graph, x, &(lks_masking_opts){.value = -2.5f});
    assert_string_equal(lks_tensor_line(tokens, 0, line, sizeof line), "masking value=-2.5");
    assert_int_equal(tokens->shape.ndim, 1);
    assert_int_equal(tokens->shape.dim[0], 7);
    assert_int_equal(lks_tensor_dtype(tokens), LKS_I32);
    assert_false(tokens->node->needs_gradient);
    tokens = lks_graph_line(m.graph, x, "masking");
    lks_tensor *y = lks_graph_line(m.graph, x, "attention heads=1 masked");
    LKT_OK(lks_graph_status(m.graph));
    assert_ptr_equal(y->node->in[1], tokens);
    assert_string_equal(lks_tensor_line(y, 3, line, sizeof line),
                        "attention heads=1 masked in=3x7x12 with=7:2");
    assert_non_null(lks_graph_line(m.graph, x, "transformer heads=2 masked"));
    const lki_node *node = y->node->next;
    while (node != NULL && node->op != LKI_OP_ATTENTION) node = node->next;
    assert_non_null(node);
    assert_ptr_equal(node->in[1], tokens);
    lks_op_report report;
    LKT_OK(lks_op_check(&report, m.context, y, 3, 0));
    assert_true(report.good);
    lkt_end(&m);
}

static lks_tensor *of_nan(lks_graph *g, lks_tensor *x)
{
    return lks_masking(g, x, &(lks_masking_opts){.value = NAN});
}

static lks_tensor *behind_parameters(lks_graph *g, lks_tensor *x)
{
    return lks_masking(g, lks_dense(g, x, &(lks_dense_opts){.units = 2}), NULL);
}

static lks_tensor *other_padding(lks_graph *g, lks_tensor *x)
{
    return lks_attention(g, x, lks_masking(g, x, NULL),
                         &(lks_attention_opts){.heads = 1, .padding = 2});
}

static lks_tensor *embedded(lks_graph *g, lks_tensor *x)
{
    return lks_embedding(g, lks_masking(g, x, NULL), &(lks_embedding_opts){.units = 4});
}

static lks_tensor *read_as_floats(lks_graph *g, lks_tensor *x)
{
    return lks_relu(g, lks_masking(g, x, NULL));
}

static lks_tensor *normalized(lks_graph *g, lks_tensor *x)
{
    return lks_normalize(
        g, lks_masking(g, x, NULL),
        &(lks_normalize_opts){.count = 1, .mean = (float[]){1}, .std = (float[]){2}});
}

static lks_tensor *of_one_dimension(lks_graph *g, lks_tensor *x)
{
    return lks_masking(g, lks_flatten(g, x), NULL);
}

static void what_does_not_fit_is_refused(void **state)
{
    static const struct {
        lks_tensor *(*build)(lks_graph *, lks_tensor *);
        const char *sentence;
    } list[] = {
        {of_nan, "masking 'masking_1': value is nan, expected a finite number"},
        {behind_parameters,
         "input 'dense_1' has parameters before it, but no gradient passes masking"},
        {other_padding, "attention 'attention_1': padding is 2, expected at most 1"},
        {embedded, "input 'masking_1' is tokens of a masking, expected tokens, an input of I32"},
        {read_as_floats,
         "is tokens of a masking, expected F32; only layers that are masked read these"},
        {normalized,
         "is tokens of a masking, expected F32; only layers that are masked read these"},
        {of_one_dimension, "input has 1 dimension, expected 2 (positions, channels)"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        lkt_model m;
        lks_tensor *x = frames_of(&m);

        assert_null(list[i].build(m.graph, x));
        const lks_status status = lks_graph_status(m.graph);
        LKT_FAILS(status, list[i].sentence, lks_graph_status(m.graph));
        lkt_end(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_padding_changes_no_bit),
        cmocka_unit_test(normalized_frames_keep_their_padding),
        cmocka_unit_test(tokens_are_not_rounded),
        cmocka_unit_test(tokens_are_no_activation),
        cmocka_unit_test(lists_of_layers_read_the_last),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * A block of a transformer by itself: gpt of the zoo written with blocks has its bits, a line or an entry of a list is what the
 * builder makes, and what does not fit is refused.
 */
#include <string.h>

#include <lockstep/tools.h>

#include "core/graph.h"
#include "support/backends.h"
#include "support/golden.h"
#include "support/runs.h"
#include "support/test.h"

enum { SAMPLES = 5, CONTEXT = 8, WORDS = 11, WIDTH = 24, DEPTH = 2, STEPS = 3 };

static const lks_transformer_opts kinds[] = {
    {.heads = 3, .activation = LKS_MLP_GELU_TANH},
    {.heads = 4,
     .kv_heads = 2,
     .inner = 40,
     .norm = LKS_NORM_RMS,
     .activation = LKS_MLP_SWIGLU,
     .rotary = 10000,
     .no_bias = true},
    {.heads = 3, .activation = LKS_MLP_RELU, .post_norm = true, .dropout = .25f},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static lks_tensor *tokens(lks_graph *g)
{
    return lks_input(
        g, &(lks_input_opts){.shape = LKS_SHAPE(CONTEXT), .dtype = LKS_I32, .vocabulary = WORDS});
}

static lks_tensor *zoos_gpt(lks_graph *g, lks_transformer_opts opts)
{
    opts.outputs = WORDS;
    opts.depth = DEPTH;
    opts.width = WIDTH;
    return lks_gpt(g, tokens(g), &opts);
}

/* The same layers, with other names of parameters. */
static lks_tensor *own_gpt(lks_graph *g, lks_transformer_opts opts)
{
    static const char *const names[DEPTH] = {"first", "second"};
    const lks_init init = {.kind = LKS_INIT_NORMAL, .scale = .02f};
    lks_tensor *embedded = lks_embedding(
        g, tokens(g), &(lks_embedding_opts){.units = WIDTH, .weight_init = init});
    lks_tensor *x = embedded;
    if (opts.rotary == 0) x = lks_position(g, x, &(lks_position_opts){.weight_init = init});
    if (opts.dropout > 0) x = lks_dropout(g, x, &(lks_dropout_opts){.probability = opts.dropout});
    opts.causal = true;
    opts.residual_layers = 2 * DEPTH;
    for (int i = 0; i < DEPTH; i++) {
        opts.name = names[i];
        x = lks_transformer_block(g, x, NULL, &opts);
    }
    if (!opts.post_norm)
        x = opts.norm == LKS_NORM_RMS
                ? lks_rms_norm(g, x, &(lks_rms_norm_opts){.epsilon = 1e-5f})
                : lks_layer_norm(g, x, &(lks_layer_norm_opts){.no_bias = opts.no_bias});
    return lks_dense(g, x,
                     &(lks_dense_opts){.units = WORDS, .no_bias = true, .weight_of = embedded});
}

static lkt_model open_gpt(const char *device, int kind, bool own)
{
    lkt_model m = lkt_begin(&(lks_context_opts){.device = device, .seed = 5});
    lks_tensor *x = own ? own_gpt(m.graph, kinds[kind]) : zoos_gpt(m.graph, kinds[kind]);
    lks_tensor *y = lks_target(m.graph,
                               &(lks_target_opts){.classes = WORDS, .shape = LKS_SHAPE(CONTEXT)});
    const lks_model_opts opts = {.loss = lks_cross_entropy(m.graph, x, y, NULL),
                                 .global_batch = SAMPLES,
                                 .replicas = 2,
                                 .optim = lks_adamw()};
    LKT_OK(lks_graph_status(m.graph));
    lkt_compile(&m, &opts);
    return m;
}

/* First values are drawn by names, so they are the same by their bounds, and then copied. */
static void same_start(const lkt_model *a, const lkt_model *b)
{
    const lki_node *y = b->graph->first;
    for (const lki_node *x = a->graph->first; x != NULL; x = x->next, y = y->next) {
        assert_non_null(y);
        assert_int_equal(x->op, y->op);
        assert_int_equal(x->param_count, y->param_count);
        for (int i = 0; i < x->param_count; i++) {
            assert_int_equal(x->param[i].init.kind, y->param[i].init.kind);
            assert_true(x->param[i].init.scale == y->param[i].init.scale);
        }
    }
    assert_null(y);
    static float values[4 * WIDTH * WIDTH];
    assert_int_equal(lks_model_state_count(a->model), lks_model_state_count(b->model));
    for (int i = 0; i < lks_model_state_count(a->model); i++) {
        if (lks_model_state_info(a->model, i).kind != LKS_PARAMETER) continue;
        const size_t bytes = lks_model_state_info(a->model, i).bytes;
        assert_true(bytes <= sizeof values);
        LKT_OK(lks_model_state_read(a->model, i, values, bytes));
        LKT_OK(lks_model_state_write(b->model, i, values, bytes));
    }
}

static void gpt_of_blocks_has_the_zoos_bits(void **state)
{
    static int32_t x[SAMPLES * CONTEXT], y[SAMPLES * CONTEXT];
    (void)state;
    for (uint32_t i = 0; i < SAMPLES * CONTEXT; i++) {
        x[i] = (int32_t)(lkt_hashed(i, 1) % WORDS);
        y[i] = (int32_t)(lkt_hashed(i, 2) % WORDS);
    }
    const lks_batch batch = {.x = x, .y = y, .count = SAMPLES};
    for (int d = 0; lkt_backends()[d] != NULL; d++)
        for (int k = 0; k < KINDS; k++) {
            lkt_model zoo = open_gpt(lkt_backends()[d]->name, k, false);
            lkt_model own = open_gpt(lkt_backends()[d]->name, k, true);
            same_start(&zoo, &own);
            for (int step = 0; step < STEPS; step++) {
                lks_metrics a, b;
                LKT_OK(lks_model_step(zoo.model, &batch, 1e-2, &a));
                LKT_OK(lks_model_step(own.model, &batch, 1e-2, &b));
                assert_true(lks_metrics_loss(&a) == lks_metrics_loss(&b));
                assert_true(lks_metrics_loss(&a) > 0);
            }
            lkt_end(&zoo);
            lkt_end(&own);
        }
}

/* Two of them, as a line and as the builder has them. */
static void a_line_is_what_the_builder_makes(void **state)
{
    static const char line[] =
        "transformer heads=4 kv_heads=2 inner=40 norm=rms_norm activation=swiglu post_norm=true "
        "causal=true rotary=100 dropout=0.25 no_bias masked=true padding=3 residual_layers=9 "
        "name=h.9 repeat=2";
    lks_transformer_opts opts = {.heads = 4,
                                 .kv_heads = 2,
                                 .inner = 40,
                                 .norm = LKS_NORM_RMS,
                                 .activation = LKS_MLP_SWIGLU,
                                 .post_norm = true,
                                 .causal = true,
                                 .rotary = 100,
                                 .dropout = .25f,
                                 .no_bias = true,
                                 .masked = true,
                                 .padding = 3,
                                 .residual_layers = 9};
    lks_tensor *x[2], *in[2];
    (void)state;
    lkt_model m[2] = {lkt_begin(NULL), lkt_begin(NULL)};
    for (int i = 0; i < 2; i++) {
        in[i] = tokens(m[i].graph);
        x[i] = lks_embedding(m[i].graph, in[i], &(lks_embedding_opts){.units = WIDTH});
    }
    for (int i = 9; i <= 10; i++) {
        opts.name = i == 9 ? "h.9" : "h.10";
        x[0] = lks_transformer_block(m[0].graph, x[0], in[0], &opts);
    }
    x[1] = lks_graph_line(m[1].graph, x[1], line);
    x[1] = lks_graph_line(m[1].graph, x[1], "relu from=h.9.norm2");
    LKT_OK(lks_graph_status(m[1].graph));
    const lki_node *b = m[1].graph->first;
    for (const lki_node *a = m[0].graph->first; a != NULL; a = a->next, b = b->next) {
        char text[2][300];
        assert_string_equal(a->name, b->name);
        lks_tensor_line(&a->out, 2, text[0], sizeof text[0]);
        lks_tensor_line(&b->out, 2, text[1], sizeof text[1]);
        assert_string_equal(text[0], text[1]);
    }
    assert_string_equal(b->in[0]->node->name, "h.9.norm2");
    lkt_end(&m[0]);
    lkt_end(&m[1]);
}

static void without_a_name_blocks_are_numbered(void **state)
{
    (void)state;
    lkt_model m = lkt_begin(NULL);
    lks_tensor *x = lks_input(m.graph, &(lks_input_opts){.shape = LKS_SHAPE(CONTEXT, WIDTH)});
    x = lks_graph_line(m.graph, x, "transformer heads=3");
    x = lks_layer_norm(m.graph, x, &(lks_layer_norm_opts){.name = "transformer_2.norm"});
    x = lks_graph_line(m.graph, x, "transformer heads=3 repeat=2");
    LKT_OK(lks_graph_status(m.graph));
    int found = 0;
    for (const lki_node *node = m.graph->first; node != NULL; node = node->next)
        found += strcmp(node->name, "transformer_1.attn.qkv") == 0 ||
                 strcmp(node->name, "transformer_3.mlp.fc2") == 0 ||
                 strcmp(node->name, "transformer_4.norm1") == 0;
    assert_int_equal(found, 3);
    lkt_end(&m);
}

static void refuse(const char *sentence, lks_shape shape, bool are_tokens,
                   lks_transformer_opts opts)
{
    lkt_model m = lkt_begin(NULL);
    const lks_input_opts input = {.shape = shape,
                                  .dtype = are_tokens ? LKS_I32 : LKS_F32,
                                  .vocabulary = are_tokens ? WORDS : 0};
    assert_null(lks_transformer_block(m.graph, lks_input(m.graph, &input), NULL, &opts));
    LKT_FAILS(lks_graph_status(m.graph), sentence, lks_graph_status(m.graph));
    lkt_end(&m);
}

static void what_does_not_fit_is_refused(void **state)
{
    const lks_shape rows = LKS_SHAPE(CONTEXT, WIDTH);
    (void)state;
    refuse("a block of a transformer has no name; give it one, which names of its layers begin "
           "with",
           rows, false, (lks_transformer_opts){.heads = 3});
    refuse("transformer 'b': input 'input_1' has 3 dimensions of F32, expected positions and "
           "channels of F32, as embedding and sequence give them",
           LKS_SHAPE(8, 8, 3), false, (lks_transformer_opts){.name = "b", .heads = 3});
    refuse("transformer 'b': input 'input_1' has 1 dimension of I32", LKS_SHAPE(CONTEXT), true,
           (lks_transformer_opts){.name = "b", .heads = 3});
    refuse("transformer 'b': heads is 5 and width 24, but the input has 24 channels; expected that "
           "width, and heads that divide it",
           rows, false, (lks_transformer_opts){.name = "b", .heads = 5});
    refuse("transformer 'b': heads is -3 and width 24", rows, false,
           (lks_transformer_opts){.name = "b", .heads = -3});
    refuse("transformer 'b': heads is 3 and width 48, but the input has 24 channels", rows, false,
           (lks_transformer_opts){.name = "b", .heads = 3, .width = 48});
    refuse("transformer 'b': residual_layers is -2, expected at least 1", rows, false,
           (lks_transformer_opts){.name = "b", .heads = 3, .residual_layers = -2});
    refuse("masked is true, but there are no tokens to find the padding in", rows, false,
           (lks_transformer_opts){.name = "b", .heads = 3, .masked = true});
    refuse("padding is 2, but masked is false", rows, false,
           (lks_transformer_opts){.name = "b", .heads = 3, .padding = 2});
    refuse("layer_norm: the name 'a name.norm1' is not valid", rows, false,
           (lks_transformer_opts){.name = "a name", .heads = 3});
    refuse("expected at most 63", rows, false,
           (lks_transformer_opts){
               .name = "a_name_that_is_as_long_as_a_name_of_the_graph_may_be_and_no_longer",
               .heads = 3});
    assert_null(lks_transformer_block(NULL, NULL, NULL, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt_of_blocks_has_the_zoos_bits),
        cmocka_unit_test(a_line_is_what_the_builder_makes),
        cmocka_unit_test(without_a_name_blocks_are_numbered),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

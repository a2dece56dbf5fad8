/*
 * What networks of sequences are made of: as many parameters as published, what dropout stands behind, first values, and what
 * options leave out. Their numbers are compared with PyTorch's in models/transformer and sequence/carried.
 */
#include <string.h>

#include <lockstep/tools.h>

#include "base/shape.h"
#include "core/graph.h"
#include "support/runs.h"
#include "support/test.h"

enum { CONTEXT = 8, WORDS = 11 };

static lks_tensor *tokens(lks_graph *g, int64_t context, int64_t vocabulary)
{
    return lks_input(
        g,
        &(lks_input_opts){.shape = LKS_SHAPE(context), .dtype = LKS_I32, .vocabulary = vocabulary});
}

static lks_tensor *image(lks_graph *g, int64_t side)
{
    return lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(side, side, 3)});
}

/* A parameter that two layers have counts once. */
static int64_t parameters_in(const lks_graph *graph)
{
    int64_t count = 0;
    for (const lki_node *node = graph->first; node != NULL; node = node->next)
        for (int i = 0; i < node->param_count; i++)
            if (node->param[i].of == NULL) count += lks_shape_elements(&node->param[i].shape);
    return count;
}

static int count_of(const lks_graph *graph, lki_op_id op)
{
    int count = 0;
    for (const lki_node *node = graph->first; node != NULL; node = node->next)
        count += node->op == op;
    return count;
}

/* ---- as many parameters as published */

static void known_networks_are_as_large_as_published(void **state)
{
    /* GPT-2 small (Hugging Face's count); ViT-B/16, whose token of the class has 768 values and a position. */
    static const struct {
        const char *name;
        int64_t parameters;
    } published[] = {{"gpt", 124439808}, {"vit", 86567656 - 2 * 768}};
    lks_context *context;
    lks_network_info info;
    (void)state;
    LKT_OK(lks_context_create(&context, NULL));
    for (int k = 0; k < 2; k++) {
        int number = 0;
        while (lks_network_get(&info, context, number) && strcmp(info.name, published[k].name) != 0)
            number++;
        assert_string_equal(info.name, published[k].name);
        assert_int_equal(info.parameters, published[k].parameters);
    }
    lks_context_destroy(context);
    lkt_model m = lkt_begin(NULL);
    assert_non_null(lks_gpt(m.graph, tokens(m.graph, 1024, 50257), NULL));
    assert_int_equal(parameters_in(m.graph), published[0].parameters);
    lkt_end(&m);
}

/* Of w channels, without a bias: two norms, 4 w w of attention, and three matrices of as many units as come out. */
static void swiglu_has_two_thirds_of_the_units(void **state)
{
    static const int64_t widths[][2] = {{768, 2048}, {48, 128}, {64, 176},
                                        {24, 64},    {12, 32},  {20, 56}};
    (void)state;
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        const int64_t w = widths[i][0], units = widths[i][1];
        lkt_model m = lkt_begin(NULL);
        const lks_transformer_opts opts = {.outputs = WORDS,
                                           .depth = 1,
                                           .heads = 2,
                                           .width = w,
                                           .activation = LKS_MLP_SWIGLU,
                                           .rotary = 10000,
                                           .no_bias = true};
        assert_non_null(lks_gpt(m.graph, tokens(m.graph, CONTEXT, WORDS), &opts));
        assert_int_equal(parameters_in(m.graph), WORDS * w + 3 * w + 4 * w * w + 3 * units * w);
        lkt_end(&m);
    }
}

/* ---- options */

static const lks_transformer_opts small = {
    .outputs = WORDS, .depth = 2, .heads = 3, .width = 24, .patch = 4};

static lks_tensor *build(lks_graph *g, int which, const lks_transformer_opts *opts)
{
    return which == 0   ? lks_gpt(g, tokens(g, CONTEXT, WORDS), opts)
           : which == 1 ? lks_encoder(g, tokens(g, CONTEXT, WORDS), opts)
           : which == 2
               ? lks_encoder(g, lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(CONTEXT, 5)}),
                             opts)
               : lks_vit(g, image(g, 8), opts);
}

/* Behind the positions, both parts of a block, and within attention. */
static void dropout_is_where_gpt2_has_it(void **state)
{
    (void)state;
    for (int which = 0; which < 4; which++)
        for (int on = 0; on < 2; on++) {
            lks_transformer_opts opts = small;
            int attentions = 0, added = 0, embedded = 0;
            if (on) opts.dropout = .25f;
            lkt_model m = lkt_begin(NULL);
            assert_non_null(build(m.graph, which, &opts));
            for (const lki_node *node = m.graph->first; node != NULL; node = node->next) {
                const lki_node *in = node->in_count > 0 ? node->in[0]->node : NULL;
                if (node->op == LKI_OP_ATTENTION) {
                    assert_true(((const lks_attention_opts *)node->attr)->dropout == opts.dropout);
                    attentions++;
                }
                if (node->op != LKI_OP_DROPOUT) continue;
                assert_true(((const lks_dropout_opts *)node->attr)->probability == .25f);
                added += in->op == LKI_OP_DENSE;
                embedded += in->op == LKI_OP_POSITION;
            }
            assert_int_equal(attentions, 2);
            assert_int_equal(added, on ? 4 : 0);
            assert_int_equal(embedded, on);
            assert_int_equal(count_of(m.graph, LKI_OP_DROPOUT), added + embedded);
            lkt_end(&m);
        }
}

/* Weights of 0.02, which only gpt makes smaller in front of a sum; biases of zeros, with those of norms and the head. */
static void first_values_are_normal(void **state)
{
    (void)state;
    for (int which = 0; which < 4; which++) {
        lkt_model m = lkt_begin(NULL);
        assert_non_null(build(m.graph, which, &small));
        int weights = 0, biases = 0;
        for (const lki_node *node = m.graph->first; node != NULL; node = node->next)
            for (int i = 0; i < node->param_count; i++) {
                const lki_param *param = &node->param[i];
                if (strcmp(param->suffix, "bias") == 0) {
                    assert_int_equal(param->init.kind, LKS_INIT_ZEROS);
                    biases++;
                } else if (param->is_weight && param->of == NULL) {
                    const bool smaller = which == 0 && strstr(node->name, "c_proj") != NULL;
                    assert_int_equal(param->init.kind, LKS_INIT_NORMAL);
                    assert_true(param->init.scale == (smaller ? .01f : .02f));
                    weights++;
                }
            }
        /* Two blocks of four layers and two norms; a norm; positions and what stands in front of them; the head. */
        assert_int_equal(weights, 8 + 2 + (which > 0));
        assert_int_equal(biases, 8 + 5 + (which > 0) + (which > 1));
        lkt_end(&m);
    }
}

static void without_a_bias_there_is_none_but_the_heads(void **state)
{
    (void)state;
    for (int which = 0; which < 4; which++) {
        lks_transformer_opts opts = small;
        lkt_model m = lkt_begin(NULL);
        opts.no_bias = true;
        assert_non_null(build(m.graph, which, &opts));
        for (const lki_node *node = m.graph->first; node != NULL; node = node->next)
            for (int i = 0; i < node->param_count; i++)
                if (strcmp(node->param[i].suffix, "bias") == 0)
                    assert_true(strcmp(node->name, "head") == 0 || node->op == LKI_OP_CONV2D);
        lkt_end(&m);
    }
}

static void patches_divide_both_sides(void **state)
{
    (void)state;
    lkt_model m = lkt_begin(NULL);
    lks_tensor *x = lks_input(m.graph, &(lks_input_opts){.shape = LKS_SHAPE(8, 6, 3)});
    assert_null(lks_vit(m.graph, x, &small));
    LKT_FAILS(LKS_E_INVALID, "vit: images are 8x6, which patches of 4x4 do not divide",
              lks_graph_status(m.graph));
    lkt_end(&m);
}

/* ---- language models of recurrent layers */

static const char *const families[] = {"lstm_lm", "gru_lm", "rnn_lm"};
static const int64_t gates[] = {4, 3, 1};

static lkt_model language_model(int which, lks_language_model_opts opts)
{
    lkt_model m = lkt_begin(NULL);
    opts.outputs = WORDS;
    assert_non_null(
        lks_language_model(m.graph, tokens(m.graph, CONTEXT, WORDS), families[which], &opts));
    return m;
}

static int64_t recurrent_parameters(int64_t rows, int64_t in, int64_t hidden)
{
    return rows * (in + hidden + 2);
}

static void language_models_have_the_layers_that_are_asked_for(void **state)
{
    (void)state;
    for (int which = 0; which < 3; which++)
        for (int layers = 1; layers <= 3; layers++) {
            const int64_t u = 6, h = 7, rows = gates[which] * h;
            lkt_model m = language_model(which, (lks_language_model_opts){.embedding_size = u,
                                                                          .hidden_size = h,
                                                                          .num_layers = layers,
                                                                          .dropout = .25f});
            int dropped = 0, between = 0;
            for (const lki_node *node = m.graph->first; node != NULL; node = node->next) {
                if (node->op != LKI_OP_DROPOUT) continue;
                assert_true(((const lks_dropout_opts *)node->attr)->probability == .25f);
                dropped++;
                between += strcmp(node->name, "encoder.dropout") != 0 &&
                           strcmp(node->name, "decoder.dropout") != 0;
            }
            assert_int_equal(dropped, layers + 1);
            assert_int_equal(between, layers - 1);
            assert_int_equal(parameters_in(m.graph),
                             WORDS * u + recurrent_parameters(rows, u, h) +
                                 (layers - 1) * recurrent_parameters(rows, h, h) + WORDS * (h + 1));
            lkt_end(&m);
        }
    lkt_model m = language_model(0, (lks_language_model_opts){.carry_state = true});
    assert_int_equal(count_of(m.graph, LKI_OP_DROPOUT), 0);
    assert_int_equal(parameters_in(m.graph),
                     WORDS * 200 + 2 * recurrent_parameters(800, 200, 200) + WORDS * 201);
    lkt_end(&m);
}

static void all_their_first_values_are_in_one_range(void **state)
{
    (void)state;
    for (int which = 0; which < 3; which++)
        for (int scaled = 0; scaled < 2; scaled++) {
            lkt_model m = language_model(which,
                                         (lks_language_model_opts){.init_scale = scaled ? .1f : 0});
            int uniform = 0, all = 0;
            for (const lki_node *node = m.graph->first; node != NULL; node = node->next)
                for (int i = 0; i < node->param_count; i++, all++)
                    uniform += node->param[i].init.kind == LKS_INIT_UNIFORM &&
                               node->param[i].init.scale == .1f;
            assert_int_equal(all, 1 + 2 * 4 + 2);
            assert_int_equal(uniform, scaled ? all : 0);
            lkt_end(&m);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_networks_are_as_large_as_published),
        cmocka_unit_test(swiglu_has_two_thirds_of_the_units),
        cmocka_unit_test(dropout_is_where_gpt2_has_it),
        cmocka_unit_test(first_values_are_normal),
        cmocka_unit_test(without_a_bias_there_is_none_but_the_heads),
        cmocka_unit_test(patches_divide_both_sides),
        cmocka_unit_test(language_models_have_the_layers_that_are_asked_for),
        cmocka_unit_test(all_their_first_values_are_in_one_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

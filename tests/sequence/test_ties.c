/* What a dense layer's weight_of refuses. */
#include <lockstep/lockstep.h>

#include "support/runs.h"
#include "support/test.h"

enum { SAMPLES = 9, POSITIONS = 7, WORDS = 11, UNITS = 6 };

static lks_tensor *input(lks_graph *g)
{
    return lks_input(
        g, &(lks_input_opts){.shape = LKS_SHAPE(POSITIONS), .dtype = LKS_I32, .vocabulary = WORDS});
}

static lks_tensor *words(lks_graph *g, lks_tensor *x, const char *name)
{
    return lks_embedding(g, x, &(lks_embedding_opts){.name = name, .units = UNITS});
}

static void refuse(const char *sentence, void (*make)(lks_graph *g, lks_tensor *x))
{
    lkt_model m = lkt_begin(NULL);
    make(m.graph, input(m.graph));
    LKT_FAILS(lks_graph_status(m.graph), sentence, lks_graph_status(m.graph));
    assert_int_not_equal(lks_graph_status(m.graph), LKS_OK);
    lkt_end(&m);
}

static lks_tensor *tie(lks_graph *g, lks_tensor *x, const char *name, int64_t units, lks_tensor *of)
{
    return lks_dense(
        g, x, &(lks_dense_opts){.name = name, .units = units, .no_bias = true, .weight_of = of});
}

static void not_an_embedding(lks_graph *g, lks_tensor *x)
{
    x = lks_tanh(g, words(g, x, "words"));
    tie(g, lks_relu(g, x), "head", WORDS, x);
}

static void another_graph(lks_graph *g, lks_tensor *x)
{
    lkt_model m = lkt_begin(NULL);
    lks_tensor *other = words(m.graph, input(m.graph), "other");
    tie(g, words(g, x, "words"), "head", WORDS, other);
    lkt_end(&m);
}

static void behind_the_input(lks_graph *g, lks_tensor *x)
{
    lks_tensor *first = words(g, x, "first");
    tie(g, first, "head", WORDS, words(g, x, "words"));
}

static void other_shape(lks_graph *g, lks_tensor *x)
{
    x = words(g, x, "words");
    tie(g, x, "head", WORDS + 1, x);
}

static void two_layers(lks_graph *g, lks_tensor *x)
{
    lks_tensor *e = words(g, x, "words");
    x = tie(g, e, "first", WORDS, e);
    tie(g, lks_dense(g, x, &(lks_dense_opts){.units = UNITS}), "second", WORDS, e);
}

static void first_values(lks_graph *g, lks_tensor *x)
{
    x = words(g, x, "words");
    lks_dense(
        g, x,
        &(lks_dense_opts){
            .name = "head", .units = WORDS, .weight_of = x, .weight_init.kind = LKS_INIT_ONES});
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    refuse(
        "dense 'head': weight_of is 'tanh_1', expected an embedding of this graph in front of its "
        "input",
        not_an_embedding);
    refuse("weight_of is 'other', expected an embedding of this graph", another_graph);
    refuse("weight_of is 'words', expected an embedding of this graph in front", behind_the_input);
    refuse("dense 'head': its weight would be 12x6, but weight_of is 'words', whose weight is 11x6",
           other_shape);
    refuse("dense 'second': weight_of is 'words', whose weight 'first' has already", two_layers);
    refuse("weight_init has no meaning, as the weight is that of 'words'", first_values);
}

/* The input comes from another embedding than the one whose weight it is. */
static void both_users_are_on_the_way_to_the_loss(void **state)
{
    (void)state;
    lkt_model m = lkt_begin(NULL);
    lks_graph *g = m.graph;
    lks_tensor *x = input(g), *e = words(g, x, "words");
    lks_tensor *y = lks_target(g,
                               &(lks_target_opts){.classes = WORDS, .shape = LKS_SHAPE(POSITIONS)});
    lks_tensor *head = tie(g, words(g, x, "others"), "head", WORDS, e);
    const lks_model_opts opts = {.loss = lks_cross_entropy(g, head, y, NULL),
                                 .global_batch = SAMPLES};
    LKT_FAILS(LKS_E_INVALID,
              "'head' has the weight of 'words', but nothing that comes out of that; expected an "
              "embedding that its input comes from",
              lks_model_compile(&m.model, g, &opts));
    lkt_end(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(both_users_are_on_the_way_to_the_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

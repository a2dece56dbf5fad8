/* What a dense layer's weight_of refuses, and what it is to others: to an output, to what is frozen, to a list. */
#include <stdio.h>
#include <string.h>

#include <lockstep/layers.h>
#include <lockstep/lockstep.h>
#include <lockstep/tools.h>

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

/* Whose weight has the shape that is wanted. */
static void a_dense_layer(lks_graph *g, lks_tensor *x)
{
    lks_tensor *a = lks_dense(g, words(g, x, "words"),
                              &(lks_dense_opts){.name = "a", .units = WORDS});
    tie(g, lks_dense(g, a, &(lks_dense_opts){.units = UNITS}), "head", WORDS, a);
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
    refuse("dense 'head': weight_of is 'a', expected an embedding of this graph", a_dense_layer);
    refuse("weight_of is 'other', expected an embedding of this graph", another_graph);
    refuse("weight_of is 'words', expected an embedding of this graph in front", behind_the_input);
    refuse("dense 'head': its weight would be 12x6, but weight_of is 'words', whose weight is 11x6",
           other_shape);
    refuse("dense 'second': weight_of is 'words', whose weight 'first' has already", two_layers);
    refuse("weight_init has no meaning, as the weight is that of 'words'", first_values);
}

static lks_tensor *targets(lks_graph *g)
{
    return lks_target(g, &(lks_target_opts){.classes = WORDS, .shape = LKS_SHAPE(POSITIONS)});
}

/* The input comes from another embedding than the one whose weight it is, which nothing needs; or the output alone does. */
static void both_users_are_on_the_way_to_the_loss(void **state)
{
    (void)state;
    for (int output = 0; output < 2; output++) {
        lkt_model m = lkt_begin(NULL);
        lks_graph *g = m.graph;
        lks_tensor *x = input(g), *e = words(g, x, "words");
        lks_tensor *y = targets(g), *head = tie(g, words(g, x, "others"), "head", WORDS, e);
        const lks_model_opts opts = {
            .loss = lks_cross_entropy(g, head, y, NULL),
            .output = output ? lks_dense(g, e, &(lks_dense_opts){.units = WORDS}) : NULL,
            .global_batch = SAMPLES};
        LKT_FAILS(LKS_E_INVALID,
                  "'head' has the weight of 'words', but nothing that comes out of that; expected "
                  "an embedding that its input comes from",
                  lks_model_compile(&m.model, g, &opts));
        lkt_end(&m);
    }
}

static int32_t token[SAMPLES][POSITIONS], wanted[SAMPLES][POSITIONS];

static int fill(void **state)
{
    (void)state;
    for (int i = 0; i < SAMPLES; i++)
        for (int t = 0; t < POSITIONS; t++) {
            token[i][t] = (i * 5 + t * t * 3) % WORDS;
            wanted[i][t] = (token[i][t] + t) % WORDS;
        }
    return 0;
}

static uint64_t three_steps(lkt_model *m, lks_model_opts opts)
{
    const lks_batch batch = {.x = token, .y = wanted, .count = SAMPLES};
    uint64_t hash;
    opts.global_batch = SAMPLES;
    opts.replicas = opts.layers ? 1 : 4;
    opts.workers = opts.layers ? 1 : 2;
    lkt_compile(m, &opts);
    for (int i = 0; i < 3; i++) {
        if (!opts.layers) {
            LKT_OK(lks_model_step(m->model, &batch, .5, NULL));
            continue;
        }
        LKT_OK(lks_model_zero_gradients(m->model));
        LKT_OK(lks_model_forward(m->model, &batch, true, NULL));
        LKT_OK(lks_model_backward_input(m->model, NULL));
        LKT_OK(lks_model_backward_params(m->model));
        LKT_OK(lks_model_update(m->model, .5));
    }
    LKT_OK(lks_model_hash(m->model, &hash));
    return hash;
}

/* Then the loss depends on the embedding alone, whose gradient nobody has begun. */
static void a_user_for_the_output_alone_adds_nothing(void **state)
{
    uint64_t hash[2];
    (void)state;
    for (int output = 0; output < 2; output++) {
        lkt_model m = lkt_begin(&(lks_context_opts){.seed = 5});
        lks_graph *g = m.graph;
        lks_tensor *e = words(g, input(g), "words");
        lks_tensor *free = lks_dense(g, e, &(lks_dense_opts){.name = "free", .units = WORDS});
        lks_tensor *head = output ? tie(g, lks_tanh(g, e), "head", WORDS, e) : NULL;
        hash[output] = three_steps(
            &m,
            (lks_model_opts){.loss = lks_cross_entropy(g, free, targets(g), NULL), .output = head});
        lkt_end(&m);
    }
    assert_true(hash[0] == hash[1]);
}

/* A pattern that has the layer's own name is about its bias: the weight has its owner's. Also in a step that is taken apart. */
static void a_layers_name_freezes_its_bias_alone(void **state)
{
    static const char *const patterns[] = {"head.bias", "head.*"};
    uint64_t hash[4];
    (void)state;
    for (int k = 0; k < 4; k++) {
        lkt_model m = lkt_begin(&(lks_context_opts){.seed = 5});
        lks_graph *g = m.graph;
        lks_tensor *e = words(g, input(g), "words");
        lks_tensor *head = lks_dense(
            g, lks_tanh(g, e), &(lks_dense_opts){.name = "head", .units = WORDS, .weight_of = e});
        hash[k] = three_steps(&m,
                              (lks_model_opts){.loss = lks_cross_entropy(g, head, targets(g), NULL),
                                               .freeze = &patterns[k % 2],
                                               .freeze_count = 1,
                                               .layers = k > 1});
        lkt_end(&m);
    }
    assert_true(hash[0] == hash[1]);
    assert_true(hash[2] == hash[3]);
}

static void keep_head(void *user, const char *line)
{
    char *kept = user;
    if (strncmp(line, "head", 4) == 0) snprintf(kept, LKS_LINE_SIZE, "%s", line);
}

/* A list of layers shows the parameters where they are. */
static void a_list_counts_them_once(void **state)
{
    char line[LKS_LINE_SIZE] = "";
    (void)state;
    lkt_model m = lkt_begin(NULL);
    lks_graph *g = m.graph;
    lks_tensor *e = words(g, input(g), "words");
    lks_tensor *head = lks_dense(g, lks_tanh(g, e),
                                 &(lks_dense_opts){.name = "head", .units = WORDS, .weight_of = e});
    lkt_compile(&m, &(lks_model_opts){.loss = lks_cross_entropy(g, head, targets(g), NULL),
                                      .global_batch = SAMPLES});
    LKT_OK(lks_model_describe(m.model, LKS_DESCRIBE_LAYERS, keep_head, line));
    if (strstr(line, "  11  ") == NULL || strstr(line, "  77  ") != NULL)
        fail_msg("its bias has 11 values: '%s'", line);
    lkt_end(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(both_users_are_on_the_way_to_the_loss),
        cmocka_unit_test(a_user_for_the_output_alone_adds_nothing),
        cmocka_unit_test(a_layers_name_freezes_its_bias_alone),
        cmocka_unit_test(a_list_counts_them_once),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}

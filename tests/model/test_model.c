/* What a model answers, and what it refuses. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/backend.h"
#include "support/backends.h"
#include "support/runs.h"
#include "support/test.h"

enum { WIDTH = 4, CLASSES = 3, BATCH = 6 };

typedef struct small {
    lks_context *context;
    lks_graph *graph;
    lks_tensor *hidden, *logits, *loss;
} small;

/* x[4] -> dense 'fc1' 5 -> relu 'act' -> dense 'fc2' 3 -> cross entropy. */
static small make_small(const char *device)
{
    small s;
    LKT_OK(lks_context_create(&s.context, &(lks_context_opts){.device = device, .seed = 1}));
    LKT_OK(lks_graph_create(&s.graph, s.context));
    lks_tensor *x = lks_input(s.graph,
                              &(lks_input_opts){.name = "pixels", .shape = LKS_SHAPE(WIDTH)});
    lks_tensor *y = lks_target(s.graph, &(lks_target_opts){.classes = CLASSES});
    s.hidden = lks_dense(s.graph, x, &(lks_dense_opts){.name = "fc1", .units = 5});
    s.logits = lks_dense(s.graph, lks_relu(s.graph, s.hidden),
                         &(lks_dense_opts){.name = "fc2", .units = 3});
    s.loss = lks_cross_entropy(s.graph, s.logits, y, NULL);
    LKT_OK(lks_graph_status(s.graph));
    return s;
}

static lks_model *compile_small(const small *s, int replicas)
{
    lks_model *model;
    LKT_OK(lks_model_compile(&model, s->graph,
                             &(lks_model_opts){.loss = s->loss,
                                               .global_batch = BATCH,
                                               .replicas = replicas,
                                               .workers = 2,
                                               .optim = lks_sgd(0)}));
    return model;
}

static void free_small(small *s)
{
    lks_graph_destroy(s->graph);
    lks_context_destroy(s->context);
}

static const float X[BATCH * WIDTH] = {1, 2, 3, 4, -1, 0, 1, 2, .5f, .25f, 0, 1,
                                       0, 1, 0, 1, 2,  2, 2, 2, 3,   -3,   1, 0};
static const int32_t Y[BATCH] = {0, 1, 2, 0, 1, 2};
static const int64_t IDS[BATCH] = {100, 101, 102, 103, 104, 105};
static const lks_batch BATCH_OF_SIX = {.x = X, .y = Y, .ids = IDS, .count = BATCH};

/* One step of plain SGD is w - lr * gradient, whatever forms the gradient. */
static void gradient_is_what_a_step_uses(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        small s = make_small(lkt_backends()[b]->name);
        lks_model *model = compile_small(&s, 3);
        float before[20], gradient[20], after[20];
        const int w = lks_model_state_find(model, "fc1.weight");
        LKT_OK(lks_model_state_read(model, w, before, sizeof before));
        LKT_FAILS(LKS_E_STATE, "lks_model_gradient",
                  lks_model_state_read(model, lks_model_state_find(model, "gradient.fc1.weight"),
                                       gradient, sizeof gradient));
        LKT_OK(lks_model_gradient(model, &BATCH_OF_SIX, NULL));
        LKT_OK(lks_model_state_read(model, lks_model_state_find(model, "gradient.fc1.weight"),
                                    gradient, sizeof gradient));
        LKT_OK(lks_model_step(model, &BATCH_OF_SIX, 0.25, NULL));
        LKT_OK(lks_model_state_read(model, w, after, sizeof after));
        for (int i = 0; i < 20; i++) /* a product and a sum, each rounded once: 2 ulp of either */
            assert_true(fabsf(after[i] - (before[i] - .25f * gradient[i])) <=
                        2.4e-7f * (fabsf(before[i]) + fabsf(gradient[i])));
        assert_int_equal(lks_model_progress(model).step, 1);
        lks_model_destroy(model);
        free_small(&s);
    }
}

/* The same gradient for any V, up to the order of the sums: 6 samples, f32, so that each of at most
 * 6 partial sums is rounded by 2^-24 relative to the sum of magnitudes, here below 8. */
static void replicas_change_order_only(void **state)
{
    (void)state;
    small s = make_small(lkt_device("ref"));
    float gradient[3][15];
    for (int i = 0; i < 3; i++) {
        lks_model *model = compile_small(&s, 2 + i);
        LKT_OK(lks_model_gradient(model, &BATCH_OF_SIX, NULL));
        LKT_OK(lks_model_state_read(model, lks_model_state_find(model, "gradient.fc2.weight"),
                                    gradient[i], sizeof gradient[i]));
        lks_model_destroy(model);
    }
    for (int i = 1; i < 3; i++)
        for (int e = 0; e < 15; e++)
            assert_true(fabsf(gradient[i][e] - gradient[0][e]) <= 6 * 8 * 5.97e-8f);
    free_small(&s);
}

static void predicts_any_number(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        small s = make_small(lkt_backends()[b]->name);
        lks_model *model = compile_small(&s, 4);
        float many[17 * CLASSES], one[CLASSES], x[17 * WIDTH];
        for (int i = 0; i < 17 * WIDTH; i++) x[i] = X[i % (BATCH * WIDTH)];
        LKT_OK(lks_model_predict(model, x, 17, many));
        LKT_OK(lks_model_predict(model, x, 0, NULL));
        for (int i = 0; i < 17; i++) {
            LKT_OK(lks_model_predict(model, x + i * WIDTH, 1, one));
            assert_memory_equal(one, many + i * CLASSES, sizeof one);
        }
        lks_model_destroy(model);
        free_small(&s);
    }
}

static void names_what_is_not_finite(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        small s = make_small(lkt_backends()[b]->name);
        lks_model *model = compile_small(&s, 4);
        float x[BATCH * WIDTH], weight[20];
        uint64_t before, after;
        lks_metrics metrics;
        lks_batch batch = BATCH_OF_SIX;
        memcpy(x, X, sizeof x);
        batch.x = x;
        LKT_OK(lks_model_step(model, &batch, 0.1, NULL));
        LKT_OK(lks_model_hash(model, &before));

        x[4 * WIDTH + 1] = INFINITY; /* the sample with id 104 */
        LKT_FAILS(LKS_E_NUMERIC,
                  "step 2: the loss is not finite for sample 104; first bad tensor: "
                  "output of input 'pixels', element 1 of sample 104",
                  lks_model_step(model, &batch, 0.1, &metrics));
        assert_int_equal(metrics.not_finite, 1);
        LKT_OK(lks_model_hash(model, &after));
        assert_int_equal(before, after);

        x[4 * WIDTH + 1] = 3e38f; /* finite, but its products are not */
        const int w = lks_model_state_find(model, "fc1.weight");
        for (int i = 0; i < 20; i++) weight[i] = 100;
        LKT_OK(lks_model_state_write(model, w, weight, sizeof weight));
        LKT_FAILS(LKS_E_NUMERIC, "output of dense 'fc1', element 0 of sample 104",
                  lks_model_step(model, &batch, 0.1, NULL));

        weight[7] = NAN;
        LKT_OK(lks_model_state_write(model, w, weight, sizeof weight));
        LKT_FAILS(LKS_E_NUMERIC, "parameter 'fc1.weight', element 7",
                  lks_model_step(model, &batch, 0.1, NULL));
        lks_model_destroy(model);
        free_small(&s);
    }
}

static void refuses_bad_batches(void **state)
{
    (void)state;
    small s = make_small(lkt_device("ref"));
    lks_model *model = compile_small(&s, 2);
    int32_t y[BATCH] = {0, 1, 2, 0, 3, 2};
    lks_batch batch = BATCH_OF_SIX;
    batch.y = y;
    LKT_FAILS(LKS_E_INVALID, "label of sample 104 is 3, expected 0 to 2",
              lks_model_step(model, &batch, 0.1, NULL));
    y[4] = -1;
    LKT_FAILS(LKS_E_INVALID, "label of sample 104 is -1",
              lks_model_evaluate(model, &batch, &(lks_metrics){0}));
    y[4] = 0;
    lks_mix mix[BATCH] = {{0, 0.25f}, {1, 0}, {2, 1}, {2, 0.5f}, {0, 0.5f}, {3, 0.5f}};
    batch.mix = mix;
    LKT_FAILS(LKS_E_INVALID, "label of sample 105 is 3, expected 0 to 2",
              lks_model_step(model, &batch, 0.1, NULL));
    mix[5].label = 1;
    const float wrong[] = {-0.125f, 1.125f, NAN};
    for (int i = 0; i < 3; i++) {
        mix[4].weight = wrong[i];
        LKT_FAILS(LKS_E_INVALID, "of sample 104 the class it is mixed with has the weight ",
                  lks_model_step(model, &batch, 0.1, NULL));
    }
    mix[4].weight = 0.5f;
    LKT_OK(lks_model_step(model, &batch, 0.1, NULL));
    batch.mix = NULL;
    batch.count = BATCH + 1;
    LKT_FAILS(LKS_E_INVALID, "7 samples, expected 1 to 6",
              lks_model_step(model, &batch, 0.1, NULL));
    batch.count = 0;
    LKT_FAILS(LKS_E_INVALID, "0 samples", lks_model_step(model, &batch, 0.1, NULL));
    batch.count = 2;
    batch.whole = BATCH;
    LKT_FAILS(LKS_E_INVALID, "the batch is a part, 2 of 6 samples",
              lks_model_step(model, &batch, 0.1, NULL));
    LKT_FAILS(LKS_E_INVALID, "give its loader no shares", lks_model_gradient(model, &batch, NULL));
    batch.whole = 0;
    batch.count = 1;
    LKT_FAILS(LKS_E_INVALID, "learning rate", lks_model_step(model, &batch, NAN, NULL));
    LKT_FAILS(LKS_E_INVALID, "no state entry", lks_model_state_read(model, 99, y, 4));
    LKT_FAILS(LKS_E_INVALID, "has 80 bytes", lks_model_state_read(model, 0, y, 4));
    lks_model_destroy(model);
    free_small(&s);
}

static void refuses_bad_questions(void **state)
{
    (void)state;
    small s = make_small(lkt_device("ref"));
    lks_model *model;
    const lks_model_opts good = {.loss = s.loss, .global_batch = 8};
    lks_model_opts bad = good;
    bad.workers = 9;
    LKT_FAILS(LKS_E_INVALID, "9 workers cannot share 8 replicas",
              lks_model_compile(&model, s.graph, &bad));
    assert_null(model);
    bad = good;
    bad.global_batch = 0;
    LKT_FAILS(LKS_E_INVALID, "global_batch is 0", lks_model_compile(&model, s.graph, &bad));
    bad = good;
    bad.replicas = -1;
    LKT_FAILS(LKS_E_INVALID, "replicas is -1", lks_model_compile(&model, s.graph, &bad));
    bad = good;
    bad.loss = s.hidden;
    LKT_FAILS(LKS_E_INVALID, "'fc1' is not a loss", lks_model_compile(&model, s.graph, &bad));
    bad = good;
    bad.output = s.hidden;
    LKT_FAILS(LKS_E_SHAPE, "5 elements, expected 3", lks_model_compile(&model, s.graph, &bad));
    bad = good;
    bad.output = s.loss;
    LKT_FAILS(LKS_E_SHAPE, "", lks_model_compile(&model, s.graph, &bad));
    LKT_FAILS(LKS_E_INVALID, "neither a loss nor an output",
              lks_model_compile(&model, s.graph, &(lks_model_opts){.global_batch = 8}));
    free_small(&s);
}

/* A model without a loss predicts, and says so when asked for more. */
static void works_without_a_loss(void **state)
{
    (void)state;
    small s = make_small(lkt_device("ref"));
    lks_model *whole = compile_small(&s, 4), *model;
    float a[BATCH * CLASSES], b[BATCH * CLASSES];
    LKT_OK(lks_model_compile(&model, s.graph,
                             &(lks_model_opts){.output = s.logits, .global_batch = 3}));
    LKT_OK(lks_model_predict(whole, X, BATCH, a));
    LKT_OK(lks_model_predict(model, X, BATCH, b));
    assert_memory_equal(a, b, sizeof a);
    LKT_FAILS(LKS_E_INVALID, "6 samples, expected 1 to 3",
              lks_model_step(model, &BATCH_OF_SIX, 0.1, NULL));
    lks_batch batch = BATCH_OF_SIX;
    batch.count = 3;
    LKT_FAILS(LKS_E_STATE, "can only predict", lks_model_step(model, &batch, 0.1, NULL));
    lks_model_destroy(model);
    lks_model_destroy(whole);
    free_small(&s);
}

static void refuses_instruction_sets_that_are_not_here(void **state)
{
    (void)state;
    lks_context *context;
    if (lki_backend_find("cpu") == NULL) skip();
    assert_int_equal(setenv("LKS_ISA", "avx3", 1), 0);
    LKT_FAILS(LKS_E_INVALID,
              "LKS_ISA is 'avx3', expected portable, avx2, avx512, avx512_bf16, amx or neon",
              lks_context_create(&context, &(lks_context_opts){.device = "cpu"}));
    assert_null(context);
    assert_int_equal(unsetenv("LKS_ISA"), 0);
}

/* The model would look for it among its own nodes, and it may be gone before the model is. */
static void refuses_tensors_of_another_graph(void **state)
{
    (void)state;
    small s = make_small(NULL), other = make_small(NULL);
    lks_model *model;
    lks_model_opts opts[] = {
        {.loss = other.loss}, {.output = other.logits}, {.loss = s.loss, .output = other.logits}};
    for (int i = 0; i < 3; i++) {
        opts[i].global_batch = BATCH;
        LKT_FAILS(LKS_E_INVALID,
                  i == 0 ? "the loss belongs to another graph" : "the output belongs to another",
                  lks_model_compile(&model, s.graph, &opts[i]));
        assert_null(model);
    }
    free_small(&other);
    free_small(&s);
}

/* No builder makes such a graph; an operation with a buffer called as a parameter would. */
static void refuses_two_of_one_name(void **state)
{
    (void)state;
    small s = make_small(NULL);
    lks_model *model;
    strcpy(s.hidden->node->name, "fc2");
    LKT_FAILS(LKS_E_INVALID, "two entries of the model's state are called 'fc2.bias'",
              lks_model_compile(&model, s.graph,
                                &(lks_model_opts){.loss = s.loss, .global_batch = BATCH}));
    assert_null(model);
    free_small(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradient_is_what_a_step_uses),
        cmocka_unit_test(replicas_change_order_only),
        cmocka_unit_test(predicts_any_number),
        cmocka_unit_test(names_what_is_not_finite),
        cmocka_unit_test(refuses_bad_batches),
        cmocka_unit_test(refuses_bad_questions),
        cmocka_unit_test(refuses_two_of_one_name),
        cmocka_unit_test(refuses_tensors_of_another_graph),
        cmocka_unit_test(works_without_a_loss),
        cmocka_unit_test(refuses_instruction_sets_that_are_not_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * State that recurrent layers carry from batch to batch: PyTorch's losses of language models (tools/goldens/carried.py), the
 * same bits on any number of workers, with recompute and layer by layer; what begins and ends it, and what leaves it alone.
 */
#include <math.h>
#include <stdio.h>

#include <lockstep/layers.h>

#include "cpu/vectors.h"
#include "support/backends.h"
#include "support/op_json.h"
#include "support/ranks/carried.h"

/* ---------------------------------------------------------------- PyTorch */

enum { WORDS = 11, UNITS = 6, HIDDEN = 9, COLUMNS = 5, POSITIONS = 4, WINDOWS = 7, STEPS = 20 };

/* Of tools/goldens/carried.py. */
static uint32_t hashed(int64_t i, uint32_t salt)
{
    return (uint32_t)i * 2654435761u + salt * (40503u * 65537u);
}

static lks_batch golden_batch(int step, int32_t x[COLUMNS][POSITIONS],
                              int32_t y[COLUMNS][POSITIONS])
{
    const int count = WINDOWS * POSITIONS + 1, at = step % WINDOWS * POSITIONS;
    for (int c = 0; c < COLUMNS; c++)
        for (int t = 0; t < POSITIONS; t++) {
            x[c][t] = (int32_t)((hashed(c * count + at + t, 1) >> 20) % WORDS);
            y[c][t] = (int32_t)((hashed(c * count + at + t + 1, 1) >> 20) % WORDS);
        }
    return (lks_batch){.x = x, .y = y, .count = COLUMNS, .continues = step % WINDOWS > 0};
}

static void write_golden_values(lks_model *model)
{
    static float value[4 * HIDDEN * HIDDEN];
    uint32_t salt = 2;
    for (int i = 0; i < lks_model_state_count(model); i++) {
        const lks_state_info info = lks_model_state_info(model, i);
        if (info.kind != LKS_PARAMETER) continue;
        for (size_t e = 0; e < info.bytes / sizeof *value; e++)
            value[e] = ((float)(hashed((int64_t)e, salt) >> 8) / 8388608.0f - 1.0f) / 2;
        LKT_OK(lks_model_state_write(model, i, value, info.bytes));
        salt++;
    }
}

/* Eight times what PyTorch's float32 errs by at most in all numbers of this kind, and the digits that are kept. */
static void compare(const json_t *test, const char *name, int64_t i, double found)
{
    const json_t *tensor = json_object_get(json_object_get(test, "tensors"), name);
    const double most = 8.0 * json_number_value(json_object_get(tensor, "float32"));
    const double golden = json_number_value(
        json_array_get(json_object_get(tensor, "values"), (size_t)i));
    if (!(fabs(found - golden) <= most + 0x1p-24 * fabs(golden)))
        fail_msg("%s: %s[%lld] is %.9g, PyTorch has %.9g, a distance of up to %.3g is fine",
                 json_string_value(json_object_get(test, "op")), name, (long long)i, found, golden,
                 most);
}

static void matches(const char *device, const json_t *test)
{
    const char *op = json_string_value(json_object_get(test, "op"));
    const lks_language_model_opts net = {
        .outputs = WORDS, .embedding_size = UNITS, .hidden_size = HIDDEN, .carry_state = true};
    char name[16];
    int32_t x[COLUMNS][POSITIONS], y[COLUMNS][POSITIONS];
    static float weight[4 * HIDDEN * HIDDEN];
    lkt_small m = {.model = NULL};
    lks_metrics metrics;
    LKT_OK(lks_context_create(&m.context, &(lks_context_opts){.device = device}));
    LKT_OK(lks_graph_create(&m.graph, m.context));
    lks_graph *g = m.graph;
    lks_tensor *z = lks_input(
        g, &(lks_input_opts){.shape = LKS_SHAPE(POSITIONS), .dtype = LKS_I32, .vocabulary = WORDS});
    snprintf(name, sizeof name, "%s_lm", op);
    z = lks_language_model(g, z, name, &net);
    lks_tensor *t = lks_target(g,
                               &(lks_target_opts){.classes = WORDS, .shape = LKS_SHAPE(POSITIONS)});
    const lks_model_opts opts = {.loss = lks_cross_entropy(g, z, t, NULL),
                                 .global_batch = COLUMNS,
                                 .replicas = 2,
                                 .workers = 1};
    LKT_OK(lks_model_compile(&m.model, g, &opts));
    write_golden_values(m.model);
    for (int i = 0; i < STEPS; i++) {
        const lks_batch batch = golden_batch(i, x, y);
        LKT_OK(lks_model_step(m.model, &batch, 0.5, &metrics));
        compare(test, "losses", i, lks_metrics_loss(&metrics));
    }
    metrics = (lks_metrics){0};
    for (int i = 0; i < WINDOWS; i++) {
        const lks_batch batch = golden_batch(i, x, y);
        LKT_OK(lks_model_evaluate(m.model, &batch, &metrics));
    }
    compare(test, "evaluation", 0, lks_metrics_loss(&metrics));
    const int index = lks_model_state_find(m.model, "rnn.weight_hh_l1");
    const size_t bytes = lks_model_state_info(m.model, index).bytes;
    LKT_OK(lks_model_state_read(m.model, index, weight, bytes));
    for (size_t i = 0; i < bytes / sizeof *weight; i++)
        compare(test, "rnn.weight_hh_l1", (int64_t)i, (double)weight[i]);
    lkt_small_end(&m);
}

static void steps_match_pytorch(void **state)
{
    json_t *golden = lkt_json_load("tests/sequence/golden/carried.json"), *test;
    size_t index;
    (void)state;
    for (int d = 0; lkt_backends()[d] != NULL; d++)
        json_array_foreach(json_object_get(golden, "cases"), index, test)
            matches(lkt_backends()[d]->name, test);
    json_decref(golden);
}

/* ---------------------------------------------------------------- the same bits */

static void any_workers_have_the_same_bits(void **state)
{
    const lkt_carried_outcome expected = lkt_carried_alone((lks_model_opts){.workers = 1});
    (void)state;
    for (int p = 2; p <= 5; p++) {
        const lkt_carried_outcome found = lkt_carried_alone((lks_model_opts){.workers = p});
        lkt_carried_same(&found, &expected);
    }
    const lkt_carried_outcome again = lkt_carried_alone(
        (lks_model_opts){.workers = 2, .recompute = true});
    lkt_carried_same(&again, &expected);
    const lkt_carried_outcome other = lkt_carried_alone((lks_model_opts){.replicas = 4});
    assert_true(other.hash != expected.hash);
}

#ifdef LKT_HAVE_CPU
static void any_instruction_set_has_the_same_bits(void **state)
{
    const lki_vector *usual = lki_cpu_vector();
    const lkt_carried_outcome expected = lkt_carried_alone((lks_model_opts){.workers = 1});
    (void)state;
    LKT_FOR_ISAS(v)
    {
        lki_cpu_vector_use(v);
        const lkt_carried_outcome found = lkt_carried_alone((lks_model_opts){.workers = 2});
        lkt_carried_same(&found, &expected);
    }
    lki_cpu_vector_use(usual);
}
#endif

/* A step taken apart is the step. */
static void layers_carry_too(void **state)
{
    lkt_small m = {.model = NULL}, n = {.model = NULL};
    (void)state;
    LKT_OK(lkt_carried_build(&m, NULL, (lks_model_opts){.replicas = 1}));
    LKT_OK(lkt_carried_build(&n, NULL, (lks_model_opts){.replicas = 1, .layers = true}));
    LKT_OK(lkt_carried_train(&m, 0, CARRIED_LONG, NULL));
    for (int i = 0; i < CARRIED_LONG; i++) {
        const lks_batch batch = lkt_carried_batch(i);
        LKT_OK(lks_model_zero_gradients(n.model));
        LKT_OK(lks_model_forward(n.model, &batch, false, NULL)); /* which leaves nothing */
        LKT_OK(lks_model_forward(n.model, &batch, true, NULL));
        LKT_OK(lks_model_backward_input(n.model, NULL));
        LKT_OK(lks_model_backward_params(n.model));
        LKT_OK(lks_model_update(n.model, .3));
    }
    const lks_metrics none = {0};
    const lkt_carried_outcome a = lkt_carried_look(&m, &none), b = lkt_carried_look(&n, &none);
    lkt_carried_same(&a, &b);
    lkt_small_end(&m);
    lkt_small_end(&n);
}

/* ---------------------------------------------------------------- begin and end */

/* Evaluations, gradients and predictions in between leave a training alone, and have zeros to begin with. */
static void nothing_else_moves_what_a_training_carries(void **state)
{
    static float out[2][CARRIED_COLUMNS * CARRIED_POSITIONS * CARRIED_CLASSES];
    const lkt_carried_outcome expected = lkt_carried_alone((lks_model_opts){.workers = 2});
    lkt_small m = {.model = NULL};
    lks_metrics sum = {0}, first = {0}, other;
    (void)state;
    LKT_OK(lkt_carried_build(&m, NULL, (lks_model_opts){.workers = 2}));
    for (int i = 0; i < CARRIED_END; i++) {
        const lks_batch batch = lkt_carried_batch(i), next = lkt_carried_batch(i + 1);
        LKT_OK(lks_model_gradient(m.model, &batch, NULL));
        LKT_OK(lks_model_gradient(m.model, &next, NULL));
        LKT_OK(lkt_carried_train(&m, i, i + 1, &sum));
        LKT_OK(lks_model_evaluate(m.model, &batch, &(lks_metrics){0}));
        LKT_OK(lks_model_predict(m.model, batch.x, CARRIED_COLUMNS, out[0]));
        LKT_OK(lks_model_predict(m.model, next.x, CARRIED_COLUMNS, out[1]));
        LKT_OK(lks_model_predict(m.model, batch.x, CARRIED_COLUMNS, out[1]));
        assert_memory_equal(out[0], out[1], sizeof out[0]);
    }
    const lkt_carried_outcome found = lkt_carried_look(&m, &sum);
    lkt_carried_same(&found, &expected);
    /* Its first window begins anew, and the second one has other losses if it does, too. */
    lks_batch batch = lkt_carried_batch(0);
    LKT_OK(lks_model_evaluate(m.model, &batch, &first));
    batch = lkt_carried_batch(1);
    LKT_OK(lks_model_evaluate(m.model, &batch, &(lks_metrics){0}));
    batch = lkt_carried_batch(0);
    other = (lks_metrics){0};
    LKT_OK(lks_model_evaluate(m.model, &batch, &other));
    assert_memory_equal(&first, &other, sizeof first);
    batch.continues = true;
    other = (lks_metrics){0};
    LKT_OK(lks_model_evaluate(m.model, &batch, &other));
    assert_true(other.loss_low != first.loss_low);
    /* A prediction between two windows of an evaluation has no part in it. */
    lks_metrics pair[2] = {{0}, {0}};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 2; i++) {
            batch = lkt_carried_batch(i);
            LKT_OK(lks_model_evaluate(m.model, &batch, &pair[k]));
            batch = lkt_carried_batch(i + 2);
            if (k == 1) LKT_OK(lks_model_predict(m.model, batch.x, 5, out[0]));
        }
    assert_memory_equal(&pair[0], &pair[1], sizeof pair[0]);
    lkt_small_end(&m);
}

/* Zeros that are carried are none; in pieces of any size an evaluation has the same digits. */
static void zeros_are_nothing(void **state)
{
    static const float zeros[CARRIED_COLUMNS * 14];
    lkt_small m = {.model = NULL}, n = {.model = NULL};
    uint64_t a, b;
    (void)state;
    LKT_OK(lkt_carried_build(&m, NULL, (lks_model_opts){.workers = 1}));
    LKT_OK(lkt_carried_build(&n, NULL, (lks_model_opts){.workers = 1}));
    lks_batch batch = lkt_carried_batch(0);
    LKT_OK(lks_model_step(m.model, &batch, .3, NULL));
    batch.continues = true;
    LKT_OK(lks_model_step(n.model, &batch, .3, NULL));
    LKT_OK(lks_model_hash(m.model, &a));
    LKT_OK(lks_model_hash(n.model, &b));
    assert_true(a == b);
    for (int i = 0; i < lks_model_state_count(n.model); i++) {
        const lks_state_info info = lks_model_state_info(n.model, i);
        if (info.kind == LKS_CARRIED) LKT_OK(lks_model_state_write(n.model, i, zeros, info.bytes));
    }
    batch = lkt_carried_batch(1);
    LKT_OK(lks_model_step(n.model, &batch, .3, NULL));
    batch.continues = false;
    LKT_OK(lks_model_step(m.model, &batch, .3, NULL));
    LKT_OK(lks_model_hash(m.model, &a));
    LKT_OK(lks_model_hash(n.model, &b));
    assert_true(a == b);
    lkt_small_end(&m);
    lkt_small_end(&n);
}

/* A part of the columns is that part of the state, as a rank has it. */
static void parts_of_an_evaluation_are_the_whole(void **state)
{
    lkt_small m = {.model = NULL};
    lks_metrics whole = {0}, sum = {0};
    (void)state;
    LKT_OK(lkt_carried_build(&m, NULL, (lks_model_opts){.workers = 2}));
    LKT_OK(lkt_carried_train(&m, 0, CARRIED_LONG, NULL));
    LKT_OK(lkt_carried_evaluate(&m, &whole));
    for (int i = 0; i < CARRIED_WINDOWS; i++)
        for (int64_t first = 0, some; first < CARRIED_COLUMNS; first += some) {
            lks_batch batch = lkt_carried_batch(i);
            some = first == 0 ? 1 : first == 1 ? 4 : CARRIED_COLUMNS - first;
            batch.x = (const float *)batch.x + first * CARRIED_POSITIONS * CARRIED_WIDTH;
            batch.y = (const int32_t *)batch.y + first * CARRIED_POSITIONS;
            batch.first = first;
            batch.whole = CARRIED_COLUMNS;
            batch.count = some;
            LKT_OK(lks_model_evaluate(m.model, &batch, &sum));
        }
    assert_memory_equal(&whole, &sum, sizeof whole);
    lkt_small_end(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_match_pytorch),
        cmocka_unit_test(any_workers_have_the_same_bits),
#ifdef LKT_HAVE_CPU
        cmocka_unit_test(any_instruction_set_has_the_same_bits),
#endif
        cmocka_unit_test(layers_carry_too),
        cmocka_unit_test(nothing_else_moves_what_a_training_carries),
        cmocka_unit_test(zeros_are_nothing),
        cmocka_unit_test(parts_of_an_evaluation_are_the_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

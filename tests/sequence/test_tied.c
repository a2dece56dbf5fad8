/*
 * A dense layer whose weight is that of an embedding: one parameter with one name, whose gradient is the sum of both uses'.
 * Beside PyTorch's (tools/goldens/tied.py), beside differences of losses, on any number of workers and ranks; averaged,
 * frozen, by layers.
 */
#include <math.h>

#include <lockstep/lockstep.h>

#include "base/check.h"
#include "core/backend.h"
#include "core/graph.h"
#include "support/backends.h"
#include "support/golden.h"
#include "support/ranks/small.h"
#include "support/runs.h"
#include "support/test.h"

enum { SAMPLES = 9, POSITIONS = 7, WORDS = 11, UNITS = 6, STEPS = 6 };
enum { WEIGHT = WORDS * UNITS };

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

static const lks_batch batch = {.x = token, .y = wanted, .count = SAMPLES};

static lks_tensor *input(lks_graph *g)
{
    return lks_input(
        g, &(lks_input_opts){.shape = LKS_SHAPE(POSITIONS), .dtype = LKS_I32, .vocabulary = WORDS});
}

static lks_tensor *words(lks_graph *g, lks_tensor *x, const char *name)
{
    return lks_embedding(g, x, &(lks_embedding_opts){.name = name, .units = UNITS});
}

typedef enum net { TIED, FREE, NARROW } net; /* NARROW: without positions or a bias */

static lks_tensor *build(lks_graph *g, net how)
{
    lks_tensor *embedded = words(g, input(g), "words"), *x = embedded;
    if (how != NARROW) x = lks_position(g, x, &(lks_position_opts){.name = "place"});
    x = lks_dense(g, lks_tanh(g, x),
                  &(lks_dense_opts){.name = "head",
                                    .units = WORDS,
                                    .no_bias = how == NARROW,
                                    .weight_of = how == FREE ? NULL : embedded});
    lks_tensor *y = lks_target(g,
                               &(lks_target_opts){.classes = WORDS, .shape = LKS_SHAPE(POSITIONS)});
    return lks_cross_entropy(g, x, y, NULL);
}

static lkt_model open_net(const char *device, net how, lks_model_opts opts)
{
    lkt_model m = lkt_begin(&(lks_context_opts){.device = device, .seed = 5});
    opts.loss = build(m.graph, how);
    opts.global_batch = SAMPLES;
    lkt_compile(&m, &opts);
    return m;
}

static void read_state(lks_model *model, const char *name, float *out, int count)
{
    LKT_OK(lks_model_state_read(model, lks_model_state_find(model, name), out,
                                (size_t)count * sizeof *out));
}

static void write_state(lks_model *model, const char *name, const float *values, int count)
{
    LKT_OK(lks_model_state_write(model, lks_model_state_find(model, name), values,
                                 (size_t)count * sizeof *values));
}

/* The two uses' gradients, of a model in which they are two parameters. The model's own is their sum: on cpu in f32; on ref
 * the embedding's, of which it is here already rounded to 2^-24 of itself, is added in double. */
static void a_gradient_is_the_sum_of_both(void **state)
{
    (void)state;
    for (int d = 0; lkt_backends()[d] != NULL; d++) {
        const char *device = lkt_backends()[d]->name;
        float weight[WEIGHT], place[POSITIONS * UNITS], bias[WORDS], sum[WEIGHT], first[WEIGHT],
            second[WEIGHT];
        lkt_model tied = open_net(device, TIED, (lks_model_opts){.replicas = 1});
        lkt_model own = open_net(device, FREE, (lks_model_opts){.replicas = 1});
        read_state(tied.model, "words.weight", weight, WEIGHT);
        read_state(tied.model, "place.weight", place, POSITIONS * UNITS);
        read_state(tied.model, "head.bias", bias, WORDS);
        write_state(own.model, "words.weight", weight, WEIGHT);
        write_state(own.model, "head.weight", weight, WEIGHT);
        write_state(own.model, "place.weight", place, POSITIONS * UNITS);
        write_state(own.model, "head.bias", bias, WORDS);
        LKT_OK(lks_model_gradient(tied.model, &batch, NULL));
        LKT_OK(lks_model_gradient(own.model, &batch, NULL));
        read_state(tied.model, "gradient.words.weight", sum, WEIGHT);
        read_state(own.model, "gradient.words.weight", first, WEIGHT);
        read_state(own.model, "gradient.head.weight", second, WEIGHT);
        for (int i = 0; i < WEIGHT; i++) {
            /* All three were multiplied by the float nearest to 1/63, and rounded. */
            const double bound = 0x1p-22 * (fabs((double)first[i]) + fabs((double)second[i]));
            assert_true(fabs((double)sum[i] - (double)first[i] - (double)second[i]) <= bound);
            assert_true(fabs((double)second[i]) > 0);
        }
        lkt_end(&tied);
        lkt_end(&own);
    }
}

/* The derivative by one element of the weight: of differences of h and h / 2 what is linear in h^2 cancels. Values are around 1, so
 * that fifth derivatives of the loss by one element are, too, and h^4 is 2^-16; losses are means of numbers that are rounded to 2^-23. */
static double slope(lks_model *model, const float *weight, int i, float h)
{
    float moved[WEIGHT];
    double loss[2];
    for (int k = 0; k < 2; k++) {
        lks_metrics sum = {0};
        memcpy(moved, weight, sizeof moved);
        moved[i] += k == 0 ? h : -h;
        write_state(model, "words.weight", moved, WEIGHT);
        LKT_OK(lks_model_evaluate(model, &batch, &sum));
        loss[k] = lks_metrics_loss(&sum);
    }
    return (loss[0] - loss[1]) / (2 * (double)h);
}

static void gradients_are_differences(void **state)
{
    (void)state;
    lkt_model m = open_net("ref", NARROW, (lks_model_opts){.replicas = 3});
    float weight[WEIGHT], gradient[WEIGHT];
    read_state(m.model, "words.weight", weight, WEIGHT);
    LKT_OK(lks_model_gradient(m.model, &batch, NULL));
    read_state(m.model, "gradient.words.weight", gradient, WEIGHT);
    for (int i = 0; i < WEIGHT; i++) {
        const double rough = slope(m.model, weight, i, 0x1p-4f);
        const double fine = slope(m.model, weight, i, 0x1p-5f);
        const double found = (4 * fine - rough) / 3;
        if (!(fabs(found - (double)gradient[i]) < 2e-5))
            fail_msg("element %d: %g, by differences %g", i, (double)gradient[i], found);
    }
    lkt_end(&m);
}

static void compare(const char *what, const json_t *golden, const double *found, size_t count)
{
    const json_t *entry = json_object_get(golden, what), *values = json_object_get(entry, "values");
    const double most = 8 * lkt_json_number(entry, "float32"); /* another order of its roundings */
    assert_int_equal(json_array_size(values), count);
    for (size_t i = 0; i < count; i++) {
        const double expected = json_number_value(json_array_get(values, i));
        if (!(fabs(found[i] - expected) <= most))
            fail_msg("%s[%zu] is %.9g, PyTorch's %.9g", what, i, found[i], expected);
    }
}

static void twenty_steps_are_pytorchs(void **state)
{
    json_t *golden = lkt_json_load("tests/sequence/golden/tied.json");
    (void)state;
    for (int d = 0; lkt_backends()[d] != NULL; d++) {
        lks_optim optim = lks_adamw();
        float weight[WEIGHT];
        double losses[20], values[WEIGHT];
        optim.beta2 = .99;
        optim.weight_decay = .1;
        lkt_model m = open_net(lkt_backends()[d]->name, TIED,
                               (lks_model_opts){.replicas = 1, .optim = optim, .clip_norm = .1});
        lkt_golden_write(m.model, "words.weight", 0, 1, 0);
        lkt_golden_write(m.model, "place.weight", 1, 1, 0);
        lkt_golden_write(m.model, "head.bias", 2, 1, 0);
        LKT_OK(lks_model_gradient(m.model, &batch, NULL));
        read_state(m.model, "gradient.words.weight", weight, WEIGHT);
        for (int i = 0; i < WEIGHT; i++) values[i] = (double)weight[i];
        compare("gradient", golden, values, WEIGHT);
        for (int k = 0; k < 20; k++) {
            lks_metrics sum;
            LKT_OK(lks_model_step(m.model, &batch, .02, &sum));
            losses[k] = lks_metrics_loss(&sum);
        }
        compare("losses", golden, losses, 20);
        read_state(m.model, "words.weight", weight, WEIGHT);
        for (int i = 0; i < WEIGHT; i++) values[i] = (double)weight[i];
        compare("weight", golden, values, WEIGHT);
        lkt_end(&m);
    }
    json_decref(golden);
}

static lks_status build_rank(lkt_small *m, lks_comm *comm, lks_model_opts opts)
{
    LKI_TRY(lks_context_create(&m->context, &(lks_context_opts){.seed = 5}));
    LKI_TRY(lks_graph_create(&m->graph, m->context));
    opts.loss = build(m->graph, TIED);
    opts.global_batch = SAMPLES;
    opts.replicas = 4;
    opts.comm = comm;
    return lks_model_compile(&m->model, m->graph, &opts);
}

static uint64_t train(const char *device, lks_model_opts opts)
{
    uint64_t hash;
    opts.replicas = 4;
    opts.optim = lks_adam();
    opts.hash_every = 2;
    lkt_model m = open_net(device, TIED, opts);
    for (int i = 0; i < STEPS; i++) LKT_OK(lks_model_step(m.model, &batch, .05, NULL));
    LKT_OK(lks_model_hash(m.model, &hash));
    lkt_end(&m);
    return hash;
}

static void any_workers_have_the_same_bits(void **state)
{
    (void)state;
    for (int d = 0; lkt_backends()[d] != NULL; d++) {
        const char *device = lkt_backends()[d]->name;
        const uint64_t hash = train(device, (lks_model_opts){.workers = 1});
        for (int p = 2; p <= 4; p++)
            assert_true(train(device, (lks_model_opts){.workers = p, .by_replica = p == 3}) ==
                        hash);
        assert_true(train(device, (lks_model_opts){.workers = 2, .recompute = true}) == hash);
    }
}

static void any_ranks_have_the_same_bits(void **state)
{
    const uint64_t hash = train(NULL, (lks_model_opts){.workers = 1});
    (void)state;
    lkt_small_any_ranks(&(lkt_small_run){
        .build = build_rank, .batch = &batch, .steps = STEPS, .hash_every = 2, .hash = hash});
}

/* As a checkpoint has it: all of the state, and how far the run is. */
static void a_run_goes_on_from_its_state(void **state)
{
    (void)state;
    const lks_model_opts opts = {.replicas = 4, .optim = lks_adam(), .hash_every = 2};
    lkt_model from = open_net(NULL, TIED, opts), to = open_net(NULL, TIED, opts);
    uint64_t hash[2];
    for (int i = 0; i < 3; i++) LKT_OK(lks_model_step(from.model, &batch, .05, NULL));
    for (int i = 0; i < lks_model_state_count(from.model); i++) {
        char values[1024];
        const lks_state_info info = lks_model_state_info(from.model, i);
        assert_null(strstr(info.name, "head.weight"));
        assert_true(info.bytes <= sizeof values);
        if (info.kind == LKS_GRADIENT) continue;
        LKT_OK(lks_model_state_read(from.model, i, values, info.bytes));
        LKT_OK(lks_model_state_write(to.model, i, values, info.bytes));
    }
    lks_model_set_progress(to.model, lks_model_progress(from.model));
    for (int i = 0; i < 3; i++) {
        LKT_OK(lks_model_step(from.model, &batch, .05, NULL));
        LKT_OK(lks_model_step(to.model, &batch, .05, NULL));
    }
    LKT_OK(lks_model_hash(from.model, &hash[0]));
    LKT_OK(lks_model_hash(to.model, &hash[1]));
    assert_true(hash[0] == hash[1]);
    assert_int_equal(lks_model_get_info(from.model).parameters, WEIGHT + POSITIONS * UNITS + WORDS);
    lkt_end(&from);
    lkt_end(&to);
}

/* Both users read the average, and the parameter again. */
static void averages_are_one_too(void **state)
{
    (void)state;
    float out[3][SAMPLES * POSITIONS * WORDS], values[WEIGHT];
    lkt_model m = open_net(NULL, NARROW, (lks_model_opts){.ema_decay = .9, .replicas = 2});
    lkt_model other = open_net(NULL, NARROW, (lks_model_opts){.replicas = 2});
    for (int i = 0; i < 3; i++) LKT_OK(lks_model_step(m.model, &batch, .5, NULL));
    LKT_OK(lks_model_use_averages(m.model, true));
    LKT_OK(lks_model_predict(m.model, token, SAMPLES, out[0]));
    read_state(m.model, "ema.words.weight", values, WEIGHT);
    write_state(other.model, "words.weight", values, WEIGHT);
    LKT_OK(lks_model_predict(other.model, token, SAMPLES, out[1]));
    assert_memory_equal(out[0], out[1], sizeof out[0]);
    LKT_OK(lks_model_use_averages(m.model, false));
    LKT_OK(lks_model_predict(m.model, token, SAMPLES, out[2]));
    assert_memory_not_equal(out[0], out[2], sizeof out[0]);
    read_state(m.model, "words.weight", values, WEIGHT);
    write_state(other.model, "words.weight", values, WEIGHT);
    LKT_OK(lks_model_predict(other.model, token, SAMPLES, out[1]));
    assert_memory_equal(out[2], out[1], sizeof out[2]);
    lkt_end(&m);
    lkt_end(&other);
}

/* Frozen with its owner, whose name it has, while its bias is trained. */
static void freezing_is_of_the_parameter(void **state)
{
    static const char *const patterns[] = {"words.weight", "head.bias"};
    (void)state;
    for (int d = 0; lkt_backends()[d] != NULL; d++)
        for (int f = 0; f < 2; f++) {
            float before[2][WEIGHT], after[2][WEIGHT];
            lkt_model m = open_net(lkt_backends()[d]->name, TIED,
                                   (lks_model_opts){.freeze = &patterns[f], .freeze_count = 1});
            for (int k = 0; k < 2; k++)
                read_state(m.model, patterns[k], before[k], k == 0 ? WEIGHT : WORDS);
            LKT_OK(lks_model_step(m.model, &batch, .5, NULL));
            for (int k = 0; k < 2; k++) {
                const int count = k == 0 ? WEIGHT : WORDS;
                read_state(m.model, patterns[k], after[k], count);
                assert_true((memcmp(before[k], after[k], (size_t)count * sizeof(float)) == 0) ==
                            (k == f));
            }
            lkt_end(&m);
        }
    lkt_model m = lkt_begin(NULL);
    const char *const none = "head.weight"; /* there is none of that name */
    const lks_model_opts opts = {
        .loss = build(m.graph, TIED), .global_batch = SAMPLES, .freeze = &none, .freeze_count = 1};
    LKT_FAILS(LKS_E_INVALID, "head.weight", lks_model_compile(&m.model, m.graph, &opts));
    lkt_end(&m);
}

/* A step taken apart has the bits of one, and lists the parameter once. */
static void layers_have_it_once(void **state)
{
    (void)state;
    for (int d = 0; lkt_backends()[d] != NULL; d++) {
        uint64_t hash[2];
        const char *device = lkt_backends()[d]->name;
        lkt_model apart = open_net(device, TIED, (lks_model_opts){.layers = true});
        lkt_model whole = open_net(device, TIED,
                                   (lks_model_opts){.replicas = 1, .kernels.single = true});
        for (int i = 0; i < 3; i++) {
            LKT_OK(lks_model_zero_gradients(apart.model));
            LKT_OK(lks_model_forward(apart.model, &batch, true, NULL));
            LKT_OK(lks_model_backward_input(apart.model, NULL));
            LKT_OK(lks_model_backward_params(apart.model));
            LKT_OK(lks_model_update(apart.model, .05));
            LKT_OK(lks_model_step(whole.model, &batch, .05, NULL));
        }
        LKT_OK(lks_model_hash(apart.model, &hash[0]));
        LKT_OK(lks_model_hash(whole.model, &hash[1]));
        assert_true(hash[0] == hash[1]);
        assert_true(lks_model_value_find(apart.model, "words.weight.gradient") >= 0);
        assert_int_equal(lks_model_value_find(apart.model, "head.weight"), -1);
        assert_true(lks_model_value_find(apart.model, "head.bias.gradient") >= 0);
        lkt_end(&apart);
        lkt_end(&whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gradient_is_the_sum_of_both),
        cmocka_unit_test(gradients_are_differences),
        cmocka_unit_test(twenty_steps_are_pytorchs),
        cmocka_unit_test(any_workers_have_the_same_bits),
        cmocka_unit_test(any_ranks_have_the_same_bits),
        cmocka_unit_test(a_run_goes_on_from_its_state),
        cmocka_unit_test(averages_are_one_too),
        cmocka_unit_test(freezing_is_of_the_parameter),
        cmocka_unit_test(layers_have_it_once),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}

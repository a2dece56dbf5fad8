/* 20 steps of a small network against PyTorch: every optimizer, clipping, groups, averages.
 * tools/goldens/training.py made tests/model/golden/training.json, and says what network it is. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <lockstep/lockstep.h>

#include "core/backend.h"
#include "support/backends.h"
#include "support/test.h"

enum { IN, LABEL = 5, FIRST_WEIGHT = 10 }; /* salts */
enum { FEATURES = 7, HIDDEN = 6, CLASSES = 3, SAMPLES = 32, BATCH = 8, STEPS = 20 };
enum { VALUES = HIDDEN * FEATURES + HIDDEN + CLASSES * HIDDEN + CLASSES };

static const char *const NAMES[] = {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"};

static uint32_t hashed(int64_t i, uint32_t salt)
{
    return (uint32_t)i * 2654435761u + salt * (40503u * 65537u);
}

static float value(int64_t i, uint32_t salt)
{
    return (float)(hashed(i, salt) >> 8) / 8388608.0f - 1.0f; /* exact */
}

static double number(const json_t *test, const char *key, double standard)
{
    const json_t *given = json_object_get(test, key);
    return given != NULL ? json_number_value(given) : standard;
}

static lks_optim optim_of(const json_t *test)
{
    static const char *const kinds[] = {"SGD",     "Adam",  "Adadelta", "AdamW",
                                        "RMSprop", "AdamP", "LARS",     "LAMB"};
    const lks_optim standard[] = {lks_sgd(0),    lks_adam(),  lks_adadelta(), lks_adamw(),
                                  lks_rmsprop(), lks_adamp(), lks_lars(),     lks_lamb()};
    const json_t *betas = json_object_get(test, "betas");
    int kind = 0;
    while (strcmp(kinds[kind], json_string_value(json_object_get(test, "kind"))) != 0) kind++;
    lks_optim optim = standard[kind];
    optim.weight_decay = number(test, "weight_decay", optim.weight_decay);
    optim.momentum = number(test, "momentum", 0);
    optim.trust = number(test, "trust", optim.trust);
    optim.delta = number(test, "delta", optim.delta);
    optim.wd_ratio = number(test, "wd_ratio", optim.wd_ratio);
    optim.nesterov = json_is_true(json_object_get(test, "nesterov"));
    optim.centered = json_is_true(json_object_get(test, "centered"));
    if (betas != NULL) {
        optim.beta1 = json_number_value(json_array_get(betas, 0));
        optim.beta2 = json_number_value(json_array_get(betas, 1));
    }
    return optim;
}

typedef struct net {
    lks_context *context;
    lks_graph *graph;
    lks_model *model;
} net;

static net open_net(const char *device, const json_t *test)
{
    net n;
    const char *name;
    json_t *own;
    lks_group groups[4];
    LKT_OK(lks_context_create(&n.context, &(lks_context_opts){.device = device}));
    LKT_OK(lks_graph_create(&n.graph, n.context));
    lks_tensor *x = lks_input(n.graph, &(lks_input_opts){.shape = LKS_SHAPE(FEATURES)});
    lks_tensor *y = lks_target(n.graph, &(lks_target_opts){.classes = CLASSES});
    x = lks_dense(n.graph, x, &(lks_dense_opts){.name = "fc1", .units = HIDDEN});
    x = lks_dense(n.graph, lks_relu(n.graph, x),
                  &(lks_dense_opts){.name = "fc2", .units = CLASSES});
    lks_model_opts opts = {.loss = lks_cross_entropy(n.graph, x, y, NULL),
                           .global_batch = BATCH,
                           .replicas = 3,
                           .workers = 2,
                           .optim = optim_of(test),
                           .clip_value = number(test, "clip_value", 0),
                           .clip_norm = number(test, "clip_norm", 0),
                           .ema_decay = number(test, "ema", 0),
                           .groups = groups};
    json_object_foreach(json_object_get(test, "groups"), name, own)
    {
        lks_group *group = &groups[opts.group_count++];
        *group = lks_group_of(name);
        group->lr_factor = number(own, "lr_factor", (double)NAN);
        group->weight_decay = number(own, "weight_decay", (double)NAN);
    }
    LKT_OK(lks_model_compile(&n.model, n.graph, &opts));
    for (size_t p = 0; p < 4; p++) {
        const int index = lks_model_state_find(n.model, NAMES[p]);
        const lks_state_info info = lks_model_state_info(n.model, index);
        float start[VALUES];
        for (size_t i = 0; i < info.bytes / sizeof(float); i++)
            start[i] = value((int64_t)i, FIRST_WEIGHT + (uint32_t)p) / 2;
        LKT_OK(lks_model_state_write(n.model, index, start, info.bytes));
    }
    return n;
}

static void close_net(net *n)
{
    lks_model_destroy(n->model);
    lks_graph_destroy(n->graph);
    lks_context_destroy(n->context);
}

static void read_values(const net *n, bool averages, float out[VALUES])
{
    size_t at = 0;
    for (int p = 0; p < 4; p++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", averages ? "ema." : "", NAMES[p]);
        const int index = lks_model_state_find(n->model, name);
        assert_true(index >= 0);
        const size_t bytes = lks_model_state_info(n->model, index).bytes;
        assert_true(at + bytes / sizeof(float) <= VALUES);
        LKT_OK(lks_model_state_read(n->model, index, out + at, bytes));
        at += bytes / sizeof(float);
    }
    assert_int_equal(at, VALUES);
}

/* The tolerance is measured on PyTorch itself: 8 times the largest distance of its float32 from its
 * float64 run until that step. */
static void compare(const net *n, const char *device, const json_t *test, const json_t *kept)
{
    const double tolerance = 8.0 * json_number_value(json_object_get(kept, "float32"));
    const json_t *expected = json_object_get(kept, "values");
    float found[VALUES];
    read_values(n, json_object_get(test, "ema") != NULL, found);
    assert_int_equal(json_array_size(expected), VALUES);
    for (size_t i = 0; i < VALUES; i++) {
        const double golden = json_number_value(json_array_get(expected, i));
        if (!(fabs((double)found[i] - golden) <= tolerance))
            fail_msg("%s, %s: after step %d value %zu is %.9g, PyTorch has %.9g, tolerance %.3g",
                     device, json_dumps(test, JSON_COMPACT), (int)number(kept, "step", 0), i,
                     (double)found[i], golden, tolerance);
    }
}

static void follow(const char *device, const json_t *test)
{
    const json_t *steps = json_object_get(test, "steps"), *norms = json_object_get(test, "norms");
    float x[SAMPLES][FEATURES];
    int32_t y[SAMPLES];
    net n = open_net(device, test);
    size_t next = 0;
    for (int64_t s = 0; s < SAMPLES; s++) {
        for (int64_t j = 0; j < FEATURES; j++) x[s][j] = value(s * FEATURES + j, IN);
        y[s] = (int32_t)(hashed(s, LABEL) % CLASSES);
    }
    for (int step = 1; step <= STEPS; step++) {
        const int first = (step - 1) % 4 * BATCH;
        const lks_batch batch = {.x = x[first], .y = y + first, .count = BATCH};
        LKT_OK(lks_model_step(n.model, &batch, (double)number(test, "lr", 0), NULL));
        const double norm = lks_model_last_step(n.model).gradient_norm;
        const double golden = json_number_value(json_array_get(norms, (size_t)step - 1));
        assert_int_equal(isnan(norm), norms == NULL);
        if (norms != NULL && !(fabs(norm - golden) <=
                               8.0 * json_number_value(json_object_get(test, "norm_float32"))))
            fail_msg("%s: step %d: the norm is %.9g, PyTorch's %.9g", device, step, norm, golden);
        const json_t *kept = json_array_get(steps, next);
        if ((int)number(kept, "step", 0) == step) compare(&n, device, test, kept), next++;
    }
    assert_int_equal(next, json_array_size(steps));
    close_net(&n);
}

static void training_matches_pytorch(void **state)
{
    char path[4096];
    const char *source = getenv("LKT_SOURCE");
    json_error_t problem;
    json_t *test;
    size_t index;
    int projections = 0;
    (void)state;
    snprintf(path, sizeof path, "%s/tests/model/golden/training.json", source ? source : ".");
    json_t *golden = json_load_file(path, 0, &problem);
    if (golden == NULL) fail_msg("%s: %s", path, problem.text);
    json_array_foreach(json_object_get(golden, "cases"), index, test)
    {
        const json_t *seen = json_object_get(test, "projections");
        for (int b = 0; lkt_backends()[b] != NULL; b++) follow(lkt_backends()[b]->name, test);
        projections += json_object_get(seen, "row") != NULL &&
                       json_object_get(seen, "whole") != NULL;
    }
    assert_true(index >= 19 && projections >= 3);
    json_decref(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(training_matches_pytorch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

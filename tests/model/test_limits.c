/* Both sides of what a model takes, and what it says beyond: options, batches, entries of its state, slices,
 * and where a loss is not finite. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/profile.h>

#include "model/model.h"
#include "support/runs.h"
#include "support/test.h"

enum { WIDTH = 4, CLASSES = 3, SAMPLES = 6 };

static const float X[SAMPLES * WIDTH] = {1, 2, 3, 4, -1, 0, 1, 2, .5f, .25f, 0, 1,
                                         0, 1, 0, 1, 2,  2, 2, 2, 3,   -3,   1, 0};
static const int32_t Y[SAMPLES] = {0, 1, 2, 0, 1, 2};
static const int64_t IDS[SAMPLES] = {100, 101, 102, 103, 104, 105};

typedef struct net {
    lks_context *context;
    lks_graph *graph;
    lks_tensor *x, *y, *hidden, *loss;
    lks_model *model;
} net;

/* x[4] -> dense 'fc' 3 -> cross entropy. */
static net make_net(void)
{
    net n = {0};
    LKT_OK(lks_context_create(&n.context, &(lks_context_opts){.seed = 1}));
    LKT_OK(lks_graph_create(&n.graph, n.context));
    n.x = lks_input(n.graph, &(lks_input_opts){.name = "x", .shape = LKS_SHAPE(WIDTH)});
    n.y = lks_target(n.graph, &(lks_target_opts){.name = "y", .classes = CLASSES});
    n.hidden = lks_dense(n.graph, n.x, &(lks_dense_opts){.name = "fc", .units = CLASSES});
    n.loss = lks_cross_entropy(n.graph, n.hidden, n.y, NULL);
    LKT_OK(lks_graph_status(n.graph));
    return n;
}

static net open_net(lks_model_opts opts)
{
    net n = make_net();
    opts.loss = n.loss;
    opts.global_batch = SAMPLES;
    LKT_OK(lks_model_compile(&n.model, n.graph, &opts));
    return n;
}

static void close_net(net *n)
{
    lks_model_destroy(n->model);
    lks_graph_destroy(n->graph);
    lks_context_destroy(n->context);
}

static lks_batch batch_of(const float *x)
{
    return (lks_batch){.x = x, .y = Y, .ids = IDS, .count = SAMPLES};
}

/* ---------------------------------------------------------------- options */

static void compiles(const net *n, lks_model_opts opts)
{
    lks_model *model;
    opts.loss = n->loss;
    LKT_OK(lks_model_compile(&model, n->graph, &opts));
    lks_model_destroy(model);
}

static void refused(const net *n, lks_model_opts opts, lks_status status, const char *expected)
{
    lks_model *model;
    assert_int_equal(lks_model_compile(&model, n->graph, &opts), status);
    assert_string_equal(lks_last_error()->message, expected);
    assert_null(model);
}

/* With the net's loss. */
static void refuses(const net *n, lks_model_opts opts, const char *expected)
{
    opts.loss = n->loss;
    if (opts.global_batch == 0) opts.global_batch = 8;
    refused(n, opts, LKS_E_INVALID, expected);
}

static void options(void **state)
{
    (void)state;
    net n = make_net();
    refuses(&n, (lks_model_opts){.global_batch = -1},
            "global_batch is -1, expected 1 to 2147483647");
    refuses(&n, (lks_model_opts){.global_batch = INT64_C(1) << 31},
            "global_batch is 2147483648, expected 1 to 2147483647");
    refuses(&n, (lks_model_opts){.accumulate = -1},
            "replicas is 8 and accumulate -1, expected both at least 1 and their product at most "
            "65536");
    refuses(&n, (lks_model_opts){.hash_every = -1}, "hash_every is -1, expected at least 1");
    compiles(&n, (lks_model_opts){.global_batch = 1, .hash_every = 1, .ema_decay = 0.999999});
    for (int k = 0; k < 2; k++)
        refuses(&n, (lks_model_opts){.ema_decay = k ? 1 : -0.5},
                k ? "ema_decay is 1, expected a number above 0 and below 1, or 0: none"
                  : "ema_decay is -0.5, expected a number above 0 and below 1, or 0: none");
    refuses(&n, (lks_model_opts){.workers = 4, .replicas = 3},
            "4 workers cannot share 3 replicas: a worker runs whole replicas; use 1 to 3, or "
            "replicas: 4 (other bits)");
    refuses(&n, (lks_model_opts){.workers = -1, .replicas = 3},
            "-1 workers cannot share 3 replicas: a worker runs whole replicas; use 1 to 3, "
            "or replicas: -1 (other bits)");
    compiles(&n, (lks_model_opts){.global_batch = 8, .workers = 6, .replicas = 3, .accumulate = 2});
    for (int k = 0; k < 2; k++) {
        refuses(&n, (lks_model_opts){.clip_value = k ? (double)INFINITY : -1},
                k ? "clip_value is inf, expected a positive number, or 0: none"
                  : "clip_value is -1, expected a positive number, or 0: none");
        refuses(&n, (lks_model_opts){.clip_norm = k ? (double)INFINITY : -1},
                k ? "clip_norm is inf, expected a positive number, or 0: none"
                  : "clip_norm is -1, expected a positive number, or 0: none");
    }
    refuses(&n, (lks_model_opts){.optim.momentum = -1}, "sgd: momentum is -1, expected 0 or more");
    lks_group group = lks_group_of("fc.*");
    group.lr_factor = -1;
    refuses(&n, (lks_model_opts){.groups = &group, .group_count = 1},
            "group 'fc.*': lr_factor is -1, expected 0 or more");
    group.lr_factor = 0;
    group.weight_decay = (double)INFINITY;
    refuses(&n, (lks_model_opts){.groups = &group, .group_count = 1},
            "group 'fc.*': weight_decay is inf, expected 0 or more");
    group.weight_decay = 0;
    compiles(&n, (lks_model_opts){.global_batch = 8, .groups = &group, .group_count = 1});
    group.match = "fd.*";
    refuses(
        &n, (lks_model_opts){.groups = &group, .group_count = 1},
        "group 'fd.*' matches no parameter; there are 2, from 'fc.weight' to 'fc.bias' (lockstep "
        "info CHECKPOINT lists them)");
    close_net(&n);
}

static void tensors(void **state)
{
    (void)state;
    net n = make_net();
    lks_tensor *sum = lks_add(n.graph, n.hidden, n.hidden);
    refused(&n, (lks_model_opts){.loss = sum, .global_batch = 8}, LKS_E_SHAPE,
            "loss 'add_1' has 1 dimension, expected one number per sample; use a loss such as "
            "lks_cross_entropy()");
    refused(&n, (lks_model_opts){.output = n.x, .global_batch = 8}, LKS_E_INVALID,
            "output 'x' is not computed by the network");
    refused(&n, (lks_model_opts){.output = n.y, .global_batch = 8}, LKS_E_INVALID,
            "output 'y' is not computed by the network");
    refused(&n, (lks_model_opts){.output = n.loss, .global_batch = 8}, LKS_E_INVALID,
            "output 'cross_entropy_1' depends on the target, so it cannot be predicted; give the "
            "tensor before the loss");
    refused(&n, (lks_model_opts){.global_batch = 8}, LKS_E_INVALID,
            "there is neither a loss nor an output to compile for");
    lks_tensor *wide = lks_dense(n.graph, n.x, &(lks_dense_opts){.units = CLASSES + 1});
    refused(&n, (lks_model_opts){.loss = n.loss, .output = wide, .global_batch = 8}, LKS_E_SHAPE,
            "output 'dense_1' has 4 elements, expected 3, the classes of target 'y'");
    lks_graph *empty;
    lks_model *model;
    LKT_OK(lks_graph_create(&empty, n.context));
    lks_tensor *y = lks_target(empty, &(lks_target_opts){.shape = LKS_SHAPE(2)});
    const lks_model_opts only = {.output = lks_relu(empty, y), .global_batch = 8};
    if (lks_graph_status(empty) == LKS_OK)
        LKT_FAILS(LKS_E_INVALID, "the graph has no input; start it with lks_input()",
                  lks_model_compile(&model, empty, &only));
    lks_graph_destroy(empty);
    close_net(&n);
}

static void contexts(void **state)
{
    (void)state;
    lks_context *context;
    lkt_heap heap = {0};
    lks_context_opts opts = {.allocator = lkt_heap_allocator(&heap), .seed = 12};
    opts.allocator.release = NULL;
    const char *half = "the allocator has only one of alloc and release; give both or none";
    LKT_FAILS(LKS_E_INVALID, half, lks_context_create(&context, &opts));
    assert_null(context);
    opts.allocator = lkt_heap_allocator(&heap);
    opts.allocator.alloc = NULL;
    LKT_FAILS(LKS_E_INVALID, half, lks_context_create(&context, &opts));
    opts.allocator = lkt_heap_allocator(&heap);
    LKT_OK(lks_context_create(&context, &opts));
    assert_int_equal(heap.live, 1);
    assert_int_equal(lks_context_seed(context), 12);
    assert_string_equal(lks_context_device(context), lki_backends[0]->name);
    char part[100], names[100] = "";
    for (int i = 0; lki_backends[i] != NULL; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i > 0 ? ", " : "",
                 lki_backends[i]->name);
    snprintf(part, sizeof part, "; %s", lki_backends[0]->name);
    const char *at = strstr(lks_context_fingerprint(context), part);
    assert_non_null(at);
    assert_int_equal(strncmp(at + strlen(part), ": ", 2), 0); /* what it says of itself */
    lks_context_destroy(context);
    assert_int_equal(heap.live, 0);
    char expected[200];
    snprintf(expected, sizeof expected, "device 'gpu' is not in this build, which has: %s", names);
    LKT_FAILS(LKS_E_INVALID, expected,
              lks_context_create(&context, &(lks_context_opts){.device = "gpu"}));
    assert_string_equal(lks_last_error()->message, expected);
    lks_context_destroy(NULL);
}

/* ---------------------------------------------------------------- batches, state */

static void fails(lks_status found, lks_status status, const char *expected)
{
    assert_int_equal(found, status);
    assert_string_equal(lks_last_error()->message, expected);
}

static void batches(void **state)
{
    (void)state;
    net n = open_net((lks_model_opts){.replicas = 2});
    lks_metrics sum = {0};
    lks_batch batch = batch_of(X);
    float out[CLASSES];
    batch.count = -1;
    fails(lks_model_evaluate(n.model, &batch, &sum), LKS_E_INVALID,
          "the batch has -1 samples, expected at least 0");
    fails(lks_model_step(n.model, &batch, 0.1, NULL), LKS_E_INVALID,
          "the batch has -1 samples, expected 1 to 6, the model's global_batch");
    batch.count = 0;
    LKT_OK(lks_model_evaluate(n.model, &batch, &sum));
    assert_int_equal(sum.samples, 0);
    batch = batch_of(NULL);
    fails(lks_model_step(n.model, &batch, 0.1, NULL), LKS_E_INVALID, "the batch has no x");
    batch = batch_of(X);
    batch.y = NULL;
    fails(lks_model_step(n.model, &batch, 0.1, NULL), LKS_E_INVALID, "the batch has no y");
    const int32_t labels[SAMPLES] = {0, 0, 2, 3, 0, 0};
    batch.y = labels;
    fails(lks_model_step(n.model, &batch, 0.1, NULL), LKS_E_INVALID,
          "the label of sample 103 is 3, expected 0 to 2: the network has 3 classes");
    batch.ids = NULL;
    fails(lks_model_step(n.model, &batch, 0.1, NULL), LKS_E_INVALID,
          "the label of sample 3 is 3, expected 0 to 2: the network has 3 classes");
    batch.count = 3; /* what lies behind is not looked at */
    LKT_OK(lks_model_step(n.model, &batch, 0, NULL));
    fails(lks_model_step(n.model, &batch, -1e-300, NULL), LKS_E_INVALID,
          "the learning rate is -1e-300, expected a number of at least 0");
    fails(lks_model_step(n.model, &batch, (double)INFINITY, NULL), LKS_E_INVALID,
          "the learning rate is inf, expected a number of at least 0");
    fails(lks_model_predict(n.model, X, -2, out), LKS_E_INVALID,
          "predict got -2 samples, expected at least 0");
    fails(lks_model_predict(n.model, NULL, 1, out), LKS_E_INVALID,
          "predict got 1 sample but no x or no out");
    fails(lks_model_predict(n.model, X, 1, NULL), LKS_E_INVALID,
          "predict got 1 sample but no x or no out");
    LKT_OK(lks_model_predict(n.model, NULL, 0, NULL));
    assert_int_equal(lks_model_progress(n.model).step, 1);
    close_net(&n);
}

static void entries_of_the_state(void **state)
{
    (void)state;
    net n = open_net((lks_model_opts){.optim = lks_adam(), .ema_decay = 0.5});
    static const char *const names[] = {"fc.weight",
                                        "fc.bias",
                                        "ema.fc.weight",
                                        "ema.fc.bias",
                                        "optimizer.exp_avg.fc.weight",
                                        "optimizer.exp_avg_sq.fc.weight",
                                        "optimizer.exp_avg.fc.bias",
                                        "optimizer.exp_avg_sq.fc.bias",
                                        "gradient.fc.weight",
                                        "gradient.fc.bias"};
    float values[WIDTH * CLASSES] = {0};
    assert_int_equal(lks_model_state_count(n.model), 10);
    for (int i = 0; i < 10; i++) {
        const lks_state_info info = lks_model_state_info(n.model, i);
        const bool bias = strstr(names[i], "bias") != NULL;
        assert_string_equal(info.name, names[i]);
        assert_int_equal(lks_model_state_find(n.model, names[i]), i);
        assert_int_equal(info.kind, i < 2   ? LKS_PARAMETER
                                    : i < 4 ? LKS_AVERAGE
                                    : i < 8 ? LKS_OPTIMIZER
                                            : LKS_GRADIENT);
        assert_int_equal(info.shape.ndim, bias ? 1 : 2);
        assert_int_equal(info.bytes, sizeof(float) * CLASSES * (bias ? 1 : WIDTH));
    }
    assert_null(lks_model_state_info(n.model, 10).name);
    assert_null(lks_model_state_info(n.model, -1).name);
    assert_int_equal(lks_model_state_find(n.model, "fc"), -1);
    assert_int_equal(lks_model_state_find(n.model, NULL), -1);
    fails(lks_model_state_read(n.model, -1, values, 12), LKS_E_INVALID,
          "the model has no state entry -1, expected 0 to 9");
    fails(lks_model_state_write(n.model, 10, values, 12), LKS_E_INVALID,
          "the model has no state entry 10, expected 0 to 9");
    fails(lks_model_state_read(n.model, 9, values, 12), LKS_E_STATE,
          "there is no 'gradient.fc.bias' yet; call lks_model_gradient() first");
    for (int i = 8; i < 10; i++) {
        LKT_FAILS(LKS_E_INVALID, "' can only be read",
                  lks_model_state_write(n.model, i, values, i == 8 ? 48 : 12));
        assert_non_null(strstr(lks_last_error()->message, names[i]));
    }
    LKT_OK(lks_model_state_write(n.model, 7, values, 12));
    fails(lks_model_state_write(n.model, 7, values, 16), LKS_E_INVALID,
          "state 'optimizer.exp_avg_sq.fc.bias' has 12 bytes, the buffer 16");
    close_net(&n);
}

/* What has been written is what the next call computes with. */
static void written_parameters_are_used(void **state)
{
    (void)state;
    net n = open_net((lks_model_opts){.ema_decay = 0.5});
    float before[CLASSES], after[CLASSES], bias[CLASSES] = {1, 2, 3}, weight[WIDTH * CLASSES] = {0};
    LKT_OK(lks_model_predict(n.model, X, 1, before));
    LKT_OK(lks_model_state_write(n.model, 0, weight, sizeof weight));
    LKT_OK(lks_model_state_write(n.model, 1, bias, sizeof bias));
    LKT_OK(lks_model_predict(n.model, X, 1, after));
    assert_memory_equal(after, bias, sizeof bias);
    close_net(&n);
}

static void metrics(void **state)
{
    (void)state;
    lks_metrics sum = {1, 2, 3, 4, UINT64_MAX};
    const lks_metrics part = {10, 20, 30, 40, 2};
    lks_metrics_add(&sum, &part);
    const lks_metrics expected = {11, 22, 33, 45, 1}; /* with a carry */
    assert_memory_equal(&sum, &expected, sizeof sum);
    lks_metrics_add(&sum, NULL);
    lks_metrics_add(NULL, &part);
    assert_memory_equal(&sum, &expected, sizeof sum);
    const lks_metrics one = {.samples = 4, .not_finite = 2, .loss_low = UINT64_C(3) << 32};
    assert_true(lks_metrics_loss(&one) == 1.5);
    const lks_metrics none = {.samples = 2, .not_finite = 2, .loss_low = 1};
    assert_true(isnan(lks_metrics_loss(&none)) && isnan(lks_metrics_loss(NULL)));
}

/* ---------------------------------------------------------------- what is not finite */

/* Every place in the batch, however it is shared, by its id and by its position. */
static void the_first_bad_tensor_is_named(void **state)
{
    (void)state;
    const float weight[CLASSES * WIDTH] = {0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0};
    for (int replicas = 1; replicas <= 7; replicas += 2)
        for (int at = 0; at < 2 * SAMPLES; at++) {
            net n = open_net((lks_model_opts){.replicas = replicas, .workers = 1});
            float x[SAMPLES * WIDTH];
            char expected[300];
            const int p = at % SAMPLES, name = at < SAMPLES ? 100 + p : p;
            memcpy(x, X, sizeof x);
            lks_batch batch = batch_of(x);
            if (at >= SAMPLES) batch.ids = NULL;
            LKT_OK(lks_model_state_write(n.model, 0, weight, sizeof weight));
            x[p * WIDTH + 1] = 3e38f;
            snprintf(expected, sizeof expected,
                     "step 1: the loss is not finite for sample %d; first bad tensor: output of "
                     "dense 'fc', element 1 of sample %d; nothing was updated; lower the learning "
                     "rate or look at these samples",
                     name, name);
            fails(lks_model_step(n.model, &batch, 0.1, NULL), LKS_E_NUMERIC, expected);
            x[p * WIDTH + 3] = NAN;
            snprintf(expected, sizeof expected,
                     "first bad tensor: output of input 'x', element 3 of sample %d;", name);
            LKT_FAILS(LKS_E_NUMERIC, expected, lks_model_step(n.model, &batch, 0.1, NULL));
            assert_int_equal(lks_model_progress(n.model).step, 0);
            close_net(&n);
        }
}

/* Parameters come first, and targets that are numbers are looked at. */
static void parameters_and_targets_are_named(void **state)
{
    (void)state;
    net n = {0};
    LKT_OK(lks_context_create(&n.context, NULL));
    LKT_OK(lks_graph_create(&n.graph, n.context));
    n.x = lks_input(n.graph, &(lks_input_opts){.shape = LKS_SHAPE(WIDTH)});
    n.y = lks_target(n.graph, &(lks_target_opts){.name = "y", .shape = LKS_SHAPE(2)});
    n.hidden = lks_batch_norm(n.graph, n.x, &(lks_batch_norm_opts){.name = "bn"});
    n.hidden = lks_dense(n.graph, n.hidden, &(lks_dense_opts){.name = "fc", .units = 2});
    n.loss = lks_mse(n.graph, n.hidden, n.y);
    LKT_OK(lks_model_compile(
        &n.model, n.graph,
        &(lks_model_opts){.loss = n.loss, .global_batch = SAMPLES, .replicas = 2}));
    float y[SAMPLES * 2] = {0}, mean[WIDTH] = {0, 0, NAN, 0};
    y[2 * 4 + 1] = NAN;
    const lks_batch batch = {.x = X, .y = y, .ids = IDS, .count = SAMPLES};
    LKT_FAILS(
        LKS_E_NUMERIC,
        "not finite for sample 104; first bad tensor: output of target 'y', element 1 of sample "
        "104;",
        lks_model_step(n.model, &batch, 0.1, NULL));
    LKT_OK(lks_model_state_write(n.model, lks_model_state_find(n.model, "bn.running_mean"), mean,
                                 sizeof mean));
    LKT_FAILS(LKS_E_NUMERIC, "first bad tensor: buffer 'bn.running_mean', element 2;",
              lks_model_step(n.model, &batch, 0.1, NULL));
    fails(lks_model_check_finite(n.model), LKS_E_NUMERIC,
          "buffer 'bn.running_mean' is not finite after step 0: element 2 is nan; look for data "
          "that is not finite, or lower the learning rate");
    mean[0] = INFINITY;
    LKT_OK(lks_model_state_write(n.model, lks_model_state_find(n.model, "bn.bias"), mean,
                                 sizeof mean));
    LKT_FAILS(LKS_E_NUMERIC, "first bad tensor: parameter 'bn.bias', element 0;",
              lks_model_step(n.model, &batch, 0.1, NULL));
    close_net(&n);
}

/* ---------------------------------------------------------------- pieces */

/* The largest power of two of samples that fit into 1,280 KiB, at most 64. */
static void slices_have_a_size(void **state)
{
    (void)state;
    const size_t kib = 1024;
    assert_int_equal(lki_slice_of(1), 64);
    assert_int_equal(lki_slice_of(20 * kib), 64);
    assert_int_equal(lki_slice_of(20 * kib + 1), 32);
    assert_int_equal(lki_slice_of(40 * kib), 32);
    assert_int_equal(lki_slice_of(640 * kib), 2);
    assert_int_equal(lki_slice_of(640 * kib + 1), 1);
    assert_int_equal(lki_slice_of(1280 * kib), 1);
    assert_int_equal(lki_slice_of(1 << 30), 1);
}

/* What a kernel is planned for: a slice, a replica, or a group of replicas. */
static void kernels_are_planned_for_their_pieces(void **state)
{
    (void)state;
    for (int64_t side = 8; side <= 512; side *= 8) { /* the largest has slices of one sample */
        net n = {0};
        LKT_OK(lks_context_create(&n.context, &(lks_context_opts){.device = "ref"}));
        LKT_OK(lks_graph_create(&n.graph, n.context));
        n.x = lks_input(n.graph, &(lks_input_opts){.shape = LKS_SHAPE(side, side, 1)});
        n.y = lks_target(n.graph, &(lks_target_opts){.classes = CLASSES});
        lks_tensor *x = lks_max_pool(n.graph, n.x,
                                     &(lks_pool_opts){.kernel = {side / 4, side / 4}});
        x = lks_batch_norm(n.graph, x, NULL);
        x = lks_dense(n.graph, lks_flatten(n.graph, x), &(lks_dense_opts){.units = CLASSES});
        n.loss = lks_cross_entropy(n.graph, x, n.y, NULL);
        LKT_OK(lks_model_compile(
            &n.model, n.graph,
            &(lks_model_opts){.loss = n.loss, .global_batch = 11, .replicas = 4, .workers = 1}));
        const lki_program *program = &n.model->program;
        assert_int_equal(program->max_share, 3);
        assert_int_equal(program->group, 4);
        assert_int_equal(program->max_group, 11); /* no more than the batch */
        assert_int_equal(program->segments, 3);
        assert_int_equal(program->segment[0].slice, side == 512 ? 1 : 64);
        const int64_t expected[] = {program->segment[0].slice, 3, 11};
        for (int s = 0; s < program->stages; s++) {
            const int segment = program->stage[s].segment;
            assert_int_equal(program->stage[s].plan->slice, expected[segment]);
            assert_int_equal(program->segment[segment].joint, segment == 2);
            if (segment > 0) assert_int_equal(program->segment[segment].slice, 0);
        }
        close_net(&n);
    }
}

/* ---------------------------------------------------------------- profiles, predictors */

static void rows_have_an_end(void **state)
{
    (void)state;
    static const char *const names[] = {"start",           "tree", "metrics", "wait gradients",
                                        "wait parameters", "hash", "end"};
    static const char *const passes[] = {"forward", "backward", "rows", "update", "prepare"};
    net n = open_net((lks_model_opts){.replicas = 5, .by_replica = true, .hash_every = 1});
    const int stages = lks_model_stages(n.model);
    const lks_batch batch = batch_of(X);
    LKT_OK(lks_profile_start(n.model));
    for (int i = 0; i < 3; i++) LKT_OK(lks_model_step(n.model, &batch, 0.1, NULL));
    lks_profile_stop(n.model);
    const int rows = lks_profile_total(n.model).rows;
    assert_int_equal(rows, 7 + 5 * stages);
    for (int r = 0; r < rows; r++) {
        const lks_profile_row row = lks_profile_get(n.model, r);
        assert_int_equal(row.stage, r < 7 ? -1 : (r - 7) / 5);
        assert_string_equal(row.pass, r < 7 ? names[r] : passes[(r - 7) % 5]);
    }
    assert_null(lks_profile_get(n.model, rows).pass);
    assert_null(lks_profile_get(n.model, -1).pass);
    assert_int_equal(lks_profile_get(n.model, -1).stage, -1);
    /* Each of four additions reads two arrays and writes one: 12 and 3 numbers, with room for 16 each. */
    assert_true(lks_profile_get(n.model, 1).bytes == 3.0 * 4 * (16 + 16) * 4 * 3);
    assert_true(lks_profile_get(n.model, 5).bytes == 3.0 * 4 * (12 + 3));
    assert_null(lks_model_stage_layer(n.model, -1, 0));
    assert_null(lks_model_stage_layer(n.model, stages, 0));
    assert_null(lks_model_stage_layer(n.model, 0, -1));
    assert_null(lks_model_stage_layer(n.model, 0, n.model->program.stage[0].plan->chain.count));
    assert_non_null(lks_model_stage_layer(n.model, stages - 1, 0));
    lks_profile_stop(NULL);
    assert_int_equal(lks_model_stages(NULL), 0);
    assert_int_equal(lks_profile_total(NULL).rows, 0);
    close_net(&n);
}

typedef struct busy {
    lks_predictor *predictor;
    float *x, *out;
    int64_t count;
    atomic_bool started, done;
    lks_status status;
} busy;

static void *predict_long(void *user)
{
    busy *b = user;
    atomic_store(&b->started, true);
    do b->status = lks_predictor_predict(b->predictor, b->x, b->count, b->out);
    while (b->status == LKS_E_STATE);
    atomic_store(&b->done, true);
    return NULL;
}

/* A predictor is one thread's; whoever comes meanwhile is told, and may come again. */
static void a_busy_predictor_refuses(void **state)
{
    (void)state;
    enum { MANY = 200000 };
    net n = open_net((lks_model_opts){.replicas = 2});
    busy b = {.count = MANY, .x = calloc(MANY, WIDTH * sizeof(float))};
    b.out = calloc(MANY, CLASSES * sizeof(float));
    assert_true(b.x != NULL && b.out != NULL);
    LKT_OK(lks_predictor_create(&b.predictor, n.model));
    bool told = false;
    for (int round = 0; round < 50 && !told; round++) {
        pthread_t thread;
        float out[CLASSES];
        atomic_store(&b.started, false);
        atomic_store(&b.done, false);
        assert_int_equal(pthread_create(&thread, NULL, predict_long, &b), 0);
        while (!atomic_load(&b.started)) continue;
        while (!told && !atomic_load(&b.done)) /* it may take turns with us on one processor */
            told = lks_predictor_predict(b.predictor, X, 1, out) == LKS_E_STATE;
        if (told)
            assert_string_equal(lks_last_error()->message,
                                "lks_predictor_predict(): another thread is using the predictor; "
                                "make one for each thread");
        pthread_join(thread, NULL);
        LKT_OK(b.status);
        LKT_OK(lks_predictor_predict(b.predictor, X, 1, out));
    }
    assert_true(told);
    lks_predictor_destroy(b.predictor);
    lks_predictor_destroy(NULL);
    close_net(&n);
    free(b.x);
    free(b.out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options),
        cmocka_unit_test(tensors),
        cmocka_unit_test(contexts),
        cmocka_unit_test(batches),
        cmocka_unit_test(entries_of_the_state),
        cmocka_unit_test(written_parameters_are_used),
        cmocka_unit_test(metrics),
        cmocka_unit_test(the_first_bad_tensor_is_named),
        cmocka_unit_test(parameters_and_targets_are_named),
        cmocka_unit_test(slices_have_a_size),
        cmocka_unit_test(kernels_are_planned_for_their_pieces),
        cmocka_unit_test(rows_have_an_end),
        cmocka_unit_test(a_busy_predictor_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Both sides of what a model takes, and what it says beyond: options, batches, entries of its state, slices,
 * and where a loss is not finite. */
#include "model/limits.h"

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

static int workers_of(int64_t width, int64_t batch)
{
    lks_context *context;
    lks_graph *graph;
    lks_model *model;
    LKT_OK(lks_context_create(&context, NULL));
    LKT_OK(lks_graph_create(&graph, context));
    lks_tensor *x = lks_input(graph, &(lks_input_opts){.shape = LKS_SHAPE(width)});
    x = lks_dense(graph, x, &(lks_dense_opts){.units = 1024, .no_bias = true});
    const lks_model_opts opts = {.output = x, .global_batch = batch, .replicas = 4};
    LKT_OK(lks_model_compile(&model, graph, &opts));
    const int workers = lks_model_get_info(model).workers;
    lks_model_destroy(model);
    lks_graph_destroy(graph);
    lks_context_destroy(context);
    return workers;
}

/* One for every 2^20 multiply-adds and numbers written of a batch, and parameters: 2,099,200 and 2,095,102 here. */
static void small_steps_take_few_workers(void **state)
{
    (void)state;
    const int cores = lks_cores();
    assert_int_equal(workers_of(1024, 1), cores < 2 ? cores : 2);
    assert_int_equal(workers_of(1022, 1), 1);
    assert_int_equal(workers_of(1, 1), 1);
    assert_int_equal(workers_of(1024, 100), cores < 4 ? cores : 4);
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
    compiles(&n, (lks_model_opts){.global_batch = 8, .kernels.winograd = LKS_WINOGRAD_F4});
    refuses(&n, (lks_model_opts){.kernels.winograd = (lks_winograd)4},
            "kernels.winograd is 4, expected one of lks_winograd, which are 0 to 3");
    refuses(&n, (lks_model_opts){.decay_of = (lks_decay)2},
            "decay_of is 2, expected one of lks_decay, which are 0 to 1");
    refuses(&n, (lks_model_opts){.balance = (lks_balance)-1},
            "balance is -1, expected one of lks_balance, which are 0 to 1");
    refuses(&n, (lks_model_opts){.exchange = (lks_exchange)3},
            "exchange is 3, expected one of lks_exchange, which are 0 to 2");
    refuses(&n, (lks_model_opts){.reduction = (lks_reduction)2},
            "reduction is 2, expected one of lks_reduction, which are 0 to 1");
    refuses(&n, (lks_model_opts){.shard = (lks_shard)3},
            "shard is 3, expected one of lks_shard, which are 0 to 2");
    compiles(&n, (lks_model_opts){.global_batch = 8, .shard = LKS_SHARD_OFF});
    refuses(&n, (lks_model_opts){.optim.momentum = -1},
            "sgd: momentum is -1, expected a number of at least 0");
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
    lks_metrics sum = {1, 2, 3, 4, UINT64_MAX, 5, 6};
    const lks_metrics part = {10, 20, 30, 40, 2, 50, 60};
    lks_metrics_add(&sum, &part);
    const lks_metrics expected = {11, 22, 33, 45, 1, 55, 66}; /* with a carry */
    assert_memory_equal(&sum, &expected, sizeof sum);
    lks_metrics_add(&sum, NULL);
    lks_metrics_add(NULL, &part);
    assert_memory_equal(&sum, &expected, sizeof sum);
    const lks_metrics one = {
        .samples = 4, .counted = 4, .not_finite = 2, .loss_low = UINT64_C(3) << 32};
    assert_true(lks_metrics_loss(&one) == 1.5);
    const lks_metrics none = {.samples = 2, .counted = 2, .not_finite = 2, .loss_low = 1};
    assert_true(isnan(lks_metrics_loss(&none)) && isnan(lks_metrics_loss(NULL)));
}

/* ---------------------------------------------------------------- what is not finite */

/* ---------------------------------------------------------------- pieces */

/* ---------------------------------------------------------------- profiles, predictors */

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_steps_take_few_workers),
        cmocka_unit_test(options),
        cmocka_unit_test(tensors),
        cmocka_unit_test(contexts),
        cmocka_unit_test(batches),
        cmocka_unit_test(entries_of_the_state),
        cmocka_unit_test(written_parameters_are_used),
        cmocka_unit_test(metrics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Both sides of what runs in pieces: slices, rows, predictors, and where a loss is not finite. */
#include "model/limits.h"
#include <lockstep/tools.h>

#include "support/backends.h"

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
    LKT_OK(lks_context_create(&n.context, &(lks_context_opts){.device = lkt_device(NULL)}));
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
        LKT_OK(lks_context_create(&n.context, &(lks_context_opts){.device = lkt_device("ref")}));
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
        assert_int_equal(program->cohort, 4);
        assert_int_equal(program->max_cohort, 11); /* no more than the batch */
        assert_int_equal(program->segments, 3);
        assert_int_equal(program->segment[0].slice, side == 512 ? 1 : 2); /* of 3 at most */
        /* Batch norm is in two: its halves take slices of their segments. */
        const int64_t expected[] = {program->segment[0].slice, 2, 11};
        for (int s = 0; s < program->stages; s++) {
            const int segment = program->part[program->stage[s].second].segment;
            assert_int_equal(program->stage[s].plan->slice, expected[segment]);
            assert_int_equal(program->segment[segment].joint, segment == 2);
            assert_int_equal(program->segment[segment].slice, segment < 2 ? expected[segment] : 0);
        }
        close_net(&n);
    }
}

/* A large weight is read for as many samples as its layer allows, or for four times as many bytes of them as it has. */
static void large_weights_begin_segments(void **state)
{
    static const struct {
        int64_t side, channels, filters;
        int segments;
        int64_t slice;
    } list[] = {{8, 64, 256, 1, 4}, {8, 64, 512, 2, 32}, {4, 256, 512, 2, 64}};
    (void)state;
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        net n = {0};
        const int64_t channels = list[i].channels;
        LKT_OK(lks_context_create(&n.context, &(lks_context_opts){.device = lkt_device("ref")}));
        LKT_OK(lks_graph_create(&n.graph, n.context));
        n.x = lks_input(n.graph,
                        &(lks_input_opts){.shape = LKS_SHAPE(1024 / channels, 64, channels)});
        n.y = lks_target(n.graph, &(lks_target_opts){.classes = CLASSES});
        lks_tensor *x = lks_max_pool(
            n.graph, n.x,
            &(lks_pool_opts){.kernel = {1024 / channels / list[i].side, 64 / list[i].side}});
        x = lks_conv2d(
            n.graph, x,
            &(lks_conv2d_opts){.filters = list[i].filters, .kernel = {3, 3}, .padding = {1, 1}});
        x = lks_dense(n.graph, lks_global_avg_pool(n.graph, x),
                      &(lks_dense_opts){.units = CLASSES});
        n.loss = lks_cross_entropy(n.graph, x, n.y, NULL);
        LKT_OK(lks_model_compile(
            &n.model, n.graph,
            &(lks_model_opts){.loss = n.loss, .global_batch = 64, .replicas = 1, .workers = 1}));
        const lki_program *program = &n.model->program;
        assert_int_equal(program->segments, list[i].segments + 1);
        assert_int_equal(program->segment[0].slice, 4);
        assert_int_equal(program->segment[list[i].segments - 1].slice, list[i].slice);
        close_net(&n);
    }
}

static void rows_have_an_end(void **state)
{
    (void)state;
    static const char *const names[] = {
        "start",           "tree", "metrics", "wait gradients", "wait processes",
        "wait parameters", "hash", "end"};
    static const char *const passes[] = {"forward", "backward", "rows", "update", "prepare"};
    net n = open_net((lks_model_opts){.replicas = 5, .by_replica = true, .hash_every = 1});
    const int stages = lks_model_stages(n.model);
    const lks_batch batch = batch_of(X);
    LKT_OK(lks_profile_start(n.model));
    for (int i = 0; i < 3; i++) LKT_OK(lks_model_step(n.model, &batch, 0.1, NULL));
    lks_profile_stop(n.model);
    const int rows = lks_profile_total(n.model).rows;
    assert_int_equal(rows, 8 + 5 * stages);
    for (int r = 0; r < rows; r++) {
        const lks_profile_row row = lks_profile_get(n.model, r);
        assert_int_equal(row.stage, r < 8 ? -1 : (r - 8) / 5);
        assert_string_equal(row.pass, r < 8 ? names[r] : passes[(r - 8) % 5]);
    }
    assert_null(lks_profile_get(n.model, rows).pass);
    assert_null(lks_profile_get(n.model, -1).pass);
    assert_int_equal(lks_profile_get(n.model, -1).stage, -1);
    /* Each of four additions reads two arrays and writes one: 12 and 3 numbers, with room for 16 each. */
    assert_true(lks_profile_get(n.model, 1).bytes == 3.0 * 4 * (16 + 16) * 4 * 3);
    assert_true(lks_profile_get(n.model, 6).bytes == 3.0 * 4 * (12 + 3));
    assert_null(lks_model_stage_layer(n.model, -1, 0));
    assert_null(lks_model_stage_layer(n.model, stages, 0));
    assert_null(lks_model_stage_layer(n.model, 0, -1));
    assert_null(lks_model_stage_layer(n.model, 0, n.model->program.stage[0].plan->cluster.count));
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
        cmocka_unit_test(the_first_bad_tensor_is_named),
        cmocka_unit_test(parameters_and_targets_are_named),
        cmocka_unit_test(slices_have_a_size),
        cmocka_unit_test(kernels_are_planned_for_their_pieces),
        cmocka_unit_test(large_weights_begin_segments),
        cmocka_unit_test(rows_have_an_end),
        cmocka_unit_test(a_busy_predictor_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

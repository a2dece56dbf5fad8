/* Profiles: a step's time is in its rows, what was computed is counted, and no bit changes. */
#include <math.h>
#include <string.h>
#include <time.h>

#include <lockstep/tools.h>

#include "core/backend.h"
#include "support/runs.h"
#include "support/backends.h"
#include "support/test.h"

enum { SAMPLES = 44, BATCH = 16, REPLICAS = 4 };

typedef struct session {
    lks_context *context;
    lks_graph *graph;
    lks_model *model;
    lkt_images images;
} session;

static void open_session(session *s, const char *device, lkt_net net, lks_model_opts opts,
                         lkt_heap *heap)
{
    lks_context_opts context = {.device = device, .seed = 3};
    if (heap != NULL) context.allocator = lkt_heap_allocator(heap);
    LKT_OK(lks_context_create(&s->context, &context));
    LKT_OK(lks_graph_create(&s->graph, s->context));
    opts.loss = net(s->graph);
    opts.global_batch = BATCH;
    opts.replicas = REPLICAS;
    LKT_OK(lks_model_compile(&s->model, s->graph, &opts));
    s->images = lkt_images_make(SAMPLES);
}

static void close_session(session *s)
{
    lks_model_destroy(s->model);
    lks_graph_destroy(s->graph);
    lks_context_destroy(s->context);
    lkt_images_free(&s->images);
}

/* Batches of 16, 16 and 12 samples, from the beginning. */
static void steps(session *s, int count)
{
    for (int i = 0; i < count; i++) {
        const int64_t first = i % 3 * BATCH;
        const lks_batch batch = {.x = s->images.x + first * 360,
                                 .y = s->images.y + first,
                                 .count = SAMPLES - first < BATCH ? SAMPLES - first : BATCH};
        LKT_OK(lks_model_step(s->model, &batch, 0.05, NULL));
    }
}

static double clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static lks_profile_row row_of(const lks_model *model, int stage, const char *pass)
{
    for (int r = 0; r < lks_profile_total(model).rows; r++) {
        const lks_profile_row row = lks_profile_get(model, r);
        if (row.stage == stage && strcmp(row.pass, pass) == 0) return row;
    }
    fail_msg("no row %s of stage %d", pass, stage);
    return (lks_profile_row){0};
}

static int stage_of(const lks_model *model, const char *operation)
{
    char line[LKS_LINE_SIZE];
    for (int stage = 0; stage < lks_model_stages(model); stage++)
        for (int i = 0; lks_model_stage_layer(model, stage, i) != NULL; i++)
            if (strncmp(
                    lks_tensor_line(lks_model_stage_layer(model, stage, i), 1, line, sizeof line),
                    operation, strlen(operation)) == 0)
                return stage;
    fail_msg("no stage with %s", operation);
    return -1;
}

static void check_rows(const session *s, int workers, int count, double wall)
{
    static const char *const once[] = {"start", "wait gradients", "wait parameters", "end"};
    const lks_profile total = lks_profile_total(s->model);
    double sum = 0;
    assert_int_equal(total.steps, count);
    assert_true(total.seconds > 0 && total.seconds <= wall);
    for (int r = 0; r < total.rows; r++) {
        const lks_profile_row row = lks_profile_get(s->model, r);
        assert_true(row.seconds >= 0 && row.calls >= 0 && isfinite(row.flops));
        assert_true(row.calls > 0 || row.seconds == 0);
        sum += row.seconds;
    }
    /* Laps are whole nanoseconds without gaps; turned into doubles and divided by the workers, each
     * of fewer than 200 rows is off by 2^-52 of the total at most. */
    assert_true(fabs(sum - total.seconds) <= 200 * 0x1p-52 * total.seconds);
    for (size_t i = 0; i < sizeof once / sizeof *once; i++)
        assert_int_equal(row_of(s->model, -1, once[i]).calls, count * workers);
    assert_int_equal(row_of(s->model, -1, "hash").calls, count / 2 * workers);
    assert_true(row_of(s->model, -1, "metrics").calls >= workers);
    for (int stage = 0; stage < lks_model_stages(s->model); stage++) {
        assert_non_null(lks_model_stage_layer(s->model, stage, 0));
        assert_true(row_of(s->model, stage, "forward").calls > 0);
    }
}

static void rows_add_up_to_the_steps(void **state)
{
    const lkt_net nets[] = {lkt_net_mlp, lkt_net_conv, lkt_net_residual};
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int k = 0; k < 9; k++) {
            const int workers = 1 + k / 3;
            const double begin = clock_now();
            session s;
            open_session(&s, lkt_backends()[b]->name, nets[k % 3],
                         (lks_model_opts){.workers = workers, .hash_every = 2}, NULL);
            assert_int_equal(lks_profile_total(s.model).rows, 0);
            steps(&s, 2);
            LKT_OK(lks_profile_start(s.model));
            steps(&s, 4);
            lks_profile_stop(s.model);
            steps(&s, 2); /* not counted */
            check_rows(&s, workers, 4, clock_now() - begin);
            LKT_OK(lks_profile_start(s.model)); /* anew */
            assert_int_equal(lks_profile_total(s.model).steps, 0);
            close_session(&s);
        }
}

/* Steps that keep gradients (clipping, AdamP) have more barriers, and an update behind them. */
static void kept_gradients_are_in_the_rows(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int k = 0; k < 2; k++) {
            lks_model_opts opts = {.workers = 2, .clip_norm = 0.5f};
            double sum = 0;
            session s;
            if (k == 1) opts.optim = lks_adamp();
            open_session(&s, lkt_backends()[b]->name, lkt_net_mlp, opts, NULL);
            LKT_OK(lks_profile_start(s.model));
            steps(&s, 3);
            const lks_profile total = lks_profile_total(s.model);
            for (int r = 0; r < total.rows; r++) sum += lks_profile_get(s.model, r).seconds;
            assert_true(fabs(sum - total.seconds) <= 200 * 0x1p-52 * total.seconds);
            assert_true(row_of(s.model, -1, "wait gradients").calls > 3 * 2);
            assert_true(row_of(s.model, stage_of(s.model, "dense"), "update").calls > 3);
            close_session(&s);
        }
}

static void a_profile_changes_no_bit(void **state)
{
    const lkt_net nets[] = {lkt_net_conv, lkt_net_residual};
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int n = 0; n < 2; n++) {
            uint64_t hash[3];
            for (int k = 0; k < 3; k++) { /* never, in the middle, always */
                session s;
                open_session(&s, lkt_backends()[b]->name, nets[n],
                             (lks_model_opts){.workers = 1 + k, .hash_every = 2}, NULL);
                if (k == 2) LKT_OK(lks_profile_start(s.model));
                steps(&s, 2);
                if (k == 1) LKT_OK(lks_profile_start(s.model));
                steps(&s, 3);
                if (k == 1) lks_profile_stop(s.model);
                steps(&s, 1);
                LKT_OK(lks_model_hash(s.model, &hash[k]));
                close_session(&s);
            }
            assert_true(hash[0] == hash[1] && hash[1] == hash[2]);
        }
}

/* One dense layer of 7 units on 12x10x3 values, whose input needs no gradient. */
static lks_tensor *one_dense(lks_graph *graph)
{
    lks_tensor *x = lks_input(graph,
                              &(lks_input_opts){.shape = LKS_SHAPE(12, 10, 3), .dtype = LKS_U8});
    x = lks_normalize(
        graph, x,
        &(lks_normalize_opts){.count = 1, .mean = (float[]){.5f}, .std = (float[]){.25f}});
    x = lks_dense(graph, lks_flatten(graph, x), &(lks_dense_opts){.units = 7});
    return lks_nll(graph, lks_log_softmax(graph, x),
                   lks_target(graph, &(lks_target_opts){.classes = 7}));
}

static void operations_are_counted(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        for (int by_replica = 0; by_replica < 2; by_replica++) {
            const double once = 2.0 * 360 * 7 * (16 + 16 + 12);
            session s;
            open_session(&s, lkt_backends()[b]->name, one_dense,
                         (lks_model_opts){.workers = 2, .by_replica = by_replica, .hash_every = 2},
                         NULL);
            LKT_OK(lks_profile_start(s.model));
            steps(&s, 3);
            assert_int_equal(lks_profile_total(s.model).samples, SAMPLES);
            assert_true(row_of(s.model, -1, "hash").bytes == 4.0 * (360 * 7 + 7)); /* one link */
            const int dense = stage_of(s.model, "dense");
            const bool rows = row_of(s.model, dense, "rows").calls > 0;
            if (by_replica) assert_false(rows);
            assert_true(row_of(s.model, dense, "forward").flops == once);
            assert_true(row_of(s.model, dense, "rows").flops == (rows ? once : 0));
            assert_true(row_of(s.model, dense, "backward").flops == (rows ? 0 : once));
            /* SGD without momentum: gradient, parameter and parameter again. */
            assert_true(row_of(s.model, dense, "update").bytes == 3.0 * 3 * 4 * (360 * 7 + 7));
            /* the output's gradient and what is read, and the parameters' in every call */
            const lks_profile_row back = row_of(s.model, dense, "backward");
            if (!rows)
                assert_true(back.bytes ==
                            44.0 * 4 * (360 + 7) + (double)back.calls * 4 * (360 * 7 + 7));
            const int softmax = stage_of(s.model, "log_softmax");
            assert_true(row_of(s.model, softmax, "forward").flops == 0);
            assert_true(row_of(s.model, softmax, "forward").bytes >= 44.0 * 2 * 7 * 4);
            close_session(&s);
        }
}

static lks_tensor *one_attention(lks_graph *graph)
{
    lks_tensor *x = lks_input(graph,
                              &(lks_input_opts){.shape = LKS_SHAPE(12, 10, 3), .dtype = LKS_U8});
    x = lks_normalize(
        graph, x,
        &(lks_normalize_opts){.count = 1, .mean = (float[]){.5f}, .std = (float[]){.25f}});
    x = lks_dense(graph, lks_sequence(graph, x), &(lks_dense_opts){.units = 12});
    x = lks_attention(graph, x, NULL, &(lks_attention_opts){.heads = 2});
    x = lks_dense(graph, lks_global_avg_pool(graph, x), &(lks_dense_opts){.units = 7});
    return lks_nll(graph, lks_log_softmax(graph, x),
                   lks_target(graph, &(lks_target_opts){.classes = 7}));
}

/* Each of its two products has two gradients. */
static void products_of_data_are_counted_twice(void **state)
{
    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        const double once = 2.0 * 2 * 2 * 2 * 120 * 120 * (16 + 16 + 12);
        session s;
        open_session(&s, lkt_backends()[b]->name, one_attention, (lks_model_opts){.workers = 2},
                     NULL);
        LKT_OK(lks_profile_start(s.model));
        steps(&s, 3);
        const int attention = stage_of(s.model, "attention");
        assert_true(row_of(s.model, attention, "forward").flops == once);
        assert_true(row_of(s.model, attention, "backward").flops == 2 * once);
        close_session(&s);
    }
}

/* The gradient is read, the parameter and each of the optimizer's arrays read and written. */
static void updates_move_state_both_ways(void **state)
{
    (void)state;
    const lks_optim optims[] = {lks_sgd(0), lks_sgd(0.9), lks_adam()};
    for (int states = 0; states < 3; states++) {
        session s;
        open_session(&s, NULL, one_dense, (lks_model_opts){.workers = 2, .optim = optims[states]},
                     NULL);
        LKT_OK(lks_profile_start(s.model));
        steps(&s, 2);
        const lks_profile_row row = row_of(s.model, stage_of(s.model, "dense"), "update");
        assert_true(row.bytes == (3.0 + 2 * states) * 2 * 4 * (360 * 7 + 7));
        close_session(&s);
    }
}

static void profiled_steps_allocate_nothing(void **state)
{
    (void)state;
    lkt_heap heap = {0};
    session s;
    open_session(&s, NULL, lkt_net_conv, (lks_model_opts){.workers = 3, .hash_every = 2}, &heap);
    for (int n = 1;; n++) { /* the n-th allocation of a start fails */
        heap.fail_at = heap.allocations + n;
        const lks_status status = lks_profile_start(s.model);
        if (heap.allocations < heap.fail_at) {
            LKT_OK(status);
            assert_true(n > 3);
            break;
        }
        assert_int_equal(status, LKS_E_NOMEM);
        assert_int_equal(lks_profile_total(s.model).rows, 0);
        steps(&s, 1);
    }
    const int64_t before = heap.allocations;
    steps(&s, 3);
    assert_int_equal(heap.allocations, before);
    assert_int_equal(lks_profile_total(s.model).steps, 3);
    close_session(&s);
    assert_int_equal(heap.live, 0);
    assert_int_equal(heap.errors, 0);
}

/* A step that is refused, or whose loss is not finite, is not counted. */
static void failed_steps_are_not_counted(void **state)
{
    (void)state;
    session s;
    open_session(&s, NULL, one_dense, (lks_model_opts){.workers = 2}, NULL);
    LKT_OK(lks_profile_start(s.model));
    const lks_batch none = {.x = s.images.x, .y = s.images.y};
    LKT_FAILS(LKS_E_INVALID, "the batch has 0 samples", lks_model_step(s.model, &none, 0.1, NULL));
    assert_int_equal(lks_profile_total(s.model).steps, 0);
    steps(&s, 1);
    assert_int_equal(lks_profile_total(s.model).steps, 1);
    close_session(&s);
}

static void the_peak_is_measured(void **state)
{
    (void)state;
    lks_context *context;
    double one, two;
    LKT_OK(lks_context_create(&context, &(lks_context_opts){.device = lkt_device(NULL)}));
    LKT_OK(lks_peak(&one, context, 1, 0.01));
    LKT_OK(lks_peak(&two, context, 2, 0.01));
    assert_true(one > 0 && isfinite(one) && two > 0 && isfinite(two));
    LKT_FAILS(LKS_E_INVALID, "0 workers", lks_peak(&one, context, 0, 0.01));
    lks_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_add_up_to_the_steps),
        cmocka_unit_test(kept_gradients_are_in_the_rows),
        cmocka_unit_test(a_profile_changes_no_bit),
        cmocka_unit_test(operations_are_counted),
        cmocka_unit_test(products_of_data_are_counted_twice),
        cmocka_unit_test(updates_move_state_both_ways),
        cmocka_unit_test(profiled_steps_allocate_nothing),
        cmocka_unit_test(failed_steps_are_not_counted),
        cmocka_unit_test(the_peak_is_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

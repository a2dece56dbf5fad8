/* lks_op_check: every operation on every backend is good, with all its gradients and passes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/tools.h>

#include "support/backends.h"
#include "support/ops.h"

static const double SECONDS = 1e-4;

static bool reported(const lks_op_report *report, const char *what)
{
    for (int i = 0; i < report->error_count; i++)
        if (strcmp(report->errors[i].what, what) == 0) return true;
    return false;
}

static void check_report(const lki_node *node, const lki_kernel *kernel,
                         const lks_op_report *report)
{
    char what[64];
    /* Where shapes decide, either all gradients are formed by rows or none is. */
    if (node->param_count > 0)
        snprintf(what, sizeof what, "gradient of %s by rows", node->param[0].suffix);
    const bool rows = kernel->no_rows != NULL ? reported(report, what) : kernel->rows != NULL;
    assert_true(reported(report, "output"));
    for (int i = 0; i < node->param_count; i++) {
        snprintf(what, sizeof what, "gradient of %s", node->param[i].suffix);
        assert_true(reported(report, what));
        snprintf(what, sizeof what, "gradient of %s by rows", node->param[i].suffix);
        assert_int_equal(reported(report, what), rows);
    }
    assert_int_equal(reported(report, "gradient of input 0"),
                     !lki_op_get(node->op)->stops_gradient && node->op != LKI_OP_EMBEDDING);
    assert_int_equal(reported(report, "statistics"), node->stats > 0);
    assert_int_equal(report->time_count, 1 + (kernel->backward != NULL) + rows);
    for (int i = 0; i < report->time_count; i++) {
        const lks_op_time *time = &report->times[i];
        assert_true(time->runs >= 5 && time->least >= 0);
        assert_true(time->least <= time->median && time->median <= time->most);
        assert_true(time->bytes > 0);
    }
    assert_true(report->peak > 0);
}

static void every_operation_is_good(void **state)
{
    lkt_random random = lkt_random_make("every_operation_is_good", 40);
    (void)state;
    for (int b = 0; lkt_registered()[b] != NULL; b++)
        for (int k = 0; k < 3 * LKI_OP_COUNT; k++) {
            const lki_op_id op = (lki_op_id)(k % LKI_OP_COUNT);
            lks_context *context;
            lks_graph *graph;
            lks_op_report report;
            if (lkt_kernel(lkt_registered()[b], op) == NULL) continue;
            LKT_OK(lks_context_create(&context,
                                      &(lks_context_opts){.device = lkt_registered()[b]->name}));
            LKT_OK(lks_graph_create(&graph, context));
            lks_tensor *x = lkt_random_input(graph, op, &random);
            lks_tensor *y = lkt_random_op(graph, op, x, false, &random);
            LKT_OK(lks_graph_status(graph));
            LKT_OK(lks_op_check(&report, context, y, 1 + k % 5, SECONDS));
            if (!report.good) {
                char line[300];
                fail_msg("%s: %s", lkt_registered()[b]->name,
                         lks_tensor_line(y, 1 + k % 5, line, sizeof line));
            }
            check_report(y->node,
                         lki_impl_alone(lkt_registered()[b], y->node, &(lki_switches){0})->kernel,
                         &report);
            lks_graph_destroy(graph);
            lks_context_destroy(context);
        }
}

/* With few positions and many units. */
static void recurrent_layers_are_good_by_rows(void **state)
{
    lks_tensor *(*const make[])(lks_graph * graph, lks_tensor * x,
                                const lks_recurrent_opts *opts) = {lks_rnn, lks_lstm, lks_gru};
    (void)state;
    for (int b = 0; lkt_registered()[b] != NULL; b++)
        for (int i = 0; i < 3; i++) {
            lks_context *context;
            lks_graph *graph;
            lks_op_report report;
            LKT_OK(lks_context_create(&context,
                                      &(lks_context_opts){.device = lkt_registered()[b]->name}));
            LKT_OK(lks_graph_create(&graph, context));
            lks_tensor *x = lks_input(graph, &(lks_input_opts){.shape = LKS_SHAPE(3, 21)});
            lks_tensor *y = make[i](graph, x, &(lks_recurrent_opts){.hidden = 37});
            LKT_OK(lks_graph_status(graph));
            const lki_kernel *kernel =
                lki_impl_alone(lkt_registered()[b], y->node, &(lki_switches){0})->kernel;
            LKT_OK(lks_op_check(&report, context, y, 5, SECONDS));
            assert_true(report.good);
            assert_int_equal(reported(&report, "gradient of bias_hh_l0 by rows"),
                             kernel->rows != NULL);
            check_report(y->node, kernel, &report);
            lks_graph_destroy(graph);
            lks_context_destroy(context);
        }
}

/* A row is the farthest element; the report is not good where one is outside. */
static void what_is_no_operation_is_refused(void **state)
{
    lks_context *context;
    lks_graph *graph;
    lks_op_report report;
    (void)state;
    LKT_OK(lks_context_create(&context, NULL));
    LKT_OK(lks_graph_create(&graph, context));
    lks_tensor *x = lks_input(graph, &(lks_input_opts){.name = "x", .shape = LKS_SHAPE(9)});
    LKT_FAILS(LKS_E_INVALID, "'x' is not computed", lks_op_check(&report, context, x, 1, SECONDS));
    lks_tensor *y = lks_relu(graph, x);
    LKT_FAILS(LKS_E_INVALID, "0 samples", lks_op_check(&report, context, y, 0, SECONDS));
    LKT_FAILS(LKS_E_INVALID, "9223372036854775807 samples",
              lks_op_check(&report, context, y, INT64_MAX, SECONDS));
    lks_graph_destroy(graph);
    lks_context_destroy(context);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    for (int64_t n = 1;; n++) {
        lkt_heap heap = {0};
        lks_context *context;
        lks_graph *graph;
        lks_op_report report;
        LKT_OK(lks_context_create(&context,
                                  &(lks_context_opts){.allocator = lkt_heap_allocator(&heap)}));
        LKT_OK(lks_graph_create(&graph, context));
        lks_tensor *x = lks_input(graph, &(lks_input_opts){.shape = LKS_SHAPE(6, 5, 4)});
        lks_tensor *y = lks_conv2d(graph, x, &(lks_conv2d_opts){.filters = 3, .kernel = {3, 3}});
        heap.fail_at = heap.allocations + n;
        const lks_status status = lks_op_check(&report, context, y, 2, SECONDS);
        const bool failed = heap.allocations >= heap.fail_at;
        assert_int_equal(status, failed ? LKS_E_NOMEM : LKS_OK);
        lks_graph_destroy(graph);
        lks_context_destroy(context);
        assert_int_equal(heap.live, 0);
        assert_int_equal(heap.errors, 0);
        if (!failed) {
            assert_true(n > 20);
            return;
        }
    }
}

/* One chain of fused multiply-adds, or blocks of 64 with a sum in double. */
static float add_up(const float *x, const float *w, int64_t count, bool blocks)
{
    double total = 0;
    float sum = 0;
    for (int64_t k = 0; k < count; k++) {
        sum = fmaf(x[k], w[k], sum);
        if (!blocks || k % 64 != 63) continue;
        total += (double)sum;
        sum = 0;
    }
    return (float)(total + (double)sum);
}

/* On positive numbers the bounds are near enough to see what a long sum in one chain loses. */
static void a_sum_without_blocks_is_seen(void **state)
{
    enum { TERMS = 10000, UNITS = 16 };
    lkt_random random = lkt_random_make("a_sum_without_blocks_is_seen", 41);
    double share[2] = {0};
    lkt_result ref;
    lkt_bounds bound;
    lkt_case c;
    (void)state;
    lkt_case_begin(&c);
    lks_tensor *x = lks_input(c.graph, &(lks_input_opts){.shape = LKS_SHAPE(TERMS)});
    lks_tensor *y = lks_dense(c.graph, x, &(lks_dense_opts){.units = UNITS, .no_bias = true});
    lkt_case_end(&c, y, y, 1, LKT_RANDOM, &random);
    for (int i = 0; i < TERMS; i++) ((float *)c.in[0])[i] = fabsf(((float *)c.in[0])[i]);
    for (int i = 0; i < TERMS * UNITS; i++) c.param[0][i] = fabsf(c.param[0][i]);
    lkt_run(&c, lkt_ref(), NULL, NULL, &ref);
    lkt_bounds_make(&c, NULL, &ref, &bound);
    for (int u = 0; u < UNITS; u++)
        for (int blocks = 0; blocks < 2; blocks++) {
            const float sum = add_up(c.in[0], c.param[0] + u * TERMS, TERMS, blocks);
            const double error = fabs((double)sum - (double)ref.out[u]);
            share[blocks] = fmax(share[blocks], error / bound.out[u]);
        }
    print_message("in one chain %.2g of the bound, in blocks %.2g\n", share[0], share[1]);
    assert_true(share[0] > 2);
    assert_true(share[1] < 0.5);
    lkt_case_free(&c);
}

static void lines_are_printed(void **state)
{
    lks_context *context;
    lks_graph *graph;
    char line[200];
    (void)state;
    LKT_OK(lks_context_create(&context, NULL));
    LKT_OK(lks_graph_create(&graph, context));
    lks_tensor *x = lks_input(graph,
                              &(lks_input_opts){.shape = LKS_SHAPE(8, 6, 4), .dtype = LKS_U8});
    x = lks_normalize(graph, x, &(lks_normalize_opts){.count = 1, .std = (float[]){0.5f}});
    assert_string_equal(lks_tensor_line(x, 3, line, sizeof line),
                        "normalize mean=0 std=0.5 in=3x8x6x4:u8");
    lks_tensor *y = lks_conv2d(graph, x,
                               &(lks_conv2d_opts){.filters = 2, .kernel = {1, 1}, .no_bias = true});
    assert_string_equal(lks_tensor_line(y, 0, line, sizeof line),
                        "conv2d filters=2 kernel=1x1 no_bias");
    assert_string_equal(lks_tensor_line(lks_concat(graph, x, y), 5, line, sizeof line),
                        "concat in=5x8x6x4 with=8x6x2");
    assert_string_equal(
        lks_tensor_line(lks_add(graph, y, lks_relu(graph, y)), 5, line, sizeof line),
        "add in=5x8x6x2");
    assert_string_equal(lks_tensor_line(x, 3, line, 10), "normalize");
    /* As many digits as it takes to read the same number back. */
    lks_tensor *leaky = lks_leaky_relu(graph, y, &(lks_leaky_relu_opts){.slope = 0.123456789f});
    const char *slope = strstr(lks_tensor_line(leaky, 1, line, sizeof line), "slope=");
    assert_non_null(slope);
    assert_true(strtof(slope + 6, NULL) == 0.123456789f);
    lks_graph_destroy(graph);
    lks_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_is_good),
        cmocka_unit_test(a_sum_without_blocks_is_seen),
        cmocka_unit_test(recurrent_layers_are_good_by_rows),
        cmocka_unit_test(what_is_no_operation_is_refused),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(lines_are_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

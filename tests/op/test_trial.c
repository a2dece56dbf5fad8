/*
 * Kernels that break a promise, and trials and reports that say so. The linker puts a function of this
 * file in the place of lki_backend_find() (tests.cmake).
 */
#include <math.h>
#include <string.h>

#include <lockstep/tools.h>

#include "support/backends.h"
#include "support/ops.h"

enum { INPUTS = 5, UNITS = 3, SAMPLES = 6, SCRATCH = 64 };

/* ---------------------------------------------------------------- dense, but wrong */

typedef enum wrong {
    RIGHT,
    BEHIND_OUT, /* writes behind its output: the first byte, */
    FAR_BEHIND, /* the last byte of what is checked */
    INPUT,      /* changes what it reads */
    PARAMETER,
    OUT_GRADIENT,
    EARLY,  /* writes the bias's gradient before the last samples */
    OUTPUT, /* the last element is wrong by `by`, */
    D_IN,   /* or the first of the input's gradient, */
    D_BIAS, /* or of the bias's, */
    ROWS,   /* or of the weight's, where it is formed by rows */
    FAILS,
} wrong;

static wrong what;
static double by;
static const lki_kernel *right; /* what it is otherwise */
static int plans, releases, forwards, backwards;
static size_t needs_more; /* bytes of packed parameters */

static float *writable(const float *pointer)
{
    return (float *)(uintptr_t)pointer;
}

static lks_status plan_dense(lki_plan *plan)
{
    plans++;
    const lks_status status = right->plan(plan);
    if (plan->needs.workspace_bytes < SCRATCH) plan->needs.workspace_bytes = SCRATCH;
    plan->needs.sums_bytes = SCRATCH;
    plan->needs.reads &= ~(unsigned)LKI_READS_OUT;
    plan->needs.packed_bytes += needs_more;
    return status;
}

static void release_dense(lki_plan *plan)
{
    releases++;
    if (right->release != NULL) right->release(plan);
}

static lks_status forward_dense(const lki_plan *plan, const lki_args *args)
{
    if (what == FAILS) return LKS_E_NUMERIC;
    forwards++;
    for (int i = 0; i < SCRATCH; i++)
        if (((const uint8_t *)args->workspace)[i] != 0xff) forwards += 1000;
    const lks_status status = right->forward(plan, args);
    float *end = (float *)args->out + args->count * UNITS;
    memset(args->workspace, 1, SCRATCH);
    if (what == BEHIND_OUT && args->last) ((char *)end)[0] = 1;
    if (what == FAR_BEHIND && args->last) ((char *)end)[63] = 1;
    if (what == INPUT) writable(args->in[0])[0] += 1;
    if (what == PARAMETER) writable(args->param[1])[UNITS - 1] += 1;
    if (what == OUTPUT && args->last) end[-1] += (float)by;
    return status;
}

static lks_status backward_dense(const lki_plan *plan, const lki_args *args)
{
    lki_args own = *args;
    backwards++;
    if (args->out != NULL) backwards += 1000; /* nobody asked for it */
    for (int i = 0; i < SCRATCH; i++)
        if (((const uint8_t *)args->workspace)[i] != 0xff ||
            (args->sample == 0 && ((const uint8_t *)args->sums)[i] != 0xff))
            backwards += 1000;
    memset(args->workspace, 1, SCRATCH);
    for (int i = 0; i < 2 && !args->last; i++) own.d_param[i] = NULL;
    const lks_status status = right->backward(plan, &own);
    if (what == EARLY && args->d_param[1] != NULL) args->d_param[1][UNITS - 1] = 1;
    if (what == OUT_GRADIENT) writable(args->d_out)[0] += 1;
    if (what == D_IN && args->d_in[0] != NULL) args->d_in[0][0] += (float)by;
    if (what == D_BIAS && args->d_param[1] != NULL) args->d_param[1][0] += (float)by;
    return status;
}

/* Sums over all samples, in double. */
static void rows_dense(const lki_plan *plan, const lki_rows *rows)
{
    float weight[UNITS * INPUTS], bias[UNITS];
    const lki_tree_node all = {.lo = 0, .hi = 1};
    (void)plan;
    assert_int_equal(rows->replicas, 1);
    assert_int_equal(rows->first, 0);
    assert_int_equal(rows->last, 1);
    assert_int_equal(rows->row_first, 0);
    assert_int_equal(rows->row_count, UNITS);
    for (int u = 0; u < UNITS; u++) {
        double sum = 0;
        for (int64_t n = rows->start[0]; n < rows->start[1]; n++)
            sum += (double)rows->d_out[n * UNITS + u];
        bias[u] = (float)sum;
        for (int i = 0; i < INPUTS; i++) {
            sum = 0;
            for (int64_t n = rows->start[0]; n < rows->start[1]; n++)
                sum += (double)rows->d_out[n * UNITS + u] * (double)rows->in[n * INPUTS + i];
            weight[u * INPUTS + i] = (float)sum;
        }
    }
    if (what == ROWS) weight[UNITS * INPUTS - 1] += (float)by;
    rows->sum(rows->user, all, 0, 0, INPUTS, weight);
    rows->sum(rows->user, all, 0, INPUTS, (UNITS - 1) * INPUTS, weight + INPUTS);
    rows->sum(rows->user, all, 1, 0, UNITS, bias);
}

static lki_kernel dense;

static const lki_kernel *make_dense(lki_span span, bool rows)
{
    right = lkt_kernel(lkt_ref(), LKI_OP_DENSE);
    dense = *right;
    dense.span = span;
    dense.plan = plan_dense;
    dense.release = release_dense;
    dense.forward = forward_dense;
    dense.backward = backward_dense;
    dense.rows = rows ? rows_dense : NULL;
    plans = releases = forwards = backwards = 0;
    needs_more = 0;
    what = RIGHT;
    by = 0;
    return &dense;
}

/* While it is staged, the device that is not ref has no other kernel. */
static bool staged;

const lki_backend *__real_lki_backend_find(const char *name);
const lki_backend *__wrap_lki_backend_find(const char *name);
const lki_backend *__wrap_lki_backend_find(const char *name)
{
    static lki_impl impl;
    static const lki_impl *const impls[] = {&impl, NULL};
    static lki_backend wrong_one;
    const lki_backend *found = __real_lki_backend_find(name);
    if (!staged || strcmp(name, "ref") == 0) return found;
    wrong_one = *found;
    impl = (lki_impl){
        .name = "wrong", .pattern = {{.ops = LKI_OPS(DENSE)}}, .count = 1, .kernel = &dense};
    wrong_one.impl = impls;
    return &wrong_one;
}

/* ---------------------------------------------------------------- trials */

static lks_status try_once(lkt_case *c, const lkt_how *how, lkt_result *out)
{
    return lki_trial_run(c, lkt_ref(), &dense, how, out);
}

static void make_case(lkt_case *c)
{
    lkt_random random = {.state = 5};
    lkt_case_begin(c);
    lks_tensor *x = lks_input(c->graph, &(lks_input_opts){.shape = LKS_SHAPE(INPUTS)});
    lks_tensor *y = lks_dense(c->graph, x, &(lks_dense_opts){.units = UNITS});
    lkt_case_end(c, y, y, SAMPLES, LKT_RANDOM, &random);
    c->position = 40;
}

static void broken_promises_are_named(void **state)
{
    static const struct {
        wrong what;
        const char *text;
    } cases[] = {{BEHIND_OUT, "a kernel wrote past the end of an array; please report it"},
                 {FAR_BEHIND, "wrote past the end of an array"},
                 {INPUT, "dense units=3, input 5, 6 samples from 40: a kernel changed an input"},
                 {PARAMETER, "changed an input"},
                 {OUT_GRADIENT, "changed an input"},
                 {EARLY, "wrote the gradient of a parameter before the last samples"}};
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        lkt_result result;
        lkt_case c;
        make_dense(LKI_SPAN_SLICE, false);
        make_case(&c);
        LKT_OK(try_once(&c, NULL, &result));
        what = cases[k].what;
        LKT_FAILS(LKS_E_BUG, cases[k].text, try_once(&c, NULL, &result));
        assert_int_equal(plans, 2);
        assert_int_equal(releases, 2);
        lkt_case_free(&c);
    }
}

/* Scratch is spoilt before every call, and what backward did not ask for is not there. Pieces are powers
 * of two. */
static void scratch_is_spoilt(void **state)
{
    (void)state;
    lkt_result result;
    lkt_case c;
    make_dense(LKI_SPAN_SLICE, false);
    make_case(&c);
    LKT_OK(try_once(&c, NULL, &result)); /* 4 and 2 samples */
    assert_int_equal(forwards, 2);
    assert_int_equal(backwards, 2);
    LKT_OK(try_once(&c, &(lkt_how){.slice = 2}, &result));
    assert_int_equal(forwards, 2 + 3);
    assert_int_equal(backwards, 2 + 3);
    LKT_OK(try_once(&c, &(lkt_how){.no_backward = true}, &result));
    assert_int_equal(backwards, 2 + 3);
    assert_null(result.d_in[0]);
    assert_null(result.d_param[0]);
    make_dense(LKI_SPAN_SHARE, false); /* takes them together, whatever is asked */
    LKT_OK(try_once(&c, &(lkt_how){.slice = 2}, &result));
    assert_int_equal(forwards, 1);
    c.training = false;
    LKT_OK(try_once(&c, NULL, &result));
    assert_int_equal(forwards, 2);
    assert_int_equal(backwards, 1);
    lkt_case_free(&c);
}

static void failures_come_back(void **state)
{
    (void)state;
    lkt_result result;
    lkt_case c;
    make_dense(LKI_SPAN_SLICE, false);
    make_case(&c);
    what = FAILS;
    assert_int_equal(try_once(&c, NULL, &result), LKS_E_NUMERIC);
    assert_int_equal(releases, 1);
    make_dense(LKI_SPAN_SLICE, false);
    needs_more = (size_t)PTRDIFF_MAX + 1;
    LKT_FAILS(LKS_E_SHAPE, "dense 'dense_1': with these sizes its kernel needs more memory",
              try_once(&c, NULL, &result));
    assert_int_equal(releases, 1);
    needs_more--; /* could be addressed, but is not there */
    LKT_FAILS(LKS_E_NOMEM, "a trial's tensors", try_once(&c, NULL, &result));
    lkt_case_free(&c);
}

/* A chain is described with what it reads; text that does not fit is cut. */
static void chains_are_described(void **state)
{
    lkt_random random = {.state = 6};
    char text[200];
    lkt_case c;
    (void)state;
    lkt_case_begin(&c);
    lks_tensor *x = lks_input(c.graph, &(lks_input_opts){.shape = LKS_SHAPE(7, 6, 2)});
    lks_tensor *first = lks_conv2d(c.graph, x, &(lks_conv2d_opts){.filters = 3, .kernel = {1, 1}});
    lkt_case_end(&c, first, lks_relu(c.graph, first), 4, LKT_RANDOM, &random);
    c.position = 9;
    const char *whole = "conv2d filters=3 kernel=1x1 | relu, input 7x6x2, 4 samples from 9";
    assert_string_equal(lki_trial_describe(&c, text, sizeof text), whole);
    for (size_t size = 1; size <= strlen(whole); size++) {
        memset(text, '#', sizeof text);
        assert_ptr_equal(lki_trial_describe(&c, text, size), text);
        assert_true(strlen(text) < size && strncmp(text, whole, strlen(text)) == 0);
        assert_int_equal(text[size], '#');
    }
    lkt_case_free(&c);
}

/* ---------------------------------------------------------------- reports */

typedef struct session {
    lks_context *context;
    lks_graph *graph;
    lks_tensor *y;
} session;

static void open_session(session *s)
{
    LKT_OK(lks_context_create(&s->context, NULL));
    LKT_OK(lks_graph_create(&s->graph, s->context));
    lks_tensor *x = lks_input(s->graph, &(lks_input_opts){.shape = LKS_SHAPE(INPUTS)});
    s->y = lks_dense(s->graph, x, &(lks_dense_opts){.units = UNITS});
    LKT_OK(lks_graph_status(s->graph));
    staged = true;
}

static void close_session(session *s)
{
    staged = false;
    lks_graph_destroy(s->graph);
    lks_context_destroy(s->context);
}

/* A row is the farthest element, and what is outside of its bound is not good. */
static void what_is_wrong_is_reported(void **state)
{
    static const char *const rows[] = {
        "output",           "gradient of input 0",        "gradient of weight",
        "gradient of bias", "gradient of weight by rows", "gradient of bias by rows"};
    static const struct {
        wrong what;
        int row;
    } cases[] = {{RIGHT, -1}, {OUTPUT, 0}, {D_IN, 1}, {D_BIAS, 3}, {ROWS, 4}};
    session s;
    (void)state;
    if (strcmp(lki_backends[0]->name, "ref") == 0) skip();
    open_session(&s);
    for (size_t k = 0; k < 2 * sizeof cases / sizeof *cases; k++) {
        lks_op_report report;
        make_dense(LKI_SPAN_JOINT, true);
        what = cases[k / 2].what;
        by = k % 2 == 0 ? 0.25 : (double)NAN;
        LKT_OK(lks_op_check(&report, s.context, s.y, SAMPLES, 1e-9));
        assert_int_equal(report.error_count, 6);
        assert_int_equal(report.slice, SAMPLES);
        for (int i = 0; i < 6; i++) {
            const lks_op_error *row = &report.errors[i];
            assert_string_equal(row->what, rows[i]);
            if (i != cases[k / 2].row) { /* ref's own loops */
                assert_true(row->share <= 1);
                continue;
            }
            assert_true(row->share > 1);
            if (k % 2 == 1) {
                assert_true(isinf(row->share) && isnan(row->error));
                continue;
            }
            assert_true(fabs(row->error - 0.25) < 1e-5);
            assert_true(row->bound > 0 && row->bound < 1e-4);
            assert_true(row->share == row->error / row->bound);
        }
        assert_int_equal(report.good, cases[k / 2].what == RIGHT);
        assert_true(forwards > 1000 && backwards > 1000); /* what is timed is not spoilt */
        assert_true(report.peak > 0);
        for (int i = 0; i < 3; i++) /* seconds */
            assert_true(report.times[i].least > 0 && report.times[i].most < 60);
        assert_int_equal(report.time_count, 3);
        assert_string_equal(report.times[0].pass, "forward");
        assert_string_equal(report.times[1].pass, "backward");
        assert_string_equal(report.times[2].pass, "rows");
        for (int t = 0; t < 3; t++) {
            assert_int_equal(report.times[t].runs, 5); /* at least so many, whatever the seconds */
            assert_true(report.times[t].flops == 2.0 * SAMPLES * INPUTS * UNITS);
        }
        assert_int_equal(releases, plans);
    }
    close_session(&s);
}

/* Bytes of a pass: what is read and written at least. */
static void costs_are_counted(void **state)
{
    const double in = 4.0 * SAMPLES * INPUTS, out = 4.0 * SAMPLES * UNITS;
    const double parameters = 4.0 * (INPUTS * UNITS + UNITS);
    session s;
    (void)state;
    if (strcmp(lki_backends[0]->name, "ref") == 0) skip();
    open_session(&s);
    for (int rows = 0; rows < 2; rows++) {
        lks_op_report report;
        make_dense(rows ? LKI_SPAN_JOINT : LKI_SPAN_SLICE, rows != 0);
        LKT_OK(lks_op_check(&report, s.context, s.y, SAMPLES, 1e-9));
        const lks_op_time *back = &report.times[1];
        assert_true(report.times[0].bytes == in + out + parameters);
        /* The gradients of output and input; and, by replica, the input and the parameters' twice. */
        assert_true(back->flops == 2.0 * SAMPLES * INPUTS * UNITS * (rows ? 1 : 2));
        assert_true(back->bytes == out + in + in + parameters * (rows ? 1 : 2));
        if (rows) assert_true(report.times[2].bytes == in + out);
        assert_int_equal(report.slice, rows ? SAMPLES : 64);
        assert_int_equal(report.error_count, rows ? 6 : 4);
    }
    close_session(&s);
}

static void what_a_device_lacks_is_said(void **state)
{
    session s;
    lks_op_report report;
    (void)state;
    if (strcmp(lki_backends[0]->name, "ref") == 0) skip();
    open_session(&s);
    make_dense(LKI_SPAN_SLICE, false);
    what = FAILS;
    assert_int_equal(lks_op_check(&report, s.context, s.y, SAMPLES, 1e-9), LKS_E_NUMERIC);
    assert_false(report.good);
    assert_int_equal(releases, plans);
    close_session(&s);
}

/* Whichever allocation fails, every plan that was made is released, once. */
static void plans_are_released_once(void **state)
{
    (void)state;
    if (strcmp(lki_backends[0]->name, "ref") == 0) skip();
    for (int64_t n = 1;; n++) {
        lkt_heap heap = {0};
        lks_op_report report;
        session s = {0};
        LKT_OK(lks_context_create(&s.context,
                                  &(lks_context_opts){.allocator = lkt_heap_allocator(&heap)}));
        LKT_OK(lks_graph_create(&s.graph, s.context));
        lks_tensor *x = lks_input(s.graph, &(lks_input_opts){.shape = LKS_SHAPE(INPUTS)});
        s.y = lks_dense(s.graph, x, &(lks_dense_opts){.units = UNITS});
        staged = true;
        make_dense(LKI_SPAN_SLICE, false);
        heap.fail_at = heap.allocations + n;
        const lks_status status = lks_op_check(&report, s.context, s.y, SAMPLES, 1e-9);
        const bool failed = heap.allocations >= heap.fail_at;
        assert_int_equal(status, failed ? LKS_E_NOMEM : LKS_OK);
        assert_int_equal(releases, plans);
        close_session(&s);
        assert_int_equal(heap.live, 0);
        if (!failed) break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_promises_are_named),   cmocka_unit_test(scratch_is_spoilt),
        cmocka_unit_test(failures_come_back),          cmocka_unit_test(chains_are_described),
        cmocka_unit_test(what_is_wrong_is_reported),   cmocka_unit_test(costs_are_counted),
        cmocka_unit_test(what_a_device_lacks_is_said), cmocka_unit_test(plans_are_released_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

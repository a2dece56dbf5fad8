/* One operation alone: how far a device is from ref, and how long it takes. */
#include <lockstep/tools.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/float.h"
#include "check/trial_memory.h"
#include "machine/peak.h"
#include "numeric/random.h"
#include "op/common.h"
#include "program/cost.h"
#include "program/program.h"

enum { MOST_TIMES = 2000, LEAST_TIMES = 5 };

/* What an operation is tried on. Sums of zero-mean numbers stay small and hide what their parts lose:
 * those of positive ones grow with every term. */
typedef enum numbers {
    POSITIVE,  /* in [0, 1) */
    ZERO_MEAN, /* in [-1, 1) */
} numbers;

/* Numbers in [-1, 1), another stream for each role. */
static lks_status check_op_draw(lki_trial *t, float **out, const char *role, int64_t count)
{
    void *memory;
    LKI_TRY(lki_trial_memory(t, &memory, (size_t)count * sizeof(float)));
    *out = memory;
    lki_random_uniform(lki_random_key(t->key, "op", role), count, *out);
    return LKS_OK;
}

static lks_status draw_numbers(lki_trial *t, float **out, const char *role, int64_t count,
                               numbers which)
{
    LKI_TRY(check_op_draw(t, out, role, count));
    for (int64_t e = 0; which == POSITIVE && e < count; e++) (*out)[e] = ((*out)[e] + 1.0f) / 2.0f;
    return LKS_OK;
}

static int64_t whole_number(float uniform, int64_t below)
{
    const int64_t number = (int64_t)((double)(uniform + 1.0f) / 2.0 * (double)below);
    return number < below ? number : below - 1;
}

/* Of tokens and classes: how many there are. */
static int64_t kinds_of(const lks_tensor *tensor)
{
    const lki_node *node = tensor->node;
    return node->op == LKI_OP_TARGET ? ((const lks_target_opts *)node->attr)->classes
                                     : lki_vocabulary_of(tensor);
}

static lks_status fill_input(lki_trial *t, int i, numbers which)
{
    static const char *const roles[LKI_MAX_IN] = {"in 0", "in 1"};
    const lks_tensor *tensor = lki_trial_first(t)->in[i];
    const int64_t count = lki_trial_in_elements(t, i);
    const bool floats = tensor->dtype == LKS_F32;
    float *values;
    void *memory;
    LKI_TRY(draw_numbers(t, &values, roles[i], count, floats ? which : ZERO_MEAN));
    t->in[i] = values;
    if (floats) return LKS_OK;
    LKI_TRY(lki_trial_memory(t, &memory, (size_t)count * lks_dtype_size(tensor->dtype)));
    t->in[i] = memory;
    for (int64_t e = 0; e < count; e++) {
        if (tensor->dtype == LKS_U8)
            ((uint8_t *)memory)[e] = (uint8_t)whole_number(values[e], 256);
        else
            ((int32_t *)memory)[e] = (int32_t)whole_number(values[e], kinds_of(tensor));
    }
    return LKS_OK;
}

/* Running statistics between 0.5 and 2; counters zero. */
static lks_status fill_buffer(lki_trial *t, int i)
{
    const lki_buffer *buffer = &lki_trial_first(t)->buffer[i];
    const int64_t count = lks_shape_elements(&buffer->shape);
    float *values;
    void *memory;
    LKI_TRY(check_op_draw(t, &values, buffer->suffix, count));
    for (int64_t e = 0; e < count; e++) values[e] = 1.25f + 0.75f * values[e];
    t->buffer[i] = values;
    if (buffer->dtype == LKS_F32) return LKS_OK;
    LKI_TRY(lki_trial_memory(t, &memory, (size_t)count * lks_dtype_size(buffer->dtype)));
    memset(memory, 0, (size_t)count * lks_dtype_size(buffer->dtype));
    t->buffer[i] = memory;
    return LKS_OK;
}

static lks_status check_op_fill(lki_trial *t, numbers which)
{
    const lki_node *node = lki_trial_first(t);
    for (int i = 0; i < node->in_count; i++) LKI_TRY(fill_input(t, i, which));
    for (int i = 0; i < node->param_count; i++)
        LKI_TRY(draw_numbers(t, &t->param[i], node->param[i].suffix, lki_trial_param_elements(t, i),
                             which));
    for (int i = 0; i < node->buffer_count; i++) LKI_TRY(fill_buffer(t, i));
    return draw_numbers(t, &t->d_out, "d_out", lki_trial_out_elements(t), which);
}

/* Keeps the element that is the farthest in units of its bound. */
static void check_op_look(lks_op_error *found, double value, double expected, double bound)
{
    const double error = fabs(value - expected);
    const double share = error == 0 ? 0 : error / bound; /* infinite where the bound is 0 */
    if (share <= found->share) return;                   /* a NaN goes on */
    found->share = isnan(share) ? (double)INFINITY : share;
    found->error = error;
    found->bound = bound;
}

/* The row of a tensor, which is the same for all numbers that are tried. */
static lks_op_error *find_error(lks_op_report *out, const char *format, const char *name,
                                int number)
{
    lks_op_error row = {0};
    snprintf(row.what, sizeof row.what, format, name, number);
    for (int i = 0; i < out->error_count; i++)
        if (strcmp(out->errors[i].what, row.what) == 0) return &out->errors[i];
    out->errors[out->error_count] = row;
    return &out->errors[out->error_count++];
}

static void check_op_compare(lks_op_report *out, const char *format, const char *name, int number,
                             const float *found, const float *expected, const double *bound,
                             int64_t count)
{
    lks_op_error *row = find_error(out, format, name, number);
    for (int64_t i = 0; i < count; i++)
        check_op_look(row, (double)found[i], (double)expected[i], bound[i]);
}

static void compare_all(const lki_trial *t, const lki_trial_result *found,
                        const lki_trial_result *expected, const lki_bounds *bound,
                        lks_op_report *out)
{
    const lki_node *node = lki_trial_first(t);
    check_op_compare(out, "%s", "output", 0, found->out, expected->out, bound->out,
                     lki_trial_out_elements(t));
    for (int i = 0; i < LKI_MAX_IN; i++)
        if (expected->d_in[i] != NULL)
            check_op_compare(out, "%s %d", "gradient of input", i, found->d_in[i],
                             expected->d_in[i], bound->d_in[i], lki_trial_in_elements(t, i));
    for (int i = 0; i < node->param_count; i++)
        check_op_compare(out, "gradient of %s", node->param[i].suffix, 0, found->d_param[i],
                         expected->d_param[i], bound->d_param[i], lki_trial_param_elements(t, i));
    if (found->stats == NULL) return;
    lks_op_error *row = find_error(out, "%s", "statistics", 0);
    for (int64_t i = 0; i < node->stats; i++)
        check_op_look(row, found->stats[i], expected->stats[i], bound->stats[i]);
}

/* Where a gradient by rows is kept. */
typedef struct keeper {
    const lki_trial *trial;
    const lki_trial_result *result;
} keeper;

static void keep_sums(void *user, lki_tree_node node, int slot, int64_t first, int64_t count,
                      const float *sums)
{
    const keeper *to = user;
    (void)node;
    to->trial->memory->copy_out(to->result->d_param[slot] + first, sums,
                                (size_t)count * sizeof(float));
}

static void run_rows(const lki_trial *t, const lki_trial_stage *stage,
                     const lki_trial_result *result)
{
    keeper to = {.trial = t, .result = result};
    const int64_t start[2] = {0, t->count};
    lki_rows rows = {.in = lki_trial_there(t, t->in[0]),
                     .d_out = lki_trial_there(t, t->d_out),
                     .start = start,
                     .replicas = 1,
                     .last = 1,
                     .row_count = lki_trial_first(t)->param[0].shape.dim[0],
                     .workspace = lki_trial_there(t, stage->workspace),
                     .sum = keep_sums,
                     .user = &to};
    for (int i = 0; i < LKI_MAX_FACTORS; i++) rows.factor[i] = lki_trial_there(t, stage->factor[i]);
    stage->plan->kernel->rows(stage->plan, &rows);
}

/* The kernel as a model would run it, with all that it needs. */
typedef struct bench {
    lki_trial *trial;
    lki_trial_stage stage;
    lki_trial_tensors tensors;
    lki_trial_result result;
    double seconds;
    double time[MOST_TIMES];
} bench;

static lks_status run_pass(bench *b, lki_phase pass)
{
    if (pass == LKI_PHASE_FORWARD)
        return lki_trial_forward(b->trial, &b->stage, &b->tensors, false);
    if (pass == LKI_PHASE_BACKWARD)
        return lki_trial_backward(b->trial, &b->stage, &b->tensors, false);
    run_rows(b->trial, &b->stage, &b->result);
    return LKS_OK;
}

static int check_op_ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static lks_status time_pass(bench *b, lki_phase pass, const char *name, lks_op_report *out)
{
    const lki_plan *plan = b->stage.plan;
    const int64_t begin = lki_laps_clock();
    int times = 0;
    LKI_TRY(run_pass(b, pass)); /* warms the caches */
    do {
        const int64_t now = lki_laps_clock();
        LKI_TRY(run_pass(b, pass));
        b->time[times++] = 1e-9 * (double)(lki_laps_clock() - now);
    } while (times < MOST_TIMES &&
             (times < LEAST_TIMES || 1e-9 * (double)(lki_laps_clock() - begin) < b->seconds));
    qsort(b->time, (size_t)times, sizeof b->time[0], check_op_ascending);
    const lki_cost cost = lki_cost_of(plan, pass, b->trial->count, 1);
    out->times[out->time_count++] = (lks_op_time){.pass = name,
                                                  .runs = times,
                                                  .median = b->time[times / 2],
                                                  .least = b->time[0],
                                                  .most = b->time[times - 1],
                                                  .flops = cost.flops,
                                                  .bytes = cost.bytes};
    return LKS_OK;
}

static void fill_tensors(bench *b)
{
    const lki_trial *t = b->trial;
    const bool by_rows = b->stage.plan->by_rows;
    for (int i = 0; i < LKI_MAX_IN; i++) {
        b->tensors.in[i] = t->in[i];
        b->tensors.d_in[i] = b->result.d_in[i];
    }
    b->tensors.out = b->result.out;
    b->tensors.d_out = t->d_out;
    b->tensors.stats = b->result.stats;
    for (int p = 0; p < LKI_MAX_PARAM && !by_rows; p++)
        b->tensors.d_param[p] = b->result.d_param[p];
}

static lks_status open_stage(bench *b, const lki_kernel *kernel, int64_t slice)
{
    b->trial->by_rows = true; /* but of what runs whole */
    const lks_status status = lki_trial_stage_open(b->trial, kernel, &b->trial->cluster, slice, 0,
                                                   &b->stage);
    b->trial->by_rows = false;
    LKI_TRY(status);
    fill_tensors(b);
    return LKS_OK;
}

/* Where a gradient can be formed by rows, its error. Rows may read what backward has left. */
static lks_status check_rows(bench *b, const lki_trial_result *ref, const lki_bounds *bound,
                             lks_op_report *out)
{
    const lki_node *node = lki_trial_first(b->trial);
    if (!b->stage.plan->by_rows) return LKS_OK;
    LKI_TRY(run_pass(b, LKI_PHASE_FORWARD));
    LKI_TRY(run_pass(b, LKI_PHASE_BACKWARD));
    LKI_TRY(run_pass(b, LKI_PHASE_ROWS));
    for (int i = 0; i < node->param_count; i++)
        check_op_compare(out, "gradient of %s by rows", node->param[i].suffix, 0,
                         b->result.d_param[i], ref->d_param[i], bound->d_param[i],
                         lki_trial_param_elements(b->trial, i));
    return LKS_OK;
}

/* The errors on such numbers; leaves the stage open. */
static lks_status check_op_check(bench *b, const lki_backend *backend, const lki_kernel *kernel,
                                 numbers which, lks_op_report *out)
{
    lki_trial *t = b->trial;
    lki_trial_result expected;
    lki_bounds bound;
    LKI_TRY(check_op_fill(t, which));
    LKI_TRY(lki_trial_run(t, backend, NULL, NULL, &b->result));
    LKI_TRY(lki_trial_run(t, lki_backend_find("ref"), NULL, NULL, &expected));
    LKI_TRY(lki_bounds_make(t, NULL, &expected, &bound));
    compare_all(t, &b->result, &expected, &bound, out);
    t->memory = backend->memory; /* behind ref */
    const unsigned saved = lki_float_enter();
    lks_status status = open_stage(b, kernel, out->slice);
    if (status == LKS_OK) status = check_rows(b, &expected, &bound, out);
    lki_float_leave(saved);
    return status;
}

static lks_status time_passes(bench *b, lks_op_report *out)
{
    const lki_plan *plan = b->stage.plan;
    snprintf(out->algorithm, sizeof out->algorithm, "%s", plan->needs.algorithm);
    LKI_TRY(time_pass(b, LKI_PHASE_FORWARD, "forward", out));
    if (plan->kernel->backward != NULL) LKI_TRY(time_pass(b, LKI_PHASE_BACKWARD, "backward", out));
    if (plan->by_rows) LKI_TRY(time_pass(b, LKI_PHASE_ROWS, "rows", out));
    out->peak = lki_peak(b->seconds);
    return LKS_OK;
}

static lks_status check_and_time(bench *b, const lki_backend *backend, lks_op_report *out)
{
    lki_trial *t = b->trial;
    const lki_node *node = lki_trial_first(t);
    const lki_impl *impl = lki_impl_alone(backend, node, &t->switches);
    if (impl == NULL)
        return LKI_FAIL(LKS_E_UNSUPPORTED,
                        "device '%s' has no kernel for %s '%s'; choose another device",
                        backend->name, lki_op_get(node->op)->name, node->name);
    size_t bytes = lki_tensor_bytes(&node->out);
    for (int i = 0; i < node->in_count; i++) bytes += lki_tensor_bytes(node->in[i]);
    out->slice = lki_span_whole(impl->kernel->span) ? t->count : lki_slice_of(bytes);
    lks_status status = check_op_check(b, backend, impl->kernel, POSITIVE, out);
    lki_trial_stage_close(&b->stage);
    b->stage = (lki_trial_stage){0};
    lki_trial_release(t);
    if (status == LKS_OK) status = check_op_check(b, backend, impl->kernel, ZERO_MEAN, out);
    const unsigned saved = lki_float_enter();
    if (status == LKS_OK) status = time_passes(b, out);
    lki_float_leave(saved);
    lki_trial_stage_close(&b->stage);
    return status;
}

lks_status lks_op_check(lks_op_report *out, lks_context *context, const lks_tensor *tensor,
                        int64_t samples, double seconds)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    *out = (lks_op_report){0};
    if (context == NULL) return LKI_FAIL_NULL(context);
    if (tensor == NULL) return LKI_FAIL_NULL(tensor);
    const lki_node *node = tensor->node;
    if (samples < 1 || samples > INT32_MAX / (lks_shape_elements(&tensor->shape) + 1))
        return LKI_FAIL(LKS_E_INVALID,
                        "%lld samples were asked for, expected at least 1, and fewer than 2^31 "
                        "elements in all",
                        (long long)samples);
    if (node->in_count == 0)
        return LKI_FAIL(LKS_E_INVALID, "'%s' is not computed: there is nothing to check",
                        node->name);
    lki_trial t = {.context = context,
                   .cluster = lki_cluster_of(node),
                   .count = samples,
                   .key = lki_random_key(lks_context_seed(context), "op", node->name),
                   .training = true};
    void *memory;
    LKI_TRY(lki_alloc(context, &memory, sizeof(bench), "times"));
    bench *b = memory;
    b->trial = &t;
    b->stage = (lki_trial_stage){0};
    b->seconds = seconds;
    const lks_status status = check_and_time(b, lki_backend_find(lks_context_device(context)), out);
    lki_trial_release(&t);
    lki_free(context, memory, sizeof(bench));
    if (status != LKS_OK) return status;
    out->good = true;
    for (int i = 0; i < out->error_count; i++) out->good &= out->errors[i].share <= 1;
    return LKS_OK;
}

/* A planned kernel with its memory, and its functions called on the pieces of a trial. */
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "check/trial_memory.h"
#include "program/program.h"
#include "program/rows.h"

enum { PREPARE_PARTS = 3 /* as by three workers */ };

bool lki_trial_gives_gradient(const lki_cluster *cluster, int i)
{
    return i < cluster->in_count && cluster->in[i]->dtype != LKS_I32 &&
           cluster->in[i]->node->op != LKI_OP_TARGET &&
           !lki_op_get(lki_cluster_reader(cluster, i)->op)->stops_gradient;
}

static lks_status make_stage_memory(lki_trial *t, lki_trial_stage *out)
{
    const lki_needs *needs = &out->plan->needs;
    LKI_TRY(lki_trial_scratch(t, &out->packed, needs->packed_bytes));
    LKI_TRY(lki_trial_scratch(t, &out->saved, lki_times(needs->saved_bytes, (size_t)t->count)));
    LKI_TRY(lki_trial_scratch(t, &out->replica, needs->replica_bytes));
    LKI_TRY(lki_trial_scratch(t, &out->sums, needs->sums_bytes));
    for (int i = 0; i < LKI_MAX_FACTORS; i++)
        LKI_TRY(lki_trial_scratch(t, &out->factor[i],
                                  lki_times(needs->factor_bytes[i], (size_t)t->count)));
    const lki_node *counted = out->plan->cluster.counted;
    if (counted != NULL && counted->meets > 0)
        LKI_TRY(lki_trial_scratch(t, &out->met, (size_t)counted->meets * sizeof(double)));
    return lki_trial_scratch(t, &out->workspace, needs->workspace_bytes);
}

/* The parameters of a cluster that is, or is a part of, the trial's. */
static void find_params(const lki_trial *t, const lki_cluster *part,
                        const float *param[LKI_MAX_SLOTS])
{
    for (int p = 0; p < LKI_MAX_SLOTS; p++) param[p] = NULL;
    for (int p = 0; p < part->param_count; p++)
        for (int i = 0; i < t->cluster.param_count; i++)
            if (t->cluster.param[i].owner == part->param[p].owner &&
                t->cluster.param[i].index == part->param[p].index)
                param[p] = lki_trial_there(t, t->param[i]);
}

lks_status lki_trial_stage_open(lki_trial *t, const lki_kernel *kernel, const lki_cluster *cluster,
                                int64_t slice, unsigned skip_in, lki_trial_stage *out)
{
    void *memory;
    *out = (lki_trial_stage){0};
    LKI_TRY(lki_trial_memory(t, &memory, kernel->plan_bytes));
    memset(memory, 0, kernel->plan_bytes);
    lki_plan *plan = out->plan = memory;
    plan->kernel = kernel;
    plan->context = t->context;
    plan->cluster = *cluster;
    plan->switches = t->switches;
    plan->slice = slice;
    plan->batch = plan->share = t->count;
    plan->random_key = t->key;
    plan->by_rows = t->by_rows && lki_may_form_rows(plan);
    for (int i = 0; i < cluster->in_count; i++)
        plan->d_in_wanted[i] = lki_trial_gives_gradient(cluster, i) && !(skip_in >> i & 1u);
    LKI_TRY(lki_plan_make(plan));
    LKI_TRY(make_stage_memory(t, out));
    LKI_TRY(lki_trial_send(t));
    for (int i = 0; i < LKI_MAX_BUFFER; i++) out->buffer[i] = lki_trial_there(t, t->buffer[i]);
    const float *param[LKI_MAX_SLOTS];
    find_params(t, cluster, param);
    for (int part = 0; part < PREPARE_PARTS; part++)
        lki_plan_pack(plan, param, lki_trial_there(t, out->packed), part, PREPARE_PARTS);
    return LKS_OK;
}

void lki_trial_stage_close(lki_trial_stage *stage)
{
    if (stage->plan != NULL && stage->plan->kernel->release != NULL)
        stage->plan->kernel->release(stage->plan);
}

/* Samples of the next piece, `left` being left. */
static int64_t piece(const lki_plan *plan, int64_t left)
{
    int64_t size = plan->slice;
    if (lki_span_whole(plan->kernel->span)) return left;
    while (size > left) size /= 2;
    return size;
}

static void *at(const lki_trial *t, const void *base, const lks_tensor *tensor, int64_t sample)
{
    const size_t bytes = (size_t)lks_shape_elements(&tensor->shape) * lks_dtype_size(tensor->dtype);
    uint8_t *there = lki_trial_there(t, base);
    return there == NULL ? NULL : there + (size_t)sample * bytes;
}

/* What is carried of a sample. */
static float *carried_at(const lki_trial *t, const lki_node *node, const float *base,
                         int64_t sample)
{
    float *there = lki_trial_there(t, base);
    return there == NULL ? NULL : there + sample * node->carries;
}

/* The arguments for `count` samples from `first` of the replica. */
static lki_args arguments(const lki_trial *t, const lki_trial_stage *stage,
                          const lki_trial_tensors *tensors, int64_t first, int64_t count)
{
    const lki_cluster *cluster = &stage->plan->cluster;
    const lki_node *tail = lki_cluster_tail(cluster);
    const size_t saved = stage->plan->needs.saved_bytes * (size_t)first;
    lki_args args = {
        .count = count,
        .position = t->position + first,
        .sample = first,
        .last = first + count == t->count,
        .step = t->step,
        .training = t->training,
        .out = at(t, tensors->out, &tail->out, first),
        .d_out = at(t, tensors->d_out, &tail->out, first),
        .add_in = tensors->add_in,
        .buffer = stage->buffer,
        .stats = lki_trial_there(t, tensors->stats),
        .met = lki_trial_there(t, stage->met),
        .begins = carried_at(t, tail, tensors->begins, first),
        .leaves = carried_at(t, tail, tensors->leaves, first),
        .packed = lki_trial_there(t, stage->packed),
        .saved = (uint8_t *)lki_trial_there(t, stage->saved) + saved,
        .replica = lki_trial_there(t, stage->replica),
        .sums = lki_trial_there(t, stage->sums),
        .workspace = lki_trial_there(t, stage->workspace),
    };
    for (int i = 0; i < cluster->in_count; i++) {
        args.in[i] = at(t, tensors->in[i], cluster->in[i], first);
        args.d_in[i] = at(t, tensors->d_in[i], cluster->in[i], first);
    }
    if (t->mix != NULL) args.mix = (const lks_mix *)lki_trial_there(t, t->mix) + first;
    find_params(t, cluster, args.param);
    for (int i = 0; i < LKI_MAX_FACTORS; i++) {
        char *there = lki_trial_there(t, stage->factor[i]);
        if (stage->plan->needs.factor_bytes[i] > 0)
            args.factor[i] = (float *)(void *)(there +
                                               stage->plan->needs.factor_bytes[i] * (size_t)first);
    }
    for (int i = 0; i < LKI_MAX_SLOTS; i++)
        args.d_param[i] = lki_trial_there(t, tensors->d_param[i]);
    return args;
}

/* A function of the kernel on all pieces. In strict trials an input is there only where `reads` has its
 * bit, and the output only with `out`; and what parameters' gradients are to be written to is another stage's still, unless
 * they may be `written`. */
typedef lks_status (*kernel_call)(const lki_plan *plan, const lki_args *args);

typedef struct allowed {
    unsigned in;
    bool out, written;
} allowed;

static size_t param_bytes(const lki_trial_stage *stage, int p)
{
    const lki_cluster *cluster = &stage->plan->cluster;
    const lki_param *param = &cluster->param[p].owner->param[cluster->param[p].index];
    return (size_t)lks_shape_elements(&param->shape) * sizeof(float);
}

static void spoil_gradients(const lki_trial *t, const lki_trial_stage *stage,
                            const lki_trial_tensors *tensors)
{
    for (int p = 0; p < stage->plan->cluster.param_count; p++)
        if (tensors->d_param[p] != NULL)
            lki_trial_spoil(t, tensors->d_param[p], param_bytes(stage, p));
}

static lks_status check_spoilt(const lki_trial *t, const lki_trial_stage *stage,
                               const lki_trial_tensors *tensors)
{
    for (int p = 0; p < stage->plan->cluster.param_count; p++)
        if (tensors->d_param[p] != NULL &&
            !lki_trial_spoilt(t, tensors->d_param[p], param_bytes(stage, p)))
            return LKI_FAIL(LKS_E_BUG,
                            "'%s': a kernel wrote the gradient of a parameter before the last "
                            "samples; please report it",
                            lki_cluster_head(&stage->plan->cluster)->name);
    return LKS_OK;
}

static void hide(lki_args *args, const lki_trial *t, const lki_trial_stage *stage,
                 const lki_trial_tensors *tensors, allowed may)
{
    if (!may.written) spoil_gradients(t, stage, tensors);
    for (int i = 0; i < LKI_MAX_CLUSTER_IN; i++)
        if (!(may.in >> i & 1u)) args->in[i] = NULL;
    if (!may.out) args->out = NULL;
    lki_trial_spoil(t, stage->workspace, stage->plan->needs.workspace_bytes);
}

static lks_status call_pieces(const lki_trial *t, const lki_trial_stage *stage,
                              const lki_trial_tensors *tensors, bool strict, allowed may,
                              kernel_call call)
{
    for (int64_t first = 0, n; first < t->count; first += n) {
        n = piece(stage->plan, t->count - first);
        lki_args args = arguments(t, stage, tensors, first, n);
        if (strict) hide(&args, t, stage, tensors, may);
        LKI_TRY(call(stage->plan, &args));
        if (strict && !may.written && !args.last) LKI_TRY(check_spoilt(t, stage, tensors));
    }
    return LKS_OK;
}

static lks_status call_whole(const lki_trial *t, const lki_trial_stage *stage,
                             const lki_trial_tensors *tensors, bool strict, kernel_call call)
{
    lki_args args = arguments(t, stage, tensors, 0, t->count);
    if (strict) hide(&args, t, stage, tensors, (allowed){.in = stage->plan->needs.apply_in});
    return call(stage->plan, &args);
}

/* One replica meets itself: what it gives is what came of all. */
static bool trial_meets(const lki_trial *t, const lki_trial_stage *stage)
{
    return t->training && stage->met != NULL;
}

lks_status lki_trial_forward(const lki_trial *t, const lki_trial_stage *stage,
                             const lki_trial_tensors *tensors, bool strict)
{
    const lki_kernel *kernel = stage->plan->kernel;
    const lki_needs *needs = &stage->plan->needs;
    const bool halves = lki_in_halves(kernel);
    const allowed first = {.in = ~needs->side_in, .out = !halves};
    LKI_TRY(call_pieces(t, stage, tensors, strict, first, kernel->forward));
    if (!halves) return LKS_OK;
    if (trial_meets(t, stage)) LKI_TRY(call_whole(t, stage, tensors, strict, kernel->give));
    LKI_TRY(call_whole(t, stage, tensors, strict, kernel->finish));
    const allowed second = {.in = needs->apply_in | needs->side_in, .out = true};
    return call_pieces(t, stage, tensors, strict, second, kernel->apply);
}

lks_status lki_trial_backward(const lki_trial *t, const lki_trial_stage *stage,
                              const lki_trial_tensors *tensors, bool strict)
{
    const lki_kernel *kernel = stage->plan->kernel;
    const lki_needs *needs = &stage->plan->needs;
    allowed may = {.in = needs->reads & LKI_READS_IN ? ~needs->side_in : 0,
                   .out = needs->reads & LKI_READS_OUT};
    if (strict) lki_trial_spoil(t, stage->sums, needs->sums_bytes);
    if (lki_in_halves(kernel)) {
        allowed early = may;
        early.in &= ~needs->late_in;
        LKI_TRY(call_pieces(t, stage, tensors, strict, early, kernel->gather));
        if (trial_meets(t, stage))
            LKI_TRY(call_whole(t, stage, tensors, strict, kernel->give_backward));
        LKI_TRY(call_whole(t, stage, tensors, strict, kernel->finish_backward));
        may.written = true;
    }
    return call_pieces(t, stage, tensors, strict, may, kernel->backward);
}

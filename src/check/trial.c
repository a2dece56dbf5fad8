/* Trials: their memory, and running kernels on them. */
#include "check/trial.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/float.h"
#include "base/memory.h"
#include "numeric/hash.h"
#include "program/program.h"

enum { GUARD = 64, GUARD_BYTE = 0xa5, SPOILT = 0xff, PREPARE_PARTS = 3 /* as by three workers */ };

/* [header] -> [bytes | guard], all of a trial in a list. */
typedef struct lki_trial_block {
    struct lki_trial_block *next;
    uint8_t *data;
    size_t bytes;
} block;

lks_status lki_trial_memory(lki_trial *t, void **out, size_t bytes)
{
    void *header, *data;
    *out = NULL;
    LKI_TRY(lki_alloc(t->context, &header, sizeof(block), "a trial's tensors"));
    const lks_status status = lki_alloc(t->context, &data, lki_plus(bytes, GUARD),
                                        "a trial's tensors");
    if (status != LKS_OK) {
        lki_free(t->context, header, sizeof(block));
        return status;
    }
    memset(data, SPOILT, bytes);
    memset((uint8_t *)data + bytes, GUARD_BYTE, GUARD);
    *(block *)header = (block){.next = t->blocks, .data = data, .bytes = bytes};
    t->blocks = header;
    *out = data;
    return LKS_OK;
}

void lki_trial_release(lki_trial *t)
{
    while (t->blocks != NULL) {
        block *next = t->blocks->next;
        lki_free(t->context, t->blocks->data, t->blocks->bytes + GUARD);
        lki_free(t->context, t->blocks, sizeof(block));
        t->blocks = next;
    }
}

static lks_status broken(const lki_trial *t, const char *what)
{
    char text[400];
    return LKI_FAIL(LKS_E_BUG, "%s: a kernel %s; please report it",
                    lki_trial_describe(t, text, sizeof text), what);
}

static lks_status check_guards(const lki_trial *t)
{
    for (const block *b = t->blocks; b != NULL; b = b->next)
        for (size_t i = 0; i < GUARD; i++)
            if (b->data[b->bytes + i] != GUARD_BYTE)
                return broken(t, "wrote past the end of an array");
    return LKS_OK;
}

const lki_node *lki_trial_first(const lki_trial *t)
{
    return t->chain.node[0];
}

const lki_node *lki_trial_last(const lki_trial *t)
{
    return t->chain.node[t->chain.count - 1];
}

const lki_node *lki_trial_with_parameters(const lki_trial *t)
{
    for (int i = 0; i < t->chain.count; i++)
        if (t->chain.node[i]->param_count > 0) return t->chain.node[i];
    return NULL;
}

int64_t lki_trial_in_elements(const lki_trial *t, int i)
{
    return t->count * lks_shape_elements(&lki_trial_first(t)->in[i]->shape);
}

int64_t lki_trial_out_elements(const lki_trial *t)
{
    return t->count * lks_shape_elements(&lki_trial_last(t)->out.shape);
}

int64_t lki_trial_param_elements(const lki_trial *t, int i)
{
    return lks_shape_elements(&lki_trial_with_parameters(t)->param[i].shape);
}

bool lki_trial_has_gradient(const lki_trial *t, int i)
{
    const lki_node *node = lki_trial_first(t);
    if (i >= node->in_count || node->in[i]->node->op == LKI_OP_TARGET) return false;
    return node->op != LKI_OP_NORMALIZE;
}

const char *lki_trial_describe(const lki_trial *t, char *buffer, size_t size)
{
    size_t used = 0;
    for (int i = 0; i < t->chain.count && used < size; i++) {
        char attributes[300];
        lki_op_get(t->chain.node[i]->op)->print(t->chain.node[i], attributes, sizeof attributes);
        used += (size_t)snprintf(buffer + used, size - used, "%s%s%s%s", i > 0 ? " | " : "",
                                 lki_op_get(t->chain.node[i]->op)->name,
                                 attributes[0] != '\0' ? " " : "", attributes);
    }
    char shape[128];
    if (used < size)
        snprintf(buffer + used, size - used, ", input %s, %lld sample%s from %lld",
                 lki_shape_print(&lki_trial_first(t)->in[0]->shape, shape, sizeof shape),
                 (long long)t->count, LKI_S(t->count), (long long)t->position);
    return buffer;
}

static lks_status make_stage_memory(lki_trial *t, lki_trial_stage *out)
{
    const lki_needs *needs = &out->plan->needs;
    LKI_TRY(lki_trial_memory(t, &out->packed, needs->packed_bytes));
    LKI_TRY(lki_trial_memory(t, &out->saved, lki_times(needs->saved_bytes, (size_t)t->count)));
    LKI_TRY(lki_trial_memory(t, &out->replica, needs->replica_bytes));
    LKI_TRY(lki_trial_memory(t, &out->sums, needs->sums_bytes));
    return lki_trial_memory(t, &out->workspace, needs->workspace_bytes);
}

lks_status lki_trial_stage_open(lki_trial *t, const lki_kernel *kernel, const lki_chain *chain,
                                int64_t slice, unsigned skip_in, lki_trial_stage *out)
{
    void *memory;
    *out = (lki_trial_stage){0};
    LKI_TRY(lki_trial_memory(t, &memory, kernel->plan_bytes));
    memset(memory, 0, kernel->plan_bytes);
    lki_plan *plan = out->plan = memory;
    plan->kernel = kernel;
    plan->context = t->context;
    plan->chain = *chain;
    plan->slice = slice;
    plan->random_key = t->key;
    for (int i = 0; i < chain->node[0]->in_count; i++)
        plan->d_in_wanted[i] = lki_trial_has_gradient(t, i) && !(skip_in >> i & 1u);
    LKI_TRY(lki_plan_make(plan));
    LKI_TRY(make_stage_memory(t, out));
    const float *param[LKI_MAX_PARAM];
    for (int i = 0; i < LKI_MAX_PARAM; i++) param[i] = t->param[i];
    for (int part = 0; part < PREPARE_PARTS && kernel->prepare != NULL; part++)
        kernel->prepare(plan, param, out->packed, part, PREPARE_PARTS);
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

static int64_t default_slice(const lki_kernel *kernel, int64_t count)
{
    int64_t size = 1;
    if (lki_span_whole(kernel->span)) return count;
    while (size * 2 <= count) size *= 2;
    return size;
}

static const void *at(const void *base, const lks_tensor *tensor, int64_t sample)
{
    const size_t bytes = (size_t)lks_shape_elements(&tensor->shape) * lks_dtype_size(tensor->dtype);
    return base == NULL ? NULL : (const uint8_t *)base + (size_t)sample * bytes;
}

/* The arguments for `count` samples from `first` of the replica. */
static lki_args arguments(const lki_trial *t, const lki_trial_stage *stage,
                          const lki_trial_tensors *tensors, int64_t first, int64_t count)
{
    const lki_chain *chain = &stage->plan->chain;
    const lki_node *head = chain->node[0], *tail = chain->node[chain->count - 1];
    const size_t saved = stage->plan->needs.saved_bytes * (size_t)first;
    lki_args args = {
        .count = count,
        .position = t->position + first,
        .sample = first,
        .last = first + count == t->count,
        .step = t->step,
        .training = t->training,
        .out = (void *)at(tensors->out, &tail->out, first),
        .d_out = at(tensors->d_out, &tail->out, first),
        .add_in = tensors->add_in,
        .buffer = t->buffer,
        .stats = tensors->stats,
        .packed = stage->packed,
        .saved = (uint8_t *)stage->saved + saved,
        .replica = stage->replica,
        .sums = stage->sums,
        .workspace = stage->workspace,
    };
    for (int i = 0; i < head->in_count; i++) {
        args.in[i] = at(tensors->in[i], head->in[i], first);
        args.d_in[i] = (float *)at(tensors->d_in[i], head->in[i], first);
    }
    for (int i = 0; i < LKI_MAX_PARAM; i++) {
        args.param[i] = t->param[i];
        args.d_param[i] = tensors->d_param[i];
    }
    return args;
}

static void spoil(const lki_trial_stage *stage)
{
    memset(stage->workspace, SPOILT, stage->plan->needs.workspace_bytes);
}

lks_status lki_trial_forward(const lki_trial *t, const lki_trial_stage *stage,
                             const lki_trial_tensors *tensors, bool strict)
{
    for (int64_t first = 0, n; first < t->count; first += n) {
        n = piece(stage->plan, t->count - first);
        const lki_args args = arguments(t, stage, tensors, first, n);
        if (strict) spoil(stage);
        LKI_TRY(stage->plan->kernel->forward(stage->plan, &args));
    }
    return LKS_OK;
}

lks_status lki_trial_backward(const lki_trial *t, const lki_trial_stage *stage,
                              const lki_trial_tensors *tensors, bool strict)
{
    const lki_needs *needs = &stage->plan->needs;
    if (strict) memset(stage->sums, SPOILT, needs->sums_bytes);
    for (int64_t first = 0, n; first < t->count; first += n) {
        n = piece(stage->plan, t->count - first);
        lki_args args = arguments(t, stage, tensors, first, n);
        if (strict && !(needs->reads & LKI_READS_IN)) memset(args.in, 0, sizeof args.in);
        if (strict && !(needs->reads & LKI_READS_OUT)) args.out = NULL;
        if (strict) spoil(stage);
        LKI_TRY(stage->plan->kernel->backward(stage->plan, &args));
    }
    return LKS_OK;
}

static uint64_t hash_inputs(const lki_trial *t)
{
    uint64_t hash = 0;
    for (const block *b = t->blocks; b != NULL; b = b->next) {
        bool input = b->data == (uint8_t *)t->d_out;
        for (int i = 0; i < LKI_MAX_IN; i++) input |= b->data == t->in[i];
        for (int i = 0; i < LKI_MAX_PARAM; i++) input |= b->data == (uint8_t *)t->param[i];
        for (int i = 0; i < LKI_MAX_BUFFER; i++) input |= b->data == t->buffer[i];
        if (input) hash = hash * 31 + lki_hash(b->data, b->bytes);
    }
    return hash;
}

static lks_status trial_floats(lki_trial *t, float **out, int64_t count)
{
    void *memory;
    LKI_TRY(lki_trial_memory(t, &memory, (size_t)count * sizeof(float)));
    *out = memory;
    return LKS_OK;
}

static lks_status make_result(lki_trial *t, const lki_trial_how *how, lki_trial_result *out)
{
    *out = (lki_trial_result){0};
    LKI_TRY(trial_floats(t, &out->out, lki_trial_out_elements(t)));
    for (int i = 0; i < lki_trial_first(t)->in_count; i++) {
        if (!lki_trial_has_gradient(t, i) || how->skip_in >> i & 1u || how->no_backward) continue;
        LKI_TRY(trial_floats(t, &out->d_in[i], lki_trial_in_elements(t, i)));
        if (how->add_in >> i & 1u)
            memcpy(out->d_in[i], how->prior[i],
                   (size_t)lki_trial_in_elements(t, i) * sizeof(float));
    }
    const lki_node *node = lki_trial_with_parameters(t);
    if (node == NULL) return LKS_OK;
    for (int i = 0; i < node->param_count && !how->no_backward; i++)
        LKI_TRY(trial_floats(t, &out->d_param[i], lki_trial_param_elements(t, i)));
    if (node->stats == 0) return LKS_OK;
    void *memory;
    LKI_TRY(lki_trial_memory(t, &memory, (size_t)node->stats * sizeof(double)));
    out->stats = memory;
    return LKS_OK;
}

/* A run under way: the chain node by node, or in one stage. */
typedef struct run {
    lki_trial_stage stage[LKI_MAX_CHAIN];
    lki_trial_tensors tensors[LKI_MAX_CHAIN];
    int stages;
} run;

static lks_status open_stages(lki_trial *t, const lki_backend *backend, const lki_kernel *fused,
                              const lki_trial_how *how, run *r)
{
    const int count = fused != NULL ? 1 : t->chain.count;
    for (int i = 0; i < count; i++) {
        const lki_chain one = {{t->chain.node[i]}, 1};
        const lki_kernel *kernel = fused != NULL ? fused : backend->kernels[one.node[0]->op];
        if (kernel == NULL)
            return LKI_FAIL(LKS_E_UNSUPPORTED,
                            "device '%s' has no kernel for %s; choose another device",
                            backend->name, lki_op_get(one.node[0]->op)->name);
        r->stages = i + 1;
        LKI_TRY(lki_trial_stage_open(t, kernel, fused != NULL ? &t->chain : &one,
                                     how->slice > 0 && !lki_span_whole(kernel->span)
                                         ? how->slice
                                         : default_slice(kernel, t->count),
                                     i == 0 ? how->skip_in : 0, &r->stage[i]));
    }
    return LKS_OK;
}

/* Each stage's output is the next one's input, and its gradient the other way round. */
static lks_status join_stages(lki_trial *t, bool fused, const lki_trial_how *how,
                              const lki_trial_result *out, run *r)
{
    for (int i = 0; i < r->stages; i++) {
        const lki_chain *chain = &r->stage[i].plan->chain;
        const lki_node *tail = chain->node[chain->count - 1];
        const bool own = fused || chain->node[0] == lki_trial_with_parameters(t);
        const bool last = i == r->stages - 1;
        const int64_t count = t->count * lks_shape_elements(&tail->out.shape);
        lki_trial_tensors *self = &r->tensors[i];
        float *between = out->out, *d_between = t->d_out;
        if (!last) LKI_TRY(trial_floats(t, &between, count));
        if (!last) LKI_TRY(trial_floats(t, &d_between, count));
        self->out = between;
        self->d_out = d_between;
        self->in[0] = i == 0 ? t->in[0] : r->tensors[i - 1].out;
        if (i > 0) self->d_in[0] = (float *)r->tensors[i - 1].d_out;
        for (int k = 1; i == 0 && k < LKI_MAX_IN; k++) self->in[k] = t->in[k];
        for (int p = 0; own && p < LKI_MAX_PARAM; p++) self->d_param[p] = out->d_param[p];
        if (own) self->stats = out->stats;
    }
    memcpy(r->tensors[0].d_in, out->d_in, sizeof out->d_in);
    r->tensors[0].add_in = how->add_in;
    return LKS_OK;
}

static lks_status run_stages(lki_trial *t, const lki_backend *backend, const lki_kernel *fused,
                             const lki_trial_how *how, const lki_trial_result *out, run *r)
{
    LKI_TRY(open_stages(t, backend, fused, how, r));
    LKI_TRY(join_stages(t, fused != NULL, how, out, r));
    for (int i = 0; i < r->stages; i++)
        LKI_TRY(lki_trial_forward(t, &r->stage[i], &r->tensors[i], true));
    for (int i = r->stages - 1; i >= 0 && t->training && !how->no_backward; i--)
        if (r->stage[i].plan->kernel->backward != NULL)
            LKI_TRY(lki_trial_backward(t, &r->stage[i], &r->tensors[i], true));
    return LKS_OK;
}

lks_status lki_trial_run(lki_trial *t, const lki_backend *backend, const lki_kernel *fused,
                         const lki_trial_how *how, lki_trial_result *out)
{
    static const lki_trial_how usual = {0};
    const uint64_t before = hash_inputs(t);
    run r = {0};
    if (how == NULL) how = &usual;
    LKI_TRY(make_result(t, how, out));
    const unsigned saved = lki_float_enter();
    const lks_status status = run_stages(t, backend, fused, how, out, &r);
    for (int i = 0; i < r.stages; i++) lki_trial_stage_close(&r.stage[i]);
    lki_float_leave(saved);
    LKI_TRY(status);
    LKI_TRY(check_guards(t));
    return hash_inputs(t) == before ? LKS_OK : broken(t, "changed an input");
}

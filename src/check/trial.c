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
    return lki_cluster_head(&t->cluster);
}

const lki_node *lki_trial_last(const lki_trial *t)
{
    return lki_cluster_tail(&t->cluster);
}

int64_t lki_trial_in_elements(const lki_trial *t, int i)
{
    return t->count * lks_shape_elements(&t->cluster.in[i]->shape);
}

int64_t lki_trial_out_elements(const lki_trial *t)
{
    return t->count * lks_shape_elements(&lki_trial_last(t)->out.shape);
}

int64_t lki_trial_param_elements(const lki_trial *t, int slot)
{
    const lki_node *owner = t->cluster.param[slot].owner;
    return lks_shape_elements(&owner->param[t->cluster.param[slot].index].shape);
}

/* The node that reads the cluster's input i. */
static const lki_node *input_reader(const lki_cluster *cluster, int i)
{
    for (int n = 0; n < cluster->count; n++)
        for (int k = 0; k < cluster->node[n]->in_count; k++)
            if (!lki_cluster_has(cluster, cluster->node[n]->in[k]->node) && i-- == 0)
                return cluster->node[n];
    return NULL;
}

static bool gives_gradient(const lki_cluster *cluster, int i)
{
    return i < cluster->in_count && cluster->in[i]->node->op != LKI_OP_TARGET &&
           !lki_op_get(input_reader(cluster, i)->op)->stops_gradient;
}

bool lki_trial_has_gradient(const lki_trial *t, int i)
{
    return gives_gradient(&t->cluster, i);
}

const char *lki_trial_describe(const lki_trial *t, char *buffer, size_t size)
{
    size_t used = 0;
    for (int i = 0; i < t->cluster.count && used < size; i++) {
        char attributes[300];
        lki_node_print(t->cluster.node[i], attributes, sizeof attributes);
        used += (size_t)snprintf(buffer + used, size - used, "%s%s%s%s", i > 0 ? " | " : "",
                                 lki_op_get(t->cluster.node[i]->op)->name,
                                 attributes[0] != '\0' ? " " : "", attributes);
    }
    char shape[128];
    if (used < size)
        snprintf(buffer + used, size - used, ", input %s, %lld sample%s from %lld",
                 lki_shape_print(&t->cluster.in[0]->shape, shape, sizeof shape),
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

/* The parameters of a cluster that is, or is a part of, the trial's. */
static void find_params(const lki_trial *t, const lki_cluster *part,
                        const float *param[LKI_MAX_SLOTS])
{
    for (int p = 0; p < LKI_MAX_SLOTS; p++) param[p] = NULL;
    for (int p = 0; p < part->param_count; p++)
        for (int i = 0; i < t->cluster.param_count; i++)
            if (t->cluster.param[i].owner == part->param[p].owner &&
                t->cluster.param[i].index == part->param[p].index)
                param[p] = t->param[i];
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
    plan->slice = slice;
    plan->random_key = t->key;
    for (int i = 0; i < cluster->in_count; i++)
        plan->d_in_wanted[i] = gives_gradient(cluster, i) && !(skip_in >> i & 1u);
    LKI_TRY(lki_plan_make(plan));
    LKI_TRY(make_stage_memory(t, out));
    const float *param[LKI_MAX_SLOTS];
    find_params(t, cluster, param);
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
    for (int i = 0; i < cluster->in_count; i++) {
        args.in[i] = at(tensors->in[i], cluster->in[i], first);
        args.d_in[i] = (float *)at(tensors->d_in[i], cluster->in[i], first);
    }
    find_params(t, cluster, args.param);
    for (int i = 0; i < LKI_MAX_SLOTS; i++) args.d_param[i] = tensors->d_param[i];
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
        for (int i = 0; i < LKI_MAX_CLUSTER_IN; i++) input |= b->data == t->in[i];
        for (int i = 0; i < LKI_MAX_SLOTS; i++) input |= b->data == (uint8_t *)t->param[i];
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
    for (int i = 0; i < t->cluster.in_count; i++) {
        if (!lki_trial_has_gradient(t, i) || how->skip_in >> i & 1u || how->no_backward) continue;
        LKI_TRY(trial_floats(t, &out->d_in[i], lki_trial_in_elements(t, i)));
        if (how->add_in >> i & 1u)
            memcpy(out->d_in[i], how->prior[i],
                   (size_t)lki_trial_in_elements(t, i) * sizeof(float));
    }
    for (int i = 0; i < t->cluster.param_count && !how->no_backward; i++)
        LKI_TRY(trial_floats(t, &out->d_param[i], lki_trial_param_elements(t, i)));
    const lki_node *counted = t->cluster.counted;
    if (counted == NULL || counted->stats == 0) return LKS_OK;
    void *memory;
    LKI_TRY(lki_trial_memory(t, &memory, (size_t)counted->stats * sizeof(double)));
    out->stats = memory;
    return LKS_OK;
}

/* A run under way: the cluster node by node, or in one stage. */
typedef struct run {
    lki_trial_stage stage[LKI_MAX_CLUSTER];
    lki_trial_tensors tensors[LKI_MAX_CLUSTER];
    int stages;
    int outside; /* inputs of the trial that stages before this one read */
} run;

static lks_status open_stage(lki_trial *t, const lki_kernel *kernel, const lki_cluster *cluster,
                             const lki_trial_how *how, unsigned skip_in, run *r)
{
    const int64_t slice = how->slice > 0 && !lki_span_whole(kernel->span)
                              ? how->slice
                              : default_slice(kernel, t->count);
    return lki_trial_stage_open(t, kernel, cluster, slice, skip_in, &r->stage[r->stages++]);
}

/* Where stage `s` reads its input i, and where that gradient goes: another stage's output, or the trial's
 * next input. Its number, or -1 for another stage's. */
static int join_input(const lki_trial *t, const lki_trial_result *out, run *r, int s, int i)
{
    const lks_tensor *tensor = r->stage[s].plan->cluster.in[i];
    lki_trial_tensors *self = &r->tensors[s];
    for (int k = 0; k < s; k++) {
        if (&lki_cluster_tail(&r->stage[k].plan->cluster)->out != tensor) continue;
        self->in[i] = r->tensors[k].out;
        self->d_in[i] = (float *)r->tensors[k].d_out;
        return -1;
    }
    self->in[i] = t->in[r->outside];
    self->d_in[i] = out->d_in[r->outside];
    return r->outside++;
}

/* The results that a stage writes: all of its inputs' gradients, and of its nodes' parameters. */
static lks_status join_stage(lki_trial *t, const lki_trial_how *how, const lki_trial_result *out,
                             run *r, int s, bool last)
{
    const lki_cluster *cluster = &r->stage[s].plan->cluster;
    const int64_t count = t->count * lks_shape_elements(&lki_cluster_tail(cluster)->out.shape);
    lki_trial_tensors *self = &r->tensors[s];
    float *between = out->out, *d_between = t->d_out;
    if (!last) LKI_TRY(trial_floats(t, &between, count));
    if (!last) LKI_TRY(trial_floats(t, &d_between, count));
    self->out = between;
    self->d_out = d_between;
    for (int i = 0; i < cluster->in_count; i++) {
        const int outside = join_input(t, out, r, s, i);
        if (outside >= 0 && (how->add_in >> outside & 1u)) self->add_in |= 1u << i;
    }
    for (int p = 0; p < cluster->param_count; p++)
        for (int i = 0; i < t->cluster.param_count; i++)
            if (t->cluster.param[i].owner == cluster->param[p].owner &&
                t->cluster.param[i].index == cluster->param[p].index)
                self->d_param[p] = out->d_param[i];
    if (cluster->counted != NULL) self->stats = out->stats;
    return LKS_OK;
}

/* Which gradients of its inputs the trial's node n leaves out. */
static unsigned skipped(const lki_trial *t, int n, unsigned skip_in)
{
    unsigned own = 0;
    int outside = 0;
    for (int k = 0; k <= n; k++)
        for (int i = 0; i < t->cluster.node[k]->in_count; i++) {
            if (lki_cluster_has(&t->cluster, t->cluster.node[k]->in[i]->node)) continue;
            if (k == n && (skip_in >> outside & 1u)) own |= 1u << i;
            outside++;
        }
    return own;
}

static lks_status open_stages(lki_trial *t, const lki_backend *backend, const lki_kernel *fused,
                              const lki_trial_how *how, run *r)
{
    if (fused != NULL) return open_stage(t, fused, &t->cluster, how, how->skip_in, r);
    for (int n = 0; n < t->cluster.count; n++) {
        const lki_node *node = t->cluster.node[n];
        const lki_cluster one = lki_cluster_of(node);
        const lki_impl *impl = lki_impl_alone(backend, node);
        if (impl == NULL)
            return LKI_FAIL(LKS_E_UNSUPPORTED,
                            "device '%s' has no kernel for %s; choose another device",
                            backend->name, lki_op_get(node->op)->name);
        LKI_TRY(open_stage(t, impl->kernel, &one, how, skipped(t, n, how->skip_in), r));
    }
    return LKS_OK;
}

static lks_status run_stages(lki_trial *t, const lki_backend *backend, const lki_kernel *fused,
                             const lki_trial_how *how, const lki_trial_result *out, run *r)
{
    LKI_TRY(open_stages(t, backend, fused, how, r));
    for (int s = 0; s < r->stages; s++) LKI_TRY(join_stage(t, how, out, r, s, s == r->stages - 1));
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

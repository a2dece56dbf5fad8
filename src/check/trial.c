/* Trials: running kernels on them. */
#include "check/trial.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/float.h"
#include "check/trial_memory.h"
#include "program/program.h"

static lks_status broken(const lki_trial *t, const char *what)
{
    char text[400];
    return LKI_FAIL(LKS_E_BUG, "%s: a kernel %s; please report it",
                    lki_trial_describe(t, text, sizeof text), what);
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

bool lki_trial_has_gradient(const lki_trial *t, int i)
{
    return lki_trial_gives_gradient(&t->cluster, i);
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

static int64_t default_slice(const lki_kernel *kernel, int64_t count)
{
    int64_t size = 1;
    if (lki_span_whole(kernel->span)) return count;
    while (size * 2 <= count) size *= 2;
    return size;
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
    if (lki_trial_last(t)->carries > 0)
        LKI_TRY(trial_floats(t, &out->leaves, t->count * lki_trial_last(t)->carries));
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
    if (lki_cluster_tail(cluster)->carries > 0) self->begins = t->begins;
    if (lki_cluster_tail(cluster)->carries > 0) self->leaves = out->leaves;
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
        const lki_impl *impl = lki_impl_alone(backend, node, &t->switches);
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
    LKI_TRY(lki_trial_send(t));
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
    const uint64_t before = lki_trial_hash_inputs(t);
    run r = {0};
    if (how == NULL) how = &usual;
    t->memory = backend->memory;
    LKI_TRY(make_result(t, how, out));
    const unsigned saved = lki_float_enter();
    const lks_status status = run_stages(t, backend, fused, how, out, &r);
    for (int i = 0; i < r.stages; i++) lki_trial_stage_close(&r.stage[i]);
    lki_float_leave(saved);
    LKI_TRY(status);
    lki_trial_fetch(t);
    if (!lki_trial_guarded(t)) return broken(t, "wrote past the end of an array");
    return lki_trial_hash_inputs(t) == before ? LKS_OK : broken(t, "changed an input");
}

/* Cases, their memory, and running kernels on them. */
#include "support/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/thread.h"

enum { GUARD = 64, GUARD_BYTE = 0xa5 };

/* [header | bytes | guard], all of a case in a list. */
typedef struct lkt_block {
    struct lkt_block *next;
    uint8_t *data;
    size_t bytes;
} block;

void *lkt_case_memory(lkt_case *c, size_t bytes)
{
    block *b = malloc(sizeof *b);
    const size_t whole = (bytes + GUARD + LKI_ALIGN - 1) / LKI_ALIGN * LKI_ALIGN;

    assert_non_null(b);
    b->data = aligned_alloc(LKI_ALIGN, whole);
    assert_non_null(b->data);
    memset(b->data, 0xff, bytes);
    memset(b->data + bytes, GUARD_BYTE, whole - bytes);
    b->bytes = bytes;
    b->next = c->blocks;
    c->blocks = b;
    return b->data;
}

static void check_guards(const lkt_case *c)
{
    for (const block *b = c->blocks; b != NULL; b = b->next) {
        for (size_t i = 0; i < GUARD; i++) {
            if (b->data[b->bytes + i] != GUARD_BYTE)
                fail_msg("%s: written %zu bytes past an array of %zu", lkt_describe(c), i + 1,
                         b->bytes);
        }
    }
}

const lki_backend *lkt_ref(void)
{
    return lki_backend_find("ref");
}

const lki_node *lkt_first(const lkt_case *c)
{
    return c->chain.node[0];
}

const lki_node *lkt_last(const lkt_case *c)
{
    return c->chain.node[c->chain.count - 1];
}

const lki_node *lkt_with_parameters(const lkt_case *c)
{
    for (int i = 0; i < c->chain.count; i++) {
        if (c->chain.node[i]->param_count > 0) return c->chain.node[i];
    }
    return NULL;
}

int64_t lkt_in_elements(const lkt_case *c, int i)
{
    return c->count * lks_shape_elements(&lkt_first(c)->in[i]->shape);
}

int64_t lkt_out_elements(const lkt_case *c)
{
    return c->count * lks_shape_elements(&lkt_last(c)->out.shape);
}

int64_t lkt_param_elements(const lkt_case *c, int i)
{
    return lks_shape_elements(&lkt_with_parameters(c)->param[i].shape);
}

bool lkt_has_gradient(const lkt_case *c, int i)
{
    const lki_node *node = lkt_first(c);

    if (i >= node->in_count || node->in[i]->node->op == LKI_OP_TARGET) return false;
    return node->op != LKI_OP_NORMALIZE;
}

const char *lkt_describe(const lkt_case *c)
{
    static char text[1024];
    size_t used = 0;

    for (int i = 0; i < c->chain.count; i++) {
        char attributes[512];

        lki_op_get(c->chain.node[i]->op)->print(c->chain.node[i], attributes, sizeof attributes);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %s", i > 0 ? " | " : "",
                                 lki_op_get(c->chain.node[i]->op)->name, attributes);
    }
    char shape[128];
    snprintf(text + used, sizeof text - used, ", input %s, %lld samples from %lld",
             lki_shape_print(&lkt_first(c)->in[0]->shape, shape, sizeof shape), (long long)c->count,
             (long long)c->position);
    return text;
}

void lkt_case_begin(lkt_case *c)
{
    *c = (lkt_case){0};
    LKT_OK(lks_context_create(&c->context, &(lks_context_opts){.device = "ref"}));
    LKT_OK(lks_graph_create(&c->graph, c->context));
}

void lkt_case_free(lkt_case *c)
{
    while (c->blocks != NULL) {
        block *next = c->blocks->next;

        free(c->blocks->data);
        free(c->blocks);
        c->blocks = next;
    }
    lks_graph_destroy(c->graph);
    lks_context_destroy(c->context);
    *c = (lkt_case){0};
}

static float draw(lkt_fill fill, lkt_random *random)
{
    if (fill == LKT_EXACT) return (float)lkt_random_from(random, -8, 8) / 8.0f;
    return (float)lkt_random_real(random, -1.0, 1.0);
}

/* Odd multiples of 1/16 around zero, each once, in random order. */
static void fill_spaced(float *out, int64_t count, lkt_random *random)
{
    for (int64_t i = 0; i < count; i++) out[i] = (float)(2 * i + 1 - count / 2 * 2) / 16.0f;
    for (int64_t i = count - 1; i > 0; i--) {
        const int64_t j = lkt_random_below(random, i + 1);
        const float kept = out[i];

        out[i] = out[j];
        out[j] = kept;
    }
}

static void *fill_floats(lkt_case *c, int64_t count, lkt_fill fill, lkt_random *random)
{
    float *out = lkt_case_memory(c, (size_t)count * sizeof *out);

    for (int64_t i = 0; i < count; i++) out[i] = draw(fill, random);
    return out;
}

static void fill_in(lkt_case *c, int i, lkt_fill fill, lkt_random *random)
{
    const lks_tensor *tensor = lkt_first(c)->in[i];
    const int64_t count = lkt_in_elements(c, i);

    if (tensor->dtype == LKS_F32) {
        c->in[i] = fill_floats(c, count, fill, random);
        if (fill == LKT_SPACED && i == 0) fill_spaced(c->in[i], count, random);
        return;
    }
    c->in[i] = lkt_case_memory(c, (size_t)count * lks_dtype_size(tensor->dtype));
    for (int64_t e = 0; e < count; e++) {
        if (tensor->dtype == LKS_U8)
            ((uint8_t *)c->in[i])[e] = (uint8_t)(fill == LKT_EXACT
                                                     ? 255 * lkt_random_below(random, 2)
                                                     : lkt_random_below(random, 256));
        else
            ((int32_t *)c->in[i])[e] = (int32_t)lkt_random_below(
                random, ((const lks_target_opts *)tensor->node->attr)->classes);
    }
}

static void fill_parameters(lkt_case *c, const lki_node *node, lkt_fill fill, lkt_random *random)
{
    for (int i = 0; i < node->param_count; i++)
        c->param[i] = fill_floats(c, lks_shape_elements(&node->param[i].shape), fill, random);
    for (int i = 0; i < node->buffer_count; i++) {
        const int64_t count = lks_shape_elements(&node->buffer[i].shape);

        c->buffer[i] = lkt_case_memory(c, (size_t)count * lks_dtype_size(node->buffer[i].dtype));
        for (int64_t e = 0; e < count; e++) {
            if (node->buffer[i].dtype == LKS_I64)
                ((int64_t *)c->buffer[i])[e] = 0;
            else
                ((float *)c->buffer[i])[e] = (float)lkt_random_real(random, 0.5, 2.0);
        }
    }
}

void lkt_case_end(lkt_case *c, lks_tensor *first, lks_tensor *last, int64_t count, lkt_fill fill,
                  lkt_random *random)
{
    LKT_OK(lks_graph_status(c->graph));
    c->count = count;
    c->position = lkt_random_below(random, 1000);
    c->step = lkt_random_bits(random);
    c->key = lkt_random_bits(random);
    c->training = true;
    for (const lks_tensor *t = last; t != first->node->in[0]; t = t->node->in[0]) c->chain.count++;
    assert_in_range(c->chain.count, 1, LKI_MAX_CHAIN);
    int at = c->chain.count;
    for (const lks_tensor *t = last; at > 0; t = t->node->in[0]) c->chain.node[--at] = t->node;

    for (int i = 0; i < lkt_first(c)->in_count; i++) fill_in(c, i, fill, random);
    if (lkt_with_parameters(c) != NULL) fill_parameters(c, lkt_with_parameters(c), fill, random);
    c->d_out = fill_floats(c, lkt_out_elements(c), fill, random);
}

void lkt_stage_open(lkt_case *c, const lki_kernel *kernel, const lki_chain *chain, int64_t slice,
                    unsigned skip_in, lkt_stage *out)
{
    lki_plan *plan = lkt_case_memory(c, kernel->plan_bytes);

    memset(plan, 0, kernel->plan_bytes);
    plan->kernel = kernel;
    plan->context = c->context;
    plan->chain = *chain;
    plan->slice = slice;
    plan->random_key = c->key;
    for (int i = 0; i < chain->node[0]->in_count; i++)
        plan->d_in_wanted[i] = lkt_has_gradient(c, i) && !(skip_in >> i & 1u);
    LKT_OK(kernel->plan(plan));
    out->plan = plan;
    out->packed = lkt_case_memory(c, plan->needs.packed_bytes);
    out->saved = lkt_case_memory(c, plan->needs.saved_bytes * (size_t)c->count);
    out->replica = lkt_case_memory(c, plan->needs.replica_bytes);
    out->workspace = lkt_case_memory(c, plan->needs.workspace_bytes);
    const float *param[LKI_MAX_PARAM] = {c->param[0], c->param[1]};
    const int parts = 3; /* as if by three workers */
    for (int part = 0; part < parts && kernel->prepare != NULL; part++)
        kernel->prepare(plan, param, out->packed, part, parts);
}

void lkt_stage_close(lkt_stage *stage)
{
    if (stage->plan->kernel->release != NULL) stage->plan->kernel->release(stage->plan);
}

/* Samples of the next piece, `left` being left. */
static int64_t piece(const lki_plan *plan, int64_t left)
{
    int64_t size = plan->slice;

    if (plan->kernel->span == LKI_SPAN_SHARE) return left;
    while (size > left) size /= 2;
    return size;
}

static int64_t default_slice(const lki_kernel *kernel, int64_t count)
{
    int64_t size = 1;

    if (kernel->span == LKI_SPAN_SHARE) return count;
    while (size * 2 <= count) size *= 2;
    return size;
}

/* A node's or a fused chain's tensors, whole. */
typedef struct tensors {
    const void *in[LKI_MAX_IN];
    float *d_in[LKI_MAX_IN];
    void *out;
    const float *d_out;
    unsigned add_in;
    float *d_param[LKI_MAX_PARAM];
    double *stats;
} tensors;

static const void *at(const void *base, const lks_tensor *tensor, int64_t sample)
{
    const size_t bytes = (size_t)lks_shape_elements(&tensor->shape) * lks_dtype_size(tensor->dtype);

    return base == NULL ? NULL : (const uint8_t *)base + (size_t)sample * bytes;
}

/* The arguments for `count` samples from `first` of the replica. */
static lki_args arguments(const lkt_case *c, const lkt_stage *stage, const tensors *t,
                          int64_t first, int64_t count)
{
    const lki_chain *chain = &stage->plan->chain;
    const lki_node *head = chain->node[0], *tail = chain->node[chain->count - 1];
    const size_t saved = stage->plan->needs.saved_bytes * (size_t)first;
    lki_args args = {
        .count = count,
        .position = c->position + first,
        .step = c->step,
        .training = c->training,
        .out = (void *)at(t->out, &tail->out, first),
        .d_out = at(t->d_out, &tail->out, first),
        .add_in = t->add_in,
        .add_param = first > 0,
        .buffer = c->buffer,
        .stats = t->stats,
        .packed = stage->packed,
        .saved = (uint8_t *)stage->saved + saved,
        .replica = stage->replica,
        .workspace = stage->workspace,
    };

    for (int i = 0; i < head->in_count; i++) {
        args.in[i] = at(t->in[i], head->in[i], first);
        args.d_in[i] = (float *)at(t->d_in[i], head->in[i], first);
    }
    for (int i = 0; i < LKI_MAX_PARAM; i++) {
        args.param[i] = c->param[i];
        args.d_param[i] = t->d_param[i];
    }
    return args;
}

static void spoil(const lkt_stage *stage)
{
    memset(stage->workspace, 0xff, stage->plan->needs.workspace_bytes);
}

static void stage_forward(const lkt_case *c, const lkt_stage *stage, const tensors *t)
{
    for (int64_t first = 0, n; first < c->count; first += n) {
        n = piece(stage->plan, c->count - first);
        const lki_args args = arguments(c, stage, t, first, n);

        spoil(stage);
        LKT_OK(stage->plan->kernel->forward(stage->plan, &args));
    }
}

/* What the kernel did not ask for is not there any more. */
static void stage_backward(const lkt_case *c, const lkt_stage *stage, const tensors *t)
{
    const lki_needs *needs = &stage->plan->needs;

    for (int64_t first = 0, n; first < c->count; first += n) {
        n = piece(stage->plan, c->count - first);
        lki_args args = arguments(c, stage, t, first, n);

        if (!(needs->reads & LKI_READS_IN)) args.in[0] = args.in[1] = NULL;
        if (!(needs->reads & LKI_READS_OUT)) args.out = NULL;
        spoil(stage);
        LKT_OK(stage->plan->kernel->backward(stage->plan, &args));
    }
}

static uint64_t hash_inputs(const lkt_case *c)
{
    uint64_t hash = 0;

    for (const block *b = c->blocks; b != NULL; b = b->next) {
        bool input = b->data == (uint8_t *)c->d_out;

        for (int i = 0; i < LKI_MAX_IN; i++) input |= b->data == c->in[i];
        for (int i = 0; i < LKI_MAX_PARAM; i++) input |= b->data == (uint8_t *)c->param[i];
        for (int i = 0; i < LKI_MAX_BUFFER; i++) input |= b->data == c->buffer[i];
        if (input) hash = hash * 31 + lki_hash(b->data, b->bytes);
    }
    return hash;
}

static void make_result(lkt_case *c, const lkt_how *how, lkt_result *out)
{
    *out = (lkt_result){0};
    out->out = lkt_case_memory(c, (size_t)lkt_out_elements(c) * sizeof(float));
    for (int i = 0; i < lkt_first(c)->in_count; i++) {
        const size_t bytes = (size_t)lkt_in_elements(c, i) * sizeof(float);

        if (!lkt_has_gradient(c, i) || how->skip_in >> i & 1u || how->no_backward) continue;
        out->d_in[i] = lkt_case_memory(c, bytes);
        if (how->add_in >> i & 1u) memcpy(out->d_in[i], how->prior[i], bytes);
    }
    const lki_node *node = lkt_with_parameters(c);
    if (node == NULL) return;
    for (int i = 0; i < node->param_count && !how->no_backward; i++)
        out->d_param[i] = lkt_case_memory(c, (size_t)lkt_param_elements(c, i) * sizeof(float));
    if (node->stats > 0) out->stats = lkt_case_memory(c, (size_t)node->stats * sizeof(double));
}

/* The chain node by node, or in one stage. */
static int open_stages(lkt_case *c, const lki_backend *backend, const lki_kernel *fused,
                       const lkt_how *how, lkt_stage stages[LKI_MAX_CHAIN])
{
    const int count = fused != NULL ? 1 : c->chain.count;

    for (int i = 0; i < count; i++) {
        const lki_chain one = {{c->chain.node[i]}, 1};
        const lki_kernel *kernel = fused != NULL ? fused : backend->kernels[one.node[0]->op];

        if (kernel == NULL)
            fail_msg("%s has no kernel for %s", backend->name, lki_op_get(one.node[0]->op)->name);
        lkt_stage_open(c, kernel, fused != NULL ? &c->chain : &one,
                       how->slice > 0 && kernel->span != LKI_SPAN_SHARE
                           ? how->slice
                           : default_slice(kernel, c->count),
                       i == 0 ? how->skip_in : 0, &stages[i]);
    }
    return count;
}

void lkt_run(lkt_case *c, const lki_backend *backend, const lki_kernel *fused, const lkt_how *how,
             lkt_result *out)
{
    static const lkt_how usual = {0};
    const uint64_t before = hash_inputs(c);
    lkt_stage stages[LKI_MAX_CHAIN];
    tensors t[LKI_MAX_CHAIN] = {0};

    if (how == NULL) how = &usual;
    make_result(c, how, out);
    const unsigned saved = lki_float_enter();
    const int count = open_stages(c, backend, fused, how, stages);
    for (int i = 0; i < count; i++) {
        const lki_chain *chain = &stages[i].plan->chain;
        const lki_node *tail = chain->node[chain->count - 1];
        const bool own = fused != NULL || chain->node[0] == lkt_with_parameters(c);
        const size_t bytes = (size_t)(c->count * lks_shape_elements(&tail->out.shape)) * 4;

        t[i].in[0] = i == 0 ? c->in[0] : t[i - 1].out;
        t[i].out = i == count - 1 ? (void *)out->out : lkt_case_memory(c, bytes);
        t[i].d_out = i == count - 1 ? c->d_out : lkt_case_memory(c, bytes);
        if (i == 0) t[i].in[1] = c->in[1];
        if (i > 0) t[i].d_in[0] = (float *)t[i - 1].d_out;
        for (int p = 0; own && p < LKI_MAX_PARAM; p++) t[i].d_param[p] = out->d_param[p];
        if (own) t[i].stats = out->stats;
        stage_forward(c, &stages[i], &t[i]);
    }
    memcpy(t[0].d_in, out->d_in, sizeof out->d_in);
    t[0].add_in = how->add_in;
    for (int i = count - 1; i >= 0 && c->training && !how->no_backward; i--) {
        if (stages[i].plan->kernel->backward != NULL) stage_backward(c, &stages[i], &t[i]);
    }
    for (int i = 0; i < count; i++) lkt_stage_close(&stages[i]);
    lki_float_leave(saved);
    check_guards(c);
    if (hash_inputs(c) != before) fail_msg("%s: an input was changed", lkt_describe(c));
}

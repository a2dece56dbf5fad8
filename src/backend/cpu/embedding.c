/*
 * Embedding: rows of the weight are copied; a row's gradient is summed in double over the positions of a replica that have
 * its token, one row after the other, so that there are sums of one row. And what is learned of positions.
 *
 * By rows, each row's positions are a list through all replicas, and only those that have the token are visited: there is no
 * array of the weight's size. A replica without it would add +0, which changes nothing: no sum is -0 (lki_round).
 */
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/memory.h"
#include "core/sinusoid.h"
#include "numeric/tree.h"

typedef struct embedding_plan {
    lki_cpu_plan cpu;
    int64_t vocabulary, units;
    int64_t blank;                  /* the token without a gradient; -1: none */
    size_t next, sum, stack, given; /* where these are in the workspace */
} embedding_plan;

enum {
    DEPTH = 32,  /* of the tree, at most: replicas are counted by an int */
    GIVEN = 4096 /* floats of rows that are given together, or one row */
};

static const embedding_plan *embedding(const lki_plan *plan)
{
    return (const embedding_plan *)(const void *)plan;
}

static int64_t given_rows(const embedding_plan *p)
{
    return p->units < GIVEN ? GIVEN / p->units : 1;
}

/* In backward and rows: the first position with each token, the next one with the same, and the sums of a row; and in rows
 * sums of nodes that wait in the tree, and rows that are complete. */
static lks_status cpu_embedding_plan(lki_plan *plan)
{
    embedding_plan *p = (embedding_plan *)(void *)plan;
    const lki_param *weight = &plan->cluster.node[0]->param[0];
    LKI_TRY(lki_cpu_plan_start(plan));
    p->vocabulary = weight->shape.dim[0];
    p->units = weight->shape.dim[1];
    p->blank = weight->blank - 1;
    p->next = lki_align((size_t)p->vocabulary * sizeof(int32_t));
    p->sum = p->next + lki_align((size_t)(plan->batch * p->cpu.in) * sizeof(int32_t));
    p->stack = p->sum + lki_align((size_t)p->units * sizeof(double));
    p->given = p->stack + lki_align((size_t)(DEPTH * p->units) * sizeof(float));
    if (plan->tied) {
        plan->needs.factor_bytes[0] = (size_t)(p->cpu.in * p->units) * sizeof(float);
        plan->needs.factor_bytes[1] = (size_t)p->cpu.in * sizeof(int32_t);
    }
    plan->needs.reads = LKI_READS_IN;
    plan->needs.workspace_bytes = p->given + (size_t)(given_rows(p) * p->units) * sizeof(float);
    return LKS_OK;
}

static lks_status cpu_embedding_forward(const lki_plan *plan, const lki_args *args)
{
    const embedding_plan *p = embedding(plan);
    const int32_t *token = args->in[0];
    float *y = args->out;
    for (int64_t t = 0; t < args->count * p->cpu.in; t++)
        memcpy(y + t * p->units, args->param[0] + token[t] * p->units,
               (size_t)p->units * sizeof *y);
    return LKS_OK;
}

void lki_cpu_list(int64_t first, int64_t rows, int64_t count, const int32_t *row, int32_t *head,
                  int32_t *next)
{
    for (int64_t r = 0; r < rows; r++) head[r] = -1;
    for (int64_t t = count - 1; t >= 0; t--) {
        const int64_t r = row[t] - first;
        if (r < 0 || r >= rows) continue;
        next[t] = head[r];
        head[r] = (int32_t)t;
    }
}

/* Positions of tokens; of the one without a gradient there are none. */
static void list_positions(const embedding_plan *p, int64_t first, int64_t tokens, int64_t count,
                           const int32_t *token, int32_t *head, int32_t *next)
{
    const int64_t blank = p->blank - first;
    lki_cpu_list(first, tokens, count, token, head, next);
    if (p->blank >= 0 && blank >= 0 && blank < tokens) head[blank] = -1;
}

/* The sum over positions from *t on that lie before `end`; *t becomes the next one. */
static void sum_positions(const embedding_plan *p, const int32_t *next, const float *d_out,
                          int64_t end, int32_t *t, double *sum)
{
    memset(sum, 0, (size_t)p->units * sizeof *sum);
    for (; *t >= 0 && *t < end; *t = next[*t])
        for (int64_t u = 0; u < p->units; u++) sum[u] += (double)d_out[*t * p->units + u];
}

/* lki_rows_added of the replica: the sum of a row at the first position that has its token. */
static void leave_sums(const embedding_plan *p, const lki_args *args, int64_t count, int32_t *head,
                       const int32_t *next, double *sum)
{
    int32_t *row = (int32_t *)(void *)args->factor[1];
    for (int64_t t = 0; t < count; t++) row[t] = -1;
    for (int64_t v = 0; v < p->vocabulary; v++) {
        const int32_t first = head[v];
        if (first < 0) continue;
        row[first] = (int32_t)v;
        sum_positions(p, next, args->d_out, count, &head[v], sum);
        for (int64_t u = 0; u < p->units; u++)
            args->factor[0][first * p->units + u] = lki_round(sum[u]);
    }
}

static lks_status cpu_embedding_backward(const lki_plan *plan, const lki_args *args)
{
    const embedding_plan *p = embedding(plan);
    char *memory = args->workspace;
    int32_t *head = (int32_t *)(void *)memory, *next = (int32_t *)(void *)(memory + p->next);
    double *sum = (double *)(void *)(memory + p->sum);
    const int64_t count = args->count * p->cpu.in;
    if (args->d_param[0] == NULL && args->factor[0] == NULL) return LKS_OK;
    list_positions(p, 0, p->vocabulary, count, args->in[0], head, next);
    if (args->factor[0] != NULL) {
        leave_sums(p, args, count, head, next, sum);
        return LKS_OK;
    }
    for (int64_t v = 0; v < p->vocabulary; v++) {
        float *row = args->d_param[0] + v * p->units;
        if (head[v] < 0) {
            if (!args->add_param) memset(row, 0, (size_t)p->units * sizeof *row);
            continue;
        }
        sum_positions(p, next, args->d_out, count, &head[v], sum);
        for (int64_t u = 0; u < p->units; u++)
            row[u] = args->add_param ? lki_flush(row[u] + lki_round(sum[u])) : lki_round(sum[u]);
    }
    return LKS_OK;
}

/* A row's sum over replicas. */
typedef struct row_sum {
    const embedding_plan *plan;
    const lki_rows *rows;
    const int32_t *next;
    int32_t t; /* the position that comes next; -1: none */
    double *sum;
    float *stack;
} row_sum;

/* Positions of replicas before this one that are here. */
static int64_t positions_before(const row_sum *r, int64_t replica)
{
    const int64_t *start = r->rows->start;
    return (start[replica] - start[r->rows->first]) * r->plan->cpu.in;
}

/* Replicas [lo, hi), by the tree over them; false where none has the token. */
static bool sum_node(row_sum *r, int64_t lo, int64_t hi, float *out)
{
    const int64_t units = r->plan->units, end = positions_before(r, hi);
    if (r->t < 0 || r->t >= end) return false;
    if (hi - lo == 1) {
        sum_positions(r->plan, r->next, r->rows->d_out, end, &r->t, r->sum);
        for (int64_t u = 0; u < units; u++) out[u] = lki_round(r->sum[u]);
        return true;
    }
    const int64_t middle = lki_tree_split(lo, hi);
    const bool left = sum_node(r, lo, middle, out);
    float *right = left ? r->stack : out;
    if (left) r->stack += units;
    const bool both = sum_node(r, middle, hi, right) && left;
    if (left) r->stack -= units;
    for (int64_t u = 0; both && u < units; u++) out[u] += right[u];
    return true;
}

/* A row's place in the list of heads, which has one for each row from the first on. */
static int64_t head_of(const lki_rows *rows, int64_t i)
{
    return rows->row != NULL ? rows->row[i] - rows->row[0] : i;
}

/* All of a node's rows, some at a time. */
static void give_rows(row_sum *r, lki_tree_node node, int32_t *head, float *given)
{
    const lki_rows *to = r->rows;
    const int64_t units = r->plan->units, most = given_rows(r->plan);
    for (int64_t first = 0, count; first < to->row_count; first += count) {
        count = to->row_count - first < most ? to->row_count - first : most;
        for (int64_t i = 0; i < count; i++) {
            float *row = given + i * units;
            int32_t *at = head + head_of(to, first + i);
            r->t = *at;
            if (!sum_node(r, node.lo, node.hi, row)) memset(row, 0, (size_t)units * sizeof *row);
            *at = r->t;
        }
        to->sum(to->user, node, 0, (to->row_first + first) * units, count * units, given);
    }
}

static void cpu_embedding_rows(const lki_plan *plan, const lki_rows *rows)
{
    const embedding_plan *p = embedding(plan);
    char *memory = rows->workspace;
    int32_t *head = (int32_t *)(void *)memory, *next = (int32_t *)(void *)(memory + p->next);
    row_sum r = {.plan = p,
                 .rows = rows,
                 .next = next,
                 .sum = (double *)(void *)(memory + p->sum),
                 .stack = (float *)(void *)(memory + p->stack)};
    list_positions(p, rows->row != NULL ? rows->row[0] : rows->row_first,
                   head_of(rows, rows->row_count - 1) + 1, positions_before(&r, rows->last),
                   (const int32_t *)(const void *)rows->in, head, next);
    for (int64_t at = rows->first; at < rows->last;) {
        const lki_tree_node node = lki_tree_maximal(rows->replicas, at, rows->last);
        if (rows->start[node.hi] > rows->start[at])
            give_rows(&r, node, head, (float *)(void *)(memory + p->given));
        at = node.hi;
    }
}

const lki_kernel lki_cpu_embedding = {
    .plan_bytes = sizeof(embedding_plan),
    .span = LKI_SPAN_SHARE,
    .plan = cpu_embedding_plan,
    .forward = cpu_embedding_forward,
    .backward = cpu_embedding_backward,
    .rows = cpu_embedding_rows,
    .lists = true,
};

/* Of what is added to a sample. */
static int64_t positions_floats(const lki_plan *plan)
{
    const lki_node *node = plan->cluster.node[0];
    return lki_node_positions(node) * node->out.shape.dim[1];
}

static lks_status cpu_position_plan(lki_plan *plan)
{
    LKI_TRY(lki_cpu_plan_start(plan));
    if (plan->cluster.node[0]->param_count > 0)
        plan->needs.sums_bytes = (size_t)lki_cpu(plan)->out * sizeof(double);
    else
        plan->needs.packed_bytes = (size_t)positions_floats(plan) * sizeof(float);
    return LKS_OK;
}

/* Sines and cosines lie where others have packed parameters. */
static void cpu_position_prepare(lki_plan *plan, const float *const param[], void *packed, int part,
                                 int parts)
{
    const lks_shape *in = &plan->cluster.node[0]->out.shape;
    const int64_t channels = in->dim[in->ndim - 1], count = positions_floats(plan);
    const int64_t end = lki_share(part + 1, parts, count);
    if (param[0] != NULL) return;
    for (int64_t e = lki_share(part, parts, count); e < end; e++)
        ((float *)packed)[e] = lki_round(lki_sinusoid(e / channels, e % channels, channels));
}

/* A class token stands in front, of the weight alone. */
static void forward_behind(const lki_cpu_plan *p, const lki_args *args)
{
    const float *weight = args->param[0];
    const int64_t front = p->out - p->in;
    for (int64_t s = 0; s < args->count; s++) {
        float *out = (float *)args->out + s * p->out;
        for (int64_t i = 0; i < front; i++) out[i] = lki_round((double)weight[i]);
        p->vector->product->rows_plus(1, p->in, (const float *)args->in[0] + s * p->in,
                                      weight + front, out + front);
    }
}

static lks_status cpu_position_forward(const lki_plan *plan, const lki_args *args)
{
    const lki_cpu_plan *p = lki_cpu(plan);
    const float *all = args->param[0] != NULL ? args->param[0] : args->packed;
    if (plan->cluster.node[0]->whole != NULL) /* samples are positions */
        p->vector->product->rows_plus(1, args->count * p->out, args->in[0], all + args->at * p->out,
                                      args->out);
    else if (p->out > p->in)
        forward_behind(p, args);
    else
        p->vector->product->rows_plus(args->count, p->out, args->in[0], all, args->out);
    return LKS_OK;
}

static lks_status cpu_position_backward(const lki_plan *plan, const lki_args *args)
{
    const lki_cpu_plan *p = lki_cpu(plan);
    double *sum = args->sums;
    if (args->d_in[0] != NULL && p->out > p->in)
        p->vector->element->move(args->count, p->in, args->d_out + p->out - p->in, p->out,
                                 args->d_in[0], p->in, args->add_in & 1);
    else if (args->d_in[0] != NULL)
        p->vector->element->pass(args->count * p->out, args->d_out, args->d_in[0],
                                 args->add_in & 1);
    if (args->d_param[0] == NULL) return LKS_OK;
    if (args->sample == 0) memset(sum, 0, plan->needs.sums_bytes);
    for (int64_t s = 0; s < args->count; s++)
        for (int64_t i = 0; i < p->out; i++) sum[i] += (double)args->d_out[s * p->out + i];
    for (int64_t i = 0; args->last && i < p->out; i++) args->d_param[0][i] = lki_round(sum[i]);
    return LKS_OK;
}

const lki_kernel lki_cpu_position = {
    .plan_bytes = sizeof(lki_cpu_plan),
    .span = LKI_SPAN_EITHER,
    .follows = true,
    .plan = cpu_position_plan,
    .prepare = cpu_position_prepare,
    .forward = cpu_position_forward,
    .backward = cpu_position_backward,
};

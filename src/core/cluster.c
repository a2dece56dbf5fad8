#include "core/cluster.h"

#include "core/graph.h"

bool lki_cluster_has(const lki_cluster *cluster, const lki_node *node)
{
    for (int i = 0; i < cluster->count; i++)
        if (cluster->node[i] == node) return true;
    return false;
}

const lki_node *lki_cluster_reader(const lki_cluster *cluster, int i)
{
    for (int n = 0; n < cluster->count; n++)
        for (int k = 0; k < cluster->node[n]->in_count; k++)
            if (!lki_cluster_has(cluster, cluster->node[n]->in[k]->node) && i-- == 0)
                return cluster->node[n];
    return NULL;
}

bool lki_cluster_close(lki_cluster *cluster)
{
    cluster->in_count = cluster->param_count = 0;
    cluster->counted = NULL;
    for (int n = 0; n < cluster->count; n++) {
        const lki_node *node = cluster->node[n];
        for (int i = 0; i < node->in_count; i++) {
            if (lki_cluster_has(cluster, node->in[i]->node)) continue;
            if (cluster->in_count == LKI_MAX_CLUSTER_IN) return false;
            cluster->in[cluster->in_count++] = node->in[i];
        }
        for (int i = 0; i < node->param_count; i++) {
            if (cluster->param_count == LKI_MAX_SLOTS) return false;
            cluster->param[cluster->param_count].owner = node;
            cluster->param[cluster->param_count++].index = i;
        }
        if (node->buffer_count == 0 && node->stats == 0) continue;
        if (cluster->counted != NULL) return false;
        cluster->counted = node;
    }
    return true;
}

lki_cluster lki_cluster_of(const lki_node *node)
{
    lki_cluster cluster = {.node = {node}, .count = 1};
    (void)lki_cluster_close(&cluster); /* one node's inputs and parameters have room */
    return cluster;
}

void lki_plan_pack(lki_plan *plan, const float *const param[], void *packed, int part, int parts)
{
    if (plan->kernel->prepare != NULL) plan->kernel->prepare(plan, param, packed, part, parts);
    for (int slot = 0; slot < LKI_MAX_SLOTS; slot++) {
        if ((plan->needs.packs >> slot & 1) == 0) continue;
        const lki_node *owner = plan->cluster.param[slot].owner;
        const int64_t rows = owner->param[plan->cluster.param[slot].index].shape.dim[0];
        const int64_t units = (rows + LKI_PACKED_ROWS - 1) / LKI_PACKED_ROWS;
        const int64_t first = lki_share(part, parts, units) * LKI_PACKED_ROWS;
        const int64_t end = lki_share(part + 1, parts, units) * LKI_PACKED_ROWS;
        const int64_t count = (end < rows ? end : rows) - first;
        if (count > 0) plan->kernel->pack(plan, slot, param[slot], packed, first, count);
    }
}

_Static_assert((int)LKI_MAX_IN <= (int)LKI_MAX_CLUSTER_IN, "room for a node's inputs");
_Static_assert((int)LKI_MAX_PARAM <= (int)LKI_MAX_SLOTS, "room for a node's parameters");

/* A match under way: the node that stands for each of the pattern's, NULL where it is missing. */
typedef struct match {
    const lki_impl *impl;
    const lki_node *tail;
    lki_hidden hidden;
    const void *user;
    const lki_node *at[LKI_MAX_CLUSTER];
} match;

static bool match_node(match *m, int p, const lki_node *node);

static bool match_inputs(match *m, int p, const lki_node *node, bool swapped)
{
    for (int i = 0; i < node->in_count; i++) {
        const int back = m->impl->pattern[p].from[swapped ? node->in_count - 1 - i : i];
        if (back > 0 && !match_node(m, p - back, node->in[i]->node)) return false;
    }
    return true;
}

static bool commutes(const lki_node *node)
{
    return (node->op == LKI_OP_ADD || node->op == LKI_OP_MUL) &&
           lki_shape_equal(&node->in[0]->shape, &node->in[1]->shape);
}

/* Whether the pattern's node p is `node`, or is missing and what it would read is. */
static bool match_node(match *m, int p, const lki_node *node)
{
    const lki_pattern_node *pattern = &m->impl->pattern[p];
    const match before = *m;
    if ((pattern->ops >> node->op & 1u) != 0 && (node == m->tail || m->hidden(m->user, node))) {
        m->at[p] = node;
        if (match_inputs(m, p, node, false)) return true;
        *m = before;
        m->at[p] = node;
        if (commutes(node) && match_inputs(m, p, node, true)) return true;
        *m = before;
    }
    if (!pattern->optional) return false;
    for (int i = 0; i < LKI_MAX_IN; i++)
        if (pattern->from[i] > 0) return match_node(m, p - pattern->from[i], node);
    return node != m->tail; /* at the pattern's border: what it would read is outside */
}

bool lki_impl_match(const lki_impl *impl, const lki_node *tail, lki_hidden hidden, const void *user,
                    lki_cluster *out)
{
    match m = {.impl = impl, .tail = tail, .hidden = hidden, .user = user};
    *out = (lki_cluster){0};
    if (!match_node(&m, impl->count - 1, tail)) return false;
    for (int p = 0; p < impl->count; p++) {
        if (m.at[p] == NULL) continue;
        int at = out->count++;
        for (; at > 0 && out->node[at - 1]->index > m.at[p]->index; at--)
            out->node[at] = out->node[at - 1];
        out->node[at] = m.at[p];
    }
    return lki_cluster_close(out);
}

static bool none_is_hidden(const void *user, const lki_node *node)
{
    (void)user;
    (void)node;
    return false;
}

const lki_impl *lki_impl_alone(const lki_backend *backend, const lki_node *node,
                               const lki_switches *switches)
{
    lki_cluster cluster;
    for (int i = 0; backend->impl[i] != NULL; i++) {
        const lki_impl *impl = backend->impl[i];
        if (lki_impl_match(impl, node, none_is_hidden, NULL, &cluster) &&
            (impl->refuses == NULL || impl->refuses(&cluster, switches) == NULL))
            return impl;
    }
    return NULL;
}

bool lki_backend_computes(const lki_backend *backend, lki_op_id op)
{
    for (int i = 0; backend->impl[i] != NULL; i++)
        if (backend->impl[i]->count == 1 && (backend->impl[i]->pattern[0].ops >> op & 1u) != 0)
            return true;
    return false;
}

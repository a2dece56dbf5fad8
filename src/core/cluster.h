/* Clusters of nodes, and where implementations' patterns occur in a graph. */
#ifndef LKI_CORE_CLUSTER_H
#define LKI_CORE_CLUSTER_H

#include "core/backend.h"

/* From node[] and count, all else. False: it reads more tensors or has more parameters than a cluster
 * has room for, or two of its nodes have buffers. */
bool lki_cluster_close(lki_cluster *cluster);
/* Of one node. */
lki_cluster lki_cluster_of(const lki_node *node);

bool lki_cluster_has(const lki_cluster *cluster, const lki_node *node);

/* One of its parameters is that of a node in front. */
static inline bool lki_cluster_is_tied(const lki_cluster *cluster)
{
    bool tied = false;
    for (int i = 0; i < cluster->param_count; i++)
        tied = tied || cluster->param[i].owner->param[cluster->param[i].index].of != NULL;
    return tied;
}

/* What the plan's kernel packs, if it does: part `part` of `parts`, each by another worker at the same time. */
void lki_plan_pack(lki_plan *plan, const float *const param[], void *packed, int part, int parts);

/* The node that reads in[i]. */
const lki_node *lki_cluster_reader(const lki_cluster *cluster, int i);

static inline const lki_node *lki_cluster_head(const lki_cluster *cluster)
{
    return cluster->node[0];
}
/* Its output is the cluster's. */
static inline const lki_node *lki_cluster_tail(const lki_cluster *cluster)
{
    return cluster->node[cluster->count - 1];
}

/* Whether a node's output has one reader that is needed, and nobody outside of the graph wants it. */
typedef bool (*lki_hidden)(const void *user, const lki_node *node);
/* Whether the pattern occurs with `tail` as its last node, and every other one hidden. */
bool lki_impl_match(const lki_impl *impl, const lki_node *tail, lki_hidden hidden, const void *user,
                    lki_cluster *out);

/* What computes the node alone: the first that does not refuse, or NULL. */
const lki_impl *lki_impl_alone(const lki_backend *backend, const lki_node *node,
                               const lki_switches *switches);
/* Whether there is an implementation of the operation alone, whatever it refuses. */
bool lki_backend_computes(const lki_backend *backend, lki_op_id op);

#endif

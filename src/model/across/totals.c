/* Where the sums over all ranks are, and those of statistics. */
#include "model/model.h"
#include "numeric/tree.h"

double *lki_sum_stats(const lks_model *model, double *stats, int64_t count, int64_t lo, int64_t hi)
{
    if (hi - lo == 1)
        return model->share_start[lo] != model->share_start[hi] ? stats + lo * count : NULL;
    const int64_t split = lki_tree_split(lo, hi);
    double *left = lki_sum_stats(model, stats, count, lo, split);
    double *right = lki_sum_stats(model, stats, count, split, hi);
    if (left != NULL && right != NULL)
        model->program.backend->memory->add_stats(count, left, right);
    return left != NULL ? left : right;
}

float *lki_across_array(const lks_model *model, int array, int k)
{
    const lki_across *across = model->across;
    return array == 0 ? model->reduce.holder[0].memory : across->rows + k * across->rows_count;
}

const float *lki_across_total(const lks_model *model, int weight, int64_t first, int64_t count,
                              float *space)
{
    const lki_across *across = model->across;
    const int64_t offset = model->weight[weight].offset;
    const int array = offset >= 0 ? 0 : 1, bucket = array == 0 ? 0 : across->near;
    const float *base = model->opts.exchange == LKS_EXCHANGE_NONE
                            ? lki_across_array(model, array, 0)
                            : lki_ranks_total(&across->sums, bucket) - across->at[bucket];
    const lki_sparse *sparse = lki_sparse_of(model, model->weight[weight].stage);
    base += array == 0 ? offset : across->rows_at[weight];
    if (sparse == NULL) return base + first;
    lki_sparse_spread(sparse, base, first, count, space);
    return space;
}

/* Likewise to a table's: the next of all ranks' nodes where it is this one, otherwise its children. */
static double *stats_below(const lks_model *model, int64_t offset, int64_t count, int *next,
                           lki_tree_node node)
{
    const lki_across *across = model->across;
    const lki_tree_node held = across->sums.node[*next];
    if (held.lo == node.lo && held.hi == node.hi) {
        double *sum = across->stats + *next * across->stats_count + offset;
        return across->sums.absent[(*next)++] ? NULL : sum;
    }
    const int64_t split = lki_tree_split(node.lo, node.hi);
    double *left = stats_below(model, offset, count, next, (lki_tree_node){node.lo, split});
    double *right = stats_below(model, offset, count, next, (lki_tree_node){split, node.hi});
    if (left != NULL && right != NULL)
        model->program.backend->memory->add_stats(count, left, right);
    return left != NULL ? left : right;
}

double *lki_across_stats(const lks_model *model, int64_t offset, int64_t count)
{
    int next = 0;
    return stats_below(model, offset, count, &next,
                       (lki_tree_node){.lo = 0, .hi = model->program.replicas});
}

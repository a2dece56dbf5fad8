/* From the sums of a rank's workers to those of all ranks: the picture in across.h. */
#include <string.h>

#include "base/check.h"
#include "model/model.h"
#include "numeric/tree.h"

enum { FLOATS = LKI_ALIGN / sizeof(float) };

/* The worker's part of the rank's nodes, of gradients by replica. */
static void form_nodes(lks_model *model, int worker)
{
    const lki_ranks *sums = &model->across->sums;
    const int64_t lines = model->gradient_count / FLOATS; /* it is a multiple */
    const int64_t first = lki_share(worker, model->workers, lines) * FLOATS;
    const int64_t count = lki_share(worker + 1, model->workers, lines) * FLOATS - first;
    for (int k = 0; k < lki_ranks_own(sums) && count > 0; k++)
        (void)lki_reduce_total(&model->reduce, lki_ranks_node(sums, k), first, count);
    lki_lap(model->worker[worker].local.laps, LKI_LAP_TREE);
}

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

/* The worker's part of the rank's statistics. */
static void form_stats(lks_model *model, int worker)
{
    const lki_across *across = model->across;
    const lki_program *program = &model->program;
    const int first = across->sums.node_of[across->rank];
    for (int s = 0; s < program->stages; s++) {
        const lki_stage *stage = &program->stage[s];
        const lki_node *counted = stage->cluster->counted;
        if (counted == NULL || counted->stats == 0 || s % model->workers != worker) continue;
        for (int k = 0; k < lki_ranks_own(&across->sums); k++) {
            const lki_tree_node node = lki_ranks_node(&across->sums, k);
            const double *sum = lki_sum_stats(model, program->stats + stage->stats_offset,
                                              counted->stats, node.lo, node.hi);
            double *to = across->stats + (first + k) * across->stats_count +
                         (int64_t)stage->stats_offset / program->replicas;
            if (sum != NULL) memcpy(to, sum, (size_t)counted->stats * sizeof *to);
        }
    }
}

/* All nodes of a rank at once; those that are absent are not looked at. */
static lks_status send_stats(lki_across *across)
{
    const int *node_of = across->sums.node_of;
    const size_t row = (size_t)across->stats_count * sizeof(double);
    int pieces = 0;
    for (int r = 0; r < across->ranks; r++) {
        if (r == across->rank) continue;
        across->outgoing[pieces] = (lki_piece){.rank = r,
                                               .data = across->stats +
                                                       node_of[across->rank] * across->stats_count,
                                               .bytes = (size_t)lki_ranks_own(&across->sums) * row};
        across->incoming[pieces++] = (lki_piece){
            .rank = r,
            .data = across->stats + node_of[r] * across->stats_count,
            .bytes = (size_t)(node_of[r + 1] - node_of[r]) * row};
        across->sums.bytes += (int64_t)across->outgoing[0].bytes;
    }
    return lki_comm_start(across->comm, &across->stats_flight, across->outgoing, pieces,
                          across->incoming, pieces, "statistics of batches");
}

static float *array_at(const lks_model *model, int array, int k)
{
    const lki_across *across = model->across;
    return array == 0 ? model->reduce.holder[0].memory : across->rows + k * across->rows_count;
}

/* Where own nodes are now, and where the totals go: the first array of each kind. */
static lks_status send_bucket(lks_model *model, int bucket)
{
    lki_across *across = model->across;
    const int64_t at = across->at[bucket];
    for (int k = 0; k < lki_ranks_own(&across->sums); k++) {
        across->values[k] = NULL;
        if (across->sums.absent[across->sums.node_of[across->rank] + k]) continue;
        if (across->array_of[bucket] == 1)
            across->values[k] = array_at(model, 1, k) + at;
        else
            across->values[k] = lki_reduce_total(&model->reduce, lki_ranks_node(&across->sums, k),
                                                 0, 0) +
                                at;
    }
    return lki_ranks_send(&across->sums, bucket, across->values,
                          array_at(model, across->array_of[bucket], 0) + at);
}

/* Behind the replicas of this rank. */
static lks_status tell_and_send(lks_model *model)
{
    lki_across *across = model->across;
    lks_status status = LKS_OK;
    for (int w = 0; w < model->workers && status == LKS_OK; w++) {
        status = model->worker[w].status;
        if (status != LKS_OK) lki_error_restore(&model->worker[w].error);
    }
    LKI_TRY(lki_across_tell(model, status));
    if (!across->well) return LKS_OK;
    if (across->stats_count > 0 && model->mode == LKI_TRAIN) LKI_TRY(send_stats(across));
    for (int b = 0; b < across->sums.buckets; b++) LKI_TRY(send_bucket(model, b));
    return LKS_OK;
}

static lks_status collect(lks_model *model)
{
    lki_across *across = model->across;
    for (int b = 0; b < across->sums.buckets; b++) LKI_TRY(lki_ranks_finish(&across->sums, b));
    return across->stats_count > 0 && model->mode == LKI_TRAIN
               ? lki_comm_wait(across->comm, across->stats_flight)
               : LKS_OK;
}

/* Worker 0 has done something that all wait for; whether they go on. */
static bool led(lks_model *model, int worker, lks_status status)
{
    lki_across *across = model->across;
    lki_laps *laps = model->worker[worker].local.laps;
    if (worker == 0 && status != LKS_OK) {
        across->status = status;
        across->error = *lks_last_error();
    }
    lki_lap(laps, LKI_LAP_RANKS);
    lki_workers_barrier(model->threads, worker);
    lki_lap(laps, worker == 0 ? LKI_LAP_WAIT_GRADIENTS : LKI_LAP_RANKS);
    return across->status == LKS_OK && across->well;
}

/* What worker 0 does before bucket `b` is combined, or behind the last. */
static lks_status advance(lks_model *model, int b)
{
    lki_ranks *sums = &model->across->sums;
    LKI_TRY(b == 0 ? tell_and_send(model) : lki_ranks_give(sums, b - 1));
    if (!model->across->well) return LKS_OK;
    return b < sums->buckets ? lki_ranks_arrive(sums, b) : collect(model);
}

bool lki_across_sum(lks_model *model, int worker, bool well)
{
    lki_ranks *sums = &model->across->sums;
    lki_laps *laps = model->worker[worker].local.laps;
    if (well) {
        form_nodes(model, worker);
        if (model->mode == LKI_TRAIN) form_stats(model, worker);
    }
    lki_workers_barrier(model->threads, worker);
    lki_lap(laps, LKI_LAP_WAIT_GRADIENTS);
    for (int b = 0; led(model, worker, worker == 0 ? advance(model, b) : LKS_OK); b++) {
        if (b == sums->buckets) return true;
        lki_ranks_combine(sums, b, worker, model->workers);
        lki_lap(laps, LKI_LAP_TREE);
        lki_workers_barrier(model->threads, worker);
        lki_lap(laps, LKI_LAP_WAIT_GRADIENTS);
    }
    return false;
}

const float *lki_across_total(const lks_model *model, int weight, int64_t first)
{
    const int64_t offset = model->weight[weight].offset;
    const int array = offset >= 0 ? 0 : 1;
    return array_at(model, array, 0) + (array == 0 ? offset : model->across->rows_at[weight]) +
           first;
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

/* From the sums of a rank's workers to those of all ranks: the picture in across.h. */
#include <string.h>

#include "base/check.h"
#include "model/update.h"
#include "numeric/tree.h"

enum { NOTHING = -1, ALL = -2 }; /* of combining */

/* What is combined at once: a bucket, in one of its rounds. Of two the second one of a bucket comes behind the first of
 * the next, so that it has had time to land: 0, 1, 0 again, 2, 1 again, 3, ... */
typedef struct unit {
    int bucket, round;
} unit;

static int units_of(const lki_ranks *sums)
{
    return sums->buckets * lki_ranks_rounds(sums);
}

static unit unit_at(const lki_ranks *sums, int number)
{
    if (lki_ranks_rounds(sums) == 1 || number == 0) return (unit){number, 0};
    if (number == units_of(sums) - 1) return (unit){sums->buckets - 1, 1};
    return number % 2 == 1 ? (unit){(number + 1) / 2, 0} : (unit){number / 2 - 1, 1};
}

/* Where own nodes of a bucket are, and where its total goes: the first array of its kind. What is not
 * `formed` has no sums, as something failed, but travels: others wait for it. */
static lks_status send(lks_model *model, int b, bool formed)
{
    lki_across *across = model->across;
    lki_ranks *sums = &across->sums;
    const int array = across->array_of[b];
    const int64_t at = across->at[b];
    for (int k = 0; k < lki_ranks_own(sums); k++) {
        const bool absent = sums->absent[sums->node_of[across->rank] + k];
        float *values = lki_across_array(model, array, array == 1 ? k : 0);
        if (array == 0 && formed && !absent)
            values = lki_reduce_total(&model->reduce, lki_ranks_node(sums, k), at, 0) - at;
        across->values[k] = values + at;
    }
    return lki_ranks_send(sums, b, across->values, lki_across_array(model, array, 0) + at);
}

/* What is complete now, and all else where nothing more comes. */
static lks_status send_complete(lks_model *model, bool rest)
{
    lki_across *across = model->across;
    for (; across->sent < across->near; across->sent++) {
        const bool formed = atomic_load_explicit(&across->pushed[across->sent],
                                                 memory_order_acquire) == model->workers + 1;
        if (!formed && !rest) break;
        LKI_TRY(send(model, across->sent, formed));
    }
    return LKS_OK;
}

/* The worker's sums of its replica are complete in this bucket. The worker that completes those of the
 * rank's last replica forms the rank's nodes. */
static void push(lks_model *model, int worker, int b, int64_t replica, float *values)
{
    lki_across *across = model->across;
    const int bucket = across->near - 1 - b; /* of the table, which has them in order of places */
    const int64_t *border = model->reduce.border;
    lki_reduce_push(&model->reduce, worker, bucket, (lki_tree_node){replica, replica + 1}, values);
    if (replica + 1 < model->worker[worker].last) return;
    if (atomic_fetch_add_explicit(&across->pushed[b], 1, memory_order_acq_rel) + 1 < model->workers)
        return;
    for (int k = 0; k < lki_ranks_own(&across->sums) && model->workers > 1; k++)
        (void)lki_reduce_total(&model->reduce, lki_ranks_node(&across->sums, k), border[bucket],
                               border[bucket + 1] - border[bucket]);
    atomic_fetch_add_explicit(&across->pushed[b], 1, memory_order_release);
}

/* Lets travel what does, and what is complete. */
static void progress(lks_model *model)
{
    lki_across *across = model->across;
    bool landed;
    if (across->trouble != LKS_OK || model->opts.exchange != LKS_EXCHANGE_OVERLAPPED) return;
    lks_status status = send_complete(model, false);
    const int number = across->combined + (across->combining >= 0); /* that has not arrived */
    const unit next = unit_at(&across->sums, number);
    if (status == LKS_OK && next.round == 0 && next.bucket < across->sent)
        status = lki_ranks_poll(&across->sums, next.bucket, 0, &landed);
    if (status == LKS_OK) return;
    across->trouble = status;
    across->error = *lks_last_error();
}

lks_status lki_across_begin(lks_model *model, const lks_batch *batch)
{
    lki_across *across = model->across;
    across->batch = batch;
    across->status = across->trouble = LKS_OK;
    across->sent = across->combined = 0;
    across->combining = across->stats_flight = NOTHING;
    for (int b = 0; b < across->near; b++) atomic_store(&across->pushed[b], 0);
    if (lki_averages(model)) across->sums.bytes = 0;
    lki_comm_step(across->comm, model->progress.step + 1);
    LKI_TRY(lki_comm_failure(
        across->comm)); /* others may still read what this rank has in common with them */
    return lki_ranks_reuse(&across->sums);
}

void lki_across_take(lks_model *model, int worker, int64_t replica, float *values)
{
    lki_forming *own = &model->across->forming[worker];
    own->model = model;
    own->worker = worker;
    own->replica = replica;
    own->next = 0;
    own->values = values;
}

void lki_across_formed(void *user, int segment)
{
    lki_forming *own = user;
    const lki_across *across = own->model->across;
    for (; own->next < across->near && across->segment_of[own->next] >= segment; own->next++)
        push(own->model, own->worker, own->next, own->replica, own->values);
    if (own->worker == 0) progress(own->model);
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

/* What failed in the middle of something else, for worker 0's turn. */
static lks_status trouble(const lki_across *across)
{
    if (across->trouble != LKS_OK) lki_error_restore(&across->error);
    return across->trouble;
}

lks_status lki_across_speak(lks_model *model, lks_status status)
{
    lki_across *across = model->across;
    if (model->opts.exchange == LKS_EXCHANGE_NONE || lki_averages(model) || model->common != NULL)
        return lki_across_tell(model, status);
    const lks_error error = *lks_last_error();
    LKI_TRY(send_complete(model, true));
    LKI_TRY(lki_sparse_tell(model, status == LKS_OK));
    if (status != LKS_OK) lki_error_restore(&error);
    LKI_TRY(lki_across_tell(model, status));
    LKI_TRY(lki_sparse_hear(model));
    for (int b = 0; b < across->sent && !across->well; b++)
        LKI_TRY(lki_ranks_arrive(&across->sums, b, 0));
    return LKS_OK;
}

/* Behind the replicas of this rank. */
static lks_status tell(lks_model *model)
{
    lks_status status = LKS_OK;
    LKI_TRY(trouble(model->across));
    for (int w = 0; w < model->workers && status == LKS_OK; w++) {
        status = model->worker[w].status;
        if (status != LKS_OK) lki_error_restore(&model->worker[w].error);
    }
    LKI_TRY(lki_across_speak(model, status));
    if (model->common != NULL && model->across->well) lki_common_hold(model);
    return LKS_OK;
}

static void form_rows(lks_model *model, int worker, int bucket)
{
    const lki_across *across = model->across;
    const int64_t begin = lki_balance_begin(model->balance);
    for (int c = across->chunk_of[bucket]; c < across->chunk_of[bucket + 1]; c++) {
        const lki_chunk *chunk = &across->chunk[c];
        lki_update_rows(model, worker, chunk->stage, chunk->first, chunk->count);
        if (worker == 0) progress(model);
    }
    lki_balance_spent(model, worker, begin);
}

/* What was combined goes on; where an update waits for sums of all ranks, that follows behind it. */
static lks_status go_on(lks_model *model, unit done)
{
    lki_ranks *sums = &model->across->sums;
    if (done.round + 1 < lki_ranks_rounds(sums)) return lki_ranks_next(sums, done.bucket);
    float *given = lki_spread_given(model, done.bucket);
    if (given != NULL && lki_spread_later(model)) return LKS_OK;
    return lki_ranks_give(sums, done.bucket, given);
}

static lks_status finish(lks_model *model)
{
    lki_ranks *sums = &model->across->sums;
    if (lki_spreads_now(model) && lki_spread_later(model)) return LKS_OK;
    for (int b = 0; b < sums->buckets; b++) LKI_TRY(lki_ranks_hand_on(sums, b));
    for (int b = 0; b < sums->buckets; b++) LKI_TRY(lki_ranks_finish(sums, b));
    return LKS_OK;
}

/* Worker 0's turn: sends rows up to bucket `last` of them, gives the bucket that was combined, and says
 * which is next. What is started, and in which order, may not depend on what has landed: it is to be the
 * same on all ranks. */
static lks_status turn(lks_model *model, int last)
{
    lki_across *across = model->across;
    lki_ranks *sums = &across->sums;
    const bool more = last < across->far;
    const bool stats = across->stats_count > 0 && model->mode == LKI_TRAIN;
    LKI_TRY(trouble(across));
    if (stats && across->stats_flight < 0) LKI_TRY(send_stats(across));
    for (; across->sent < across->near + last; across->sent++)
        LKI_TRY(send(model, across->sent, true));
    if (across->combining >= 0) LKI_TRY(go_on(model, unit_at(sums, across->combined++)));
    across->combining = NOTHING;
    const unit next = unit_at(sums, across->combined);
    if (across->combined < units_of(sums) &&
        (next.round > 0 ||
         next.bucket + more < across->sent)) { /* what has just been sent has time */
        across->combining = across->combined;
        return lki_ranks_arrive(sums, next.bucket, next.round);
    }
    if (more) return LKS_OK;
    LKI_TRY(finish(model));
    across->combining = ALL;
    return stats ? lki_comm_wait(across->comm, across->stats_flight) : LKS_OK;
}

bool lki_across_led(lks_model *model, int worker, lks_status status)
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

bool lki_common_meet(lks_model *model, int worker)
{
    return lki_across_led(
        model, worker,
        worker == 0 ? lki_comm_meet(model->across->comm, &model->common->meeting, "new parameters")
                    : LKS_OK);
}

bool lki_across_sum(lks_model *model, int worker)
{
    const lki_across *across = model->across;
    lki_laps *laps = model->worker[worker].local.laps;
    const int step = model->opts.exchange == LKS_EXCHANGE_OVERLAPPED ? 1 : across->far;
    if (!lki_across_led(model, worker, worker == 0 ? tell(model) : LKS_OK)) return false;
    if (lki_averages(model) || model->common != NULL) return true;
    if (model->mode == LKI_TRAIN) form_stats(model, worker);
    for (int formed = 0;;) {
        const int last = formed + step < across->far ? formed + step : across->far;
        for (; formed < last; formed++) form_rows(model, worker, formed);
        lki_workers_barrier(model->threads, worker);
        lki_lap(laps, LKI_LAP_WAIT_GRADIENTS);
        if (model->opts.exchange == LKS_EXCHANGE_NONE) return true;
        if (!lki_across_led(model, worker, worker == 0 ? turn(model, last) : LKS_OK)) return false;
        if (across->combining == ALL) return true;
        if (across->combining == NOTHING) continue;
        const unit now = unit_at(&across->sums, across->combining);
        lki_ranks_combine(&model->across->sums, now.bucket, now.round, worker, model->workers);
        lki_lap(laps, LKI_LAP_TREE);
        if (lki_spreads_now(model)) lki_spread_combined(model, worker, across->combining);
    }
}

static lks_status give_all(lks_model *model)
{
    lki_ranks *sums = &model->across->sums;
    for (int b = 0; b < sums->buckets; b++)
        LKI_TRY(lki_ranks_give(sums, b, lki_spread_given(model, b)));
    for (int b = 0; b < sums->buckets; b++) LKI_TRY(lki_ranks_finish(sums, b));
    return LKS_OK;
}

bool lki_across_give(lks_model *model, int worker)
{
    lki_workers_barrier(model->threads, worker);
    lki_lap(model->worker[worker].local.laps, LKI_LAP_WAIT_GRADIENTS);
    return lki_across_led(model, worker, worker == 0 ? give_all(model) : LKS_OK);
}

/*
 * Meetings: in the middle of a pass all replicas of the batch give numbers, which are merged in the tree, and go
 * on with what came of it. program.h has the picture of what each worker runs between two.
 *
 *   worker 0 of a rank                          other workers of it
 *   a leg of its replicas, which give           the same
 *   --------- barrier ------------------------------------------------------------------
 *   merges the rank's nodes; ranks gather       wait
 *   them; merges these, as every rank does
 *   --------- barrier ------------------------------------------------------------------
 *   the next leg                                the same
 *
 * With the nodes each rank says whether all is well. Where it is not, all leave the pass at this meeting, so a
 * rank that fails before one comes to it, and then to the word of the step.
 */
#include <string.h>

#include "base/check.h"
#include "model/model.h"

static int64_t numbers_of(const lks_model *model, int meeting)
{
    const lki_program *program = &model->program;
    return program->stage[program->meeting[meeting]].cluster->counted->meets;
}

lks_status lki_meet_plan(lks_model *model)
{
    const lki_program *program = &model->program;
    lki_across *across = model->across;
    void *memory;
    if (program->meetings == 0 || program->loss == NULL) return LKS_OK;
    LKI_TRY(lki_arena_alloc(&model->ranges, &memory, sizeof(lki_meeting), "meetings"));
    lki_meeting *meeting = model->meeting = memory;
    if (!lki_sums_across(model)) return LKS_OK;
    int64_t most = 0;
    for (int m = 0; m < program->meetings; m++)
        most = numbers_of(model, m) > most ? numbers_of(model, m) : most;
    for (int r = 0; r < across->ranks; r++) {
        const int nodes = across->sums.node_of[r + 1] - across->sums.node_of[r];
        meeting->nodes = nodes > meeting->nodes ? nodes : meeting->nodes;
    }
    const size_t row = (size_t)(1 + meeting->nodes * most) * sizeof(double);
    LKI_TRY(lki_arena_alloc(&model->ranges, &memory, ((size_t)across->ranks + 1) * row,
                            "what ranks give where they meet"));
    meeting->own = memory;
    meeting->all = meeting->own + 1 + meeting->nodes * most;
    return LKS_OK;
}

bool lki_meets_others(const lks_model *model)
{
    return model->meeting != NULL && lki_sums_across(model) &&
           model->opts.exchange != LKS_EXCHANGE_NONE;
}

/* Of one meeting. */
typedef struct task {
    const lks_model *model;
    const lki_stage *stage;
    int64_t count; /* doubles */
    bool backward;
    int next; /* of all ranks' nodes */
} task;

/* What comes of two, in the place of the left one; NULL: nobody is there. */
static double *merge(const task *t, double *left, double *right)
{
    const lki_memory *memory = t->model->program.backend->memory;
    if (left == NULL || right == NULL) return left != NULL ? left : right;
    if (t->backward)
        memory->add_stats(t->count, left, right);
    else
        memory->merge(t->stage->cluster->counted, left, right);
    return left;
}

/* Of replicas [lo, hi) in the tree, as far as they are this rank's. */
static double *of_replicas(const task *t, int64_t lo, int64_t hi)
{
    const lks_model *model = t->model;
    if (hi - lo == 1)
        return lo >= model->pass.first && lo < model->pass.last &&
                       model->share_start[lo] != model->share_start[hi]
                   ? lki_program_met(&model->program, t->stage, t->backward, lo)
                   : NULL;
    const int64_t split = lki_tree_split(lo, hi);
    double *left = of_replicas(t, lo, split);
    return merge(t, left, of_replicas(t, split, hi));
}

/* Likewise of the nodes that ranks have given, which come one behind the other. */
static double *of_ranks(task *t, int64_t lo, int64_t hi)
{
    const lks_model *model = t->model;
    const lki_ranks *sums = &model->across->sums;
    const lki_tree_node held = sums->node[t->next];
    if (held.lo == lo && held.hi == hi) {
        int rank = 0;
        while (sums->node_of[rank + 1] <= t->next) rank++;
        const int64_t row = 1 + model->meeting->nodes * t->count;
        double *given = model->meeting->all + rank * row + 1 +
                        (t->next - sums->node_of[rank]) * t->count;
        return sums->absent[t->next++] ? NULL : given;
    }
    const int64_t split = lki_tree_split(lo, hi);
    double *left = of_ranks(t, lo, split);
    return merge(t, left, of_ranks(t, split, hi));
}

/* This rank's nodes, and whether all is well here, to all ranks, and theirs to this one. */
static lks_status gather(const task *t, bool well)
{
    const lks_model *model = t->model;
    const lki_across *across = model->across;
    const size_t bytes = (size_t)t->count * sizeof(double);
    lki_meeting *meeting = model->meeting;
    meeting->own[0] = well ? 1 : 0;
    for (int k = 0; k < lki_ranks_own(&across->sums) && well; k++) {
        const lki_tree_node node = lki_ranks_node(&across->sums, k);
        const double *values = of_replicas(t, node.lo, node.hi);
        if (values != NULL) memcpy(meeting->own + 1 + k * t->count, values, bytes);
    }
    const int64_t row = 1 + meeting->nodes * t->count;
    LKI_TRY(lki_comm_gather(across->comm, meeting->own, (size_t)row * sizeof(double), meeting->all,
                            "statistics of the whole batch"));
    for (int r = 0; r < across->ranks; r++) meeting->well &= meeting->all[r * row] != 0;
    return LKS_OK;
}

/* What worker 0 does. */
static void lead(lks_model *model, int number, bool backward)
{
    const lki_program *program = &model->program;
    const lki_stage *stage = &program->stage[program->meeting[number]];
    task t = {
        .model = model, .stage = stage, .count = numbers_of(model, number), .backward = backward};
    const bool across = lki_meets_others(model);
    double *found, *result = lki_program_met(program, stage, backward, program->replicas);
    lki_meeting *meeting = model->meeting;
    meeting->well = true;
    for (int w = 0; w < model->workers; w++) meeting->well &= model->worker[w].status == LKS_OK;
    if (across) {
        const lks_status status = gather(&t, meeting->well);
        lki_lap_part(model->worker[0].local.laps, LKI_LAP_RANKS);
        if (status != LKS_OK) {
            meeting->well = false;
            model->across->trouble = status;
            model->across->error = *lks_last_error();
        }
    }
    if (!meeting->well) return;
    found = across ? of_ranks(&t, 0, program->replicas) : of_replicas(&t, 0, program->replicas);
    meeting->empty = found == NULL;
    if (found != NULL)
        program->backend->memory->copy(result, found, (size_t)t.count * sizeof(double));
    lki_lap_part(model->worker[0].local.laps, LKI_LAP_TREE);
}

bool lki_meet(lks_model *model, int worker, int number, bool backward)
{
    const lki_program *program = &model->program;
    lki_laps *laps = model->worker[worker].local.laps;
    if (backward && !program->stage[program->meeting[number]].backward) return true;
    const int64_t begin = lki_balance_begin(model->balance);
    lki_workers_barrier(model->threads, worker);
    lki_lap_part(laps, LKI_LAP_WAIT_GRADIENTS);
    if (worker == 0) lead(model, number, backward);
    lki_workers_barrier(model->threads, worker);
    lki_lap_part(laps, LKI_LAP_WAIT_GRADIENTS);
    lki_balance_waited(model, worker, begin);
    return model->meeting->well;
}

lks_status lki_meet_stay(lks_model *model)
{
    if (!lki_meets_others(model)) return LKS_OK;
    return gather(&(task){.model = model, .count = numbers_of(model, 0)}, false);
}

const double *lki_meet_result(const lks_model *model, const lki_stage *stage)
{
    if (model->meeting->empty) return NULL;
    return lki_program_met(&model->program, stage, false, model->program.replicas);
}

lks_status lki_meet_first(lks_model *model, int number, int *rank)
{
    const lki_across *across = model->across;
    double *all = model->meeting->all;
    model->meeting->own[0] = number;
    LKI_TRY(
        lki_comm_gather(across->comm, model->meeting->own, sizeof *all, all, "what is not finite"));
    *rank = 0;
    for (int r = 1; r < across->ranks; r++)
        if (all[r] < all[*rank]) *rank = r;
    return LKS_OK;
}

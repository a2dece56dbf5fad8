/* What the workers do: the picture in model.h. */
#include "base/check.h"
#include "model/update.h"

/* Where the gradients of the worker's next replica come to, the same array in every bucket: its own, or the one that they
 * are joined to. */
static float *take_array(lks_model *model, lki_local *local, int holder)
{
    local->joins = lki_reduce_left(&model->reduce, holder, 0);
    if (local->joins == NULL) return local->gradient = lki_reduce_array(&model->reduce, holder, 0);
    local->gradient = model->reduce.holder[holder].scratch;
    return local->joins;
}

/* The last leg of backward, behind which the gradients are complete; without meetings there is no other. */
static lks_status backward_replica(lks_model *model, lki_worker *worker, const lki_cohort *cohort,
                                   int64_t replica)
{
    const lki_pass *pass = &model->pass;
    const int own = (int)(worker - model->worker), holder = model->first_part + own;
    const lki_tree_node leaf = {.lo = replica, .hi = replica + 1};
    const bool absent = lki_program_cohort(&model->program, pass, replica, replica + 1).count == 0;
    const bool alone = !lki_sums_across(model);
    float *sums = absent ? NULL : take_array(model, &worker->local, holder);
    if (!alone) lki_across_take(model, own, replica, sums);
    if (!absent)
        LKI_TRY(lki_program_backward(&model->program, pass, cohort, replica, &worker->local));
    if (alone)
        lki_reduce_push(&model->reduce, holder, 0, leaf, sums);
    else
        lki_across_formed(&model->across->forming[own], 0);
    if (absent) return LKS_OK;
    lki_lap(worker->local.laps, LKI_LAP_TREE);
    return LKS_OK;
}

/* Of inference, where they are asked for. */
static bool gives_outputs(const lks_model *model)
{
    return (model->mode == LKI_PREDICT || model->mode == LKI_EVALUATE) &&
           model->predictions != NULL;
}

static lks_status run_cohort(lks_model *model, lki_worker *worker, const lki_cohort *cohort)
{
    const lki_program *program = &model->program;
    const lki_pass *pass = &model->pass;
    LKI_TRY(lki_program_forward(program, pass, cohort, &worker->local));
    if (pass->y != NULL) lki_metrics_count(model, worker, cohort);
    lki_lap(worker->local.laps, LKI_LAP_METRICS);
    if (pass->backward) {
        LKI_TRY(lki_program_backward_joint(program, pass, cohort, &worker->local));
        lki_rows_joint(model, worker, cohort);
        for (int64_t r = cohort->first; r < cohort->last; r++)
            LKI_TRY(backward_replica(model, worker, cohort, r));
    }
    if (gives_outputs(model))
        lki_program_copy_output(program, pass, cohort, &worker->local, model->predictions);
    return LKS_OK;
}

static void begin_replicas(lks_model *model, lki_worker *worker)
{
    worker->metrics = (lks_metrics){0};
    worker->bad_count = 0;
    worker->status = LKS_OK;
    lki_rows_expect(model, worker);
    if (model->pass.backward)
        lki_reduce_begin(&model->reduce, model->first_part + (int)(worker - model->worker));
}

static void run_replicas(lks_model *model, lki_worker *worker)
{
    const lki_program *program = &model->program;
    begin_replicas(model, worker);
    const int64_t shift = model->pass.first - model->worker[0].first; /* not 0 in inference alone */
    const int64_t last = worker->last + shift;
    for (int64_t r = worker->first + shift; r < last && worker->status == LKS_OK;
         r += program->cohort) {
        const int64_t end = r + program->cohort < last ? r + program->cohort : last;
        const lki_cohort cohort = lki_program_cohort(program, &model->pass, r, end);
        worker->status = run_cohort(model, worker, &cohort);
    }
    if (worker->status != LKS_OK) worker->error = *lks_last_error();
}

static void meet_team(void *user, int worker)
{
    const lks_model *model = user;
    lki_workers_barrier(model->threads, worker);
}

/* Inference of fewer samples than workers: all share each of them. The first one has what comes of it. */
static void run_team(lks_model *model, lki_worker *worker)
{
    const lki_program *program = model->one != NULL ? model->one : &model->program;
    const lki_pass *pass = &model->pass;
    lki_worker *first = &model->worker[0];
    lki_team team = {.memory = first->local.memory,
                     .part = (int)(worker - first),
                     .parts = lki_workers_few(model->threads),
                     .meet = meet_team,
                     .user = model};
    begin_replicas(model, worker);
    for (int w = team.parts; w < model->workers && worker == first; w++)
        model->worker[w].metrics = (lks_metrics){0};
    for (int64_t r = pass->first; r < pass->last; r += program->cohort) {
        const int64_t end = r + program->cohort < pass->last ? r + program->cohort : pass->last;
        const lki_cohort cohort = lki_program_cohort(program, pass, r, end);
        if (cohort.count == 0) continue;
        worker->local.team = team.parts > 1 ? &team : NULL;
        worker->status = lki_program_forward(program, pass, &cohort, &worker->local);
        worker->local.team = NULL;
        if (worker->status != LKS_OK) worker->error = *lks_last_error();
        if (worker == first && worker->status == LKS_OK) {
            if (pass->y != NULL) lki_metrics_count(model, worker, &cohort);
            if (gives_outputs(model))
                lki_program_copy_output(program, pass, &cohort, &worker->local, model->predictions);
        }
        if (team.parts > 1) lki_workers_barrier(model->threads, team.part);
    }
}

/* A leg of backward of all replicas of a worker. */
static lks_status backward_leg(lks_model *model, lki_worker *worker, const lki_cohort *all, int leg)
{
    const int holder = (int)(worker - model->worker);
    for (int64_t r = all->first; r < all->last; r++) {
        if (leg == 0) {
            LKI_TRY(backward_replica(model, worker, all, r));
            continue;
        }
        worker->local.gradient = lki_reduce_apart(&model->reduce, holder, r);
        LKI_TRY(
            lki_program_backward_leg(&model->program, &model->pass, all, r, &worker->local, leg));
    }
    return LKS_OK;
}

/* A failure is kept where it is met: the next one to speak in this thread may be another. */
static bool goes_on(lki_worker *worker, lks_status status)
{
    worker->status = status;
    if (status != LKS_OK) worker->error = *lks_last_error();
    return status == LKS_OK;
}

/* Training where all replicas meet: those of a worker are run together, leg by leg. */
static void run_together(lks_model *model, lki_worker *worker)
{
    const lki_program *program = &model->program;
    const lki_pass *pass = &model->pass;
    const lki_local *local = &worker->local;
    const int self = (int)(worker - model->worker), last = program->meetings;
    const lki_cohort all = lki_program_cohort(program, pass, worker->first, worker->last);
    begin_replicas(model, worker);
    for (int leg = 0; leg < last; leg++) {
        goes_on(worker, lki_program_forward_leg(program, pass, &all, local, leg));
        if (!lki_meet(model, self, leg, false)) return;
    }
    bool well = goes_on(worker, lki_program_forward_leg(program, pass, &all, local, last)) &&
                goes_on(worker, lki_program_forward_joint(program, pass, &all, local)) &&
                goes_on(worker, lki_program_backward_joint(program, pass, &all, local));
    for (int leg = last; leg > 0; leg--) {
        well = well && goes_on(worker, backward_leg(model, worker, &all, leg));
        if (!lki_meet(model, self, leg - 1, true)) return;
    }
    if (!well || !goes_on(worker, backward_leg(model, worker, &all, 0))) return;
    lki_metrics_count(model, worker, &all);
    lki_lap(worker->local.laps, LKI_LAP_METRICS);
}

/* The same answer on every worker, from what all wrote before the barrier. */
static bool all_well(const lks_model *model)
{
    for (int w = 0; w < model->workers; w++)
        if (model->worker[w].status != LKS_OK || model->worker[w].bad_count > 0) return false;
    return true;
}

/* What is frozen has been packed before the step. */
static bool is_updated(const lks_model *model, const lki_stage *stage)
{
    for (int p = 0; p < stage->cluster->param_count; p++)
        if (!model->weight[stage->weight[p]].frozen) return true;
    return false;
}

static void pack(lks_model *model, int worker, int part, int parts)
{
    lki_program *program = &model->program;
    lki_laps *laps = model->worker[worker].local.laps;
    for (int s = 0; s < program->stages; s++) {
        lki_stage *stage = &program->stage[s];
        if (stage->plan->needs.packed_bytes == 0) continue;
        if (stage->plan->needs.packs != 0 && lki_updates_pack(model)) continue; /* it has been */
        if (model->mode == LKI_TRAIN && !is_updated(model, stage)) continue;
        lki_plan_pack(stage->plan, (const float *const *)stage->param,
                      program->packed + stage->packed_offset, part, parts);
        lki_lap(laps, lki_lap_of(s, LKI_PHASE_PREPARE));
    }
}

/* Of parameters that ranks have in common, one part of all their workers'. */
static void job_prepare(lks_model *model, int worker)
{
    const bool own = model->common != NULL && model->program.packed != model->common->packed;
    if (own)
        pack(model, worker, worker, model->workers);
    else
        pack(model, worker, model->first_part + worker, model->parts);
}

/* Parts of tasks for each worker of ranks with parameters in common: a held one keeps others waiting for what is left
 * of its part. */
enum { PARTS_EACH = 4 };

static int pieces(const lks_model *model)
{
    return PARTS_EACH * model->parts;
}

static int64_t task_parts(const lks_model *model, lki_task task)
{
    return pieces(model) + (task == LKI_TASK_UPDATE ? lki_rows_parts(model) : 0);
}

static void take_update(lks_model *model, int worker, int64_t number)
{
    if (number < pieces(model))
        lki_update_gradients(model, worker, number, pieces(model));
    else
        lki_rows_part(model, worker, number - pieces(model));
}

static void take_pack(lks_model *model, int worker, int64_t number)
{
    lki_update_buffers(model, worker, number, pieces(model));
    pack(model, worker, (int)number, pieces(model));
}

static void job_task(lks_model *model, int worker, lki_task task)
{
    lki_tasks_take(model, worker, task, task_parts(model, task),
                   task == LKI_TASK_UPDATE ? take_update : take_pack);
}

/* Behind the update of parameters in common. False: another rank is lost. */
static bool job_end_in_common(lks_model *model, int worker)
{
    lki_laps *laps = model->worker[worker].local.laps;
    const bool new = model->forms_whole ? lki_model_meet(model, worker)
                                        : lki_tasks_done(model, worker, LKI_TASK_UPDATE,
                                                         task_parts(model, LKI_TASK_UPDATE));
    if (!new) return false;
    lki_lap(laps, LKI_LAP_WAIT_PARAMETERS);
    job_task(model, worker, LKI_TASK_PACK);
    return lki_tasks_done(model, worker, LKI_TASK_PACK, task_parts(model, LKI_TASK_PACK));
}

/* From gradients to new parameters. False: there are none, or another rank is lost. */
static bool job_update(lks_model *model, int worker)
{
    if (!lki_spreads_now(model)) {
        if (model->common != NULL) {
            job_task(model, worker, LKI_TASK_UPDATE);
        } else {
            lki_update_gradients(model, worker, worker, model->workers);
            if (!lki_sums_across(model)) lki_rows_take(model, worker);
        }
        return model->mode == LKI_GRADIENT || !model->forms_whole ||
               lki_whole_update(model, worker);
    }
    if (lki_spread_later(model) &&
        (!lki_whole_update(model, worker) || !lki_across_give(model, worker)))
        return false;
    lki_update_averages(model, worker);
    return true;
}

void lki_model_job(void *user, int worker)
{
    lks_model *model = user;
    lki_laps *laps = model->worker[worker].local.laps;
    switch (model->mode) {
    case LKI_EVALUATE:
    case LKI_PREDICT:
        (model->shares ? run_team : run_replicas)(model, &model->worker[worker]);
        return;
    case LKI_PREPARE:
        job_prepare(model, worker);
        return;
    case LKI_HASH:
        lki_state_hash_part(model, worker);
        return;
    case LKI_TRAIN:
    case LKI_GRADIENT:
        break;
    }
    lki_lap(laps, LKI_LAP_START);
    const int64_t begin = lki_balance_begin(model->balance);
    if (!lki_layers_formed(model))
        (model->meeting != NULL ? run_together : run_replicas)(model, &model->worker[worker]);
    lki_balance_spent(model, worker, begin);
    lki_rows_take_early(model, worker);
    lki_workers_barrier(model->threads, worker);
    lki_lap(laps, LKI_LAP_WAIT_GRADIENTS);
    if (model->across != NULL ? !lki_across_sum(model, worker) : !all_well(model)) return;
    if (model->alone.idle) {
        lki_average_idle(model, worker);
        return;
    }
    if (!job_update(model, worker)) return;
    if (model->mode == LKI_GRADIENT) {
        if (model->common != NULL) (void)lki_model_meet(model, worker);
        return;
    }
    if (model->common != NULL) {
        if (!job_end_in_common(model, worker)) return;
    } else {
        lki_update_buffers(model, worker, worker, model->workers);
        lki_workers_barrier(model->threads, worker);
        lki_lap(laps, LKI_LAP_WAIT_PARAMETERS);
        if (model->alone.ends) return; /* with the mean of all */
        job_prepare(model, worker);
    }
    if (!model->link_after) return;
    lki_state_hash_part(model, worker);
    lki_lap(laps, LKI_LAP_HASH);
}

/* Whether workers share every sample: there is one, or not one for each of them. Means with outputs of mirrored
 * images are one worker's affair. */
static bool shares_samples(const lks_model *model, lki_mode mode)
{
    const int64_t samples = lki_own_samples(model, &model->pass);
    return (mode == LKI_PREDICT || mode == LKI_EVALUATE) && model->pass.mirrored == NULL &&
           model->program.backend->memory->host &&
           (samples == 1 || samples < lki_workers_few(model->threads));
}

/* What workers say of a job that is done. */
static lks_status ended(const lks_model *model)
{
    const int present = model->shares ? lki_workers_few(model->threads) : model->workers;
    for (int w = 0; w < present; w++) {
        if (model->worker[w].status == LKS_OK) continue;
        lki_error_restore(&model->worker[w].error);
        return model->worker[w].status;
    }
    return LKS_OK;
}

lks_status lki_model_run_one(lks_model *model, const lki_program *one)
{
    model->mode = LKI_PREDICT;
    model->shares = true;
    model->one = one;
    lki_rows_begin(model);
    lki_workers_share(model->threads, lki_model_job, model);
    model->one = NULL;
    return ended(model);
}

/* Whether the calling thread takes the place of a worker, so that one thread less has to wake up, and none with one
 * worker. More workers than cores have to run all at once; and of several ranks workers alone talk to others. */
static bool caller_works(const lks_model *model)
{
    return model->shares ||
           (model->across == NULL && model->workers == lki_workers_few(model->threads));
}

lks_status lki_model_run(lks_model *model, lki_mode mode)
{
    model->mode = mode;
    if (mode != LKI_PREPARE && mode != LKI_HASH) lki_layers_forget(model);
    model->shares = shares_samples(model, mode);
    lki_rows_begin(model);
    (caller_works(model) ? lki_workers_share : lki_workers_run)(model->threads, lki_model_job,
                                                                model);
    return mode == LKI_PREPARE || mode == LKI_HASH ? LKS_OK : ended(model);
}

/* What the workers do: the picture in model.h. */
#include <string.h>

#include "base/check.h"
#include "base/tree.h"
#include "model/model.h"

static lks_status run_replica(lks_model *model, lki_worker *worker, int64_t replica)
{
    const lki_program *program = &model->program;
    const lki_pass *pass = &model->pass;
    const int64_t begin = lki_share(replica, program->replicas, pass->count);
    const int64_t count = lki_share(replica + 1, program->replicas, pass->count) - begin;
    if (count == 0) {
        if (pass->backward) lki_sum_push(model, worker, replica, NULL);
        return LKS_OK;
    }
    if (pass->backward) worker->local.gradient = lki_sum_array(worker);
    LKI_TRY(lki_program_run(program, pass, replica, &worker->local));
    if (pass->backward) lki_sum_push(model, worker, replica, worker->local.gradient);
    if (pass->y != NULL) lki_metrics_count(model, worker, replica);
    if (model->mode == LKI_PREDICT) {
        const int output = program->activation[program->output->node->index];
        const size_t bytes = program->value[output].bytes;
        memcpy((char *)model->predictions + (size_t)begin * bytes,
               lki_program_value(program, pass, replica, &worker->local, output),
               (size_t)count * bytes);
    }
    return LKS_OK;
}

static void run_replicas(lks_model *model, lki_worker *worker)
{
    worker->metrics = (lks_metrics){0};
    worker->bad_count = 0;
    worker->status = LKS_OK;
    if (model->pass.backward) lki_sum_begin(worker);
    for (int64_t r = worker->first; r < worker->last && worker->status == LKS_OK; r++)
        worker->status = run_replica(model, worker, r);
    if (worker->status != LKS_OK) worker->error = *lks_last_error();
}

/* The same answer on every worker, from what all wrote before the barrier. */
static bool all_well(const lks_model *model)
{
    for (int w = 0; w < model->workers; w++)
        if (model->worker[w].status != LKS_OK || model->worker[w].bad_count > 0) return false;
    return true;
}

static void prepare(lks_model *model, int worker)
{
    lki_program *program = &model->program;
    for (int s = 0; s < program->stages; s++) {
        lki_stage *stage = &program->stage[s];
        if (stage->kernel->prepare != NULL)
            stage->kernel->prepare(stage->plan, (const float *const *)stage->param,
                                   program->packed + stage->packed_offset, worker, model->workers);
    }
}

void lki_model_job(void *user, int worker)
{
    lks_model *model = user;
    switch (model->mode) {
    case LKI_EVALUATE:
    case LKI_PREDICT:
        run_replicas(model, &model->worker[worker]);
        return;
    case LKI_PREPARE:
        prepare(model, worker);
        return;
    case LKI_HASH:
        lki_state_hash_part(model, worker);
        return;
    case LKI_TRAIN:
    case LKI_GRADIENT:
        break;
    }
    run_replicas(model, &model->worker[worker]);
    lki_workers_barrier(model->threads, worker);
    if (!all_well(model)) return;
    lki_update_parameters(model, worker);
    if (model->mode == LKI_GRADIENT) return;
    lki_workers_barrier(model->threads, worker);
    prepare(model, worker);
    if (model->link_after) lki_state_hash_part(model, worker);
}

lks_status lki_model_run(lks_model *model, lki_mode mode)
{
    model->mode = mode;
    lki_workers_run(model->threads, lki_model_job, model);
    if (mode == LKI_PREPARE || mode == LKI_HASH) return LKS_OK;
    for (int w = 0; w < model->workers; w++) {
        if (model->worker[w].status == LKS_OK) continue;
        lki_error_restore(&model->worker[w].error);
        return model->worker[w].status;
    }
    return LKS_OK;
}

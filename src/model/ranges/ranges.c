/* What follows from who runs which replicas: tables of sums, and memory for them. */
#include "base/check.h"
#include "model/model.h"

int64_t lki_across_first(const lks_model *model, int worker)
{
    const lki_across *across = model->across;
    if (across != NULL) return across->border[across->first + worker];
    if (model->balance != NULL) return model->balance->border[worker];
    return lki_share(worker, model->opts.workers,
                     (int64_t)model->opts.replicas * model->opts.accumulate);
}

lks_status lki_ranges_plan(lks_model *model)
{
    const lki_program *program = &model->program;
    model->reduce = (lki_reduce){
        .backend = program->backend, .replicas = program->replicas, .apart = program->meetings > 0};
    const int first = model->first_part,
              holders = model->common != NULL ? model->parts : model->workers;
    LKI_TRY(
        lki_reduce_make(&model->reduce, &model->ranges, holders, model->buckets, model->border));
    for (int p = 0; p < holders; p++)
        LKI_TRY(lki_reduce_assign(&model->reduce, &model->ranges, p,
                                  lki_across_first(model, p - first),
                                  lki_across_first(model, p - first + 1)));
    for (int w = 0; w < model->workers; w++) {
        lki_worker *worker = &model->worker[w];
        worker->first = lki_across_first(model, w);
        worker->last = lki_across_first(model, w + 1);
    }
    LKI_TRY(lki_across_ranges(model));
    return lki_meet_plan(model);
}

size_t lki_worker_gradient_bytes(const lks_model *model, int worker)
{
    return model->program.loss != NULL
               ? lki_reduce_bytes(&model->reduce, model->first_part + worker)
               : 0;
}

lks_status lki_ranges_make(lks_model *model)
{
    const lki_memory *memory = model->program.backend->memory;
    if (model->program.loss == NULL || lki_sums_across(model) || model->common != NULL)
        return LKS_OK; /* lki_across_allocate() */
    for (int w = 0; w < model->workers; w++) {
        void *made;
        LKI_TRY(memory->alloc(model->context, &made, lki_worker_gradient_bytes(model, w),
                              "a worker's gradients"));
        model->reduce.holder[w].memory = made;
    }
    return LKS_OK;
}

void lki_ranges_release(lks_model *model)
{
    const lki_backend *backend = model->program.backend;
    const bool own = !lki_sums_across(model) && model->common == NULL;
    for (int w = 0; w < model->reduce.holders && own; w++)
        backend->memory->free(model->context, model->reduce.holder[w].memory,
                              lki_worker_gradient_bytes(model, w));
    lki_across_release(model);
    lki_arena_release(&model->ranges);
    model->reduce = (lki_reduce){0};
    model->meeting = NULL;
}

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
    /* Where replicas meet, all of a worker's are formed together. Nobody but the table reads those of one. */
    model->reduce = (lki_reduce){.backend = program->backend,
                                 .replicas = program->replicas,
                                 .apart = program->meetings > 0,
                                 .joins = true};
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

/* In which gradients are formed that are joined. */
static size_t scratch_bytes(const lks_model *model, int holder)
{
    return model->reduce.holder[holder].joins ? (size_t)model->program.joined_count * sizeof(float)
                                              : 0;
}

size_t lki_worker_gradient_bytes(const lks_model *model, int worker)
{
    const int holder = model->first_part + worker;
    return model->program.loss != NULL
               ? lki_reduce_bytes(&model->reduce, holder) + scratch_bytes(model, holder)
               : 0;
}

static lks_status make_scratch(lks_model *model)
{
    const lki_memory *memory = model->program.backend->memory;
    for (int w = 0; w < model->workers; w++) {
        const int holder = model->first_part + w;
        void *made;
        if (!model->reduce.holder[holder].joins) continue;
        LKI_TRY(memory->alloc(model->context, &made, scratch_bytes(model, holder),
                              "gradients of a stage"));
        model->reduce.holder[holder].scratch = made;
    }
    return LKS_OK;
}

lks_status lki_ranges_make(lks_model *model)
{
    const lki_memory *memory = model->program.backend->memory;
    if (model->program.loss == NULL) return LKS_OK;
    LKI_TRY(make_scratch(model));
    if (lki_sums_across(model) || model->common != NULL) return LKS_OK; /* lki_across_allocate() */
    for (int w = 0; w < model->workers; w++) {
        void *made;
        LKI_TRY(memory->alloc(model->context, &made, lki_reduce_bytes(&model->reduce, w),
                              "a worker's gradients"));
        model->reduce.holder[w].memory = made;
    }
    return LKS_OK;
}

void lki_ranges_release(lks_model *model)
{
    const lki_backend *backend = model->program.backend;
    const bool own = !lki_sums_across(model) && model->common == NULL;
    for (int h = 0; h < model->reduce.holders; h++) {
        lki_holder *holder = &model->reduce.holder[h];
        backend->memory->free(model->context, holder->scratch, scratch_bytes(model, h));
        if (own)
            backend->memory->free(model->context, holder->memory,
                                  lki_reduce_bytes(&model->reduce, h));
    }
    lki_across_release(model);
    lki_arena_release(&model->ranges);
    model->reduce = (lki_reduce){0};
    model->meeting = NULL;
}

/* Which parameters stages read, and packed ones: those that ranks have in common, and a rank's own. */
#include "base/check.h"
#include "model/common/common.h"
#include "model/model.h"

void lki_model_choose(lks_model *model, bool averages)
{
    if (model->averaged == averages) return;
    for (int s = 0; s < model->program.stages; s++) {
        lki_stage *stage = &model->program.stage[s];
        for (int p = 0; p < stage->cluster->param_count; p++) {
            const lki_weight *weight = &model->weight[stage->weight[p]];
            stage->param[p] = averages && weight->average != NULL ? weight->average : weight->value;
        }
    }
    model->averaged = averages;
    model->prepared = false;
}

bool lki_model_infers_averages(const lks_model *model)
{
    return model->use_averages && model->progress.step > model->progress.skipped;
}

static lks_status prepare(lks_model *model)
{
    lki_common *common = model->common;
    LKI_TRY(lki_comm_meet(model->across->comm, &common->meeting, "parameters"));
    LKI_TRY(lki_model_run(model, LKI_PREPARE));
    common->fresh = true;
    return lki_comm_meet(model->across->comm, &common->meeting, "packed parameters");
}

lks_status lki_common_begin(lks_model *model)
{
    lki_common *common = model->common;
    model->program.packed = common->packed;
    if (!common->fresh) LKI_TRY(prepare(model));
    model->prepared = true;
    return LKS_OK;
}

lks_status lki_common_infer(lks_model *model)
{
    lki_program *program = &model->program;
    lki_common *common = model->common;
    if (!model->averaged && common->fresh) {
        program->packed = common->packed;
        model->prepared = true;
        return LKS_OK;
    }
    if (common->own_packed == NULL) {
        void *memory;
        LKI_TRY(program->backend->memory->alloc(model->context, &memory, program->packed_bytes,
                                                "packed parameters"));
        common->own_packed = memory;
    }
    program->packed = common->own_packed;
    return LKS_OK;
}

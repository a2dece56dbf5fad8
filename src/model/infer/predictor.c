/* Predictions in the calling thread, with the parameters of a model and memory of one's own. */
#include <stdatomic.h>
#include <string.h>

#include "base/check.h"
#include "base/float.h"
#include "model/model.h"

struct lks_predictor {
    lks_context *context;
    lks_model *model;
    const lki_memory *memory;
    lki_local local;
    lki_mirror mirror;
    char *x;      /* copies of samples; NULL: kernels read them where they are */
    size_t bytes; /* of the device's memory */
    atomic_flag busy;
};

/* Memory as the model needs it now: a pass may have become larger. */
static lks_status predictor_fit(lks_predictor *predictor)
{
    const lks_model *model = predictor->model;
    const size_t own = model->program.local_bytes + model->program.workspace_bytes;
    const size_t behind = lki_align(own + model->program.kept_bytes);
    const size_t bytes = behind +
                         (predictor->memory->host ? lki_mirror_bytes(model) : model->batch_bytes);
    void *memory;
    if (predictor->local.memory != NULL && bytes <= predictor->bytes) return LKS_OK;
    LKI_TRY(
        predictor->memory->alloc(predictor->context, &memory, bytes, "a predictor's activations"));
    predictor->memory->free(predictor->context, predictor->local.memory, predictor->bytes);
    predictor->bytes = bytes;
    predictor->local.memory = memory;
    predictor->local.kept = predictor->local.memory + own;
    predictor->x = predictor->memory->host ? NULL : predictor->local.memory + behind;
    predictor->mirror = lki_mirror_place(model, predictor->local.memory + behind);
    return LKS_OK;
}

lks_status lks_predictor_create(lks_predictor **out, lks_model *model)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    *out = NULL;
    if (model == NULL) return LKI_FAIL_NULL(model);
    void *memory;
    LKI_TRY(lki_alloc(model->context, &memory, sizeof(lks_predictor), "a predictor"));
    lks_predictor *predictor = memory;
    predictor->context = model->context;
    predictor->model = model;
    predictor->memory = model->program.backend->memory;
    atomic_flag_clear(&predictor->busy);
    const lks_status status = predictor_fit(predictor);
    if (status != LKS_OK) {
        lks_predictor_destroy(predictor);
        return status;
    }
    *out = predictor;
    return LKS_OK;
}

void lks_predictor_destroy(lks_predictor *predictor)
{
    if (predictor == NULL) return;
    predictor->memory->free(predictor->context, predictor->local.memory, predictor->bytes);
    lki_free(predictor->context, predictor, sizeof *predictor);
}

/* Of predictors that find the packed parameters old, one packs them and the others wait. Nobody
 * reads them meanwhile: whoever is inside comes by here first. */
static lks_status predictor_prepare(lks_model *model)
{
    lki_program *program = &model->program;
    lks_status status = LKS_OK;
    pthread_mutex_lock(&model->preparing);
    lki_model_choose(model, lki_model_infers_averages(model));
    if (model->common != NULL) status = lki_common_infer(model);
    for (int s = 0; s < program->stages && !model->prepared && status == LKS_OK; s++) {
        lki_stage *stage = &program->stage[s];
        lki_plan_pack(stage->plan, (const float *const *)stage->param,
                      program->packed + stage->packed_offset, 0, 1);
    }
    model->prepared = model->prepared || status == LKS_OK;
    pthread_mutex_unlock(&model->preparing);
    return status;
}

/* As the workers do it: the same parts, shares and pieces, so the same bits. */
static lks_status predictor_pass(lks_predictor *predictor, const lki_pass *pass, float *out)
{
    const lki_program *program = &predictor->model->program;
    for (int64_t r = pass->first; r < pass->last; r += program->cohort) {
        const int64_t most = pass->last - r;
        const lki_cohort cohort = lki_program_cohort(
            program, pass, r, r + (most < program->cohort ? most : program->cohort));
        LKI_TRY(lki_program_forward(program, pass, &cohort, &predictor->local));
        lki_program_copy_output(program, pass, &cohort, &predictor->local, out);
    }
    return LKS_OK;
}

static lks_status predictor_predict(lks_predictor *predictor, const void *x, int64_t count,
                                    float *out)
{
    const lks_model *model = predictor->model;
    const lki_program *program = &model->program;
    const size_t in = lki_tensor_bytes(program->graph->input);
    const int64_t width = lks_shape_elements(&program->output->shape);
    for (int64_t first = 0; first < count;) {
        int64_t part;
        const char *samples = (const char *)x + (size_t)first * in;
        lki_pass pass = lki_infer_pass(model, count - first, &part);
        if (model->opts.mirror) {
            lki_mirror_images(model, &predictor->mirror, samples, part);
            pass.x = predictor->mirror.x;
            LKI_TRY(predictor_pass(predictor, &pass, predictor->mirror.out));
            pass.mirrored = predictor->mirror.out;
        }
        pass.x = lki_to_device(program->backend->memory, samples, predictor->x, (size_t)part * in);
        LKI_TRY(predictor_pass(predictor, &pass, out + first * width));
        first += part;
    }
    return LKS_OK;
}

lks_status lks_predictor_predict(lks_predictor *predictor, const void *x, int64_t count, float *out)
{
    if (predictor == NULL) return LKI_FAIL_NULL(predictor);
    LKI_TRY(lki_check_predict(predictor->model, x, count, out));
    if (atomic_flag_test_and_set_explicit(&predictor->busy, memory_order_acquire))
        return LKI_FAIL(LKS_E_STATE,
                        "%s(): another thread is using the predictor; make one for "
                        "each thread",
                        __func__);
    lks_status status = lki_model_enter_shared(predictor->model, __func__);
    if (status == LKS_OK) {
        const unsigned saved = lki_float_enter();
        status = predictor_prepare(predictor->model);
        if (status == LKS_OK) status = predictor_fit(predictor);
        if (status == LKS_OK) status = predictor_predict(predictor, x, count, out);
        lki_float_leave(saved);
        status = lki_model_leave_shared(predictor->model, status);
    }
    atomic_flag_clear_explicit(&predictor->busy, memory_order_release);
    return status;
}

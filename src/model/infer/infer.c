/* The public calls in which a model learns nothing: evaluate, predict. */
#include "base/check.h"
#include "model/model.h"
#include "model/step/batch.h"

static lks_status use_averages(lks_model *model, bool use)
{
    bool averages = false;
    for (int w = 0; w < model->weights; w++) averages |= model->weight[w].average != NULL;
    if (use && !averages)
        return LKI_FAIL(LKS_E_STATE, "the model keeps no averages of its parameters; compile it "
                                     "with ema_decay");
    model->use_averages = use;
    return LKS_OK;
}

lks_status lks_model_use_averages(lks_model *model, bool use)
{
    LKI_TRY(lki_model_enter(model, __func__));
    return lki_model_leave(model, use_averages(model, use));
}

/* The last replicas take so many samples of a batch of n that every count up to their most is that of
 * some n; which replicas run a sample changes nothing in inference. */
lki_pass lki_infer_pass(const lks_model *model, int64_t left, int64_t *count)
{
    const lki_program *program = &model->program;
    const int64_t replicas = program->replicas, own = program->pass_replicas;
    *count = left < program->max_pass ? left : program->max_pass;
    return lki_program_pass(program, replicas - own, replicas, (*count - 1) * replicas / own + 1);
}

/* A pass over images as in a mirror, whose outputs the pass over the images themselves then takes the means with. */
static lks_status infer_mirrored(lks_model *model, lki_pass *pass, const void *x, int64_t count)
{
    lki_mirror_images(model, &model->mirror, x, count);
    model->pass = *pass;
    model->pass.x = model->mirror.x;
    model->predictions = model->mirror.out;
    pass->mirrored = model->mirror.out;
    return lki_model_run(model, LKI_PREDICT);
}

lks_status lki_infer_begin(lks_model *model)
{
    lki_model_choose(model, lki_model_infers_averages(model));
    if (model->common != NULL) LKI_TRY(lki_common_infer(model));
    return lki_model_prepare(model);
}

/* Runs inference over any number of samples, a global batch at a time, by count and configuration alone. */
static lks_status infer(lks_model *model, const lks_batch *batch, lks_metrics *sum, float *out)
{
    const lki_mode mode = sum != NULL ? LKI_EVALUATE : LKI_PREDICT;
    const size_t x_bytes = lki_tensor_bytes(model->program.graph->input);
    const int64_t width = lks_shape_elements(&model->program.output->shape);
    LKI_TRY(lki_infer_begin(model));
    for (int64_t first = 0; first < batch->count;) {
        int64_t part;
        const char *images = (const char *)batch->x + (size_t)first * x_bytes;
        lki_pass pass = lki_infer_pass(model, batch->count - first, &part);
        if (model->opts.mirror) LKI_TRY(infer_mirrored(model, &pass, images, part));
        lki_place_samples(model, &pass, batch, first, part);
        if (sum != NULL) lki_carried_evaluate(model, &pass, batch, first);
        model->pass = pass;
        model->predictions = out != NULL ? out + first * width : NULL;
        LKI_TRY(lki_model_run(model, mode));
        if (sum != NULL) lki_gather_metrics(model, sum);
        first += part;
    }
    return LKS_OK;
}

static lks_status evaluate(lks_model *model, const lks_batch *batch, lks_metrics *sum, float *out)
{
    if (batch->count < 0)
        return LKI_FAIL(LKS_E_INVALID, "the batch has %lld samples, expected at least 0",
                        (long long)batch->count);
    LKI_TRY(lki_check_batch(model, batch));
    LKI_TRY(lki_carried_check(model, batch));
    return infer(model, batch, sum, out);
}

lks_status lks_model_evaluate(lks_model *model, const lks_batch *batch, lks_metrics *sum)
{
    if (batch == NULL) return LKI_FAIL_NULL(batch);
    if (sum == NULL) return LKI_FAIL_NULL(sum);
    LKI_TRY(lki_model_enter(model, __func__));
    return lki_model_leave(model, evaluate(model, batch, sum, NULL));
}

lks_status lks_model_evaluate_outputs(lks_model *model, const lks_batch *batch, lks_metrics *sum,
                                      float *out)
{
    if (batch == NULL || sum == NULL || out == NULL)
        return LKI_FAIL(LKS_E_INVALID, "%s() got no batch, sum or out", __func__);
    LKI_TRY(lki_model_enter(model, __func__));
    return lki_model_leave(model, evaluate(model, batch, sum, out));
}

lks_status lki_check_predict(const lks_model *model, const void *x, int64_t count, const float *out)
{
    if (count >= 0 && (count == 0 || (x != NULL && out != NULL)))
        return model != NULL ? lki_check_tokens(model, x, count) : LKS_OK;
    return LKI_FAIL(LKS_E_INVALID, "predict got %lld sample%s%s", (long long)count, LKI_S(count),
                    count < 0 ? ", expected at least 0" : " but no x or no out");
}

lks_status lks_model_predict(lks_model *model, const void *x, int64_t count, float *out)
{
    LKI_TRY(lki_check_predict(model, x, count, out));
    LKI_TRY(lki_model_enter(model, __func__));
    return lki_model_leave(model, infer(model, &(lks_batch){.x = x, .count = count}, NULL, out));
}

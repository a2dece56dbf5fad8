/* What a model can take: its tokens and labels are read here once, so that no kernel has to defend itself. */
#include <stdio.h>

#include "base/check.h"
#include "model/model.h"
#include "model/step/batch.h"

static lks_status check_label(const lks_batch *batch, int64_t i, int32_t label, int64_t classes)
{
    if (label >= 0 && label < classes) return LKS_OK;
    return LKI_FAIL(LKS_E_INVALID,
                    "the label of sample %lld is %d, expected 0 to %lld: the network has %lld "
                    "class%s",
                    (long long)(batch->ids != NULL ? batch->ids[i] : i), label,
                    (long long)classes - 1, (long long)classes, classes == 1 ? "" : "es");
}

int64_t lki_positions_of(const lks_model *model)
{
    const lks_tensor *target = model->program.graph->target;
    return target->dtype == LKS_I32 && target->shape.ndim > 0 ? lks_shape_elements(&target->shape)
                                                              : 0;
}

static lks_status check_classes(const lks_batch *batch, int64_t classes, int64_t positions)
{
    const int32_t *label = batch->y;
    for (int64_t i = 0; i < batch->count * positions; i++)
        if (label[i] != LKS_NO_CLASS) LKI_TRY(check_label(batch, i / positions, label[i], classes));
    if (batch->mix == NULL) return LKS_OK;
    return LKI_FAIL(LKS_E_INVALID,
                    "the batch mixes samples, but these have a class for each of "
                    "%lld positions; leave out the batch's mix",
                    (long long)positions);
}

static lks_status check_labels(const lks_model *model, const lks_batch *batch)
{
    const lks_tensor *target = model->program.graph->target;
    const int64_t classes = ((const lks_target_opts *)target->node->attr)->classes;
    const int64_t positions = lki_positions_of(model);
    if (positions > 0) return check_classes(batch, classes, positions);
    for (int64_t i = 0; i < batch->count; i++)
        LKI_TRY(check_label(batch, i, ((const int32_t *)batch->y)[i], classes));
    for (int64_t i = 0; batch->mix != NULL && i < batch->count; i++) {
        const lks_mix *mix = &batch->mix[i];
        LKI_TRY(check_label(batch, i, mix->label, classes));
        if (!(mix->weight >= 0 && mix->weight <= 1))
            return LKI_FAIL(LKS_E_INVALID,
                            "of sample %lld the class it is mixed with has the weight %g, expected "
                            "0 to 1",
                            (long long)(batch->ids != NULL ? batch->ids[i] : i),
                            (double)mix->weight);
    }
    return LKS_OK;
}

lks_status lki_check_tokens(const lks_model *model, const void *x, int64_t count)
{
    const lks_tensor *input = model->program.graph->input;
    if (input->dtype != LKS_I32) return LKS_OK;
    const int64_t vocabulary = ((const lks_input_opts *)input->node->attr)->vocabulary;
    const int64_t elements = lks_shape_elements(&input->shape);
    const int32_t *token = x;
    for (int64_t i = 0; i < count * elements; i++)
        if (token[i] < 0 || token[i] >= vocabulary)
            return LKI_FAIL(LKS_E_INVALID,
                            "token %lld of sample %lld is %d, expected 0 to %lld: the vocabulary "
                            "of '%s' has %lld",
                            (long long)(i % elements), (long long)(i / elements), token[i],
                            (long long)vocabulary - 1, input->node->name, (long long)vocabulary);
    return LKS_OK;
}

lks_status lki_check_batch(const lks_model *model, const lks_batch *batch)
{
    const lks_tensor *target = model->program.graph->target;
    if (model->program.loss == NULL)
        return LKI_FAIL(LKS_E_STATE, "the model was compiled without a loss and can only predict; "
                                     "give lks_model_opts a loss");
    if (batch->count > 0 && (batch->x == NULL || batch->y == NULL))
        return LKI_FAIL(LKS_E_INVALID, "the batch has no %s", batch->x == NULL ? "x" : "y");
    LKI_TRY(lki_check_tokens(model, batch->x, batch->count));
    if (target->dtype == LKS_I32) return check_labels(model, batch);
    if (batch->mix == NULL) return LKS_OK;
    return LKI_FAIL(LKS_E_INVALID,
                    "the batch mixes classes, but the network's target '%s' has floats; mix these "
                    "themselves, and leave out the batch's mix",
                    target->node->name);
}

/* "28x28x1 U8" */
static const char *print_type(const lks_shape *shape, lks_dtype dtype, char *buffer, size_t size)
{
    char text[96];
    snprintf(buffer, size, "%s %s", lki_shape_print(shape, text, sizeof text),
             lks_dtype_name(dtype));
    return buffer;
}

static lks_status check_part(const char *name, const char *what, const lks_shape *shape,
                             lks_dtype dtype, const lks_tensor *tensor)
{
    char found[112], expected[112];
    if (dtype == tensor->dtype && lki_shape_equal(shape, &tensor->shape)) return LKS_OK;
    return LKI_FAIL(LKS_E_SHAPE,
                    "data '%.80s' has %s of %s, but '%s' of the network is %s; they "
                    "must be equal",
                    name, what, print_type(shape, dtype, found, sizeof found), tensor->node->name,
                    print_type(&tensor->shape, tensor->dtype, expected, sizeof expected));
}

lks_status lks_model_check_data(const lks_model *model, const lks_dataset *dataset)
{
    if (model == NULL) return LKI_FAIL_NULL(model);
    if (dataset == NULL) return LKI_FAIL_NULL(dataset);
    const lks_graph *graph = model->program.graph;
    const lks_dataset_info info = lks_dataset_get_info(dataset);
    const char *name = lks_dataset_name(dataset);
    LKI_TRY(check_part(name, "samples", &info.shape, info.dtype, graph->input));
    if (model->program.loss == NULL) return LKS_OK;
    LKI_TRY(lki_carried_check_data(model, name, info.columns));
    return check_part(name, "targets", &info.target_shape, info.classes > 0 ? LKS_I32 : LKS_F32,
                      graph->target);
}

lki_pass lki_own_pass(const lks_model *model, int64_t whole)
{
    return lki_program_pass(&model->program, model->worker[0].first,
                            model->worker[model->workers - 1].last, whole);
}

/* Of classes at positions, those that are there in samples [first, first + count) of the batch. */
static int64_t count_classes(const lks_model *model, const lks_batch *batch, int64_t first,
                             int64_t count)
{
    const int64_t positions = lki_positions_of(model);
    const int32_t *label = (const int32_t *)batch->y + first * positions;
    int64_t found = 0;
    for (int64_t i = 0; i < count * positions; i++) found += label[i] != LKS_NO_CLASS;
    return found;
}

/* model->counted. A mean over nothing is none. */
static lks_status count_losses(lks_model *model, const lks_batch *batch)
{
    const bool whole = batch->count == lki_whole_of(batch);
    const lki_pass pass = lki_own_pass(model, lki_whole_of(batch));
    const int64_t own = lki_own_samples(model, &pass);
    if (lki_positions_of(model) == 0) {
        model->counted = lki_averages(model) ? own : pass.count;
        return LKS_OK;
    }
    const int64_t found = count_classes(model, batch, 0, batch->count);
    if (!whole && batch->counted <= 0)
        return LKI_FAIL(LKS_E_INVALID, "the batch is a part, and does not say how many positions "
                                       "of all of it have a class; set its counted");
    if (whole ? batch->counted != 0 && batch->counted != found : found > batch->counted)
        return LKI_FAIL(LKS_E_INVALID,
                        "%lld positions of the batch have a class, and its counted is %lld",
                        (long long)found, (long long)batch->counted);
    if (whole && found == 0)
        return LKI_FAIL(LKS_E_INVALID, "no position of the batch has a class; give it some");
    model->counted = whole ? found : batch->counted;
    if (lki_averages(model))
        model->counted = count_classes(model, batch, whole ? pass.begin : 0, own);
    return LKS_OK;
}

/* A batch is given whole, or, with several ranks, as what this one's replicas take of it. */
static lks_status check_parts(const lks_model *model, const lks_batch *batch)
{
    if (batch->whole == 0 || batch->whole == batch->count) return LKS_OK;
    if (model->across == NULL)
        return LKI_FAIL(
            LKS_E_INVALID,
            "the batch is a part, %lld of %lld samples, and one process takes a step with all "
            "of them; give its loader no shares",
            (long long)batch->count, (long long)batch->whole);
    const lki_pass pass = lki_own_pass(model, batch->whole);
    const int64_t count = lki_own_samples(model, &pass);
    if (batch->count == count && (batch->first == pass.begin || count == 0)) return LKS_OK;
    return LKI_FAIL(LKS_E_INVALID,
                    "the batch is a part, samples %lld to %lld of %lld, and the replicas of this "
                    "rank take %lld to %lld; give its loader the shares of lks_model_get_info()",
                    (long long)batch->first, (long long)(batch->first + batch->count),
                    (long long)batch->whole, (long long)pass.begin,
                    (long long)(pass.begin + count));
}

lks_status lki_check_train_batch(lks_model *model, const lks_batch *batch)
{
    const int64_t whole = lki_whole_of(batch);
    const lki_backend *backend = model->program.backend;
    if (backend->update == NULL || backend->add == NULL)
        return LKI_FAIL(LKS_E_UNSUPPORTED,
                        "device '%s' cannot train, only predict; choose another device",
                        backend->name);
    if (whole < 1 || whole > model->program.global_batch)
        return LKI_FAIL(LKS_E_INVALID,
                        "the batch has %lld samples, expected 1 to %lld, the model's global_batch",
                        (long long)whole, (long long)model->program.global_batch);
    LKI_TRY(check_parts(model, batch));
    LKI_TRY(lki_carried_check_step(model, whole));
    LKI_TRY(lki_check_batch(model, batch));
    return count_losses(model, batch);
}

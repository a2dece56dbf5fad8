/* The public calls that take a step apart: forward, backward, update. */
#include <string.h>

#include "base/check.h"
#include "model/layers/layers.h"
#include "model/step/batch.h"

lks_status lki_layers_options(lks_model_opts *opts)
{
    if (!opts->layers) return LKS_OK;
    if (opts->replicas > 1 || opts->accumulate > 1 || opts->workers > 1 || opts->comm != NULL)
        return LKI_FAIL(LKS_E_UNSUPPORTED,
                        "layers: true is for one process with one worker and one replica, and this "
                        "model has %s; leave layers out, or the others at 1",
                        opts->comm != NULL   ? "a communicator"
                        : opts->workers > 1  ? "several workers"
                        : opts->replicas > 1 ? "several replicas"
                                             : "accumulated replicas");
    if (opts->recompute)
        return LKI_FAIL(LKS_E_UNSUPPORTED,
                        "layers: true keeps every activation, and recompute asks for as few as "
                        "there can be; leave one of them out");
    if (opts->kernels.bf16_storage)
        return LKI_FAIL(LKS_E_UNSUPPORTED,
                        "layers: true shows activations as they are, and bf16_storage keeps them "
                        "rounded; leave one of them out");
    if (opts->loss_scale > 1 || opts->loss_scale_steps > 0)
        return LKI_FAIL(
            LKS_E_UNSUPPORTED,
            "layers: true shows gradients as they are, and loss_scale makes them larger "
            "until the update; leave one of them out");
    opts->replicas = opts->workers = 1;
    opts->kernels.single = opts->by_replica = true;
    return LKS_OK;
}

/* Whether a gradient of the output alone is enough to form all others: every stage in front has a reader there, and only
 * the loss is behind. */
static bool begins_at_output(const lki_program *program)
{
    const int output = program->gradient[program->output->node->index];
    int last = program->stages - 1;
    while (last >= 0 && program->stage[last].d_out != output) last--;
    if (output == LKI_NO_VALUE || last < 0) return false;
    for (int s = 0; s < program->stages; s++) {
        const lki_stage *stage = &program->stage[s];
        bool read = s >= last || !stage->backward;
        for (int r = s + 1; r <= last && !read; r++)
            for (int i = 0; i < LKI_MAX_CLUSTER_IN; i++)
                read = read || program->stage[r].d_in[i] == stage->d_out;
        if (!read) return false;
        for (int i = 0; s > last && i < LKI_MAX_CLUSTER_IN; i++)
            if (!stage->needs_target && stage->d_in[i] != LKI_NO_VALUE) return false;
        for (int i = 0; stage->needs_target && i < LKI_MAX_CLUSTER_IN; i++)
            if (stage->d_in[i] != LKI_NO_VALUE && stage->d_in[i] != output) return false;
    }
    return true;
}

lks_status lki_layers_make(lks_model *model)
{
    void *memory;
    if (!model->opts.layers) return LKS_OK;
    if (model->program.meetings > 0)
        return LKI_FAIL(LKS_E_UNSUPPORTED,
                        "layers: true has one replica, and '%s' takes the statistics of all that "
                        "there are; leave its sync out",
                        model->program.stage[model->program.meeting[0]].cluster->counted->name);
    LKI_TRY(lki_arena_alloc(&model->arena, &memory, sizeof(lki_layers), "layers"));
    model->layers = memory;
    model->layers->from_output = begins_at_output(&model->program);
    return lki_layers_list(model);
}

static size_t sums_bytes(const lks_model *model)
{
    return (size_t)model->gradient_count * sizeof(float);
}

void lki_layers_release(lks_model *model)
{
    lki_layers *layers = model->layers;
    if (layers == NULL) return;
    model->program.backend->memory->free(model->context, layers->more, sums_bytes(model));
    lki_free(model->context, layers->read, layers->read_bytes);
}

/* The worker's memory, used in this thread while the worker sleeps. */
static lki_local local_of(const lks_model *model, float *gradient)
{
    const lki_local *own = &model->worker[0].local;
    return (lki_local){
        .memory = own->memory, .kept = own->kept, .gradient = gradient, .laps = own->laps};
}

static lks_status forward(lks_model *model, const lks_batch *batch, bool training,
                          lks_metrics *metrics)
{
    const lki_program *program = &model->program;
    lki_layers *layers = model->layers;
    lki_worker *worker = &model->worker[0];
    LKI_TRY(lki_check_train_batch(model, batch));
    layers->activations = layers->follows = layers->gradients = false;
    LKI_TRY(lki_begin_pass(model, batch));
    model->pass.training = model->pass.backward = training;
    layers->pass = model->pass;
    layers->cohort = lki_program_cohort(program, &layers->pass, 0, 1);
    const lki_local local = local_of(model, NULL);
    LKI_TRY(lki_program_forward(program, &layers->pass, &layers->cohort, &local));
    worker->metrics = (lks_metrics){0};
    worker->bad_count = 0;
    lki_metrics_count(model, worker, &layers->cohort);
    layers->activations = true;
    layers->follows = training;
    if (metrics != NULL) *metrics = worker->metrics;
    return LKS_OK;
}

lks_status lks_model_forward(lks_model *model, const lks_batch *batch, bool training,
                             lks_metrics *metrics)
{
    if (batch == NULL) return LKI_FAIL_NULL(batch);
    LKI_TRY(lki_layers_enter(model, __func__));
    lki_profile_begin(model);
    const lks_status status = forward(model, batch, training, metrics);
    lki_profile_end(model, status == LKS_OK);
    return lki_model_leave(model, status);
}

static lks_status backward(lks_model *model, lki_wanted wanted, float *sums)
{
    lki_layers *layers = model->layers;
    const lki_local local = local_of(model, sums);
    layers->pass.wanted = wanted;
    return lki_program_backward(&model->program, &layers->pass, &layers->cohort, 0, &local);
}

static lks_status backward_input(lks_model *model, const float *output_gradient)
{
    const lki_program *program = &model->program;
    lki_layers *layers = model->layers;
    if (!layers->follows)
        return LKI_FAIL(LKS_E_STATE, "lks_model_backward_input() follows lks_model_forward() in "
                                     "training, before any other step or update");
    if (output_gradient != NULL && !layers->from_output)
        return LKI_FAIL(
            LKS_E_UNSUPPORTED,
            "a gradient of the output '%s' is not enough for this network, in which the "
            "loss depends on more than the output; give NULL, for the loss's",
            program->output->node->name);
    layers->pass.from_output = output_gradient != NULL;
    if (output_gradient != NULL) {
        const lki_value *place = &program->value[program->gradient[program->output->node->index]];
        program->backend->memory->copy_in(model->worker[0].local.memory + place->offset,
                                          output_gradient,
                                          place->bytes * (size_t)layers->cohort.count);
    }
    LKI_TRY(backward(model, LKI_WANT_INPUTS, NULL));
    layers->gradients = true;
    return LKS_OK;
}

lks_status lks_model_backward_input(lks_model *model, const float *output_gradient)
{
    LKI_TRY(lki_layers_enter(model, __func__));
    lki_profile_begin(model);
    const lks_status status = backward_input(model, output_gradient);
    lki_profile_end(model, status == LKS_OK);
    return lki_model_leave(model, status);
}

static lks_status backward_params(lks_model *model)
{
    lki_layers *layers = model->layers;
    const lki_backend *backend = model->program.backend;
    if (!layers->follows || !layers->gradients)
        return LKI_FAIL(LKS_E_STATE,
                        "lks_model_backward_params() follows lks_model_backward_input(), from "
                        "whose gradients it forms those of parameters");
    if (layers->counted == 0) {
        layers->bad = false;
        LKI_TRY(backward(model, LKI_WANT_PARAMS, lki_layers_sums(model)));
    } else {
        void *memory = layers->more;
        if (memory == NULL)
            LKI_TRY(backend->memory->alloc(model->context, &memory, sums_bytes(model),
                                           "gradients of one more batch"));
        layers->more = memory;
        LKI_TRY(backward(model, LKI_WANT_PARAMS, layers->more));
        backend->add(model->gradient_count, lki_layers_sums(model), layers->more);
    }
    layers->bad = layers->bad || model->worker[0].bad_count > 0;
    layers->counted += model->counted;
    return LKS_OK;
}

lks_status lks_model_backward_params(lks_model *model)
{
    LKI_TRY(lki_layers_enter(model, __func__));
    lki_profile_begin(model);
    const lks_status status = backward_params(model);
    lki_profile_end(model, status == LKS_OK);
    return lki_model_leave(model, status);
}

lks_status lks_model_zero_gradients(lks_model *model)
{
    LKI_TRY(lki_layers_enter(model, __func__));
    model->layers->counted = 0;
    return lki_model_leave(model, LKS_OK);
}

static lks_status update(lks_model *model, double lr)
{
    lki_layers *layers = model->layers;
    if (layers->counted == 0)
        return LKI_FAIL(LKS_E_STATE, "lks_model_update() has no gradients; form them with "
                                     "lks_model_backward_params()");
    if (layers->bad)
        return LKI_FAIL(LKS_E_NUMERIC,
                        "step %lld: a loss that the gradients are of is not a finite number; "
                        "nothing was updated; lower the learning rate, or look at the data",
                        (long long)model->progress.step + 1);
    model->pass = layers->pass;
    layers->taking = true;
    const lks_status status = lki_take_formed(model, lr, layers->counted);
    layers->taking = false;
    layers->follows = false; /* parameters are not those of the pass any more */
    return status;
}

lks_status lks_model_update(lks_model *model, double lr)
{
    LKI_TRY(lki_layers_enter(model, __func__));
    return lki_model_leave(model, update(model, lr));
}

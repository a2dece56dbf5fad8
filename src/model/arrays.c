/* The arrays of a model on its device: parameters and what the optimizer keeps, buffers, batches, and what
 * each worker has. */
#include "base/check.h"
#include "model/model.h"
#include "optim/optimizer.h"
#include "numeric/hash.h"

enum { VALUES = -2, AVERAGES = -1 };

/* One array of every weight, values, averages or a state's, from `at` on; returns its end. */
static char *place_array(lks_model *model, char *at, int array)
{
    for (int w = 0; w < model->weights; w++) {
        lki_weight *weight = &model->weight[w];
        if (array == AVERAGES && !weight->trained) continue;
        if (array >= 0 && weight->frozen) continue;
        *(array == VALUES     ? &weight->value
          : array == AVERAGES ? &weight->average
                              : &weight->state[array]) = (float *)(void *)at;
        at += lki_align((size_t)weight->count * sizeof(float));
    }
    return at;
}

static bool trains(const lks_model *model)
{
    return model->program.loss != NULL;
}

static bool averages(const lks_model *model)
{
    return trains(model) && model->opts.ema_decay > 0;
}

static void measure_parameters(lks_model *model)
{
    size_t states = 0;
    for (int a = 0; a < LKI_MAX_STATES; a++)
        states += trains(model) && lki_optimizer_keeps(&model->opts.optim, a) ? 1 : 0;
    for (int w = 0; w < model->weights; w++) {
        const lki_weight *weight = &model->weight[w];
        const size_t arrays = 1 + (weight->frozen ? 0 : states) +
                              (averages(model) && weight->trained ? 1 : 0);
        model->parameter_bytes += arrays * lki_align((size_t)weight->count * sizeof(float));
    }
}

static size_t kept_bytes(const lks_model *model)
{
    return lki_align((size_t)model->across->spread->kept * sizeof(float));
}

void lki_arrays_spread(lks_model *model)
{
    if (!lki_spreads(model)) return;
    model->parameter_bytes = (size_t)lki_spread_values(model, NULL) * sizeof(float);
    for (int w = 0; w < model->weights && averages(model); w++)
        if (model->weight[w].trained)
            model->parameter_bytes += lki_align((size_t)model->weight[w].count * sizeof(float));
    for (int a = 0; a < LKI_MAX_STATES; a++)
        if (lki_optimizer_keeps(&model->opts.optim, a)) model->parameter_bytes += kept_bytes(model);
    model->gradient_bytes = 0;
}

/* Arrays of the optimizer, of all weights or of the own strips. */
static void place_states(lks_model *model, char *at)
{
    for (int a = 0; a < LKI_MAX_STATES; a++) {
        if (!trains(model) || !lki_optimizer_keeps(&model->opts.optim, a)) continue;
        if (!lki_spreads(model)) {
            at = place_array(model, at, a);
            continue;
        }
        for (int w = 0; w < model->weights; w++)
            if (!model->weight[w].frozen) model->weight[w].state[a] = (float *)(void *)at;
        at += kept_bytes(model);
    }
}

static lks_status allocate_parameters(lks_model *model)
{
    void *memory = model->common != NULL ? model->common->parameters : NULL;
    if (memory == NULL)
        LKI_TRY(model->program.backend->memory->alloc(model->context, &memory,
                                                      model->parameter_bytes,
                                                      "parameters and the optimizer's state"));
    model->parameters = memory;
    char *at = lki_spreads(model)
                   ? (char *)memory + (size_t)lki_spread_values(model, memory) * sizeof(float)
                   : place_array(model, memory, VALUES);
    if (averages(model)) at = place_array(model, at, AVERAGES);
    place_states(model, at);
    for (int s = 0; s < model->program.stages; s++) {
        lki_stage *stage = &model->program.stage[s];
        for (int p = 0; p < stage->cluster->param_count; p++)
            stage->param[p] = model->weight[stage->weight[p]].value;
    }
    return LKS_OK;
}

/* Of what ranks have in common one of them makes the first values. */
static bool makes_values(const lks_model *model)
{
    return model->common == NULL || model->across->rank == 0;
}

static size_t buffer_bytes(const lki_buffer *buffer)
{
    return (size_t)lks_shape_elements(&buffer->shape) * lks_dtype_size(buffer->dtype);
}

static void measure_buffers(lks_model *model)
{
    for (int s = 0; s < model->program.stages; s++) {
        const lki_node *counted = model->program.stage[s].cluster->counted;
        for (int i = 0; counted != NULL && i < counted->buffer_count; i++)
            model->buffer_bytes += lki_align(buffer_bytes(&counted->buffer[i]));
    }
}

static lks_status allocate_buffers(lks_model *model)
{
    lki_program *program = &model->program;
    const lki_memory *memory = program->backend->memory;
    void *made = model->common != NULL ? model->common->buffers : NULL;
    if (made == NULL) LKI_TRY(memory->alloc(model->context, &made, model->buffer_bytes, "buffers"));
    model->buffers = made;
    char *at = made;
    for (int s = 0; s < program->stages; s++) {
        lki_stage *stage = &program->stage[s];
        const lki_node *counted = stage->cluster->counted;
        for (int i = 0; counted != NULL && i < counted->buffer_count; i++) {
            const lki_buffer *buffer = &counted->buffer[i];
            stage->buffer[i] = at;
            if (buffer->dtype == LKS_F32 && makes_values(model))
                lki_fill(memory, (float *)(void *)at, lks_shape_elements(&buffer->shape),
                         buffer->start);
            at += lki_align(buffer_bytes(buffer));
        }
    }
    return LKS_OK;
}

static size_t batch_bytes(const lki_program *program, const lks_tensor *tensor)
{
    return lki_align(lki_times(lki_tensor_bytes(tensor), (size_t)program->max_pass));
}

static size_t mix_bytes(const lki_program *program)
{
    return lki_align(lki_times(sizeof(lks_mix), (size_t)program->max_pass));
}

static void measure_batch(lks_model *model)
{
    const lki_program *program = &model->program;
    if (program->backend->memory->host) return;
    model->batch_bytes = batch_bytes(program, program->graph->input);
    if (program->graph->target != NULL)
        model->batch_bytes = lki_plus(
            model->batch_bytes,
            lki_plus(batch_bytes(program, program->graph->target), mix_bytes(program)));
}

void lki_arrays_measure(lks_model *model)
{
    measure_parameters(model);
    measure_buffers(model);
    measure_batch(model);
    lki_carried_measure(model);
}

static lks_status allocate_worker(lks_model *model, int w)
{
    const lki_program *program = &model->program;
    lki_worker *worker = &model->worker[w];
    const lki_memory *memory = program->backend->memory;
    void *made;
    LKI_TRY(memory->alloc(model->context, &made, program->local_bytes + program->workspace_bytes,
                          "a worker's activations"));
    worker->local.memory = made;
    worker->local.kept = program->kept;
    if (!memory->host) {
        LKI_TRY(lki_alloc(model->context, &made, LKI_HASH_BLOCK, "blocks to hash"));
        worker->block = made;
    }
    return LKS_OK;
}

/* Where batches are copied to, if kernels cannot read them where they are. */
static lks_status allocate_batch(lks_model *model)
{
    const lki_program *program = &model->program;
    const lki_memory *memory = program->backend->memory;
    void *made;
    if (memory->host) return LKS_OK;
    LKI_TRY(memory->alloc(model->context, &made, model->batch_bytes, "batches"));
    model->batch_x = made;
    model->batch_y = model->batch_x + batch_bytes(program, program->graph->input);
    if (program->graph->target != NULL)
        model->batch_mix = model->batch_y + batch_bytes(program, program->graph->target);
    return LKS_OK;
}

/* First values are made by the host: in place where it can write there. */
static lks_status initialise(lks_model *model)
{
    const lki_memory *memory = model->program.backend->memory;
    size_t most = 0;
    void *room = NULL;
    if (!makes_values(model)) return LKS_OK;
    for (int w = 0; w < model->weights && !memory->host; w++) {
        const size_t bytes = (size_t)model->weight[w].count * sizeof(float);
        most = bytes > most ? bytes : most;
    }
    if (!memory->host) LKI_TRY(lki_alloc(model->context, &room, most, "first values"));
    for (int w = 0; w < model->weights; w++) {
        const lki_weight *weight = &model->weight[w];
        lki_initialise(model, weight, room != NULL ? room : weight->value);
        if (room != NULL)
            memory->copy_in(weight->value, room, (size_t)weight->count * sizeof(float));
    }
    lki_free(model->context, room, most);
    return LKS_OK;
}

lks_status lki_arrays_make(lks_model *model)
{
    LKI_TRY(allocate_parameters(model));
    LKI_TRY(allocate_buffers(model));
    LKI_TRY(allocate_batch(model));
    LKI_TRY(lki_carried_make(model));
    LKI_TRY(initialise(model));
    for (int w = 0; w < model->workers; w++) LKI_TRY(allocate_worker(model, w));
    return LKS_OK;
}

size_t lki_gradients_bytes(const lks_model *model)
{
    size_t bytes = 0;
    for (int w = 0; w < model->weights; w++)
        bytes += lki_align((size_t)model->weight[w].count * sizeof(float));
    return bytes;
}

lks_status lki_gradients_make(lks_model *model)
{
    if (model->gradient_memory != NULL) return LKS_OK;
    const size_t bytes = lki_gradients_bytes(model);
    void *memory = model->common != NULL ? model->common->gradient : NULL;
    if (memory == NULL)
        LKI_TRY(model->program.backend->memory->alloc(model->context, &memory, bytes, "gradients"));
    model->gradient_memory = memory;
    model->gradient_bytes = bytes;
    char *at = memory;
    for (int w = 0; w < model->weights; w++) {
        model->weight[w].gradient = (float *)(void *)at;
        at += lki_align((size_t)model->weight[w].count * sizeof(float));
    }
    return LKS_OK;
}

void lki_arrays_release(lks_model *model)
{
    lks_context *context = model->context;
    const lki_program *program = &model->program;
    if (program->backend == NULL) return; /* there are none yet */
    const lki_memory *memory = program->backend->memory;
    for (int w = 0; w < model->workers; w++) {
        lki_worker *worker = &model->worker[w];
        memory->free(context, worker->local.memory,
                     program->local_bytes + program->workspace_bytes);
        lki_free(context, worker->block, LKI_HASH_BLOCK);
    }
    memory->free(context, model->parameters, model->parameter_bytes);
    memory->free(context, model->buffers, model->buffer_bytes);
    memory->free(context, model->batch_x, model->batch_bytes);
    memory->free(context, model->gradient_memory, model->gradient_bytes);
    lki_carried_release(model);
}

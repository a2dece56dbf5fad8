/* Every activation, parameter and gradient of a model by name, and what is printed of them. */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/shape.h"
#include "base/text.h"
#include "model/layers/layers.h"

static lks_status list_value(lks_model *model, lki_layer_value value, const char *parameter,
                             const char *end)
{
    char name[3 * LKI_NAME_SIZE];
    const bool of_node = parameter[0] == '\0';
    snprintf(name, sizeof name, "%s%s%s%s", of_node ? value.node->name : lki_node_stem(value.node),
             of_node ? "" : ".", parameter, end);
    LKI_TRY(lki_arena_string(&model->arena, &value.name, name));
    model->layers->value[model->layers->values++] = value;
    return LKS_OK;
}

static lks_status list_layer(lks_model *model, const lki_stage *stage, int number)
{
    const lki_program *program = &model->program;
    lki_layer_value value = {.node = lki_cluster_tail(stage->cluster), .number = number};
    value.shape = value.node->out.shape;
    value.place = stage->out;
    value.kind = LKS_VALUE_ACTIVATION;
    if (value.node->out.dtype == LKS_F32) LKI_TRY(list_value(model, value, "", "")); /* no tokens */
    value.place = stage->d_out;
    value.kind = LKS_VALUE_ACTIVATION_GRADIENT;
    if (stage->d_out != LKI_NO_VALUE && program->value[stage->d_out].first >= 0)
        LKI_TRY(list_value(model, value, "", ".gradient"));
    for (int p = 0; p < stage->cluster->param_count; p++) {
        const lki_param *param = &value.node->param[stage->cluster->param[p].index];
        const char *suffix = param->suffix;
        if (param->of != NULL) continue; /* it has its owner's name */
        value.place = stage->weight[p];
        value.shape = model->weight[value.place].shape;
        value.kind = LKS_VALUE_PARAMETER;
        LKI_TRY(list_value(model, value, suffix, ""));
        value.kind = LKS_VALUE_PARAMETER_GRADIENT;
        if (model->weight[value.place].offset >= 0)
            LKI_TRY(list_value(model, value, suffix, ".gradient"));
    }
    return LKS_OK;
}

lks_status lki_layers_list(lks_model *model)
{
    const lki_program *program = &model->program;
    const size_t most = (size_t)program->stages * (2 + 2 * LKI_MAX_SLOTS);
    void *memory;
    LKI_TRY(
        lki_arena_alloc(&model->arena, &memory, most * sizeof(lki_layer_value), "names of values"));
    model->layers->value = memory;
    for (int s = 0; s < program->stages; s++) LKI_TRY(list_layer(model, &program->stage[s], s));
    return LKS_OK;
}

static bool of_samples(const lki_layer_value *value)
{
    return value->kind == LKS_VALUE_ACTIVATION || value->kind == LKS_VALUE_ACTIVATION_GRADIENT;
}

int lks_model_value_count(const lks_model *model)
{
    return model != NULL && model->layers != NULL ? model->layers->values : 0;
}

lks_value_info lks_model_value_info(const lks_model *model, int index)
{
    if (index < 0 || index >= lks_model_value_count(model)) return (lks_value_info){.name = NULL};
    const lki_layer_value *value = &model->layers->value[index];
    lks_value_info info = {.name = value->name,
                           .layer = value->node->name,
                           .number = value->number,
                           .kind = value->kind,
                           .shape = value->shape,
                           .samples = of_samples(value) ? model->layers->cohort.count : 0};
    info.bytes = (size_t)lks_shape_elements(&info.shape) * sizeof(float) *
                 (of_samples(value) ? (size_t)info.samples : 1);
    return info;
}

int lks_model_value_find(const lks_model *model, const char *name)
{
    for (int i = 0; name != NULL && i < lks_model_value_count(model); i++)
        if (strcmp(model->layers->value[i].name, name) == 0) return i;
    return -1;
}

/* Where it is on the device; NULL: nothing has formed it yet. */
static const void *place_of(const lks_model *model, const lki_layer_value *value)
{
    const lki_layers *layers = model->layers;
    switch (value->kind) {
    case LKS_VALUE_PARAMETER:
        return model->weight[value->place].value;
    case LKS_VALUE_PARAMETER_GRADIENT:
        return layers->counted > 0 ? lki_layers_sums(model) + model->weight[value->place].offset
                                   : NULL;
    case LKS_VALUE_ACTIVATION:
        if (!layers->activations) return NULL;
        break;
    case LKS_VALUE_ACTIVATION_GRADIENT:
        if (!layers->gradients) return NULL;
        break;
    }
    return model->worker[0].local.memory + model->program.value[value->place].offset;
}

lks_status lki_layers_read(lks_model *model, int index, float *out, size_t bytes)
{
    const lks_value_info info = lks_model_value_info(model, index);
    if (info.name == NULL)
        return LKI_FAIL(LKS_E_INVALID, "there is no value %d, expected 0 to %d", index,
                        lks_model_value_count(model) - 1);
    if (bytes != info.bytes)
        return LKI_FAIL(LKS_E_INVALID, "'%s' has %zu bytes, and %zu were asked for", info.name,
                        info.bytes, bytes);
    const void *from = place_of(model, &model->layers->value[index]);
    if (from != NULL) {
        model->program.backend->memory->copy_out(out, from, bytes);
        return LKS_OK;
    }
    if (of_samples(&model->layers->value[index]))
        return LKI_FAIL(LKS_E_STATE, "'%s' is not there; %s forms it", info.name,
                        info.kind == LKS_VALUE_ACTIVATION ? "lks_model_forward()"
                                                          : "lks_model_backward_input()");
    memset(out, 0, bytes);
    return LKS_OK;
}

lks_status lks_model_value_read(lks_model *model, int index, float *out, size_t bytes)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    LKI_TRY(lki_layers_enter(model, __func__));
    return lki_model_leave(model, lki_layers_read(model, index, out, bytes));
}

enum { LINE = 240, FIRST = 10 };

static void dump_head(const lks_value_info *info, char line[LINE])
{
    char shape[96];
    int64_t stride = lks_shape_elements(&info->shape);
    const char *of = info->samples == 1 ? " sample of " : " samples of ";
    char samples[40] = "";
    if (info->samples > 0)
        snprintf(samples, sizeof samples, "%lld%s", (long long)info->samples, of);
    int length = snprintf(line, LINE, "%.100s: %s%s, strides", info->name, samples,
                          lki_shape_print(&info->shape, shape, sizeof shape));
    if (info->samples > 0)
        length += snprintf(line + length, (size_t)(LINE - length), " %lld", (long long)stride);
    for (int d = 0; d < info->shape.ndim; d++) {
        stride /= info->shape.dim[d];
        length += snprintf(line + length, (size_t)(LINE - length), " %lld", (long long)stride);
    }
}

static void dump_numbers(const float *numbers, int64_t count, char line[LINE])
{
    int length = 0;
    for (int64_t i = 0; i < count && i < FIRST; i++)
        length += lki_text(line + length, (size_t)(LINE - length), " %11.6g", (double)numbers[i]);
    if (count > FIRST) snprintf(line + length, (size_t)(LINE - length), " ...");
}

static void dump_sum(lki_layer_value *value, const float *numbers, int64_t count, char line[LINE])
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += (double)numbers[i];
    lki_text(line, LINE, "Layer %d - Weight sum: %.6f (change: %.6f)", value->number, sum,
             value->dumped ? sum - value->sum : 0.0);
    value->sum = sum;
    value->dumped = true;
}

static lks_status read_room(lks_model *model, size_t bytes)
{
    lki_layers *layers = model->layers;
    void *memory;
    if (bytes <= layers->read_bytes) return LKS_OK;
    LKI_TRY(lki_alloc(model->context, &memory, bytes, "a value to print"));
    lki_free(model->context, layers->read, layers->read_bytes);
    layers->read = memory;
    layers->read_bytes = bytes;
    return LKS_OK;
}

static lks_status dump_value(lks_model *model, int index,
                             void (*write)(void *user, const char *line), void *user)
{
    const lks_value_info info = lks_model_value_info(model, index);
    const int64_t count = (int64_t)(info.bytes / sizeof(float));
    char line[LINE];
    LKI_TRY(read_room(model, info.bytes));
    float *numbers = model->layers->read;
    LKI_TRY(lki_layers_read(model, index, numbers, info.bytes));
    dump_head(&info, line);
    write(user, line);
    dump_numbers(numbers, count, line);
    write(user, line);
    if (info.kind != LKS_VALUE_PARAMETER) return LKS_OK;
    dump_sum(&model->layers->value[index], numbers, count, line);
    write(user, line);
    return LKS_OK;
}

static lks_status dump_all(lks_model *model, void (*write)(void *user, const char *line),
                           void *user)
{
    for (int i = 0; i < model->layers->values; i++)
        if (place_of(model, &model->layers->value[i]) != NULL)
            LKI_TRY(dump_value(model, i, write, user));
    return LKS_OK;
}

lks_status lks_dump(lks_model *model, const char *name, void (*write)(void *user, const char *line),
                    void *user)
{
    if (write == NULL) return LKI_FAIL_NULL(write);
    LKI_TRY(lki_layers_enter(model, __func__));
    if (name == NULL) return lki_model_leave(model, dump_all(model, write, user));
    const int index = lks_model_value_find(model, name);
    if (index < 0)
        return lki_model_leave(
            model, LKI_FAIL(LKS_E_INVALID,
                            "the model has no value '%.100s'; lks_dump() without a name prints all",
                            name));
    return lki_model_leave(model, dump_value(model, index, write, user));
}

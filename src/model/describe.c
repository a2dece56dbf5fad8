/* What was chosen and where it lives, for people. */
#include <stdio.h>
#include <string.h>

#include <lockstep/profile.h>

#include "base/check.h"
#include "model/model.h"

const char *lks_tensor_line(const lks_tensor *tensor, int64_t samples, char *buffer, size_t size)
{
    const lki_node *node = tensor->node;
    char attributes[256] = "", in[300] = "", shape[96];
    lki_op_get(node->op)->print(node, attributes, sizeof attributes);
    if (samples > 0 && node->in_count > 0) {
        const lks_shape *first = &node->in[0]->shape;
        const int used = snprintf(in, sizeof in, " in=%lldx%s%s", (long long)samples,
                                  lki_shape_print(first, shape, sizeof shape),
                                  node->in[0]->dtype == LKS_U8 ? ":u8" : "");
        if (node->in_count > 1 && !lki_op_get(node->op)->is_loss &&
            !lki_shape_equal(first, &node->in[1]->shape))
            snprintf(in + used, sizeof in - (size_t)used, " with=%s",
                     lki_shape_print(&node->in[1]->shape, shape, sizeof shape));
    }
    snprintf(buffer, size, "%s%s%s%s", lki_op_get(node->op)->name, attributes[0] != '\0' ? " " : "",
             attributes, in);
    return buffer;
}

typedef struct sink {
    void (*write)(void *user, const char *line);
    void *user;
} sink;

static void stage_line(const lks_model *model, const lki_stage *stage, const sink *to)
{
    const lki_segment *segment = &model->program.segment[stage->segment];
    char ops[128] = "", attributes[128] = "", shape[64], pieces[32], line[512];
    size_t used = 0;
    int64_t parameters = 0;
    for (int i = 0; i < stage->plan->chain.count && used < sizeof ops; i++)
        used += (size_t)snprintf(ops + used, sizeof ops - used, "%s%s", i > 0 ? "+" : "",
                                 lki_op_get(stage->plan->chain.node[i]->op)->name);
    lki_op_get(stage->head->op)->print(stage->head, attributes, sizeof attributes);
    for (int i = 0; stage->owner != NULL && i < stage->owner->param_count; i++)
        parameters += model->weight[stage->weight + i].count;
    if (segment->slice != 0)
        snprintf(pieces, sizeof pieces, "slices of %lld", (long long)segment->slice);
    else
        snprintf(pieces, sizeof pieces, "whole %s", segment->joint ? "groups" : "shares");
    snprintf(line, sizeof line, "%-14s %-42s %-12s %9lld  %s, %s%s  %s", stage->head->name, ops,
             lki_shape_print(&stage->tail->out.shape, shape, sizeof shape), (long long)parameters,
             stage->plan->needs.algorithm, pieces, stage->by_rows ? ", gradient by rows" : "",
             attributes);
    to->write(to->user, line);
}

static void layers(const lks_model *model, const sink *to)
{
    char line[256];
    snprintf(line, sizeof line, "%-14s %-42s %-12s %9s  %s", "name", "operations", "output",
             "parameters", "kernel");
    to->write(to->user, line);
    for (int s = 0; s < model->program.stages; s++) stage_line(model, &model->program.stage[s], to);
    const lks_model_info info = lks_model_get_info(model);
    snprintf(line, sizeof line,
             "%lld parameters, %.2f million multiply-adds a sample, %.1f MB, %d replicas on %d "
             "workers",
             (long long)info.parameters, (double)info.multiply_adds * 1e-6,
             (double)info.memory_bytes * 1e-6, info.replicas, info.workers);
    to->write(to->user, line);
}

static const char *place_name(lki_place place)
{
    switch (place) {
    case LKI_AT_BATCH_X:
    case LKI_AT_BATCH_Y:
        return "batch";
    case LKI_AT_KEPT:
        return "kept";
    case LKI_AT_GROUP:
        return "group";
    case LKI_AT_SLICE:
        return "slice";
    case LKI_AT_REPLICA:
        return "replica";
    }
    return "";
}

static void total_line(const sink *to, const char *what, size_t bytes, int times)
{
    char line[160];
    snprintf(line, sizeof line, "%-46s %12zu bytes%s", what, bytes * (size_t)times,
             times > 1 ? " (all workers)" : "");
    to->write(to->user, line);
}

static void memory(const lks_model *model, const sink *to)
{
    const lki_program *program = &model->program;
    char line[256];
    snprintf(line, sizeof line, "%-8s %-16s %-8s %12s %12s  %s", "place", "node", "value", "offset",
             "bytes", "alive (ticks)");
    to->write(to->user, line);
    for (int v = 0; v < program->values; v++) {
        const lki_value *value = &program->value[v];
        if (value->room == 0) continue;
        snprintf(line, sizeof line, "%-8s %-16s %-8s %12zu %12zu  %d to %d",
                 place_name(value->place), value->node, value->role, value->offset, value->room,
                 value->first, value->last);
        to->write(to->user, line);
    }
    const int workers = model->workers;
    total_line(to, "activations of a worker (group, slice, replica)", program->local_bytes,
               workers);
    total_line(to, "workspace of a worker", program->workspace_bytes, workers);
    for (int w = 0; w < workers; w++) {
        char what[64];
        snprintf(what, sizeof what, "gradients by replica of worker %d", w);
        total_line(to, what,
                   (size_t)(model->worker[w].slots * model->gradient_count) * sizeof(float), 1);
    }
    total_line(to, "kept for gradients by rows", program->kept_bytes, 1);
    total_line(to, "parameters and optimizer state", model->parameter_bytes, 1);
    total_line(to, "packed parameters", program->packed_bytes, 1);
    total_line(to, "buffers", model->buffer_bytes, 1);
}

lks_status lks_model_describe(const lks_model *model, lks_describe what,
                              void (*write)(void *user, const char *line), void *user)
{
    const sink to = {.write = write, .user = user};
    switch (what) {
    case LKS_DESCRIBE_LAYERS:
        layers(model, &to);
        return LKS_OK;
    case LKS_DESCRIBE_MEMORY:
        memory(model, &to);
        return LKS_OK;
    }
    return LKI_FAIL(LKS_E_INVALID, "there is no description %d", (int)what);
}

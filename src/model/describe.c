/* What was chosen and where it lives, for people. */
#include <stdio.h>
#include <string.h>

#include <lockstep/tools.h>

#include "base/check.h"
#include "base/text.h"
#include "model/model.h"
#include "model/step/batch.h"
#include "op/common.h"

/* ":u8"; ":1000" of tokens below 1,000. */
static const char *type_suffix(const lks_tensor *tensor, char *buffer, size_t size)
{
    if (tensor->dtype != LKS_I32) return tensor->dtype == LKS_U8 ? ":u8" : "";
    snprintf(buffer, size, ":%lld", (long long)lki_vocabulary_of(tensor));
    return buffer;
}

const char *lks_tensor_line(const lks_tensor *tensor, int64_t samples, char *buffer, size_t size)
{
    if (buffer == NULL || size == 0) return "";
    buffer[0] = '\0';
    if (tensor == NULL) return buffer;
    const lki_node *node = tensor->node;
    char attributes[LKS_LINE_SIZE - 400] = ""; /* the longest are two lists */
    char in[300] = "", shape[96], suffix[24];
    lki_node_print(node, attributes, sizeof attributes);
    if (samples > 0 && node->in_count > 0) {
        const lks_shape *first = &node->in[0]->shape;
        const int used = snprintf(in, sizeof in, " in=%lldx%s%s", (long long)samples,
                                  lki_shape_print(first, shape, sizeof shape),
                                  type_suffix(node->in[0], suffix, sizeof suffix));
        if (node->in_count > 1 && !lki_op_get(node->op)->is_loss &&
            !lki_shape_equal(first, &node->in[1]->shape))
            snprintf(in + used, sizeof in - (size_t)used, " with=%s%s",
                     lki_shape_print(&node->in[1]->shape, shape, sizeof shape),
                     type_suffix(node->in[1], suffix, sizeof suffix));
    }
    snprintf(buffer, size, "%s%s%s%s", lki_op_get(node->op)->name, attributes[0] != '\0' ? " " : "",
             attributes, in);
    return buffer;
}

typedef struct sink {
    void (*write)(void *user, const char *line);
    void *user;
} sink;

enum { WIDTH = 80, PLAN_INDENT = 50, LINE_SIZE = 600 };

/* `head`, then words of `text` from its end on, as many as WIDTH holds, and so on below. */
static void write_wrapped(const sink *to, const char *head, const char *text)
{
    const size_t indent = strlen(head);
    char line[LINE_SIZE];
    size_t used = (size_t)snprintf(line, sizeof line, "%s", head);
    while (*text != '\0') {
        const size_t word = strcspn(text, " ");
        if (used > indent && used + 1 + word > WIDTH) {
            to->write(to->user, line);
            used = (size_t)snprintf(line, sizeof line, "%*s", (int)indent, "");
        }
        if (used + word + 2 > sizeof line) break;
        used += (size_t)snprintf(line + used, sizeof line - used, "%s%.*s",
                                 used > indent ? " " : "", (int)word, text);
        text += word + strspn(text + word, " ");
    }
    to->write(to->user, line);
}

static const char *grouped_or_dash(char text[LKI_NUMBER_SIZE], int64_t number)
{
    return number == 0 ? "-" : lki_text_count(text, number);
}

static int64_t parameters_of(const lki_node *node)
{
    int64_t count = 0;
    for (int i = 0; i < node->param_count; i++)
        if (node->param[i].of == NULL) count += lks_shape_elements(&node->param[i].shape);
    return count;
}

/* "9,408", frozen "(9,408)", where there are none "-". */
static const char *parameters_text(char text[LKI_NUMBER_SIZE + 2], const lki_program *program,
                                   const lki_node *node)
{
    char number[LKI_NUMBER_SIZE];
    const bool frozen = node->param_count > 0 && !lki_program_forms(program, node);
    snprintf(text, LKI_NUMBER_SIZE + 2, frozen ? "(%s)" : "%s",
             grouped_or_dash(number, parameters_of(node)));
    return text;
}

/* Whether the node is computed by a stage, or is read by one. */
static bool is_planned(const lki_program *program, const lki_node *node)
{
    if (program->activation[node->index] != LKI_NO_VALUE) return true;
    for (int s = 0; s < program->stages; s++)
        if (lki_cluster_has(program->stage[s].cluster, node)) return true;
    return false;
}

/* The operation stays whole, so that it can be copied: below the rest where it does not fit. */
static void write_layer(const sink *to, const char *head, const char *operation)
{
    char line[LINE_SIZE + 2 + LKS_LINE_SIZE];
    if (strlen(head) + 2 + strlen(operation) <= WIDTH) {
        snprintf(line, sizeof line, "%s  %s", head, operation);
    } else {
        to->write(to->user, head);
        snprintf(line, sizeof line, "    %s", operation);
    }
    to->write(to->user, line);
}

/* Columns are as wide as what stands in them, so that the operation has room. */
static void layers(const lks_model *model, const sink *to)
{
    const lki_program *program = &model->program;
    char head[LINE_SIZE], line[LKS_LINE_SIZE], shape[96], parameters[LKI_NUMBER_SIZE + 2],
        work[LKI_NUMBER_SIZE];
    int names = (int)strlen("name"), outputs = (int)strlen("output");
    for (const lki_node *node = program->graph->first; node != NULL; node = node->next) {
        if (!is_planned(program, node)) continue;
        const int name = (int)strlen(node->name);
        const int output = (int)strlen(lki_shape_print(&node->out.shape, shape, sizeof shape));
        names = name > names ? name : names;
        outputs = output > outputs ? output : outputs;
    }
    snprintf(head, sizeof head, "%-*s  %-*s  %10s  %11s  operation", names, "name", outputs,
             "output", "parameters", "mult-adds");
    to->write(to->user, head);
    for (const lki_node *node = program->graph->first; node != NULL; node = node->next) {
        if (!is_planned(program, node)) continue;
        snprintf(head, sizeof head, "%-*s  %-*s  %10s  %11s", names, node->name, outputs,
                 lki_shape_print(&node->out.shape, shape, sizeof shape),
                 parameters_text(parameters, program, node),
                 grouped_or_dash(work, node->multiply_adds));
        lks_tensor_line(&node->out, program->max_share, line, sizeof line);
        write_layer(to, head, line);
    }
}

/* What all layers need together. */
static void totals(const lks_model *model, const sink *to)
{
    const lki_program *program = &model->program;
    const lks_model_info info = lks_model_get_info(model);
    size_t bytes = 0, states = 0;
    int64_t buffers = 0;
    for (int i = 0; i < model->states; i++) {
        const lks_state_info *state = &model->state[i].info;
        if (state->kind == LKS_PARAMETER || state->kind == LKS_BUFFER) bytes += state->bytes;
        if (state->kind == LKS_BUFFER) buffers += lks_shape_elements(&state->shape);
        if (state->kind == LKS_OPTIMIZER) states += state->bytes;
    }
    const size_t activations = (size_t)model->workers * program->local_bytes + program->kept_bytes;
    char line[LINE_SIZE], trained[LKI_NUMBER_SIZE], all[LKI_NUMBER_SIZE], work[LKI_NUMBER_SIZE];
    int length = snprintf(line, sizeof line, "%s parameters to train",
                          lki_text_count(trained, info.parameters - info.frozen));
    if (info.frozen > 0)
        length += snprintf(line + length, sizeof line - (size_t)length, ", %s frozen, in brackets",
                           lki_text_count(all, info.frozen));
    if (buffers > 0)
        snprintf(line + length, sizeof line - (size_t)length,
                 ", %s numbers with running statistics",
                 lki_text_count(all, info.parameters + buffers));
    to->write(to->user, line);
    snprintf(line, sizeof line, "%s multiply-adds in a sample's forward pass",
             lki_text_count(work, info.multiply_adds));
    to->write(to->user, line);
    lki_text(line, sizeof line,
             "%.2f MB parameters, %.2f MB optimizer, %.2f MB activations, %.2f MB in all",
             1e-6 * (double)bytes, 1e-6 * (double)states, 1e-6 * (double)activations,
             1e-6 * (double)info.memory_bytes);
    to->write(to->user, line);
    snprintf(line, sizeof line, "batches of %lld in %d replica%s on %d worker%s",
             (long long)info.global_batch, info.replicas, LKI_S(info.replicas), info.workers,
             LKI_S(info.workers));
    to->write(to->user, line);
    if (model->opts.reduction == LKS_REDUCTION_LIBRARY)
        to->write(to->user, "sums of processes by what joins them: bits may depend on how many");
    if (model->opts.average_every > 0) {
        snprintf(
            line, sizeof line,
            "processes step alone, and average their models every %d step%s: bits of their own",
            model->opts.average_every, LKI_S(model->opts.average_every));
        to->write(to->user, line);
    }
}

static void pieces_text(const lki_program *program, const lki_stage *stage, char *out, size_t size)
{
    const lki_segment *first = &program->segment[program->part[stage->first].segment];
    const lki_segment *second = &program->segment[program->part[stage->second].segment];
    if (first->slice != second->slice && first->slice != 0)
        snprintf(out, size, "%lld, %lld", (long long)first->slice, (long long)second->slice);
    else if (first->slice != 0)
        snprintf(out, size, "%lld sample%s", (long long)first->slice, LKI_S(first->slice));
    else if (first->joint && program->cohort > 1)
        snprintf(out, size, "%lld replicas", (long long)program->cohort);
    else
        snprintf(out, size, "a replica");
}

static void plan_line(const lks_model *model, const lki_stage *stage, const sink *to)
{
    const lki_program *program = &model->program;
    const lki_needs *needs = &stage->plan->needs;
    const int first = program->part[stage->first].segment;
    const int second = program->part[stage->second].segment;
    char segments[LKI_NUMBER_SIZE], pieces[2 * LKI_NUMBER_SIZE], head[LINE_SIZE], text[LINE_SIZE];
    snprintf(segments, sizeof segments, first != second ? "%d, %d" : "%d", first, second);
    pieces_text(program, stage, pieces, sizeof pieces);
    snprintf(head, sizeof head, "%5d  %7s  %-11s  %-10s  %7zu  ", (int)(stage - program->stage),
             segments, pieces,
             stage->cluster->param_count == 0                  ? ""
             : !lki_program_forms_any(program, stage->cluster) ? "frozen"
             : !stage->backward                                ? ""
             : stage->plan->by_rows                            ? "by rows"
                                                               : "by replica",
             stage->backward ? needs->saved_bytes : 0);
    size_t used = (size_t)snprintf(text, sizeof text, "%s (%s):", stage->impl->name,
                                   needs->algorithm[0] != '\0' ? needs->algorithm : "plain");
    for (int i = 0; i < stage->cluster->count && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, " %s",
                                 stage->cluster->node[i]->name);
    write_wrapped(to, head, text);
    snprintf(head, sizeof head, "%*s", PLAN_INDENT, "");
    const char *why = stage->backward && !stage->plan->by_rows && stage->kernel->no_rows != NULL
                          ? stage->kernel->no_rows(stage->plan)
                          : NULL;
    if (why != NULL) {
        snprintf(text, sizeof text, "not by rows: %s", why);
        write_wrapped(to, head, text);
    }
    for (const lki_refusal *r = stage->refused; r != NULL; r = r->next) {
        snprintf(text, sizeof text, "not %s: %s", r->impl->name, r->why);
        write_wrapped(to, head, text);
    }
}

static void describe_plan(const lks_model *model, const sink *to)
{
    to->write(to->user, "stage  segment  at a time    gradient      saved  implementation: layers");
    for (int s = 0; s < model->program.stages; s++) plan_line(model, &model->program.stage[s], to);
    to->write(to->user, "saved: bytes of a sample that the kernel keeps from forward for backward");
    if (model->program.meetings == 0) return;
    char line[160];
    snprintf(line, sizeof line,
             "behind %d stage%s all replicas of the batch meet; those of a worker are run together",
             model->program.meetings, LKI_S(model->program.meetings));
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
    case LKI_AT_COHORT:
        return "cohort";
    case LKI_AT_SLICE:
        return "slice";
    case LKI_AT_REPLICA:
        return "replica";
    case LKI_AT_SUMS:
        return "sums";
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
        char again[40] = "";
        if (value->again >= 0)
            snprintf(again, sizeof again, ", %d to %d", value->again, value->until);
        snprintf(line, sizeof line, "%-8s %-16s %-8s %12zu %12zu  %d to %d%s",
                 place_name(value->place), value->node, value->role, value->offset, value->room,
                 value->first, value->last, again);
        to->write(to->user, line);
    }
    const int workers = model->workers;
    total_line(to, "activations of a worker", program->local_bytes, workers);
    total_line(to, "workspace of a worker", program->workspace_bytes, workers);
    for (int w = 0; w < workers; w++) {
        char what[64];
        snprintf(what, sizeof what, "gradients by replica of worker %d", w);
        total_line(to, what, lki_worker_gradient_bytes(model, w), 1);
    }
    total_line(to, "kept for gradients by rows", program->kept_bytes, 1);
    if (model->forms_whole)
        total_line(to, "gradients, kept for the update", model->gradient_bytes, 1);
    total_line(to, "parameters and optimizer state", model->parameter_bytes, 1);
    total_line(to, "packed parameters", program->packed_bytes, 1);
    total_line(to, "buffers", model->buffer_bytes, 1);
    if (lki_sums_across(model))
        total_line(to, "sums of other processes", lki_across_bytes(model), 1);
    if (model->batch_bytes > 0) total_line(to, "copies of batches", model->batch_bytes, 1);
    if (model->opts.mirror) total_line(to, "mirrored images", lki_mirror_bytes(model), 1);
}

lks_status lks_model_describe(const lks_model *model, lks_describe what,
                              void (*write)(void *user, const char *line), void *user)
{
    const sink to = {.write = write, .user = user};
    if (model == NULL) return LKI_FAIL_NULL(model);
    if (write == NULL) return LKI_FAIL_NULL(write);
    switch (what) {
    case LKS_DESCRIBE_LAYERS:
        layers(model, &to);
        totals(model, &to);
        return LKS_OK;
    case LKS_DESCRIBE_PLAN:
        describe_plan(model, &to);
        return LKS_OK;
    case LKS_DESCRIBE_MEMORY:
        memory(model, &to);
        return LKS_OK;
    }
    return LKI_FAIL(LKS_E_INVALID, "there is no description %d", (int)what);
}

static bool has_own_bits(const lks_model *model)
{
    const lks_model_opts *o = &model->opts;
    return model->across != NULL && (o->reduction != LKS_REDUCTION_STRICT ||
                                     o->exchange == LKS_EXCHANGE_NONE || o->average_every > 0);
}

lks_model_info lks_model_get_info(const lks_model *model)
{
    if (model == NULL) return (lks_model_info){0};
    const lki_program *program = &model->program;
    lks_model_info info = {.workers = model->workers,
                           .all_workers = model->across != NULL ? model->across->workers
                                                                : model->workers,
                           .replicas = (int)program->replicas,
                           .hash_every = model->opts.hash_every,
                           .global_batch = program->global_batch,
                           .shares = program->replicas,
                           .first_share = model->worker[0].first,
                           .last_share = model->worker[model->workers - 1].last,
                           .cuts = model->balance != NULL ? model->balance->cuts : 0,
                           .averages = lki_model_infers_averages(model),
                           .own_bits = has_own_bits(model),
                           .average_every = lki_averages(model) ? model->opts.average_every : 0,
                           .law = model->alone.law};
    for (int w = 0; w < model->weights; w++) info.parameters += model->weight[w].count;
    info.frozen = lki_frozen(model);
    const lks_tensor *target = program->graph->target;
    if (program->loss != NULL && target->dtype == LKS_I32)
        info.classes = ((const lks_target_opts *)target->node->attr)->classes;
    if (program->loss != NULL) {
        info.positions = lki_positions_of(model);
        info.targets = lks_shape_elements(&target->shape);
    }
    info.inputs = lks_shape_elements(&program->graph->input->shape);
    info.outputs = lks_shape_elements(&program->output->shape);
    info.carried = model->carried.floats;
    for (int s = 0; s < program->stages; s++)
        for (int i = 0; i < program->stage[s].cluster->count; i++)
            info.multiply_adds += program->stage[s].cluster->node[i]->multiply_adds;
    info.memory_bytes = lki_model_bytes(model);
    return info;
}

int64_t lks_model_border(const lks_model *model, int worker)
{
    if (model == NULL || worker < 0 || worker > lks_model_get_info(model).all_workers) return 0;
    return model->across != NULL ? model->across->border[worker] : lki_across_first(model, worker);
}

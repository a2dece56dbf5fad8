/* From nodes to stages and segments: which kernel computes what, and in which pieces. */
#include <string.h>

#include "base/check.h"
#include "base/context.h"
#include "numeric/random.h"
#include "program/program.h"

/*
 * The largest piece of a slice segment is the largest power of two of samples whose input and
 * output of the largest stage together fit into this many bytes, at most MAX_SLICE. A fixed number:
 * the pieces decide the bits of library kernels, so they may not follow the machine.
 */
enum { SLICE_BYTES = 1280 * 1024, MAX_SLICE = 64 };

/* A group has so many samples, or less where the outputs of all stages would take more memory than
 * this. Enough to use what is read of the weights many times. */
enum { GROUP_SAMPLES = 128, GROUP_BYTES = 32 << 20 };

/* What is known of a node before stages are made. */
typedef struct mark {
    bool needed, to_loss, from_target;
    bool covered; /* by a stage */
    int readers;  /* among needed nodes */
} mark;

static const lki_op *op_of(const lki_node *node)
{
    return lki_op_get(node->op);
}

static bool is_source(const lki_node *node)
{
    return node->op == LKI_OP_INPUT || node->op == LKI_OP_TARGET;
}

/* Walks the graph backwards from `node`; graphs are small and shallow enough for recursion over at
 * most graph->count levels. */
static void mark_needed(mark *marks, const lki_node *node, bool to_loss)
{
    mark *self = &marks[node->index];
    if (self->needed && (self->to_loss || !to_loss)) return;
    self->needed = true;
    self->to_loss |= to_loss;
    for (int i = 0; i < node->in_count; i++) mark_needed(marks, node->in[i]->node, to_loss);
}

static void mark_nodes(const lki_program *program, mark *marks)
{
    mark_needed(marks, program->output->node, false);
    if (program->loss != NULL) mark_needed(marks, program->loss->node, true);
    for (const lki_node *node = program->graph->first; node != NULL; node = node->next) {
        mark *self = &marks[node->index];
        self->from_target = node->op == LKI_OP_TARGET;
        for (int i = 0; i < node->in_count; i++) {
            self->from_target |= marks[node->in[i]->node->index].from_target;
            if (self->needed) marks[node->in[i]->node->index].readers++;
        }
    }
}

/* The only needed reader of a node's output, if it reads it as its only input; else NULL. Nothing reads
 * a loss. */
static const lki_node *sole_reader(const lki_program *program, const mark *marks,
                                   const lki_node *node)
{
    if (marks[node->index].readers != 1 || &node->out == program->output) return NULL;
    for (const lki_node *next = node->next; next != NULL; next = next->next)
        if (marks[next->index].needed && next->in_count > 0 && next->in[0] == &node->out)
            return next->in_count == 1 ? next : NULL;
    return NULL;
}

/* The kernel for the chain that starts at `node`: the first pattern that fits, or the node's own. */
static const lki_kernel *stages_choose(const lki_program *program, const mark *marks,
                                       const lki_node *node, lki_chain *chain)
{
    const lki_backend *backend = program->backend;
    for (int p = 0; p < backend->pattern_count && !program->no_fusion; p++) {
        const lki_pattern *pattern = &backend->patterns[p];
        const lki_node *next = node;
        *chain = (lki_chain){0};
        while (next != NULL && chain->count < pattern->count &&
               next->op == pattern->op[chain->count]) {
            chain->node[chain->count++] = next;
            if (chain->count < pattern->count) next = sole_reader(program, marks, next);
        }
        if (chain->count == pattern->count && (pattern->fits == NULL || pattern->fits(chain)))
            return pattern->kernel;
    }
    *chain = (lki_chain){.node = {node}, .count = 1};
    return backend->kernels[node->op];
}

static lks_status add_stage(lki_program *program, mark *marks, const lki_node *node)
{
    lki_chain chain;
    const lki_kernel *kernel = stages_choose(program, marks, node, &chain);
    if (kernel == NULL)
        return LKI_FAIL(LKS_E_UNSUPPORTED,
                        "device '%s' has no kernel for %s '%s'; choose another device",
                        program->backend->name, op_of(node)->name, node->name);
    lki_stage *stage = &program->stage[program->stages];
    const lki_node *tail = chain.node[chain.count - 1];

    void *plan;
    LKI_TRY(lki_arena_alloc(&program->arena, &plan, kernel->plan_bytes, "a kernel's plan"));
    *stage = (lki_stage){.plan = plan,
                         .kernel = kernel,
                         .head = node,
                         .tail = tail,
                         .weight = -1,
                         .needs_target = marks[tail->index].from_target,
                         .backward = marks[tail->index].to_loss && tail->needs_gradient};
    *stage->plan = (lki_plan){.kernel = kernel, .context = program->context, .chain = chain};
    for (int i = 0; i < chain.count; i++) {
        const lki_node *member = chain.node[i];
        marks[member->index].covered = true;
        if (member->param_count > 0 || member->buffer_count > 0 || member->stats > 0)
            stage->owner = member;
        if (member->op == LKI_OP_DROPOUT)
            stage->plan->random_key = lki_random_key(program->context->opts.seed, "dropout",
                                                     member->name);
    }
    for (int i = 0; i < node->in_count; i++)
        stage->plan->d_in_wanted[i] = stage->backward && node->in[i]->node->needs_gradient;
    stage->by_rows = stage->backward && kernel->rows != NULL && !program->by_replica &&
                     node->in[0]->dtype == LKS_F32;
    program->stages++;
    return LKS_OK;
}

int64_t lki_slice_of(size_t bytes)
{
    int64_t slice = 1;
    while (2 * slice <= MAX_SLICE && (size_t)(2 * slice) * bytes <= SLICE_BYTES) slice *= 2;
    return slice;
}

static int64_t slice_of(const lki_program *program, const lki_segment *segment)
{
    size_t most = 1;
    for (int s = segment->first; s < segment->first + segment->count; s++) {
        const lki_stage *stage = &program->stage[s];
        size_t bytes = lki_tensor_bytes(&stage->tail->out);
        for (int i = 0; i < stage->head->in_count; i++)
            bytes += lki_tensor_bytes(stage->head->in[i]);
        if (bytes > most) most = bytes;
    }
    return lki_slice_of(most);
}

/* How a stage's samples are taken: a JOINT kernel's gradients may be by replica on request, and so
 * may those of a kernel that takes any piece. */
static lki_span span_of(const lki_stage *stage)
{
    const bool by_replica = stage->backward && !stage->by_rows && stage->owner != NULL &&
                            stage->owner->param_count > 0;
    const lki_span span = stage->kernel->span;
    if (!by_replica) return span;
    return span == LKI_SPAN_JOINT    ? LKI_SPAN_SHARE
           : span == LKI_SPAN_EITHER ? LKI_SPAN_SLICE
                                     : span;
}

static void make_segments(lki_program *program)
{
    for (int s = 0; s < program->stages; s++) {
        lki_stage *stage = &program->stage[s];
        const lki_span span = span_of(stage);
        const bool slice = !lki_span_whole(span);
        const bool joint = span == LKI_SPAN_JOINT;
        lki_segment *last = program->segments > 0 ? &program->segment[program->segments - 1] : NULL;
        if (last == NULL ||
            (span != LKI_SPAN_EITHER && (slice != (last->slice != 0) || joint != last->joint))) {
            last = &program->segment[program->segments++];
            *last = (lki_segment){.first = s, .slice = slice ? 1 : 0, .joint = joint};
        }
        last->count++;
        stage->segment = program->segments - 1;
    }
    for (int i = 0; i < program->segments; i++)
        if (program->segment[i].slice != 0)
            program->segment[i].slice = slice_of(program, &program->segment[i]);
}

/* How many replicas of a worker make a group; 1 where nothing is joint. */
static void set_group(lki_program *program)
{
    program->group = 1;
    program->max_group = program->max_share;
    if (program->segments == 0 || !program->segment[program->segments - 1].joint) return;
    size_t bytes = 0;
    for (int s = 0; s < program->stages; s++)
        bytes += lki_tensor_bytes(&program->stage[s].tail->out);
    int64_t samples = GROUP_BYTES / (int64_t)bytes;
    if (samples > GROUP_SAMPLES) samples = GROUP_SAMPLES;
    program->group = samples / program->max_share;
    if (program->group > program->most_replicas) program->group = program->most_replicas;
    if (program->group < 1) program->group = 1;
    program->max_group = program->group * program->max_share;
    if (program->max_group > program->global_batch) program->max_group = program->global_batch;
}

lks_status lki_plan_make(lki_plan *plan)
{
    const lki_needs *needs = &plan->needs;
    const lki_node *head = plan->chain.node[0];
    LKI_TRY(plan->kernel->plan(plan));
    const size_t sizes[] = {needs->workspace_bytes, needs->packed_bytes, needs->saved_bytes,
                            needs->replica_bytes, needs->sums_bytes};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i] > PTRDIFF_MAX)
            return LKI_FAIL(LKS_E_SHAPE,
                            "%s '%s': with these sizes its kernel needs more memory than can be "
                            "addressed; use less padding, a smaller kernel or a smaller input",
                            op_of(head)->name, head->name);
    return LKS_OK;
}

lks_status lki_program_make_stages(lki_program *program)
{
    const int count = program->graph->count;
    void *memory;
    LKI_TRY(lki_arena_alloc(&program->arena, &memory, (size_t)count * sizeof(lki_stage), "stages"));
    program->stage = memory;
    LKI_TRY(
        lki_arena_alloc(&program->arena, &memory, (size_t)count * sizeof(lki_segment), "segments"));
    program->segment = memory;
    LKI_TRY(lki_arena_alloc(&program->arena, &memory, (size_t)count * sizeof(mark), "marks"));
    mark *marks = memory;

    mark_nodes(program, marks);
    if (marks[program->output->node->index].from_target)
        return LKI_FAIL(LKS_E_INVALID,
                        "output '%s' depends on the target, so it cannot be predicted; give the "
                        "tensor before the loss",
                        program->output->node->name);
    for (const lki_node *node = program->graph->first; node != NULL; node = node->next)
        if (marks[node->index].needed && !marks[node->index].covered && !is_source(node))
            LKI_TRY(add_stage(program, marks, node));
    make_segments(program);
    set_group(program);
    for (int s = 0; s < program->stages; s++) {
        lki_stage *stage = &program->stage[s];
        const lki_segment *segment = &program->segment[stage->segment];
        stage->plan->slice = segment->slice != 0 ? segment->slice
                             : segment->joint    ? program->max_group
                                                 : program->max_share;
        LKI_TRY(lki_plan_make(stage->plan));
    }
    return LKS_OK;
}

/* From nodes to stages and segments: which implementation computes what, and in which pieces. */
#include <string.h>

#include "base/check.h"
#include "base/context.h"
#include "numeric/random.h"
#include "program/program.h"

/*
 * The largest piece of a slice segment is the largest power of two of samples whose input and output of the largest
 * stage together fit into this many bytes, or into those of its largest weight, at most MAX_SLICE. Fixed numbers:
 * pieces change no bit, but a rule that follows the machine would be one more thing to know of it.
 */
enum { SLICE_BYTES = 1280 * 1024, MAX_SLICE = 64 };

/* A stage with a weight of so many bytes begins a segment where it may take larger pieces than the one before. It counts
 * as often as it is larger when Winograd's algorithm reads it. */
enum { HEAVY_BYTES = 1024 * 1024, HEAVY_TIMES = 4 };

/* A cohort has so many samples, or less where the outputs of all stages would take more memory than
 * this. Enough to use what is read of the weights many times. */
enum { COHORT_SAMPLES = 128, COHORT_BYTES = 32 << 20 };

/* What is known of a node before stages are made. */
typedef struct mark {
    bool needed, to_loss, from_target;
    bool learns;          /* a parameter that is not frozen comes before it, or in it */
    bool covered;         /* by a stage */
    int readers;          /* edges to needed nodes */
    lki_refusal *refused; /* of clusters that begin with it, in the list's order */
} mark;

static const lki_op *op_of(const lki_node *node)
{
    return lki_op_get(node->op);
}

static bool is_source(const lki_node *node)
{
    return node->op == LKI_OP_INPUT || node->op == LKI_OP_TARGET;
}

/* Walks the graph backwards from `node`; graphs are shallow enough for recursion over at most graph->count levels. */
static void mark_needed(mark *marks, const lki_node *node, bool to_loss)
{
    mark *self = &marks[node->index];
    if (self->needed && (self->to_loss || !to_loss)) return;
    self->needed = true;
    self->to_loss |= to_loss;
    for (int i = 0; i < node->in_count; i++) mark_needed(marks, node->in[i]->node, to_loss);
}

/* Where a weight has two users the loss depends on both, or on neither. */
static lks_status check_tied(const lki_program *program, const mark *marks)
{
    for (const lki_node *node = program->graph->first; node != NULL; node = node->next) {
        const mark *own = &marks[node->index];
        const mark *tied = node->tied != NULL ? &marks[node->tied->index] : own;
        if (own->needed < tied->needed || own->to_loss < tied->to_loss)
            return LKI_FAIL(LKS_E_INVALID,
                            "'%s' has the weight of '%s', but nothing that comes out of that; "
                            "expected an embedding that its input comes from",
                            node->tied->name, node->name);
    }
    return LKS_OK;
}

static void mark_nodes(const lki_program *program, mark *marks)
{
    mark_needed(marks, program->output->node, false);
    if (program->loss != NULL) mark_needed(marks, program->loss->node, true);
    for (const lki_node *node = program->graph->first; node != NULL; node = node->next) {
        mark *self = &marks[node->index];
        self->from_target = node->op == LKI_OP_TARGET;
        self->learns = node->param_count > 0 && lki_program_forms(program, node);
        for (int i = 0; i < node->in_count; i++) {
            self->from_target |= marks[node->in[i]->node->index].from_target;
            self->learns |= marks[node->in[i]->node->index].learns;
            if (self->needed) marks[node->in[i]->node->index].readers++;
        }
    }
}

/* The choice of stages under way. */
typedef struct choice {
    lki_program *program;
    mark *marks;
} choice;

/* lki_hidden. Nothing reads a loss. */
static bool is_hidden(const void *user, const lki_node *node)
{
    const choice *c = user;
    return c->marks[node->index].readers == 1 && &node->out != c->program->output;
}

static bool adds_gradient(const choice *c, const lki_node *reader, const lks_tensor *tensor)
{
    return c->marks[reader->index].needed && c->marks[reader->index].to_loss &&
           c->marks[tensor->node->index].learns;
}

static bool reads(const lki_node *node, const lks_tensor *tensor)
{
    for (int i = 0; i < node->in_count; i++)
        if (node->in[i] == tensor) return true;
    return false;
}

/*
 * Readers of a tensor add to its gradient in reverse order of the graph, and the order decides bits, as
 * kernels round what they add in ways of their own. A cluster stands where its last node stands, and all
 * stages that are chosen later stand before it: so it may not overtake a reader that stands behind the
 * node of the cluster that reads the same tensor, and has no stage yet.
 */
static bool keeps_order(const choice *c, const lki_cluster *cluster)
{
    const lki_node *tail = lki_cluster_tail(cluster);
    if (!c->marks[tail->index].to_loss) return true;
    for (int n = 0; n + 1 < cluster->count; n++) {
        const lki_node *node = cluster->node[n];
        for (int i = 0; i < node->in_count; i++)
            for (const lki_node *other = node->next; other != tail; other = other->next)
                if (reads(other, node->in[i]) && !c->marks[other->index].covered &&
                    adds_gradient(c, other, node->in[i]) && !lki_cluster_has(cluster, other))
                    return false;
    }
    return true;
}

static lks_status note_refusal(const choice *c, const lki_node *head, int place, const char *why)
{
    lki_refusal **at = &c->marks[head->index].refused;
    void *memory;
    while (*at != NULL && (*at)->place < place) at = &(*at)->next;
    if (*at != NULL && (*at)->place == place) return LKS_OK; /* of a longer cluster */
    LKI_TRY(lki_arena_alloc(&c->program->arena, &memory, sizeof(lki_refusal), "refusals"));
    lki_refusal *refusal = memory;
    *refusal = (lki_refusal){
        .impl = c->program->backend->impl[place], .place = place, .why = why, .next = *at};
    *at = refusal;
    return LKS_OK;
}

/* Whether replicas can meet in it, where they have to. */
static bool may_meet(const lki_program *program, const lki_impl *impl, const lki_cluster *cluster)
{
    return cluster->counted == NULL || cluster->counted->meets == 0 ||
           (impl->kernel->give != NULL && program->backend->memory->merge != NULL);
}

/* What computes `tail`, and with it other nodes; NULL: nothing does. */
static lks_status choose_impl(const choice *c, const lki_node *tail, const lki_impl **out,
                              lki_cluster *cluster)
{
    const lki_impl *const *list = c->program->backend->impl;
    const lki_switches *switches = &c->program->switches;
    *out = NULL;
    for (int i = 0; list[i] != NULL; i++) {
        const lki_impl *impl = list[i];
        if (!lki_impl_match(impl, tail, is_hidden, c, cluster)) continue;
        const char *why = impl->refuses != NULL ? impl->refuses(cluster, switches) : NULL;
        if (why == NULL && !may_meet(c->program, impl, cluster)) why = "replicas cannot meet in it";
        if (why == NULL && !keeps_order(c, cluster))
            why = "gradients would be added in another order";
        if (why == NULL && switches->single && cluster->count > 1) why = "kernels.fuse: false";
        if (why == NULL) {
            *out = impl;
            return LKS_OK;
        }
        LKI_TRY(note_refusal(c, lki_cluster_head(cluster), i, why));
    }
    return LKS_OK;
}

static lks_status add_stage(const choice *c, const lki_impl *impl, const lki_cluster *cluster)
{
    lki_program *program = c->program;
    const lki_node *tail = lki_cluster_tail(cluster);
    const mark *at = &c->marks[tail->index];
    lki_stage *stage = &program->stage[program->stages];
    void *plan;
    LKI_TRY(lki_arena_alloc(&program->arena, &plan, impl->kernel->plan_bytes, "a kernel's plan"));
    *stage = (lki_stage){.plan = plan,
                         .impl = impl,
                         .kernel = impl->kernel,
                         .refused = c->marks[lki_cluster_head(cluster)->index].refused,
                         .needs_target = at->from_target,
                         .backward = at->to_loss && at->learns};
    *stage->plan = (lki_plan){.kernel = impl->kernel,
                              .context = program->context,
                              .cluster = *cluster,
                              .switches = program->switches,
                              .batch = program->global_batch,
                              .share = program->max_share,
                              .frugal = program->recompute};
    stage->cluster = &stage->plan->cluster;
    for (int i = 0; i < cluster->count; i++)
        if (op_of(cluster->node[i])->draws)
            stage->plan->random_key = lki_random_key(
                program->context->opts.seed, op_of(cluster->node[i])->name, cluster->node[i]->name);
    for (int i = 0; i < cluster->in_count; i++)
        stage->plan->d_in_wanted[i] = stage->backward &&
                                      c->marks[cluster->in[i]->node->index].learns;
    stage->tied = tail->tied != NULL && c->marks[tail->tied->index].to_loss;
    stage->by_rows = stage->backward && impl->kernel->rows != NULL && !program->by_replica &&
                     cluster->in[0]->dtype != LKS_U8 && lki_program_forms_any(program, cluster) &&
                     !stage->tied && !lki_cluster_is_tied(cluster);
    program->stages++;
    return LKS_OK;
}

/* What was chosen for a node: the implementation whose cluster ends with it; NULL: none does. */
typedef struct chosen {
    const lki_impl *impl;
    lki_cluster cluster;
} chosen;

/* From the last node to the first, so that the largest cluster that ends with a node is seen before its
 * parts; `nodes` in order of the graph. */
static lks_status choose_all(const choice *c, const lki_node *const *nodes, chosen *all)
{
    for (int n = c->program->graph->count - 1; n >= 0; n--) {
        const mark *at = &c->marks[n];
        if (!at->needed || at->covered || is_source(nodes[n])) continue;
        LKI_TRY(choose_impl(c, nodes[n], &all[n].impl, &all[n].cluster));
        if (all[n].impl == NULL) continue;
        for (int i = 0; i < all[n].cluster.count; i++)
            c->marks[all[n].cluster.node[i]->index].covered = true;
    }
    return LKS_OK;
}

static lks_status choose_stages(const choice *c)
{
    lki_program *program = c->program;
    const size_t count = (size_t)program->graph->count;
    void *memory;
    LKI_TRY(lki_arena_alloc(&program->arena, &memory, count * sizeof(chosen), "clusters"));
    chosen *all = memory;
    LKI_TRY(lki_arena_alloc(&program->arena, &memory, count * sizeof(lki_node *), "nodes"));
    const lki_node **nodes = memory;
    for (const lki_node *node = program->graph->first; node != NULL; node = node->next)
        nodes[node->index] = node;
    LKI_TRY(choose_all(c, nodes, all));
    for (size_t n = 0; n < count; n++) {
        if (all[n].impl != NULL) LKI_TRY(add_stage(c, all[n].impl, &all[n].cluster));
        if (all[n].impl != NULL || !c->marks[n].needed || c->marks[n].covered ||
            is_source(nodes[n]))
            continue;
        return LKI_FAIL(LKS_E_UNSUPPORTED,
                        "device '%s' has no kernel for %s '%s'; choose another device",
                        program->backend->name, op_of(nodes[n])->name, nodes[n]->name);
    }
    return LKS_OK;
}

/* The largest piece that fits into so many bytes. */
static int64_t fit(size_t bytes, size_t most)
{
    int64_t slice = 1;
    while (2 * slice <= MAX_SLICE && (size_t)(2 * slice) * bytes <= most) slice *= 2;
    return slice;
}

int64_t lki_slice_of(size_t bytes)
{
    return fit(bytes, SLICE_BYTES);
}

/* Of a sample, what the stage reads and writes. */
static size_t stage_bytes(const lki_stage *stage)
{
    size_t bytes = lki_tensor_bytes(&lki_cluster_tail(stage->cluster)->out);
    for (int i = 0; i < stage->cluster->in_count; i++)
        bytes += lki_tensor_bytes(stage->cluster->in[i]);
    return bytes;
}

/* Of a call, what it reads beside samples. */
static size_t weight_bytes(const lki_stage *stage)
{
    size_t bytes = 0;
    for (int i = 0; i < stage->cluster->param_count; i++) {
        const lki_node *owner = stage->cluster->param[i].owner;
        const lki_param *param = &owner->param[stage->cluster->param[i].index];
        bytes += sizeof(float) * (size_t)lks_shape_elements(&param->shape);
    }
    return bytes;
}

/* Of stages of which the largest have so many bytes: what is read of a weight is used for as many bytes of samples at
 * least. */
static int64_t slice_for(const lki_program *program, size_t sample, size_t weight)
{
    const size_t packed = weight < HEAVY_BYTES ? weight : lki_times(weight, HEAVY_TIMES);
    int64_t slice = fit(sample, packed > SLICE_BYTES ? packed : SLICE_BYTES);
    while (slice > program->max_share) slice /= 2; /* pieces stay as they are */
    return slice;
}

static int64_t slice_of(const lki_program *program, const lki_segment *segment)
{
    size_t most = 1, weight = 0;
    for (int p = segment->first; p < segment->first + segment->count; p++) {
        const lki_stage *stage = &program->stage[program->part[p].stage];
        const size_t bytes = stage_bytes(stage), weights = weight_bytes(stage);
        if (bytes > most) most = bytes;
        if (weights > weight) weight = weights;
    }
    return slice_for(program, most, weight);
}

/* Whether a stage is better begun in a segment of its own than in this one: its weight is large, and
 * larger pieces read it less often. */
static bool begins(const lki_program *program, const lki_segment *segment, int s)
{
    const lki_stage *stage = &program->stage[s];
    const size_t weight = weight_bytes(stage);
    return weight >= HEAVY_BYTES &&
           slice_for(program, stage_bytes(stage), weight) > slice_of(program, segment);
}

static void add_part(lki_program *program, int s, bool second)
{
    const lki_span span = lki_program_span(program, &program->stage[s]);
    const bool slice = !lki_span_whole(span);
    const bool joint = span == LKI_SPAN_JOINT;
    lki_segment *last = program->segments > 0 ? &program->segment[program->segments - 1] : NULL;
    if (last == NULL || second || program->stage[s].opens ||
        (slice && last->slice != 0 && begins(program, last, s)) ||
        (span != LKI_SPAN_EITHER && (slice != (last->slice != 0) || joint != last->joint))) {
        last = &program->segment[program->segments++];
        *last = (lki_segment){.first = program->parts, .slice = slice ? 1 : 0, .joint = joint};
    }
    last->count++;
    program->part[program->parts++] = (lki_part){.stage = s,
                                                 .segment = program->segments - 1,
                                                 .second = second,
                                                 .back = -1,
                                                 .forwarded = -1};
}

static void make_segments(lki_program *program)
{
    for (int s = 0; s < program->stages; s++) {
        lki_stage *stage = &program->stage[s];
        stage->first = stage->second = program->parts;
        add_part(program, s, false);
        if (!lki_in_halves(stage->kernel)) continue;
        stage->second = program->parts;
        add_part(program, s, true);
        if (stage->cluster->counted != NULL && stage->cluster->counted->meets > 0)
            program->meeting[program->meetings++] = s;
    }
    for (int i = 0; i < program->segments; i++)
        if (program->segment[i].slice != 0)
            program->segment[i].slice = slice_of(program, &program->segment[i]);
}

/* The most samples of a call of this part's kernel. */
static int64_t most_samples(const lki_program *program, int part)
{
    const lki_segment *segment = &program->segment[program->part[part].segment];
    return segment->slice != 0 ? segment->slice
           : segment->joint    ? program->max_cohort
                               : program->max_share;
}

/* The largest cohort that is worth it in a joint segment. */
static int64_t joint_cohort(const lki_program *program)
{
    size_t bytes = 0;
    for (int s = 0; s < program->stages; s++)
        bytes += lki_tensor_bytes(&lki_cluster_tail(program->stage[s].cluster)->out);
    int64_t samples = COHORT_BYTES / (int64_t)bytes;
    if (samples > COHORT_SAMPLES) samples = COHORT_SAMPLES;
    return samples / program->max_share;
}

/* How many replicas of a worker make a cohort: all where they meet, else 1 where nothing is joint. */
static void set_cohort(lki_program *program)
{
    const bool joint = program->segments > 0 && program->segment[program->segments - 1].joint;
    program->cohort = 1;
    program->max_cohort = program->max_share;
    if (!joint && program->meetings == 0) return;
    program->cohort = program->meetings > 0 ? program->most_replicas : joint_cohort(program);
    if (program->cohort > program->most_replicas) program->cohort = program->most_replicas;
    if (program->cohort < 1) program->cohort = 1;
    program->max_cohort = program->cohort * program->max_share;
    if (program->max_cohort > program->global_batch) program->max_cohort = program->global_batch;
}

lks_status lki_plan_make(lki_plan *plan)
{
    const lki_needs *needs = &plan->needs;
    const lki_node *head = lki_cluster_head(&plan->cluster);
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
    const size_t count = (size_t)program->graph->count;
    void *memory;
    LKI_TRY(lki_arena_alloc(&program->arena, &memory, count * sizeof(lki_stage), "stages"));
    program->stage = memory;
    LKI_TRY(lki_arena_alloc(&program->arena, &memory, 2 * count * sizeof(lki_part), "parts"));
    program->part = memory;
    LKI_TRY(lki_arena_alloc(&program->arena, &memory, 2 * count * sizeof(lki_segment), "segments"));
    program->segment = memory;
    LKI_TRY(lki_arena_alloc(&program->arena, &memory, count * sizeof(int), "meetings"));
    program->meeting = memory;
    LKI_TRY(lki_arena_alloc(&program->arena, &memory, count * sizeof(mark), "marks"));
    mark *marks = memory;
    LKI_TRY(lki_program_freeze(program));
    mark_nodes(program, marks);
    LKI_TRY(check_tied(program, marks));
    if (marks[program->output->node->index].from_target)
        return LKI_FAIL(LKS_E_INVALID,
                        "output '%s' depends on the target, so it cannot be predicted; give the "
                        "tensor before the loss",
                        program->output->node->name);
    if (program->freeze_count > 0 && program->loss != NULL &&
        !marks[program->loss->node->index].learns)
        return LKI_FAIL(LKS_E_INVALID,
                        "freeze leaves no parameter to train; drop a pattern, such as that of the "
                        "last layer");
    LKI_TRY(choose_stages(&(choice){.program = program, .marks = marks}));
    LKI_TRY(lki_program_make_blocks(program));
    make_segments(program);
    set_cohort(program);
    for (int s = 0; s < program->stages; s++) {
        lki_stage *stage = &program->stage[s];
        const int64_t first = most_samples(program, stage->first);
        const int64_t second = most_samples(program, stage->second);
        stage->plan->slice = first > second ? first : second;
        LKI_TRY(lki_plan_make(stage->plan));
    }
    return LKS_OK;
}

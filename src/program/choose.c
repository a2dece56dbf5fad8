/* From nodes to stages: which implementation computes what. */
#include <string.h>

#include "base/check.h"
#include "base/context.h"
#include "base/text.h"
#include "numeric/random.h"
#include "program/program.h"
#include "program/rows.h"

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

/* "conv_norm takes conv1" */
static lks_status name_taker(const choice *c, const lki_impl *impl, const lki_node *node,
                             const char **out)
{
    static const char format[] = "%s takes %s";
    const size_t bytes = strlen(impl->name) + strlen(node->name) + sizeof format;
    void *memory;
    LKI_TRY(lki_arena_alloc(&c->program->arena, &memory, bytes, "refusals"));
    lki_text(memory, bytes, format, impl->name, node->name);
    *out = memory;
    return LKS_OK;
}

/* Behind a choice: what would have ended inside of the cluster, and begun in front of it. */
static lks_status note_overlaps(const choice *c, const lki_impl *taker, const lki_cluster *cluster)
{
    const lki_impl *const *list = c->program->backend->impl;
    for (int n = 0; n + 1 < cluster->count; n++)
        for (int i = 0; list[i] != NULL; i++) {
            lki_cluster other;
            if (!lki_impl_match(list[i], cluster->node[n], is_hidden, c, &other)) continue;
            const lki_node *head = lki_cluster_head(&other);
            if (lki_cluster_has(cluster, head)) continue;
            const char *why = list[i]->refuses != NULL
                                  ? list[i]->refuses(&other, &c->program->switches)
                                  : NULL;
            if (why == NULL) LKI_TRY(name_taker(c, taker, cluster->node[n], &why));
            LKI_TRY(note_refusal(c, head, i, why));
        }
    return LKS_OK;
}

static bool can_form_rows(const lki_stage *stage)
{
    return stage->cluster->in[0]->dtype != LKS_U8 && !stage->tied &&
           !lki_cluster_is_tied(stage->cluster) && lki_may_form_rows(stage->plan);
}

/* A stage that has an embedding's weight: both gradients by its rows, or both by replica. */
static void choose_tied(lki_program *program, lki_stage *stage)
{
    const lki_node *node = lki_cluster_tail(stage->cluster);
    for (int s = 0; s < program->stages; s++) {
        lki_stage *front = &program->stage[s];
        if (!front->tied || lki_cluster_tail(front->cluster)->tied != node) continue;
        if (program->by_replica || !stage->backward || !front->backward || !stage->kernel->adds ||
            !front->kernel->lists || !lki_program_forms_any(program, front->cluster) ||
            !lki_may_form_rows(stage->plan) || stage->cluster->count > 1)
            return;
        stage->plan->by_rows = front->plan->by_rows = front->plan->tied = true;
        stage->front = s;
    }
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
                         .backward = at->to_loss && at->learns,
                         .front = LKI_NO_STAGE};
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
    stage->plan->by_rows = stage->backward && !program->by_replica &&
                           lki_program_forms_any(program, cluster) && can_form_rows(stage);
    choose_tied(program, stage);
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
        LKI_TRY(note_overlaps(c, all[n].impl, &all[n].cluster));
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

lks_status lki_program_choose(lki_program *program)
{
    const size_t count = (size_t)program->graph->count;
    void *memory;
    LKI_TRY(lki_arena_alloc(&program->arena, &memory, count * sizeof(mark), "marks"));
    mark *marks = memory;
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
    return choose_stages(&(choice){.program = program, .marks = marks});
}

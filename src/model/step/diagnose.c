/* Why a loss is not finite: parameters first, then the replica once more, every operation by its
 * own kernel, looking at every tensor. Where replicas meet one spoils all: then it is all of this rank's, and the
 * first operation counts, whoever's it is. */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/float.h"
#include "model/model.h"
#include "model/step/batch.h"
#include "numeric/tree.h"

typedef struct finding {
    char text[256]; /* empty: nothing found yet */
    int place;      /* of the node in the graph; -1: a parameter */
    bool all;       /* what comes later may be of an operation before */
    const lki_memory *memory;
    const lks_batch *batch;
} finding;

static void look_at_parameters(const lks_model *model, finding *found)
{
    for (int i = 0; i < model->hashed_states && found->text[0] == '\0'; i++) {
        const lki_state *state = &model->state[i];
        if (state->info.dtype != LKS_F32) continue;
        float value;
        const int64_t bad = lki_first_not_finite(found->memory, *state->memory,
                                                 lks_shape_elements(&state->info.shape), &value);
        if (bad >= 0)
            snprintf(found->text, sizeof found->text, "%s '%s', element %lld",
                     state->info.kind == LKS_PARAMETER ? "parameter" : "buffer", state->info.name,
                     (long long)bad);
    }
}

static void diagnose_look_at(finding *found, const lki_node *node, const void *values,
                             int64_t position, int64_t count)
{
    const int64_t width = lks_shape_elements(&node->out.shape);
    if (found->text[0] != '\0' && !(found->all && node->index < found->place)) return;
    if (node->out.dtype != LKS_F32) return;
    float value;
    const int64_t bad = lki_first_not_finite(found->memory, values, count * width, &value);
    if (bad >= 0) found->place = node->index;
    if (bad >= 0)
        snprintf(found->text, sizeof found->text, "output of %s '%s', element %lld of sample %lld",
                 lki_op_get(node->op)->name, node->name, (long long)(bad % width),
                 (long long)lki_sample_id(found->batch, position + bad / width));
}

static lks_status trace(void *user, const lki_program *program, const lki_stage *stage,
                        const lki_args *args)
{
    finding *found = user;
    (void)program;
    for (int i = 0; i < stage->cluster->in_count; i++) {
        const lki_node *in = stage->cluster->in[i]->node;
        if (in->op == LKI_OP_INPUT || in->op == LKI_OP_TARGET)
            diagnose_look_at(found, in, args->in[i], args->position, args->count);
    }
    diagnose_look_at(found, lki_cluster_tail(stage->cluster), args->out, args->position,
                     args->count);
    return LKS_OK;
}

/* What `to` computes has the parameters and buffers that it has in `from`. */
static void borrow_from(const lki_stage *from, lki_stage *to)
{
    const lki_cluster *has = from->cluster, *wants = to->cluster;
    for (int t = 0; t < wants->param_count; t++)
        for (int f = 0; f < has->param_count; f++)
            if (has->param[f].owner == wants->param[t].owner &&
                has->param[f].index == wants->param[t].index)
                to->param[t] = from->param[f];
    if (wants->counted != NULL && wants->counted == has->counted)
        memcpy(to->buffer, from->buffer, sizeof to->buffer);
    if (lki_cluster_tail(wants) == lki_cluster_tail(has))
        memcpy(to->carried, from->carried, sizeof to->carried);
}

/* Nobody meets in a replay of one replica: it has what came of all. */
static void borrow_met(const lks_model *model, const lki_stage *from, const lki_program *plain,
                       const lki_stage *to)
{
    const lki_node *counted = to->cluster->counted;
    if (counted == NULL || counted->meets == 0 || counted != from->cluster->counted) return;
    plain->backend->memory->copy(lki_program_met(plain, to, false, plain->replicas),
                                 lki_meet_result(model, from),
                                 (size_t)counted->meets * sizeof(double));
}

/* A stage of the unfused program uses the parameters and buffers of the model's. */
static void borrow_parameters(const lks_model *model, lki_program *plain)
{
    for (int s = 0; s < plain->stages; s++)
        for (int m = 0; m < model->program.stages; m++) {
            borrow_from(&model->program.stage[m], &plain->stage[s]);
            borrow_met(model, &model->program.stage[m], plain, &plain->stage[s]);
        }
}

static lks_status replay(const lks_model *model, lki_program *plain, int64_t position,
                         finding *found)
{
    LKI_TRY(lki_program_compile(plain));
    LKI_TRY(lki_program_allocate(plain));
    borrow_parameters(model, plain);
    for (int s = 0; s < plain->stages; s++) {
        const lki_stage *stage = &plain->stage[s];
        lki_plan_pack(stage->plan, (const float *const *)stage->param,
                      plain->packed + stage->packed_offset, 0, 1);
    }
    const size_t bytes = plain->local_bytes + plain->workspace_bytes;
    void *memory;
    LKI_TRY(found->memory->alloc(model->context, &memory, bytes, "the replay of a replica"));
    const lki_local local = {
        .memory = memory, .kept = plain->kept, .trace = trace, .trace_user = found};
    lki_pass pass = model->pass;
    pass.backward = false;
    pass.leaves = LKI_CARRIED_NOTHING;
    int64_t replica = pass.first;
    while (lki_share(replica + 1, plain->replicas, pass.count) <= position) replica++;
    int64_t last = replica + 1;
    if (found->all) replica = pass.first, last = pass.last;
    lks_status status = LKS_OK;
    for (; replica < last && status == LKS_OK; replica++) {
        const lki_cohort cohort = lki_program_cohort(plain, &pass, replica, replica + 1);
        status = lki_program_forward(plain, &pass, &cohort, &local);
    }
    found->memory->free(model->context, memory, bytes);
    return status;
}

/* "17, 4, 5, ..." */
typedef struct sample_list {
    char text[160];
    size_t used;
    int64_t listed;
} sample_list;

static void list_sample(sample_list *list, int64_t id)
{
    if (list->used < sizeof list->text)
        list->used += (size_t)snprintf(list->text + list->used, sizeof list->text - list->used,
                                       "%s%lld", list->listed > 0 ? ", " : "", (long long)id);
    list->listed++;
}

static void list_samples(const lks_model *model, const lks_batch *batch, sample_list *list)
{
    const lki_across *across = model->across;
    int64_t total = 0;
    for (int r = 0; across != NULL && r < across->ranks; r++) {
        total += across->word[r].metrics.not_finite;
        for (int i = 0; i < across->word[r].bad_count; i++)
            list_sample(list, across->word[r].bad_id[i]);
    }
    for (int w = 0; across == NULL && w < model->workers; w++) {
        const lki_worker *worker = &model->worker[w];
        total += worker->metrics.not_finite;
        for (int i = 0; i < worker->bad_count; i++)
            list_sample(list, lki_sample_id(batch, worker->bad_position[i]));
    }
    if (total > list->listed && list->used < sizeof list->text)
        snprintf(list->text + list->used, sizeof list->text - list->used, ", ...");
}

lks_status lki_diagnose(lks_model *model, const lks_batch *batch, int64_t position, int *place)
{
    finding found = {.memory = model->program.backend->memory,
                     .batch = batch,
                     .place = -1,
                     .all = model->meeting != NULL};
    sample_list samples = {.text = ""};
    list_samples(model, batch, &samples);
    look_at_parameters(model, &found);
    if (found.text[0] == '\0') {
        lki_program plain = model->program;
        plain = (lki_program){.context = plain.context,
                              .backend = plain.backend,
                              .graph = plain.graph,
                              .loss = plain.loss,
                              .output = plain.output,
                              .global_batch = plain.global_batch,
                              .replicas = plain.replicas,
                              .pass_replicas = plain.pass_replicas,
                              .switches = plain.switches,
                              .by_replica = true};
        plain.switches.single = true;
        const unsigned saved = lki_float_enter();
        const lks_status status = replay(model, &plain, position, &found);
        lki_float_leave(saved);
        lki_program_release(&plain);
        if (status != LKS_OK)
            snprintf(found.text, sizeof found.text, "not found, the replay failed");
    }
    if (place != NULL) *place = found.place;
    if (found.text[0] == '\0')
        snprintf(found.text, sizeof found.text, "none in a replay without fused kernels");
    return LKI_FAIL(
        LKS_E_NUMERIC,
        "step %lld: the loss is not finite for sample %s; first bad tensor: %s; nothing "
        "was updated; lower the learning rate or look at these samples",
        (long long)model->progress.step + 1, samples.text, found.text);
}

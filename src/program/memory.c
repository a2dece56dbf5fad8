/* A place in memory for every value of a program, and what it costs in all. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "program/program.h"

static int add_value(lki_program *program, lki_place place, size_t bytes, const char *node,
                     const char *role)
{
    program->value[program->values] = (lki_value){.place = place,
                                                  .node = node,
                                                  .role = role,
                                                  .bytes = bytes,
                                                  .first = -1,
                                                  .last = -1,
                                                  .again = -1,
                                                  .until = -1,
                                                  .original = LKI_NO_VALUE};
    return program->values++;
}

/* The elements of a tensor, or its gradient: their types may differ. */
static int add_tensor(lki_program *program, lki_place place, const lks_tensor *tensor,
                      bool gradient, const char *node, const char *role)
{
    const bool own = place == LKI_AT_COHORT && program->stored != NULL; /* not the caller's */
    const lks_dtype type = own ? program->stored(tensor, gradient) : tensor->dtype;
    const size_t elements = (size_t)lks_shape_elements(&tensor->shape);
    const int value = add_value(program, place, elements * lks_dtype_size(type), node, role);
    program->value[value].type = type;
    return value;
}

/* Every value, without a place in an arena yet; gradients are made by their readers' stages. */
static void make_values(lki_program *program)
{
    for (const lki_node *node = program->graph->first; node != NULL; node = node->next) {
        program->activation[node->index] = program->gradient[node->index] = LKI_NO_VALUE;
        if (node->op == LKI_OP_INPUT || node->op == LKI_OP_TARGET)
            program->activation[node->index] = add_tensor(
                program, node->op == LKI_OP_INPUT ? LKI_AT_BATCH_X : LKI_AT_BATCH_Y, &node->out,
                false, node->name, node->op == LKI_OP_INPUT ? "x" : "y");
    }
    for (int s = 0; s < program->stages; s++) {
        lki_stage *stage = &program->stage[s];
        const lki_needs *needs = &stage->plan->needs;
        const lki_cluster *cluster = stage->cluster;
        const char *name = lki_cluster_head(cluster)->name;
        const lks_tensor *tensor = &lki_cluster_tail(cluster)->out;
        const int index = tensor->node->index;
        program->activation[index] = add_tensor(program, LKI_AT_COHORT, tensor, false, name, "out");
        if (stage->backward && tensor != program->loss)
            program->gradient[index] = add_tensor(program, LKI_AT_COHORT, tensor, true, name,
                                                  "d_out");
        stage->out = program->activation[index];
        stage->d_out = program->gradient[index];
        stage->saved = stage->replica = stage->sums = LKI_NO_VALUE;
        for (int i = 0; i < LKI_MAX_FACTORS; i++)
            stage->factor[i] = needs->factor_bytes[i] > 0
                                   ? add_value(program, LKI_AT_KEPT, needs->factor_bytes[i], name,
                                               "factor")
                                   : LKI_NO_VALUE;
        if (needs->saved_bytes > 0)
            stage->saved = add_value(program, LKI_AT_COHORT, needs->saved_bytes, name, "saved");
        if (needs->replica_bytes > 0)
            stage->replica = add_value(program, LKI_AT_REPLICA, needs->replica_bytes, name,
                                       "replica");
        if (stage->backward && needs->sums_bytes > 0)
            stage->sums = add_value(program, LKI_AT_SUMS, needs->sums_bytes, name, "sums");
        for (int i = 0; i < LKI_MAX_CLUSTER_IN; i++) {
            const lki_node *in = i < cluster->in_count ? cluster->in[i]->node : NULL;
            stage->in[i] = in != NULL ? program->activation[in->index] : LKI_NO_VALUE;
            stage->d_in[i] = in != NULL && stage->plan->d_in_wanted[i]
                                 ? program->gradient[in->index]
                                 : LKI_NO_VALUE;
        }
    }
}

/* Gradients by rows read the whole pass. */
static void keep_for_rows(lki_program *program)
{
    for (int s = 0; s < program->stages; s++) {
        const lki_stage *stage = &program->stage[s];
        if (!stage->plan->by_rows) continue;
        lki_value *in = &program->value[stage->in[0]];
        if (in->place == LKI_AT_COHORT && !stage->plan->tied) in->place = LKI_AT_KEPT;
        if (stage->d_out != LKI_NO_VALUE && stage->factor[0] == LKI_NO_VALUE)
            program->value[stage->d_out].place = LKI_AT_KEPT;
    }
}

/* Whether the stage forms the gradient of its input i before that of input k: as the single nodes would,
 * the later part's first, in a part the later node's, of a node in order of its inputs. */
static bool formed_before(const lki_stage *stage, int i, int k)
{
    const int part = lki_gradient_part(stage, i), other = lki_gradient_part(stage, k);
    const lki_node *reader = lki_cluster_reader(stage->cluster, i);
    const lki_node *after = lki_cluster_reader(stage->cluster, k);
    if (part != other) return part > other;
    return reader != after ? reader->index > after->index : i < k;
}

/* Whether another stage, or this one by another input, writes this gradient before: backward runs from
 * the last stage to the first. */
static bool written_before(const lki_program *program, int s, int input)
{
    const lki_stage *self = &program->stage[s];
    const int value = self->d_in[input];
    for (int i = 0; i < self->cluster->in_count; i++)
        if (i != input && self->d_in[i] == value && formed_before(self, i, input)) return true;
    for (int t = s + 1; t < program->stages; t++)
        for (int i = 0; i < LKI_MAX_CLUSTER_IN; i++)
            if (program->stage[t].d_in[i] == value) return true;
    return false;
}

static void set_additions(lki_program *program)
{
    for (int s = 0; s < program->stages; s++)
        for (int i = 0; i < LKI_MAX_CLUSTER_IN; i++)
            if (program->stage[s].d_in[i] != LKI_NO_VALUE && written_before(program, s, i))
                program->stage[s].add_in |= 1u << i;
}

static bool is_local(const lki_value *value)
{
    return value->place == LKI_AT_COHORT || value->place == LKI_AT_SLICE ||
           value->place == LKI_AT_REPLICA || value->place == LKI_AT_SUMS;
}

static void set_places(lki_program *program)
{
    lki_program_place_kept(program);
    for (int v = 0; v < program->values; v++) {
        lki_value *value = &program->value[v];
        if (value->first < 0) continue; /* never touched: takes no room */
        if (value->place == LKI_AT_COHORT) {
            const int64_t slice = lki_program_slice(program, value);
            if (slice > 0) value->place = LKI_AT_SLICE;
            value->room = lki_align(
                lki_times(value->bytes, (size_t)(slice > 0 ? slice : program->max_cohort)));
        } else if (value->place == LKI_AT_REPLICA) {
            value->room = lki_times(lki_align(value->bytes), (size_t)program->cohort);
        } else if (value->place == LKI_AT_SUMS) {
            value->room = lki_align(value->bytes);
        }
        if (is_local(value)) lki_program_widen(program, value);
    }
}

/* All values beside each other can be addressed, so no sum below overflows. */
static lks_status check_rooms(const lki_program *program)
{
    const lki_value *largest = &program->value[0];
    size_t all = 0;
    for (int v = 0; v < program->values; v++) {
        all = lki_plus(all, program->value[v].room);
        if (program->value[v].room > largest->room) largest = &program->value[v];
    }
    if (all <= PTRDIFF_MAX) return LKS_OK;
    return LKI_FAIL(
        LKS_E_SHAPE,
        "a batch of %lld samples needs more memory than can be addressed: '%s' alone has "
        "%zu bytes for each; use a smaller batch",
        (long long)program->global_batch, largest->node, largest->bytes);
}

static bool meet(int first, int last, int other_first, int other_last)
{
    return first >= 0 && other_first >= 0 && first <= other_last && other_first <= last;
}

static bool live_together(const lki_value *a, const lki_value *b)
{
    return meet(a->first, a->last, b->first, b->last) ||
           meet(a->again, a->until, b->first, b->last) ||
           meet(a->first, a->last, b->again, b->until) ||
           meet(a->again, a->until, b->again, b->until);
}

/* The lowest offset at which `value` overlaps no placed value that is alive at the same time. */
static size_t first_fit(const lki_program *program, const lki_value *value, const bool *placed)
{
    size_t offset = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int v = 0; v < program->values; v++) {
            const lki_value *other = &program->value[v];
            if (placed[v] && live_together(value, other) && offset < other->offset + other->room &&
                other->offset < offset + value->room) {
                offset = other->offset + other->room;
                moved = true;
            }
        }
    }
    return offset;
}

/* Largest first, each as low as it fits: simple, and within a few percent of the most that is alive
 * at one time for chains. */
static void place_locals(lki_program *program, bool *placed)
{
    for (;;) {
        int largest = LKI_NO_VALUE;
        for (int v = 0; v < program->values; v++) {
            const lki_value *value = &program->value[v];
            if (!placed[v] && is_local(value) && value->room > 0 &&
                (largest == LKI_NO_VALUE || value->room > program->value[largest].room))
                largest = v;
        }
        if (largest == LKI_NO_VALUE) return;
        lki_value *value = &program->value[largest];
        value->offset = first_fit(program, value, placed);
        placed[largest] = true;
        if (value->offset + value->room > program->local_bytes)
            program->local_bytes = value->offset + value->room;
    }
}

lks_status lki_program_place_values(lki_program *program)
{
    const size_t nodes = (size_t)program->graph->count;
    /* At most: out and gradient of a node; saved, replica, sums and factors of a stage; copies of out and saved. */
    const size_t most = (7 + LKI_MAX_FACTORS) * nodes;
    void *memory;
    LKI_TRY(lki_arena_alloc(&program->arena, &memory, most * sizeof(lki_value), "values"));
    program->value = memory;
    LKI_TRY(lki_arena_alloc(&program->arena, &memory, 2 * nodes * sizeof(int), "values of nodes"));
    program->activation = memory;
    program->gradient = program->activation + nodes;
    LKI_TRY(lki_arena_alloc(&program->arena, &memory, most * sizeof(bool), "placed values"));

    make_values(program);
    keep_for_rows(program);
    lki_program_choose_rounded(program);
    lki_program_set_times(program);
    lki_program_make_copies(program);
    set_additions(program);
    set_places(program);
    LKI_TRY(check_rooms(program));
    place_locals(program, memory);

    for (int s = 0; s < program->stages; s++) {
        lki_stage *stage = &program->stage[s];
        const lki_needs *needs = &stage->plan->needs;
        stage->packed_offset = program->packed_bytes;
        program->packed_bytes = lki_plus(program->packed_bytes, lki_align(needs->packed_bytes));
        if (needs->workspace_bytes > program->workspace_bytes)
            program->workspace_bytes = lki_align(needs->workspace_bytes);
        if (stage->cluster->counted != NULL) {
            stage->stats_offset = (size_t)program->stats_count;
            program->stats_count += stage->cluster->counted->stats * program->replicas;
            stage->met_offset = (size_t)program->met_count;
            program->met_count += 2 * (program->replicas + 1) * stage->cluster->counted->meets;
        }
    }
    return LKS_OK;
}

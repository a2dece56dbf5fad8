/* Compile a program, release it, and run replicas of it. */
#include "program/program.h"

#include "base/check.h"
#include "numeric/tree.h"

lks_status lki_program_allocate(lki_program *program)
{
    const lki_memory *memory = program->backend->memory;
    void *made;
    LKI_TRY(memory->alloc(program->context, &made, program->kept_bytes,
                          "the activations that gradients by rows read"));
    program->kept = made;
    if (program->packed == NULL) {
        LKI_TRY(memory->alloc(program->context, &made, program->packed_bytes, "packed parameters"));
        program->packed = made;
    }
    if (program->stats == NULL) {
        LKI_TRY(memory->alloc(program->context, &made,
                              (size_t)program->stats_count * sizeof(double),
                              "statistics of replicas"));
        program->stats = made;
    }
    if (program->met_count > 0) {
        LKI_TRY(memory->alloc(program->context, &made, (size_t)program->met_count * sizeof(double),
                              "what replicas give where they meet"));
        program->met = made;
    }
    const size_t losses = (size_t)lki_program_losses(program) * sizeof(float);
    LKI_TRY(memory->alloc(program->context, &made, losses, "gradients of losses"));
    program->ones = made;
    lki_program_seed(program, 1);
    return LKS_OK;
}

lks_status lki_program_compile(lki_program *program)
{
    program->arena.context = program->context;
    program->max_share = (program->global_batch + program->replicas - 1) / program->replicas;
    if (program->pass_replicas == 0) program->pass_replicas = program->replicas;
    lki_program_set_pass(program);
    LKI_TRY(lki_program_make_stages(program));
    return lki_program_place_values(program);
}

void lki_program_release(lki_program *program)
{
    if (program->backend == NULL) return;
    for (int s = 0; s < program->stages; s++)
        if (program->stage[s].kernel->release != NULL)
            program->stage[s].kernel->release(program->stage[s].plan);
    const lki_memory *memory = program->backend->memory;
    memory->free(program->context, program->kept, program->kept_bytes);
    memory->free(program->context, program->packed, program->packed_bytes);
    memory->free(program->context, program->stats, (size_t)program->stats_count * sizeof(double));
    memory->free(program->context, program->met, (size_t)program->met_count * sizeof(double));
    memory->free(program->context, program->ones,
                 (size_t)lki_program_losses(program) * sizeof(float));
    lki_arena_release(&program->arena);
    *program = (lki_program){0};
}

lki_pass lki_program_pass(const lki_program *program, int64_t first, int64_t last, int64_t count)
{
    return (lki_pass){.count = count,
                      .first = first,
                      .last = last,
                      .begin = lki_share(first, program->replicas, count)};
}

lki_cohort lki_program_cohort(const lki_program *program, const lki_pass *pass, int64_t first,
                              int64_t last)
{
    const int64_t begin = lki_share(first, program->replicas, pass->count);
    return (lki_cohort){.first = first,
                        .last = last,
                        .begin = begin,
                        .count = lki_share(last, program->replicas, pass->count) - begin};
}

/* A piece of a cohort: samples of one replica, or of all in a joint segment. */
typedef struct piece {
    const lki_cohort *cohort;
    int64_t replica; /* the cohort's first one in a joint segment */
    int64_t begin;   /* of the replica, in the whole batch */
    int64_t offset;  /* in the replica's share */
    int64_t count;
    bool last;  /* of its replica */
    bool whole; /* the share, of which a value in LKI_AT_SLICE has one piece only; */
    bool gives; /* and all replicas are to meet */
} piece;

static char *address(const lki_program *program, const lki_pass *pass, const lki_local *local,
                     int index, const piece *at)
{
    if (index == LKI_NO_VALUE) return NULL;
    const lki_value *value = &program->value[index];
    const int64_t position = at->begin + at->offset;
    char *memory = local->team != NULL && value->place != LKI_AT_REPLICA ? local->team->memory
                                                                         : local->memory;
    const size_t in_pass = value->bytes * (size_t)(position - pass->begin);
    switch (value->place) {
    case LKI_AT_BATCH_X:
        return (char *)(uintptr_t)pass->x + in_pass;
    case LKI_AT_BATCH_Y:
        return pass->y != NULL ? (char *)(uintptr_t)pass->y + in_pass : NULL;
    case LKI_AT_KEPT:
        if (pass->all != NULL)
            return pass->all + value->all_offset + value->bytes * (size_t)position;
        return local->kept + value->offset + in_pass;
    case LKI_AT_COHORT:
        return memory + value->offset + value->bytes * (size_t)(position - at->cohort->begin);
    case LKI_AT_REPLICA:
        return memory + value->offset +
               lki_align(value->bytes) * (size_t)(at->replica - at->cohort->first);
    case LKI_AT_SLICE:
        if (at->whole) return NULL;
        break;
    case LKI_AT_SUMS:
        break;
    }
    return memory + value->offset;
}

/* What the stage carries of the sample at this position of the whole batch; NULL: nothing. */
static float *carried_at(const lki_pass *pass, const lki_stage *stage, lki_carried array,
                         int64_t position)
{
    float *all = stage->carried[array];
    return all != NULL ? all + (pass->column + position - pass->begin) * lki_stage_carries(stage)
                       : NULL;
}

static void fill_args(const lki_program *program, const lki_pass *pass, const lki_local *local,
                      const lki_stage *stage, const piece *at, lki_args *args)
{
    const int64_t position = at->begin + at->offset;
    *args = (lki_args){.count = at->count,
                       .position = position,
                       .sample = at->offset,
                       .last = at->last,
                       .step = pass->step,
                       .training = pass->training,
                       .part = local->team != NULL ? local->team->part : 0,
                       .parts = local->team != NULL ? local->team->parts : 0,
                       .out = address(program, pass, local, stage->out, at),
                       .saved = address(program, pass, local, stage->saved, at),
                       .replica = address(program, pass, local, stage->replica, at),
                       .sums = address(program, pass, local, stage->sums, at),
                       .packed = program->packed + stage->packed_offset,
                       .buffer = stage->buffer,
                       .begins = carried_at(pass, stage, pass->begins, position),
                       .leaves = carried_at(pass, stage, pass->leaves, position),
                       .at = pass->at + at->offset,
                       .state = stage->state,
                       .workspace = local->memory + program->local_bytes};
    for (int i = 0; i < stage->cluster->in_count; i++)
        args->in[i] = address(program, pass, local, stage->in[i], at);
    if (stage->needs_target && pass->mix != NULL)
        args->mix = pass->mix + (args->position - pass->begin);
    for (int i = 0; i < LKI_MAX_FACTORS; i++)
        args->factor[i] = (float *)(void *)address(program, pass, local, stage->factor[i], at);
    for (int i = 0; i < LKI_MAX_SLOTS; i++) args->param[i] = stage->param[i];
    const lki_node *counted = stage->cluster->counted;
    if (counted != NULL && counted->stats > 0)
        args->stats = program->stats + stage->stats_offset + (size_t)(counted->stats * at->replica);
}

/* Whether all replicas meet in a stage in halves. */
static bool meets(const lki_pass *pass, const lki_stage *stage)
{
    return pass->training && stage->cluster->counted != NULL && stage->cluster->counted->meets > 0;
}

static double *met_of(const lki_program *program, const lki_pass *pass, const lki_stage *stage,
                      const piece *at, bool backward)
{
    if (!meets(pass, stage)) return NULL;
    return lki_program_met(program, stage, backward, at->gives ? at->replica : program->replicas);
}

static bool is_left_out(const lki_program *program, const lki_pass *pass, const lki_stage *stage)
{
    return (stage->needs_target && pass->y == NULL) ||
           (pass->end > 0 && stage >= program->stage + pass->end);
}

/* A part for one piece, or, of a kernel in halves, what stands between them. */
static lks_status program_forward(const lki_program *program, const lki_pass *pass,
                                  const lki_local *local, const lki_part *part, const piece *at)
{
    const lki_stage *stage = &program->stage[part->stage];
    const lki_kernel *kernel = stage->kernel;
    const bool writes = !at->whole && (part->second || !lki_in_halves(kernel));
    const int lap = lki_lap_of(part->stage, LKI_PHASE_FORWARD);
    if (is_left_out(program, pass, stage)) return LKS_OK;
    lki_args args;
    fill_args(program, pass, local, stage, at, &args);
    if (at->whole) args.met = met_of(program, pass, stage, at, false);
    LKI_TRY((at->whole      ? at->gives ? kernel->give : kernel->finish
             : part->second ? kernel->apply
                            : kernel->forward)(stage->plan, &args));
    if (writes) lki_program_narrow(program, stage, &args, false);
    if (writes) lki_program_mirror(program, pass, stage, &args);
    (writes ? lki_lap : lki_lap_part)(local->laps, lap);
    return writes && local->trace != NULL ? local->trace(local->trace_user, program, stage, &args)
                                          : LKS_OK;
}

static lks_status program_backward(const lki_program *program, const lki_pass *pass,
                                   const lki_local *local, const lki_part *part, const piece *at)
{
    const lki_stage *stage = &program->stage[part->stage];
    const lki_kernel *kernel = stage->kernel;
    const bool ends = !at->whole && !part->second;
    if (!lki_program_takes_part(program, pass, stage)) return LKS_OK;
    lki_args args;
    fill_args(program, pass, local, stage, at, &args);
    args.d_out = stage->d_out != LKI_NO_VALUE
                     ? (const float *)(void *)address(program, pass, local, stage->d_out, at)
                     : program->ones;
    for (int i = 0; i < stage->cluster->in_count && pass->wanted != LKI_WANT_PARAMS; i++)
        args.d_in[i] = (float *)(void *)address(program, pass, local, stage->d_in[i], at);
    args.add_in = stage->add_in;
    args.add_param = stage->tied;
    const bool sums = !stage->plan->by_rows && pass->wanted != LKI_WANT_INPUTS;
    const int64_t *place = local->joins != NULL ? stage->d_joined : stage->d_param;
    for (int i = 0; i < stage->cluster->param_count && sums; i++)
        args.d_param[i] = stage->d_param[i] >= 0 ? local->gradient + place[i] : NULL;
    if (at->whole) args.met = met_of(program, pass, stage, at, true);
    LKI_TRY((at->whole      ? at->gives ? kernel->give_backward : kernel->finish_backward
             : part->second ? kernel->gather
                            : kernel->backward)(stage->plan, &args));
    if (ends) lki_program_narrow(program, stage, &args, true);
    (ends ? lki_lap : lki_lap_part)(local->laps, lki_lap_of(part->stage, LKI_PHASE_BACKWARD));
    if (ends && at->last && local->joins != NULL) lki_program_join(program, local, stage);
    return LKS_OK;
}

/* Makes the copies that are made behind forward of the part, or, in front of its backward, what they are of. */
static void copy_rounded(const lki_program *program, const lki_pass *pass, const lki_local *local,
                         const lki_part *part, const piece *at, bool backward)
{
    const int own = (int)(part - program->part);
    for (int v = program->first_copy; v < program->values; v++) {
        const lki_value *copy = &program->value[v];
        if (own != (backward ? copy->unpacked : copy->packed)) continue;
        const int64_t count = at->count * (int64_t)(copy->bytes / sizeof(uint16_t));
        float *values = (float *)(void *)address(program, pass, local, copy->original, at);
        uint16_t *rounded = (uint16_t *)(void *)address(program, pass, local, v, at);
        if (backward)
            program->backend->unpack(count, rounded, values);
        else
            program->backend->pack(count, values, rounded);
    }
}

static bool is_parted(const lki_program *program, const lki_part *part)
{
    return program->stage[part->stage].kernel->parted;
}

/* The same by a team, who meet behind what is parted and in front of it, in the next piece, too. One who fails still
 * comes to where all meet. */
static lks_status team_forward(const lki_program *program, const lki_pass *pass,
                               const lki_local *local, const lki_segment *segment,
                               const lki_part *part, const piece *at)
{
    lki_team *team = local->team;
    if (team == NULL) return program_forward(program, pass, local, part, at);
    const lki_part *first = &program->part[segment->first], *next = part + 1;
    const bool ends = next == first + segment->count, parted = is_parted(program, part);
    const bool last = next == program->part + program->parts;
    if ((parted || team->part == 0) && team->status == LKS_OK)
        team->status = program_forward(program, pass, local, part, at);
    if (!at->whole &&
        (parted || (!last && is_parted(program, next)) || (ends && is_parted(program, first))))
        team->meet(team->user, team->part);
    return LKS_OK;
}

/* As many pieces of the segment's slice as fit, then the powers of two in the rest. */
static int64_t next_piece(const lki_segment *segment, int64_t left)
{
    if (segment->slice == 0) return left;
    int64_t count = segment->slice;
    while (count > left) count /= 2;
    return count;
}

/* The whole share of a replica: what stands between the halves of a stage has it. */
static piece whole_share(piece at, int64_t count, bool gives)
{
    at.offset = 0;
    at.count = count;
    at.last = at.whole = true;
    at.gives = gives;
    return at;
}

/* `again`: once more, of what backward of the block reads and nothing has kept; what came of meetings is still there. */
static lks_status segment_forward(const lki_program *program, const lki_pass *pass,
                                  const lki_local *local, const lki_segment *segment, piece at,
                                  int64_t count, bool again)
{
    const lki_part *first = &program->part[segment->first], *end = first + segment->count - 1;
    for (; at.offset < count; at.offset += at.count) {
        at.count = next_piece(segment, count - at.offset);
        at.last = at.offset + at.count == count;
        for (const lki_part *part = first; part <= end; part++) {
            if (again && !program->stage[part->stage].again) continue;
            LKI_TRY(team_forward(program, pass, local, segment, part, &at));
            if (pass->backward) copy_rounded(program, pass, local, part, &at, false);
        }
    }
    const lki_stage *stage = &program->stage[end->stage];
    if (count == 0 || end->second || !lki_in_halves(stage->kernel) || (again && !stage->again))
        return LKS_OK;
    at = whole_share(at, count, !again && meets(pass, stage));
    return team_forward(program, pass, local, segment, end, &at);
}

static lks_status segment_backward(const lki_program *program, const lki_pass *pass,
                                   const lki_local *local, const lki_segment *segment, piece at,
                                   int64_t count)
{
    const lki_part *first = &program->part[segment->first], *end = first + segment->count - 1;
    for (; at.offset < count; at.offset += at.count) {
        at.count = next_piece(segment, count - at.offset);
        at.last = at.offset + at.count == count;
        for (const lki_part *part = end; part >= first; part--) {
            copy_rounded(program, pass, local, part, &at, true);
            if (part - program->part == segment->renews)
                LKI_TRY(program_forward(program, pass, local, first, &at));
            LKI_TRY(program_backward(program, pass, local, part, &at));
        }
    }
    if (count == 0 || !first->second) return LKS_OK;
    at = whole_share(at, count, meets(pass, &program->stage[first->stage]));
    return program_backward(program, pass, local, first, &at);
}

/* Behind a meeting: the part before it, or in backward behind it, is finished for a replica. */
static lks_status leave_meeting(const lki_program *program, const lki_pass *pass,
                                const lki_local *local, int meeting, piece at, int64_t count,
                                bool backward)
{
    const lki_stage *stage = &program->stage[program->meeting[meeting]];
    if (count == 0 || !meets(pass, stage)) return LKS_OK;
    at = whole_share(at, count, false);
    return backward ? program_backward(program, pass, local, &program->part[stage->second], &at)
                    : program_forward(program, pass, local, &program->part[stage->first], &at);
}

lks_status lki_program_forward_leg(const lki_program *program, const lki_pass *pass,
                                   const lki_cohort *cohort, const lki_local *local, int leg)
{
    const int first = lki_program_leg(program, leg), end = lki_program_leg(program, leg + 1);
    for (int64_t r = cohort->first; r < cohort->last; r++) {
        const lki_cohort own = lki_program_cohort(program, pass, r, r + 1);
        const piece at = {.cohort = cohort, .replica = r, .begin = own.begin};
        if (leg > 0) LKI_TRY(leave_meeting(program, pass, local, leg - 1, at, own.count, false));
        for (int g = first; g < end; g++)
            LKI_TRY(
                segment_forward(program, pass, local, &program->segment[g], at, own.count, false));
    }
    return LKS_OK;
}

lks_status lki_program_forward_joint(const lki_program *program, const lki_pass *pass,
                                     const lki_cohort *cohort, const lki_local *local)
{
    const piece at = {.cohort = cohort, .replica = cohort->first, .begin = cohort->begin};
    for (int g = lki_program_first_joint(program); g < program->segments; g++)
        LKI_TRY(
            segment_forward(program, pass, local, &program->segment[g], at, cohort->count, false));
    return LKS_OK;
}

lks_status lki_program_forward(const lki_program *program, const lki_pass *pass,
                               const lki_cohort *cohort, const lki_local *local)
{
    for (int leg = 0; leg <= program->meetings; leg++)
        LKI_TRY(lki_program_forward_leg(program, pass, cohort, local, leg));
    LKI_TRY(lki_program_forward_joint(program, pass, cohort, local));
    return local->team != NULL ? local->team->status : LKS_OK;
}

lks_status lki_program_backward_joint(const lki_program *program, const lki_pass *pass,
                                      const lki_cohort *cohort, const lki_local *local)
{
    const piece at = {.cohort = cohort, .replica = cohort->first, .begin = cohort->begin};
    for (int g = program->segments - 1; g >= lki_program_first_joint(program); g--)
        LKI_TRY(segment_backward(program, pass, local, &program->segment[g], at, cohort->count));
    return LKS_OK;
}

lks_status lki_program_backward_leg(const lki_program *program, const lki_pass *pass,
                                    const lki_cohort *cohort, int64_t replica,
                                    const lki_local *local, int leg)
{
    const lki_cohort own = lki_program_cohort(program, pass, replica, replica + 1);
    const piece at = {.cohort = cohort, .replica = replica, .begin = own.begin};
    if (leg < program->meetings)
        LKI_TRY(leave_meeting(program, pass, local, leg, at, own.count, true));
    for (int g = lki_program_leg(program, leg + 1) - 1; g >= lki_program_leg(program, leg); g--) {
        for (int h = program->segment[g].again; h <= g; h++)
            LKI_TRY(
                segment_forward(program, pass, local, &program->segment[h], at, own.count, true));
        LKI_TRY(segment_backward(program, pass, local, &program->segment[g], at, own.count));
        if (leg == 0 && local->formed != NULL) local->formed(local->formed_user, g);
    }
    return LKS_OK;
}

lks_status lki_program_backward(const lki_program *program, const lki_pass *pass,
                                const lki_cohort *cohort, int64_t replica, const lki_local *local)
{
    return lki_program_backward_leg(program, pass, cohort, replica, local, 0);
}

const void *lki_program_result(const lki_program *program, const lki_pass *pass,
                               const lki_cohort *cohort, const lki_local *local,
                               const lks_tensor *tensor)
{
    const piece at = {.cohort = cohort, .replica = cohort->first, .begin = cohort->begin};
    return address(program, pass, local, program->activation[tensor->node->index], &at);
}

/* When the parts of a program run, and between which ticks values must not be overwritten. */
#include "program/program.h"

/* Which segments are run forward again, and before whose backward: those of all blocks but the last. */
static void set_again(lki_program *program)
{
    int block = 0; /* begins with this segment */
    for (int g = 0; g < program->segments; g++) {
        lki_segment *segment = &program->segment[g];
        const lki_part *next = &program->part[segment->first + segment->count];
        segment->again = g + 1;
        if (g + 1 == program->segments || !program->stage[next->stage].opens || next->second)
            continue;
        segment->again = block;
        block = g + 1;
    }
}

/* Behind forward of all parts. */
static void set_ticks(lki_program *program)
{
    int tick = program->parts;
    for (int g = program->segments - 1; g >= 0; g--) {
        const lki_segment *segment = &program->segment[g];
        const int end = segment->first + segment->count;
        if (segment->again <= g)
            for (int p = program->segment[segment->again].first; p < end; p++)
                program->part[p].forwarded = tick++;
        for (int p = end - 1; p >= segment->first; p--) program->part[p].back = tick++;
    }
    program->ticks = tick;
}

/* In forward, or behind it. */
static void touch(lki_program *program, int value, int tick)
{
    if (value == LKI_NO_VALUE) return;
    lki_value *v = &program->value[value];
    int *first = tick < program->parts ? &v->first : &v->again;
    int *last = tick < program->parts ? &v->last : &v->until;
    if (*first < 0 || tick < *first) *first = tick;
    if (tick > *last) *last = tick;
}

/* What a stage reads and writes when it runs forward. */
static void touch_forward(lki_program *program, const lki_stage *stage, int first, int second)
{
    const lki_needs *needs = &stage->plan->needs;
    for (int i = 0; i < LKI_MAX_CLUSTER_IN; i++) {
        const bool side = needs->side_in >> i & 1u;
        if (!side) touch(program, stage->in[i], first);
        if (side || needs->apply_in >> i & 1u) touch(program, stage->in[i], second);
    }
    touch(program, stage->saved, first);
    touch(program, stage->saved, second);
    touch(program, stage->replica, first);
    touch(program, stage->replica, second);
    touch(program, stage->out, second);
}

static bool reads_input(const lki_stage *stage, int i)
{
    return stage->backward && stage->plan->needs.reads & LKI_READS_IN &&
           !(stage->plan->needs.side_in >> i & 1u);
}

static bool reads_output(const lki_stage *stage)
{
    return stage->backward && stage->plan->needs.reads & LKI_READS_OUT;
}

/* Whether a stage reads its input i in this segment alone, in both directions; *back becomes the part that does in backward, or
 * -1. */
static bool reads_within(const lki_program *program, const lki_stage *stage, int i, int segment,
                         int *back)
{
    const lki_needs *needs = &stage->plan->needs;
    const bool late = !lki_in_halves(stage->kernel) || needs->late_in >> i & 1u;
    *back = reads_input(stage, i) ? stage->first : -1;
    return program->part[stage->first].segment == segment &&
           ((needs->side_in | needs->apply_in) >> i & 1u) == 0 && (*back < 0 || late);
}

/*
 * What the second half of a stage writes and only its own segment reads is not kept for backward: it is a function of what
 * the first half has saved, which gather is about to read as well. So a batch norm's output, behind its activation, is formed
 * again piece by piece, in the caches, and memory has what the convolution gave alone.
 */
static int renewing_part(const lki_program *program, const lki_segment *segment)
{
    const lki_part *first = &program->part[segment->first];
    const lki_stage *stage = &program->stage[first->stage];
    int part = -1, back;
    if (!first->second || !stage->backward || segment->slice == 0 || program->recompute ||
        program->layers || program->switches.bf16_storage || stage->plan->needs.apply_in != 0 ||
        reads_output(stage) || program->value[stage->out].place != LKI_AT_COHORT ||
        stage->out == program->activation[program->output->node->index])
        return -1;
    for (const lki_stage *reader = stage + 1; reader < program->stage + program->stages; reader++)
        for (int i = 0; i < LKI_MAX_CLUSTER_IN; i++) {
            if (reader->in[i] != stage->out) continue;
            if (!reads_within(program, reader, i, first->segment, &back)) return -1;
            if (back > part) part = back;
        }
    return part;
}

static void set_renewed(lki_program *program)
{
    for (int g = 0; g < program->segments; g++) {
        lki_segment *segment = &program->segment[g];
        segment->renews = renewing_part(program, segment);
        if (segment->renews < 0) continue;
        const lki_stage *stage = &program->stage[program->part[segment->first].stage];
        program->value[stage->out].renewed = true;
    }
}

/* From the first part that backward runs, which is the second one of a kernel in halves. */
static void touch_back(lki_program *program, const lki_stage *stage, int value)
{
    touch(program, value, program->part[stage->second].back);
    touch(program, value, program->part[stage->first].back);
}

static void touch_backward(lki_program *program, const lki_stage *stage)
{
    for (int i = 0; i < LKI_MAX_CLUSTER_IN; i++) {
        if (reads_input(stage, i) && stage->plan->needs.late_in >> i & 1u)
            touch(program, stage->in[i], program->part[stage->first].back);
        else if (reads_input(stage, i))
            touch_back(program, stage, stage->in[i]);
        touch(program, stage->d_in[i], program->part[lki_gradient_part(stage, i)].back);
    }
    if (reads_output(stage)) touch_back(program, stage, stage->out);
    touch_back(program, stage, stage->d_out);
    touch(program, stage->sums, program->part[stage->first].back);
    for (int i = 0; i < LKI_MAX_FACTORS; i++)
        touch(program, stage->factor[i], program->part[stage->first].back);
    if (!stage->backward) return;
    touch_back(program, stage, stage->saved);
    touch_back(program, stage, stage->replica);
}

/* The last segment of the stage's block. */
static int end_of_block(const lki_program *program, const lki_stage *stage)
{
    const int own = program->part[stage->second].segment;
    int end = own;
    while (end < program->segments && program->segment[end].again > own) end++;
    return end;
}

/* Whether the output is there for its own block alone, so that it need not outlive that in forward. */
static bool is_of_block(const lki_program *program, const lki_stage *stage)
{
    const int end = end_of_block(program, stage);
    if (end == program->segments || program->value[stage->out].place != LKI_AT_COHORT ||
        stage->out == program->activation[program->output->node->index] ||
        stage->out == program->activation[program->loss->node->index])
        return false;
    for (const lki_stage *reader = stage + 1; reader < program->stage + program->stages; reader++)
        for (int i = 0; i < LKI_MAX_CLUSTER_IN; i++)
            if (reader->in[i] == stage->out && end_of_block(program, reader) != end) return false;
    return true;
}

/* Whether backward of the block reads what this stage's forward alone brings back. */
static bool is_run_again(const lki_program *program, const lki_stage *stage)
{
    if (end_of_block(program, stage) == program->segments) return false;
    if (stage->backward && stage->saved != LKI_NO_VALUE) return true;
    if (!is_of_block(program, stage)) return false;
    if (reads_output(stage)) return true;
    for (const lki_stage *reader = stage + 1; reader < program->stage + program->stages; reader++)
        for (int i = 0; i < LKI_MAX_CLUSTER_IN; i++)
            if (reader->in[i] == stage->out && (reader->again || reads_input(reader, i)))
                return true;
    return false;
}

/* What is not formed again, renewed nor rounded, stays until backward; of gradients there are times in backward alone. */
static void join(lki_value *value)
{
    if (value->again < 0) return;
    if (value->first < 0) value->first = value->again;
    value->last = value->until;
    value->again = value->until = -1;
}

static void join_all(lki_program *program)
{
    bool formed_again;
    for (int v = 0; v < program->values; v++) {
        formed_again = false;
        for (int s = 0; s < program->stages && !formed_again; s++) {
            const lki_stage *stage = &program->stage[s];
            formed_again = stage->again &&
                           (v == stage->saved || (v == stage->out && is_of_block(program, stage)));
        }
        if (!formed_again && !program->value[v].rounded && !program->value[v].renewed)
            join(&program->value[v]);
    }
}

/* What is to be read behind the pass, by whomever, is in use from its first tick to its last. Sums alone are not. */
static void keep_all(lki_program *program)
{
    for (int v = 0; v < program->values; v++) {
        lki_value *value = &program->value[v];
        if (value->first < 0 || value->place == LKI_AT_SUMS) continue;
        value->first = 0;
        value->last = program->ticks - 1;
    }
}

void lki_program_set_times(lki_program *program)
{
    set_again(program);
    set_ticks(program);
    set_renewed(program);
    for (int s = program->stages - 1; s >= 0; s--) {
        lki_stage *stage = &program->stage[s];
        stage->again = is_run_again(program, stage);
        touch_forward(program, stage, stage->first, stage->second);
        if (stage->again)
            touch_forward(program, stage, program->part[stage->first].forwarded,
                          program->part[stage->second].forwarded);
        touch_backward(program, stage);
    }
    /* Loss and output are read when all has ended. */
    touch(program, program->activation[program->output->node->index], program->ticks - 1);
    if (program->loss != NULL)
        touch(program, program->activation[program->loss->node->index], program->ticks - 1);
    join_all(program);
    if (program->layers) keep_all(program);
}

/*
 * What is run again and again while a cohort passes: a leg of the head, once for each replica, or else a slice
 * segment, once for each piece. In a loop every part runs again for the next replica or piece, so
 * whatever crosses its border is in use from its first to its last tick.
 */
typedef struct loop {
    int first, last; /* ticks */
} loop;

/* Forward, forward again, backward. */
typedef enum way {
    THERE,
    AGAIN,
    BACK,
} way;

static way way_of(const lki_program *program, int tick, const lki_part **part)
{
    for (int p = 0;; p++) { /* every tick is one of these */
        *part = &program->part[p];
        if (p == tick) return THERE;
        if ((*part)->forwarded == tick) return AGAIN;
        if ((*part)->back == tick) return BACK;
    }
}

/* From the first to the last tick of a segment on this way. */
static loop segment_loop(const lki_program *program, const lki_segment *segment, way w)
{
    const int first = segment->first, last = first + segment->count - 1;
    const lki_part *part = program->part;
    return w == THERE   ? (loop){first, last}
           : w == AGAIN ? (loop){part[first].forwarded, part[last].forwarded}
                        : (loop){part[last].back, part[first].back};
}

/* The leg that a segment of the head stands in, of which backward includes forward again of blocks that end in it. None
 * ends with it: legs end in the middle of a stage, and the head where a joint segment begins, with which no block does. */
static loop leg_loop(const lki_program *program, int g, way w)
{
    int leg = 0;
    while (lki_program_leg(program, leg + 1) <= g) leg++;
    const lki_segment *first = &program->segment[lki_program_leg(program, leg)];
    const lki_segment *last = &program->segment[lki_program_leg(program, leg + 1) - 1];
    return w == THERE
               ? (loop){segment_loop(program, first, w).first, segment_loop(program, last, w).last}
               : (loop){segment_loop(program, last, BACK).first,
                        segment_loop(program, first, BACK).last};
}

static loop loop_of(const lki_program *program, int tick)
{
    const lki_part *part;
    const way w = way_of(program, tick, &part);
    const lki_segment *segment = &program->segment[part->segment];
    if (program->cohort > 1 && part->segment < lki_program_first_joint(program))
        return leg_loop(
            program,
            w == AGAIN ? end_of_block(program, &program->stage[part->stage]) : part->segment, w);
    return segment->slice == 0 ? (loop){tick, tick} : segment_loop(program, segment, w);
}

static const lki_segment *one_segment(const lki_program *program, int first, int last)
{
    const lki_part *a, *b;
    const way w = way_of(program, first, &a);
    return w == way_of(program, last, &b) && a->segment == b->segment
               ? &program->segment[a->segment]
               : NULL;
}

int64_t lki_program_slice(const lki_program *program, const lki_value *value)
{
    const lki_segment *segment = one_segment(program, value->first, value->last);
    if (segment == NULL ||
        (value->again >= 0 && one_segment(program, value->again, value->until) != segment))
        return 0;
    return segment->slice;
}

void lki_program_widen(const lki_program *program, lki_value *value)
{
    const lki_part *part;
    if (value->place == LKI_AT_SLICE) return;
    if (value->place == LKI_AT_SUMS) {
        way_of(program, value->first, &part);
        const loop own = segment_loop(program, &program->segment[part->segment], BACK);
        value->first = own.first;
        value->last = own.last;
        return;
    }
    value->first = loop_of(program, value->first).first;
    value->last = loop_of(program, value->last).last;
    if (value->again < 0) return;
    value->again = loop_of(program, value->again).first;
    value->until = loop_of(program, value->until).last;
}

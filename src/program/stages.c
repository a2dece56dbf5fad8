/* From stages to segments: in which pieces everything is computed. */
#include "base/check.h"
#include "base/context.h"
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
                            lki_op_get(head->op)->name, head->name);
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
    LKI_TRY(lki_program_freeze(program));
    LKI_TRY(lki_program_choose(program));
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

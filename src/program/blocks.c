/* Which stages make a block, of which forward is run again in backward instead of keeping all that backward reads. */
#include "base/check.h"
#include "program/program.h"

/*
 * Between two blocks values are kept, of a block all that its backward reads is there at one time. Of all ways to cut
 * the stages into blocks none of which is larger than a limit, the one is taken that keeps least; of 64 limits, the
 * whole over 1 to 64, the one with the least memory in all. (Chen et al. 2016, "Training Deep Nets with Sublinear Memory
 * Cost", cut by such a limit; values here have different sizes, so that it matters where.) Reckoned from shapes alone:
 * blocks change no bit.
 */
enum { LIMITS = 64 };

/* Of the cut in front of each stage, and of the stage itself. */
typedef struct cut {
    size_t kept; /* bytes of a sample that later stages read; SIZE_MAX: no block may begin here */
    size_t
        inside; /* bytes of a sample that its backward reads and that only forward again brings back */
    size_t best; /* of this and all earlier blocks */
    int from;    /* where the block begins that ends in front of it */
} cut;

/* What a stage leaves for backward: its output, and of a kernel in halves as much again for its second half. */
static size_t inside_of(const lki_stage *stage)
{
    if (!stage->backward) return 0;
    return lki_tensor_bytes(&lki_cluster_tail(stage->cluster)->out) *
           (lki_in_halves(stage->kernel) ? 2 : 1);
}

static bool reads_output(const lki_stage *reader, const lki_stage *writer)
{
    for (int i = 0; i < reader->cluster->in_count; i++)
        if (reader->cluster->in[i] == &lki_cluster_tail(writer->cluster)->out) return true;
    return false;
}

static size_t kept_before(const lki_program *program, int stage)
{
    size_t bytes = 0;
    for (int w = 0; w < stage; w++)
        for (int r = stage; r < program->stages; r++)
            if (reads_output(&program->stage[r], &program->stage[w])) {
                bytes += lki_tensor_bytes(&lki_cluster_tail(program->stage[w].cluster)->out);
                break;
            }
    return bytes;
}

/* The least that can be kept between blocks of at most `limit` bytes; SIZE_MAX: a stage alone has more. */
static size_t least_kept(cut *cuts, int stages, size_t limit)
{
    cuts[0].best = 0;
    for (int end = 1; end <= stages; end++) {
        size_t inside = 0;
        cuts[end].best = SIZE_MAX;
        for (int begin = end - 1; begin >= 0 && (inside += cuts[begin].inside) <= limit; begin--) {
            const size_t before = cuts[begin].best, kept = begin > 0 ? cuts[begin].kept : 0;
            if (before == SIZE_MAX || kept == SIZE_MAX || before + kept >= cuts[end].best) continue;
            cuts[end].best = before + kept;
            cuts[end].from = begin;
        }
    }
    return cuts[stages].best;
}

/* The largest block of the last answer. */
static size_t largest_block(const cut *cuts, int stages)
{
    size_t largest = 0;
    for (int end = stages; end > 0; end = cuts[end].from) {
        size_t inside = 0;
        for (int s = cuts[end].from; s < end; s++) inside += cuts[s].inside;
        if (inside > largest) largest = inside;
    }
    return largest;
}

lki_span lki_program_span(const lki_program *program, const lki_stage *stage)
{
    const bool by_replica = stage->backward && !stage->plan->by_rows &&
                            lki_program_forms_any(program, stage->cluster);
    const lki_span span = stage->kernel->span;
    if (!by_replica) return span;
    return span == LKI_SPAN_JOINT    ? LKI_SPAN_SHARE
           : span == LKI_SPAN_EITHER ? LKI_SPAN_SLICE
                                     : span;
}

/* Where the last stages begin that run once for all replicas of a cohort. */
static int first_joint(const lki_program *program)
{
    int first = program->stages;
    for (int s = program->stages - 1; s >= 0; s--) {
        const lki_span span = lki_program_span(program, &program->stage[s]);
        if (span == LKI_SPAN_JOINT) first = s;
        if (span != LKI_SPAN_JOINT && span != LKI_SPAN_EITHER) break;
    }
    return first;
}

lks_status lki_program_make_blocks(lki_program *program)
{
    const int stages = program->stages;
    size_t all = 0, least = SIZE_MAX;
    void *memory;
    if (!program->recompute) return LKS_OK; /* there is a loss */
    LKI_TRY(lki_arena_alloc(&program->arena, &memory, ((size_t)stages + 1) * sizeof(cut), "cuts"));
    cut *cuts = memory;
    const int joint = first_joint(program);
    for (int s = 0; s < stages; s++) {
        cuts[s] = (cut){.inside = inside_of(&program->stage[s]),
                        .kept = s < joint ? kept_before(program, s) : SIZE_MAX};
        all += cuts[s].inside;
    }
    for (int parts = 1; parts <= LIMITS; parts++) {
        const size_t kept = least_kept(cuts, stages, all / (size_t)parts);
        if (kept == SIZE_MAX) break; /* smaller limits neither */
        const size_t bytes = kept + largest_block(cuts, stages);
        if (bytes >= least) continue;
        least = bytes;
        for (int s = 0; s < stages; s++) program->stage[s].opens = false;
        for (int end = stages; end > 0; end = cuts[end].from)
            program->stage[cuts[end].from].opens = true;
    }
    return LKS_OK;
}

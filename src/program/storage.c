/*
 * Activations that are kept for backward in bfloat16 (switches.bf16_storage). In forward a value is what its kernel has
 * written, f32. Behind the last part that reads it there, a copy is made, piece by piece, and its memory is another's; in front
 * of the first part whose backward reads it the copy becomes f32 again, so that backward is a function of rounded numbers:
 *
 *   forward   conv | norm | relu ..., each piece is packed      backward   unpacked, relu | norm | conv ...
 *   value     [----- f32 ----]                                             [----- f32 ----]
 *   copy                     [------------- bfloat16 ---------------------]
 *
 * Which values: outputs of stages, and what kernels save as f32 numbers, if backward reads them. Not those that a kernel reads
 * which can form gradients by rows: those may be kept for the whole pass, where all processes see them, and which way is taken
 * must change no bit. Not the output, which the caller reads, nor tokens.
 */
#include "program/program.h"
#include "program/rows.h"

static bool read_by_rows(const lki_program *program, int value)
{
    for (int s = 0; s < program->stages; s++)
        for (int i = 0; i < LKI_MAX_CLUSTER_IN; i++)
            if (program->stage[s].in[i] == value && lki_may_form_rows(program->stage[s].plan))
                return true;
    return false;
}

void lki_program_choose_rounded(lki_program *program)
{
    if (!program->switches.bf16_storage || program->loss == NULL) return;
    for (int s = 0; s < program->stages; s++) {
        const lki_stage *stage = &program->stage[s];
        const lks_tensor *tensor = &lki_cluster_tail(stage->cluster)->out;

        program->value[stage->out].rounded = tensor != program->output && tensor != program->loss &&
                                             tensor->dtype == LKS_F32 &&
                                             !read_by_rows(program, stage->out);
        if (stage->saved != LKI_NO_VALUE)
            program->value[stage->saved].rounded = stage->plan->needs.saved_floats;
    }
}

static int part_of_back(const lki_program *program, int tick)
{
    int part = 0;

    while (program->part[part].back != tick) part++; /* there is one */
    return part;
}

void lki_program_make_copies(lki_program *program)
{
    program->first_copy = program->values;
    for (int v = 0; v < program->first_copy; v++) {
        const lki_value *value = &program->value[v];

        if (!value->rounded || value->again < 0) continue; /* backward does not read it */
        program->value[program->values++] = (lki_value){
            .place = LKI_AT_COHORT,
            .node = value->node,
            .role = "bf16",
            .bytes = value->bytes / sizeof(float) * sizeof(uint16_t),
            .first = value->last,
            .last = value->again,
            .again = -1,
            .until = -1,
            .original = v,
            .packed = value->last,
            .unpacked = part_of_back(program, value->again)};
    }
}

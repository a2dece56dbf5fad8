/* Outputs for the caller. */
#include "program/program.h"

void lki_program_copy_output(const lki_program *program, const lki_pass *pass,
                             const lki_cohort *cohort, const lki_local *local, float *out)
{
    const size_t bytes = lki_tensor_bytes(program->output);
    if (cohort->count == 0) return;
    program->backend->memory->copy_out(
        (char *)out + (size_t)(cohort->begin - pass->begin) * bytes,
        lki_program_result(program, pass, cohort, local, program->output),
        (size_t)cohort->count * bytes);
}

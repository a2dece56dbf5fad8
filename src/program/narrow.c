/* Half precision where no device has it: kernels compute in f32, and what they write is rounded. */
#include "program/program.h"

void lki_program_seed(lki_program *program, float gradient)
{
    if (program->seed == gradient) return;
    program->seed = gradient;
    lki_fill(program->backend->memory, program->ones, lki_program_losses(program), gradient);
}

/* Losses stay as they are, as with autocast of PyTorch. */
void lki_program_narrow(const lki_program *program, const lki_stage *stage, const lki_args *args,
                        bool backward)
{
    const lki_cluster *cluster = stage->cluster;
    const lks_tensor *out = &lki_cluster_tail(cluster)->out;
    if (!program->switches.f16) return;
    if (!backward && !stage->needs_target && out->dtype == LKS_F32)
        program->backend->narrow(args->count * lks_shape_elements(&out->shape), args->out);
    for (int i = 0; i < cluster->in_count && backward; i++)
        if (args->d_in[i] != NULL)
            program->backend->narrow(args->count * lks_shape_elements(&cluster->in[i]->shape),
                                     args->d_in[i]);
}

/* Outputs that are means with those of mirrored images. */
#include "program/program.h"

void lki_program_mirror(const lki_program *program, const lki_pass *pass, const lki_stage *stage,
                        const lki_args *args)
{
    if (pass->mirrored == NULL || stage->out != program->activation[program->output->node->index])
        return;
    const int64_t width = lks_shape_elements(&program->output->shape);
    const float *mirrored = pass->mirrored + (args->position - pass->begin) * width;
    float *out = args->out;
    for (int64_t i = 0; i < args->count * width; i++) out[i] = 0.5f * (out[i] + mirrored[i]);
}

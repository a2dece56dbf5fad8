/* What is kept of a whole pass, for gradients by rows: memory of the process. */
#include "base/check.h"
#include "program/program.h"

void lki_program_set_pass(lki_program *program)
{
    program->max_pass = (program->pass_replicas * program->global_batch + program->replicas - 1) /
                        program->replicas;
}

void lki_program_place_kept(lki_program *program)
{
    program->kept_bytes = 0;
    for (int v = 0; v < program->values; v++) {
        lki_value *value = &program->value[v];
        if (value->first < 0 || value->place != LKI_AT_KEPT) continue;
        value->room = lki_align(lki_times(value->bytes, (size_t)program->max_pass));
        value->offset = program->kept_bytes;
        program->kept_bytes = lki_plus(program->kept_bytes, value->room);
    }
}

void lki_program_place_all(lki_program *program)
{
    program->all_bytes = 0;
    for (int v = 0; v < program->values; v++) {
        lki_value *value = &program->value[v];
        if (value->first < 0 || value->place != LKI_AT_KEPT) continue;
        value->all_offset = program->all_bytes;
        program->all_bytes = lki_plus(
            program->all_bytes, lki_align(lki_times(value->bytes, (size_t)program->global_batch)));
    }
}

/* Of passes of so many replicas: a value has as many bytes of each sample. */
static size_t kept_bytes(const lki_program *program, int64_t replicas)
{
    lki_program other = *program;
    size_t bytes = 0;
    other.pass_replicas = replicas;
    lki_program_set_pass(&other);
    for (int v = 0; v < program->values; v++)
        if (program->value[v].first >= 0 && program->value[v].place == LKI_AT_KEPT)
            bytes = lki_plus(bytes,
                             lki_align(lki_times(program->value[v].bytes, (size_t)other.max_pass)));
    return bytes;
}

lks_status lki_program_keep(const lki_program *program, int64_t replicas, lki_kept *out)
{
    void *made;
    LKI_TRY(program->backend->memory->alloc(program->context, &made, kept_bytes(program, replicas),
                                            "the activations that gradients by rows read"));
    *out = (lki_kept){.memory = made, .replicas = replicas};
    return LKS_OK;
}

void lki_program_exchange(lki_program *program, lki_kept *kept)
{
    const lki_kept own = {.memory = program->kept, .replicas = program->pass_replicas};
    program->kept = kept->memory;
    program->pass_replicas = kept->replicas;
    lki_program_set_pass(program);
    lki_program_place_kept(program);
    *kept = own;
}

void lki_program_forget(const lki_program *program, lki_kept *kept)
{
    if (kept->memory != NULL)
        program->backend->memory->free(program->context, kept->memory,
                                       kept_bytes(program, kept->replicas));
    *kept = (lki_kept){.memory = NULL};
}

/* What a model's memory comes to, and whether the process can have so much. */
#include "base/check.h"
#include "machine/machine.h"
#include "model/model.h"

/* A process that has less is in need anyway; and to ask the system takes longer than a compile. */
enum { NOT_WORTH_ASKING = 64 << 20 };

size_t lki_model_bytes(const lks_model *model)
{
    const lki_program *program = &model->program;
    size_t bytes = model->common != NULL
                       ? lki_common_bytes(model)
                       : program->kept_bytes + program->packed_bytes +
                             (size_t)(program->stats_count + program->met_count) * sizeof(double) +
                             model->parameter_bytes + model->buffer_bytes + model->batch_bytes +
                             model->gradient_bytes + lki_across_bytes(model);
    bytes += lki_mirror_bytes(model) + model->carried.bytes;
    for (int w = 0; w < model->workers; w++)
        bytes += program->local_bytes + program->workspace_bytes +
                 lki_worker_gradient_bytes(model, w);
    return bytes;
}

/* Memory is promised to everybody, and given when it is first written: a process that has been
 * promised too much is ended without a word. */
lks_status lki_check_budget(const lks_model *model)
{
    const size_t bytes = lki_model_bytes(model);
    if (bytes < NOT_WORTH_ASKING || !model->program.backend->memory->host) return LKS_OK;
    const lki_room room = lki_memory_room(NULL);
    if (room.bytes == 0 || bytes <= (size_t)room.bytes) return LKS_OK;
    return LKI_FAIL(
        LKS_E_NOMEM,
        "the model would take %zu MB of memory, but %s; use a smaller batch or network, "
        "fewer workers%s",
        bytes / 1000000 + 1, room.why,
        model->opts.recompute ? "" : ", or recompute (train.recompute: blocks)");
}

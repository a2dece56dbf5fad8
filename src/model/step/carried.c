/*
 * What layers carry from batch to batch: a state for each place of the global batch, in arrays that every rank has
 * whole. A step reads those of its samples and writes what they leave beside that; when it is done both change places:
 *
 *   step s      now [a0 a1 a2 a3]   next [b0 b1 b2 b3]     a replica writes the places of its own samples, and a rank
 *   step s + 1  now [b0 b1 b2 b3]   next [ ........ ]      knows no others until all are gathered
 *
 * So a step that fails may be repeated, its diagnosis sees what it saw, and one that is skipped leaves all as it was.
 */
#include <stdio.h>

#include "base/check.h"
#include "comm/comm.h"
#include "model/model.h"
#include "numeric/tree.h"

static size_t array_bytes(const lks_model *model, const lki_stage *stage)
{
    return lki_align(lki_times((size_t)model->program.global_batch,
                               sizeof(float) * (size_t)lki_stage_carries(stage)));
}

void lki_carried_measure(lks_model *model)
{
    enum { ARRAYS = LKI_CARRIED_ARRAYS - 1 }; /* one is nothing */
    const lki_program *program = &model->program;
    for (int s = 0; s < program->stages && program->loss != NULL; s++) {
        const lki_stage *stage = &program->stage[s];
        model->carried.floats += lki_stage_carries(stage);
        model->carried.bytes = lki_plus(model->carried.bytes,
                                        lki_times(array_bytes(model, stage), ARRAYS));
    }
}

static lks_status make_pieces(lks_model *model)
{
    void *memory;
    if (model->across == NULL) return LKS_OK;
    const size_t ranks = (size_t)model->across->ranks;
    LKI_TRY(
        lki_arena_alloc(&model->arena, &memory, 2 * ranks * sizeof(lki_piece), "what ranks carry"));
    model->carried.outgoing = memory;
    model->carried.incoming = model->carried.outgoing + ranks;
    return LKS_OK;
}

lks_status lki_carried_make(lks_model *model)
{
    lki_program *program = &model->program;
    void *memory;
    if (model->carried.floats == 0) return LKS_OK;
    LKI_TRY(program->backend->memory->alloc(model->context, &memory, model->carried.bytes,
                                            "what is carried from batch to batch"));
    model->carried.memory = memory;
    char *at = memory;
    for (int s = 0; s < program->stages; s++) {
        lki_stage *stage = &program->stage[s];
        for (int a = LKI_CARRIED_NOW; a < LKI_CARRIED_ARRAYS && lki_stage_carries(stage) > 0; a++) {
            stage->carried[a] = (float *)(void *)at;
            at += array_bytes(model, stage);
        }
    }
    return make_pieces(model);
}

void lki_carried_release(lks_model *model)
{
    if (model->carried.memory != NULL)
        model->program.backend->memory->free(model->context, model->carried.memory,
                                             model->carried.bytes);
}

lks_status lki_carried_check_step(const lks_model *model, int64_t whole)
{
    const int64_t columns = model->program.global_batch;
    if (model->carried.floats == 0 || whole == columns) return LKS_OK;
    return LKI_FAIL(LKS_E_INVALID,
                    "the batch has %lld sample%s, but the network carries the state of %lld from "
                    "batch to batch (carry_state); give it that many in each",
                    (long long)whole, LKI_S(whole), (long long)columns);
}

lks_status lki_carried_check_data(const lks_model *model, const char *name, int64_t columns)
{
    const int64_t batch = model->program.global_batch;
    char found[24] = "no";
    if (model->carried.floats == 0 || columns == batch) return LKS_OK;
    if (columns > 0) snprintf(found, sizeof found, "%lld", (long long)columns);
    return LKI_FAIL(LKS_E_MISMATCH,
                    "the network carries its state from batch to batch (carry_state), but '%.80s' "
                    "has %s column%s whose windows go on, and a batch has %lld samples; cut a text "
                    "in as many (data.columns: %lld, and no data.stride), or leave carry_state out",
                    name, found, LKI_S(columns), (long long)batch, (long long)batch);
}

lks_status lki_carried_check(const lks_model *model, const lks_batch *batch)
{
    const int64_t columns = model->program.global_batch, end = batch->first + batch->count;
    if (model->carried.floats == 0 || !batch->continues || end <= columns) return LKS_OK;
    return LKI_FAIL(LKS_E_INVALID,
                    "the batch continues %lld samples, but the network carries the state of %lld "
                    "(carry_state); give at most that many",
                    (long long)end, (long long)columns);
}

void lki_carried_begin(const lks_model *model, lki_pass *pass, const lks_batch *batch)
{
    if (model->carried.floats == 0) return;
    pass->begins = batch->continues ? LKI_CARRIED_NOW : LKI_CARRIED_NOTHING;
    pass->leaves = LKI_CARRIED_NEXT;
    pass->column = pass->begin;
}

void lki_carried_evaluate(const lks_model *model, lki_pass *pass, const lks_batch *batch,
                          int64_t first)
{
    if (model->carried.floats == 0 || batch->first + batch->count > model->program.global_batch)
        return;
    pass->begins = batch->continues ? LKI_CARRIED_EVALUATION : LKI_CARRIED_NOTHING;
    pass->leaves = LKI_CARRIED_EVALUATION;
    pass->column = batch->first + first;
}

void lki_carried_end(lks_model *model)
{
    const lki_program *program = &model->program;
    const lki_memory *memory = program->backend->memory;
    const bool begins = model->pass.begins == LKI_CARRIED_NOTHING;
    for (int s = 0; s < program->stages && model->carried.floats > 0; s++) {
        lki_stage *stage = &program->stage[s];
        const int64_t floats = program->global_batch * lki_stage_carries(stage);
        float *now = stage->carried[LKI_CARRIED_NOW];
        if (model->last.skipped) {
            if (begins) lki_fill(memory, now, floats, 0.0f);
            continue;
        }
        stage->carried[LKI_CARRIED_NOW] = stage->carried[LKI_CARRIED_NEXT];
        stage->carried[LKI_CARRIED_NEXT] = now;
    }
}

lks_status lki_carried_gather(const lks_model *model, const lki_stage *stage)
{
    const lki_across *across = model->across;
    const lki_program *program = &model->program;
    const int64_t floats = lki_stage_carries(stage);
    int receives = 0, sends = 0, flight;
    lki_piece own = {0};
    for (int r = 0; r < across->ranks; r++) {
        const int64_t begin = lki_share(across->start[r], program->replicas, program->global_batch);
        const int64_t end = lki_share(across->start[r + 1], program->replicas,
                                      program->global_batch);
        const lki_piece part = {.rank = r,
                                .data = stage->carried[LKI_CARRIED_NOW] + begin * floats,
                                .bytes = sizeof(float) * (size_t)((end - begin) * floats)};
        if (r == across->rank)
            own = part;
        else if (part.bytes > 0)
            model->carried.incoming[receives++] = part;
    }
    for (int r = 0; r < across->ranks && own.bytes > 0; r++) {
        if (r == across->rank) continue;
        own.rank = r;
        model->carried.outgoing[sends++] = own;
    }
    LKI_TRY(lki_comm_start(across->comm, &flight, model->carried.outgoing, sends,
                           model->carried.incoming, receives, "what ranks carry"));
    LKI_TRY(lki_comm_wait(across->comm, flight));
    /* Nobody else has what has come; and who has sent it tells whether it came so. */
    return lks_comm_agree(across->comm, lki_comm_check(across->comm));
}

lks_status lki_carried_gather_all(const lks_model *model)
{
    const lki_program *program = &model->program;
    for (int s = 0; s < program->stages && model->carried.floats > 0; s++)
        if (lki_stage_carries(&program->stage[s]) > 0)
            LKI_TRY(lki_carried_gather(model, &program->stage[s]));
    return LKS_OK;
}

const lki_stage *lki_carried_stage(const lks_model *model, int index)
{
    const lki_program *program = &model->program;
    const void *memory = model->state[index].memory;
    for (int s = 0; s < program->stages; s++)
        if ((const void *)&program->stage[s].carried[LKI_CARRIED_NOW] == memory)
            return &program->stage[s];
    return NULL;
}

/*
 * A model's program once more, for positions: stages, kernels, parameters and what is packed of them are the model's;
 * what positions leave for those behind them is its own. Its samples are positions of one text, one behind the other.
 */
#include "model/infer/follow.h"

#include "base/check.h"
#include "base/float.h"
#include "core/one.h"

enum { MOST_ROWS = 512 };

/* Whether a stage computes all positions of what another computes one of. */
static bool is_whole_of(const lki_stage *stage, const lki_stage *one)
{
    return lki_cluster_tail(stage->cluster) == lki_cluster_tail(one->cluster)->whole;
}

/* The stage of the model's program that computes the whole window; NULL: none does. */
static const lki_stage *whole_stage(const lki_program *program, const lki_stage *one)
{
    for (int s = 0; s < program->stages; s++)
        if (is_whole_of(&program->stage[s], one)) return &program->stage[s];
    return NULL;
}

/* The same kernels, for the same nodes, with the same memory packed: so the bits are the same, too. */
static bool is_same(const lki_program *program, const lki_stage *one)
{
    const lki_stage *whole = whole_stage(program, one);
    const lki_op *op = lki_op_get(lki_cluster_tail(one->cluster)->op);
    return whole != NULL && whole->kernel == one->kernel &&
           whole->plan->needs.packed_bytes == one->plan->needs.packed_bytes &&
           (op->along == LKI_ALONG_EACH || (one->cluster->count == 1 && one->kernel->follows));
}

static bool is_same_program(const lki_follow *follow)
{
    for (int s = 0; s < follow->program.stages; s++)
        if (!is_same(&follow->model->program, &follow->program.stage[s])) return false;
    return true;
}

/* Workers have memory for a whole window. */
static bool fits(const lki_follow *follow)
{
    const lki_program *own = &follow->program, *whole = &follow->model->program;
    return own->local_bytes + own->workspace_bytes <= whole->local_bytes + whole->workspace_bytes;
}

static void measure(lki_follow *follow)
{
    lki_program *program = &follow->program;
    follow->endless = true;
    for (int s = 0; s < program->stages; s++) {
        const lki_op_id op = lki_cluster_tail(program->stage[s].cluster)->op;
        follow->bytes = lki_plus(follow->bytes,
                                 lki_align(program->stage[s].plan->needs.state_bytes));
        if (op == LKI_OP_ATTENTION || op == LKI_OP_POSITION) follow->endless = false;
        if (program->stage[s].plan->needs.state_bytes > 0) follow->stateful = s + 1;
    }
}

static lks_status compile(lki_follow *follow, const lks_tensor *output, int64_t rows)
{
    const lki_program *whole = &follow->model->program;
    follow->program = (lki_program){.context = whole->context,
                                    .backend = whole->backend,
                                    .graph = follow->graph,
                                    .output = output,
                                    .global_batch = rows,
                                    .replicas = 1,
                                    .switches = whole->switches,
                                    .stored = whole->stored};
    return lki_program_compile(&follow->program);
}

static lks_status make_state(lki_follow *follow)
{
    lki_program *program = &follow->program;
    void *memory;
    measure(follow);
    LKI_TRY(program->backend->memory->alloc(program->context, &memory, follow->bytes,
                                            "what positions leave for those behind them"));
    follow->state = memory;
    char *at = memory;
    for (int s = 0; s < program->stages; s++) {
        const size_t bytes = program->stage[s].plan->needs.state_bytes;
        program->stage[s].state = bytes > 0 ? at : NULL;
        at += lki_align(bytes);
    }
    return LKS_OK;
}

/* As many positions in a pass as the window has: their number changes no bit, and beyond some hundreds no speed. */
static int64_t most_rows(const lki_program *whole)
{
    const int64_t positions = whole->output->shape.dim[0];
    return positions < MOST_ROWS ? positions : MOST_ROWS;
}

lks_status lki_follow_make(lki_follow *follow, lks_model *model)
{
    const lki_program *whole = &model->program;
    const lks_tensor *output;
    *follow = (lki_follow){.model = model};
    if (!whole->backend->memory->host || model->opts.layers) return LKS_OK;
    LKI_TRY(lki_graph_one(&follow->graph, whole->graph, whole->output, &output));
    if (follow->graph == NULL) return LKS_OK;
    for (int64_t rows = most_rows(whole); rows > 0; rows /= 2) {
        const unsigned saved = lki_float_enter(); /* plans see what workers see */
        const lks_status status = compile(follow, output, rows);
        lki_float_leave(saved);
        LKI_TRY(status);
        if (!is_same_program(follow)) break;
        if (fits(follow)) return make_state(follow);
        lki_program_release(&follow->program);
    }
    lki_follow_release(follow);
    return LKS_OK;
}

void lki_follow_release(lki_follow *follow)
{
    if (follow->graph == NULL) return;
    if (follow->state != NULL)
        follow->program.backend->memory->free(follow->program.context, follow->state,
                                              follow->bytes);
    follow->program.packed = NULL; /* the model's */
    lki_program_release(&follow->program);
    lks_graph_destroy(follow->graph);
    *follow = (lki_follow){0};
}

bool lki_follow_is_old(const lki_follow *follow)
{
    const lks_model *model = follow->model;
    return follow->changes != model->changes || follow->step != model->progress.step ||
           follow->averages != lki_model_infers_averages(model);
}

/* Where the model has them now. Stages stand in the order of nodes, in both. */
static void take_parameters(lki_follow *follow)
{
    lki_program *own = &follow->program, *whole = &follow->model->program;
    const lki_stage *from = whole->stage;
    own->packed = whole->packed;
    for (int s = 0; s < own->stages; s++) {
        lki_stage *to = &own->stage[s];
        while (!is_whole_of(from, to)) from++;
        to->packed_offset = from->packed_offset;
        for (int p = 0; p < LKI_MAX_SLOTS; p++) to->param[p] = from->param[p];
        for (int i = 0; i < LKI_MAX_BUFFER; i++) to->buffer[i] = from->buffer[i];
    }
}

/* One pass. Without outputs, what leaves nothing for others is left out, too. */
static lks_status follow_pass(lki_follow *follow, const int32_t *tokens, int64_t count, int64_t at,
                              float *out)
{
    lks_model *model = follow->model;
    model->pass = lki_program_pass(&follow->program, 0, 1, count);
    model->pass.x = tokens;
    model->pass.at = at;
    model->pass.end = out != NULL ? 0 : follow->stateful;
    model->predictions = out;
    return lki_model_run_one(model, &follow->program);
}

static lks_status predict(lki_follow *follow, const int32_t *tokens, int64_t count, int64_t at,
                          float *out)
{
    const lks_model *model = follow->model;
    const int64_t most = follow->program.global_batch;
    LKI_TRY(lki_infer_begin(follow->model));
    take_parameters(follow);
    follow->changes = -1;
    for (int64_t part; count > 1 && follow->stateful > 0;
         tokens += part, at += part, count -= part) {
        part = count - 1 < most ? count - 1 : most;
        LKI_TRY(follow_pass(follow, tokens, part, at, NULL));
    }
    LKI_TRY(follow_pass(follow, tokens + count - 1, 1, at + count - 1, out));
    follow->changes = model->changes;
    follow->step = model->progress.step;
    follow->averages = lki_model_infers_averages(model);
    return LKS_OK;
}

lks_status lki_follow_predict(lki_follow *follow, const int32_t *tokens, int64_t count, int64_t at,
                              float *out)
{
    LKI_TRY(lki_model_enter(follow->model, "lks_generator_next"));
    return lki_model_leave(follow->model, predict(follow, tokens, count, at, out));
}

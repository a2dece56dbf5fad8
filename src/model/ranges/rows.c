/*
 * Gradients by rows where sums do not travel: parts of them, of which whoever has time takes the next.
 *
 *   worker 0   forward | backward: dense | convolutions        | parts 0 1 2 3 4 5 8 | barrier
 *   worker 1   forward | backward: dense  | convolutions, slower         | parts 6 7 | barrier
 *                                         ^ from here on x and dy of all replicas are there
 *
 * They need what their layers read and the gradients of what these give, of all replicas: this is there long
 * before the backward pass ends, as dense layers stand at the end of a network. So a worker that is done before the
 * others does not wait for them: when it has taken its own parts, which are the same in each step as they are in its
 * cache, it takes theirs. Which one takes a part changes no bit: elements of a parameter know nothing of each
 * other.
 *
 * Where a loss is not finite no part may be taken, as parameters have to stay. That is known behind forward, and
 * all else that fails in the host's memory has failed then, too (backend.h). On other devices, where gradients are kept
 * whole, where replicas meet in the middle, and for lks_model_gradient() parts are taken behind the barrier.
 *
 * Ranks with parameters in common take them behind the word of the step (common/tasks.c).
 */
#include "model/update.h"
#include "numeric/tree.h"
#include "program/rows.h"

/* A kernel copies or lists what it reads for each part, so these are not small. Columns are cut where a kernel asks for
 * that; else rows, as workers need it. */
enum {
    PART_ROWS = 128,
    PART_COLUMNS = 512,
    EACH = 2 /* parts of a stage for a worker, at least */
};

typedef struct grid {
    int64_t rows, columns; /* of the parameters */
    int64_t row_parts, column_parts;
    int64_t unit; /* columns are cut at its multiples */
} grid;

static grid grid_of(const lks_model *model, const lki_stage *stage)
{
    const lki_weight *first = &model->weight[stage->weight[0]];
    const int64_t workers = model->parts, unit = stage->plan->needs.columns;
    grid g = {.rows = first->shape.dim[0], .row_parts = 1, .column_parts = 1};
    g.columns = first->count / g.rows;
    g.unit = unit > 0 ? unit : g.columns;
    if (workers == 1) return g;
    if (unit > 0) {
        const int64_t units = (g.columns + unit - 1) / unit;
        g.column_parts = (g.columns + PART_COLUMNS - 1) / PART_COLUMNS;
        if (g.column_parts < EACH * workers) g.column_parts = EACH * workers;
        if (g.column_parts > units) g.column_parts = units;
    } else {
        const int64_t units = (g.rows + LKI_PACKED_ROWS - 1) / LKI_PACKED_ROWS;
        g.row_parts = (g.rows + PART_ROWS - 1) / PART_ROWS;
        if (g.row_parts < workers) g.row_parts = workers;
        if (g.row_parts > units) g.row_parts = units;
    }
    return g;
}

/* The first segment with such a layer, whose backward pass is the last that parts need; -1: there is none. */
static int rows_segment(const lks_model *model)
{
    const lki_program *program = &model->program;
    int least = program->segments;
    for (int s = 0; s < program->stages; s++) {
        const lki_stage *stage = &program->stage[s];
        const int own = program->part[stage->first].segment;
        if (stage->plan->by_rows && own < least) least = own;
    }
    return least < program->segments ? least : -1;
}

/* The worker has formed what parts need of its replicas, or has come to its end without. */
static void tell(lki_worker *worker, bool well)
{
    if (worker->told) return;
    worker->told = true;
    if (!well || worker->bad_count > 0) atomic_store(&worker->model->rows_taken.failed, true);
    worker->heard = lki_workers_tell(worker->model->threads);
}

/* lki_local.formed */
static void rows_formed(void *user, int segment)
{
    lki_worker *worker = user;
    if (segment == worker->model->rows_taken.segment && --worker->unformed == 0) tell(worker, true);
}

static int64_t present(const lks_model *model, int64_t first, int64_t last)
{
    int64_t count = 0;
    for (int64_t r = first; r < last; r++)
        count += lki_program_cohort(&model->program, &model->pass, r, r + 1).count > 0;
    return count;
}

void lki_rows_joint(const lks_model *model, lki_worker *worker, const lki_cohort *cohort)
{
    const int segment = model->rows_taken.segment;
    if (segment < lki_program_first_joint(&model->program)) return;
    worker->unformed -= present(model, cohort->first, cohort->last);
    if (worker->unformed == 0) tell(worker, true);
}

void lki_rows_begin(lks_model *model)
{
    const bool early = model->mode == LKI_TRAIN && model->workers > 1 && model->meeting == NULL &&
                       model->across == NULL && !model->forms_whole &&
                       !model->program.recompute && /* which writes once more what is kept */
                       model->program.backend->memory->host;
    model->rows_taken.segment = early ? rows_segment(model) : -1;
    atomic_store(&model->rows_taken.failed, false);
    for (int w = 0; w < model->workers; w++) {
        lki_worker *worker = &model->worker[w];
        worker->model = model;
        atomic_store_explicit(&worker->taken, 0, memory_order_relaxed);
        if (model->across != NULL) continue;
        worker->local.formed = model->rows_taken.segment >= 0 ? rows_formed : NULL;
        worker->local.formed_user = worker;
    }
}

void lki_rows_expect(lks_model *model, lki_worker *worker)
{
    worker->unformed = 0;
    worker->told = false;
    if (model->rows_taken.segment < 0) return;
    worker->unformed = present(model, worker->first, worker->last);
    if (worker->unformed == 0) tell(worker, true);
}

static int64_t parts_of(grid g)
{
    return g.row_parts * g.column_parts;
}

/* Where a part of `all` begins, which are cut at multiples of `unit`. */
static int64_t begin_of(int64_t part, int64_t parts, int64_t all, int64_t unit)
{
    const int64_t at = unit * lki_share(part, parts, (all + unit - 1) / unit);
    return at < all ? at : all;
}

void lki_rows_part(lks_model *model, int worker, int64_t number)
{
    int s = 0;
    grid g;
    for (;; s++) {
        if (!lki_stage_forms_rows(&model->program.stage[s])) continue;
        g = grid_of(model, &model->program.stage[s]);
        if (number < parts_of(g)) break;
        number -= parts_of(g);
    }
    const int64_t row = number / g.column_parts, column = number % g.column_parts;
    lki_rows part = {.row_first = begin_of(row, g.row_parts, g.rows, LKI_PACKED_ROWS),
                     .column_first = begin_of(column, g.column_parts, g.columns, g.unit)};
    part.row_count = begin_of(row + 1, g.row_parts, g.rows, LKI_PACKED_ROWS) - part.row_first;
    part.column_count = begin_of(column + 1, g.column_parts, g.columns, g.unit) - part.column_first;
    lki_update_part(model, worker, s, &part);
}

int64_t lki_rows_parts(const lks_model *model)
{
    int64_t all = 0;
    for (int s = 0; s < model->program.stages; s++)
        if (lki_stage_forms_rows(&model->program.stage[s]))
            all += parts_of(grid_of(model, &model->program.stage[s]));
    return all;
}

void lki_rows_take(lks_model *model, int worker)
{
    lki_tasks_take(model, worker, LKI_TASK_UPDATE, lki_rows_parts(model), lki_rows_part);
}

void lki_rows_take_early(lks_model *model, int worker)
{
    lki_worker *own = &model->worker[worker];
    if (model->rows_taken.segment < 0) return;
    tell(own, own->status == LKS_OK && own->unformed == 0);
    lki_workers_hear(model->threads, own->heard);
    lki_lap_part(own->local.laps, LKI_LAP_WAIT_GRADIENTS); /* counted at the barrier */
    if (!atomic_load(&model->rows_taken.failed)) lki_rows_take(model, worker);
}

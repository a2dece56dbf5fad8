/*
 * How workers go through parameters whose gradients are there: in blocks, or in bands of rows, each of which is packed by
 * whoever has just updated it, while it is in its cache:
 *
 *   weight  | block | block | block |...      weight  [ band: 32 rows ]  new values, then their packed form
 *   bias    | block |                                 [ band          ]  likewise
 *                                             bias    | block |
 *
 * Blocks and bands of all weights are shared by their floats. Neither who takes one nor how large it is changes a bit.
 */
#include "model/update.h"
#include "optim/optimizer.h"

enum { BAND_ROWS = 2 * LKI_PACKED_ROWS }; /* whole panels of every packing */

static int64_t blocks_of(int64_t count)
{
    return (count + LKI_UPDATE_BLOCK - 1) / LKI_UPDATE_BLOCK;
}

/* As few rows as make a block. */
static int64_t band_of(const lki_weight *weight)
{
    const int64_t least = weight->count / weight->shape.dim[0] * BAND_ROWS;
    return (LKI_UPDATE_BLOCK + least - 1) / least * least;
}

static bool is_packed(const lks_model *model, const lki_tour *tour, const lki_weight *weight)
{
    return tour->renews && weight->packed && lki_updates_pack(model);
}

/* Floats that are taken together. */
static int64_t unit_of(const lks_model *model, const lki_tour *tour, const lki_weight *weight)
{
    if (is_packed(model, tour, weight)) return band_of(weight);
    if (!tour->by_rows) return LKI_UPDATE_BLOCK;
    const int64_t row = weight->count / lki_adamp_rows(weight);
    return row < LKI_UPDATE_BLOCK ? LKI_UPDATE_BLOCK / row * row : row;
}

static lki_stretch stretch_of(const lks_model *model, const lki_tour *tour, int number)
{
    if (!tour->in_array) return lki_stretch_at(model, number);
    lki_weight *weight = &model->weight[number];
    const bool visited = weight->trained && (weight->offset >= 0 || lki_sums_across(model));
    return (lki_stretch){.weight = weight, .count = visited ? weight->count : 0};
}

/* Rows that are new, for everyone who reads them packed. */
static void pack_band(lks_model *model, int worker, const lki_weight *weight, int64_t first,
                      int64_t count)
{
    lki_program *program = &model->program;
    const int64_t row = weight->count / weight->shape.dim[0];
    for (int s = 0; s < program->stages; s++) {
        const lki_stage *stage = &program->stage[s];
        for (int p = 0; p < stage->cluster->param_count; p++) {
            if ((stage->plan->needs.packs >> p & 1) == 0) continue;
            if (&model->weight[stage->weight[p]] != weight) continue;
            stage->kernel->pack(stage->plan, p, stage->param[p],
                                program->packed + stage->packed_offset, first / row, count / row);
            lki_lap(model->worker[worker].local.laps, lki_lap_of(s, LKI_PHASE_PREPARE));
        }
    }
}

static int64_t all_blocks(const lks_model *model, const lki_tour *tour, int stretches)
{
    int64_t all = 0;
    for (int s = 0; s < stretches; s++) {
        const lki_stretch stretch = stretch_of(model, tour, s);
        if (stretch.count == 0) continue;
        const int64_t unit = unit_of(model, tour, stretch.weight);
        all += stretch.count / unit * blocks_of(unit) + blocks_of(stretch.count % unit);
    }
    return all;
}

void lki_tour_take(lks_model *model, int worker, const lki_tour *tour)
{
    const int stretches = tour->in_array ? model->weights : lki_stretches(model);
    const int64_t all = all_blocks(model, tour, stretches);
    const int64_t begin = lki_share(tour->part, tour->parts, all);
    const int64_t end = lki_share(tour->part + 1, tour->parts, all);
    int64_t block = 0;
    for (int s = 0; s < stretches; s++) {
        const lki_stretch stretch = stretch_of(model, tour, s);
        if (stretch.count == 0) continue;
        const int64_t unit = unit_of(model, tour, stretch.weight);
        const bool packs = is_packed(model, tour, stretch.weight);
        for (int64_t done = 0, count; done < stretch.count; done += count) {
            const int64_t left = stretch.count - done, at = block;
            count = left < unit ? left : unit;
            block += blocks_of(count);
            if (at < begin || at >= end) continue;
            tour->visit(model, worker, &stretch, stretch.first + done, count, tour->user);
            if (packs) pack_band(model, worker, stretch.weight, stretch.first + done, count);
        }
    }
}

void lki_update_gradients(lks_model *model, int worker, int64_t part, int64_t parts)
{
    lki_tour_take(model, worker,
                  &(lki_tour){.part = part,
                              .parts = parts,
                              .in_array = true,
                              .renews = model->mode == LKI_TRAIN && !model->forms_whole,
                              .visit = lki_update_sums});
}

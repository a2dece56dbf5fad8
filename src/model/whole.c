/* Whole gradients: formed before the update, clipped and measured. docs/numerics.md 8. */
#include <math.h>

#include "base/check.h"
#include "model/update.h"
#include "numeric/tree.h"
#include "optim/optimizer.h"

static const double USUAL_LOSS_SCALE = 0x1p16; /* where it is dynamic, as with PyTorch */

static int64_t blocks_in(int64_t count)
{
    return (count + LKI_UPDATE_BLOCK - 1) / LKI_UPDATE_BLOCK;
}

static int64_t whole_blocks_of(const lki_weight *weight)
{
    return weight->trained ? blocks_in(weight->count) : 0;
}

/* Where ranks have memory in common, the array of this number there. */
static lks_status make_sums(lks_model *model, int number, double **out, int64_t count)
{
    void *memory;
    if (model->common != NULL) {
        *out = model->common->sums[number];
        return LKS_OK;
    }
    LKI_TRY(lki_arena_alloc(&model->arena, &memory, ((size_t)count + 1) * sizeof(double),
                            "sums of squares"));
    *out = memory;
    return LKS_OK;
}

static lks_status whole_check_opts(const lks_model_opts *opts)
{
    if (!(opts->clip_value >= 0 && isfinite(opts->clip_value)))
        return LKI_FAIL(LKS_E_INVALID, "clip_value is %g, expected a positive number, or 0: none",
                        opts->clip_value);
    if (!(opts->clip_norm >= 0 && isfinite(opts->clip_norm)))
        return LKI_FAIL(LKS_E_INVALID, "clip_norm is %g, expected a positive number, or 0: none",
                        opts->clip_norm);
    int exponent;
    const double scale = opts->loss_scale, most = ldexp(1, LKI_MOST_LOSS_SCALE);
    if (scale != 0 && !(scale >= 1 && scale <= most && frexp(scale, &exponent) == 0.5))
        return LKI_FAIL(LKS_E_INVALID, "loss_scale is %g, expected a power of two from 1 to 2^%d",
                        scale, LKI_MOST_LOSS_SCALE);
    if (opts->loss_scale_steps < 0 || (opts->loss_scale_steps > 0 && opts->average_every > 0))
        return LKI_FAIL(
            LKS_E_INVALID, "loss_scale_steps is %d%s, expected at least 1, or 0: the scale stays",
            opts->loss_scale_steps, opts->average_every > 0 ? " with average_every" : "");
    return LKS_OK;
}

/* What a step calls is there. */
static lks_status check_backend(const lks_model *model, bool by_rows)
{
    const lki_backend *backend = model->program.backend;
    const bool lacks_dot = (model->measures || by_rows) && backend->dot == NULL;
    const bool directs = by_rows && model->opts.optim.kind != LKS_LARS;
    const bool lacks_direction = directs && backend->direction == NULL;
    const bool lacks_approach = model->opts.ema_decay > 0 && backend->approach == NULL;
    if (!lacks_dot && !lacks_direction && !lacks_approach) return LKS_OK;
    return LKI_FAIL(LKS_E_UNSUPPORTED, "device '%s' has no kernel yet for %s", backend->name,
                    lacks_dot
                        ? "the norm of gradients (clip_norm, skip_not_finite, loss_scale_steps, an "
                          "optimizer by rows)"
                    : lacks_direction ? "directions (AdamP, LAMB)"
                                      : "averages of parameters (ema_decay)");
}

lks_status lki_whole_choose(lks_model *model)
{
    const lks_model_opts *opts = &model->opts;
    const bool by_rows = lki_optimizer_by_rows(&model->opts.optim);
    model->last.gradient_norm = (double)NAN;
    LKI_TRY(whole_check_opts(opts));
    if (model->program.loss == NULL) return LKS_OK;
    model->progress.loss_scale = opts->loss_scale == 0 && opts->loss_scale_steps > 0
                                     ? USUAL_LOSS_SCALE
                                     : opts->loss_scale;
    model->measures = opts->clip_norm > 0 || opts->skip_not_finite || opts->loss_scale_steps > 0;
    model->forms_whole = model->measures || opts->clip_value > 0 || by_rows;
    LKI_TRY(check_backend(model, by_rows));
    if (!model->forms_whole) return LKS_OK;
    model->gradient_bytes = lki_gradients_bytes(model);
    for (int w = 0; w < model->weights; w++) {
        lki_weight *weight = &model->weight[w];
        weight->block = model->blocks;
        weight->row = model->rows;
        model->blocks += whole_blocks_of(weight);
        model->rows += lki_adamp_rows(weight);
    }
    return LKS_OK;
}

lks_status lki_whole_make(lks_model *model)
{
    const bool by_rows = lki_optimizer_by_rows(&model->opts.optim);
    if (!model->forms_whole) return LKS_OK;
    if (!lki_spreads(model)) LKI_TRY(lki_gradients_make(model)); /* otherwise they stay with sums */
    if (model->measures) LKI_TRY(make_sums(model, 0, &model->square, model->blocks));
    for (int i = 0; i < LKI_ROW_SUMS && by_rows; i++)
        LKI_TRY(make_sums(model, i + 1, &model->row_sum[i], model->rows));
    return LKS_OK;
}

static void square(lks_model *model, int worker, const lki_stretch *stretch, int64_t first,
                   int64_t count, void *user)
{
    (void)user;
    if (!lki_update_stays(model, stretch->weight)) /* or it was formed with the mean */
        lki_update_square(model, stretch->weight, first, count, stretch->mean + first);
    lki_lap(model->worker[worker].local.laps, lki_lap_of(stretch->weight->stage, LKI_PHASE_UPDATE));
}

static void whole_update(lks_model *model, int worker, const lki_stretch *stretch, int64_t first,
                         int64_t count, void *scale)
{
    lki_update own = stretch->weight->rule->update;
    own.scale = *(const float *)scale; /* the mean has been formed */
    lki_update_range(model, stretch->weight, &own, first, first + stretch->kept, count,
                     stretch->mean + first);
    lki_lap(model->worker[worker].local.laps, lki_lap_of(stretch->weight->stage, LKI_PHASE_UPDATE));
}

/* Blocks of a tensor by the tree, tensors in graph order. */
static double gradient_norm(const lks_model *model)
{
    double sum = 0;
    for (int w = 0; w < model->weights; w++) {
        const lki_weight *weight = &model->weight[w];
        if (!weight->trained) continue;
        sum += lki_tree_sum(model->square + weight->block, 0, whole_blocks_of(weight));
    }
    return sqrt(sum);
}

bool lki_whole_update(lks_model *model, int worker)
{
    lki_laps *laps = model->worker[worker].local.laps;
    float scale = 1;
    lki_tour tour = lki_tour_own(model, worker);
    if (!lki_model_meet(model, worker)) return false;
    lki_lap(laps, LKI_LAP_WAIT_GRADIENTS);
    if (model->measures) {
        tour.visit = square;
        lki_tour_take(model, worker, &tour);
        if (!lki_spread_sums(model, worker, false)) return false;
        lki_lap(laps, LKI_LAP_WAIT_GRADIENTS);
        const double norm = gradient_norm(model), most = model->opts.clip_norm;
        if (worker == 0) model->last.gradient_norm = norm;
        if (!lki_average_finite(model, worker, norm)) return false;
        if (most > 0 && most < norm + 1e-6) scale = lki_round(most / (norm + 1e-6));
    }
    if (lki_optimizer_by_rows(&model->opts.optim)) return lki_adamp_update(model, worker, scale);
    tour.renews = true;
    tour.visit = whole_update;
    tour.user = &scale;
    lki_tour_take(model, worker, &tour);
    return true;
}

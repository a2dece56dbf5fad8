/* AdamP, LARS and LAMB: optim.h has the formulas. Rows of a parameter are shared among the workers; what the whole
 * of it decides follows from sums of every row, by the tree over rows. */
#include <math.h>

#include "model/update.h"
#include "numeric/tree.h"

static int64_t row_of(const lki_weight *weight)
{
    return weight->count / lki_adamp_rows(weight);
}

/* Sums of a stretch of a row, blocks from its start by the tree, and its direction in the gradient's place; LARS has none. */
static void measure_blocks(const lki_backend *backend, const lki_update *update, int64_t count,
                           const float *value, float *const state[LKI_MAX_STATES], float *gradient,
                           double sum[LKI_ROW_SUMS])
{
    if (count > LKI_UPDATE_BLOCK) {
        const int64_t blocks = (count + LKI_UPDATE_BLOCK - 1) / LKI_UPDATE_BLOCK;
        const int64_t left = lki_tree_split(0, blocks) * LKI_UPDATE_BLOCK;
        float *behind[LKI_MAX_STATES] = {NULL};
        double right[LKI_ROW_SUMS];
        for (int i = 0; i < LKI_MAX_STATES && state[i] != NULL; i++) behind[i] = state[i] + left;
        measure_blocks(backend, update, left, value, state, gradient, sum);
        measure_blocks(backend, update, count - left, value + left, behind, gradient + left, right);
        for (int i = 0; i < LKI_ROW_SUMS; i++) sum[i] += right[i];
        return;
    }
    if (update->optim.kind != LKS_LARS) {
        backend->direction(update, count, value, state, gradient, sum);
        return;
    }
    sum[LKI_ROW_GRADIENT] = backend->dot(count, gradient, gradient);
    sum[LKI_ROW_PARAMETER] = backend->dot(count, value, value);
    sum[LKI_ROW_BOTH] = sum[LKI_ROW_DIRECTION] = 0; /* nobody asks for them */
}

/* The sums of a row, of a gradient that `scale` is a factor of, and its direction in the gradient's place. */
static void measure_row(lks_model *model, const lki_stretch *stretch, int64_t row,
                        const lki_update *update)
{
    const lki_weight *weight = stretch->weight;
    const int64_t count = row_of(weight), first = row * count;
    const double scale = (double)update->scale;
    float *state[LKI_MAX_STATES] = {NULL};
    double sum[LKI_ROW_SUMS];
    for (int i = 0; i < 2 && weight->state[i] != NULL; i++)
        state[i] = weight->state[i] + stretch->kept + first;
    measure_blocks(model->program.backend, update, count, weight->value + first, state,
                   stretch->mean + first, sum);
    if (update->optim.kind != LKS_LAMB) sum[LKI_ROW_GRADIENT] *= scale * scale;
    sum[LKI_ROW_BOTH] *= scale;
    for (int i = 0; i < LKI_ROW_SUMS; i++) model->row_sum[i][weight->row + row] = sum[i];
}

/* The cosine between two vectors, from sums. */
static double cosine(double squares_a, double squares_b, double products, double epsilon)
{
    return fabs(products) / (fmax(sqrt(squares_a), epsilon) * fmax(sqrt(squares_b), epsilon));
}

/* What projects a vector with these sums off the parameter. */
static float factor_along(double squares, double products, double epsilon)
{
    const double norm = sqrt(squares) + epsilon;
    return lki_round(products / (norm * norm));
}

/* Of the whole of a parameter. */
static void whole_sums(const lks_model *model, const lki_weight *weight, double sum[LKI_ROW_SUMS])
{
    for (int i = 0; i < LKI_ROW_SUMS; i++)
        sum[i] = lki_tree_sum(model->row_sum[i] + weight->row, 0, lki_adamp_rows(weight));
}

/* By what LARS and LAMB multiply the rate of a parameter. */
static double trust_of(const lks_model *model, const lki_weight *weight, const lki_update *update)
{
    const lks_optim *optim = &update->optim;
    const double decay = optim->weight_decay, correction = update->correction1;
    double sum[LKI_ROW_SUMS];
    if (weight->shape.ndim <= 1) return 1;
    whole_sums(model, weight, sum);
    const double norm = sqrt(sum[LKI_ROW_PARAMETER]);
    if (optim->kind == LKS_LARS) {
        const double gradient = sqrt(sum[LKI_ROW_GRADIENT]);
        return norm > 0 && gradient > 0
                   ? optim->trust * norm / (gradient + decay * norm + optim->epsilon)
                   : 1;
    }
    /* |p / c + wd w|^2, which rounding alone may bring below 0. */
    const double squares = sum[LKI_ROW_GRADIENT] / (correction * correction) +
                           2 * decay * (sum[LKI_ROW_DIRECTION] / correction) +
                           decay * decay * sum[LKI_ROW_PARAMETER];
    return norm > 0 && squares > 0 ? norm / sqrt(squares) : 1;
}

typedef enum projection { NONE, BY_ROW, WHOLE } projection;

/* Which projection a parameter gets; with WHOLE, its factor. */
static projection decide(const lks_model *model, const lki_weight *weight, float *along)
{
    const double epsilon = model->opts.optim.epsilon;
    const double delta = model->opts.optim.delta;
    const int64_t rows = lki_adamp_rows(weight), end = weight->row + rows;
    double largest = 0, sum[LKI_ROW_SUMS];
    if (weight->shape.ndim <= 1) return NONE;
    for (int64_t r = weight->row; r < end; r++) {
        const double c = cosine(model->row_sum[LKI_ROW_GRADIENT][r],
                                model->row_sum[LKI_ROW_PARAMETER][r],
                                model->row_sum[LKI_ROW_BOTH][r], epsilon);
        if (!(c <= largest)) largest = c;
    }
    if (largest < delta / sqrt((double)(weight->count / rows))) return BY_ROW;
    whole_sums(model, weight, sum);
    if (!(cosine(sum[LKI_ROW_GRADIENT], sum[LKI_ROW_PARAMETER], sum[LKI_ROW_BOTH], epsilon) <
          delta / sqrt((double)weight->count)))
        return NONE;
    *along = factor_along(sum[LKI_ROW_PARAMETER], sum[LKI_ROW_DIRECTION], epsilon);
    return WHOLE;
}

static void measure_rows(lks_model *model, int worker, const lki_stretch *stretch, int64_t first,
                         int64_t count, void *scale)
{
    const int64_t row = row_of(stretch->weight), end = (first + count) / row;
    lki_update update = stretch->weight->rule->update;
    update.scale = *(const float *)scale;
    for (int64_t r = first / row; r < end; r++) measure_row(model, stretch, r, &update);
    lki_lap(model->worker[worker].local.laps, lki_lap_of(stretch->weight->stage, LKI_PHASE_UPDATE));
}

/* What follows from the sums of a whole parameter: of the one whose rows a worker updates now. */
typedef struct decision {
    const lki_weight *weight; /* NULL: of none yet */
    float scale;
    lki_update update;
    projection kind;
} decision;

static void decide_all(const lks_model *model, const lki_weight *weight, decision *now)
{
    lki_update *update = &now->update;
    now->weight = weight;
    *update = weight->rule->update;
    update->scale = now->scale; /* LARS takes the gradient itself */
    update->along = 0;
    const bool projects = update->optim.kind == LKS_ADAMP;
    now->kind = projects ? decide(model, weight, &update->along) : NONE;
    if (!projects) update->lr *= trust_of(model, weight, update);
    update->projected = now->kind != NONE;
}

static void update_rows(lks_model *model, int worker, const lki_stretch *stretch, int64_t first,
                        int64_t count, void *user)
{
    decision *now = user;
    const lki_weight *weight = stretch->weight;
    const int64_t row = row_of(weight);
    if (now->weight != weight) decide_all(model, weight, now);
    for (const int64_t end = first + count; first < end; first += row) {
        const int64_t at = weight->row + first / row;
        if (now->kind == BY_ROW)
            now->update.along = factor_along(model->row_sum[LKI_ROW_PARAMETER][at],
                                             model->row_sum[LKI_ROW_DIRECTION][at],
                                             model->opts.optim.epsilon);
        lki_update_range(model, weight, &now->update, first, first + stretch->kept, row,
                         stretch->mean + first);
    }
    lki_lap(model->worker[worker].local.laps, lki_lap_of(weight->stage, LKI_PHASE_UPDATE));
}

bool lki_adamp_update(lks_model *model, int worker, float scale)
{
    decision none = {.scale = scale};
    lki_tour tour = lki_tour_own(model, worker);
    tour.by_rows = true;
    tour.visit = measure_rows;
    tour.user = &scale;
    lki_tour_take(model, worker, &tour);
    if (!lki_spread_sums(model, worker, true)) return false;
    lki_lap(model->worker[worker].local.laps, LKI_LAP_WAIT_GRADIENTS);
    tour.renews = true;
    tour.visit = update_rows;
    tour.user = &none;
    lki_tour_take(model, worker, &tour);
    return true;
}

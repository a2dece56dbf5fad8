/* AdamP: optim.h has the formulas. Rows of a parameter are shared among the workers; what the whole
 * of it decides follows from sums of every row, by the tree over rows. */
#include <math.h>

#include "model/model.h"
#include "numeric/tree.h"

enum { GRADIENT, PARAMETER, BOTH, DIRECTION }; /* of row_sum */

/* Rows of one dimension would be single numbers: such a parameter is one row, and not projected. */
int64_t lki_adamp_rows(const lki_weight *weight)
{
    if (!weight->trained) return 0;
    return weight->shape.ndim > 1 ? weight->shape.dim[0] : 1;
}

/* Blocks from the row's start, by the tree. */
static double adamp_dot(const lki_backend *backend, int64_t count, const float *a, const float *b)
{
    if (count <= LKI_UPDATE_BLOCK) return backend->dot(count, a, b);
    const int64_t blocks = (count + LKI_UPDATE_BLOCK - 1) / LKI_UPDATE_BLOCK;
    const int64_t left = lki_tree_split(0, blocks) * LKI_UPDATE_BLOCK;
    const double sum = adamp_dot(backend, left, a, b);
    return sum + adamp_dot(backend, count - left, a + left, b + left);
}

/* The sums of a row, and its direction in the gradient's place. */
static void measure_row(lks_model *model, lki_weight *weight, int64_t row, const lki_update *update)
{
    const lki_backend *backend = model->program.backend;
    const int64_t count = weight->count / lki_adamp_rows(weight), at = weight->row + row;
    const float *value = weight->value + row * count;
    float *gradient = weight->gradient + row * count;
    float *state[LKI_MAX_STATES] = {weight->state[0] + row * count, weight->state[1] + row * count};
    const double scale = (double)update->scale;
    model->row_sum[GRADIENT][at] = scale * scale * adamp_dot(backend, count, gradient, gradient);
    model->row_sum[PARAMETER][at] = adamp_dot(backend, count, value, value);
    model->row_sum[BOTH][at] = scale * adamp_dot(backend, count, gradient, value);
    backend->direction(update, count, state, gradient);
    model->row_sum[DIRECTION][at] = adamp_dot(backend, count, value, gradient);
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
        const double c = cosine(model->row_sum[GRADIENT][r], model->row_sum[PARAMETER][r],
                                model->row_sum[BOTH][r], epsilon);
        if (!(c <= largest)) largest = c;
    }
    if (largest < delta / sqrt((double)(weight->count / rows))) return BY_ROW;
    for (int i = 0; i < LKI_ROW_SUMS; i++)
        sum[i] = lki_tree_sum(model->row_sum[i] + weight->row, 0, rows);
    if (!(cosine(sum[GRADIENT], sum[PARAMETER], sum[BOTH], epsilon) <
          delta / sqrt((double)weight->count)))
        return NONE;
    *along = factor_along(sum[PARAMETER], sum[DIRECTION], epsilon);
    return WHOLE;
}

static void update_rows(lks_model *model, int worker, lki_weight *weight, lki_update *update)
{
    const int64_t rows = lki_adamp_rows(weight), count = weight->count / rows;
    float along = 0;
    const projection kind = decide(model, weight, &along);
    update->projected = kind != NONE;
    int64_t begin, end;
    lki_own_part(model, worker, rows, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        const int64_t at = weight->row + r;
        update->along = kind != BY_ROW ? along
                                       : factor_along(model->row_sum[PARAMETER][at],
                                                      model->row_sum[DIRECTION][at],
                                                      model->opts.optim.epsilon);
        lki_update_range(model, weight, update, r * count, count, weight->gradient + r * count);
    }
}

bool lki_adamp_update(lks_model *model, int worker, float scale)
{
    lki_laps *laps = model->worker[worker].local.laps;
    for (int w = 0; w < model->weights; w++) {
        lki_weight *weight = &model->weight[w];
        if (!weight->trained) continue;
        lki_update update = weight->rule->update;
        update.scale = scale;
        int64_t begin, end;
        lki_own_part(model, worker, lki_adamp_rows(weight), &begin, &end);
        for (int64_t r = begin; r < end; r++) measure_row(model, weight, r, &update);
        lki_lap(laps, lki_lap_of(weight->stage, LKI_PHASE_UPDATE));
    }
    if (!lki_model_meet(model, worker)) return false;
    lki_lap(laps, LKI_LAP_WAIT_GRADIENTS);
    for (int w = 0; w < model->weights; w++) {
        if (!model->weight[w].trained) continue;
        lki_update update = model->weight[w].rule->update;
        update_rows(model, worker, &model->weight[w], &update);
        lki_lap(laps, lki_lap_of(model->weight[w].stage, LKI_PHASE_UPDATE));
    }
    return true;
}

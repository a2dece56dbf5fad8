/*
 * dense: y[n][u] = sum over k of x[n][k] * w[u][k], + b[u], where n counts rows: samples, or positions of samples.
 *
 * A replica's gradient is one sum in double over all of its rows in ascending order, rounded to
 * f32 once; so the kernel takes a share whole, and by rows the same
 * function forms the same bits for any range of elements.
 */
#include "backend/ref/kernels.h"

#include <string.h>

#include "numeric/bf16.h"
#include "numeric/tree.h"

enum { COLUMNS = 256, LEVELS = 32 }; /* of the tree over replicas: their number is an int */

typedef struct dense {
    lki_plan base;
    int64_t units, width;
    int64_t rows; /* of a sample */
    bool bf16;    /* factors are rounded to bfloat16 */
} dense;

static double factor(const dense *p, float x)
{
    return (double)(p->bf16 ? lki_bf16_round(x) : x);
}

/* What rows keeps in the workspace. */
typedef struct scratch {
    double row[COLUMNS];
    float level[LEVELS][COLUMNS];
} scratch;

static lks_status ref_dense_plan(lki_plan *plan_)
{
    dense *p = (dense *)plan_;
    const lki_param *weight = &plan_->cluster.node[0]->param[0];

    p->units = weight->shape.dim[0];
    p->width = weight->shape.dim[1];
    p->rows = lki_ref_in(plan_) / p->width;
    const size_t row = (size_t)p->width * sizeof(double);
    p->bf16 = plan_->switches.bf16;
    return lki_ref_needs(plan_, LKI_READS_IN, row > sizeof(scratch) ? row : sizeof(scratch));
}

static lks_status ref_dense_forward(const lki_plan *plan_, const lki_args *args)
{
    const dense *p = (const dense *)plan_;
    const float *x = args->in[0], *w = args->param[0], *b = args->param[1];
    float *y = args->out;

    for (int64_t n = 0; n < args->count * p->rows; n++) {
        for (int64_t u = 0; u < p->units; u++) {
            double sum = b != NULL ? (double)b[u] : 0.0;

            for (int64_t k = 0; k < p->width; k++)
                sum += factor(p, x[n * p->width + k]) * factor(p, w[u * p->width + k]);
            y[n * p->units + u] = lki_round(sum);
        }
    }
    return LKS_OK;
}

/* row[i] = sum over rows of dy[n][u] * x[n][first + i]. */
static void weight_row(const dense *p, const float *x, const float *dy, int64_t rows, int64_t u,
                       int64_t first, int64_t count, double *row)
{
    for (int64_t i = 0; i < count; i++) row[i] = 0.0;
    for (int64_t n = 0; n < rows; n++) {
        const double g = factor(p, dy[n * p->units + u]);

        if (g == 0.0) continue;
        for (int64_t i = 0; i < count; i++) row[i] += g * factor(p, x[n * p->width + first + i]);
    }
}

static double ref_dense_bias_sum(const dense *p, const float *dy, int64_t rows, int64_t u)
{
    double sum = 0.0;

    for (int64_t n = 0; n < rows; n++) sum += (double)dy[n * p->units + u];
    return sum;
}

static lks_status ref_dense_backward(const lki_plan *plan_, const lki_args *args)
{
    const dense *p = (const dense *)plan_;
    const float *x = args->in[0], *w = args->param[0], *dy = args->d_out;
    float *dx = args->d_in[0], *dw = args->d_param[0], *db = args->d_param[1];
    double *row = args->workspace;

    for (int64_t u = 0; u < p->units && dw != NULL; u++) {
        weight_row(p, x, dy, args->count * p->rows, u, 0, p->width, row);
        lki_ref_put_all(dw + u * p->width, false, row, p->width);
    }
    for (int64_t u = 0; u < p->units && db != NULL; u++)
        db[u] = lki_round(ref_dense_bias_sum(p, dy, args->count * p->rows, u));
    for (int64_t n = 0; n < args->count * p->rows && dx != NULL; n++) {
        for (int64_t k = 0; k < p->width; k++) row[k] = 0.0;
        for (int64_t u = 0; u < p->units; u++) {
            const double g = factor(p, dy[n * p->units + u]);

            if (g == 0.0) continue;
            for (int64_t k = 0; k < p->width; k++) row[k] += g * factor(p, w[u * p->width + k]);
        }
        lki_ref_put_all(dx + n * p->width, args->add_in & 1u, row, p->width);
    }
    return LKS_OK;
}

/* The elements of one row that are formed together: of the weight, or the bias (param 1). */
typedef struct stretch {
    const dense *p;
    const lki_rows *rows;
    int param;
    int64_t u, first, count;
} stretch;

/* The gradient of one replica, or false where it is absent. */
static bool leaf(const stretch *s, int64_t replica, double *row, float *out)
{
    const int64_t *first = s->rows->start;
    const int64_t start = (first[replica] - first[s->rows->first]) * s->p->rows;
    const int64_t rows = (first[replica + 1] - first[replica]) * s->p->rows;
    const float *x = s->rows->in + start * s->p->width;
    const float *dy = s->rows->d_out + start * s->p->units;

    if (rows == 0) return false;
    if (s->param == 0)
        weight_row(s->p, x, dy, rows, s->u, s->first, s->count, row);
    else
        row[0] = ref_dense_bias_sum(s->p, dy, rows, s->u);
    for (int64_t i = 0; i < s->count; i++) out[i] = lki_round(row[i]);
    return true;
}

/* The node [lo, hi) of the tree into level[0], with level[1] and on as scratch. */
static bool tree_sum(const stretch *s, int64_t lo, int64_t hi, double *row, float (*level)[COLUMNS])
{
    const int64_t middle = hi - lo > 1 ? lki_tree_split(lo, hi) : lo;
    bool left, right;

    if (middle == lo) return leaf(s, lo, row, level[0]);
    left = tree_sum(s, lo, middle, row, level);
    right = tree_sum(s, middle, hi, row, left ? level + 1 : level);
    for (int64_t i = 0; left && right && i < s->count; i++) level[0][i] += level[1][i];
    return left || right;
}

/* The maximal nodes of the replicas that are here. */
static void give_sums(const stretch *s, scratch *space)
{
    const lki_rows *to = s->rows;
    const int64_t element = s->param == 0 ? s->u * s->p->width + s->first : s->u;
    lki_tree_node node;

    for (int64_t at = to->first; at < to->last; at = node.hi) {
        node = lki_tree_maximal(to->replicas, at, to->last);
        if (tree_sum(s, node.lo, node.hi, space->row, space->level))
            to->sum(to->user, node, s->param, element, s->count, space->level[0]);
    }
}

static void ref_dense_rows(const lki_plan *plan_, const lki_rows *args)
{
    const dense *p = (const dense *)plan_;

    for (int64_t u = args->row_first; u < args->row_first + args->row_count; u++) {
        for (int64_t k = 0; k < p->width; k += COLUMNS) {
            const int64_t count = p->width - k < COLUMNS ? p->width - k : COLUMNS;

            give_sums(&(stretch){p, args, 0, u, k, count}, args->workspace);
        }
        if (plan_->cluster.node[0]->param_count > 1)
            give_sums(&(stretch){p, args, 1, u, 0, 1}, args->workspace);
    }
}

const lki_kernel lki_ref_dense = {
    .plan_bytes = sizeof(dense),
    .span = LKI_SPAN_JOINT,
    .plan = ref_dense_plan,
    .forward = ref_dense_forward,
    .backward = ref_dense_backward,
    .rows = ref_dense_rows,
};

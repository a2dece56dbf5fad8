/*
 * attention: the formulas of op/layer/attention.c, one row of one head after the other, all in double. Backward forms the
 * weights of a row again: with P those behind softmax, Q those behind dropout, g = d_out,
 *
 *     d_v_j += Q_ij g_i     d_P_ij = Q_ij / P_ij (g_i . v_j)     d_s_ij = P_ij (d_P_ij - sum over j of P_ij d_P_ij)
 *     d_q_i += scale d_s_ij k_j     d_k_j += scale d_s_ij q_i
 */
#include "backend/ref/kernels.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "numeric/random.h"
#include "numeric/real.h"
#include "numeric/rotary.h"
#include "op/attention.h"

typedef struct attention {
    lki_plan base;
    lki_attention a;
    lki_bernoulli drop;
    double keep; /* 1 / (1 - probability), in f32 */
    float *turn; /* cosines, then sines: [positions][head_width / 2] each; NULL: not rotary */
    size_t turn_bytes;
} attention;

/* Of a sample, in the workspace. */
typedef struct work {
    double *x;        /* the input, queries and keys turned */
    double *d_x;      /* its gradient */
    double *p, *d_p;  /* of a row: weights, their gradients */
    uint8_t *dropped; /* of a row */
    const int32_t *tokens;
} work;

static work work_in(const attention *p, const lki_args *args)
{
    const lki_attention *a = &p->a;
    double *x = args->workspace, *d_x = x + a->positions * a->width;
    double *weights = d_x + a->positions * a->width;

    return (work){.x = x,
                  .d_x = d_x,
                  .p = weights,
                  .d_p = weights + a->positions,
                  .dropped = (uint8_t *)(weights + 2 * a->positions)};
}

static lks_status ref_attention_plan(lki_plan *plan_)
{
    attention *p = (attention *)plan_;

    p->a = lki_attention_of(plan_->cluster.node[0]);
    p->drop = lki_bernoulli_make((double)p->a.dropout);
    p->keep = (double)(float)(1.0 / (1.0 - p->drop.probability));
    const size_t doubles = (size_t)(2 * p->a.positions * (p->a.width + 1));
    LKI_TRY(lki_ref_needs(plan_, LKI_READS_IN, doubles * sizeof(double) + (size_t)p->a.positions));
    plan_->needs.state_bytes = (size_t)(p->a.positions * p->a.width) * sizeof(double);
    if (p->a.rotary == 0.0f) return LKS_OK;
    const int64_t half = p->a.positions * (p->a.head_width / 2);
    void *memory;
    p->turn_bytes = 2 * (size_t)half * sizeof(float);
    LKI_TRY(lki_alloc(plan_->context, &memory, p->turn_bytes, "rotary positions"));
    p->turn = memory;
    lki_rotary((double)p->a.rotary, p->a.positions, p->a.head_width, p->turn, p->turn + half);
    return LKS_OK;
}

static void ref_attention_release(lki_plan *plan_)
{
    attention *p = (attention *)plan_;

    if (p->turn != NULL) lki_free(plan_->context, p->turn, p->turn_bytes);
    p->turn = NULL;
}

/* Queries and keys, which stand in front of the values, by their positions, from `from` to `to`; back where sign is -1. */
static void turn_all(const attention *p, double *x, int64_t from, int64_t to, double sign)
{
    const lki_attention *a = &p->a;
    const int64_t half = a->head_width / 2;

    for (int64_t t = from; p->turn != NULL && t < to; t++) {
        const float *cosine = p->turn + t * half, *sine = cosine + a->positions * half;

        for (int64_t h = 0; h < a->heads + a->kv_heads; h++) {
            double *at = x + t * a->width + h * a->head_width;

            for (int64_t d = 0; d < half; d++) {
                const double c = (double)cosine[d], s = sign * (double)sine[d];
                const double first = at[d], second = at[d + half];

                at[d] = first * c - second * s;
                at[d + half] = second * c + first * s;
            }
        }
    }
}

static bool sees(const attention *p, const work *w, int64_t i, int64_t j)
{
    return (!p->a.causal || j <= i) && (w->tokens == NULL || w->tokens[j] != p->a.padding);
}

/* Where query, key or value of a head stand: `part` 0, 1, 2. */
static int64_t place(const attention *p, int64_t t, int64_t head, int part)
{
    const lki_attention *a = &p->a;
    const int64_t number = part == 0 ? head : a->heads + (part - 1) * a->kv_heads + head / a->group;

    return t * a->width + number * a->head_width;
}

static double dot(const double *x, const double *y, int64_t count)
{
    double sum = 0.0;

    for (int64_t d = 0; d < count; d++) sum += x[d] * y[d];
    return sum;
}

/* The weights of a row, 0 of keys that it does not see, and which of them are dropped. */
static void weigh(const attention *p, const work *w, const lki_args *args, int64_t n, int64_t head,
                  int64_t i)
{
    const lki_attention *a = &p->a;
    const double *q = w->x + place(p, i, head, 0);
    double most = -(double)INFINITY, sum = 0.0;

    for (int64_t j = 0; j < a->positions; j++) {
        if (!sees(p, w, i, j)) continue;
        w->p[j] = (double)a->scale * dot(q, w->x + place(p, j, head, 1), a->head_width);
        if (!(w->p[j] <= most)) most = w->p[j];
    }
    for (int64_t j = 0; j < a->positions; j++) {
        w->p[j] = sees(p, w, i, j) ? lki_exp(w->p[j] - most) : 0.0;
        sum += w->p[j];
    }
    for (int64_t j = 0; j < a->positions && sum != 0.0; j++) w->p[j] /= sum;
    memset(w->dropped, 0, (size_t)a->positions);
    if (args->training && a->dropout > 0.0f)
        lki_bernoulli_draw(&p->drop, p->base.random_key, args->step, (uint32_t)(args->position + n),
                           (head * a->positions + i) * a->positions, a->positions, w->dropped);
}

/* What behind dropout is left of weight j, 1 without. */
static double kept(const attention *p, const work *w, const lki_args *args, int64_t j)
{
    if (!args->training || p->a.dropout == 0.0f) return 1.0;
    return w->dropped[j] ? 0.0 : p->keep;
}

static void begin(const attention *p, work *w, const lki_args *args, int64_t n)
{
    const int64_t elements = p->a.positions * p->a.width;
    const float *x = (const float *)args->in[0] + n * elements;

    for (int64_t e = 0; e < elements; e++) w->x[e] = (double)x[e];
    turn_all(p, w->x, 0, p->a.positions, 1.0);
    if (p->a.masked) w->tokens = (const int32_t *)args->in[1] + n * p->a.positions;
}

static void row_forward(const attention *p, const work *w, const lki_args *args, int64_t n,
                        int64_t head, int64_t i, float *y)
{
    const lki_attention *a = &p->a;

    weigh(p, w, args, n, head, i);
    for (int64_t d = 0; d < a->head_width; d++) {
        double sum = 0.0;

        for (int64_t j = 0; j < a->positions; j++)
            if (w->p[j] != 0.0)
                sum += w->p[j] * kept(p, w, args, j) * w->x[place(p, j, head, 2) + d];
        y[d] = lki_round(sum);
    }
}

/* Samples are positions: the state are the rows of all up to them as `begin` has them. */
static void follow_forward(const attention *p, work *w, const lki_args *args)
{
    const lki_attention *a = &p->a;
    const float *x = args->in[0];
    float *y = args->out;

    w->x = args->state;
    for (int64_t e = 0; e < args->count * a->width; e++)
        w->x[args->at * a->width + e] = (double)x[e];
    turn_all(p, w->x, args->at, args->at + args->count, 1.0);
    for (int64_t r = 0; r < args->count * a->heads; r++)
        row_forward(p, w, args, 0, r % a->heads, args->at + r / a->heads, y + r * a->head_width);
}

static lks_status ref_attention_forward(const lki_plan *plan_, const lki_args *args)
{
    const attention *p = (const attention *)plan_;
    const lki_attention *a = &p->a;
    work w = work_in(p, args);

    if (args->state != NULL) {
        follow_forward(p, &w, args);
        return LKS_OK;
    }
    for (int64_t n = 0; n < args->count; n++) {
        begin(p, &w, args, n);
        for (int64_t r = 0; r < a->heads * a->positions; r++) {
            const int64_t head = r / a->positions, i = r % a->positions;

            row_forward(p, &w, args, n, head, i,
                        (float *)args->out +
                            ((n * a->positions + i) * a->heads + head) * a->head_width);
        }
    }
    return LKS_OK;
}

static void row_backward(const attention *p, const work *w, const lki_args *args, int64_t head,
                         int64_t i, const float *g)
{
    const lki_attention *a = &p->a;
    const double *q = w->x + place(p, i, head, 0);
    double *d_q = w->d_x + place(p, i, head, 0), mean = 0.0;

    for (int64_t j = 0; j < a->positions; j++) {
        w->d_p[j] = 0.0;
        for (int64_t d = 0; w->p[j] != 0.0 && d < a->head_width; d++) {
            w->d_p[j] += kept(p, w, args, j) * (double)g[d] * w->x[place(p, j, head, 2) + d];
            w->d_x[place(p, j, head, 2) + d] += w->p[j] * kept(p, w, args, j) * (double)g[d];
        }
        mean += w->p[j] * w->d_p[j];
    }
    for (int64_t j = 0; j < a->positions; j++) {
        const double d_s = (double)a->scale * w->p[j] * (w->d_p[j] - mean);

        for (int64_t d = 0; w->p[j] != 0.0 && d < a->head_width; d++) {
            d_q[d] += d_s * w->x[place(p, j, head, 1) + d];
            w->d_x[place(p, j, head, 1) + d] += d_s * q[d];
        }
    }
}

static lks_status ref_attention_backward(const lki_plan *plan_, const lki_args *args)
{
    const attention *p = (const attention *)plan_;
    const lki_attention *a = &p->a;
    const int64_t elements = a->positions * a->width;
    work w = work_in(p, args);

    for (int64_t n = 0; args->d_in[0] != NULL && n < args->count; n++) {
        begin(p, &w, args, n);
        memset(w.d_x, 0, (size_t)elements * sizeof *w.d_x);
        for (int64_t r = 0; r < a->heads * a->positions; r++) {
            const int64_t head = r / a->positions, i = r % a->positions;

            weigh(p, &w, args, n, head, i);
            row_backward(p, &w, args, head, i,
                         args->d_out + ((n * a->positions + i) * a->heads + head) * a->head_width);
        }
        turn_all(p, w.d_x, 0, p->a.positions, -1.0);
        lki_ref_put_all(args->d_in[0] + n * elements, args->add_in & 1u, w.d_x, elements);
    }
    return LKS_OK;
}

const lki_kernel lki_ref_attention = {
    .plan_bytes = sizeof(attention),
    .span = LKI_SPAN_EITHER,
    .follows = true,
    .plan = ref_attention_plan,
    .release = ref_attention_release,
    .forward = ref_attention_forward,
    .backward = ref_attention_backward,
};

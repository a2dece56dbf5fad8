/*
 * Bounds on the difference between a backend and ref: attention. Beside sums and products of ball.h, of a row with scores
 * s_j that err by e_j, M the largest, T keys in B + 1 blocks of 64:
 *
 *     w_j = exp(s_j - M)   A backend subtracts another number, its own maximum so far, which falls out of w / l, and
 *                          multiplies by exp(old - new maximum) where it grows, at most B times: of w the relative error
 *                          is expm1(e_j + u (|s_j - M| + D)) + (1.9 + 2.9 B) u, where D, the range of s, bounds the
 *                          sum of what it grew by. An exponential errs by 1.9u (vector/activation.h)
 *     l = sum of w_j       sum of e(w_j), and (9 + B) u l: lanes of 4 keys, 4 for adding lanes, blocks
 *     o = sum of w_j v_j   sum of e(w_j) |v_j|, and (64 + 2 B) u of the magnitudes; d_q likewise, and d_k, d_v over rows
 *     out = o / l          by an inverse: 3u; dropout's factor u
 *
 * An exponential below LKI_TINY counts as 0: so much of each w_j. Products of q and k, and of d_out and v, are those of
 * bounds_sums.c. In backward D_i, the sum of d_out out, has out's own bound.
 */
#include "check/ball.h"

#include "base/check.h"
#include "numeric/random.h"
#include "numeric/rotary.h"
#include "op/attention.h"

enum { BLOCK = 64 };

typedef struct work {
    lki_trial *t;
    lki_attention a;
    lki_bernoulli drop;
    float *cosine, *sine; /* [positions][head_width / 2], where it is rotary */
    ball *x;              /* of a sample: queries and keys turned */
    sum *d_x;             /* its gradient */
    ball *raw;            /* and as they came */
    ball *p;              /* of a row: weights behind softmax */
    uint8_t *dropped;
    const int32_t *tokens;
    double blocks; /* B */
    lki_bounds *out;
} work;

static ball rounded(const sum *s, double roundings)
{
    return ball_of(s->v, s->e + 1.1 * roundings * LKI_U * s->magnitude);
}

static int64_t place(const work *w, int64_t t, int64_t head, int part)
{
    const lki_attention *a = &w->a;
    const int64_t number = part == 0 ? head : a->heads + (part - 1) * a->kv_heads + head / a->group;

    return t * a->width + number * a->head_width;
}

static bool turned(const work *w, int64_t channel)
{
    return w->a.rotary > 0.0f && channel < (w->a.heads + w->a.kv_heads) * w->a.head_width;
}

/* Element e of a sample by its position, or back. */
static ball turn(const work *w, const ball *x, int64_t e, bool back)
{
    const int64_t width = w->a.head_width, half = width / 2, t = e / w->a.width;
    const int64_t d = e % w->a.width % width;

    if (!turned(w, e % w->a.width)) return x[e];
    const int64_t at = t * half + d % half;
    const ball c = exact(w->cosine, at), s = exact(w->sine, at);
    const bool first = d < half;
    const ball other = times(x[first ? e + half : e - half], s);
    return first == back ? plus(times(x[e], c), other) : less(times(x[e], c), other);
}

static bool sees(const work *w, int64_t i, int64_t j)
{
    return (!w->a.causal || j <= i) && (w->tokens == NULL || w->tokens[j] != w->a.padding);
}

static ball score(const work *w, int64_t head, int64_t i, int64_t j)
{
    sum s = {0};

    for (int64_t d = 0; d < w->a.head_width; d++)
        add_term(&s, w->x[place(w, i, head, 0) + d], w->x[place(w, j, head, 1) + d]);
    return times(total(&s, w->a.head_width), exact(&w->a.scale, 0));
}

/* The weights of a row; false: it sees no key. */
static bool weigh(const work *w, int64_t n, int64_t head, int64_t i)
{
    const lki_attention *a = &w->a;
    double most = -(double)INFINITY, least = (double)INFINITY;
    sum l = {0};

    for (int64_t j = 0; j < a->positions; j++) {
        if (!sees(w, i, j)) continue;
        w->p[j] = score(w, head, i, j);
        most = fmax(most, w->p[j].v);
        least = fmin(least, w->p[j].v);
    }
    for (int64_t j = 0; j < a->positions; j++) {
        const double far = w->p[j].v - most, value = exp(far);

        if (!sees(w, i, j)) w->p[j] = (ball){0};
        if (!sees(w, i, j)) continue;
        const double e = expm1(w->p[j].e +
                               LKI_U * (fabs(far) + (w->blocks > 0.0 ? most - least : 0.0)));
        w->p[j] = ball_of(value, value * (e + (1.9 + 2.9 * w->blocks) * LKI_U));
        add_term(&l, w->p[j], (ball){1.0, 0.0});
    }
    if (l.v == 0.0) return false;
    const ball whole = rounded(&l, 9.0 + w->blocks);
    for (int64_t j = 0; j < a->positions; j++) {
        const double p = w->p[j].v / whole.v;

        if (sees(w, i, j))
            w->p[j] = ball_of(p, (w->p[j].e + p * whole.e) / whole.v + 3.0 * LKI_U * p);
    }
    for (int64_t j = 0; j < a->positions; j++) w->dropped[j] = 0;
    if (w->t->training && a->dropout > 0.0f)
        lki_bernoulli_draw(&w->drop, w->t->key, w->t->step, (uint32_t)(w->t->position + n),
                           (head * a->positions + i) * a->positions, a->positions, w->dropped);
    return true;
}

/* What dropout multiplies weights by. */
static ball kept(const work *w, int64_t j)
{
    if (!w->t->training || w->a.dropout == 0.0f) return (ball){1.0, 0.0};
    return (ball){w->dropped[j] ? 0.0 : (double)(float)(1.0 / (1.0 - w->drop.probability)), 0.0};
}

static ball out_of(const work *w, int64_t head, int64_t d)
{
    sum o = {0};

    for (int64_t j = 0; j < w->a.positions; j++)
        if (w->p[j].v > 0.0)
            add_term(&o, times(w->p[j], kept(w, j)), w->x[place(w, j, head, 2) + d]);
    return rounded(&o, BLOCK + 2.0 * w->blocks + 1.0);
}

static void row_backward(const work *w, int64_t head, int64_t i, const float *g)
{
    const lki_attention *a = &w->a;
    sum mean = {0};

    for (int64_t d = 0; d < a->head_width; d++) add_term(&mean, exact(g, d), out_of(w, head, d));
    const ball middle = rounded(&mean, (double)a->head_width / 16.0 + 6.0);
    for (int64_t j = 0; j < a->positions; j++) {
        sum d_p = {0};

        if (!(w->p[j].v > 0.0)) continue;
        const ball weight = times(w->p[j], kept(w, j));
        for (int64_t d = 0; d < a->head_width; d++) {
            add_term(&d_p, exact(g, d), w->x[place(w, j, head, 2) + d]);
            add_term(&w->d_x[place(w, j, head, 2) + d], weight, exact(g, d));
        }
        const ball slope = times(total(&d_p, a->head_width), kept(w, j));
        const ball d_s = times(times(w->p[j], less(slope, middle)), exact(&a->scale, 0));
        for (int64_t d = 0; d < a->head_width; d++) {
            add_term(&w->d_x[place(w, i, head, 0) + d], d_s, w->x[place(w, j, head, 1) + d]);
            add_term(&w->d_x[place(w, j, head, 1) + d], d_s, w->x[place(w, i, head, 0) + d]);
        }
    }
}

static void sample_bounds(work *w, int64_t n, bool backward)
{
    const lki_attention *a = &w->a;
    const int64_t elements = a->positions * a->width, out = a->heads * a->head_width;
    const float *x = (const float *)w->t->in[0] + n * elements;
    ball *raw = w->raw;

    if (a->masked) w->tokens = (const int32_t *)w->t->in[1] + n * a->positions;
    for (int64_t e = 0; e < elements; e++) raw[e] = exact(x, e);
    for (int64_t e = 0; e < elements; e++) w->x[e] = turn(w, raw, e, false);
    for (int64_t e = 0; e < elements; e++) w->d_x[e] = (sum){0};
    for (int64_t head = 0; head < a->heads; head++) {
        for (int64_t i = 0; i < a->positions; i++) {
            const int64_t at = (n * a->positions + i) * out + head * a->head_width;

            if (!weigh(w, n, head, i)) continue;
            for (int64_t d = 0; d < a->head_width; d++)
                w->out->out[at + d] = stored(out_of(w, head, d));
            if (backward) row_backward(w, head, i, w->t->d_out + at);
        }
    }
    if (!backward) return;
    const double terms = BLOCK + (1.0 + w->blocks) * (double)a->group + 4.0;
    for (int64_t e = 0; e < elements; e++) raw[e] = rounded(&w->d_x[e], terms);
    for (int64_t e = 0; e < elements; e++)
        w->out->d_in[0][n * elements + e] = stored(turn(w, raw, e, true));
}

static lks_status prepare(work *w)
{
    const int64_t elements = w->a.positions * w->a.width;
    const size_t balls = sizeof(ball) * (size_t)elements, half = sizeof(float) * (size_t)elements;
    void *memory;

    LKI_TRY(lki_trial_memory(w->t, &memory, balls));
    w->x = memory;
    LKI_TRY(lki_trial_memory(w->t, &memory, balls));
    w->raw = memory;
    LKI_TRY(lki_trial_memory(w->t, &memory, sizeof(sum) * (size_t)elements));
    w->d_x = memory;
    LKI_TRY(lki_trial_memory(w->t, &memory, sizeof(ball) * (size_t)w->a.positions));
    w->p = memory;
    LKI_TRY(lki_trial_memory(w->t, &memory, (size_t)w->a.positions));
    w->dropped = memory;
    LKI_TRY(lki_trial_memory(w->t, &memory, half));
    w->cosine = memory;
    LKI_TRY(lki_trial_memory(w->t, &memory, half));
    w->sine = memory;
    if (w->a.rotary > 0.0f)
        lki_rotary((double)w->a.rotary, w->a.positions, w->a.head_width, w->cosine, w->sine);
    return LKS_OK;
}

lks_status lki_bounds_attention(lki_trial *t, bool backward, const lki_trial_result *ref,
                                lki_bounds *out)
{
    work w = {.t = t, .a = lki_attention_of(lki_trial_first(t)), .out = out};

    (void)ref;
    w.drop = lki_bernoulli_make((double)w.a.dropout);
    w.blocks = (double)((w.a.positions - 1) / BLOCK);
    LKI_TRY(prepare(&w));
    for (int64_t n = 0; n < t->count; n++) sample_bounds(&w, n, backward);
    return LKS_OK;
}

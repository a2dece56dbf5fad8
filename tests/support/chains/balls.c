/* Networks of balls: the order of things, and what backends err by. */
#include "support/chains/balls.h"

#include <math.h>

#include "numeric/random.h"
#include "support/chains/balls_ops.h"

/* A replica at work. */
typedef struct share {
    const lkt_balls_of *of;
    lkt_balls *to;
    int64_t first, count; /* samples */
    lkt_ball *d_out[LKT_BALLS_NODES];
} share;

static lkt_ball *make(lkt_balls *b, int64_t count)
{
    lkt_ball *balls = lkt_case_memory(&b->memory, (size_t)count * sizeof *balls);
    for (int64_t i = 0; i < count; i++) balls[i] = (lkt_ball){0};
    return balls;
}

static int64_t per_sample(const lks_tensor *t)
{
    return lks_shape_elements(&t->shape);
}

/* The largest number of a ball: sums of products err by what their factors may be, so that a center of 0 would say
 * that they do not. */
static float largest(lkt_ball b)
{
    return (float)(b.v < 0 ? b.v - b.r : b.v + b.r);
}

/* The node alone: what a backend may err by. */
static void bounds_of(const share *s, const lki_node *node, bool backward, lkt_case *c,
                      lkt_bounds *bounds)
{
    const bool products = node->op == LKI_OP_CONV2D || node->op == LKI_OP_DENSE;
    lkt_result ref;
    *c = (lkt_case){.context = s->of->context,
                    .cluster = lki_cluster_of(node),
                    .switches = s->of->switches,
                    .count = s->count,
                    .training = s->of->training};
    for (int i = 0; i < node->in_count; i++) {
        const lki_node *from = node->in[i]->node;
        const int64_t per = per_sample(node->in[i]);
        if (from->op == LKI_OP_INPUT && node->in[i]->dtype == LKS_U8) {
            c->in[i] = (uint8_t *)s->of->x + s->first * per;
            continue;
        }
        const lkt_ball *in = s->to->out[from->index] + s->first * per;
        float *values = c->in[i] = lkt_case_memory(c, (size_t)(s->count * per) * sizeof *values);
        for (int64_t k = 0; k < s->count * per; k++)
            values[k] = products ? largest(in[k]) : (float)in[k].v;
    }
    for (int i = 0; i < node->param_count; i++) c->param[i] = s->of->param[node->index][i];
    for (int i = 0; i < node->buffer_count; i++) c->buffer[i] = s->of->buffer[node->index][i];
    const int64_t outs = s->count * per_sample(&node->out);
    c->d_out = lkt_case_memory(c, (size_t)outs * sizeof *c->d_out);
    for (int64_t k = 0; k < outs; k++)
        c->d_out[k] = backward ? largest(s->d_out[node->index][k]) : 0.0f;
    lkt_run(c, lkt_ref(), NULL, &(lkt_how){.no_backward = !backward}, &ref);
    lkt_bounds_make(c, &(lkt_how){.no_backward = !backward}, &ref, bounds);
}

static void widen(lkt_ball *balls, const double *bound, int64_t count)
{
    for (int64_t i = 0; i < count; i++) balls[i].r += bound[i] + 2 * (double)LKI_TINY;
}

/* Which elements dropout drops. */
static uint8_t *draw(const share *s, const lki_node *node)
{
    const lks_dropout_opts *opts = node->attr;
    const lki_bernoulli event = lki_bernoulli_make((double)opts->probability);
    const uint64_t key = lki_random_key(s->of->seed, lki_op_get(node->op)->name, node->name);
    const int64_t per = per_sample(&node->out);
    uint8_t *dropped = lkt_case_memory(&s->to->memory, (size_t)(s->count * per));
    for (int64_t n = 0; n < s->count; n++)
        lki_bernoulli_draw(&event, key, s->of->step, (uint32_t)(s->first + n), 0, per,
                           dropped + n * per);
    return dropped;
}

static lkt_balls_task task_of(const share *s, const lki_node *node)
{
    lkt_balls_task t = {.node = node,
                        .count = s->count,
                        .training = s->of->training,
                        .out = s->to->out[node->index] + s->first * per_sample(&node->out),
                        .d_out = s->d_out[node->index]};
    for (int i = 0; i < node->in_count; i++) {
        const int from = node->in[i]->node->index;
        t.in[i] = s->to->out[from] + s->first * per_sample(node->in[i]);
        t.d_in[i] = s->d_out[from];
    }
    for (int i = 0; i < node->param_count; i++) {
        t.param[i] = s->of->param[node->index][i];
        t.d_param[i] = s->to->d_param[node->index][i];
    }
    for (int i = 0; i < node->buffer_count; i++) t.buffer[i] = s->of->buffer[node->index][i];
    if (node->op == LKI_OP_DROPOUT) t.dropped = t.training ? draw(s, node) : NULL;
    return t;
}

static void forward(share *s, const lki_node *node)
{
    const int64_t per = per_sample(&node->out), count = s->count * per;
    lkt_ball *out = s->to->out[node->index] + s->first * per;
    if (node->op == LKI_OP_INPUT || node->op == LKI_OP_TARGET) {
        const float *from = (node->op == LKI_OP_INPUT ? (const float *)s->of->x : s->of->y) +
                            s->first * per;
        for (int64_t k = 0; k < count; k++)
            out[k].v = node->out.dtype == LKS_U8
                           ? (double)((const uint8_t *)s->of->x)[s->first * per + k]
                           : (double)from[k];
        return;
    }
    lkt_bounds bounds;
    lkt_case c;
    const lkt_balls_task t = task_of(s, node);
    lkt_balls_forward(&t);
    if (s->of->bare) return;
    bounds_of(s, node, false, &c, &bounds);
    widen(out, bounds.out, count);
    lki_trial_release(&c);
}

static void backward(share *s, const lki_node *node)
{
    if (node->op == LKI_OP_INPUT || node->op == LKI_OP_TARGET || !node->needs_gradient ||
        lki_op_get(node->op)->stops_gradient)
        return;
    const int64_t per = per_sample(&node->out);
    for (int64_t k = 0; k < s->count * per; k++) /* adding what several readers give rounds */
        s->d_out[node->index][k].r += 0x1p-24 * fabs(s->d_out[node->index][k].v);
    lkt_bounds bounds;
    lkt_case c;
    lkt_balls_task t = task_of(s, node);
    for (int i = 0; i < node->in_count; i++)
        t.d_in[i] = make(s->to, s->count * per_sample(node->in[i]));
    for (int i = 0; i < node->param_count; i++)
        t.d_param[i] = make(s->to, lks_shape_elements(&node->param[i].shape));
    lkt_balls_backward(&t);
    bounds_of(s, node, true, &c, &bounds);
    for (int i = 0; i < node->in_count; i++) {
        const int64_t count = s->count * per_sample(node->in[i]);
        const lki_node *from = node->in[i]->node;
        if (from->op == LKI_OP_TARGET || node->in[i]->dtype != LKS_F32) continue;
        widen(t.d_in[i], bounds.d_in[i], count);
        for (int64_t k = 0; k < count; k++) lkt_ball_add(&s->d_out[from->index][k], t.d_in[i][k]);
    }
    for (int i = 0; i < node->param_count; i++) {
        const int64_t count = lks_shape_elements(&node->param[i].shape);
        widen(t.d_param[i], bounds.d_param[i], count);
        for (int64_t k = 0; k < count; k++)
            lkt_ball_add(&s->to->d_param[node->index][i][k], t.d_param[i][k]);
    }
    lki_trial_release(&c);
}

static void run_share(const lkt_balls_of *of, lkt_balls *to, int64_t first, int64_t count)
{
    share s = {.of = of, .to = to, .first = first, .count = count};
    const lki_node *nodes[LKT_BALLS_NODES];
    int number = 0;
    for (const lki_node *node = of->graph->first; node != NULL; node = node->next) {
        s.d_out[node->index] = make(to, count * per_sample(&node->out));
        nodes[number++] = node;
        forward(&s, node);
    }
    for (int64_t n = 0; n < count; n++) {
        lkt_ball_add(&to->loss, to->out[of->loss->node->index][first + n]);
        s.d_out[of->loss->node->index][n].v = 1;
    }
    for (int n = number - 1; n >= 0 && of->training && !of->bare; n--) backward(&s, nodes[n]);
}

void lkt_balls_make(const lkt_balls_of *of, lkt_balls *out)
{
    *out = (lkt_balls){.memory = {.context = of->context}};
    for (const lki_node *node = of->graph->first; node != NULL; node = node->next) {
        assert_true(node->index < LKT_BALLS_NODES);
        out->out[node->index] = make(out, of->count * per_sample(&node->out));
        for (int i = 0; i < node->param_count && of->training; i++)
            out->d_param[node->index][i] = make(out, lks_shape_elements(&node->param[i].shape));
    }
    for (int r = 0; r < of->replicas; r++) {
        const int64_t first = r * of->count / of->replicas;
        const int64_t count = (r + 1) * of->count / of->replicas - first;
        if (count > 0) run_share(of, out, first, count);
    }
    /* The tree adds in f32, and the mean is another rounding, of 1 / count, too. */
    const double roundings = 0x1p-24 * (of->replicas + 3), n = (double)of->count;
    for (const lki_node *node = of->graph->first; node != NULL; node = node->next)
        for (int i = 0; i < node->param_count && of->training; i++)
            for (int64_t k = 0; k < lks_shape_elements(&node->param[i].shape); k++) {
                lkt_ball *g = &out->d_param[node->index][i][k];
                *g = (lkt_ball){g->v / n,
                                (g->r + roundings * (fabs(g->v) + g->r)) / n + (double)LKI_TINY};
            }
    out->loss = (lkt_ball){out->loss.v / n, out->loss.r / n + 0x1p-32};
}

void lkt_balls_free(lkt_balls *balls)
{
    lki_trial_release(&balls->memory);
}
